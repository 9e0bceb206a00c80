//! Container headers (magic and metadata map, so the writer schema): stored once, kept in memory while in use.
//!
//! Invariants: a header is durable, in a transaction of its own, before the first alert that names it; headers are never
//! deleted, so a number once known stays right; two headers are the same only when all their bytes are.
//! Must not know what a header says.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use sqlx::PgPool;

use super::ArchiveError;

/// The most headers kept in memory; each is about 25 kB. A survey has one per schema version.
const KEPT: usize = 256;

// One statement, so one transaction: it can wait for another writer of the same header, and holds nothing meanwhile.
const INSERT: &str = "INSERT INTO container_header (sha256, header) VALUES ($1, $2) ON CONFLICT (sha256) DO NOTHING";
const BY_SHA256: &str = "SELECT id, header FROM container_header WHERE sha256 = $1";
const NEWEST: &str = "SELECT header FROM container_header ORDER BY id DESC LIMIT $1";
const BY_ID: &str = "SELECT id, header FROM container_header WHERE id = ANY($1)";

/// The headers in memory, shared by writers and readers of one archive handle.
#[derive(Default)]
pub(super) struct ContainerHeaders(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_id: HashMap<i64, Bytes>,
    by_header: HashMap<Bytes, i64>,
    last_used: Option<(i64, Bytes)>,
}

impl ContainerHeaders {
    /// Gives the number of a header, storing it first where it is new; `None` where the stored bytes are others (a
    /// sha256 collision, or damage): then the packet is stored whole.
    pub(super) async fn id_of(&self, pool: &PgPool, header: &[u8]) -> Result<Option<i64>, ArchiveError> {
        if let Some(id) = self.known_id(header) {
            return Ok(Some(id));
        }
        let sha256 = Sha256::digest(header).to_vec();
        sqlx::query(INSERT).bind(&sha256).bind(header).execute(pool).await?;
        let (id, stored): (i64, Vec<u8>) = sqlx::query_as(BY_SHA256).bind(&sha256).fetch_one(pool).await?;
        if stored != header {
            return Ok(None);
        }
        self.0.lock().keep(id, stored.into());
        Ok(Some(id))
    }

    /// Gives the headers of these numbers.
    pub(super) async fn by_id(&self, pool: &PgPool, ids: &[i64]) -> Result<HashMap<i64, Bytes>, ArchiveError> {
        let mut found: HashMap<i64, Bytes> = {
            let known = self.0.lock();
            ids.iter()
                .filter_map(|id| Some((*id, known.by_id.get(id)?.clone())))
                .collect()
        };
        let unknown: Vec<i64> = ids.iter().copied().filter(|id| !found.contains_key(id)).collect();
        if !unknown.is_empty() {
            let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(BY_ID).bind(&unknown).fetch_all(pool).await?;
            let mut known = self.0.lock();
            for (id, header) in rows {
                let header = Bytes::from(header);
                known.keep(id, header.clone());
                found.insert(id, header);
            }
        }
        Ok(found)
    }

    /// Gives the newest headers, at most as many as are kept in memory.
    pub(super) async fn newest(&self, pool: &PgPool) -> Result<Vec<Vec<u8>>, ArchiveError> {
        let most = KEPT as i64;
        Ok(sqlx::query_scalar(NEWEST).bind(most).fetch_all(pool).await?)
    }

    /// Gives a header that is in memory.
    pub(super) fn cached(&self, id: i64) -> Option<Bytes> {
        self.0.lock().by_id.get(&id).cloned()
    }

    fn known_id(&self, header: &[u8]) -> Option<i64> {
        let mut known = self.0.lock();
        // Nearly always the same header as before: comparing costs a fraction of hashing.
        if let Some((id, last)) = &known.last_used
            && last == header
        {
            return Some(*id);
        }
        let (header, id) = known
            .by_header
            .get_key_value(header)
            .map(|(header, id)| (header.clone(), *id))?;
        known.last_used = Some((id, header));
        Some(id)
    }
}

impl Known {
    fn keep(&mut self, id: i64, header: Bytes) {
        if self.by_id.len() >= KEPT {
            self.by_id.clear();
            self.by_header.clear();
        }
        self.by_id.insert(id, header.clone());
        self.by_header.insert(header, id);
    }
}
