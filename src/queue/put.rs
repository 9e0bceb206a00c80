//! Putting: admission by the capacities, and waiting for room.
//!
//! Invariants: an item is in the queue or with its caller, never in between; a put never overtakes a waiting put of its
//! key. Must not know of getters beyond waking them.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::FairQueue;
use super::core::{Entry, Key, Nanos, SlotId};
use super::error::PutError;
use super::options::{Overflow, nanos};
use super::putters::Turn;
use super::shared::{Shared, State};

/// How an item is put; the default is at once, shared, of no size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    exclusive: bool,
    after: Duration,
    bytes: u32,
}

impl PutOptions {
    /// At once, shared, of no size.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing else of its key is in progress beside the item.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// The item is not served before this time from now.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }

    /// What the item counts for in capacities in bytes, up to 4 GiB.
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }
}

impl<K: Key, T> FairQueue<K, T> {
    /// Puts an item at the tail of its key. Where a capacity is used up, the overflow policy decides: wait for a get,
    /// refuse, or displace the key's oldest item. Without capacities it never waits.
    ///
    /// # Errors
    /// [`PutError`] with the item.
    ///
    /// # Cancel safety
    /// Dropping the future drops the item and leaves nothing behind; use [`FairQueue::try_put`] to keep the item.
    pub async fn put(&self, key: K, item: T) -> Result<(), PutError<T>> {
        self.put_with(key, item, PutOptions::new()).await
    }

    /// Puts an item that is served only while nothing else of its key is in progress.
    ///
    /// # Errors
    /// As [`FairQueue::put`].
    ///
    /// # Cancel safety
    /// As [`FairQueue::put`].
    pub async fn put_exclusive(&self, key: K, item: T) -> Result<(), PutError<T>> {
        self.put_with(key, item, PutOptions::new().exclusive()).await
    }

    /// Puts an item that is served when `delay` has passed: then it goes to the tail of its key. Zero is at once.
    ///
    /// # Errors
    /// As [`FairQueue::put`]; [`PutError::Joining`] while a join or drain is going on.
    ///
    /// # Cancel safety
    /// As [`FairQueue::put`].
    pub async fn put_after(&self, key: K, item: T, delay: Duration) -> Result<(), PutError<T>> {
        self.put_with(key, item, PutOptions::new().after(delay)).await
    }

    /// Puts an item as the options say.
    ///
    /// # Errors
    /// As [`FairQueue::put`] and [`FairQueue::put_after`].
    ///
    /// # Cancel safety
    /// As [`FairQueue::put`].
    pub async fn put_with(&self, key: K, item: T, options: PutOptions) -> Result<(), PutError<T>> {
        Put::new(&self.shared, key, item, options).when_there_is_room().await
    }

    /// Puts an item at the tail of its key without waiting.
    ///
    /// # Errors
    /// [`PutError`] with the item; [`PutError::Full`] where [`FairQueue::put`] would wait.
    pub fn try_put(&self, key: K, item: T) -> Result<(), PutError<T>> {
        self.try_put_with(key, item, PutOptions::new())
    }

    /// Puts an item as the options say, without waiting for room.
    ///
    /// # Errors
    /// As [`FairQueue::try_put`]; [`PutError::Joining`] for a delay while a join or drain is going on.
    pub fn try_put_with(&self, key: K, item: T, options: PutOptions) -> Result<(), PutError<T>> {
        Put::new(&self.shared, key, item, options).without_waiting()
    }
}

/// A put under way: the item, how it goes in, and its place among the waiting.
struct Put<'a, K: Key, T> {
    shared: &'a Shared<K, T>,
    key: K,
    entry: Option<Entry<T>>,
    /// Nanoseconds to wait before the item can be served; 0 = at once.
    delay: Nanos,
    waiting: Option<(SlotId, u64)>,
}

enum Verdict {
    Admitted,
    Wait,
    Refused(PutError<()>),
}

impl<'a, K: Key, T> Put<'a, K, T> {
    fn new(shared: &'a Shared<K, T>, key: K, item: T, options: PutOptions) -> Self {
        let entry = Entry {
            item,
            at: 0,
            bytes: options.bytes,
            exclusive: options.exclusive,
            holds: false,
        };
        Self {
            shared,
            key,
            entry: Some(entry),
            delay: nanos(options.after),
            waiting: None,
        }
    }

