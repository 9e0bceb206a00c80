//! Cases 34 to 43: deferrals on an exact timer.

use std::time::Duration;

use alertstream::queue::{FairQueue, GetError, PutOptions};
use tokio::time::{Instant, advance, sleep};

use super::*;

fn put_after(queue: &Queue, key: &'static str, item: &'static str, delay: Duration) {
    queue.try_put_with(key, item, PutOptions::new().after(delay)).unwrap();
}

/// A getter without a time-out in a task of its own: what it got, and when.
fn getter(queue: &Queue, start: Instant) -> tokio::task::JoinHandle<(&'static str, Duration)> {
    let queue = queue.clone();
    tokio::spawn(async move { (queue.get().await.unwrap().complete(), start.elapsed()) })
}

/// 34
#[tokio::test(start_paused = true)]
async fn where_a_timeout_and_a_due_time_coincide_the_item_wins() {
    let (queue, start) = (Queue::new(), Instant::now());
    queue.put_after("k", "d", ms(100)).await.unwrap();
    assert_eq!(sizes(&queue), (0, 0, 1));
    let ticket = queue.get_timeout(ms(100)).await.unwrap();
    assert_eq!((*ticket, start.elapsed(), queue.deferred_size()), ("d", ms(100), 0));
}

/// 35
#[tokio::test(start_paused = true)]
async fn a_timeout_before_the_due_time_leaves_the_deferral() {
    let (queue, start) = (Queue::new(), Instant::now());
    put_after(&queue, "k", "d", ms(500));
    assert_eq!(queue.get_timeout(ms(200)).await.unwrap_err(), GetError::Timeout);
    assert_eq!((start.elapsed(), queue.deferred_size()), (ms(200), 1));
    assert_eq!(queue.get().await.unwrap().complete(), "d");
    assert_eq!(start.elapsed(), ms(500));
}

/// 36
#[tokio::test(start_paused = true)]
async fn a_due_item_goes_to_the_tail_of_its_key_at_its_time() {
    let queue = Queue::new();
    put_after(&queue, "k", "late", ms(200));
    put_after(&queue, "k", "early", ms(100));
    put(&queue, "k", &["now"]);
    advance(ms(250)).await;
    put(&queue, "k", &["now2"]);
    assert_eq!(served(&queue, 9), ["now", "early", "late", "now2"]);
}

/// 37
#[tokio::test(start_paused = true)]
async fn a_deferral_wakes_a_getter_that_waits_already() {
    let (queue, start) = (Queue::new(), Instant::now());
    let getter = getter(&queue, start);
    sleep(ms(200)).await;
    put_after(&queue, "k", "d", ms(200));
    assert_eq!(getter.await.unwrap(), ("d", ms(400)));
}

/// 38
#[tokio::test(start_paused = true)]
async fn a_nearer_deferral_shortens_a_waiting_get() {
    let (queue, start) = (Queue::new(), Instant::now());
    put_after(&queue, "k", "far", Duration::from_secs(10));
    let getter = getter(&queue, start);
    tokio::task::yield_now().await;
    put_after(&queue, "j", "near", Duration::from_secs(1));
    assert_eq!(getter.await.unwrap(), ("near", Duration::from_secs(1)));
}

/// 39
#[tokio::test(start_paused = true)]
async fn deferrals_due_together_serve_as_many_getters() {
    let (queue, start) = (Queue::new(), Instant::now());
    let getters = [getter(&queue, start), getter(&queue, start)];
    sleep(ms(100)).await;
    put_after(&queue, "k", "d1", ms(300));
    put_after(&queue, "k", "d2", ms(300));
    let mut got = Vec::new();
    for getter in getters {
        got.push(getter.await.unwrap());
    }
    got.sort_unstable();
    assert_eq!(got, [("d1", ms(400)), ("d2", ms(400))]);
}

