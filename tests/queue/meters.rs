//! Cases 55, 57 and 72: metrics.

use std::time::Duration;

use alertstream::queue::{FairQueue, Options, PutOptions};
use tokio::time::advance;

use super::recorder::Seen;
use super::*;

/// 55, 57
#[tokio::test(start_paused = true)]
async fn gauges_equal_the_sizes_also_after_a_clear_and_carry_the_label() {
    let seen = Seen::default();
    metrics::with_local_recorder(&seen.clone(), || {
        let queue: FairQueue<u32, u32> = Options::new().metrics("q", 9).build();
        queue.set_label(&1, Some("pair"));
        for key in [1, 2, 3] {
            for item in 0..3 {
                queue.try_put(key, item).unwrap();
            }
            queue.try_put_with(key, 9, PutOptions::new().after(ms(5))).unwrap();
        }
        let read = |name: &str, key: &str| seen.read(name, "q", key);
        assert_eq!(
            (read("fair_queue_queued", "pair"), read("fair_queue_queued", "2")),
            (3.0, 3.0)
        );
        // A label given later moves what is there; two keys of one label add up.
        queue.set_label(&3, Some("pair"));
        assert_eq!(
            (read("fair_queue_queued", "pair"), read("fair_queue_queued", "3")),
            (6.0, 0.0)
        );
        assert_eq!(read("fair_queue_deferred", "pair"), 2.0);

        let one = queue.try_get().unwrap();
        assert_eq!((*one.key(), read("fair_queue_in_progress", "pair")), (1, 1.0));
        assert_eq!(queue.clear(&1), (2, 1));
        assert_eq!(
            (read("fair_queue_queued", "pair"), read("fair_queue_deferred", "pair")),
            (3.0, 1.0)
        );
        drop(one);
        assert_eq!(read("fair_queue_in_progress", "pair"), 0.0);

        queue.try_put_with(1, 7, PutOptions::new().exclusive()).unwrap();
        let tickets: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
        assert_eq!(
            (read("fair_queue_locked", "pair"), read("fair_queue_queued", "pair")),
            (1.0, 0.0)
        );
        drop(tickets);
        assert_eq!(read("fair_queue_locked", "pair"), 0.0);
        // What key 3 counted before it had the label stays where it was counted.
        for (name, counts) in [("put", 5.0), ("done", 5.0), ("dropped", 3.0)] {
            assert_eq!(read(&format!("fair_queue_{name}_total"), "pair"), counts, "{name}");
        }
        queue.clear_all();
        for gauge in ["queued", "in_progress", "deferred", "locked"] {
            assert_eq!(seen.sum(&format!("fair_queue_{gauge}")), 0.0);
        }
    });
}

/// 72
#[tokio::test(start_paused = true)]
async fn ages_waits_and_the_fold_into_other() {
    let seen = Seen::default();
    let queue: FairQueue<u32, u32> = metrics::with_local_recorder(&seen, || {
        let queue: FairQueue<u32, u32> = Options::new().metrics("q", 2).build();
        for key in 0..5 {
            queue.try_put(key, key).unwrap();
        }
        queue
    });
    advance(Duration::from_secs(7)).await;
    queue.observe();
    assert_eq!(seen.read("fair_queue_oldest_age_seconds", "q", "0"), 7.0);
    assert_eq!(queue.key_stats(&4).oldest_age, Some(Duration::from_secs(7)));
    assert_eq!(seen.read("fair_queue_queued", "q", "other"), 3.0);
    let mut got = 0;
    while let Some(ticket) = queue.try_get() {
        assert_eq!(ticket.waited(), Duration::from_secs(7));
        got += 1;
    }
    assert_eq!(seen.sum("fair_queue_wait_seconds"), f64::from(got));
    assert_eq!(seen.read("fair_queue_wait_seconds", "q", "other"), 3.0);
    queue.observe();
    assert_eq!(seen.sum("fair_queue_oldest_age_seconds"), 0.0);
}
