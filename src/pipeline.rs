//! Wiring only: streams, decode stage, fair queue, pool, and an end in stages.
//!
//! How a run ends. By itself: every stream ended, so everything is settled and committed. By enough deliveries or by
//! idleness: the streams close, what was delivered is finished, however long that takes. By the stop token (a first
//! signal), or a failure: what is in the queue gets [`Limits::drain_within`], the rest is released and not committed.
//! In each case the pool goes on until the streams have drained, and each source writes its last commit.
//! Invariants: nothing is lost on any of these ways: what is not settled is not committed. Must not know of
//! configuration files, of the command line, or what a handler does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use tokio::pin;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::decode::Decoder;
use crate::decode::packet::Packet;
use crate::delivery::Delivery;
use crate::processor::{
    AlertProcessor, BatchHandler, Job, KeyBy, Pool, PoolError, PoolObserver, PoolStats, QueueConfig, QueueKey,
};
use crate::queue::FairQueue;
use crate::record::SourceId;
use crate::source::{Source, SourceError};
use crate::stream::{StreamConfig, StreamControl, StreamObserver, StreamStats, open};
use crate::units::counted;

mod clock;
mod feed;
mod select;
mod waiting;

pub use select::{Selected, Selector};

use clock::Deliveries;
use feed::{Feed, FeedCounts};

/// What is delivered by then is finished: the handlers' own bounds end this, or a signal.
const UNHURRIED: Duration = Duration::from_secs(24 * 3600);
/// How often the queue's gauges that change with time alone are set.
const OBSERVE_EVERY: Duration = Duration::from_secs(5);
/// How often the sources are asked whether they are at rest.
const REST_LOOK: Duration = Duration::from_millis(50);

/// One source of a run.
pub struct Input {
    /// Where alerts come from.
    pub source: Box<dyn Source>,
    /// Its stream's settings.
    pub stream: StreamConfig,
    /// Says when idleness counts; `None` is always.
    pub at_rest: Option<AtRest>,
}

/// Says whether a source has delivered all that it could: a live one may be waiting for partitions of its own, or have
/// found no room.
pub type AtRest = Box<dyn Fn() -> bool + Send + Sync>;

/// When a run ends before its sources do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// After so long without a delivery, while every source is at rest.
    pub until_idle: Option<Duration>,
    /// How long deliveries may take to settle after the stop token was cancelled.
    pub drain_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            until_idle: None,
            drain_within: Duration::from_secs(8),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// What each source's stream did.
    pub sources: BTreeMap<SourceId, SourceTotals>,
    /// The stop token ended it.
    pub interrupted: bool,
    /// How long it took.
    pub took: Duration,
    /// Why it did not end well.
    pub failure: Option<PipelineError>,
}

/// What one source of a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceTotals {
    /// Deliveries and settlements.
    pub stream: StreamStats,
    /// Empty payloads from Kafka, acknowledged without a handler.
    pub tombstones: u64,
}

/// Why a run failed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// A source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A handler said that nothing will work.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The schema registry did not give schemas in time; the alerts that wait for them are not committed and come again.
    #[error(
        "source `{source_id}`: {} for a schema that the registry does not give (`{}`); nothing of them is committed",
        waits(*alerts),
        listed(schemas)
    )]
    SchemasMissing {
        /// The source.
        source_id: SourceId,
        /// How many alerts wait, with what stands behind them.
        alerts: u64,
        /// The schemas' ids.
        schemas: Vec<u32>,
    },
}

fn waits(alerts: u64) -> String {
    let verb = if alerts == 1 { "waits" } else { "wait" };
    format!("{} {verb}", counted(alerts, "alert"))
}

fn listed(schemas: &[u32]) -> String {
    schemas.iter().map(u32::to_string).collect::<Vec<_>>().join("`, `")
}

impl PipelineError {
    /// Whether all that is wrong is a last commit without an answer: its alerts will be delivered again.
    pub fn is_unconfirmed(&self) -> bool {
        matches!(self, Self::Source(SourceError::Unconfirmed { .. }))
    }
}

