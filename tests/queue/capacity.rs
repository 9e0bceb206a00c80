//! Cases 61 to 64: capacities.

use alertstream::queue::{Capacity, FairQueue, Options, Overflow, PutError, PutOptions};
use tokio::time::sleep;

use super::*;

fn of_three(overflow: Overflow) -> Queue {
    Options::new()
        .key_capacity(Capacity::items(3))
        .overflow(overflow)
        .build()
}

fn putting(queue: &Queue, key: &'static str, item: &'static str) -> tokio::task::JoinHandle<()> {
    let queue = queue.clone();
    tokio::spawn(async move { queue.put(key, item).await.unwrap() })
}

/// 61
#[tokio::test(start_paused = true)]
async fn a_full_key_waits_for_a_get_and_stops_no_other_key() {
    let queue = of_three(Overflow::Wait);
    put(&queue, "A", &["a1", "a2"]);
    queue.try_put_with("A", "a3", PutOptions::new().after(ms(500))).unwrap();
    assert_eq!(queue.try_put("A", "a4"), Err(PutError::Full("a4")));
    let put_a4 = putting(&queue, "A", "a4");
    sleep(ms(1)).await;
    assert!(!put_a4.is_finished());
    put(&queue, "B", &["b1"]);
    let a1 = queue.try_get().unwrap();
    put_a4.await.unwrap();
    assert_eq!((*a1, queue.try_put("A", "a5")), ("a1", Err(PutError::Full("a5"))));
}

/// 61
#[tokio::test(start_paused = true)]
async fn completing_frees_no_room_a_get_does() {
    let queue = of_three(Overflow::Wait);
    put(&queue, "A", &["a1"]);
    let a1 = queue.try_get().unwrap();
    put(&queue, "A", &["a2", "a3", "a4"]);
    drop(a1);
    assert!(queue.try_put("A", "a5").is_err());
}

/// 62
#[test]
fn a_reserve_keeps_a_flood_from_shutting_others_out() {
    let queue: Queue = Options::new().total_capacity(Capacity::items(10)).build();
    for _ in 0..10 {
        queue.try_put("A", "a").unwrap();
    }
    assert_eq!(queue.try_put("B", "b"), Err(PutError::Full("b")));

    let queue: Queue = Options::new()
        .total_capacity(Capacity::items(10))
        .reserve_per_key(1)
        .build();
    for _ in 0..10 {
        queue.try_put("A", "a").unwrap();
    }
    assert!(queue.try_put("A", "a").is_err());
    put(&queue, "B", &["b"]);
    assert!(queue.try_put("B", "b").is_err());
}

/// 62
#[tokio::test(start_paused = true)]
async fn puts_stopped_by_the_total_are_served_in_the_order_they_came() {
    let queue: Queue = Options::new().total_capacity(Capacity::items(2)).build();
    put(&queue, "A", &["a1", "a2"]);
    let puts = [
        putting(&queue, "B", "b1"),
        putting(&queue, "C", "c1"),
        putting(&queue, "A", "a3"),
    ];
    sleep(ms(1)).await;
    for (n, put) in puts.into_iter().enumerate() {
        assert_eq!(served(&queue, 1).len(), 1);
        put.await.unwrap();
        assert_eq!(queue.qsize(), 2, "{n}");
    }
    assert_eq!(served(&queue, 9), ["a3", "c1"]); // A was served before C was new
}

/// 63
#[test]
fn the_oldest_items_make_room() {
    let queue = of_three(Overflow::DropOldest);
    put(&queue, "A", &["1", "2", "3", "4", "5"]);
    assert_eq!((queue.stats().dropped, queue.key_stats(&"A").dropped), (2, 2));
    assert_eq!(served(&queue, 9), ["3", "4", "5"]);
}

