//! A fair multi-FIFO queue: items are put under a key, and the queue serves the key with the fewest items in progress.
//!
//! A heavy key (a backfill, a burst) never delays the others: the first item of a late-comer is served by the next get.
//! A key alone takes every worker. Nothing here knows of alerts; the module is usable alone.
//!
//! # The rule
//!
//! A get takes the head item of the *eligible* key with the smallest *(in progress, stamp)*. The stamp is renewed at the
//! key's first put, at each get and at each completion, so that one consumer that completes each item at once rotates
//! strictly over the keys. A key is eligible if something is queued under it, no exclusive item of it is in progress,
//! its head item is not an exclusive one that others in progress stand before, it is not paused and its limit is not
//! reached. With weights, *in progress / weight* takes the place of *in progress*.
//!
//! Fairness is in items *in progress*: it needs nobody to say how long an item takes. An item is in progress until its
//! [`Ticket`] is dropped. There is no other way to complete one, so a worker that panics, is aborted or times out cannot
//! leave its key demoted or locked.
//!
//! # What it can do
//!
//! - **Exclusive items** ([`FairQueue::put_exclusive`]): nothing else of the key is in progress beside them.
//! - **Deferrals** ([`FairQueue::put_after`], [`Ticket::requeue_after`]): due on an exact timer, ties in put order. Far
//!   deferrals cost nothing and do not make a key busy.
//! - **Limits and weights** ([`FairQueue::set_limit`], [`FairQueue::set_weight`]): limit 1 makes a key strictly serial.
//! - **Capacities** ([`Options`]): per key and in total, in items and bytes; a put waits, is refused, or displaces the
//!   oldest item of its key ([`Overflow`]).
//! - **Batches** ([`FairQueue::get_many`]), **pause**, **clear**, **close** of a key, [`FairQueue::join`],
//!   [`FairQueue::drain`], [`FairQueue::close`], one-moment [`FairQueue::stats`], metrics ([`Options::metrics`]).
//!
//! # Example
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use alertstream::queue::FairQueue;
//!
//! let queue = FairQueue::new();
//! for i in 0..1000 {
//!     queue.put("backfill", i).await?;
//! }
//! let busy = queue.get().await?; // held: `backfill` has one item in progress
//! queue.put("tonight", 7).await?;
//! let next = queue.get().await?;
//! assert_eq!((*next.key(), *next), ("tonight", 7));
//! drop(busy); // completes the item
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # Empty keys
//!
//! An empty key keeps its place for a grace time ([`Options::idle_grace`], 60 s; at most [`Options::idle_keys_max`]
//! keys), then it is forgotten and returns as a new key. Keys with settings (label, limit, weight, capacity, pause,
//! close) are kept as long as they have them; they lose only their place.
//!
//! # Proof
//!
//! `tests/queue/cases.rs` lists the acceptance cases and the test of each: among them the traces of the queue that this
//! one is made after, a model of the rule over random sequences, and every interleaving of its wake-ups under loom.
//!
//! # Cost
//!
//! Over 64 keys a put, get and completion take about 0.2 µs together, over 16,384 keys 0.8 µs (`cargo bench --bench
//! queue`, which has the rivals beside it). Two of them read the clock.
//!
//! Each operation is one short critical section of O(log keys); deferrals cost O(log deferrals). Nothing is spawned:
//! each waiting getter carries its own timer, so the queue works on any tokio runtime and on several at once.

pub mod core;

mod drain;
mod error;
mod get;
mod meters;
mod options;
mod put;
mod putters;
mod settings;
mod shared;
mod stats;
mod sync;
mod ticket;
mod waiters;

use std::sync::Arc;
use std::time::Duration;

use shared::Shared;

pub use self::core::{Capacity, Key};
pub use drain::{Deferrals, Deferred};
pub use error::{DrainError, GetError, PutError};
pub use get::{Get, GetMany};
pub use options::{Options, Overflow};
pub use put::PutOptions;
pub use stats::{KeyStats, Stats};
pub use ticket::Ticket;

/// The fair multi-FIFO queue; see the [module](self). Clones are handles to one queue, which closes when the last one
/// is dropped.
pub struct FairQueue<K: Key, T> {
    shared: Arc<Shared<K, T>>,
    closer: Arc<Closer<K, T>>,
}

