//! The stream and its control: a source run in a task of its own, its alerts as a `futures::Stream`.
//!
//! Invariants: one source, one task, joined by [`StreamControl::shutdown`]; the source is asked to end and only cut
//! off when it does not; nothing is handed out once the stream closes. Must not know which backend it runs.
//!
//! ```
//! use alertstream::source::memory::MemorySource;
//! use alertstream::stream::{StreamConfig, open};
//! use futures::StreamExt;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = MemorySource::of("example", ["first", "second", "third"]);
//! let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
//! while let Some(delivery) = alerts.next().await {
//!     let delivery = delivery?;
//!     match &delivery.get().payload[..] {
//!         b"second" => delivery.reject("I do not like it"), // becomes a dead letter
//!         _ => delivery.ack(),                              // done; dropping it would say "not done"
//!     }
//! }
//! let stats = control.shutdown(Duration::from_secs(5)).await?; // drained and committed
//! assert_eq!((stats.delivered, stats.acked, stats.rejected), (3, 2, 1));
//! # Ok(())
//! # }
//! ```

mod task;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

use crate::delivery::Delivery;
use crate::record::{RawAlert, SourceId};
use crate::source::intake::{Core, Drain, Flushed, Wait};
use crate::source::{Source, SourceError};

pub use crate::source::intake::{ByteBudget, DeliveryQuota, Lag, StreamConfig, StreamStats};

/// Runs a source in a task of its own; gives its alerts and its control.
///
/// The stream closes (hands out nothing more) by [`StreamControl::close`] or [`shutdown`](StreamControl::shutdown),
/// when the quota is used up, when the alerts' end is dropped, and when the source ends or fails. Dropping the
/// control alone closes nothing. When both are dropped without a shutdown, the task drains for
/// [`StreamConfig::drain_within`], commits and ends by itself.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn open(source: Box<dyn Source>, cfg: StreamConfig) -> (AlertStream, StreamControl) {
    let core = Core::new(source.id().clone(), cfg);
    let ends = Arc::new(Ends { core: core.clone() });
    let task = tokio::spawn(task::run(source, core.clone()));
    let alerts = AlertStream {
        core: core.clone(),
        timer: None,
        done: Done::No,
        _ends: ends.clone(),
    };
    (
        alerts,
        StreamControl {
            core,
            task: Some(task),
            _ends: ends,
        },
    )
}

/// The alerts of one source, in the order of each lane; a released alert comes again later.
///
/// Ends with `None` when the stream closed, or when the source's input ended and everything in it is settled and
/// committed. A failure of the source is its last item.
#[must_use = "dropping the stream closes it"]
pub struct AlertStream {
    core: Arc<Core>,
    timer: Option<Pin<Box<Sleep>>>,
    done: Done,
    _ends: Arc<Ends>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    No,
    Yes,
}

/// # Cancel safety
/// `next()` takes nothing when it is dropped.
impl futures::Stream for AlertStream {
    type Item = Result<Delivery<RawAlert>, SourceError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.done == Done::Yes {
            return Poll::Ready(None);
        }
        loop {
            let Wait(due) = match this.core.poll_next(cx.waker()) {
                Err(wait) => wait,
                Ok(item) => {
                    if !matches!(item, Some(Ok(_))) {
                        this.done = Done::Yes;
                    }
                    return Poll::Ready(item);
                }
            };
            let Some(due) = due else {
                this.timer = None;
                return Poll::Pending;
            };
            let timer = this
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl futures::stream::FusedStream for AlertStream {
    fn is_terminated(&self) -> bool {
        self.done == Done::Yes
    }
}

impl Drop for AlertStream {
    fn drop(&mut self) {
        self.core.close();
    }
}

impl fmt::Debug for AlertStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlertStream")
            .field("source", &self.core.source().as_str())
            .finish_non_exhaustive()
    }
}

/// Steers one stream: flush, shutdown, counts, lag.
#[must_use = "a stream is shut down by its control"]
pub struct StreamControl {
    core: Arc<Core>,
    task: Option<JoinHandle<()>>,
    _ends: Arc<Ends>,
}

impl StreamControl {
    /// Gives the source's name.
    pub fn source(&self) -> &SourceId {
        self.core.source()
    }

