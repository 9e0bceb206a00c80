//! The queue's wake-ups under loom: every interleaving of a few threads (with at most three preemptions).
//!
//! Runs with `cargo test --features loom --test loom_queue`: then the queue's lock is loom's and its clock stands still.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg(feature = "loom")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use alertstream::queue::{Deferrals, FairQueue, Get, GetError, PutOptions};
use loom::future::block_on;
use loom::thread;

type Queue = FairQueue<u8, u8>;

fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

fn poll_once(get: &mut Get<u8, u8>) -> Poll<Result<u8, GetError>> {
    let polled = Pin::new(get).poll(&mut Context::from_waker(Waker::noop()));
    polled.map_ok(|ticket| ticket.complete())
}

#[test]
fn a_put_reaches_a_waiting_get() {
    model(|| {
        let queue = Queue::new();
        let getter = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.get()).unwrap().complete()
        });
        queue.try_put(0, 7).unwrap();
        assert_eq!(getter.join().unwrap(), 7);
        assert_eq!(queue.inprogress_size(), 0);
    });
}

#[test]
fn two_puts_reach_two_waiting_gets() {
    model(|| {
        let queue = Queue::new();
        let getters = [0, 1].map(|_| {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.get()).unwrap().complete())
        });
        queue.try_put(0, 1).unwrap();
        queue.try_put(1, 2).unwrap();
        let got = getters.map(|getter| getter.join().unwrap());
        assert_eq!(got.iter().sum::<u8>(), 3);
    });
}

/// A getter that is polled once and dropped, whatever happened in between, takes no wake-up with it.
#[test]
fn a_cancelled_getter_passes_its_wake_up_on() {
    model(|| {
        let queue = Queue::new();
        let mut cancelled = queue.get();
        let polled = poll_once(&mut cancelled);
        assert!(polled.is_pending());
        let getter = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.get()).unwrap().complete()
        });
        let putter = thread::spawn({
            let queue = queue.clone();
            move || queue.try_put(0, 7).unwrap()
        });
        drop(cancelled);
        putter.join().unwrap();
        assert_eq!(getter.join().unwrap(), 7);
    });
}

#[test]
fn closing_ends_waiting_gets() {
    model(|| {
        let queue = Queue::new();
        let getters = [0, 1].map(|_| {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.get()).map(|ticket| ticket.complete()))
        });
        queue.try_put(0, 7).unwrap();
        queue.close();
        let mut got = getters.map(|getter| getter.join().unwrap());
        got.sort_unstable_by_key(Result::is_err);
        assert_eq!(got, [Ok(7), Err(GetError::Closed)]);
    });
}

#[test]
fn an_exclusive_item_hands_its_key_over() {
    model(|| {
        let queue = Queue::new();
        queue.try_put_with(0, 1, PutOptions::new().exclusive()).unwrap();
        queue.try_put(0, 2).unwrap();
        let exclusive = queue.try_get().unwrap();
        let getter = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.get()).unwrap().complete()
        });
        exclusive.task_done();
        assert_eq!(getter.join().unwrap(), 2);
    });
}

#[test]
fn dropping_the_last_ticket_ends_a_join() {
    model(|| {
        let queue = Queue::new();
        queue.try_put(0, 1).unwrap();
        queue.try_put(1, 2).unwrap();
        let tickets = [queue.try_get().unwrap(), queue.try_get().unwrap()];
        let droppers = tickets.map(|ticket| thread::spawn(move || drop(ticket)));
        assert_eq!(block_on(queue.join()), 0);
        assert_eq!((queue.qsize(), queue.inprogress_size()), (0, 0));
        droppers.into_iter().for_each(|dropper| dropper.join().unwrap());
    });
}

/// A ticket that is dropped, and one that is put off, against a drain: it ends, and nothing is lost or handed back twice.
#[test]
fn a_ticket_drop_and_a_deferral_against_a_drain() {
    model(|| {
        let queue = Queue::new();
        queue.try_put(0, 1).unwrap();
        queue.try_put(1, 2).unwrap();
        let [first, second] = [queue.try_get().unwrap(), queue.try_get().unwrap()];
        let dropper = thread::spawn(move || drop(first));
        // Refused once the drain began: the ticket comes back in the error, and is dropped.
        let deferrer = thread::spawn(move || second.requeue_after(Duration::from_secs(9)).is_ok());
        let back = block_on(queue.drain(Duration::from_secs(1), Deferrals::HandBack)).unwrap();
        dropper.join().unwrap();
        let deferred = deferrer.join().unwrap();
        assert_eq!(
            back.iter().map(|back| back.item).collect::<Vec<_>>(),
            [2][..usize::from(deferred)]
        );
        let stats = queue.stats();
        assert_eq!((stats.queued, stats.in_progress, stats.deferred), (0, 0, 0));
        assert_eq!((stats.done, stats.dropped), if deferred { (1, 1) } else { (2, 0) });
    });
}

#[test]
fn room_reaches_a_waiting_put() {
    model(|| {
        let queue: Queue = alertstream::queue::Options::new()
            .key_capacity(alertstream::queue::Capacity::items(1))
            .build();
        queue.try_put(0, 1).unwrap();
        let putter = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.put(0, 2)).unwrap()
        });
        assert_eq!(queue.try_get().unwrap().complete(), 1);
        putter.join().unwrap();
        assert_eq!(queue.try_get().unwrap().complete(), 2);
    });
}

#[test]
fn closing_a_key_against_a_put() {
    model(|| {
        let queue = Queue::new();
        let putters = [0, 1].map(|item| {
            let queue = queue.clone();
            thread::spawn(move || queue.try_put(0, item).is_ok())
        });
        queue.close_key(&0);
        assert!(queue.try_get().is_none());
        putters.into_iter().for_each(|putter| assert!(putter.join().is_ok()));
        assert!(queue.try_get().is_none());
    });
}
