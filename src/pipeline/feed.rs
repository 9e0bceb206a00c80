//! The decode stage: takes a stream's alerts, decodes them off the async threads, puts the packets into the queue.
//!
//! Invariants: a packet that does not decode is rejected with its reason and never reaches a handler; a tombstone (an
//! empty payload from Kafka) is acknowledged and counted. Must not know of handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;

use crate::ack::Rejection;
use crate::decode::Decoder;
use crate::decode::packet::Packet;
use crate::delivery::Delivery;
use crate::record::{Lane, RawAlert};
use crate::source::SourceError;
use crate::stream::AlertStream;

use super::clock::Deliveries;

/// Deliveries decoded in one turn on a blocking thread: the hop there is shared, and no delivery waits for others
/// that are not there yet.
const TURN: usize = 64;

/// What the decode stage counted of one source.
#[derive(Debug, Default)]
pub(super) struct FeedCounts {
    /// Empty payloads from Kafka, acknowledged.
    pub(super) tombstones: AtomicU64,
}

/// One source's way into the queue.
pub(super) struct Feed<P> {
    pub(super) alerts: AlertStream,
    pub(super) decoder: Decoder,
    pub(super) deliveries: Arc<Deliveries>,
    pub(super) counts: Arc<FeedCounts>,
    /// Puts a packet into the queue; dropped when the queue is closed, which releases it.
    pub(super) put: P,
}

impl<P: Fn(Delivery<Packet>)> Feed<P> {
    /// Feeds until the stream ends.
    ///
    /// # Errors
    /// The source's failure.
    ///
    /// # Cancel safety
    /// The deliveries under way are released.
    pub(super) async fn run(self) -> Result<(), SourceError> {
        let Self {
            alerts,
            decoder,
            deliveries,
            counts,
            put,
        } = self;
        let mut turns = alerts.ready_chunks(TURN);
        while let Some(turn) = turns.next().await {
            deliveries.happened();
            let (decoder, counts) = (decoder.clone(), counts.clone());
            let decoding = tokio::task::spawn_blocking(move || decode(turn, &decoder, &counts));
            let (packets, end) = match decoding.await {
                Ok(decoded) => decoded,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            };
            packets.into_iter().for_each(&put);
            end?;
        }
        Ok(())
    }
}

type Turn = Vec<Result<Delivery<RawAlert>, SourceError>>;

fn decode(turn: Turn, decoder: &Decoder, counts: &FeedCounts) -> (Vec<Delivery<Packet>>, Result<(), SourceError>) {
    let mut packets = Vec::with_capacity(turn.len());
    for item in turn {
        let delivery = match item {
            Ok(delivery) => delivery,
            Err(error) => return (packets, Err(error)),
        };
        if is_tombstone(&delivery) {
            counts.tombstones.fetch_add(1, Ordering::Relaxed);
            delivery.ack();
            continue;
        }
        match delivery.try_map(|raw| decoder.decode(&raw.payload)) {
            Ok(packet) => packets.push(packet),
            Err((delivery, error)) => delivery.reject_as(Rejection::new(error.reason(), error.to_string())),
        }
    }
    (packets, Ok(()))
}

fn is_tombstone(delivery: &Delivery<RawAlert>) -> bool {
    delivery.get().payload.is_empty() && matches!(delivery.position().lane, Lane::Kafka { .. })
}
