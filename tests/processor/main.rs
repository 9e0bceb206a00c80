//! The processor pool: settling, retries, time limits, batches, workers, shutdown, fairness and back-pressure.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../common/fixtures.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod fixtures;

#[path = "../../examples/fair_sources.rs"]
#[allow(dead_code)]
mod fair_sources;

mod batches;
mod config;
mod pressure;
mod retries;
mod settling;
mod workers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alertstream::ack::{AckToken, Settle, Settlement};
use alertstream::decode::Decoder;
use alertstream::decode::packet::Packet;
use alertstream::delivery::{Delivery, Meta};
use alertstream::processor::{Context, HandleError, Handler, Job, ProcessorConfig, QueueKey, RetryConfig};
use alertstream::queue::FairQueue;
use alertstream::record::{Lane, Position, RawAlert, SourceId};
use futures::future::BoxFuture;

type Queue = FairQueue<QueueKey, Job>;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const LOST: u64 = 1_000_000_000;

/// Records what became of each delivery, by its number; a second settlement fails the test.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<u64, Settlement>>>);

impl Settle for Ledger {
    fn settle(&self, key: u64, what: Settlement) {
        let before = self.0.lock().unwrap().insert(key, what);
        assert_eq!(before, None, "delivery {key} was settled twice");
    }

    /// The alerts from `LOST` on are of a lane that was lost.
    fn is_open(&self, key: u64) -> bool {
        key < LOST
    }
}

impl Ledger {
    /// The n-th alert as a delivery of a source.
    fn delivery(&self, source: &str, n: u64) -> Delivery<Packet> {
        let raw = RawAlert::from_bytes(fixtures::ztf_packet(n));
        let packet = Decoder::bundled().decode(&raw.payload).unwrap();
        let at = Position {
            lane: Lane::Memory(0),
            seq: n,
        };
        let meta = Meta::new(SourceId::new(source), at, 1 + (n % 2) as u32);
        Delivery::new(raw, meta, AckToken::new(Arc::new(self.clone()), n)).map(|_| packet)
    }

    /// Puts alerts under their source's name.
    fn put(&self, queue: &Queue, source: &str, alerts: impl IntoIterator<Item = u64>) {
        for n in alerts {
            queue.try_put(source.into(), self.delivery(source, n).into()).unwrap();
        }
    }

    /// `ack`, `release` or the reason of the rejection with the number of tries; `open` without a settlement.
    fn of(&self, n: u64) -> String {
        match self.0.lock().unwrap().get(&n) {
            None => "open".to_owned(),
            Some(Settlement::Ack) => "ack".to_owned(),
            Some(Settlement::Release) => "release".to_owned(),
            Some(Settlement::Reject(why)) => format!("{} after {}", why.reason, why.tries),
        }
    }

    fn message(&self, n: u64) -> String {
        match self.0.lock().unwrap().get(&n) {
            Some(Settlement::Reject(why)) => why.message.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn all(&self, alerts: impl IntoIterator<Item = u64>) -> Vec<String> {
        alerts.into_iter().map(|n| self.of(n)).collect()
    }
}

/// A handler made of a closure over (place of the alert, number of the try).
struct Does<F>(F);

impl<F> Handler for Does<F>
where
    F: Fn(u64, u32) -> BoxFuture<'static, Result<(), HandleError>> + Send + Sync + 'static,
{
    async fn handle(&self, _alert: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
        (self.0)(cx.position.seq, cx.try_number).await
    }
}

/// One worker, three tries, one second between them.
fn config() -> ProcessorConfig {
    ProcessorConfig {
        workers: 1,
        retry: RetryConfig {
            tries: 3,
            first: Duration::from_secs(1),
            most: Duration::from_secs(60),
        },
        ..ProcessorConfig::default()
    }
}

/// Waits (on the paused clock) until nothing is queued, in progress or put off.
async fn idle(queue: &Queue) {
    while queue.stats().done < queue.stats().put {
        tokio::time::sleep(ms(10)).await;
    }
}
