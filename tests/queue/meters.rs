//! Cases 55, 57 and 72: metrics.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alertstream::queue::{FairQueue, Options, PutOptions};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tokio::time::advance;

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

/// A recorder that keeps the last value (a histogram's number of records) of each series.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<HashMap<Name, f64>>>);

/// Metric, queue, key.
type Name = (String, String, String);

struct Series(Seen, Name);

impl Seen {
    fn read(&self, name: &str, queue: &str, key: &str) -> f64 {
        let series = (name.to_owned(), queue.to_owned(), key.to_owned());
        *self.0.lock().unwrap().get(&series).unwrap_or(&0.0)
    }

    fn sum(&self, name: &str) -> f64 {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|(series, _)| series.0 == name)
            .map(|(_, value)| value)
            .sum()
    }

    fn series(&self, key: &Key) -> Arc<Series> {
        let label = |name| {
            key.labels()
                .find(|label| label.key() == name)
                .unwrap()
                .value()
                .to_owned()
        };
        Arc::new(Series(
            self.clone(),
            (key.name().to_owned(), label("queue"), label("key")),
        ))
    }
}

impl Series {
    fn update(&self, change: impl FnOnce(f64) -> f64) {
        let mut values = self.0.0.lock().unwrap();
        let value = values.entry(self.1.clone()).or_default();
        *value = change(*value);
    }
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.1)
    }
}

impl CounterFn for Series {
    fn increment(&self, more: u64) {
        self.update(|value| value + more as f64);
    }
    fn absolute(&self, now: u64) {
        self.update(|_| now as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, more: f64) {
        self.update(|value| value + more);
    }
    fn decrement(&self, less: f64) {
        self.update(|value| value - less);
    }
    fn set(&self, now: f64) {
        self.update(|_| now);
    }
}

impl HistogramFn for Series {
    fn record(&self, _value: f64) {
        self.update(|value| value + 1.0);
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}
