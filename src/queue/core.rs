//! The rule of the fair multi-FIFO: which key is served next, and the counts that decide it.
//!
//! Owns the keys, their FIFOs, the deferrals and every count. Invariants: the head item of the eligible key with the
//! smallest (in progress / weight, stamp) is taken next; a key is in the ready heap exactly while it is eligible;
//! `put = queued + in progress + deferred + done + dropped` after every call. Every operation costs O(log keys)
//! (deferrals: O(log deferrals)). Must not know of clocks (the time comes in as nanoseconds since the queue was made),
//! locks, waiting, wakers or metrics.
//!
//! How the parts fit: `slot` is one key's record; `ready` orders the eligible keys; `idle` remembers empty keys for a
//! grace time; `room` counts what the capacities bound. After each change of a key, [`Core::refresh`] brings the ready
//! heap and the idle list up to date and says whether the key became eligible.

mod idle;
mod keys;
mod ready;
mod room;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::num::NonZeroU32;

use idle::IdleList;
use ready::{Rank, ReadyHeap};
use room::Held;

pub use room::Capacity;
pub(crate) use slot::{Entry, Settings, Slot};

/// What can be a key: cheap to clone, hashed and compared. `None` and the empty string are keys like any other.
pub trait Key: Clone + Eq + Hash {}
impl<K: Clone + Eq + Hash> Key for K {}

/// Nanoseconds since the queue was made.
pub(crate) type Nanos = u64;
/// A key's number while it is known.
pub(crate) type SlotId = u32;

/// Where an item goes that returns to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before all queued items of its key.
    Front,
    /// Behind all queued items of its key.
    Back,
    /// Behind them, at this time.
    At(Nanos),
    /// Before them, at this time; until then nothing of the key is served.
    HoldUntil(Nanos),
}

/// The totals, taken at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) queued: usize,
    pub(crate) in_progress: usize,
    pub(crate) deferred: usize,
    pub(crate) put: u64,
    pub(crate) got: u64,
    pub(crate) done: u64,
    pub(crate) dropped: u64,
}

/// How long and how many empty keys are remembered, and what the capacities are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) idle_grace: Nanos,
    pub(crate) idle_keys_max: usize,
    pub(crate) key_capacity: Capacity,
    pub(crate) total_capacity: Capacity,
    pub(crate) reserve_per_key: usize,
    pub(crate) key_limit: NonZeroU32,
}

/// What [`Core::take`] gives.
pub(crate) struct Taken<K, T> {
    pub(crate) slot: SlotId,
    pub(crate) key: K,
    pub(crate) entry: Entry<T>,
}

/// The queue without time, locks and waiting.
pub(crate) struct Core<K, T> {
    index: HashMap<K, SlotId, foldhash::fast::RandomState>,
    slots: Vec<Option<Box<Slot<K, T>>>>,
    free: BTreeSet<SlotId>,
    /// Configured keys without a place: known by name, not remembered as served.
    placeless: usize,
    ready: ReadyHeap,
    idle: IdleList,
    due: BTreeSet<(Nanos, u64, SlotId)>,
    next_due: Nanos,
    tick: u64,
    deferral: u64,
    held: Held,
    totals: Totals,
    rules: Rules,
}

