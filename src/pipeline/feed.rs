//! The decode stage: takes a stream's alerts, decodes them off the async threads, puts the packets into the queue.
//!
//! How it works: what is ready is decoded in turns on a blocking thread. A packet whose schema a registry is still asked
//! for waits, and with it whatever its lane delivers meanwhile ([`Waiting`]); other lanes go on. When the stream closes,
//! or when a bounded one has nothing else to do for [`StreamConfig::wait_within`], what waits is released.
//! Invariants: a packet that does not decode is rejected with its reason and never reaches a handler; a tombstone (an
//! empty payload from Kafka) is acknowledged and counted. Must not know of handlers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::decode::packet::Packet;
use crate::decode::{DecodeError, Decoder};
use crate::delivery::Delivery;
use crate::record::{Lane, RawAlert};
use crate::source::SourceError;
use crate::stream::{AlertStream, StreamObserver};

use super::clock::Deliveries;
use super::waiting::{Left, Waiting};

/// Deliveries decoded in one turn on a blocking thread: the hop there is shared, and no delivery waits for others
/// that are not there yet.
const TURN: usize = 64;

/// What the decode stage counted of one source.
#[derive(Debug, Default)]
pub(super) struct FeedCounts {
    /// Empty payloads from Kafka, acknowledged.
    pub(super) tombstones: AtomicU64,
    /// What waited for a schema when the feed ended.
    pub(super) left: Mutex<Option<Left>>,
}

/// One source's way into the queue.
pub(super) struct Feed<P> {
    pub(super) alerts: AlertStream,
    pub(super) decoder: Decoder,
    pub(super) deliveries: Arc<Deliveries>,
    pub(super) counts: Arc<FeedCounts>,
    /// Tells what of the stream is open.
    pub(super) observer: StreamObserver,
    /// How long it waits for schemas when nothing else comes.
    pub(super) wait_within: Option<Duration>,
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
            observer,
            wait_within,
            put,
        } = self;
        let mut turns = alerts.ready_chunks(TURN);
        let mut waiting = Waiting::default();
        let mut resolving = FuturesUnordered::new();
        let mut last_turn = Instant::now();
        loop {
            let (turn, end) = tokio::select! {
                turn = turns.next() => {
                    let Some(turn) = turn else {
                        *counts.left.lock() = waiting.left();
                        return Ok(());
                    };
                    deliveries.happened();
                    split(turn)
                }
                Some(id) = resolving.next() => (waiting.take(id), Ok(())),
                () = over(last_turn, wait_within), if !waiting.is_empty() => {
                    let stats = observer.stats();
                    if stats.waiting == 0 && stats.open <= waiting.len() as u64 {
                        *counts.left.lock() = waiting.left();
                        return Ok(());
                    }
                    // Workers are busy with what was delivered before.
                    (Vec::new(), Ok(()))
                }
            };
            last_turn = Instant::now();
            let turn = waiting.behind(turn);
            let (decoder_there, counts_there) = (decoder.clone(), counts.clone());
            let decoding = tokio::task::spawn_blocking(move || decode(turn, &decoder_there, &counts_there));
            let decoded = match decoding.await {
                Ok(decoded) => decoded,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            };
            decoded.packets.into_iter().for_each(&put);
            for (id, delivery) in decoded.pending {
                if waiting.add(id, delivery) {
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

/// Waits until so long after the last turn; for ever without a bound.
async fn over(last_turn: Instant, within: Option<Duration>) {
    match within {
        Some(within) => tokio::time::sleep_until(last_turn + within).await,
        None => std::future::pending().await,
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
    // A lane's alerts behind one that waits wait too.
    let mut stopped: HashMap<Lane, u32> = HashMap::new();
    for delivery in turn {
        if let Some(id) = stopped.get(&delivery.position().lane) {
            decoded.pending.push((*id, delivery));
            continue;
        }
        if is_tombstone(&delivery) {
            counts.tombstones.fetch_add(1, Ordering::Relaxed);
            delivery.ack();
            continue;
        }
        match delivery.try_map(|raw| decoder.decode(&raw.payload)) {
            Ok(packet) => decoded.packets.push(packet),
            Err((delivery, DecodeError::SchemaPending { id })) => {
                stopped.insert(delivery.position().lane.clone(), id);
                decoded.pending.push((id, delivery));
            }
            Err((delivery, error)) => delivery.reject_as(error.into()),
        }
    }
    decoded
}

fn is_tombstone(delivery: &Delivery<RawAlert>) -> bool {
    delivery.get().payload.is_empty() && matches!(delivery.position().lane, Lane::Kafka { .. })
}
