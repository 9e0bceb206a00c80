//! Cases 65, 66 and 74: limits, weights, pauses.

use std::num::NonZeroU32;

use alertstream::queue::{FairQueue, Options};

use super::*;

fn n(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn full(weights: &[(char, u32)]) -> FairQueue<char, u32> {
    let queue = FairQueue::new();
    for (key, weight) in weights {
        queue.set_weight(key, n(*weight));
    }
    for item in 0..2000 {
        for (key, _) in weights {
            queue.try_put(*key, item).unwrap();
        }
    }
    queue
}

/// 65
#[test]
fn a_limit_bounds_what_is_in_progress() {
    let queue = Queue::new();
    queue.set_limit(&"A", Some(n(1)));
    put(&queue, "A", &["a1", "a2", "a3"]);
    put(&queue, "B", &["b1"]);
    let mut tickets = held(&queue, 9);
    assert_eq!(items(&tickets), ["a1", "b1"]);
    drop(tickets.remove(0));
    let a2 = queue.try_get().unwrap();
    assert_eq!(*a2, "a2");
    assert!(queue.try_get().is_none());
    queue.set_limit(&"A", None);
    assert_eq!(served(&queue, 9), ["a3"]);
}

/// 65
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_limit_one_items_are_completed_in_the_order_of_their_puts() {
    let queue: FairQueue<u32, u32> = Options::new().key_limit(n(1)).build();
    let done = std::sync::Arc::new(std::sync::Mutex::new(vec![Vec::new(); 5]));
    for item in 0..1000 {
        queue.put(item % 5, item).await.unwrap();
    }
    queue.close();
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (queue, done) = (queue.clone(), done.clone());
            tokio::spawn(async move {
                while let Ok(ticket) = queue.get().await {
                    if *ticket % 3 == 0 {
                        tokio::task::yield_now().await;
                    }
                    let key = *ticket.key() as usize;
                    ticket.complete_with(|item| done.lock().unwrap()[key].push(item));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let done = done.lock().unwrap();
    assert!(done.iter().all(|items| items.len() == 200 && items.is_sorted()));
}

/// 66
#[test]
fn weights_share_one_consumer() {
    let queue = full(&[('A', 3), ('B', 1)]);
    let keys: String = (0..12).map(|_| *queue.try_get().unwrap().key()).collect();
    assert_eq!(keys, "AAABAAABAAAB");
}

/// 66
#[test]
fn weights_share_what_is_in_progress() {
    let queue = full(&[('A', 3), ('B', 1)]);
    let tickets: Vec<_> = (0..8).map(|_| queue.try_get().unwrap()).collect();
    let keys: String = tickets.iter().map(|ticket| *ticket.key()).collect();
    assert_eq!(keys, "ABAABAAA");
}

/// 66
#[test]
fn weights_share_several_consumers() {
    let queue = full(&[('A', 3), ('B', 1)]);
    let mut busy = std::collections::VecDeque::new();
    let mut of_a = 0;
    for _ in 0..400 {
        if busy.len() == 4 {
            busy.pop_front();
        }
        let ticket = queue.try_get().unwrap();
        of_a += usize::from(*ticket.key() == 'A');
        busy.push_back(ticket);
    }
    assert_eq!(of_a, 300);
}

/// 66
#[test]
fn shares_are_as_the_weights() {
    let queue = full(&[('A', 5), ('B', 1), ('C', 2)]);
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..800 {
        *counts.entry(*queue.try_get().unwrap().key()).or_insert(0) += 1;
    }
    assert_eq!(
        counts.into_iter().collect::<Vec<_>>(),
        [('A', 500), ('B', 100), ('C', 200)]
    );
}

/// 74
#[test]
fn a_paused_key_is_not_served_and_comes_back_at_its_place() {
    let queue = Queue::new();
    put(&queue, "A", &["a1", "a2", "a3"]);
    put(&queue, "B", &["b1", "b2", "b3"]);
    let a1 = queue.try_get().unwrap();
    assert_eq!(*a1, "a1");
    queue.pause(&"A");
    assert_eq!(served(&queue, 2), ["b1", "b2"]);
    assert_eq!(queue.key_stats(&"A").in_progress, 1);
    drop(a1); // after B's completions: A's stamp is the newer one
    assert!(queue.key_stats(&"A").paused);
    put(&queue, "C", &["c1"]);
    queue.resume(&"A");
    assert_eq!(served(&queue, 4), ["b3", "a2", "c1", "a3"]);
}

/// 74
#[tokio::test]
async fn resuming_wakes_a_getter() {
    let queue = Queue::new();
    queue.pause(&"A");
    put(&queue, "A", &["a1"]);
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.unwrap().complete() }
    });
    tokio::task::yield_now().await;
    assert!(!getter.is_finished());
    queue.resume(&"A");
    assert_eq!(getter.await.unwrap(), "a1");
}
