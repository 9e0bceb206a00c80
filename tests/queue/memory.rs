//! Cases 71 and 81: memory, in bytes that were allocated and not freed.

use std::time::Duration;

use alertstream::queue::FairQueue;
use tokio::time::advance;

use super::counting::{Counting, held};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a queue holds after so many keys were used once each, and again after the grace time.
async fn after_keys(keys: u64) -> (isize, isize) {
    let before = held();
    let queue: FairQueue<u64, u64> = FairQueue::new();
    for key in 0..keys {
        queue.try_put(key, key).unwrap();
        queue.try_get().unwrap().task_done();
    }
    let used = held() - before;
    advance(Duration::from_secs(60)).await;
    assert_eq!(queue.stats().known_keys, 0);
    (used, held() - before)
}

/// 71
#[tokio::test(start_paused = true)]
async fn memory_of_used_keys_comes_back() {
    let (bound, _) = after_keys(1024).await;
    let (used, rest) = after_keys(100_000).await;
    println!("{bound} bytes for the 1,024 keys remembered; {used} after 100,000 keys, {rest} after the grace time");
    assert!(bound > 0 && rest * 10 <= bound * 11, "{rest} of {bound}");
    assert!(used < 2 * bound, "{used} of {bound}");
}

/// 71: the same when all keys are there at once.
#[tokio::test(start_paused = true)]
async fn memory_of_many_keys_at_once_comes_back() {
    let (bound, _) = after_keys(1024).await;
    let before = held();
    let queue: FairQueue<u64, u64> = FairQueue::new();
    (0..100_000).for_each(|key| queue.try_put(key, key).unwrap());
    let most = held() - before;
    while let Some(ticket) = queue.try_get() {
        ticket.task_done();
    }
    advance(Duration::from_secs(60)).await;
    assert_eq!(queue.stats().known_keys, 0);
    let rest = held() - before;
    println!("{most} bytes for 100,000 keys at once, {rest} after the grace time ({bound} for 1,024)");
    assert!(most > 10 * bound && rest * 10 <= bound * 11, "{rest} of {bound}");
}

/// 81
#[test]
fn a_queued_item_costs_at_most_64_bytes_beside_itself() {
    let before = held();
    let queue: FairQueue<u32, (u64, u64)> = FairQueue::new();
    for n in 0..1_000_000 {
        queue.try_put(n as u32 % 64, (n, n)).unwrap();
    }
    let overhead = (held() - before) as f64 / 1e6 - 16.0;
    println!("{overhead:.1} bytes an item");
    assert!(overhead > 0.0 && overhead <= 64.0, "{overhead}");
}
