//! The processor pool: settling, retries, time limits, batches, workers, shutdown, fairness and back-pressure.
//!
//! | what it must do | shown by |
//! | --- | --- |
//! | batch handlers over the batch get | `each_alert_of_a_batch_is_settled_by_its_own_result`, `only_the_culprit_of_a_batch_that_panics_is_rejected`, `a_missing_result_is_a_failed_try` |
//! | back-off with jitter by deferral; worker and the source's other alerts are free | `the_worker_is_free_while_an_alert_waits_for_its_next_try`, `the_back_off_doubles_up_to_its_most_with_jitter`, `a_handler_may_say_when_to_try_again` |
//! | a time limit and a panic are failed tries, then a dead letter | `a_panic_and_a_time_out_are_failed_tries` |
//! | nothing is settled half-way, nothing twice | `a_time_limit_settles_nothing_of_a_batch_half_way`; the ledger of every test here refuses a second settlement |
//! | the number of workers changes while they run | `the_number_of_workers_changes_while_they_run` |
//! | graceful and bounded shutdown | `a_drain_works_off_what_is_queued`, `a_shutdown_ends_what_is_in_progress_and_releases_the_rest`, `a_shutdown_cuts_off_what_takes_too_long`, `alerts_between_two_tries_are_released_by_a_shutdown` |
//! | order per object (`key = "object"`, limit 1), fast with 1,000,000 objects | `a_key_with_limit_one_keeps_its_order_over_retries`; the bench's `distinct_keys` |
//! | one byte budget; a full source stands still alone | `a_full_source_stands_still_alone`, `what_is_held_never_adds_up_to_more_than_the_budget`, `one_budget_covers_the_queue_and_the_retries`, `prefetch_queue_and_retries_of_all_sources_share_one_budget` in `src/cli/sources.rs` |
//! | a flood does not delay a trickle | `a_flood_delays_a_trickle_by_one_handler_time_at_most`; in real time `examples/fair_sources.rs` |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../common/fixtures.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod fixtures;

#[path = "../../examples/fair_sources.rs"]
#[allow(dead_code)]
mod fair_sources;

#[path = "../common/recorder.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod recorder;

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
    fn settle(&self, key: u64, _raw: RawAlert, what: Settlement) {
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
        Delivery::new(meta, AckToken::new(Arc::new(self.clone()), n, raw)).map(|_| packet)
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
