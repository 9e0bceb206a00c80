//! The bulk writer: batches of packets into the archive, each byte once, however many write at once.
//!
//! How it works: rows are made and hashed off the async threads; new container headers are stored first, each in a
//! transaction of its own; then one transaction per batch asks which rows are there already and copies the others in.
//! Where another writer stored one of them in between, the copy fails as a whole, and the batch is done again row by row
//! with ON CONFLICT, while nobody else writes. So is a batch with several packets of one alert id.
//!
//! Invariants: a result is given only after the commit; writers never deadlock (`store` says why); of several
//! writers of the same packet exactly one counts it as archived; revisions of an alert id are numbered without gaps; one
//! row that the database refuses does not keep the others out. Must not know of deliveries, queues or files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sqlx::PgPool;

use super::row::AlertRow;
pub use super::row::Incoming;
use super::store::{Placed, store};
use super::{Archive, ArchiveError, error};

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// It is new.
    Archived,
    /// The same alert id with the same bytes was there already; nothing was stored.
    Duplicate,
    /// The same alert id was there with other bytes; both are kept.
    Revision,
}

/// Counts of a writer since it was made, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IngestStats {
    /// New packets.
    pub archived: u64,
    /// Packets that were there already.
    pub duplicates: u64,
    /// Packets of an alert id that was there with other bytes.
    pub revisions: u64,
    /// Packets cut out of a container of several records, whatever became of them.
    pub reframed: u64,
    /// Packets stored under a schema version that the mapping does not know.
    pub unknown_schema: u64,
    /// Bytes of all packets written or found, bytes.
    pub bytes: u64,
}

/// Writes packets into the archive, over connections of its own. Cheap to clone: clones share connections and counts.
#[derive(Clone)]
pub struct ArchiveWriter {
    archive: Archive,
    pool: PgPool,
    counters: Arc<Counters>,
}

impl ArchiveWriter {
    /// Makes a writer that uses at most `connections` at once: as many batches are written at the same time.
    pub fn new(archive: &Archive, connections: u32) -> Self {
        Self {
            archive: archive.clone(),
            pool: archive.private_pool(connections),
            counters: Arc::default(),
        }
    }

    /// Writes a batch and says what became of each packet, in the order given.
    ///
    /// # Errors
    /// Per packet: [`ArchiveError::class`] says `Transient` (nothing was stored: give it again), `Poison` (the database
    /// refuses this packet), or `Fatal`.
    ///
    /// # Cancel safety
    /// The batch is written all the same, and not counted; giving it again finds duplicates.
    pub async fn write(&self, batch: Vec<Incoming>) -> Vec<Result<Written, Arc<ArchiveError>>> {
        let facts: Vec<Facts> = batch.iter().map(Facts::of).collect();
        let (archive, pool) = (self.archive.clone(), self.pool.clone());
        let written = tokio::spawn(async move { write_batch(&archive, &pool, batch).await }).await;
        let written = written.unwrap_or_else(|join| {
            if join.is_panic() {
                std::panic::resume_unwind(join.into_panic());
            }
            fail_all(facts.len(), sqlx::Error::WorkerCrashed.into())
        });
        for (facts, result) in facts.iter().zip(&written) {
            if let Ok(written) = result {
                self.counters.count(facts, *written);
            }
        }
        written
    }

    /// Gives the counts so far.
    pub fn stats(&self) -> IngestStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let c = &self.counters;
        IngestStats {
            archived: of(&c.archived),
            duplicates: of(&c.duplicates),
            revisions: of(&c.revisions),
            reframed: of(&c.reframed),
            unknown_schema: of(&c.unknown_schema),
            bytes: of(&c.bytes),
        }
    }
}

/// What the counts need of a packet after it was handed over.
struct Facts {
    bytes: u64,
    reframed: bool,
    schema_is_known: bool,
}

impl Facts {
    fn of(incoming: &Incoming) -> Self {
        let bytes = incoming.bytes.len() as u64;
        Self {
            bytes,
            reframed: incoming.reframed,
            schema_is_known: incoming.schema_is_known,
        }
    }
}

