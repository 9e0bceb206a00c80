//! What the capacities bound: items and bytes that are queued or deferred, per key and in total.
//!
//! Invariants: items in progress do not count; an item larger than a whole capacity is admitted when nothing else is
//! held, so that it can never wait for ever. Must not know of overflow policies.

use super::slot::Entry;
use super::{Core, Key, SlotId};

/// How much may be held (queued or deferred).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Items.
    pub items: usize,
    /// Bytes, as the puts say them.
    pub bytes: u64,
}

impl Capacity {
    /// No bound.
    pub const UNBOUNDED: Self = Self {
        items: usize::MAX,
        bytes: u64::MAX,
    };

    /// At most so many items.
    pub const fn items(items: usize) -> Self {
        Self {
            items,
            ..Self::UNBOUNDED
        }
    }

    /// At most so many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self {
            bytes,
            ..Self::UNBOUNDED
        }
    }
}

/// What is held, of one key or in total, with what was promised to waiting puts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) items: usize,
    pub(crate) bytes: u64,
}

impl Held {
    pub(super) fn add<T>(&mut self, entry: &Entry<T>) {
        self.items += 1;
        self.bytes += u64::from(entry.bytes);
    }

    pub(super) fn remove<T>(&mut self, entry: &Entry<T>) {
        self.items -= 1;
        self.bytes -= u64::from(entry.bytes);
    }

    fn change(&mut self, how: fn(u64, u64) -> u64, bytes: u32) {
        self.items = how(self.items as u64, 1) as usize;
        self.bytes = how(self.bytes, u64::from(bytes));
    }

    fn admits(&self, capacity: &Capacity, bytes: u32) -> bool {
        let fits = self.bytes.saturating_add(u64::from(bytes)) <= capacity.bytes;
        self.items < capacity.items && (fits || self.items == 0)
    }
}

impl<K: Key, T> Core<K, T> {
    /// Whether the key's own capacity has room.
    pub(crate) fn key_admits(&self, id: SlotId, bytes: u32) -> bool {
        let slot = self.slot(id);
        let capacity = slot.settings.capacity.as_ref().unwrap_or(&self.rules.key_capacity);
        slot.held.admits(capacity, bytes)
    }

    /// Whether the total capacity has room, or the key has not used up what is reserved for each.
    pub(crate) fn total_admits(&self, id: SlotId, bytes: u32) -> bool {
        self.held.admits(&self.rules.total_capacity, bytes) || self.is_reserved(id)
    }

    /// Whether the key has not used up what is reserved for each.
    pub(crate) fn is_reserved(&self, id: SlotId) -> bool {
        self.slot(id).held.items < self.rules.reserve_per_key
    }

    /// Holds room for a put that waits.
    pub(crate) fn promise(&mut self, id: SlotId, bytes: u32) {
        self.held.change(|n, by| n + by, bytes);
        self.slot_mut(id).held.change(|n, by| n + by, bytes);
    }

    /// Gives the room of [`Core::promise`] back.
    pub(crate) fn unpromise(&mut self, id: SlotId, bytes: u32) {
        self.held.change(|n, by| n - by, bytes);
        self.slot_mut(id).held.change(|n, by| n - by, bytes);
    }
}
