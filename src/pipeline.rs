//! Wiring only: streams, decode stage, fair queue, pool, and an end in stages.
//!
//! How a run ends. By itself: every stream ended, so everything is settled and committed. By enough deliveries or by
//! idleness: the streams close, what was delivered is finished, however long that takes. By the stop token (a first
//! signal), or a failure: what is in the queue gets [`Limits::drain_within`], the rest is released and not committed.
//! In each case the pool goes on until the streams have drained, and each source writes its last commit.
//! Invariants: nothing is lost on any of these ways: what is not settled is not committed. Must not know of
//! configuration files, of the command line, or what a handler does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::decode::Decoder;
use crate::error::BoxError;
use crate::record::SourceId;
use crate::source::{Source, SourceError};
use crate::stream::{StreamConfig, StreamControl, StreamStats, open};

mod clock;
mod feed;
mod select;
mod workers;

pub use select::{Selected, Selector};
pub use workers::Workers;

use clock::Deliveries;
use feed::{Feed, FeedCounts};

/// What is delivered by then is finished: the handlers' own bounds end this, or a signal.
const UNHURRIED: Duration = Duration::from_secs(24 * 3600);

/// One source of a run.
pub struct Input {
    /// Where alerts come from.
    pub source: Box<dyn Source>,
    /// Its stream's settings.
    pub stream: StreamConfig,
}

/// When a run ends before its sources do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// After so long without a delivery.
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
    #[error("{0}")]
    Handler(BoxError),
}

impl PipelineError {
    /// Whether all that is wrong is a last commit without an answer: its alerts will be delivered again.
    pub fn is_unconfirmed(&self) -> bool {
        matches!(self, Self::Source(SourceError::Unconfirmed { .. }))
    }
}

/// Runs the sources through the decoder into the workers until the run ends.
///
/// # Cancel safety
/// Run it to completion: dropped half-way, deliveries are released and streams drain by themselves.
pub async fn run(
    inputs: Vec<Input>,
    decoder: &Decoder,
    workers: Workers,
    limits: Limits,
    stop: CancellationToken,
) -> Ended {
    let began = Instant::now();
    let deliveries = Arc::new(Deliveries::new());
    let mut feeds = JoinSet::new();
    let mut running = Vec::new();
    for input in inputs {
        let (alerts, control) = open(input.source, input.stream);
        let counts = Arc::new(FeedCounts::default());
        let (deliveries, put) = (deliveries.clone(), workers.entrance());
        let feed = Feed {
            alerts,
            decoder: decoder.clone(),
            deliveries,
            counts: counts.clone(),
            put,
        };
        feeds.spawn(feed.run());
        running.push(Running { control, counts });
    }
    let why = feed_until_end(&mut feeds, &deliveries, &workers, &limits, &stop).await;
    running.iter().for_each(|one| one.control.close());
    let interrupted = matches!(why, Why::Stopped);
    let mut failure = match why {
        Why::Failed(error) => Some(error),
        _ => None,
    };
    let hurried = CancellationToken::new();
    if interrupted || failure.is_some() {
        hurried.cancel();
    }
    let (sources, unclean) = settle(running, &workers, &limits, &stop, hurried).await;
    failure = failure.or(unclean);
    while let Some(fed) = feeds.join_next().await {
        failure = failure.or(fed_error(fed));
    }
    failure = failure.or(workers.shutdown().await.map(PipelineError::Handler));
    Ended {
        sources,
        interrupted: interrupted || stop.is_cancelled(),
        took: began.elapsed(),
        failure,
    }
}

struct Running {
    control: StreamControl,
    counts: Arc<FeedCounts>,
}

enum Why {
    Ended,
    Idle,
    Stopped,
    Failed(PipelineError),
}

async fn feed_until_end(
    feeds: &mut JoinSet<Result<(), SourceError>>,
    deliveries: &Deliveries,
    workers: &Workers,
    limits: &Limits,
    stop: &CancellationToken,
) -> Why {
    let idle = deliveries.idle(limits.until_idle);
    tokio::pin!(idle);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Why::Stopped,
            error = workers.failed() => return Why::Failed(PipelineError::Handler(error)),
            fed = feeds.join_next() => match fed.map(fed_error) {
                None => return Why::Ended,
                Some(None) => {}
                Some(Some(error)) => return Why::Failed(error),
            },
            () = &mut idle => return Why::Idle,
        }
    }
}

fn fed_error(fed: Result<Result<(), SourceError>, tokio::task::JoinError>) -> Option<PipelineError> {
    match fed {
        Ok(result) => result.err().map(PipelineError::Source),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Shuts all streams down while the workers go on; hurried, or when the stop token comes, only so long.
async fn settle(
    running: Vec<Running>,
    workers: &Workers,
    limits: &Limits,
    stop: &CancellationToken,
    hurried: CancellationToken,
) -> (BTreeMap<SourceId, SourceTotals>, Option<PipelineError>) {
    let closing = join_all(running.into_iter().map(|one| async move {
        let id = one.control.source().clone();
        let tombstones = one.counts.tombstones.load(Ordering::Relaxed);
        let stats = one.control.shutdown(UNHURRIED).await;
        (id, tombstones, stats)
    }));
    tokio::pin!(closing);
    let in_time = tokio::select! {
        all = &mut closing => Some(all),
        () = async { tokio::select! { () = stop.cancelled() => {}, () = hurried.cancelled() => {} } } => None,
    };
    let all = match in_time {
        Some(all) => all,
        None => {
            // What could not be finished is released, so the streams have nothing to wait for.
            let (all, ()) = tokio::join!(closing, workers.drain(limits.drain_within));
            all
        }
    };
    let mut failure = None;
    let mut sources = BTreeMap::new();
    for (id, tombstones, stats) in all {
        match stats {
            Ok(stream) => drop(sources.insert(id, SourceTotals { stream, tombstones })),
            Err(error) => failure = failure.or(Some(PipelineError::Source(error))),
        }
    }
    (sources, failure)
}
