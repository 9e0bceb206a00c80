//! A recorder of metrics that keeps what was last said, for tests that read gauges and counters.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// A recorder that keeps the last value (a histogram's number of records) of each series.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<HashMap<Name, f64>>>);

/// Metric, queue, key.
type Name = (String, String, String);

struct Series(Seen, Name);

impl Seen {
    /// A series' value.
    pub fn read(&self, name: &str, queue: &str, key: &str) -> f64 {
        let series = (name.to_owned(), queue.to_owned(), key.to_owned());
        *self.0.lock().unwrap().get(&series).unwrap_or(&0.0)
    }

    /// All series of a metric together.
    pub fn sum(&self, name: &str) -> f64 {
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
            let found = key.labels().find(|label| label.key() == name);
            found.map_or_else(String::new, |label| label.value().to_owned())
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