#[derive(Default)]
struct Counters {
    archived: AtomicU64,
    duplicates: AtomicU64,
    revisions: AtomicU64,
    reframed: AtomicU64,
    unknown_schema: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    fn count(&self, facts: &Facts, written: Written) {
        let counter = match written {
            Written::Archived => &self.archived,
            Written::Duplicate => &self.duplicates,
            Written::Revision => &self.revisions,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(facts.bytes, Ordering::Relaxed);
        self.reframed.fetch_add(u64::from(facts.reframed), Ordering::Relaxed);
        if !facts.schema_is_known && written != Written::Duplicate {
            self.unknown_schema.fetch_add(1, Ordering::Relaxed);
        }
    }
}

type Results = Vec<Result<Written, Arc<ArchiveError>>>;

fn fail_all(count: usize, error: ArchiveError) -> Results {
    let error = Arc::new(error);
    (0..count).map(|_| Err(error.clone())).collect()
}

async fn write_batch(archive: &Archive, pool: &PgPool, batch: Vec<Incoming>) -> Results {
    let count = batch.len();
    // Hashing takes about 50 us a packet.
    let made = tokio::task::spawn_blocking(move || make_rows(&batch)).await;
    let Ok((mut rows, mut results)) = made else {
        return fail_all(count, sqlx::Error::WorkerCrashed.into());
    };
    for row in &mut rows {
        if let Err(error) = store_container_header(archive, pool, row).await {
            return fail_all(count, error);
        }
    }
    let twins = take_twins(&mut rows);
    write_parts(pool, rows, &mut results).await;
    for (twin, first) in twins {
        let result = match results.get(first) {
            Some(Ok(_)) => Ok(Written::Duplicate),
            Some(Err(error)) => Err(error.clone()),
            None => continue,
        };
        if let Some(slot) = results.get_mut(twin) {
            *slot = result;
        }
    }
    results
}

/// Makes the rows, in key order, and a list of results that holds what could not be made a row.
fn make_rows(batch: &[Incoming]) -> (Vec<Placed>, Results) {
    let mut rows = Vec::with_capacity(batch.len());
    let mut results = Vec::with_capacity(batch.len());
    for (place, incoming) in batch.iter().enumerate() {
        match AlertRow::new(incoming) {
            Some(row) => {
                rows.push(Placed {
                    place,
                    row,
                    packet: incoming.bytes.clone(),
                });
                results.push(Ok(Written::Archived));
            }
            None => results.push(Err(Arc::new(ArchiveError::Unstorable {
                cause: "it is larger than 1 GiB".into(),
            }))),
        }
    }
    rows.sort_by(|a, b| a.row.by_key(&b.row));
    (rows, results)
}

async fn store_container_header(archive: &Archive, pool: &PgPool, placed: &mut Placed) -> Result<(), ArchiveError> {
    let Placed { row, packet, .. } = placed;
    if row.container.is_empty() {
        return Ok(());
    }
    row.container_header = archive.container_headers.id_of(pool, &row.container).await?;
    if row.container_header.is_none() || !rebuilds(&row.container, &row.body, packet) {
        row.store_whole(packet);
    }
    Ok(())
}

/// Whether header and body, put together as reading does it, are the packet.
fn rebuilds(header: &Bytes, body: &Bytes, packet: &Bytes) -> bool {
    packet.strip_prefix(&header[..]).is_some_and(|rest| rest == body)
}

/// Takes out the rows that are in the batch twice: (its place, the first one's place).
fn take_twins(rows: &mut Vec<Placed>) -> Vec<(usize, usize)> {
    let mut twins = Vec::new();
    rows.dedup_by(|later, first| {
        let twin = later.row.key() == first.row.key();
        if twin {
            twins.push((later.place, first.place));
        }
        twin
    });
    twins
}

/// Stores the rows in one transaction; where the database refuses one of them, in halves, until it stands alone.
async fn write_parts(pool: &PgPool, rows: Vec<Placed>, results: &mut Results) {
    let mut parts = vec![rows];
    while let Some(mut part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        match store(pool, &mut part).await {
            Ok(written) => {
                for (placed, written) in part.iter().zip(written) {
                    set(results, placed.place, Ok(written));
                }
            }
            Err(refusal) if error::is_refusal_of_content(&refusal) && part.len() > 1 => {
                parts.push(part.split_off(part.len() / 2));
                parts.push(part);
            }
            Err(failure) => {
                let failure = Arc::new(if error::is_refusal_of_content(&failure) {
                    ArchiveError::Unstorable {
                        cause: failure.to_string(),
                    }
                } else {
                    ArchiveError::Database(failure)
                });
                for placed in &part {
                    set(results, placed.place, Err(failure.clone()));
                }
            }
        }
    }
}

fn set(results: &mut Results, place: usize, result: Result<Written, Arc<ArchiveError>>) {
    if let Some(slot) = results.get_mut(place) {
        *slot = result;
    }
}
