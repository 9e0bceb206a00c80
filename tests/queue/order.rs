//! Cases 11 to 20: the order of service.

use alertstream::queue::FairQueue;

use super::*;

fn three_keys() -> Queue {
    let queue = Queue::new();
    put(&queue, "A", &["a1", "a2", "a3", "a4", "a5"]);
    put(&queue, "B", &["b1", "b2", "b3"]);
    put(&queue, "C", &["c1"]);
    queue
}

const ROTATION: [&str; 9] = ["a1", "b1", "c1", "a2", "b2", "a3", "b3", "a4", "a5"];

/// 11
#[test]
fn one_consumer_rotates_strictly() {
    assert_eq!(served(&three_keys(), 20), ROTATION);
}

/// 12
#[test]
fn the_order_is_the_same_when_nothing_is_ever_done() {
    let queue = three_keys();
    let tickets = held(&queue, 20);
    assert_eq!(items(&tickets), ROTATION);
    let in_progress = ["A", "B", "C"].map(|key| queue.key_stats(&key).in_progress);
    assert_eq!(in_progress, [5, 3, 1]);
}

/// 13
#[test]
fn late_keys_catch_up_with_what_is_in_progress() {
    let queue = Queue::new();
    put(&queue, "A", &["a1", "a2", "a3", "a4", "a5", "a6", "a7"]);
    let _busy = held(&queue, 2);
    put(&queue, "B", &["b1", "b2", "b3"]);
    put(&queue, "C", &["c1"]);
    assert_eq!(items(&held(&queue, 6)), ["b1", "c1", "b2", "a3", "b3", "a4"]);
}

/// 14
#[test]
fn completion_renews_the_stamp() {
    let queue = Queue::new();
    for (a, b) in [("a1", "b1"), ("a2", "b2"), ("a3", "b3")] {
        put(&queue, "A", &[a]);
        put(&queue, "B", &[b]);
    }
    let (a, b) = (queue.try_get().unwrap(), queue.try_get().unwrap());
    assert_eq!((*a, *b), ("a1", "b1"));
    drop(b);
    drop(a);
    assert_eq!(items(&held(&queue, 2)), ["b2", "a2"]);
}

/// 15
#[test]
fn an_idle_key_keeps_its_place_while_remembered() {
    let queue = Queue::new();
    put(&queue, "A", &["a1"]);
    assert_eq!(served(&queue, 1), ["a1"]);
    for item in ["b1", "b2", "b3"] {
        put(&queue, "B", &[item]);
        assert_eq!(served(&queue, 1), [item]);
    }
    put(&queue, "B", &["b9"]);
    put(&queue, "C", &["c1"]);
    put(&queue, "A", &["a2"]);
    assert_eq!(served(&queue, 3), ["a2", "b9", "c1"]);
}

/// 16
#[test]
fn a_busy_key_waits_until_the_others_are_empty() {
    let queue = Queue::new();
    put(&queue, "A", &["a0", "a1", "a2"]);
    let _busy = queue.try_get().unwrap();
    put(&queue, "B", &["b0", "b1", "b2", "b3", "b4", "b5"]);
    assert_eq!(served(&queue, 7), ["b0", "b1", "b2", "b3", "b4", "b5", "a1"]);
}

/// 17
#[test]
fn a_hundred_gets_are_shared_evenly() {
    let queue: FairQueue<usize, usize> = FairQueue::new();
    for n in 0..300 {
        queue.try_put(n % 3, n).unwrap();
    }
    let mut counts = [0; 3];
    for n in 1..=100 {
        counts[*queue.try_get().unwrap().key()] += 1;
        if n == 99 {
            assert_eq!(counts, [33; 3]);
        }
    }
    counts.sort_unstable();
    assert_eq!(counts, [33, 33, 34]);
}

/// 18
#[test]
fn a_late_comer_is_served_by_the_next_get() {
    let queue: FairQueue<char, u32> = FairQueue::new();
    for n in 0..10_000 {
        queue.try_put('A', n).unwrap();
    }
    let _workers: Vec<_> = (0..4).map(|_| queue.try_get().unwrap()).collect();
    queue.try_put('B', 1).unwrap();
    assert_eq!(*queue.try_get().unwrap().key(), 'B');
}

/// 19
#[test]
fn many_late_comers_are_served_in_the_order_of_their_puts() {
    let queue: FairQueue<u32, u32> = FairQueue::new();
    for n in 0..10_000 {
        queue.try_put(0, n).unwrap();
    }
    for key in 1..=50 {
        queue.try_put(key, key).unwrap();
    }
    let keys: Vec<u32> = (0..51)
        .map(|_| *queue.try_get().unwrap().key())
        .filter(|key| *key > 0)
        .collect();
    assert_eq!(keys, (1..=50).collect::<Vec<_>>());
}

/// 20
#[test]
fn a_key_alone_takes_every_worker() {
    let queue = Queue::new();
    put(&queue, "A", &["1", "2", "3", "4", "5"]);
    assert_eq!(held(&queue, 4).len(), 4);
}
