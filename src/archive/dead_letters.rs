//! Dead letters in Postgres: alerts that will never be done, kept with their bytes until somebody drops them.
//!
//! Invariants: a letter's identity is (source, position, sha256 of its bytes); storing it again changes nothing; letters
//! are locked in the order of their identity, so concurrent writers never deadlock. Must not know why a letter is dead.

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat, Utc};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};

use super::origin::OriginColumns;
use super::{Archive, ArchiveError, to_completion};
use crate::dead_letter::{DeadLetter, DeadLetterStore};
use crate::error::BoxError;
use crate::record::{Lane, RawAlert};

/// How many entries [`DeadLetters::page`] gives at most.
pub const PAGE: usize = 1_000;

const INSERT: &str = "INSERT INTO dead_letter (source, position, path, sha256, reason, message, tries, attempts, bytes, reframed, \
    kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_timestamp_by, kafka_key, kafka_headers, payload) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) \
    ON CONFLICT (source, position, sha256) DO NOTHING";
const LIST: &str = "SELECT id, source, position, path, reason, message, tries, attempts, sha256, bytes, at FROM dead_letter \
    WHERE id > $1 ORDER BY id LIMIT $2";
const SHOW: &str = "SELECT id, source, position, path, reason, message, tries, attempts, sha256, bytes, at FROM dead_letter \
    WHERE id = $1";
const PACKET: &str = "SELECT payload, reframed, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, \
    kafka_timestamp_by, kafka_key, kafka_headers FROM dead_letter WHERE id = $1";
const DROP: &str = "DELETE FROM dead_letter WHERE id = $1";

/// A stored dead letter, without its bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredLetter {
    /// Its number, by which it is shown, exported and dropped.
    pub id: i64,
    /// The source that delivered it.
    pub source: String,
    /// Where it stood.
    pub position: String,
    /// Of a file: `PATH[!MEMBER]`.
    pub path: Option<String>,
    /// The reason's class.
    pub reason: String,
    /// What happened, for a person.
    pub message: String,
    /// Handler calls made in its last delivery; 0 when no handler saw it.
    pub tries: i32,
    /// The delivery's number.
    pub attempts: i32,
    /// Hex SHA-256 of its bytes.
    pub sha256: String,
    /// Its length, bytes.
    pub bytes: i32,
    /// When it was stored; written as RFC 3339 in UTC.
    #[serde(serialize_with = "rfc_3339")]
    pub at: DateTime<Utc>,
}

fn rfc_3339<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

impl FromRow<'_, PgRow> for StoredLetter {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        let hex = row
            .try_get::<&[u8], _>("sha256")?
            .iter()
            .fold(String::new(), |mut hex, byte| {
                // Writing to a string never fails.
                let _ = write!(hex, "{byte:02x}");
                hex
            });
        Ok(Self {
            id: row.try_get("id")?,
            source: row.try_get("source")?,
            position: row.try_get("position")?,
            path: row.try_get("path")?,
            reason: row.try_get("reason")?,
            message: row.try_get("message")?,
            tries: row.try_get("tries")?,
            attempts: row.try_get("attempts")?,
            sha256: hex,
            bytes: row.try_get("bytes")?,
            at: row.try_get("at")?,
        })
    }
}

/// The dead letters of an archive; cheap to clone. Every method's work goes on when its future is dropped.
#[derive(Clone)]
pub struct DeadLetters(Archive);

impl Archive {
    /// Gives the archive's dead letters.
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters(self.clone())
    }
}

impl DeadLetters {
    /// Gives the letters numbered above `after`, oldest first, at most [`PAGE`]: start at 0, go on with the last id.
    ///
    /// # Errors
    /// [`ArchiveError::Database`].
    pub async fn page(&self, after: i64) -> Result<Vec<StoredLetter>, ArchiveError> {
        let pool = self.0.pool.clone();
        to_completion(async move {
            Ok(sqlx::query_as(LIST)
                .bind(after)
                .bind(PAGE as i64)
                .fetch_all(&pool)
                .await?)
        })
        .await
    }

    /// Gives one letter; `None` when there is none of this number.
    ///
    /// # Errors
    /// [`ArchiveError::Database`].
    pub async fn show(&self, id: i64) -> Result<Option<StoredLetter>, ArchiveError> {
        let pool = self.0.pool.clone();
        to_completion(async move { Ok(sqlx::query_as(SHOW).bind(id).fetch_optional(&pool).await?) }).await
    }

