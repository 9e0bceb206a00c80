//! Reading packets back by their numbers: streamed, in the order asked for, byte for byte.
//!
//! How it works: an owned task first asks for sizes and container headers (which reads no packet), cuts the list into
//! pieces of bounded bytes, and reads each piece in one statement, numbers sorted, so that the heap is walked forward. The piece is put
//! into the order asked for in memory and handed over whole. A reader that is slow therefore holds no statement and no
//! transaction open, and at most two pieces wait for it.
//!
//! Invariants: what is not there any more is left out, never an error; one copy into the payload's `Bytes`. Must not
//! know what a packet says.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use sqlx::Row;
use sqlx::postgres::{PgPool, PgRow};
use tokio::sync::mpsc;

use super::origin::OriginColumns;
use super::{Archive, ArchiveError};
use crate::record::RawAlert;

/// The most bytes of packets read in one statement; a single larger one is read alone.
const PIECE_BYTES: i64 = 8 << 20;
/// The most rows whose sizes are asked for at once.
const SIZED: usize = 10_000;

const SIZES: &str = "SELECT id, bytes, container_header FROM alert WHERE id = ANY($1)";
const PACKETS: &str = "SELECT id, container_header, body, reframed, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, \
    kafka_timestamp_by, kafka_key, kafka_headers FROM alert WHERE id = ANY($1)";

/// An archived alert and its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// The number it was asked for by.
    pub id: i64,
    /// Its bytes and Kafka origin.
    pub raw: RawAlert,
}

/// The alerts of [`Archive::fetch`], as a stream. Dropping it ends the reading after the piece in work.
pub struct Fetch {
    pieces: mpsc::Receiver<Result<Vec<Fetched>, ArchiveError>>,
    current: std::vec::IntoIter<Fetched>,
}

impl Stream for Fetch {
    type Item = Result<Fetched, ArchiveError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(fetched) = self.current.next() {
                return Poll::Ready(Some(Ok(fetched)));
            }
            match ready!(self.pieces.poll_recv(cx)) {
                Some(Ok(piece)) => self.current = piece.into_iter(),
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
    pub fn fetch(&self, ids: Vec<i64>) -> Fetch {
        let (sender, pieces) = mpsc::channel(1);
        let archive = self.clone();
        tokio::spawn(async move {
            if let Err(error) = read_pieces(&archive, &ids, &sender).await {
                // Nobody listens any more: then nobody needs the error.
                let _ = sender.send(Err(error)).await;
            }
        });
        Fetch {
            pieces,
            current: Vec::new().into_iter(),
        }
    }
}

async fn read_pieces(
    archive: &Archive,
    ids: &[i64],
    sender: &mpsc::Sender<Result<Vec<Fetched>, ArchiveError>>,
) -> Result<(), ArchiveError> {
    for ids in ids.chunks(SIZED) {
        let sized: Vec<(i64, i32, Option<i64>)> = sqlx::query_as(SIZES).bind(ids).fetch_all(&archive.pool).await?;
        let used: BTreeSet<i64> = sized.iter().filter_map(|(_, _, header)| *header).collect();
        let used: Vec<i64> = used.into_iter().collect();
        let headers = archive.container_headers.by_id(&archive.pool, &used).await?;
        for piece in cut(ids, sized.into_iter().map(|(id, bytes, _)| (id, bytes)).collect()) {
            let fetched = read_piece(&archive.pool, &headers, piece).await?;
            if sender.send(Ok(fetched)).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Cuts the numbers that are there into pieces of bounded bytes; the order stays.
fn cut(ids: &[i64], mut sizes: HashMap<i64, i32>) -> Vec<Vec<i64>> {
    let mut pieces = Vec::new();
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for id in ids {
        // Removing it makes a number that is given twice come once.
        let Some(size) = sizes.remove(id).map(i64::from) else {
            continue;
        };
        if bytes + size > PIECE_BYTES && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
        piece.push(*id);
        bytes += size;
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

type Headers = HashMap<i64, Bytes>;

async fn read_piece(pool: &PgPool, headers: &Headers, order: Vec<i64>) -> Result<Vec<Fetched>, ArchiveError> {
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let mut found: HashMap<i64, RawAlert> = HashMap::with_capacity(order.len());
    let mut rows = sqlx::query(PACKETS).bind(sorted).fetch(pool);
    while let Some(row) = rows.try_next().await? {
        let header = match row.try_get::<Option<i64>, _>("container_header")? {
            None => &[][..],
            Some(id) => headers.get(&id).ok_or_else(|| ArchiveError::Damaged {
                what: format!("container header {id} is gone"),
            })?,
        };
        found.insert(row.try_get("id")?, raw_alert(&row, header)?);
    }
    Ok(order
        .into_iter()
        .filter_map(|id| {
            Some(Fetched {
                id,
                raw: found.remove(&id)?,
            })
        })
        .collect())
}

fn raw_alert(row: &PgRow, header: &[u8]) -> Result<RawAlert, ArchiveError> {
    let body: &[u8] = row.try_get("body")?;
    let mut payload = Vec::with_capacity(header.len() + body.len());
    payload.extend_from_slice(header);
    payload.extend_from_slice(body);
    Ok(RawAlert {
        payload: payload.into(),
        origin: OriginColumns::of_row(row)?.into_origin()?,
        reframed: row.try_get("reframed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_bounded_keep_the_order_and_skip_what_is_missing() {
        let third = (PIECE_BYTES / 3) as i32;
        let sizes = HashMap::from([(1, third), (2, third), (3, third), (4, third), (5, i32::MAX)]);
        let pieces = cut(&[4, 9, 2, 2, 3, 1, 5], sizes);
        assert_eq!(pieces, [vec![4, 2, 3], vec![1], vec![5]]);
        assert!(cut(&[7], HashMap::new()).is_empty());
    }
}