impl<K: Key, T> FairQueue<K, T> {
    /// Makes an unbounded queue.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(Options::default())
    }

    pub(crate) fn with_options(options: Options<K>) -> Self {
        let shared = Arc::new(Shared::new(options));
        Self {
            closer: Arc::new(Closer(shared.clone())),
            shared,
        }
    }

    /// Takes the next item, waiting for one.
    ///
    /// # Errors
    /// [`GetError::Closed`] when the queue is closed and nothing is queued or deferred any more.
    ///
    /// # Cancel safety
    /// Dropping the future takes nothing; a wake-up already received is passed on.
    pub fn get(&self) -> Get<K, T> {
        Get::new(self.shared.clone(), None)
    }

    /// Takes the next item, waiting at most `within` from now. With zero it takes an item that is there.
    ///
    /// # Errors
    /// [`GetError::Timeout`]; [`GetError::Closed`] as [`FairQueue::get`].
    ///
    /// # Cancel safety
    /// As [`FairQueue::get`].
    pub fn get_timeout(&self, within: Duration) -> Get<K, T> {
        Get::new(self.shared.clone(), Some(within))
    }

    /// Takes the next item if one can be served now.
    #[must_use]
    pub fn try_get(&self) -> Option<Ticket<K, T>> {
        let taken = self.shared.with(get::take_one)?;
        Some(Ticket::new(self.shared.clone(), taken))
    }

    /// Takes up to `most` items, each chosen by the rule; waits for the first only, never for a full batch. `most` = 0
    /// waits for the first and takes none.
    ///
    /// # Errors
    /// As [`FairQueue::get`].
    ///
    /// # Cancel safety
    /// As [`FairQueue::get`].
    pub fn get_many(&self, most: usize) -> GetMany<K, T> {
        GetMany::new(self.shared.clone(), most, get::Scope::AllKeys)
    }

    /// Takes up to `most` items of the key that is next; waits for the first only.
    ///
    /// # Errors
    /// As [`FairQueue::get`].
    ///
    /// # Cancel safety
    /// As [`FairQueue::get`].
    pub fn get_many_of_one_key(&self, most: usize) -> GetMany<K, T> {
        GetMany::new(self.shared.clone(), most, get::Scope::OneKey)
    }

    /// Waits until nothing is queued or in progress. Items put meanwhile are waited for too. Deferrals are dropped at
    /// the start, and refused until the last join ends; gives the number dropped.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the wait; what was dropped stays dropped.
    pub async fn join(&self) -> usize {
        drain::join(&self.shared).await
    }

    /// Waits until nothing is queued or in progress, at most `within`; then hands back the items that are still
    /// deferred. Deferrals are refused meanwhile. The queue stays open.
    ///
    /// # Errors
    /// [`DrainError`] with the sizes at the deadline; nothing was taken out.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the wait (with [`Deferrals::RunNow`], the deferrals have become due).
    pub async fn drain(&self, within: Duration, deferrals: Deferrals) -> Result<Vec<Deferred<K, T>>, DrainError> {
        drain::drain(&self.shared, within, deferrals).await
    }

    /// Closes the queue: nothing can be put any more. What is queued and deferred is still served; then all getters,
    /// waiting and later, end with [`GetError::Closed`] at once.
    pub fn close(&self) {
        self.closer.close();
    }

    /// Whether the queue is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.with(|state, _| state.closed)
    }

    /// All sizes and counts, taken at one moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.with(|state, now| state.stats(now))
    }

    /// One key's sizes and counts; zeros for an unknown key.
    #[must_use]
    pub fn key_stats(&self, key: &K) -> KeyStats {
        self.shared.with(|state, now| state.key_stats(key, now))
    }

    /// The known keys with their sizes and counts, taken at one moment, in no order. O(keys).
    #[must_use]
    pub fn keys(&self) -> Vec<(K, KeyStats)> {
        self.shared.with(|state, now| {
            state
                .core
                .slots()
                .map(|slot| (slot.key.clone(), KeyStats::of(slot, now)))
                .collect()
        })
    }

    /// Items queued under all keys.
    #[must_use]
    pub fn qsize(&self) -> usize {
        self.shared.with(|state, _| state.core.totals().queued)
    }

    /// Items in progress.
    #[must_use]
    pub fn inprogress_size(&self) -> usize {
        self.shared.with(|state, _| state.core.totals().in_progress)
    }

    /// Items deferred.
    #[must_use]
    pub fn deferred_size(&self) -> usize {
        self.shared.with(|state, _| state.core.totals().deferred)
    }

    /// Items of one key queued and in progress; deferrals do not count.
    #[must_use]
    pub fn fifo_size(&self, key: &K) -> usize {
        let stats = self.key_stats(key);
        stats.queued + stats.in_progress
    }

    /// Sets the gauges that change with time alone (the age of each series' oldest item). Call it now and then, or
    /// before a scrape. O(keys).
    pub fn observe(&self) {
        self.shared.with(|state, now| {
            if let Some(meters) = &mut state.meters {
                meters.observe_ages(state.core.slots(), now);
            }
        });
    }
}

impl<K: Key, T> Clone for FairQueue<K, T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            closer: self.closer.clone(),
        }
    }
}

impl<K: Key, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, T> std::fmt::Debug for FairQueue<K, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FairQueue").field(&self.stats()).finish()
    }
}

/// Closes the queue when its last handle is dropped.
struct Closer<K: Key, T>(Arc<Shared<K, T>>);

impl<K: Key, T> Closer<K, T> {
    fn close(&self) {
        self.0.with(|state, now| {
            state.closed = true;
            let dismissed = state.putters.dismiss_all(&mut state.core, now);
            state.wakes.extend(dismissed);
        });
    }
}

impl<K: Key, T> Drop for Closer<K, T> {
    fn drop(&mut self) {
        self.close();
    }
}