/// A decoder, a fair queue and a pool at work, ready for sources.
pub struct Pipeline {
    decoder: Decoder,
    queue: FairQueue<QueueKey, Job>,
    key: KeyBy,
    pool: Pool<QueueKey>,
}

impl Pipeline {
    /// Starts the pool.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start<B: BatchHandler>(processor: AlertProcessor<B>, queue: &QueueConfig, decoder: Decoder) -> Self {
        let key = queue.key;
        let queue = queue.build();
        Self {
            decoder,
            pool: processor.start(queue.clone()),
            queue,
            key,
        }
    }

    /// Gives a way to see what the pool did so far, also while [`Pipeline::run`] goes on.
    pub fn observer(&self) -> PoolObserver {
        self.pool.observer()
    }

    /// Runs the sources through decoder and pool until the run ends.
    ///
    /// # Cancel safety
    /// Run it to completion: dropped half-way, deliveries are released and streams drain by themselves.
    pub async fn run(self, inputs: Vec<Input>, limits: &Limits, stop: CancellationToken) -> Ended {
        let observing = observe(self.queue.clone());
        tokio::select! {
            biased;
            ended = self.run_to_the_end(inputs, limits, stop) => ended,
            never = observing => match never {},
        }
    }

    async fn run_to_the_end(self, inputs: Vec<Input>, limits: &Limits, stop: CancellationToken) -> Ended {
        let began = Instant::now();
        let deliveries = Arc::new(Deliveries::new());
        let mut feeds = JoinSet::new();
        let (mut running, mut at_rest) = (Vec::new(), Vec::new());
        for input in inputs {
            let wait_within = input.stream.wait_within;
            let (alerts, control) = open(input.source, input.stream);
            at_rest.extend(input.at_rest);
            let counts = Arc::new(FeedCounts::default());
            let (deliveries, put) = (deliveries.clone(), self.entrance());
            let feed = Feed {
                alerts,
                decoder: self.decoder.clone(),
                deliveries,
                counts: counts.clone(),
                observer: control.observer(),
                wait_within,
                put,
            };
            feeds.spawn(feed.run());
            running.push(Running {
                observer: control.observer(),
                control,
                counts,
            });
        }
        let why = until_end(&mut feeds, &self.pool, idle(&deliveries, limits, &at_rest), &stop).await;
        let totals: Vec<_> = running
            .iter()
            .map(|one| (one.observer.clone(), one.counts.clone()))
            .collect();
        let mut failures = settle(running, self.pool, &why, limits, &stop).await;
        while let Some(fed) = feeds.join_next().await {
            failures.extend(fed_error(fed));
        }
        let interrupted = stop.is_cancelled();
        if !interrupted {
            failures.extend(totals.iter().filter_map(left));
        }
        let failure = match why {
            Why::Failed(first) => Some(first),
            _ => worst(failures),
        };
        Ended {
            sources: totals.iter().map(total).collect(),
            interrupted,
            took: began.elapsed(),
            failure,
        }
    }

    /// Gives the way into the queue. Once the queue is closed, what is put is dropped, which releases it.
    fn entrance(&self) -> impl Fn(Delivery<Packet>) + Send + 'static {
        let (queue, key) = (self.queue.clone(), self.key);
        move |delivery| drop(queue.try_put(key.key_of(&delivery), delivery.into()))
    }
}

struct Running {
    observer: StreamObserver,
    control: StreamControl,
    counts: Arc<FeedCounts>,
}

/// Why the streams are closed.
enum Why {
    Ended,
    Idle,
    Stopped,
    HandlerFailed,
    Failed(PipelineError),
}

async fn until_end(
    feeds: &mut JoinSet<Result<(), SourceError>>,
    pool: &Pool<QueueKey>,
    idle: impl Future<Output = ()>,
    stop: &CancellationToken,
) -> Why {
    pin!(idle);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Why::Stopped,
            () = pool.failed() => return Why::HandlerFailed,
            fed = feeds.join_next() => match fed.map(fed_error) {
                None => return Why::Ended,
                Some(None) => {}
                Some(Some(error)) => return Why::Failed(error),
            },
            () = &mut idle => return Why::Idle,
        }
    }
}

