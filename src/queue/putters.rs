//! Who waits to put: per key in order, and across keys in the order in which they came where the total capacity stops
//! them.
//!
//! How it works: the item stays with its waiting task. When room appears, it is promised (counted as used) to the first
//! waiter it fits, which is woken and redeems the promise; a waiter that is dropped instead gives the promise back, and
//! the next one gets it. So a later put never overtakes an earlier one of its key, and a cancelled put leaves nothing
//! behind. `stopped` holds the first waiter of each key that only the total capacity stops.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::task::Waker;

use super::core::{Core, Key, Nanos, SlotId};

struct Waiting {
    number: u64,
    bytes: u32,
    waker: Waker,
}

/// What became of a waiting put.
pub(super) enum Turn {
    /// Its room is counted as used; it may put.
    Granted,
    /// It still waits.
    Waiting,
    /// Its key was closed, or the queue.
    Gone,
}

#[derive(Default)]
pub(super) struct Putters {
    by_key: HashMap<SlotId, VecDeque<Waiting>>,
    stopped: BTreeSet<(u64, SlotId)>,
    granted: HashMap<u64, (SlotId, u32)>,
    next: u64,
}

impl Putters {
    /// Whether somebody waits to put under this key.
    pub(super) fn has_waiting(&self, id: SlotId) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(&id)
    }

    /// Whether somebody waits whom only the total capacity stops.
    pub(super) fn has_stopped(&self) -> bool {
        !self.stopped.is_empty()
    }

    /// Adds a waiter behind the others of its key.
    pub(super) fn register<K: Key, T>(&mut self, core: &mut Core<K, T>, id: SlotId, bytes: u32, waker: &Waker) -> u64 {
        self.next += 1;
        let number = self.next;
        core.pin(id);
        let line = self.by_key.entry(id).or_default();
        line.push_back(Waiting {
            number,
            bytes,
            waker: waker.clone(),
        });
        if line.len() == 1 && core.key_admits(id, bytes) {
            self.stopped.insert((number, id));
        }
        number
    }

    /// Asks for a waiter's turn and renews its waker; a granted promise is redeemed by the call.
    pub(super) fn ask<K: Key, T>(
        &mut self,
        core: &mut Core<K, T>,
        id: SlotId,
        number: u64,
        waker: Option<&Waker>,
    ) -> Turn {
        if let Some((id, bytes)) = self.granted.remove(&number) {
            core.unpromise(id, bytes);
            return Turn::Granted;
        }
        match self
            .by_key
            .get_mut(&id)
            .and_then(|line| line.iter_mut().find(|w| w.number == number))
        {
            Some(waiting) => {
                if let Some(waker) = waker {
                    waiting.waker.clone_from(waker);
                }
                Turn::Waiting
            }
            None => Turn::Gone,
        }
    }

    /// Ends a wait that was dropped.
    pub(super) fn leave<K: Key, T>(
        &mut self,
        core: &mut Core<K, T>,
        id: SlotId,
        number: u64,
        (now, wakes): (Nanos, &mut Vec<Waker>),
    ) {
        if let Some((id, bytes)) = self.granted.remove(&number) {
            core.unpromise(id, bytes);
        } else if let Some(line) = self.by_key.get_mut(&id) {
            let before = line.len();
            line.retain(|w| w.number != number);
            if line.len() == before {
                return;
            }
            if line.is_empty() {
                self.by_key.remove(&id);
            }
            self.stopped.remove(&(number, id));
        } else {
            return;
        }
        self.grant(core, id, wakes);
        core.unpin(id, now);
    }

    /// Promises room that appeared under a key, and then what is left in total, to those who wait for it.
    pub(super) fn grant<K: Key, T>(&mut self, core: &mut Core<K, T>, id: SlotId, wakes: &mut Vec<Waker>) {
        self.consider(core, id);
        // Oldest first; one that fits only by its key's reserve may pass one that does not fit.
        let mut passed = 0;
        while let Some(&(number, id)) = self.stopped.range((passed, 0)..).next() {
            let Some(line) = self.by_key.get_mut(&id) else { break };
            let Some(bytes) = line.front().map(|first| first.bytes) else {
                break;
            };
            if !core.key_admits(id, bytes) {
                // A ticket came back meanwhile and took the key's room: the key's next get considers it again.
                self.stopped.remove(&(number, id));
                continue;
            }
            if !core.total_admits(id, bytes) {
                passed = number + 1;
                continue;
            }
            self.stopped.remove(&(number, id));
            let Some(first) = line.pop_front() else { break };
            if line.is_empty() {
                self.by_key.remove(&id);
            }
            core.promise(id, first.bytes);
            self.granted.insert(number, (id, first.bytes));
            wakes.push(first.waker);
            self.consider(core, id);
        }
    }

    /// Sends all waiters of a key away.
    pub(super) fn dismiss<K: Key, T>(&mut self, core: &mut Core<K, T>, id: SlotId, now: Nanos) -> Vec<Waker> {
        let mut wakes = Vec::new();
        for waiting in self.by_key.remove(&id).into_iter().flatten() {
            self.stopped.remove(&(waiting.number, id));
            core.unpin(id, now);
            wakes.push(waiting.waker);
        }
        wakes
    }

    /// Sends everybody away.
    pub(super) fn dismiss_all<K: Key, T>(&mut self, core: &mut Core<K, T>, now: Nanos) -> Vec<Waker> {
        let ids: Vec<SlotId> = self.by_key.keys().copied().collect();
        ids.into_iter().flat_map(|id| self.dismiss(core, id, now)).collect()
    }

    /// Notes the first waiter of a key as stopped by the total only, if its key has room.
    fn consider<K: Key, T>(&mut self, core: &Core<K, T>, id: SlotId) {
        if let Some(first) = self.by_key.get(&id).and_then(VecDeque::front)
            && core.key_admits(id, first.bytes)
        {
            self.stopped.insert((first.number, id));
        }
    }
}