/// 39, the set-up in which the original fails
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_timeout_while_items_are_due() {
    let (queue, start) = (Queue::new(), Instant::now());
    let getters = [0, 1].map(|_| {
        let queue = queue.clone();
        tokio::spawn(async move { (queue.get_timeout(ms(4000)).await.unwrap().complete(), start.elapsed()) })
    });
    sleep(ms(100)).await;
    put_after(&queue, "k", "d1", ms(300));
    put_after(&queue, "k", "d2", ms(300));
    sleep(ms(350)).await;
    put(&queue, "j", &["now"]);
    for getter in getters {
        assert_eq!(getter.await.unwrap().1, ms(400));
    }
    assert_eq!(sizes(&queue), (1, 0, 0));
}

/// 40
#[tokio::test(start_paused = true)]
async fn deferrals_due_together_come_in_the_order_of_their_puts() {
    struct NoOrder(u32);
    let queue: FairQueue<u8, NoOrder> = FairQueue::new();
    for n in 0..100 {
        queue.put_after(0, NoOrder(n), ms(100)).await.unwrap();
    }
    advance(ms(100)).await;
    let got: Vec<u32> = std::iter::from_fn(|| queue.try_get().map(|ticket| ticket.complete().0)).collect();
    assert_eq!(got, (0..100).collect::<Vec<_>>());
}

/// 41
#[tokio::test(start_paused = true)]
async fn a_thousand_deferrals_due_at_once_are_got_at_once() {
    let (queue, start) = (FairQueue::<u32, u32>::new(), Instant::now());
    let getters: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut got = Vec::new();
                while let Ok(ticket) = queue.get().await {
                    got.push((ticket.complete(), start.elapsed()));
                    tokio::task::yield_now().await;
                }
                got
            })
        })
        .collect();
    for n in 0..1000 {
        queue.put_after(n % 7, n, ms(250)).await.unwrap();
    }
    queue.close();
    let mut all = Vec::new();
    for getter in getters {
        all.extend(getter.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..1000).map(|n| (n, ms(250))).collect::<Vec<_>>());
}

/// 42
#[tokio::test(start_paused = true)]
async fn a_deferral_of_nothing_is_an_immediate_put() {
    let (queue, start) = (Queue::new(), Instant::now());
    let getter = getter(&queue, start);
    tokio::task::yield_now().await;
    put_after(&queue, "k", "d", Duration::ZERO);
    assert_eq!(sizes(&queue), (1, 0, 0));
    assert_eq!(getter.await.unwrap(), ("d", Duration::ZERO));
}

/// 43
#[tokio::test(start_paused = true)]
async fn a_due_item_counts_as_queued_before_anyone_touches_it() {
    let queue = Queue::new();
    put_after(&queue, "k", "d", ms(100));
    advance(ms(99)).await;
    assert_eq!((sizes(&queue), queue.fifo_size(&"k")), ((0, 0, 1), 0));
    advance(ms(1)).await;
    assert_eq!((sizes(&queue), queue.fifo_size(&"k")), ((1, 0, 0), 1));
}

/// A retry that keeps its key's order: the others of the key wait, other keys do not.
#[tokio::test(start_paused = true)]
async fn an_item_put_back_to_the_front_after_a_delay_holds_its_key() {
    let queue = Queue::new();
    put(&queue, "k", &["k1", "k2"]);
    queue.try_get().unwrap().requeue_front_after(ms(100)).unwrap();
    put(&queue, "j", &["j1"]);
    assert_eq!(served(&queue, 9), ["j1"]);
    assert_eq!(sizes(&queue), (1, 0, 1));
    advance(ms(100)).await;
    assert_eq!(served(&queue, 9), ["k1", "k2"]);
    // A cleared hold holds no more.
    put(&queue, "k", &["k3"]);
    queue.try_get().unwrap().requeue_front_after(ms(100)).unwrap();
    assert_eq!(queue.clear(&"k"), (0, 1));
    put(&queue, "k", &["k4"]);
    assert_eq!(served(&queue, 9), ["k4"]);
}
