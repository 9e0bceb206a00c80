//! Failed tries are put off in the queue: the worker is free meanwhile; order is kept where the key asks for it.

use std::num::NonZeroU32;

use alertstream::processor::{AlertProcessor, KeyBy};
use alertstream::queue::Options;
use futures::FutureExt;
use tokio::time::Instant;

use super::*;

/// Runs a handler that notes each call; gives (place, try, ms since the start) of all calls.
async fn calls(
    queue: Queue,
    config: &ProcessorConfig,
    result: fn(u64, u32) -> Result<(), HandleError>,
) -> Vec<(u64, u32, u128)> {
    let (notes, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let handler = Does({
        let notes = notes.clone();
        move |n, tries| {
            notes.lock().unwrap().push((n, tries, start.elapsed().as_millis()));
            async move { result(n, tries) }.boxed()
        }
    });
    let pool = AlertProcessor::new(handler, config).start(queue.clone());
    idle(&queue).await;
    pool.shutdown(ms(100)).await.unwrap();
    Arc::into_inner(notes).unwrap().into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_worker_is_free_while_an_alert_waits_for_its_next_try() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..3);
    let calls = calls(queue, &config(), |n, tries| match (n, tries) {
        (0, 1) => Err(HandleError::retry("later")),
        _ => Ok(()),
    })
    .await;
    assert_eq!(calls[..3], [(0, 1, 0), (1, 1, 0), (2, 1, 0)]);
    assert_eq!((calls[3].0, calls[3].1), (0, 2));
    assert!(
        (500..=1001).contains(&calls[3].2),
        "half to all of the first wait: {calls:?}"
    );
    assert_eq!(ledger.all(0..3), ["ack"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_say_when_to_try_again() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..1);
    let calls = calls(queue, &config(), |_, tries| match tries {
        1 => Err(HandleError::retry_after(Duration::from_secs(7), "rate limit")),
        _ => Ok(()),
    })
    .await;
    assert_eq!(calls, [(0, 1, 0), (0, 2, 7000)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_with_limit_one_keeps_its_order_over_retries() {
    let ledger = Ledger::default();
    let queue: Queue = Options::new().key_limit(NonZeroU32::MIN).build();
    // 7 objects: 0, 7, 14 are one object's; so are 1, 8, 15.
    for n in [0, 7, 14, 1, 8, 15] {
        let delivery = ledger.delivery("a", n);
        queue.try_put(KeyBy::Object.key_of(&delivery), delivery.into()).unwrap();
    }
    let config = ProcessorConfig { workers: 4, ..config() };
    let calls = calls(queue, &config, |n, tries| match (n, tries) {
        (7, 1 | 2) => Err(HandleError::retry_after(ms(400), "later")),
        _ => Ok(()),
    })
    .await;
    let of = |object: u64| -> Vec<_> { calls.iter().copied().filter(|call| call.0 % 7 == object).collect() };
    assert_eq!(of(0), [(0, 1, 0), (7, 1, 0), (7, 2, 400), (7, 3, 800), (14, 1, 800)]);
    assert_eq!(of(1), [(1, 1, 0), (8, 1, 0), (15, 1, 0)], "other objects do not wait");
    assert_eq!(ledger.all([0, 7, 14, 1, 8, 15]), ["ack"; 6]);
}

#[test]
fn the_back_off_doubles_up_to_its_most_with_jitter() {
    let retry = RetryConfig {
        tries: 99,
        first: Duration::from_secs(1),
        most: Duration::from_secs(300),
    };
    let secs = |failed, random| retry.back_off(failed, random).as_secs_f64();
    assert_eq!([1, 2, 3, 9].map(|failed| secs(failed, 1.0)), [1.0, 2.0, 4.0, 256.0]);
    assert_eq!([10, 40, u32::MAX].map(|failed| secs(failed, 1.0)), [300.0; 3]);
    assert_eq!(secs(3, 0.0), 2.0);
}