    /// Waits until everything that was settled when it was called is durable: its commits are confirmed, its dead
    /// letters stored.
    ///
    /// On Kafka a commit tells the settled prefix only; what settled behind an unsettled alert is delivered again
    /// after a crash all the same.
    ///
    /// # Errors
    /// [`FlushError::TimedOut`] after `within`; [`FlushError::Lost`] when lanes were lost (since the last flush)
    /// before their settlements were committed: those alerts will be delivered again, here or elsewhere.
    ///
    /// # Cancel safety
    /// Only the waiting stops.
    pub async fn flush(&self, within: Duration) -> Result<(), FlushError> {
        match tokio::time::timeout(within, self.core.flush()).await {
            Ok(Flushed::Durable) => Ok(()),
            Ok(Flushed::Lost(lanes)) => Err(FlushError::Lost {
                source_id: self.source().clone(),
                lanes,
            }),
            Err(_) => Err(FlushError::TimedOut {
                source_id: self.source().clone(),
                within,
            }),
        }
    }

    /// Closes the stream: nothing more is handed out; open deliveries may settle until [`shutdown`](Self::shutdown)'s
    /// time is over.
    pub fn close(&self) {
        self.core.close();
    }

    /// Closes the stream, waits at most `drain_within` until the open deliveries settled (those that did not are
    /// released), lets the source write its last commit, and joins its task.
    ///
    /// # Errors
    /// The source's failure, unless the stream gave it as its last item: [`SourceError::Unconfirmed`] when the last
    /// commit could not be confirmed.
    ///
    /// # Cancel safety
    /// The stream goes on closing by itself within the same bounds; the result is lost.
    pub async fn shutdown(mut self, drain_within: Duration) -> Result<StreamStats, SourceError> {
        self.core.close();
        self.core.drain(Drain::Until(Instant::now() + drain_within));
        if let Some(task) = self.task.take() {
            // The task holds no panic of its own: a source's panic is an error of the source.
            let _ = task.await;
        }
        self.core.take_error().map_or_else(|| Ok(self.core.stats()), Err)
    }

    /// Ends the source at once, with no last commit, as a crash would.
    ///
    /// # Cancel safety
    /// The source is cut off in any case.
    pub async fn abort(mut self) {
        self.core.close();
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Gives what the stream did so far.
    pub fn stats(&self) -> StreamStats {
        self.core.stats()
    }

    /// Gives how far the stream is behind, as far as its source knows.
    pub fn lag(&self) -> Lag {
        self.core.lag()
    }

    /// Gives a handle that tells counts and lag also after the shutdown.
    pub fn observer(&self) -> StreamObserver {
        StreamObserver {
            core: self.core.clone(),
        }
    }
}

/// Goes on telling a stream's counts and lag when its control is gone. It keeps nothing alive.
#[derive(Clone)]
pub struct StreamObserver {
    core: Arc<Core>,
}

impl StreamObserver {
    /// Gives the source's name.
    pub fn source(&self) -> &SourceId {
        self.core.source()
    }

    /// Gives what the stream did so far.
    pub fn stats(&self) -> StreamStats {
        self.core.stats()
    }

    /// Gives how far the stream is behind, as far as its source knows.
    pub fn lag(&self) -> Lag {
        self.core.lag()
    }
}

impl fmt::Debug for StreamObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamObserver")
            .field("source", &self.source().as_str())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StreamControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamControl")
            .field("source", &self.source().as_str())
            .finish_non_exhaustive()
    }
}

/// Why a flush did not confirm.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlushError {
    /// The time was over.
    #[error(
        "source `{source_id}`: what is settled was not durable within {within:?}; flush again, or look at the backend"
    )]
    TimedOut {
        /// The source's name.
        source_id: SourceId,
        /// The time that was given.
        within: Duration,
    },
    /// Lanes were lost with settlements that nobody can commit any more.
    #[error(
        "source `{source_id}`: `{lanes}` lanes were lost before their last settlements were committed; those alerts are delivered again"
    )]
    Lost {
        /// The source's name.
        source_id: SourceId,
        /// How many.
        lanes: u64,
    },
}

/// Held by both ends: when the last one goes, the drain gets its deadline.
struct Ends {
    core: Arc<Core>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        if self.core.drain_deadline() == Drain::Open {
            self.core.close();
            self.core
                .drain(Drain::Until(Instant::now() + self.core.config().drain_within));
        }
    }
}

#[cfg(test)]
mod tests;
