//! Cases 1 to 10.

use std::collections::HashMap;
use std::time::Duration;

use alertstream::queue::{FairQueue, GetError};
use tokio::time::Instant;

use super::*;

/// 1
#[tokio::test(start_paused = true)]
async fn an_empty_queue_times_out_at_its_time() {
    let (queue, start) = (Queue::new(), Instant::now());
    assert_eq!(queue.get_timeout(ms(100)).await.unwrap_err(), GetError::Timeout);
    assert_eq!(start.elapsed(), ms(100));
}

/// 2
#[tokio::test]
async fn sizes_follow_an_item_through_its_life() {
    let queue = Queue::new();
    let all = || (sizes(&queue), queue.fifo_size(&"fifo"));
    assert_eq!(all(), ((0, 0, 0), 0));
    queue.put("fifo", "item").await.unwrap();
    assert_eq!(all(), ((1, 0, 0), 1));
    let ticket = queue.get().await.unwrap();
    assert_eq!((*ticket, *ticket.key()), ("item", "fifo"));
    assert_eq!(all(), ((0, 1, 0), 1));
    ticket.task_done();
    assert_eq!(all(), ((0, 0, 0), 0));
}

/// 3
#[tokio::test]
async fn a_waiting_get_is_served_by_a_later_put() {
    let queue = Queue::new();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.unwrap().complete() }
    });
    tokio::task::yield_now().await;
    queue.put("fifo", "1").await.unwrap();
    assert_eq!(getter.await.unwrap(), "1");
    assert_eq!(sizes(&queue), (0, 0, 0));
}

/// 4
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_item_is_got_once_and_each_key_in_order() {
    let queue: FairQueue<u32, u32> = FairQueue::new();
    let producers = (0..10).map(|key| {
        let queue = queue.clone();
        tokio::spawn(async move {
            for n in 0..100 {
                queue.put(key, n).await.unwrap();
            }
        })
    });
    let gets = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let consumers = (0..10).map(|_| {
        let (queue, gets) = (queue.clone(), gets.clone());
        tokio::spawn(async move {
            for _ in 0..100 {
                // Taken and noted under one lock, so that the notes are in the order of the gets.
                let ticket = loop {
                    let taken = {
                        let mut gets = gets.lock().unwrap();
                        queue.try_get().inspect(|ticket| gets.push((*ticket.key(), **ticket)))
                    };
                    match taken {
                        Some(ticket) => break ticket,
                        None => tokio::task::yield_now().await,
                    }
                };
                tokio::task::yield_now().await;
                ticket.task_done();
            }
        })
    });
    let tasks: Vec<_> = producers.chain(consumers).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut by_key: HashMap<u32, Vec<u32>> = HashMap::new();
    for (key, n) in gets.lock().unwrap().drain(..) {
        by_key.entry(key).or_default().push(n);
    }
    assert_eq!(by_key.len(), 10);
    assert!(by_key.values().all(|items| *items == (0..100).collect::<Vec<_>>()));
    assert_eq!(sizes(&queue), (0, 0, 0));
}

/// 8
#[tokio::test(start_paused = true)]
async fn a_get_without_time_takes_what_is_there() {
    let (queue, start) = (Queue::new(), Instant::now());
    assert!(queue.try_get().is_none());
    assert_eq!(queue.get_timeout(Duration::ZERO).await.unwrap_err(), GetError::Timeout);
    assert_eq!(start.elapsed(), Duration::ZERO);
    put(&queue, "k", &["a", "b"]);
    assert_eq!(queue.get_timeout(Duration::ZERO).await.unwrap().complete(), "a");
    assert_eq!(queue.try_get().unwrap().complete(), "b");
}

/// 9
#[tokio::test]
async fn none_and_the_empty_string_are_keys_like_any_other() {
    let queue: FairQueue<Option<&str>, u32> = FairQueue::new();
    queue.put(None, 1).await.unwrap();
    queue.put(Some(""), 2).await.unwrap();
    assert_eq!((queue.fifo_size(&None), queue.fifo_size(&Some(""))), (1, 1));
    let first = queue.get().await.unwrap();
    assert_eq!((*first.key(), *first), (None, 1));
    first.task_done();
    let second = queue.get().await.unwrap();
    assert_eq!((*second.key(), *second), (Some(""), 2));
    second.task_done();
    assert_eq!((queue.fifo_size(&None), queue.fifo_size(&Some(""))), (0, 0));
}

/// 10
#[tokio::test(start_paused = true)]
async fn an_item_that_is_nothing_differs_from_a_timeout() {
    let queue: FairQueue<u8, Option<()>> = FairQueue::new();
    queue.put(0, None).await.unwrap();
    assert_eq!(queue.get_timeout(ms(1)).await.unwrap().complete(), None);
    assert!(queue.get_timeout(ms(1)).await.is_err());
}
