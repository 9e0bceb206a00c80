//! Cases 44 to 56: join, clear, closed keys.

use std::time::Duration;

use alertstream::queue::{FairQueue, PutError, PutOptions};
use tokio::time::{Instant, sleep};

use super::*;

fn defer(queue: &Queue, key: &'static str, item: &'static str, delay: Duration) -> Result<(), PutError<&'static str>> {
    queue.try_put_with(key, item, PutOptions::new().after(delay))
}

fn join(queue: &Queue) -> tokio::task::JoinHandle<usize> {
    let queue = queue.clone();
    tokio::spawn(async move { queue.join().await })
}

/// 44
#[tokio::test(start_paused = true)]
async fn join_drops_deferrals_and_says_how_many() {
    let (queue, start) = (Queue::new(), Instant::now());
    defer(&queue, "k", "d", ms(100)).unwrap();
    assert_eq!(queue.join().await, 1);
    assert_eq!((queue.deferred_size(), start.elapsed()), (0, Duration::ZERO));
    assert_eq!(queue.stats().dropped, 1);
}

/// 45, 46
#[tokio::test(start_paused = true)]
async fn join_refuses_deferrals_and_waits_for_what_is_put_meanwhile() {
    let queue = Queue::new();
    put(&queue, "k", &["a"]);
    let a = queue.try_get().unwrap();
    let join = join(&queue);
    sleep(ms(1)).await;
    assert_eq!(defer(&queue, "k", "d", ms(5)), Err(PutError::Joining("d")));
    put(&queue, "k", &["b"]);
    drop(a);
    sleep(ms(1)).await;
    assert!(!join.is_finished());
    let b = queue.try_get().unwrap();
    let refused = b.requeue_after(ms(5)).unwrap_err();
    let PutError::Joining(b) = refused else {
        panic!("{refused:?}")
    };
    assert!(!join.is_finished());
    b.task_done();
    assert_eq!(join.await.unwrap(), 0);
    defer(&queue, "k", "d", ms(5)).unwrap();
    assert_eq!(queue.get().await.unwrap().complete(), "d");
}

/// 47, 48
#[tokio::test(start_paused = true)]
async fn clearing_lets_a_join_end_but_not_before_what_is_in_progress() {
    let queue = Queue::new();
    put(&queue, "k", &["a", "b"]);
    let join_all = join(&queue);
    sleep(ms(1)).await;
    assert!(!join_all.is_finished());
    assert_eq!(queue.clear(&"k"), (2, 0));
    join_all.await.unwrap();

    put(&queue, "k", &["a", "b"]);
    let a = queue.try_get().unwrap();
    let join_all = join(&queue);
    sleep(ms(1)).await;
    assert_eq!(queue.clear(&"k"), (1, 0));
    sleep(ms(1)).await;
    assert!(!join_all.is_finished());
    drop(a);
    join_all.await.unwrap();
}

/// 49
#[tokio::test(start_paused = true)]
async fn two_joins_end_only_when_all_is_done() {
    let queue = Queue::new();
    put(&queue, "k", &["a"]);
    let a = queue.try_get().unwrap();
    let first = join(&queue);
    sleep(ms(1)).await;
    put(&queue, "k", &["b"]);
    let second = join(&queue);
    sleep(ms(1)).await;
    drop(a);
    sleep(ms(1)).await;
    assert!(!first.is_finished() && !second.is_finished());
    second.abort();
    sleep(ms(1)).await;
    assert!(defer(&queue, "k", "d", ms(5)).is_err(), "the first join still goes on");
    assert_eq!(served(&queue, 1), ["b"]);
    first.await.unwrap();
    defer(&queue, "k", "d", ms(5)).unwrap();
}

