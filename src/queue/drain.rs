//! Waiting for the whole queue: join and drain.
//!
//! Invariants: while one of them goes on, deferrals are refused; a drain takes nothing out unless it succeeds. Must not
//! know of getters.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::core::Key;
use super::error::DrainError;
use super::shared::{Shared, State};
use super::sync::sleep;

/// What a drain does with items whose time has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferrals {
    /// They become due at once and are served like the others.
    RunNow,
    /// Those that are still deferred when everything else is done are handed back.
    HandBack,
}

/// An item handed back by a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deferred<K, T> {
    /// Its key.
    pub key: K,
    /// The item.
    pub item: T,
    /// Whether it was put as exclusive.
    pub exclusive: bool,
    /// How long it still had to wait.
    pub due_in: Duration,
}

/// Waits until nothing is queued or in progress; drops the deferrals at its start and gives their number.
pub(super) async fn join<K: Key, T>(shared: &Arc<Shared<K, T>>) -> usize {
    let mut joining = Joining::start(shared);
    let deferred = shared.with(|state, now| {
        let deferred = state.core.take_all_deferred(now);
        state.report_all();
        deferred
    });
    let dropped = deferred.len();
    drop(deferred);
    poll_fn(|cx| joining.poll(cx, |_| ())).await;
    dropped
}

/// Waits until nothing is queued or in progress, at most `within`.
pub(super) async fn drain<K: Key, T>(
    shared: &Arc<Shared<K, T>>,
    within: Duration,
    deferrals: Deferrals,
) -> Result<Vec<Deferred<K, T>>, DrainError> {
    let mut joining = Joining::start(shared);
    let mut deadline = pin!(sleep(within));
    if deferrals == Deferrals::RunNow {
        shared.with(|state, now| {
            state.core.run_deferred(now, |_| ());
            state.getters.wake_all(&mut state.wakes);
            state.report_all();
        });
    }
    poll_fn(|cx| {
        if let Poll::Ready(taken) = joining.poll(cx, |state| take_deferred(state, shared.clock.now())) {
            return Poll::Ready(Ok(taken));
        }
        deadline.as_mut().poll(cx).map(|()| {
            let totals = shared.with(|state, _| state.core.totals());
            Err(DrainError {
                queued: totals.queued,
                in_progress: totals.in_progress,
                deferred: totals.deferred,
            })
        })
    })
    .await
}

fn take_deferred<K: Key, T>(state: &mut State<K, T>, now: u64) -> Vec<Deferred<K, T>> {
    let taken = state.core.take_all_deferred(now);
    state.report_all();
    let deferred = taken.into_iter().map(|(key, entry, due)| Deferred {
        key,
        item: entry.item,
        exclusive: entry.exclusive,
        due_in: Duration::from_nanos(due.saturating_sub(now)),
    });
    deferred.collect()
}

/// One join or drain going on.
struct Joining<'a, K: Key, T> {
    shared: &'a Arc<Shared<K, T>>,
    number: Option<u64>,
}

impl<'a, K: Key, T> Joining<'a, K, T> {
    fn start(shared: &'a Arc<Shared<K, T>>) -> Self {
        shared.with(|state, _| state.joins += 1);
        Self { shared, number: None }
    }

    /// Ready when nothing is queued or in progress, with what `then` made of that moment.
    fn poll<R>(&mut self, cx: &mut Context<'_>, then: impl FnOnce(&mut State<K, T>) -> R) -> Poll<R> {
        let number = &mut self.number;
        self.shared.with(|state, _| {
            let totals = state.core.totals();
            if totals.queued == 0 && totals.in_progress == 0 {
                return Poll::Ready(then(state));
            }
            *number = Some(state.joiners.register(*number, cx.waker()));
            Poll::Pending
        })
    }
}

impl<K: Key, T> Drop for Joining<'_, K, T> {
    fn drop(&mut self) {
        self.shared.with(|state, _| {
            state.joins -= 1;
            if let Some(number) = self.number {
                state.joiners.remove(number);
            }
        });
    }
}

impl<K: Key, T> State<K, T> {
    /// Sets the gauges of all keys to their sizes.
    pub(super) fn report_all(&mut self) {
        if let Some(meters) = &mut self.meters {
            self.core.slots_mut().for_each(|slot| meters.report(slot));
        }
    }
}