    /// Puts, or refuses where a capacity is used up.
    fn without_waiting(mut self) -> Result<(), PutError<T>> {
        match self.attempt(None) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(self.refused(PutError::Full(()))),
        }
    }

    /// Puts, waiting for room if that is the policy.
    async fn when_there_is_room(mut self) -> Result<(), PutError<T>> {
        poll_fn(|cx: &mut Context<'_>| self.attempt(Some(cx.waker()))).await
    }

    fn attempt(&mut self, waker: Option<&Waker>) -> Poll<Result<(), PutError<T>>> {
        let (shared, mut fallen) = (self.shared, Vec::new());
        let verdict = shared.with(|state, now| {
            let verdict = match self.waiting {
                None => self.first_attempt(state, now, waker, &mut fallen),
                Some((id, number)) => self.next_attempt(state, now, waker, (id, number)),
            };
            state.refused += u64::from(matches!(verdict, Verdict::Refused(_)));
            verdict
        });
        drop(fallen);
        match verdict {
            Verdict::Admitted => Poll::Ready(Ok(())),
            Verdict::Wait => Poll::Pending,
            Verdict::Refused(why) => Poll::Ready(Err(self.refused(why))),
        }
    }

    /// Puts at once if there is room, else joins the waiting. `fallen` collects what was displaced.
    fn first_attempt(
        &mut self,
        state: &mut State<K, T>,
        now: Nanos,
        waker: Option<&Waker>,
        fallen: &mut Vec<T>,
    ) -> Verdict {
        let bytes = self.entry.as_ref().map_or(0, |entry| entry.bytes);
        let id = state.intern(&self.key, now);
        let verdict = match state.gate(id, self.delay) {
            Some(why) => Verdict::Refused(why),
            None => state.verdict(id, bytes, fallen),
        };
        match (&verdict, waker) {
            (Verdict::Admitted, _) => self.admit(state, id, now),
            (Verdict::Wait, Some(waker)) => {
                self.waiting = Some((id, state.putters.register(&mut state.core, id, bytes, waker)));
            }
            // A key made known only to be refused is forgotten again.
            _ => drop(state.core.refresh(id, now)),
        }
        verdict
    }

    /// Asks whether it is this put's turn.
    fn next_attempt(
        &mut self,
        state: &mut State<K, T>,
        now: Nanos,
        waker: Option<&Waker>,
        (id, number): (SlotId, u64),
    ) -> Verdict {
        match state.putters.ask(&mut state.core, id, number, waker) {
            Turn::Gone => {
                self.waiting = None;
                Verdict::Refused(if state.closed {
                    PutError::Closed(())
                } else {
                    PutError::KeyClosed(())
                })
            }
            Turn::Waiting => Verdict::Wait,
            Turn::Granted => {
                self.waiting = None;
                let why = state.gate(id, self.delay);
                if why.is_none() {
                    self.admit(state, id, now);
                }
                state.core.unpin(id, now);
                match why {
                    None => Verdict::Admitted,
                    Some(why) => {
                        state.after_room(id);
                        Verdict::Refused(why)
                    }
                }
            }
        }
    }

    fn admit(&mut self, state: &mut State<K, T>, id: SlotId, now: Nanos) {
        if let Some(entry) = self.entry.take() {
            state.admit(id, Entry { at: now, ..entry }, self.delay, now);
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "the entry leaves only when it is admitted, and then nothing is refused"
    )]
    fn refused(&mut self, why: PutError<()>) -> PutError<T> {
        let entry = self.entry.take().expect("the item was not admitted");
        why.map(|()| entry.item)
    }
}

impl<K: Key, T> Drop for Put<'_, K, T> {
    fn drop(&mut self) {
        if let Some((id, number)) = self.waiting.take() {
            self.shared.with(|state, now| {
                state
                    .putters
                    .leave(&mut state.core, id, number, (now, &mut state.wakes));
            });
        }
    }
}

impl<K: Key, T> State<K, T> {
    /// Why nothing can be put under a key now, whatever its room.
    fn gate(&self, id: SlotId, delay: Nanos) -> Option<PutError<()>> {
        if self.closed {
            Some(PutError::Closed(()))
        } else if self.core.slot(id).settings.closed {
            Some(PutError::KeyClosed(()))
        } else {
            (delay > 0 && self.joins > 0).then_some(PutError::Joining(()))
        }
    }

    /// What the capacities and the policy say to a put that was not promised room.
    fn verdict(&mut self, id: SlotId, bytes: u32, fallen: &mut Vec<T>) -> Verdict {
        let settings = &self.core.slot(id).settings;
        let policy = settings.overflow.map_or(self.overflow, Overflow::from_number);
        loop {
            if self.has_room(id, bytes) {
                return Verdict::Admitted;
            }
            match policy {
                Overflow::Wait => return Verdict::Wait,
                Overflow::Refuse => return Verdict::Refused(PutError::Full(())),
                Overflow::DropOldest => match self.core.drop_oldest(id) {
                    Some(item) => fallen.push(item),
                    None => return Verdict::Refused(PutError::Full(())),
                },
            }
        }
    }

    fn has_room(&self, id: SlotId, bytes: u32) -> bool {
        let overtakes_nobody =
            !self.putters.has_waiting(id) && (!self.putters.has_stopped() || self.core.is_reserved(id));
        overtakes_nobody && self.core.key_admits(id, bytes) && self.core.total_admits(id, bytes)
    }

    /// Puts an admitted item and wakes whom it concerns.
    fn admit(&mut self, id: SlotId, entry: Entry<T>, delay: Nanos, now: Nanos) {
        if delay == 0 {
            if self.core.put(id, entry, now) {
                self.getters.wake(1, &mut self.wakes);
            }
        } else {
            let earliest = self.core.next_due();
            self.core.defer(id, entry, now.saturating_add(delay), now);
            if self.core.next_due() < earliest {
                // Waiting getters have armed their timers for a later time.
                self.getters.wake_all(&mut self.wakes);
            }
        }
        self.report(id);
    }
}
