//! The queue's sizes and counts, each set taken at one moment.
//!
//! Invariant: `put = queued + in_progress + deferred + done + dropped` in every [`Stats`]. Must not know of locks.

use std::sync::Arc;
use std::time::Duration;

use super::core::{Key, Nanos, Slot};
use super::shared::State;

/// The whole queue at one moment.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items that could be served now but for order, locks, limits and pauses.
    pub queued: usize,
    /// Items with a live ticket.
    pub in_progress: usize,
    /// Items whose time has not come.
    pub deferred: usize,
    /// Items accepted so far.
    pub put: u64,
    /// Tickets given so far; an item put back counts again.
    pub got: u64,
    /// Items completed.
    pub done: u64,
    /// Items that left unserved: cleared, displaced by newer ones, dropped by a join or handed back by a drain.
    pub dropped: u64,
    /// Puts refused.
    pub refused: u64,
    /// Keys remembered; those that only have settings do not count.
    pub known_keys: usize,
}

/// One key at one moment.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyStats {
    /// As in [`Stats`].
    pub queued: usize,
    /// As in [`Stats`].
    pub in_progress: usize,
    /// As in [`Stats`].
    pub deferred: usize,
    /// Bytes queued and deferred, as the puts said them.
    pub bytes: u64,
    /// As in [`Stats`], since the key became known.
    pub put: u64,
    /// As in [`Stats`], since the key became known.
    pub got: u64,
    /// As in [`Stats`], since the key became known.
    pub done: u64,
    /// As in [`Stats`], since the key became known.
    pub dropped: u64,
    /// Age of the item that is served next.
    pub oldest_age: Option<Duration>,
    /// An exclusive item is in progress.
    pub locked: bool,
    /// The key is paused.
    pub paused: bool,
    /// The key is closed.
    pub closed: bool,
    /// The key's label.
    pub label: Option<Arc<str>>,
}

impl<K: Key, T> State<K, T> {
    pub(super) fn stats(&mut self, now: Nanos) -> Stats {
        self.core.forget_expired(now, usize::MAX);
        let totals = self.core.totals();
        Stats {
            queued: totals.queued,
            in_progress: totals.in_progress,
            deferred: totals.deferred,
            put: totals.put,
            got: totals.got,
            done: totals.done,
            dropped: totals.dropped,
            refused: self.refused,
            known_keys: self.core.known(),
        }
    }

    pub(super) fn key_stats(&self, key: &K, now: Nanos) -> KeyStats {
        self.core
            .find(key)
            .map(|id| KeyStats::of(self.core.slot(id), now))
            .unwrap_or_default()
    }
}

impl KeyStats {
    pub(super) fn of<K, T>(slot: &Slot<K, T>, now: Nanos) -> Self {
        Self {
            queued: slot.queued(),
            in_progress: slot.in_progress(),
            deferred: slot.deferred(),
            bytes: slot.bytes(),
            put: slot.put,
            got: slot.got,
            done: slot.done,
            dropped: slot.dropped,
            oldest_age: slot.head_at().map(|at| Duration::from_nanos(now.saturating_sub(at))),
            locked: slot.is_locked(),
            paused: slot.settings.paused,
            closed: slot.settings.closed,
            label: slot.settings.label.clone(),
        }
    }
}
