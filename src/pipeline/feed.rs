//! The decode stage: takes a stream's alerts, decodes them off the async threads, puts the packets into the queue.
//!
//! How it works: what is ready is decoded in turns on a blocking thread. A packet whose schema a registry is still asked
//! for is held, and with it whatever its lane delivers meanwhile; other lanes go on. When the stream closes, what is held
//! is released.
//! Invariants: a packet that does not decode is rejected with its reason and never reaches a handler; a tombstone (an
//! empty payload from Kafka) is acknowledged and counted. Must not know of handlers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::decode::packet::Packet;
use crate::decode::{DecodeError, Decoder};
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
        let mut held = Held::default();
        let mut resolving = FuturesUnordered::new();
        loop {
            let (turn, end) = tokio::select! {
                turn = turns.next() => {
                    let Some(turn) = turn else { return Ok(()) };
                    deliveries.happened();
                    split(turn)
                }
                Some(id) = resolving.next() => (held.take(id), Ok(())),
            };
            let turn = held.behind(turn);
            let (decoder_there, counts) = (decoder.clone(), counts.clone());
            let decoding = tokio::task::spawn_blocking(move || decode(turn, &decoder_there, &counts));
            let decoded = match decoding.await {
                Ok(decoded) => decoded,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            };
            decoded.packets.into_iter().for_each(&put);
            for (id, delivery) in decoded.pending {
                if held.hold(id, delivery) {
                    let decoder = decoder.clone();
                    resolving.push(async move {
                        decoder.resolve(id).await;
                        id
                    });
                }
            }
            end?;
        }
    }
}

/// Deliveries that wait for a schema, per lane in their order. The byte budget bounds them.
#[derive(Default)]
struct Held {
    lanes: HashMap<Lane, (u32, Vec<Delivery<RawAlert>>)>,
}

impl Held {
    /// Keeps what stands behind a held delivery of its lane; gives the rest.
    fn behind(&mut self, turn: Vec<Delivery<RawAlert>>) -> Vec<Delivery<RawAlert>> {
        let mut free = Vec::with_capacity(turn.len());
        for delivery in turn {
            match self.lanes.get_mut(&delivery.position().lane) {
                Some((_, waiting)) => waiting.push(delivery),
                None => free.push(delivery),
            }
        }
        free
    }

    /// Holds a delivery, and says whether it is the first that waits for this schema.
    fn hold(&mut self, id: u32, delivery: Delivery<RawAlert>) -> bool {
        let first = !self.lanes.values().any(|(waits_for, _)| *waits_for == id);
        let lane = delivery.position().lane.clone();
        self.lanes
            .entry(lane)
            .or_insert_with(|| (id, Vec::new()))
            .1
            .push(delivery);
        first
    }

    /// Takes what waits for a schema.
    fn take(&mut self, id: u32) -> Vec<Delivery<RawAlert>> {
        let lanes: Vec<Lane> = self
            .lanes
            .iter()
            .filter(|(_, (waits_for, _))| *waits_for == id)
            .map(|(lane, _)| lane.clone())
            .collect();
        lanes
            .iter()
            .filter_map(|lane| self.lanes.remove(lane))
            .flat_map(|(_, waiting)| waiting)
            .collect()
    }
}

/// Takes the source's failure, which is a stream's last item, from a turn.
fn split(turn: Vec<Result<Delivery<RawAlert>, SourceError>>) -> (Vec<Delivery<RawAlert>>, Result<(), SourceError>) {
    let mut deliveries = Vec::with_capacity(turn.len());
    for item in turn {
        match item {
            Ok(delivery) => deliveries.push(delivery),
            Err(error) => return (deliveries, Err(error)),
        }
    }
    (deliveries, Ok(()))
}

#[derive(Default)]
struct Decoded {
    packets: Vec<Delivery<Packet>>,
    pending: Vec<(u32, Delivery<RawAlert>)>,
}

fn decode(turn: Vec<Delivery<RawAlert>>, decoder: &Decoder, counts: &FeedCounts) -> Decoded {
    let mut decoded = Decoded::default();
    for delivery in turn {
        if is_tombstone(&delivery) {
            counts.tombstones.fetch_add(1, Ordering::Relaxed);
            delivery.ack();
            continue;
        }
        match delivery.try_map(|raw| decoder.decode(&raw.payload)) {
            Ok(packet) => decoded.packets.push(packet),
            Err((delivery, DecodeError::SchemaPending { id })) => decoded.pending.push((id, delivery)),
            Err((delivery, error)) => delivery.reject_as(error.into()),
        }
    }
    decoded
}

fn is_tombstone(delivery: &Delivery<RawAlert>) -> bool {
    delivery.get().payload.is_empty() && matches!(delivery.position().lane, Lane::Kafka { .. })
}
