//! The queue's state behind its one lock, and what every operation does around it.
//!
//! How it works: every call takes the lock once, lets what became due move ([`Core::advance`]), changes the core, and
//! collects the wakers it owes. Wakers are called, and items that fell out are dropped, after the lock is released: both
//! run code of others, which may call the queue. Invariant: while something is servable and somebody waits, somebody
//! who waited has been woken for it. Must not know of futures.

use std::mem;
use std::task::Waker;

use super::core::{Core, Key, Nanos, SlotId, Taken};
use super::meters::Meters;
use super::options::{Options, Overflow};
use super::putters::Putters;
use super::sync::{Clock, Mutex, MutexGuard};
use super::waiters::Waiters;

pub(super) struct Shared<K: Key, T> {
    state: Mutex<State<K, T>>,
    pub(super) clock: Clock,
}

pub(super) struct State<K: Key, T> {
    pub(super) core: Core<K, T>,
    pub(super) getters: Waiters,
    pub(super) putters: Putters,
    /// Joins and drains: they wait until nothing is queued or in progress.
    pub(super) joiners: Waiters,
    /// Joins and drains going on: they refuse deferrals.
    pub(super) joins: usize,
    pub(super) closed: bool,
    pub(super) refused: u64,
    pub(super) meters: Option<Meters<K>>,
    pub(super) overflow: Overflow,
    pub(super) wakes: Vec<Waker>,
}

impl<K: Key, T> Shared<K, T> {
    pub(super) fn new(options: Options<K>) -> Self {
        let state = State {
            core: Core::new(options.rules),
            getters: Waiters::default(),
            putters: Putters::default(),
            joiners: Waiters::default(),
            joins: 0,
            closed: false,
            refused: 0,
            meters: options.meters,
            overflow: options.overflow,
            wakes: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            clock: Clock::start(),
        }
    }

    /// Runs one operation under the lock, at one time, and wakes whom it concerns afterwards.
    pub(super) fn with<R>(&self, operation: impl FnOnce(&mut State<K, T>, Nanos) -> R) -> R {
        let now = self.clock.now();
        self.run(self.state.lock(), now, operation)
    }

    /// Ends an item in progress. Reading the clock is a good part of the cost, so it is read only where the time counts.
    pub(super) fn done(&self, id: SlotId) {
        let state = self.state.lock();
        let now = if state.core.needs_time_to_end(id) {
            self.clock.now()
        } else {
            0
        };
        self.run(state, now, |state, now| state.done(id, now));
    }

    fn run<R>(
        &self,
        mut state: MutexGuard<'_, State<K, T>>,
        now: Nanos,
        operation: impl FnOnce(&mut State<K, T>, Nanos) -> R,
    ) -> R {
        state.advance(now);
        let result = operation(&mut state, now);
        state.finish();
        let wakes = mem::take(&mut state.wakes);
        drop(state);
        for waker in wakes {
            waker.wake();
        }
        result
    }
}

impl<K: Key, T> State<K, T> {
    /// Lets due items move to their keys and wakes a getter for each.
    fn advance(&mut self, now: Nanos) {
        let (mut moved, meters) = (0, &mut self.meters);
        let mut touched = Vec::new();
        self.core.advance(now, |id| {
            moved += 1;
            if meters.is_some() {
                touched.push(id);
            }
        });
        if moved > 0 {
            self.getters.wake(moved, &mut self.wakes);
            touched.into_iter().for_each(|id| self.report(id));
        }
    }

    /// Wakes those who wait for the whole queue, if their time has come.
    fn finish(&mut self) {
        let totals = self.core.totals();
        if totals.queued > 0 {
            return;
        }
        if totals.in_progress == 0 && !self.joiners.is_empty() {
            self.joiners.wake_all(&mut self.wakes);
        }
        if self.is_finished() && !self.getters.is_empty() {
            self.getters.wake_all(&mut self.wakes);
        }
    }

    /// Whether getters get nothing any more: closed, and nothing queued or deferred.
    pub(super) fn is_finished(&self) -> bool {
        let totals = self.core.totals();
        self.closed && totals.queued == 0 && totals.deferred == 0
    }

    /// Finds a key or makes it known.
    pub(super) fn intern(&mut self, key: &K, now: Nanos) -> SlotId {
        let meters = &mut self.meters;
        self.core.intern(key, now, |key| {
            meters.as_mut().map_or(0, |meters| meters.series_of(key))
        })
    }

    /// Wakes as many getters as items of this key can be served now.
    pub(super) fn wake_for(&mut self, id: SlotId) {
        if !self.getters.is_empty() {
            let n = self.core.takeable(id);
            self.getters.wake(n, &mut self.wakes);
        }
    }

    /// Does what follows from a taken item: room for a waiting put, metrics. Gives it with how long it was queued.
    pub(super) fn after_take(&mut self, taken: Taken<K, T>, now: Nanos) -> (Taken<K, T>, Nanos) {
        let waited = now.saturating_sub(taken.entry.at);
        self.after_room(taken.slot);
        if let Some(meters) = &self.meters {
            meters.record_wait(self.core.slot(taken.slot).series, waited);
        }
        self.report(taken.slot);
        (taken, waited)
    }

    /// Grants room that appeared under a key to those who wait for it.
    pub(super) fn after_room(&mut self, id: SlotId) {
        if self.putters.has_waiting(id) || self.putters.has_stopped() {
            self.putters.grant(&mut self.core, id, &mut self.wakes);
        }
    }

    /// Passes a wake-up on: somebody who was woken took nothing, or took one of several.
    pub(super) fn pass_on(&mut self) {
        if !self.getters.is_empty() && self.core.has_ready() {
            self.getters.wake(1, &mut self.wakes);
        }
    }

    /// Sets a key's gauges to its sizes.
    pub(super) fn report(&mut self, id: SlotId) {
        if let (Some(meters), Some(slot)) = (&mut self.meters, self.core.known_mut(id)) {
            meters.report(slot);
        }
    }
}
