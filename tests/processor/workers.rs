//! The number of workers, draining and shutting down.

use std::sync::atomic::{AtomicUsize, Ordering};

use alertstream::processor::AlertProcessor;
use futures::FutureExt;
use tokio::time::sleep;

use super::*;

/// A handler that takes 100 ms and counts how many of it run.
fn slow() -> (Arc<AtomicUsize>, impl Handler) {
    let running = Arc::new(AtomicUsize::new(0));
    let handler = Does({
        let running = running.clone();
        move |_, _| {
            let running = running.clone();
            async move {
                running.fetch_add(1, Ordering::SeqCst);
                sleep(ms(100)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
            .boxed()
        }
    });
    (running, handler)
}

#[tokio::test(start_paused = true)]
async fn the_number_of_workers_changes_while_they_run() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..60);
    let (running, handler) = slow();
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    let mut seen = Vec::new();
    for workers in [1, 4, 2, 0, 3] {
        pool.set_workers(workers);
        sleep(ms(250)).await;
        seen.push(running.load(Ordering::SeqCst));
        assert_eq!(pool.workers(), workers);
    }
    assert_eq!(seen, [1, 4, 2, 0, 3]);
    // Sent away and hired again within one call: still no more than wanted.
    pool.set_workers(1);
    pool.set_workers(4);
    sleep(ms(250)).await;
    assert_eq!(running.load(Ordering::SeqCst), 4);
    idle(&queue).await;
    assert_eq!(pool.shutdown(ms(200)).await.unwrap().total.acknowledged, 60);
    assert_eq!(ledger.all(0..60), vec!["ack"; 60]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_what_is_in_progress_and_releases_the_rest() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..5);
    let (_, handler) = slow();
    let pool = AlertProcessor::new(handler, &ProcessorConfig { workers: 2, ..config() }).start(queue.clone());
    sleep(ms(50)).await;
    let stats = pool.shutdown(ms(200)).await.unwrap();
    assert_eq!((stats.total.acknowledged, stats.total.open()), (2, 0));
    assert_eq!(ledger.all(0..5), ["ack", "ack", "release", "release", "release"]);
    assert!(queue.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_cuts_off_what_takes_too_long() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..5);
    let (_, handler) = slow();
    let pool = AlertProcessor::new(handler, &ProcessorConfig { workers: 2, ..config() }).start(queue.clone());
    sleep(ms(50)).await;
    let start = tokio::time::Instant::now();
    let stats = pool.shutdown(ms(20)).await.unwrap();
    assert_eq!(start.elapsed(), ms(20));
    assert_eq!(
        (stats.total.acknowledged, stats.total.released, stats.total.open()),
        (0, 2, 0)
    );
    assert_eq!(ledger.all(0..5), ["release"; 5]);
}

#[tokio::test(start_paused = true)]
async fn alerts_between_two_tries_are_released_by_a_shutdown() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..2);
    let handler = Does(|_, _| async { Err(HandleError::retry("later")) }.boxed());
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    sleep(ms(10)).await;
    assert_eq!((queue.deferred_size(), pool.stats().total.open()), (2, 2));
    let stats = pool.shutdown(ms(20)).await.unwrap();
    assert_eq!((stats.total.released, stats.total.open()), (2, 0));
    assert_eq!(ledger.all(0..2), ["release"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_works_off_what_is_queued() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..5);
    let (_, handler) = slow();
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    assert_eq!(pool.drain(ms(250)).await.unwrap_err().queued, 2);
    pool.drain(ms(300)).await.unwrap();
    assert_eq!(ledger.all(0..5), ["ack"; 5]);
    drop(pool);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_pool_releases_what_it_held() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..2);
    let (_, handler) = slow();
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    sleep(ms(50)).await;
    drop(pool);
    sleep(ms(1)).await;
    assert_eq!(ledger.all(0..2), ["release", "open"]);
    drop(queue);
    sleep(ms(1)).await;
    assert_eq!(ledger.all(0..2), ["release", "release"]);
}
