//! The stream's own task: runs the source, bounds its end, watches for a stall, publishes the counts.
//!
//! Invariants: the source is never dropped while it may still end by itself within its time; a panic of the source
//! is an error of the source. Must not touch deliveries.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metrics::{Counter, Gauge};
use tokio::time::{Instant, MissedTickBehavior};

use crate::error::ErrorClass;
use crate::record::SourceId;
use crate::source::intake::{Core, Drain, Intake};
use crate::source::{Source, SourceError};
use crate::telemetry;

/// How often the counts are published and a stall is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What a source gets beyond the time for its last commit before it is cut off.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the source to its end and tells the stream.
pub(super) async fn run(source: Box<dyn Source>, core: Arc<Core>) {
    let _ended = Ended(&core);
    tracing::info!(source = %core.source(), "stream opened");
    let result = watch(source, &core).await;
    match &result {
        Ok(()) => tracing::info!(source = %core.source(), "stream ended"),
        // Whoever opened the stream is given the error, and says it.
        Err(error) => tracing::debug!(source = %core.source(), %error, "stream failed"),
    }
    core.ended(result);
    Published::of(core.source()).publish(&core);
}

async fn watch(source: Box<dyn Source>, core: &Arc<Core>) -> Result<(), SourceError> {
    let source_id = core.source().clone();
    let mut running = AssertUnwindSafe(source.run(Intake::new(core.clone()))).catch_unwind();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let published = Published::of(&source_id);
    let mut stage = Stage::Open;
    loop {
        stage = stage.next(core);
        tokio::select! {
            biased;
            result = &mut running => return result.unwrap_or_else(|panic| Err(panicked(source_id, &*panic))),
            () = core.drain_changed() => {}
            () = quota_used_up(core), if !core.is_closing() => core.close(),
            () = tokio::time::sleep_until(stage.until()), if stage != Stage::Open => match stage {
                Stage::Ending(_) => return Err(cut_off(source_id)),
                _ => {
                    core.abandon();
                    stage = Stage::Ending(Instant::now() + core.config().commit_within + GRACE);
                }
            },
            _ = look.tick() => {
                published.publish(core);
                if let Some(position) = core.stalled().filter(|_| !core.is_closing()) {
                    core.drain(Drain::Until(Instant::now() + core.config().drain_within));
                    core.fail(SourceError::Stalled { source_id: source_id.clone(), position });
                }
            }
        }
    }
}

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No deadline yet.
    Open,
    /// Open deliveries may settle until then.
    Draining(Instant),
    /// The source may write its last commit until then.
    Ending(Instant),
}

impl Stage {
    fn next(self, core: &Core) -> Self {
        match (self, core.drain_deadline()) {
            (Stage::Ending(_), _) | (_, Drain::Open) => self,
            // However long deliveries may still settle, none is left: only the last commit is waited for.
            (_, Drain::Until(_)) if core.awaits_commits_only() => {
                Stage::Ending(Instant::now() + core.config().commit_within + GRACE)
            }
            (_, Drain::Until(at)) => Stage::Draining(at),
        }
    }

    fn until(self) -> Instant {
        match self {
            Stage::Draining(at) | Stage::Ending(at) => at,
            Stage::Open => Instant::now(),
        }
    }
}

async fn quota_used_up(core: &Core) {
    match &core.config().quota {
        Some(quota) => quota.used_up().await,
        None => std::future::pending().await,
    }
}

fn panicked(source_id: SourceId, panic: &(dyn std::any::Any + Send)) -> SourceError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let cause = format!("the source panicked: {}", text.unwrap_or("no message")).into();
    SourceError::Backend {
        source_id,
        class: ErrorClass::Fatal,
        cause,
    }
}

fn cut_off(source_id: SourceId) -> SourceError {
    SourceError::Unconfirmed {
        source_id,
        cause: "the source did not end within its time and was cut off".into(),
    }
}

/// Ends the stream also when its task is aborted; after an ordinary end it changes nothing.
struct Ended<'a>(&'a Arc<Core>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.ended(Ok(()));
    }
}

/// The metrics of one stream, taken from its counts so that they balance at every look.
struct Published {
    counters: [Counter; 7],
    gauges: [Gauge; 4],
}

impl Published {
    fn of(source: &SourceId) -> Self {
        use telemetry::stream::{
            ACKED, BUDGET_USED, BYTES, DELIVERED, LAG, LATE, OPEN, REDELIVERED, REJECTED, RELEASED, WAITING,
        };
        let label = source.as_str().to_owned();
        let counter = |name| metrics::counter!(name, telemetry::SOURCE => label.clone());
        let gauge = |name| metrics::gauge!(name, telemetry::SOURCE => label.clone());
        Self {
            counters: [DELIVERED, ACKED, RELEASED, REJECTED, REDELIVERED, LATE, BYTES].map(counter),
            gauges: [OPEN, WAITING, BUDGET_USED, LAG].map(gauge),
        }
    }

    // Gauges are floats by their interface; counts stay exact up to 2^53.
    #[allow(clippy::cast_precision_loss)]
    fn publish(&self, core: &Core) {
        let s = core.stats();
        let counts = [
            s.delivered,
            s.acked,
            s.released,
            s.rejected,
            s.redelivered,
            s.late,
            s.bytes,
        ];
        for (counter, count) in self.counters.iter().zip(counts) {
            counter.absolute(count);
        }
        let lag = core.lag().total().unwrap_or(0);
        let levels = [s.open, s.waiting, core.config().budget.used() as u64, lag];
        for (gauge, level) in self.gauges.iter().zip(levels) {
            gauge.set(level as f64);
        }
    }
}
