//! Who waits for an item: tasks in the order in which they came, each woken at most once until it asks again.
//!
//! How no wake-up is lost: an event that makes `n` items servable takes up to `n` waiters out of this list and wakes
//! them. A woken waiter that asks again takes an item or puts itself back, at its old place. A woken waiter that is
//! dropped instead finds itself missing from the list and wakes the next one. Must not know what is waited for.

use std::collections::BTreeMap;
use std::task::Waker;

#[derive(Default)]
pub(super) struct Waiters {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

impl Waiters {
    /// Adds a waiter, or puts it back with its latest waker; gives its number.
    pub(super) fn register(&mut self, number: Option<u64>, waker: &Waker) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        match self.waiting.get_mut(&number) {
            Some(known) => known.clone_from(waker),
            None => {
                self.waiting.insert(number, waker.clone());
            }
        }
        number
    }

    /// Takes a waiter out. False if it was woken since it registered.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.waiting.remove(&number).is_some()
    }

    /// Takes out up to `n` waiters, first come first, to be woken after the lock is released.
    pub(super) fn wake(&mut self, n: usize, wakes: &mut Vec<Waker>) {
        for _ in 0..n {
            let Some((_, waker)) = self.waiting.pop_first() else {
                break;
            };
            wakes.push(waker);
        }
    }

    pub(super) fn wake_all(&mut self, wakes: &mut Vec<Waker>) {
        wakes.extend(std::mem::take(&mut self.waiting).into_values());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
