//! How a queue is made: capacities, what happens when they are used up, idle keys, metrics.
//!
//! Must not know of alerts or of configuration files.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::time::Duration;

use super::FairQueue;
use super::core::{Capacity, Key, Rules};
use super::meters::Meters;

/// What `put` does when a capacity is used up. `try_put` never waits: where `put` would, it refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// It waits for a get; waiting puts of one key are served in order.
    #[default]
    Wait,
    /// It gives the item back.
    Refuse,
    /// It drops the oldest waiting items of the same key until the new one fits, and counts them as dropped; if the
    /// key has nothing to drop, it gives the item back.
    DropOldest,
}

impl Overflow {
    pub(super) fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Wait,
            1 => Self::Refuse,
            _ => Self::DropOldest,
        }
    }
}

/// What a queue is made with. Start from [`Options::new`], end with [`Options::build`].
#[derive(Clone, Debug)]
pub struct Options<K> {
    pub(super) rules: Rules,
    pub(super) overflow: Overflow,
    pub(super) meters: Option<Meters<K>>,
}

impl<K: Key> Default for Options<K> {
    fn default() -> Self {
        let rules = Rules {
            idle_grace: nanos(Duration::from_secs(60)),
            idle_keys_max: 1024,
            key_capacity: Capacity::UNBOUNDED,
            total_capacity: Capacity::UNBOUNDED,
            reserve_per_key: 0,
            key_limit: NonZeroU32::MAX,
        };
        Self {
            rules,
            overflow: Overflow::default(),
            meters: None,
        }
    }
}

impl<K: Key> Options<K> {
    /// An unbounded queue without metrics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long an empty key keeps its place; 60 s unless said.
    #[must_use]
    pub fn idle_grace(mut self, grace: Duration) -> Self {
        self.rules.idle_grace = nanos(grace);
        self
    }

    /// How many empty keys keep their place; 1,024 unless said. The one that is empty for longest goes first.
    #[must_use]
    pub fn idle_keys_max(mut self, keys: usize) -> Self {
        self.rules.idle_keys_max = keys;
        self
    }

    /// How much each key may hold queued and deferred; items in progress do not count. Unbounded unless said.
    #[must_use]
    pub fn key_capacity(mut self, capacity: Capacity) -> Self {
        self.rules.key_capacity = capacity;
        self
    }

    /// How much all keys together may hold queued and deferred. Unbounded unless said.
    #[must_use]
    pub fn total_capacity(mut self, capacity: Capacity) -> Self {
        self.rules.total_capacity = capacity;
        self
    }

    /// How many items each key may hold even when the total capacity is used up, so that a flood of one key cannot
    /// shut the others out. The total may be exceeded by this many items per key. 0 unless said.
    #[must_use]
    pub fn reserve_per_key(mut self, items: usize) -> Self {
        self.rules.reserve_per_key = items;
        self
    }

    /// How many items of each key may be in progress at once, unless [`FairQueue::set_limit`] says otherwise for a key.
    /// Unbounded unless said. With 1 the items of a key are completed in the order in which they were put.
    #[must_use]
    pub fn key_limit(mut self, limit: NonZeroU32) -> Self {
        self.rules.key_limit = limit;
        self
    }

    /// What happens when a capacity is used up; [`Overflow::Wait`] unless said.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Reports metrics (crate `metrics`) under the label `queue = name`, keyed by each key's label or display form.
    /// The first `series_max` labels get series of their own, all later ones share `other`. Install the recorder
    /// before the queue is made.
    #[must_use]
    pub fn metrics(mut self, name: impl Into<String>, series_max: usize) -> Self
    where
        K: Display,
    {
        self.meters = Some(Meters::new(name.into(), series_max, K::to_string));
        self
    }

    /// Makes the queue.
    #[must_use]
    pub fn build<T>(self) -> FairQueue<K, T> {
        FairQueue::with_options(self)
    }
}

/// A duration in nanoseconds, at most 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
