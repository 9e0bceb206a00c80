//! Cases 58 to 60, 73 and 75: tickets, cancellation.

use std::time::Duration;

use alertstream::queue::{FairQueue, GetError, PutOptions, Ticket};
use tokio::time::{sleep, timeout};

use super::*;

/// 58
#[tokio::test(start_paused = true)]
async fn however_a_holder_ends_its_item_is_completed() {
    let queue = Queue::new();
    let putx = || queue.try_put_with("k", "x", PutOptions::new().exclusive()).unwrap();
    let is_free = || (sizes(&queue), queue.key_stats(&"k").locked) == ((0, 0, 0), false);

    putx();
    let panicked = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _ticket = queue.get().await.unwrap();
            panic!("the holder panics");
        }
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert!(is_free());

    putx();
    let mut holders = tokio::task::JoinSet::new();
    holders.spawn({
        let queue = queue.clone();
        async move {
            let _ticket = queue.get().await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    sleep(ms(1)).await;
    assert_eq!(sizes(&queue), (0, 1, 0));
    holders.shutdown().await;
    assert!(is_free());

    putx();
    let timed_out = timeout(ms(10), async {
        let _ticket = queue.get().await.unwrap();
        sleep(Duration::from_secs(1)).await;
    });
    assert!(timed_out.await.is_err());
    assert!(is_free());
    queue.join().await;
}

const PUTS: u32 = 4_000;

/// Puts `PUTS` items, at once or a little later.
async fn put_all(queue: Queue59) {
    let mut random = Random(7);
    for n in 0..PUTS {
        let delay = Duration::from_micros(random.below(4) * 300);
        queue.put_after(n % 5, n, delay).await.unwrap();
        if random.below(3) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

type Queue59 = FairQueue<u32, u32>;

/// Gets 1,250 times with little patience, in every way in which a get can be lost; holds each tenth ticket.
async fn lose(queue: Queue59, seed: u64) -> (Vec<u32>, Vec<Ticket<u32, u32>>) {
    let (mut random, mut got, mut held) = (Random(seed), Vec::new(), Vec::new());
    for _ in 0..1_250 {
        let patience = Duration::from_micros(random.below(400));
        let tickets = match random.below(5) {
            0 => timeout(patience, queue.get())
                .await
                .ok()
                .and_then(Result::ok)
                .into_iter()
                .collect(),
            1 => tokio::select! {
                biased;
                () = tokio::task::yield_now() => Vec::new(),
                ticket = queue.get() => ticket.into_iter().collect(),
            },
            2 => tokio::select! {
                tickets = queue.get_many(3) => tickets.unwrap_or_default(),
                () = sleep(patience) => Vec::new(),
            },
            3 => timeout(patience, queue.get_many_of_one_key(2))
                .await
                .ok()
                .and_then(Result::ok)
                .unwrap_or_default(),
            _ => {
                let mut get = queue.get();
                match poll_once(&mut get) {
                    Poll::Ready(ticket) => ticket.into_iter().collect(),
                    Poll::Pending => Vec::new(),
                }
            }
        };
        for ticket in tickets {
            if random.below(10) == 0 {
                held.push(ticket);
            } else {
                got.push(ticket.complete());
            }
        }
    }
    (got, held)
}

/// 59, 67
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_thousand_cancelled_gets_lose_nothing() {
    let queue = Queue59::new();
    let producer = tokio::spawn(put_all(queue.clone()));
    let losers: Vec<_> = (0..8).map(|seed| tokio::spawn(lose(queue.clone(), seed))).collect();
    let (mut got, mut held) = (Vec::new(), Vec::new());
    for loser in losers {
        let (of_one, held_by_one) = loser.await.unwrap();
        got.extend(of_one);
        held.extend(held_by_one);
    }
    producer.await.unwrap();
    sleep(ms(1)).await;
    // All deferrals are due: what was not got is queued, what is in progress has a live ticket.
    let taken = got.len() + held.len();
    assert_eq!(sizes(&queue), (PUTS as usize - taken, held.len(), 0));
    while queue.qsize() > 0 {
        let mut last = queue.get();
        let Poll::Ready(Ok(ticket)) = poll_once(&mut last) else {
            panic!("a getter with items queued returns at once")
        };
        got.push(ticket.complete());
    }
    got.extend(held.into_iter().map(Ticket::complete));
    got.sort_unstable();
    assert_eq!(got, (0..PUTS).collect::<Vec<_>>());
    assert_eq!(sizes(&queue), (0, 0, 0));
}

/// 60
#[test]
fn a_getter_cancelled_after_it_was_woken_passes_its_wake_up_on() {
    let queue = Queue::new();
    let (first_waker, first_woken) = flag();
    let (second_waker, second_woken) = flag();
    let (mut first, mut second) = (queue.get(), queue.get());
    assert!(poll_with(&mut first, &first_waker).is_pending());
    assert!(poll_with(&mut second, &second_waker).is_pending());
    put(&queue, "k", &["a"]);
    assert!(first_woken() && !second_woken());
    drop(first);
    assert!(second_woken());
    assert!(matches!(poll_with(&mut second, &second_waker), Poll::Ready(Ok(_))));
}

/// 60
#[test]
fn a_getter_that_took_one_of_several_wakes_the_next() {
    let queue = Queue::new();
    queue.pause(&"k");
    put(&queue, "k", &["a", "b"]);
    let (first_waker, _) = flag();
    let (second_waker, second_woken) = flag();
    let (mut first, mut second) = (queue.get(), queue.get());
    assert!(poll_with(&mut first, &first_waker).is_pending());
    assert!(poll_with(&mut second, &second_waker).is_pending());
    queue.resume(&"k");
    assert!(second_woken(), "both items became servable at once");
    assert!(poll_with(&mut first, &first_waker).is_ready());
    assert!(poll_with(&mut second, &second_waker).is_ready());
}

/// 73
#[tokio::test]
async fn tickets_and_getters_outlive_the_last_handle() {
    let queue = Queue::new();
    put(&queue, "k", &["a", "b"]);
    let tickets = held(&queue, 2);
    let mut getter = queue.get();
    assert!(poll_once(&mut getter).is_pending());
    drop(queue);
    assert_eq!(getter.await.unwrap_err(), GetError::Closed);
    drop(tickets);
}

/// 75
#[test]
fn the_handle_is_shared_between_threads_and_its_futures_move() {
    fn send_and_sync<T: Send + Sync>(_: &T) {}
    fn send<T: Send>(_: &T) {}
    let queue = Queue::new();
    send_and_sync(&queue);
    send(&queue.get());
    send(&queue.get_many(2));
    send(&queue.put("k", "a"));
    send(&queue.join());
    send(&queue.drain(ms(1), alertstream::queue::Deferrals::RunNow));
}

/// What a dropped item runs may use the queue: nothing of others runs under its lock.
#[test]
fn an_item_may_use_the_queue_while_it_is_dropped() {
    struct Asks(FairQueue<u8, Asks>);
    impl Drop for Asks {
        fn drop(&mut self) {
            assert!(self.0.stats().put > 0);
        }
    }
    let queue: FairQueue<u8, Asks> = FairQueue::new();
    for _ in 0..3 {
        drop(queue.try_put(0, Asks(queue.clone())));
    }
    queue.try_get().unwrap().task_done();
    assert_eq!(queue.clear(&0), (2, 0));
    queue.close();
    assert!(queue.try_put(0, Asks(queue.clone())).is_err());
}

fn flag() -> (Waker, impl Fn() -> bool) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    struct Flag(AtomicBool);
    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    (flag.clone().into(), move || flag.0.load(Ordering::SeqCst))
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(waker))
}