impl<K: Key, T> Core<K, T> {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            index: HashMap::default(),
            slots: Vec::new(),
            free: BTreeSet::new(),
            placeless: 0,
            ready: ReadyHeap::default(),
            idle: IdleList::default(),
            due: BTreeSet::new(),
            next_due: Nanos::MAX,
            tick: 0,
            deferral: 0,
            held: Held::default(),
            totals: Totals::default(),
            rules,
        }
    }

    /// Puts an item at the tail of its key. True if the key can be served now.
    pub(crate) fn put(&mut self, id: SlotId, entry: Entry<T>, now: Nanos) -> bool {
        self.totals.put += 1;
        self.slot_mut(id).put += 1;
        self.enter(id, entry, Place::Back, now);
        self.refresh(id, now);
        self.ready.contains(id)
    }

    /// Keeps an item until `due`.
    pub(crate) fn defer(&mut self, id: SlotId, entry: Entry<T>, due: Nanos, now: Nanos) {
        self.totals.put += 1;
        self.slot_mut(id).put += 1;
        self.enter(id, entry, Place::At(due), now);
        self.refresh(id, now);
    }

    /// Takes the head item of the next key, which then counts one more in progress.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Taken<K, T>> {
        let id = self.ready.first()?;
        self.take_of(id, now)
    }

    /// Takes the head item of the key `id` if it is eligible.
    pub(crate) fn take_of(&mut self, id: SlotId, now: Nanos) -> Option<Taken<K, T>> {
        if !self.ready.contains(id) {
            return None;
        }
        self.tick += 1;
        let tick = self.tick;
        let slot = self.slot_mut(id);
        let entry = slot.items.pop_front()?;
        slot.count += 1;
        slot.got += 1;
        slot.locked = entry.exclusive;
        slot.gets += 1;
        if slot.gets >= slot.settings.weight.get() {
            slot.gets = 0;
            slot.stamp = tick;
        }
        let key = slot.key.clone();
        slot.held.remove(&entry);
        self.held.remove(&entry);
        self.totals.queued -= 1;
        self.totals.in_progress += 1;
        self.totals.got += 1;
        self.refresh(id, now);
        Some(Taken { slot: id, key, entry })
    }

    /// Ends an item in progress. True if its key became eligible by it.
    pub(crate) fn done(&mut self, id: SlotId, now: Nanos) -> bool {
        self.totals.done += 1;
        self.slot_mut(id).done += 1;
        self.leave(id);
        self.refresh(id, now)
    }

    /// Whether [`Core::done`] depends on the time: the key may become idle. What became due meanwhile may move later: a
    /// completion changes counts and a stamp, a due item lengthens a FIFO, and neither touches what the other does.
    pub(crate) fn needs_time_to_end(&self, id: SlotId) -> bool {
        let slot = self.slot(id);
        slot.count == 1 && slot.items.is_empty()
    }

    /// Ends an item in progress and puts it back. True if its key can be served now.
    pub(crate) fn requeue(&mut self, id: SlotId, entry: Entry<T>, place: Place, now: Nanos) -> bool {
        self.leave(id);
        self.enter(id, entry, place, now);
        self.refresh(id, now);
        self.ready.contains(id)
    }

    /// Moves what became due to the tails of its keys, in due order, ties in put order; calls `moved` for each item.
    pub(crate) fn advance(&mut self, now: Nanos, moved: impl FnMut(SlotId)) {
        self.mature(now, now, moved);
        self.forget_expired(now, 16);
    }

    /// Makes every deferral due now; calls `moved` for each.
    pub(crate) fn run_deferred(&mut self, now: Nanos, moved: impl FnMut(SlotId)) {
        self.mature(Nanos::MAX, now, moved);
    }

    /// Moves the deferrals that are due at `upto` or before.
    fn mature(&mut self, upto: Nanos, now: Nanos, mut moved: impl FnMut(SlotId)) {
        while self.next_due <= upto {
            let Some((due, number, id)) = self.due.pop_first() else {
                break;
            };
            self.next_due = self.due.first().map_or(Nanos::MAX, |first| first.0);
            let slot = self.slot_mut(id);
            let Some(entry) = slot.deferred.remove(&(due, number)) else {
                continue;
            };
            let at = due.min(now);
            if entry.holds {
                slot.holds -= 1;
                let holds = false;
                slot.items.push_front(Entry { at, holds, ..entry });
            } else {
                slot.items.push_back(Entry { at, ..entry });
            }
            self.totals.deferred -= 1;
            self.totals.queued += 1;
            self.refresh(id, now);
            moved(id);
        }
    }

    /// Removes and returns what waits under a key: queued and deferred items. Items in progress stay.
    pub(crate) fn clear(&mut self, id: SlotId, now: Nanos) -> (Vec<T>, Vec<T>) {
        let deferred = self.take_deferred(id);
        let slot = self.slot_mut(id);
        let queued = std::mem::take(&mut slot.items);
        let dropped = queued.len() + deferred.len();
        slot.dropped += dropped as u64;
        for entry in queued.iter().chain(&deferred) {
            slot.held.remove(entry);
        }
        for entry in queued.iter().chain(&deferred) {
            self.held.remove(entry);
        }
        self.totals.queued -= queued.len();
        self.totals.dropped += dropped as u64;
        self.refresh(id, now);
        (
            queued.into_iter().map(|e| e.item).collect(),
            deferred.into_iter().map(|e| e.item).collect(),
        )
    }

    /// Removes the item that a key would lose first: its head, or its earliest deferral. To be followed by a put or a
    /// [`Core::refresh`] of the key.
    pub(crate) fn drop_oldest(&mut self, id: SlotId) -> Option<T> {
        let slot = self.slot_mut(id);
        let entry = if let Some(entry) = slot.items.pop_front() {
            self.totals.queued -= 1;
            entry
        } else {
            let ((due, number), entry) = slot.deferred.pop_first()?;
            slot.holds -= u32::from(entry.holds);
            self.undue(due, number, id);
            entry
        };
        let slot = self.slot_mut(id);
        slot.dropped += 1;
        slot.held.remove(&entry);
        self.held.remove(&entry);
        self.totals.dropped += 1;
        self.rank(id);
        Some(entry.item)
    }

    /// Removes every deferral, earliest first: key, item, exclusive, due.
    pub(crate) fn take_all_deferred(&mut self, now: Nanos) -> Vec<(K, Entry<T>, Nanos)> {
        let mut taken = Vec::with_capacity(self.due.len());
        for (due, number, id) in std::mem::take(&mut self.due) {
            let slot = self.slot_mut(id);
            let Some(entry) = slot.deferred.remove(&(due, number)) else {
                continue;
            };
            slot.held.remove(&entry);
            slot.holds -= u32::from(entry.holds);
            slot.dropped += 1;
            let key = slot.key.clone();
            self.held.remove(&entry);
            self.totals.deferred -= 1;
            self.totals.dropped += 1;
            taken.push((key, entry, due));
            self.refresh(id, now);
        }
        self.next_due = Nanos::MAX;
        taken
    }

    /// How many items of the key could be taken at once, one after the other.
    pub(crate) fn takeable(&self, id: SlotId) -> usize {
        if !self.ready.contains(id) {
            return 0;
        }
        let slot = self.slot(id);
        match slot.items.front() {
            Some(head) if !head.exclusive => slot.items.len().min(slot.limit.saturating_sub(slot.count) as usize),
            head => usize::from(head.is_some()),
        }
    }

    /// True if some key is eligible.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.first().is_some()
    }

    /// The key served next.
    pub(crate) fn first_ready(&self) -> Option<SlotId> {
        self.ready.first()
    }

    /// When the earliest deferral becomes due; `Nanos::MAX` if there is none.
    pub(crate) fn next_due(&self) -> Nanos {
        self.next_due
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Adds an item to a key: a former item in progress, or a new one.
    fn enter(&mut self, id: SlotId, entry: Entry<T>, place: Place, now: Nanos) {
        self.held.add(&entry);
        if self.slot(id).placeless {
            self.tick += 1;
            self.placeless -= 1;
        }
        let (tick, number) = (self.tick, self.deferral);
        let slot = self.slot_mut(id);
        if slot.placeless {
            slot.placeless = false;
            slot.stamp = tick;
            slot.gets = 0;
        }
        slot.held.add(&entry);
        match place {
            Place::Front => slot.items.push_front(entry),
            Place::Back => slot.items.push_back(entry),
            Place::At(due) if due <= now => slot.items.push_back(entry),
            Place::HoldUntil(due) if due <= now => slot.items.push_front(entry),
            Place::At(due) | Place::HoldUntil(due) => {
                let holds = matches!(place, Place::HoldUntil(_));
                slot.holds += u32::from(holds);
                slot.deferred.insert((due, number), Entry { holds, ..entry });
                self.deferral += 1;
                self.due.insert((due, number, id));
                self.next_due = self.next_due.min(due);
                self.totals.deferred += 1;
                return;
            }
        }
        self.totals.queued += 1;
    }

    /// Counts one item less in progress. Only an exclusive item can be in progress under a lock, so it ends the lock.
    fn leave(&mut self, id: SlotId) {
        self.tick += 1;
        let tick = self.tick;
        let slot = self.slot_mut(id);
        slot.count -= 1;
        slot.locked = false;
        if slot.settings.weight.get() == 1 {
            slot.stamp = tick;
            slot.gets = 0;
        }
        self.totals.in_progress -= 1;
    }

    /// Removes the deferrals of one key, earliest first.
    fn take_deferred(&mut self, id: SlotId) -> Vec<Entry<T>> {
        let slot = self.slot_mut(id);
        slot.holds = 0;
        let deferred = std::mem::take(&mut slot.deferred);
        for (due, number) in deferred.keys() {
            self.due.remove(&(*due, *number, id));
        }
        self.next_due = self.due.first().map_or(Nanos::MAX, |first| first.0);
        self.totals.deferred -= deferred.len();
        deferred.into_values().collect()
    }

    /// Forgets one entry of the timer's order.
    fn undue(&mut self, due: Nanos, number: u64, id: SlotId) {
        self.due.remove(&(due, number, id));
        self.next_due = self.due.first().map_or(Nanos::MAX, |first| first.0);
        self.totals.deferred -= 1;
    }

    /// Brings the ready heap and the idle list up to date with a key. True if it became eligible.
    pub(crate) fn refresh(&mut self, id: SlotId, now: Nanos) -> bool {
        let became_ready = self.rank(id);
        if self.slot(id).is_idle() {
            self.rest(id, now);
        } else {
            self.idle.remove(id);
        }
        became_ready
    }

    /// Gives a key its rank in the ready heap, or takes it out. True if it became eligible.
    fn rank(&mut self, id: SlotId) -> bool {
        let slot = self.slot(id);
        let rank = slot.is_eligible().then_some(Rank {
            count: slot.count,
            weight: slot.settings.weight.get(),
            stamp: slot.stamp,
        });
        let became_ready = rank.is_some() && !self.ready.contains(id);
        self.ready.set(id, rank);
        became_ready
    }
}