/// 49
#[tokio::test(start_paused = true)]
async fn two_joins_that_began_apart_end_together() {
    let queue = Queue::new();
    put(&queue, "k", &["a"]);
    let first = join(&queue);
    sleep(ms(1)).await;
    put(&queue, "j", &["b"]);
    let second = join(&queue);
    for n in 0..2 {
        sleep(ms(1)).await;
        assert!(!first.is_finished() && !second.is_finished(), "{n} of two are served");
        assert!(defer(&queue, "k", "d", ms(5)).is_err());
        assert_eq!(served(&queue, 1).len(), 1);
    }
    first.await.unwrap();
    second.await.unwrap();
    defer(&queue, "k", "d", ms(5)).unwrap();
}

/// 50
#[test]
fn clearing_an_unknown_key_does_nothing() {
    let queue = Queue::new();
    assert_eq!(queue.clear(&"k"), (0, 0));
    put(&queue, "k", &["a"]);
    assert_eq!(served(&queue, 1), ["a"]);
}

/// 51
#[test]
fn a_closed_key_refuses_puts_until_it_is_reopened() {
    let queue = Queue::new();
    assert_eq!(queue.close_key(&"k"), (0, 0));
    assert_eq!(queue.try_put("k", "a"), Err(PutError::KeyClosed("a")));
    assert_eq!(defer(&queue, "k", "d", ms(5)), Err(PutError::KeyClosed("d")));
    assert_eq!(queue.qsize(), 0);
    queue.reopen(&"k");
    put(&queue, "k", &["a"]);
    assert_eq!(served(&queue, 1), ["a"]);
}

/// 52, 53
#[test]
fn clearing_takes_what_waits_of_one_key_only() {
    let queue = Queue::new();
    put(&queue, "k", &["k1", "k2", "k3"]);
    put(&queue, "j", &["j1", "j2", "j3"]);
    assert_eq!(queue.clear(&"k"), (3, 0));
    assert_eq!((queue.qsize(), queue.fifo_size(&"k")), (3, 0));
    assert_eq!(served(&queue, 9), ["j1", "j2", "j3"]);

    put(&queue, "k", &["k4", "k5"]);
    let k4 = queue.try_get().unwrap();
    assert_eq!(queue.clear(&"k"), (1, 0));
    assert_eq!(sizes(&queue), (0, 1, 0));
    drop(k4);
    assert_eq!(sizes(&queue), (0, 0, 0));
}

/// 54
#[tokio::test(start_paused = true)]
async fn clearing_takes_deferrals_too() {
    let queue = Queue::new();
    for secs in 1..=3 {
        defer(&queue, "k", "d", Duration::from_secs(secs)).unwrap();
    }
    assert_eq!(queue.clear(&"k"), (0, 3));
    assert_eq!(
        queue.get_timeout(Duration::from_secs(5)).await.err(),
        Some(alertstream::queue::GetError::Timeout)
    );
}

#[tokio::test(start_paused = true)]
async fn clearing_everything_drops_everything_that_waits() {
    let queue = Queue::new();
    put(&queue, "k", &["a", "b"]);
    put(&queue, "j", &["c"]);
    defer(&queue, "i", "d", ms(5)).unwrap();
    let a = queue.try_get().unwrap();
    assert_eq!(queue.clear_all(), (2, 1));
    drop(a);
    assert_eq!(
        (sizes(&queue), queue.stats().done, queue.stats().dropped),
        ((0, 0, 0), 1, 3)
    );
}

/// 56 (and `closing_a_key_against_a_put` in `tests/loom_queue.rs`)
#[test]
fn after_a_key_is_closed_nothing_of_it_is_served() {
    for _ in 0..200 {
        let queue: FairQueue<u8, u32> = FairQueue::new();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let queue = &queue;
                scope.spawn(move || while queue.try_put(0, n).is_ok() {});
            }
            while queue.stats().put < 8 {
                std::thread::yield_now();
            }
            queue.close_key(&0);
            for _ in 0..50 {
                assert!(queue.try_get().is_none());
            }
        });
        assert_eq!(sizes(&queue), (0, 0, 0));
    }
}