/// 63
#[tokio::test(start_paused = true)]
async fn a_cancelled_put_leaves_nothing_and_waiting_puts_keep_their_order() {
    let queue = of_three(Overflow::Wait);
    put(&queue, "A", &["a1", "a2", "a3"]);
    let puts = [
        putting(&queue, "A", "a4"),
        putting(&queue, "A", "a5"),
        putting(&queue, "A", "a6"),
    ];
    sleep(ms(1)).await;
    puts[0].abort();
    sleep(ms(1)).await;
    assert_eq!(served(&queue, 1), ["a1"]);
    assert!(
        queue.try_put("A", "late").is_err(),
        "the room is promised to the first that waits"
    );
    sleep(ms(1)).await;
    assert!(puts[1].is_finished() && !puts[2].is_finished());
    assert_eq!(served(&queue, 1), ["a2"]);
    sleep(ms(1)).await;
    assert_eq!(served(&queue, 9), ["a3", "a5", "a6"]);
    assert_eq!(queue.stats().put, 5);
}

/// 63
#[tokio::test(start_paused = true)]
async fn a_promise_that_is_dropped_goes_to_the_next() {
    let queue = of_three(Overflow::Wait);
    put(&queue, "A", &["a1", "a2", "a3"]);
    let mut first = Box::pin(queue.put("A", "a4"));
    let mut second = Box::pin(queue.put("A", "a5"));
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    assert_eq!(served(&queue, 1), ["a1"]);
    drop(first); // it was promised the room
    assert!(poll_once(&mut second).is_ready());
    assert_eq!(served(&queue, 9), ["a2", "a3", "a5"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusing_queue_does_not_wait() {
    let queue = of_three(Overflow::Refuse);
    put(&queue, "A", &["1", "2", "3"]);
    assert_eq!(queue.put("A", "4").await, Err(PutError::Full("4")));
    assert_eq!(queue.stats().refused, 1);
    queue.set_capacity(&"A", Some(Capacity::items(4)));
    queue.put("A", "4").await.unwrap();
    queue.set_overflow(&"A", Some(Overflow::DropOldest));
    queue.put("A", "5").await.unwrap();
    assert_eq!(served(&queue, 9), ["2", "3", "4", "5"]);
}

#[test]
fn bytes_bound_a_key_and_a_giant_passes_alone() {
    let queue: Queue = Options::new().key_capacity(Capacity::bytes(100)).build();
    let put = |item, bytes| queue.try_put_with("A", item, PutOptions::new().bytes(bytes));
    put("a", 60).unwrap();
    assert!(put("b", 41).is_err());
    put("c", 40).unwrap();
    assert_eq!(queue.key_stats(&"A").bytes, 100);
    assert_eq!(served(&queue, 2), ["a", "c"]);
    put("giant", 1000).unwrap();
    assert!(put("d", 1).is_err());
}

#[tokio::test(start_paused = true)]
async fn raising_a_capacity_lets_waiting_puts_in() {
    let queue = of_three(Overflow::Wait);
    put(&queue, "A", &["1", "2", "3"]);
    let waiting = putting(&queue, "A", "4");
    sleep(ms(1)).await;
    queue.set_capacity(&"A", Some(Capacity::items(5)));
    waiting.await.unwrap();
    put(&queue, "A", &["5"]);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_waiting_puts_with_their_items() {
    let queue = of_three(Overflow::Wait);
    put(&queue, "A", &["1", "2", "3"]);
    put(&queue, "B", &["1", "2", "3"]);
    let mut of_a = Box::pin(queue.put("A", "4"));
    let mut of_b = Box::pin(queue.put("B", "4"));
    assert!(poll_once(&mut of_a).is_pending() && poll_once(&mut of_b).is_pending());
    queue.close_key(&"A");
    assert_eq!(of_a.await, Err(PutError::KeyClosed("4")));
    queue.close();
    assert_eq!(of_b.await, Err(PutError::Closed("4")));
}

/// 64
#[tokio::test(start_paused = true)]
async fn an_item_goes_back_into_a_full_queue() {
    let queue: FairQueue<u8, u32> = Options::new().total_capacity(Capacity::items(1)).build();
    queue.put(0, 1).await.unwrap();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let first = queue.get().await.unwrap();
            queue.put(0, 2).await.unwrap(); // full again
            first.requeue_back().unwrap();
            let mut seen = Vec::new();
            for _ in 0..2 {
                seen.push(queue.get().await.unwrap().complete());
            }
            seen
        }
    });
    assert_eq!(worker.await.unwrap(), [2, 1]);
}
