//! Cases 68 to 71: close, drain, balance, idle keys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alertstream::queue::{Deferrals, DrainError, FairQueue, GetError, Options, PutError, PutOptions};
use tokio::time::{Instant, advance, sleep};

use super::*;

/// 68
#[tokio::test(start_paused = true)]
async fn a_closed_queue_serves_what_it_holds_and_ends_all_getters_at_once() {
    let (queue, start) = (Queue::new(), Instant::now());
    put(&queue, "k", &["a", "b", "c"]);
    let tickets = held(&queue, 3);
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.map(|ticket| ticket.complete()) })
        })
        .collect();
    sleep(ms(1)).await;
    for ticket in tickets {
        ticket.requeue_back().unwrap();
        // Served to the getters or queued: either way it is there.
    }
    queue.close();
    assert_eq!(queue.try_put("k", "d"), Err(PutError::Closed("d")));
    let mut got = Vec::new();
    for getter in waiting {
        got.push(getter.await.unwrap().unwrap());
    }
    got.push(queue.get().await.unwrap().complete());
    got.sort_unstable();
    assert_eq!(got, ["a", "b", "c"]);
    assert_eq!(queue.get().await.unwrap_err(), GetError::Closed);
    assert_eq!(queue.get_many(3).await.unwrap_err(), GetError::Closed);
    assert_eq!(start.elapsed(), ms(1));
}

/// 68
#[tokio::test(start_paused = true)]
async fn closing_wakes_every_waiting_getter() {
    let (queue, start) = (Queue::new(), Instant::now());
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.map(drop) })
        })
        .collect();
    sleep(ms(5)).await;
    queue.close();
    for getter in waiting {
        assert_eq!(getter.await.unwrap(), Err(GetError::Closed));
    }
    assert_eq!(start.elapsed(), ms(5));
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_still_serves_its_deferrals_but_takes_nothing_back() {
    let queue = Queue::new();
    queue.put_after("k", "d", ms(50)).await.unwrap();
    queue.close();
    let ticket = queue.get().await.unwrap();
    assert_eq!(*ticket, "d");
    let PutError::Closed(ticket) = ticket.requeue_back().unwrap_err() else {
        panic!()
    };
    assert_eq!(ticket.complete(), "d");
    assert_eq!(queue.get().await.unwrap_err(), GetError::Closed);
}

/// 69
#[tokio::test(start_paused = true)]
async fn a_drain_with_a_stuck_ticket_ends_at_its_deadline() {
    let (queue, start) = (Queue::new(), Instant::now());
    put(&queue, "k", &["a", "b"]);
    queue.put_after("k", "d", Duration::from_secs(60)).await.unwrap();
    let _stuck = queue.try_get().unwrap();
    let refused = queue
        .drain(Duration::from_secs(1), Deferrals::HandBack)
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        DrainError {
            queued: 1,
            in_progress: 1,
            deferred: 1
        }
    );
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    put(&queue, "k", &["c"]);
    assert_eq!(served(&queue, 9), ["b", "c"]);
    queue.put_after("k", "e", ms(1)).await.unwrap();
}

/// 69
#[tokio::test(start_paused = true)]
async fn a_drain_runs_deferrals_now_or_hands_them_back() {
    let queue = Queue::new();
    let fill = || {
        put(&queue, "k", &["a"]);
        queue
            .try_put_with("k", "far", PutOptions::new().exclusive().after(Duration::from_secs(60)))
            .unwrap();
        queue
            .try_put_with("j", "near", PutOptions::new().after(Duration::from_secs(30)))
            .unwrap();
    };
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut got = Vec::new();
            while let Ok(ticket) = queue.get().await {
                got.push(ticket.complete());
            }
            got
        }
    });
    fill();
    assert_eq!(
        queue.drain(Duration::from_secs(1), Deferrals::RunNow).await,
        Ok(Vec::new())
    );
    fill();
    let back = queue.drain(Duration::from_secs(1), Deferrals::HandBack).await.unwrap();
    let back: Vec<_> = back
        .into_iter()
        .map(|d| (d.key, d.item, d.exclusive, d.due_in.as_secs()))
        .collect();
    assert_eq!(back, [("j", "near", false, 30), ("k", "far", true, 60)]);
    assert_eq!(sizes(&queue), (0, 0, 0));
    queue.close();
    let mut got = worker.await.unwrap();
    got.sort_unstable();
    assert_eq!(got, ["a", "a", "far", "near"]);
}

/// 70
#[test]
fn counts_balance_at_every_sample() {
    let queue: FairQueue<u64, u64> = FairQueue::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (queue, stop) = (&queue, &stop);
            scope.spawn(move || {
                let (mut random, mut tickets) = (Random(seed), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let key = random.below(9);
                    match random.below(8) {
                        0..=2 => queue.try_put(key, 0).unwrap(),
                        3 => {
                            let delay = Duration::from_micros(random.below(500));
                            queue.try_put_with(key, 0, PutOptions::new().after(delay)).unwrap();
                        }
                        4 | 5 => tickets.extend(queue.try_get()),
                        6 => drop(tickets.pop().map(|ticket| ticket.requeue_front().unwrap())),
                        _ if random.below(20) == 0 => drop(queue.clear(&key)),
                        _ => drop(tickets.pop()),
                    }
                }
            });
        }
        for _ in 0..5_000 {
            let s = queue.stats();
            let there = (s.queued + s.in_progress + s.deferred) as u64;
            assert_eq!(there + s.done + s.dropped, s.put);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(queue.inprogress_size(), 0);
}

/// 71
#[tokio::test(start_paused = true)]
async fn idle_keys_are_forgotten_and_return_as_new_ones() {
    let queue: FairQueue<u32, u32> = FairQueue::new();
    for key in 0..100_000 {
        queue.try_put(key, key).unwrap();
        queue.try_get().unwrap().task_done();
    }
    assert_eq!(queue.stats().known_keys, 1024);
    queue.try_put(1, 1).unwrap();
    queue.try_get().unwrap().task_done();
    queue.set_limit(&2, std::num::NonZeroU32::new(1));
    advance(Duration::from_secs(60)).await;
    assert_eq!(queue.stats().known_keys, 0);
    assert_eq!(queue.keys().len(), 1, "a key with a setting is kept apart");
    // 3 was served after 1, but both are forgotten: they are served in the order of their new puts.
    queue.try_put(3, 0).unwrap();
    queue.try_put(1, 0).unwrap();
    assert_eq!(*queue.try_get().unwrap().key(), 3);
}

/// 71
#[tokio::test(start_paused = true)]
async fn grace_and_number_of_idle_keys_are_options() {
    let queue: FairQueue<u32, u32> = Options::new().idle_grace(ms(10)).idle_keys_max(3).build();
    for key in 0..10 {
        queue.try_put(key, key).unwrap();
        queue.try_get().unwrap().task_done();
    }
    assert_eq!(queue.stats().known_keys, 3);
    advance(ms(10)).await;
    assert_eq!(queue.stats().known_keys, 0);
    let forgetful: FairQueue<u32, u32> = Options::new().idle_keys_max(0).build();
    forgetful.try_put(1, 1).unwrap();
    forgetful.try_get().unwrap().task_done();
    assert_eq!(forgetful.stats().known_keys, 0);
}
