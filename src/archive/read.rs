//! Reading packets back by their numbers: streamed, in the order asked for, byte for byte.
//!
//! How it works: an owned task reads piece after piece, each in one statement with its numbers sorted, so that the heap is
//! walked forward. A piece has as many alerts as should come to some megabytes, by the sizes of the piece before it. What
//! is next in the order asked for goes out in batches while the statement goes on; what came too early waits in memory.
//! A statement never waits for the reader, so a slow one holds no statement and no transaction open: the next piece is
//! read when at most one is left to be taken.
//!
//! Invariants: what is not there any more is left out, never an error; one copy into the payload's `Bytes`; at most two
//! pieces are in memory. Must not know what a packet says.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use sqlx::postgres::PgRow;
use sqlx::{Row, ValueRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::origin::OriginColumns;
use super::{Archive, ArchiveError};
use crate::record::RawAlert;

/// What a piece should come to, bytes of packets.
const PIECE_BYTES: usize = 8 << 20;
/// Alerts of the first piece, whose sizes nobody knows.
const FIRST_PIECE: usize = 32;
/// A piece has at most so many times the alerts of the one before it.
const GROWTH: usize = 4;
/// The most alerts of a piece.
const PIECE_MAX: usize = 512;
/// Pieces that wait for the reader, the one that it is in included.
const PIECES: usize = 2;
/// Alerts that are handed over at once: one wake-up for all of them.
const BATCH: usize = 16;

const PACKETS: &str = "SELECT id, container_header, body, reframed, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, \
    kafka_timestamp_by, kafka_key, kafka_headers FROM alert WHERE id = ANY($1)";
/// Places of the columns of [`PACKETS`] that every row has.
const ID: usize = 0;
const CONTAINER_HEADER: usize = 1;
const BODY: usize = 2;
const REFRAMED: usize = 3;
const TOPIC: usize = 4;

/// An archived alert and its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// The number it was asked for by.
    pub id: i64,
    /// Its bytes and Kafka origin.
    pub raw: RawAlert,
}

/// Some of the alerts, in order; the last of a piece brings the permit that makes room for another piece.
struct Batch {
    alerts: Vec<Fetched>,
    end_of_piece: Option<OwnedSemaphorePermit>,
}

/// The alerts of [`Archive::fetch`], as a stream. Dropping it ends the reading after the piece in work.
pub struct Fetch {
    /// Bounded by the pieces.
    batches: mpsc::UnboundedReceiver<Result<Batch, ArchiveError>>,
    current: std::vec::IntoIter<Fetched>,
}

impl Fetch {
    /// Says whether the next alert is here already, so that taking it waits for nothing.
    pub(crate) fn has_next(&self) -> bool {
        self.current.len() > 0 || !self.batches.is_empty()
    }
}