/// Sets the gauges of the queue that change with time alone, now and then.
async fn observe(queue: FairQueue<QueueKey, Job>) -> Infallible {
    let mut turns = tokio::time::interval(OBSERVE_EVERY);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        queue.observe();
    }
}

/// Waits until nothing was delivered for the given time, all of it with every source at rest.
async fn idle(deliveries: &Deliveries, limits: &Limits, at_rest: &[AtRest]) {
    let is_at_rest = || at_rest.iter().all(|at_rest| at_rest());
    loop {
        tokio::select! {
            () = deliveries.idle(limits.until_idle) => {}
            () = tokio::time::sleep(REST_LOOK), if limits.until_idle.is_some() => {
                if !is_at_rest() {
                    deliveries.happened();
                }
                continue;
            }
        }
        if is_at_rest() {
            return;
        }
        deliveries.happened();
    }
}

fn fed_error(fed: Result<Result<(), SourceError>, tokio::task::JoinError>) -> Option<PipelineError> {
    match fed {
        Ok(result) => result.err().map(PipelineError::Source),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Shuts the streams down while the pool works on what they delivered, and then the pool; gives what went wrong.
async fn settle(
    running: Vec<Running>,
    pool: Pool<QueueKey>,
    why: &Why,
    limits: &Limits,
    stop: &CancellationToken,
) -> Vec<PipelineError> {
    let closing = join_all(running.into_iter().map(|one| one.control.shutdown(UNHURRIED)));
    pin!(closing);
    let hurry = async {
        match why {
            Why::Stopped | Why::HandlerFailed | Why::Failed(_) => {}
            Why::Ended | Why::Idle => tokio::select! { () = stop.cancelled() => {}, () = pool.failed() => {} },
        }
    };
    let closed = tokio::select! {
        biased;
        closed = &mut closing => Some(closed),
        () = hurry => None,
    };
    let (closed, done) = match closed {
        // Everything is settled: the workers wait for more, and end.
        Some(closed) => (closed, pool.shutdown(limits.drain_within).await),
        // What is not finished in time is released, so that the streams have nothing left to wait for.
        None => tokio::join!(closing, end_in_time(pool, limits.drain_within)),
    };
    let mut failures: Vec<_> = done.err().map(PipelineError::Pool).into_iter().collect();
    failures.extend(closed.into_iter().filter_map(Result::err).map(PipelineError::Source));
    failures
}

async fn end_in_time(pool: Pool<QueueKey>, within: Duration) -> Result<PoolStats, PoolError> {
    let until = Instant::now() + within;
    tokio::select! {
        // The error says what is left at the deadline; it is released.
        _ = pool.drain(within) => {}
        // A pool that failed takes nothing more: there is nothing to drain.
        () = pool.failed() => {}
    }
    pool.shutdown(until.saturating_duration_since(Instant::now())).await
}

/// A lost commit is the least of failures: whatever else went wrong is told instead.
fn worst(mut failures: Vec<PipelineError>) -> Option<PipelineError> {
    failures.sort_by_key(PipelineError::is_unconfirmed);
    failures.into_iter().next()
}

/// A run that was not interrupted should have waited for nothing at its end.
fn left((observer, counts): &(StreamObserver, Arc<FeedCounts>)) -> Option<PipelineError> {
    let left = counts.left.lock().take()?;
    Some(PipelineError::SchemasMissing {
        source_id: observer.source().clone(),
        alerts: left.alerts,
        schemas: left.schemas.into_iter().collect(),
    })
}

fn total((observer, counts): &(StreamObserver, Arc<FeedCounts>)) -> (SourceId, SourceTotals) {
    let tombstones = counts.tombstones.load(Ordering::Relaxed);
    (
        observer.source().clone(),
        SourceTotals {
            stream: observer.stats(),
            tombstones,
        },
    )
}
