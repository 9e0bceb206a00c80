//! What can be set for one key: label, limit, weight, capacity, pause, close; and clearing it.
//!
//! Invariant: settings are kept as long as they differ from the default, whatever the key holds. Must not know of
//! waiting.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::FairQueue;
use super::core::{Capacity, Key, Nanos, Settings};
use super::options::Overflow;
use super::shared::State;

impl<K: Key, T> FairQueue<K, T> {
    /// Bounds how many items of a key are in progress at once; `None` = the queue's limit per key.
    pub fn set_limit(&self, key: &K, limit: Option<NonZeroU32>) {
        self.set(key, |settings| settings.limit = limit);
    }

    /// Gives a key `weight` times the share of a key of weight 1, which is the default.
    pub fn set_weight(&self, key: &K, weight: NonZeroU32) {
        self.set(key, |settings| settings.weight = weight);
    }

    /// Names a key in the metrics; keys of one label add up. `None` = its display form.
    pub fn set_label(&self, key: &K, label: Option<&str>) {
        let label = label.map(Arc::from);
        self.set(key, |settings| settings.label = label);
    }

    /// Gives a key a capacity of its own; `None` = the queue's capacity per key.
    pub fn set_capacity(&self, key: &K, capacity: Option<Capacity>) {
        self.set(key, |settings| settings.capacity = capacity);
    }

    /// Gives a key an overflow policy of its own; `None` = the queue's. Puts that wait already go on waiting.
    pub fn set_overflow(&self, key: &K, overflow: Option<Overflow>) {
        self.set(key, |settings| settings.overflow = overflow.map(Overflow::number));
    }

    /// Stops serving a key. Tickets, puts and deferrals go on.
    pub fn pause(&self, key: &K) {
        self.set(key, |settings| settings.paused = true);
    }

    /// Serves a paused key again, at its old place.
    pub fn resume(&self, key: &K) {
        self.set(key, |settings| settings.paused = false);
    }

    /// Drops what waits under a key and gives its numbers: (queued, deferred). Items in progress go on, and an
    /// exclusive one keeps its lock.
    pub fn clear(&self, key: &K) -> (usize, usize) {
        let (queued, deferred) = self.shared.with(|state, now| state.clear(key, now));
        (queued.len(), deferred.len()) // dropped here, outside the lock
    }

    /// Drops everything that waits under every key; gives its numbers: (queued, deferred). Items in progress go on.
    pub fn clear_all(&self) -> (usize, usize) {
        let cleared = self.shared.with(|state, now| {
            let keys: Vec<K> = state.core.slots().map(|slot| slot.key.clone()).collect();
            keys.iter().map(|key| state.clear(key, now)).collect::<Vec<_>>()
        });
        cleared.iter().fold((0, 0), |(q, d), (queued, deferred)| {
            (q + queued.len(), d + deferred.len())
        })
    }

    /// Clears a key and refuses puts under it until [`FairQueue::reopen`]. After it returned, no get gives an item of
    /// the key.
    pub fn close_key(&self, key: &K) -> (usize, usize) {
        let (queued, deferred) = self.shared.with(|state, now| {
            state.set(key, now, |settings| settings.closed = true);
            if let Some(id) = state.core.find(key) {
                let dismissed = state.putters.dismiss(&mut state.core, id, now);
                state.wakes.extend(dismissed);
            }
            state.clear(key, now)
        });
        (queued.len(), deferred.len())
    }

    /// Accepts puts under a closed key again.
    pub fn reopen(&self, key: &K) {
        self.set(key, |settings| settings.closed = false);
    }

    fn set(&self, key: &K, change: impl FnOnce(&mut Settings)) {
        self.shared.with(|state, now| state.set(key, now, change));
    }
}

impl<K: Key, T> State<K, T> {
    fn set(&mut self, key: &K, now: Nanos, change: impl FnOnce(&mut Settings)) {
        let id = self.intern(key, now);
        let label = self.core.slot(id).settings.label.clone();
        if self.core.set(id, now, change) {
            self.wake_for(id);
        }
        self.after_room(id);
        if let (Some(meters), Some(slot)) = (&mut self.meters, self.core.known_mut(id))
            && slot.settings.label != label
        {
            meters.relabel(slot);
        }
    }

    fn clear(&mut self, key: &K, now: Nanos) -> (Vec<T>, Vec<T>) {
        let Some(id) = self.core.find(key) else {
            return (Vec::new(), Vec::new());
        };
        let cleared = self.core.clear(id, now);
        self.after_room(id);
        self.report(id);
        cleared
    }
}
