//! From messages of librdkafka to raw alerts, with exactly one copy of the payload.
//!
//! Must not know of lanes or budgets.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use rdkafka::Timestamp;
use rdkafka::message::{BorrowedMessage, Headers, Message};

use crate::payloads::Payloads;
use crate::record::{KafkaOrigin, KafkaTimestamp, RawAlert, SHARED_MOST, TimestampKind, TopicPartition};

/// Messages of one lane that were copied and not yet offered.
///
/// Small payloads are put together: memory that one thread takes and another frees costs an allocator more than a small
/// payload costs to copy.
#[derive(Default)]
pub(crate) struct Run {
    from: Option<Arc<TopicPartition>>,
    /// Their payloads come last, when the pieces are complete.
    alerts: VecDeque<(u64, RawAlert)>,
    /// The part of its piece that is each one's payload, and whether it is the first of its piece.
    parts: Vec<(Range<usize>, IsFirst)>,
    pieces: Vec<Piece>,
}

type IsFirst = bool;

/// Memory with payloads in it.
enum Piece {
    /// Of small ones, and there may be room for more.
    Together(Vec<u8>),
    Alone(Bytes),
}

/// Bytes of small payloads that are put together: one that stays keeps no more than these, and a lane's span bounds how
/// many can stay.
const TOGETHER: usize = 16 << 10;

impl Run {
    pub(crate) fn is_empty(&self) -> bool {
        self.alerts.is_empty()
    }

    /// Copies a message; gives the bytes that it keeps.
    pub(crate) fn push(&mut self, message: &BorrowedMessage<'_>, topic: &Arc<str>, payloads: &Arc<Payloads>) -> usize {
        let from = self.from.get_or_insert_with(|| {
            Arc::new(TopicPartition {
                topic: topic.clone(),
                partition: message.partition(),
            })
        });
        let origin = KafkaOrigin::new(from.clone(), message.offset())
            .at(timestamp(message.timestamp()))
            .named(
                message.key().map(Bytes::copy_from_slice),
                message.headers().map(headers).unwrap_or_default(),
            );
        let payload = message.payload().unwrap_or_default();
        let kept = payload.len() + origin.named_bytes();
        let part = if payload.len() > SHARED_MOST {
            self.pieces.push(Piece::Alone(payloads.copy(payload)));
            (0..payload.len(), true)
        } else {
            self.put_together(payload, payloads)
        };
        self.parts.push(part);
        let seq = u64::try_from(message.offset()).unwrap_or(0);
        let origin = Some(origin);
        self.alerts.push_back((
            seq,
            RawAlert {
                origin,
                ..RawAlert::default()
            },
        ));
        kept
    }

    fn put_together(&mut self, payload: &[u8], payloads: &Payloads) -> (Range<usize>, IsFirst) {
        match self.pieces.last_mut() {
            Some(Piece::Together(piece)) if piece.len() + payload.len() <= TOGETHER => {
                let start = piece.len();
                piece.extend_from_slice(payload);
                (start..piece.len(), false)
            }
            _ => {
                let mut piece = payloads.take(TOGETHER);
                piece.extend_from_slice(payload);
                self.pieces.push(Piece::Together(piece));
                (0..payload.len(), true)
            }
        }
    }

    /// Makes alerts of them all, each with its seq.
    pub(crate) fn drain_into(&mut self, alerts: &mut VecDeque<(u64, RawAlert)>, payloads: &Arc<Payloads>) {
        self.from = None;
        let mut pieces = self.pieces.drain(..).map(|piece| match piece {
            Piece::Together(bytes) => payloads.lend(bytes),
            Piece::Alone(bytes) => bytes,
        });
        let mut piece = Bytes::new();
        for ((_, raw), (part, is_first)) in self.alerts.iter_mut().zip(self.parts.drain(..)) {
            if is_first {
                piece = pieces.next().unwrap_or_default();
            }
            raw.payload = piece.slice(part);
        }
        if alerts.is_empty() {
            *alerts = std::mem::take(&mut self.alerts);
        } else {
            alerts.append(&mut self.alerts);
        }
    }
}

fn headers(headers: &impl Headers) -> Vec<(String, Option<Bytes>)> {
    headers
        .iter()
        .map(|header| (header.key.to_owned(), header.value.map(Bytes::copy_from_slice)))
        .collect()
}

/// Reads a timestamp, with who set it.
pub(crate) fn timestamp(timestamp: Timestamp) -> Option<KafkaTimestamp> {
    match timestamp {
        Timestamp::NotAvailable => None,
        Timestamp::CreateTime(millis) => Some(KafkaTimestamp {
            millis,
            kind: TimestampKind::Create,
        }),
        Timestamp::LogAppendTime(millis) => Some(KafkaTimestamp {
            millis,
            kind: TimestampKind::LogAppend,
        }),
    }
}
