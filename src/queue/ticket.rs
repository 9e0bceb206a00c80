//! A ticket: one item in progress.
//!
//! Invariants: dropping a ticket, however that happens (return, panic, abort, time-out), completes it; there is no other
//! way to complete an item. Must not know of getters.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::core::{Entry, Key, Nanos, Place, SlotId, Taken};
use super::error::PutError;
use super::options::nanos;
use super::shared::{Shared, State};

/// One item in progress. It gives access to the item; dropping it completes the item.
#[must_use = "dropping a ticket completes its item"]
pub struct Ticket<K: Key, T> {
    shared: Arc<Shared<K, T>>,
    slot: SlotId,
    key: K,
    entry: Option<Entry<T>>,
    waited: Nanos,
}

impl<K: Key, T> Ticket<K, T> {
    pub(super) fn new(shared: Arc<Shared<K, T>>, (taken, waited): (Taken<K, T>, Nanos)) -> Self {
        Self {
            shared,
            slot: taken.slot,
            key: taken.key,
            entry: Some(taken.entry),
            waited,
        }
    }

    /// The item's key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// How long the item was queued since it was put, put back or became due.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited)
    }

    /// Whether nothing else of the key can be in progress beside this.
    pub fn is_exclusive(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.exclusive)
    }

    /// Completes the item and drops it.
    pub fn task_done(self) {}

    /// Completes the item and gives it.
    pub fn complete(mut self) -> T {
        let entry = self.take_entry();
        drop(self);
        entry.item
    }

    /// Gives the item to `f` and completes it when `f` has returned, so that what `f` does happens before the key's
    /// next item.
    pub fn complete_with<R>(mut self, f: impl FnOnce(T) -> R) -> R {
        let entry = self.take_entry();
        f(entry.item)
    }

    /// Puts the item back before all others of its key; an exclusive item stays exclusive and nothing of its key gets
    /// in between. Capacities do not apply.
    ///
    /// # Errors
    /// [`PutError`] with the ticket, still in progress, if the queue or the key is closed.
    pub fn requeue_front(self) -> Result<(), PutError<Self>> {
        self.requeue(|_| Place::Front)
    }

    /// Puts the item back behind all others of its key; an exclusive item stays exclusive. Capacities do not apply.
    ///
    /// # Errors
    /// As [`Ticket::requeue_front`].
    pub fn requeue_back(self) -> Result<(), PutError<Self>> {
        self.requeue(|_| Place::Back)
    }

    /// Puts the item back after a delay, behind all others of its key; an exclusive item stays exclusive. The worker
    /// and the key are free meanwhile. Capacities do not apply.
    ///
    /// # Errors
    /// As [`Ticket::requeue_front`]; also while a join or drain is going on.
    pub fn requeue_after(self, delay: Duration) -> Result<(), PutError<Self>> {
        if delay.is_zero() {
            return self.requeue_back();
        }
        self.requeue(|now| Place::At(now.saturating_add(nanos(delay))))
    }

    /// Puts the item back after a delay, before all others of its key, and serves nothing of its key until then: the
    /// key's order is kept, its other items wait. The worker and the other keys are free meanwhile.
    ///
    /// # Errors
    /// As [`Ticket::requeue_after`].
    pub fn requeue_front_after(self, delay: Duration) -> Result<(), PutError<Self>> {
        self.requeue(|now| Place::HoldUntil(now.saturating_add(nanos(delay))))
    }

    /// Whether the key serves one item at a time (its limit is 1).
    #[must_use]
    pub fn is_serial(&self) -> bool {
        self.shared.with(|state, _| state.core.slot(self.slot).is_serial())
    }

    /// Makes the item an ordinary one for its next turn; until it is put back or completed, the key stays locked.
    pub fn make_shared(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.exclusive = false;
        }
    }

    fn requeue(mut self, place: impl FnOnce(Nanos) -> Place) -> Result<(), PutError<Self>> {
        let shared = self.shared.clone();
        let refusal = shared.with(|state, now| {
            let place = place(now);
            let refusal = self.refusal(state, place);
            if refusal.is_none()
                && let Some(entry) = self.entry.take()
            {
                state.requeue(self.slot, Entry { at: now, ..entry }, place, now);
            }
            refusal
        });
        match refusal {
            Some(refusal) => Err(refusal.map(|()| self)),
            None => {
                // The item is back in the queue: nothing is left to complete. (`entry` is `None`, see `Drop`.)
                self.slot = SlotId::MAX;
                Ok(())
            }
        }
    }

    fn refusal(&self, state: &State<K, T>, place: Place) -> Option<PutError<()>> {
        if state.closed {
            Some(PutError::Closed(()))
        } else if state.core.slot(self.slot).settings.closed {
            Some(PutError::KeyClosed(()))
        } else if state.joins > 0 && matches!(place, Place::At(_) | Place::HoldUntil(_)) {
            Some(PutError::Joining(()))
        } else {
            None
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "only `complete*` and `requeue` take the entry, and they consume the ticket"
    )]
    fn take_entry(&mut self) -> Entry<T> {
        self.entry.take().expect("the item is in the ticket")
    }
}

impl<K: Key, T> State<K, T> {
    fn requeue(&mut self, id: SlotId, entry: Entry<T>, place: Place, now: Nanos) {
        let earliest = self.core.next_due();
        self.core.requeue(id, entry, place, now);
        if self.core.next_due() < earliest {
            // Waiting getters have armed their timers for a later time.
            self.getters.wake_all(&mut self.wakes);
        }
        self.wake_for(id);
        self.report(id);
    }

    pub(super) fn done(&mut self, id: SlotId, now: Nanos) {
        if self.core.done(id, now) {
            self.wake_for(id);
        }
        self.report(id);
    }
}

impl<K: Key, T> Deref for Ticket<K, T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "as in `take_entry`")]
    fn deref(&self) -> &T {
        &self.entry.as_ref().expect("the item is in the ticket").item
    }
}

impl<K: Key, T> DerefMut for Ticket<K, T> {
    #[expect(clippy::expect_used, reason = "as in `take_entry`")]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.entry.as_mut().expect("the item is in the ticket").item
    }
}

impl<K: Key, T> Drop for Ticket<K, T> {
    fn drop(&mut self) {
        if self.slot != SlotId::MAX {
            self.shared.done(self.slot);
        }
    }
}

impl<K: Key + fmt::Debug, T: fmt::Debug> fmt::Debug for Ticket<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("key", &self.key)
            .field("item", &self.entry.as_ref().map(|e| &e.item))
            .finish()
    }
}