impl Stream for Fetch {
    type Item = Result<Fetched, ArchiveError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(fetched) = self.current.next() {
                return Poll::Ready(Some(Ok(fetched)));
            }
            match ready!(self.batches.poll_recv(cx)) {
                Some(Ok(batch)) => {
                    drop(batch.end_of_piece);
                    self.current = batch.alerts.into_iter();
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Archive {
    /// Reads the alerts of these numbers, in this order. A number that is not there (any more) is left out; one given
    /// twice comes once. After an error the stream ends.
    ///
    /// # Cancel safety
    /// Taking the next item takes nothing when dropped. The statements run in a task of their own.
    pub fn fetch(&self, mut ids: Vec<i64>) -> Fetch {
        let (sender, batches) = mpsc::unbounded_channel();
        let archive = self.clone();
        let mut seen = HashSet::with_capacity(ids.len());
        ids.retain(|id| seen.insert(*id));
        tokio::spawn(async move {
            if let Err(error) = read_pieces(&archive, &ids, &sender).await {
                // Nobody listens any more: then nobody needs the error.
                let _ = sender.send(Err(error));
            }
        });
        Fetch {
            batches,
            current: Vec::new().into_iter(),
        }
    }
}

type Sender = mpsc::UnboundedSender<Result<Batch, ArchiveError>>;

async fn read_pieces(archive: &Archive, mut ids: &[i64], sender: &Sender) -> Result<(), ArchiveError> {
    let room = Arc::new(Semaphore::new(PIECES));
    let (mut count, mut headers) = (FIRST_PIECE, HashMap::new());
    while !ids.is_empty() {
        // The semaphore is never closed; dropping the reader gives its permits back.
        let Ok(permit) = room.clone().acquire_owned().await else {
            break;
        };
        if sender.is_closed() {
            break;
        }
        let (piece, rest) = ids.split_at(count.min(ids.len()));
        let bytes = Piece::new(archive, &mut headers, piece, sender).read(permit).await?;
        count = next_count(piece.len(), bytes);
        ids = rest;
    }
    Ok(())
}

/// How many alerts the next piece has after one of so many alerts and bytes.
fn next_count(alerts: usize, bytes: usize) -> usize {
    let fitting = PIECE_BYTES.saturating_mul(alerts) / bytes.max(1);
    fitting.clamp(1, PIECE_MAX.min(alerts.saturating_mul(GROWTH)))
}

/// A piece while it is read.
struct Piece<'a> {
    archive: &'a Archive,
    headers: &'a mut HashMap<i64, Bytes>,
    order: &'a [i64],
    sender: &'a Sender,
    /// How much of the order has gone out.
    next: usize,
    /// What came before its turn.
    early: HashMap<i64, RawAlert>,
    batch: Vec<Fetched>,
    bytes: usize,
}

impl<'a> Piece<'a> {
    fn new(archive: &'a Archive, headers: &'a mut HashMap<i64, Bytes>, order: &'a [i64], sender: &'a Sender) -> Self {
        Self {
            archive,
            headers,
            order,
            sender,
            next: 0,
            early: HashMap::new(),
            batch: Vec::with_capacity(BATCH),
            bytes: 0,
        }
    }

    /// Reads it to its end and gives its bytes.
    async fn read(mut self, end_of_piece: OwnedSemaphorePermit) -> Result<usize, ArchiveError> {
        let archive = self.archive;
        let mut sorted = self.order.to_vec();
        sorted.sort_unstable();
        // Rows whose container header is met for the first time: it is asked for when this statement is done.
        let mut headless = Vec::new();
        {
            let mut rows = sqlx::query(PACKETS).bind(sorted).fetch(&archive.pool);
            while let Some(row) = rows.try_next().await? {
                match self.header_of(&row)? {
                    Some(header) => self.take(&row, &header)?,
                    None => headless.push(row),
                }
            }
        }
        if !headless.is_empty() {
            self.ask_for_headers(&headless).await?;
            for row in &headless {
                let header = self.header_of(row)?.ok_or_else(|| gone(row))?;
                self.take(row, &header)?;
            }
        }
        // Past those that are not there.
        while self.next < self.order.len() {
            self.hand_over_next();
            self.next += 1;
        }
        let alerts = std::mem::take(&mut self.batch);
        // It fails when nobody listens any more.
        let _ = self.sender.send(Ok(Batch {
            alerts,
            end_of_piece: Some(end_of_piece),
        }));
        Ok(self.bytes)
    }

    /// Gives the container header of a row, empty where it has none; `None` when it has to be asked for.
    fn header_of(&mut self, row: &PgRow) -> Result<Option<Bytes>, ArchiveError> {
        let Some(id) = row.try_get::<Option<i64>, _>(CONTAINER_HEADER)? else {
            return Ok(Some(Bytes::new()));
        };
        if let Some(known) = self.headers.get(&id) {
            return Ok(Some(known.clone()));
        }
        let cached = self.archive.container_headers.cached(id);
        if let Some(header) = &cached {
            self.headers.insert(id, header.clone());
        }
        Ok(cached)
    }

    async fn ask_for_headers(&mut self, rows: &[PgRow]) -> Result<(), ArchiveError> {
        let mut ids = rows
            .iter()
            .filter_map(|row| row.try_get::<Option<i64>, _>(CONTAINER_HEADER).transpose())
            .collect::<Result<Vec<i64>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        let archive = self.archive;
        let asked = archive.container_headers.by_id(&archive.pool, &ids).await?;
        self.headers.extend(asked);
        Ok(())
    }

    /// Takes a row, and hands over whatever is next by now.
    fn take(&mut self, row: &PgRow, header: &[u8]) -> Result<(), ArchiveError> {
        let (id, raw) = (row.try_get(ID)?, raw_alert(self.archive, row, header)?);
        self.bytes += raw.payload.len();
        self.early.insert(id, raw);
        while self.hand_over_next() {
            self.next += 1;
        }
        Ok(())
    }

    /// Hands over the next in the order if it is here.
    fn hand_over_next(&mut self) -> bool {
        let Some(&id) = self.order.get(self.next) else {
            return false;
        };
        let Some(raw) = self.early.remove(&id) else {
            return false;
        };
        self.batch.push(Fetched { id, raw });
        if self.batch.len() == BATCH {
            let alerts = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
            // It fails when nobody listens any more: then the rest of the piece is read for nobody.
            let _ = self.sender.send(Ok(Batch {
                alerts,
                end_of_piece: None,
            }));
        }
        true
    }
}

fn gone(row: &PgRow) -> ArchiveError {
    let id: Option<i64> = row.try_get(CONTAINER_HEADER).unwrap_or_default();
    ArchiveError::Damaged {
        what: format!("container header {} is gone", id.unwrap_or_default()),
    }
}

fn raw_alert(archive: &Archive, row: &PgRow, header: &[u8]) -> Result<RawAlert, ArchiveError> {
    let from_kafka = !row.try_get_raw(TOPIC)?.is_null();
    Ok(RawAlert {
        payload: archive.payloads.join(header, row.try_get(BODY)?),
        origin: if from_kafka {
            OriginColumns::of_row(row)?.into_origin()?
        } else {
            None
        },
        reframed: row.try_get(REFRAMED)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_as_many_alerts_as_should_fit_by_the_one_before() {
        assert_eq!(next_count(FIRST_PIECE, FIRST_PIECE * 70_000), PIECE_BYTES / 70_000);
        assert_eq!(next_count(100, 100 * PIECE_BYTES), 1);
        assert_eq!(next_count(32, 32), 128, "it grows step by step");
        assert_eq!(next_count(500, 0), PIECE_MAX);
    }
}
