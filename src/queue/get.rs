//! Waiting for an item: the futures of `get`, `get_timeout`, `get_many`.
//!
//! How it works: each poll takes the lock, tries to take, and registers its waker if there is nothing to take. Every
//! waiting getter has a timer of its own for the earliest deferral, so that none depends on another one being polled.
//! Invariants: an item is taken only in the poll that returns it; a getter dropped after it was woken passes the
//! wake-up on. Must not know what a core is made of.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

use super::core::{Key, Nanos, Taken};
use super::error::GetError;
use super::options::nanos;
use super::shared::{Shared, State};
use super::ticket::Ticket;

/// The future of [`FairQueue::get`](super::FairQueue::get) and `get_timeout`.
///
/// # Cancel safety
/// Dropping it takes nothing; a wake-up already received is passed on.
#[must_use = "futures do nothing unless polled"]
pub struct Get<K: Key, T>(Wait<K, T>);

/// The future of [`FairQueue::get_many`](super::FairQueue::get_many) and `get_many_of_one_key`.
///
/// # Cancel safety
/// As [`Get`].
#[must_use = "futures do nothing unless polled"]
pub struct GetMany<K: Key, T> {
    wait: Wait<K, T>,
    most: usize,
    scope: Scope,
}

/// From which keys a batch comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    AllKeys,
    OneKey,
}

impl<K: Key, T> Get<K, T> {
    pub(super) fn new(shared: Arc<Shared<K, T>>, within: Option<Duration>) -> Self {
        Self(Wait::new(shared, within))
    }
}

impl<K: Key, T> GetMany<K, T> {
    pub(super) fn new(shared: Arc<Shared<K, T>>, most: usize, scope: Scope) -> Self {
        Self {
            wait: Wait::new(shared, None),
            most,
            scope,
        }
    }
}

impl<K: Key, T> Future for Get<K, T> {
    type Output = Result<Ticket<K, T>, GetError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let taken = ready!(self.0.poll(cx, take_one));
        Poll::Ready(taken.map(|(shared, taken)| Ticket::new(shared, taken)))
    }
}

impl<K: Key, T> Future for GetMany<K, T> {
    type Output = Result<Vec<Ticket<K, T>>, GetError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (most, scope) = (self.most, self.scope);
        let taken = ready!(self.wait.poll(cx, |state, now| take_many(state, now, most, scope)));
        Poll::Ready(taken.map(|(shared, batch)| {
            let tickets = batch.into_iter().map(|taken| Ticket::new(shared.clone(), taken));
            tickets.collect()
        }))
    }
}

/// An item that was taken, and how long it was queued.
pub(super) type Waited<K, T> = (Taken<K, T>, Nanos);

/// Takes the next item.
pub(super) fn take_one<K: Key, T>(state: &mut State<K, T>, now: Nanos) -> Option<Waited<K, T>> {
    let taken = state.core.take(now)?;
    Some(state.after_take(taken, now))
}

/// Takes up to `most` items by the rule, or up to `most` of the key that is next; `None` if there is nothing.
fn take_many<K: Key, T>(state: &mut State<K, T>, now: Nanos, most: usize, scope: Scope) -> Option<Vec<Waited<K, T>>> {
    let first = state.core.first_ready()?;
    let mut batch = Vec::new();
    while batch.len() < most {
        let taken = match scope {
            Scope::AllKeys => state.core.take(now),
            Scope::OneKey => state.core.take_of(first, now),
        };
        let Some(taken) = taken else { break };
        batch.push(state.after_take(taken, now));
    }
    Some(batch)
}

struct Wait<K: Key, T> {
    /// Until an item was taken: then its ticket has it.
    shared: Option<Arc<Shared<K, T>>>,
    number: Option<u64>,
    deadline: Option<Nanos>,
    timer: Option<(Nanos, Pin<Box<Sleep>>)>,
}

/// What was taken, with the queue that it was taken from.
type Gave<K, T, R> = Result<(Arc<Shared<K, T>>, R), GetError>;

enum Step<R> {
    Took(R),
    Failed(GetError),
    WaitUntil(Nanos),
}

impl<K: Key, T> Wait<K, T> {
    fn new(shared: Arc<Shared<K, T>>, within: Option<Duration>) -> Self {
        let deadline = within.map(|within| shared.clock.now().saturating_add(nanos(within)));
        Self {
            shared: Some(shared),
            number: None,
            deadline,
            timer: None,
        }
    }

    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&mut State<K, T>, Nanos) -> Option<R>,
    ) -> Poll<Gave<K, T, R>> {
        loop {
            match self.step(cx, &mut take) {
                Step::Took(taken) => return Poll::Ready(Ok((Self::held(self.shared.take()), taken))),
                Step::Failed(error) => return Poll::Ready(Err(error)),
                Step::WaitUntil(Nanos::MAX) => {
                    self.timer = None;
                    return Poll::Pending;
                }
                Step::WaitUntil(until) => match self.arm(until).as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => self.timer = None,
                },
            }
        }
    }

    fn step<R>(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(&mut State<K, T>, Nanos) -> Option<R>) -> Step<R> {
        let (number, deadline) = (&mut self.number, self.deadline);
        Self::held(self.shared.as_ref()).with(|state, now| {
            // The item wins where a time-out and a due time coincide: what is due was moved before.
            let outcome = if let Some(taken) = take(state, now) {
                Step::Took(taken)
            } else if state.is_finished() {
                Step::Failed(GetError::Closed)
            } else if deadline.is_some_and(|deadline| deadline <= now) {
                Step::Failed(GetError::Timeout)
            } else {
                *number = Some(state.getters.register(*number, cx.waker()));
                return Step::WaitUntil(deadline.unwrap_or(Nanos::MAX).min(state.core.next_due()));
            };
            if let Some(number) = number.take() {
                state.getters.remove(number);
            }
            state.pass_on();
            outcome
        })
    }

    #[expect(clippy::expect_used, reason = "a future that gave its item must not be polled again")]
    fn held<S>(shared: Option<S>) -> S {
        shared.expect("not polled again after it gave its item")
    }

    /// The timer that fires at `until`.
    fn arm(&mut self, until: Nanos) -> &mut Pin<Box<Sleep>> {
        let instant = Self::held(self.shared.as_ref()).clock.instant(until);
        let timer = self
            .timer
            .get_or_insert_with(|| (until, Box::pin(tokio::time::sleep_until(instant))));
        if timer.0 != until {
            timer.0 = until;
            timer.1.as_mut().reset(instant);
        }
        &mut timer.1
    }
}

impl<K: Key, T> Drop for Wait<K, T> {
    fn drop(&mut self) {
        if let (Some(number), Some(shared)) = (self.number.take(), &self.shared) {
            shared.with(|state, _| {
                if !state.getters.remove(number) {
                    state.pass_on();
                }
            });
        }
    }
}
