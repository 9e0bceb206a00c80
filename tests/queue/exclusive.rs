//! Cases 25 to 33: exclusive items.

use alertstream::queue::{GetError, PutOptions};
use tokio::time::Instant;

use super::*;

fn putx(queue: &Queue, key: &'static str, items: &[&'static str]) {
    for item in items {
        queue.try_put_with(key, item, PutOptions::new().exclusive()).unwrap();
    }
}

/// 25
#[tokio::test(start_paused = true)]
async fn an_exclusive_item_is_alone_in_progress() {
    let queue = Queue::new();
    queue.put("fifo", "1").await.unwrap();
    queue.put_exclusive("fifo", "2").await.unwrap();
    queue.put("fifo", "3").await.unwrap();
    let first = queue.get().await.unwrap();
    assert_eq!(queue.get_timeout(ms(100)).await.unwrap_err(), GetError::Timeout);
    queue.put("fifo2", "4").await.unwrap();
    assert_eq!(queue.get().await.unwrap().complete(), "4");
    first.task_done();
    let second = queue.get().await.unwrap();
    assert_eq!(*second, "2");
    assert_eq!(queue.get_timeout(ms(100)).await.unwrap_err(), GetError::Timeout);
    second.task_done();
    assert_eq!(queue.get().await.unwrap().complete(), "3");
    assert_eq!(sizes(&queue), (0, 0, 0));
}

/// 26
#[test]
fn exclusive_items_of_one_key_follow_each_other() {
    let queue = Queue::new();
    putx(&queue, "k", &["x1", "x2"]);
    put(&queue, "j", &["o1", "o2"]);
    let mut tickets = held(&queue, 9);
    assert_eq!(items(&tickets), ["x1", "o1", "o2"]);
    drop(tickets.remove(0));
    assert_eq!(items(&held(&queue, 9)), ["x2"]);
}

/// 27
#[test]
fn nothing_overtakes_an_exclusive_item() {
    let queue = Queue::new();
    put(&queue, "k", &["n1"]);
    let n1 = queue.try_get().unwrap();
    putx(&queue, "k", &["x"]);
    put(&queue, "k", &["n2"]);
    assert!(queue.try_get().is_none());
    drop(n1);
    let x = queue.try_get().unwrap();
    assert_eq!(*x, "x");
    assert!(queue.try_get().is_none());
    drop(x);
    assert_eq!(served(&queue, 9), ["n2"]);
}

/// 28
#[tokio::test(start_paused = true)]
async fn a_deferred_exclusive_item_waits_for_its_key() {
    let queue = Queue::new();
    put(&queue, "k", &["n"]);
    let n = queue.try_get().unwrap();
    queue
        .try_put_with("k", "x", PutOptions::new().exclusive().after(ms(50)))
        .unwrap();
    tokio::time::advance(ms(60)).await;
    assert!(queue.try_get().is_none());
    assert_eq!(queue.qsize(), 1);
    drop(n);
    let x = queue.try_get().unwrap();
    assert!(*x == "x" && x.is_exclusive() && queue.key_stats(&"k").locked);
}

/// 29 (the real time of each call is a benchmark's matter: nothing is held while a getter waits)
#[tokio::test]
async fn a_blocked_getter_blocks_nobody_and_takes_another_keys_item_at_once() {
    let queue = Queue::new();
    put(&queue, "k", &["n"]);
    let n = queue.try_get().unwrap();
    putx(&queue, "k", &["x"]);
    let mut getter = queue.get();
    assert!(poll_once(&mut getter).is_pending());
    assert_eq!(sizes(&queue), (1, 1, 0));
    put(&queue, "j", &["o"]);
    let Poll::Ready(Ok(other)) = poll_once(&mut getter) else {
        panic!("the other key's item is there")
    };
    assert_eq!(*other, "o");
    drop(n);
}

/// 30
#[tokio::test(start_paused = true)]
async fn an_exclusive_item_delays_its_own_key_only() {
    let (queue, start) = (Queue::new(), Instant::now());
    let (said, mut starts) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..2 {
        let (queue, said) = (queue.clone(), said.clone());
        tokio::spawn(async move {
            while let Ok(ticket) = queue.get().await {
                said.send((*ticket, start.elapsed())).unwrap();
                if *ticket == "x" {
                    tokio::time::sleep(ms(100)).await;
                }
            }
        });
    }
    putx(&queue, "k", &["x"]);
    put(&queue, "k", &["n"]);
    tokio::time::sleep(ms(50)).await;
    put(&queue, "j", &["j"]);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(starts.recv().await.unwrap());
    }
    assert_eq!(seen, [("x", ms(0)), ("j", ms(50)), ("n", ms(100))]);
}

/// 31
#[tokio::test(start_paused = true)]
async fn a_blocked_getter_returns_the_moment_the_key_is_free() {
    let (queue, start) = (Queue::new(), Instant::now());
    putx(&queue, "k", &["x"]);
    put(&queue, "k", &["n"]);
    let x = queue.get().await.unwrap();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { (queue.get().await.unwrap().complete(), start.elapsed()) }
    });
    tokio::time::sleep(ms(70)).await;
    drop(x);
    assert_eq!(getter.await.unwrap(), ("n", ms(70)));
}

/// 32
#[test]
fn clearing_a_key_keeps_the_lock_of_its_exclusive_item() {
    let queue = Queue::new();
    putx(&queue, "k", &["x"]);
    let x = queue.try_get().unwrap();
    put(&queue, "k", &["n1", "n2"]);
    assert_eq!(queue.clear(&"k"), (2, 0));
    put(&queue, "k", &["n3"]);
    assert!(queue.try_get().is_none());
    drop(x);
    assert_eq!(served(&queue, 9), ["n3"]);
}

/// 33
#[tokio::test(start_paused = true)]
async fn an_exclusive_item_that_goes_back_stays_exclusive() {
    let queue = Queue::new();
    putx(&queue, "k", &["x"]);
    put(&queue, "k", &["n"]);

    queue.try_get().unwrap().requeue_front().unwrap();
    let x = queue.try_get().unwrap();
    assert!(*x == "x" && x.is_exclusive());
    assert!(queue.try_get().is_none());

    x.requeue_back().unwrap();
    let n = queue.try_get().unwrap();
    assert_eq!(*n, "n");
    assert!(queue.try_get().is_none(), "exclusive behind one in progress");
    drop(n);
    let x = queue.try_get().unwrap();
    assert!(x.is_exclusive());

    x.requeue_after(ms(10)).unwrap();
    assert_eq!(sizes(&queue), (0, 0, 1));
    let mut x = queue.get().await.unwrap();
    assert!(x.is_exclusive() && queue.key_stats(&"k").locked);

    x.make_shared();
    x.requeue_back().unwrap();
    put(&queue, "k", &["m"]);
    assert_eq!(items(&held(&queue, 2)), ["x", "m"]);
}
