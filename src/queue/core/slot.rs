//! One key's record: its FIFO, its deferrals, its counts and its settings.
//!
//! Invariants: `locked` only while one exclusive item, and nothing else of the key, is in progress. Must not know of
//! other keys.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use super::Nanos;
use super::room::{Capacity, Held};

/// One item with what the queue must know of it. Small: a million of them may be queued.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) item: T,
    /// When it was put, or became due.
    pub(crate) at: Nanos,
    /// Its size in bytes for the capacities, up to 4 GiB.
    pub(crate) bytes: u32,
    pub(crate) exclusive: bool,
    /// While it is deferred, nothing of its key is served; then it goes to the front.
    pub(crate) holds: bool,
}

/// What a user may set for a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) weight: NonZeroU32,
    /// Most items in progress at once, instead of the queue's limit per key.
    pub(crate) limit: Option<NonZeroU32>,
    pub(crate) paused: bool,
    /// Nothing can be put.
    pub(crate) closed: bool,
    /// Instead of the queue's capacity per key.
    pub(crate) capacity: Option<Capacity>,
    /// Instead of the queue's overflow policy, as the queue numbers them.
    pub(crate) overflow: Option<u8>,
    pub(crate) label: Option<std::sync::Arc<str>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            weight: NonZeroU32::MIN,
            limit: None,
            paused: false,
            closed: false,
            capacity: None,
            overflow: None,
            label: None,
        }
    }
}

pub(crate) struct Slot<K, T> {
    pub(crate) key: K,
    pub(super) items: VecDeque<Entry<T>>,
    pub(super) deferred: BTreeMap<(Nanos, u64), Entry<T>>,
    /// Items in progress.
    pub(super) count: u32,
    /// Most items in progress.
    pub(super) limit: u32,
    /// Deferred items that hold the key.
    pub(super) holds: u32,
    pub(super) locked: bool,
    pub(super) stamp: u64,
    /// Gets since the stamp was renewed.
    pub(super) gets: u32,
    /// Not yet, or no longer, remembered as served: its next put makes it a new key.
    pub(super) placeless: bool,
    /// Somebody waits to put here: the key must stay known.
    pub(super) pins: u32,
    pub(super) held: Held,
    pub(crate) settings: Settings,
    pub(crate) put: u64,
    pub(crate) got: u64,
    pub(crate) done: u64,
    pub(crate) dropped: u64,
    /// For the owner's metrics: which series, and what was last reported to it.
    pub(crate) series: u32,
    pub(crate) reported: [u32; 7],
}

impl<K, T> Slot<K, T> {
    pub(super) fn new(key: K, limit: NonZeroU32, series: u32) -> Self {
        Self {
            key,
            items: VecDeque::new(),
            deferred: BTreeMap::new(),
            count: 0,
            limit: limit.get(),
            holds: 0,
            locked: false,
            stamp: 0,
            gets: 0,
            placeless: true,
            pins: 0,
            held: Held::default(),
            settings: Settings::default(),
            put: 0,
            got: 0,
            done: 0,
            dropped: 0,
            series,
            reported: [0; 7],
        }
    }

    /// Whether the head item may be taken now.
    pub(super) fn is_eligible(&self) -> bool {
        self.items.front().is_some_and(|head| {
            !self.locked
                && !self.settings.paused
                && self.holds == 0
                && self.count < self.limit
                && !(head.exclusive && self.count > 0)
        })
    }

    /// Whether nothing is queued, deferred, in progress or about to be put.
    pub(super) fn is_idle(&self) -> bool {
        self.items.is_empty() && self.count == 0 && self.deferred.is_empty() && self.pins == 0
    }

    pub(crate) fn queued(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn in_progress(&self) -> usize {
        self.count as usize
    }

    /// Whether at most one item is in progress at a time.
    pub(crate) fn is_serial(&self) -> bool {
        self.limit == 1
    }

    pub(crate) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// Bytes queued and deferred.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.bytes
    }

    /// When the head item was put or became due.
    pub(crate) fn head_at(&self) -> Option<Nanos> {
        self.items.front().map(|head| head.at)
    }
}