    /// Gives a letter's bytes and Kafka origin, for exporting it or trying it again; `None` when there is none of this
    /// number.
    ///
    /// # Errors
    /// [`ArchiveError::Database`].
    pub async fn packet(&self, id: i64) -> Result<Option<RawAlert>, ArchiveError> {
        let pool = self.0.pool.clone();
        to_completion(async move {
            let Some(row) = sqlx::query(PACKET).bind(id).fetch_optional(&pool).await? else {
                return Ok(None);
            };
            Ok(Some(RawAlert {
                payload: row.try_get::<Vec<u8>, _>("payload")?.into(),
                origin: OriginColumns::of_row(&row)?.into_origin()?,
                reframed: row.try_get("reframed")?,
            }))
        })
        .await
    }

    /// Drops a letter: it was done after all, or nobody wants it. Says whether it was there.
    ///
    /// # Errors
    /// [`ArchiveError::Database`].
    pub async fn drop_letter(&self, id: i64) -> Result<Dropped, ArchiveError> {
        let pool = self.0.pool.clone();
        to_completion(async move {
            let dropped = sqlx::query(DROP).bind(id).execute(&pool).await?.rows_affected();
            Ok(if dropped == 0 { Dropped::Unknown } else { Dropped::Done })
        })
        .await
    }
}

/// What became of a letter that was to be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// It is gone.
    Done,
    /// There was none of this number.
    Unknown,
}

impl DeadLetterStore for DeadLetters {
    fn store<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), BoxError>> {
        let (pool, letters) = (self.0.pool.clone(), letters.to_vec());
        let work = to_completion(async move {
            let mut transaction = pool.begin().await?;
            insert(&mut transaction, &letters).await?;
            Ok(transaction.commit().await?)
        });
        work.map(|result| result.map_err(BoxError::from)).boxed()
    }
}

/// Stores letters inside the caller's transaction, and says how many were new.
///
/// # Errors
/// The server's.
pub async fn insert(connection: &mut PgConnection, letters: &[DeadLetter]) -> Result<u64, sqlx::Error> {
    let mut ordered: Vec<(String, Vec<u8>, &DeadLetter)> = letters
        .iter()
        .map(|letter| {
            (
                letter.position.to_string(),
                Sha256::digest(&letter.raw.payload).to_vec(),
                letter,
            )
        })
        .collect();
    ordered.sort_by(|a, b| (a.2.source.as_str(), &a.0, &a.1).cmp(&(b.2.source.as_str(), &b.0, &b.1)));
    let mut new = 0;
    for (position, sha256, letter) in ordered {
        new += insert_one(connection, &position, &sha256, letter).await?;
    }
    Ok(new)
}

async fn insert_one(
    connection: &mut PgConnection,
    position: &str,
    sha256: &[u8],
    letter: &DeadLetter,
) -> Result<u64, sqlx::Error> {
    let origin = letter.raw.origin.as_ref().map(OriginColumns::from).unwrap_or_default();
    let path = match &letter.position.lane {
        Lane::File(path) => Some(without_nul(path)),
        _ => None,
    };
    let query = sqlx::query(INSERT)
        .bind(without_nul(letter.source.as_str()))
        .bind(without_nul(position))
        .bind(path)
        .bind(sha256)
        .bind(without_nul(&letter.why.reason))
        .bind(without_nul(&letter.why.message))
        .bind(i32::try_from(letter.why.tries).unwrap_or(i32::MAX))
        .bind(i32::try_from(letter.attempt).unwrap_or(i32::MAX))
        .bind(i32::try_from(letter.raw.payload.len()).unwrap_or(i32::MAX))
        .bind(letter.raw.reframed)
        .bind(origin.topic)
        .bind(origin.partition)
        .bind(origin.offset)
        .bind(origin.timestamp)
        .bind(origin.timestamp_by)
        .bind(origin.key.as_deref())
        .bind(origin.headers)
        .bind(&letter.raw.payload[..]);
    Ok(query.execute(connection).await?.rows_affected())
}

/// Postgres' text holds every character but NUL, and a message may quote a damaged packet.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
