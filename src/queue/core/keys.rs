//! Which keys are known: made at their first put or setting, remembered for a grace time when empty, then forgotten.
//!
//! Invariants: a number in `index` names a slot that is `Some`; a key with settings is never forgotten, it only loses
//! its place. Must not know of the order of service.

use super::slot::{Settings, Slot};
use super::{Core, Key, Nanos, SlotId};

impl<K: Key, T> Core<K, T> {
    /// Finds a key.
    pub(crate) fn find(&self, key: &K) -> Option<SlotId> {
        self.index.get(key).copied()
    }

    /// Finds a key or makes it known; `series` is asked for a new key's series of metrics.
    pub(crate) fn intern(&mut self, key: &K, now: Nanos, series: impl FnOnce(&K) -> u32) -> SlotId {
        if let Some(id) = self.find(key) {
            if self
                .idle
                .since(id)
                .is_none_or(|since| now.saturating_sub(since) < self.rules.idle_grace)
            {
                return id;
            }
            self.forget(id);
            if let Some(id) = self.find(key) {
                return id;
            }
        }
        let slot = Box::new(Slot::new(key.clone(), self.rules.key_limit, series(key)));
        let id = self.free.pop_first().unwrap_or(self.slots.len() as SlotId);
        if let Some(place) = self.slots.get_mut(id as usize) {
            *place = Some(slot);
        } else {
            self.slots.push(Some(slot));
        }
        self.index.insert(key.clone(), id);
        self.placeless += 1;
        id
    }

    /// Changes a key's settings. True if it became eligible.
    pub(crate) fn set(&mut self, id: SlotId, now: Nanos, change: impl FnOnce(&mut Settings)) -> bool {
        let key_limit = self.rules.key_limit;
        let slot = self.slot_mut(id);
        change(&mut slot.settings);
        slot.limit = slot.settings.limit.unwrap_or(key_limit).get();
        if slot.placeless && slot.settings == Settings::default() && slot.is_idle() {
            self.forget(id);
            return false;
        }
        self.refresh(id, now)
    }

    /// Keeps a key known while somebody waits to put there.
    pub(crate) fn pin(&mut self, id: SlotId) {
        self.slot_mut(id).pins += 1;
        self.idle.remove(id);
    }

    /// Ends [`Core::pin`].
    pub(crate) fn unpin(&mut self, id: SlotId, now: Nanos) {
        self.slot_mut(id).pins -= 1;
        self.refresh(id, now);
    }

    /// How many keys are remembered as served or waiting; settings alone do not count.
    pub(crate) fn known(&self) -> usize {
        self.index.len() - self.placeless
    }

    /// The known keys.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot<K, T>> {
        self.slots.iter().flatten().map(|slot| &**slot)
    }

    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot<K, T>> {
        self.slots.iter_mut().flatten().map(|slot| &mut **slot)
    }

    /// Forgets keys that were empty for the grace time, at most `most` of them.
    pub(crate) fn forget_expired(&mut self, now: Nanos, most: usize) {
        for _ in 0..most {
            match self.idle.first() {
                Some((id, since)) if now.saturating_sub(since) >= self.rules.idle_grace => self.forget(id),
                _ => break,
            }
        }
    }

    /// Remembers an empty key, and forgets the oldest one if there are too many.
    pub(super) fn rest(&mut self, id: SlotId, now: Nanos) {
        if self.slot(id).placeless {
            if self.slot(id).settings == Settings::default() {
                self.forget(id);
            }
            return;
        }
        self.idle.push(id, now);
        while self.idle.len() > self.rules.idle_keys_max {
            let Some((oldest, _)) = self.idle.first() else { break };
            self.forget(oldest);
        }
    }

    /// Forgets an empty key; one with settings only loses its place.
    fn forget(&mut self, id: SlotId) {
        self.idle.remove(id);
        let slot = self.slot_mut(id);
        if slot.settings != Settings::default() {
            if !slot.placeless {
                slot.placeless = true;
                self.placeless += 1;
            }
            return;
        }
        let was_placeless = slot.placeless;
        self.placeless -= usize::from(was_placeless);
        if let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::take) {
            self.index.remove(&slot.key);
        }
        self.free.insert(id);
        self.shrink();
    }

    /// Gives back the memory of forgotten keys at the end of the table.
    fn shrink(&mut self) {
        while let Some(None) = self.slots.last() {
            self.slots.pop();
            self.free.remove(&(self.slots.len() as SlotId));
        }
        let ids = self.slots.len();
        if self.slots.capacity() > 1024 && self.slots.capacity() / 4 > ids {
            self.slots.shrink_to(ids * 2);
            self.ready.truncate(ids);
            self.idle.truncate(ids);
        }
        if self.index.capacity() > 1024 && self.index.capacity() / 4 > self.index.len() {
            self.index.shrink_to(self.index.len() * 2);
        }
    }

    /// A key's record, if the key was not forgotten meanwhile.
    pub(crate) fn known_mut(&mut self, id: SlotId) -> Option<&mut Slot<K, T>> {
        self.slots.get_mut(id as usize).and_then(Option::as_deref_mut)
    }

    pub(crate) fn slot(&self, id: SlotId) -> &Slot<K, T> {
        #[expect(
            clippy::expect_used,
            reason = "ids come from `intern`; a key with items, tickets or pins is not forgotten"
        )]
        self.slots
            .get(id as usize)
            .and_then(Option::as_deref)
            .expect("a known key")
    }

    pub(crate) fn slot_mut(&mut self, id: SlotId) -> &mut Slot<K, T> {
        #[expect(clippy::expect_used, reason = "as in `slot`")]
        self.slots
            .get_mut(id as usize)
            .and_then(Option::as_deref_mut)
            .expect("a known key")
    }
}
