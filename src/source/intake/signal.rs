//! A wake-up for those that wait for a change of the account, and nearly free when nobody does.
//!
//! Most settlements change something that nobody waits for, and waking nobody costs more than settling. Invariant: who
//! says [`waiting`](Signal::waiting) before it looks under the account's lock is told of every change made under the
//! lock after that look. Must not know what changes.
//!
//! How it works: a waiter is counted, then takes the lock and looks. A change is made under the lock, then the count is
//! read. When the look came before the change, the count came before it too (through the lock), so the change's maker
//! reads it; when it came after, the look has seen the change.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

#[derive(Default)]
pub(super) struct Signal {
    notify: Notify,
    waiters: AtomicUsize,
}

/// Counts a waiter until it is dropped.
#[must_use = "a waiter that is not counted is not told"]
pub(super) struct Waiting<'a>(&'a Signal);

impl Signal {
    /// Counts the caller among those to be told, from now on.
    pub(super) fn waiting(&self) -> Waiting<'_> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// Gives the next wake-up, for one that is counted.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Wakes those that wait.
    pub(super) fn tell(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.notify.notify_waiters();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}
