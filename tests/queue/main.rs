//! The fair queue's acceptance cases, each a test named as its claim; the numbers in the comments are the
//! specification's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../../examples/fair_queue_trace.rs"]
#[allow(dead_code)]
mod fair_queue_trace;

#[path = "../common/counting.rs"]
#[allow(unreachable_pub, missing_docs)]
mod counting;

#[path = "../common/recorder.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod recorder;

mod basics;
mod batches;
mod capacity;
mod cases;
mod deferred;
mod exclusive;
mod golden;
mod joining;
mod life;
mod memory;
mod meters;
mod model;
mod order;
mod shares;
mod tickets;

use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use alertstream::queue::{FairQueue, Ticket};

type Queue = FairQueue<&'static str, &'static str>;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Puts items under a key, at once.
fn put(queue: &Queue, key: &'static str, items: &[&'static str]) {
    for item in items {
        queue.try_put(key, item).unwrap();
    }
}

/// Takes up to `n` items and completes each at once.
fn served(queue: &Queue, n: usize) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.try_get().map(Ticket::complete))
        .take(n)
        .collect()
}

/// Takes up to `n` items and holds them.
fn held(queue: &Queue, n: usize) -> Vec<Ticket<&'static str, &'static str>> {
    std::iter::from_fn(|| queue.try_get()).take(n).collect()
}

fn items(tickets: &[Ticket<&'static str, &'static str>]) -> Vec<&'static str> {
    tickets.iter().map(|ticket| **ticket).collect()
}

/// Queued, in progress, deferred.
fn sizes<K: alertstream::queue::Key, T>(queue: &FairQueue<K, T>) -> (usize, usize, usize) {
    let stats = queue.stats();
    (stats.queued, stats.in_progress, stats.deferred)
}

/// Polls a future once without a waker.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A generator of test choices: the specification's.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
