//! What the stream, its control and its own task call: the next delivery, closing, flushing, the source's end.
//!
//! Invariants: closing happens once and wakes everybody; a flush waits for what was settled when it began. Must not
//! know how the waiting of sources works.

use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use super::core::Core;
use super::lanes::Ending;
use super::state::{Drain, Next, Now, Phase};
use super::{Lag, StreamStats};
use crate::ack::AckToken;
use crate::delivery::{Delivery, Meta};
use crate::record::{Position, RawAlert};
use crate::source::SourceError;

/// The stream's next item; after a failure and at the end nothing more comes.
pub(crate) type Item = Option<Result<Delivery<RawAlert>, SourceError>>;

/// There is no item now: the waker is registered; besides, look again at this time.
pub(crate) struct Wait(pub(crate) Option<Instant>);

/// What a flush found.
pub(crate) enum Flushed {
    Durable,
    /// So many lanes were lost with settlements that nobody can commit any more.
    Lost(u64),
}

impl Core {
    /// Gives the next item, or registers the waker.
    pub(crate) fn poll_next(self: &Arc<Self>, waker: &Waker) -> Result<Item, Wait> {
        if let Ok(item) = self.look() {
            return Ok(item);
        }
        // Registered, then looked again: an alert that came before the registration is found by this look, one that
        // comes after it wakes the waker.
        self.stream.lock().replace(waker.clone());
        self.look()
    }

    fn look(self: &Arc<Self>) -> Result<Item, Wait> {
        let (next, changes) = self.state.lock().hand_out(&Now::new(Instant::now), &self.cfg);
        if changes.closed {
            self.announce_closing();
        } else if changes.commit {
            self.commit.tell();
            self.lane.tell();
        }
        match next {
            Next::Deliver { key, raw, at, attempt } => {
                let meta = Meta::new(self.source.clone(), at, attempt);
                Ok(Some(Ok(Delivery::new(meta, AckToken::new(self.clone(), key, raw)))))
            }
            Next::Wait(at) => Err(Wait(at)),
            Next::Failed(error) => Ok(Some(Err(error))),
            Next::End => Ok(None),
        }
    }

    /// Stops handing out alerts.
    pub(crate) fn close(&self) {
        self.state.lock().close(Instant::now());
        self.announce_closing();
    }

    /// Says how long open deliveries may still settle.
    pub(crate) fn drain(&self, drain: Drain) {
        self.state.lock().drain = drain;
        self.drain.notify_one();
    }

    pub(crate) fn drain_deadline(&self) -> Drain {
        self.state.lock().drain
    }

    /// Waits until the drain's deadline was set anew, or the stream began to close.
    pub(crate) async fn drain_changed(&self) {
        self.drain.notified().await;
    }

    /// Gives up on the open deliveries.
    pub(crate) fn abandon(&self) {
        self.state.lock().abandon(Instant::now());
        self.wake_all();
    }

    /// Ends the stream with an error while its source still runs.
    pub(crate) fn fail(&self, error: SourceError) {
        self.state.lock().fail(error);
        self.close();
    }

    /// Records that the source returned.
    pub(crate) fn ended(&self, result: Result<(), SourceError>) {
        {
            let mut state = self.state.lock();
            if let Err(error) = result {
                state.fail(error);
            }
            state.close(Instant::now());
            let epochs = state.lanes.epochs();
            state.end(&epochs, Ending::Lose);
            state.phase = Phase::Ended;
        }
        self.announce_closing();
    }

    /// Gives the failure that the stream did not give to its reader.
    pub(crate) fn take_error(&self) -> Option<SourceError> {
        self.state.lock().error.take().map(|(error, _)| error)
    }

    /// Waits until everything settled so far is durable.
    pub(crate) async fn flush(&self) -> Flushed {
        let target = {
            let mut state = self.state.lock();
            state.flushes += 1;
            state.lanes.hurry(Instant::now());
            state.lanes.flush_target()
        };
        let _waiting = Waiting(self);
        self.commit.tell();
        let lost = self
            .until(|state| {
                state
                    .lanes
                    .is_flushed(&target)
                    .then(|| std::mem::take(&mut state.lanes.lost))
            })
            .await;
        if lost == 0 {
            Flushed::Durable
        } else {
            Flushed::Lost(lost)
        }
    }

    /// The position that has kept the source waiting for `stall_after`.
    pub(crate) fn stalled(&self) -> Option<Position> {
        let then = Instant::now().checked_sub(self.cfg.stall_after?)?;
        let state = self.state.lock();
        let bytes = state.bytes_blocked_since.is_some_and(|since| since <= then);
        state
            .lanes
            .blocked_before(then)
            .or_else(|| state.lanes.oldest().filter(|_| bytes))
    }

    pub(crate) fn stats(&self) -> StreamStats {
        let state = self.state.lock();
        StreamStats {
            waiting: (state.ready.iter().map(|batch| batch.alerts.len()).sum::<usize>() + state.waiting.len()) as u64,
            ..state.stats
        }
    }

    pub(crate) fn lag(&self) -> Lag {
        let state = self.state.lock();
        let known = state
            .lanes
            .iter()
            .filter_map(|lane| lane.behind.map(|behind| (lane.lane.clone(), behind)));
        Lag {
            lanes: known.collect(),
            remaining: state.remaining,
        }
    }

    fn announce_closing(&self) {
        self.closing.cancel();
        self.wake_all();
    }
}

/// Counts a waiting flush, also when its future is dropped.
struct Waiting<'a>(&'a Core);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.flushes -= 1;
        state.barrier_given = false;
    }
}
