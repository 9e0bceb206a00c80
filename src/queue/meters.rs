//! The queue's metrics (crate `metrics`): gauges, counters and the wait histogram, one series per label.
//!
//! Names: `fair_queue_queued`, `_in_progress`, `_deferred`, `_locked`, `_oldest_age_seconds` (gauges),
//! `fair_queue_wait_seconds` (histogram of gets), `fair_queue_put_total`, `_done_total`, `_dropped_total` (counters);
//! labels `queue` and `key`. Invariants: a gauge is the sum over the keys of its label, because each report adds the
//! difference to what the key reported last; at most `series_max` labels have a series of their own, the rest shares
//! `other`. Must not know of the order of service.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::core::{Key, Nanos, Slot};

#[derive(Clone, Debug)]
pub(super) struct Meters<K> {
    queue: String,
    series_max: usize,
    display: fn(&K) -> String,
    by_label: HashMap<String, u32>,
    series: Vec<Series>,
}

#[derive(Clone, Debug)]
struct Series {
    sums: [i64; 4],
    gauges: [Gauge; 4],
    counters: [Counter; 3],
    oldest_age: Gauge,
    wait: Histogram,
}

/// The series that all labels share for which there is none.
const OTHER: &str = "other";

impl<K: Key> Meters<K> {
    pub(super) fn new(queue: String, series_max: usize, display: fn(&K) -> String) -> Self {
        Self {
            queue,
            series_max,
            display,
            by_label: HashMap::new(),
            series: Vec::new(),
        }
    }

    /// The series of a key without a label.
    pub(super) fn series_of(&mut self, key: &K) -> u32 {
        self.series_named((self.display)(key))
    }

    /// Moves a key to the series of its label, or of its display form.
    pub(super) fn relabel<T>(&mut self, slot: &mut Slot<K, T>) {
        let label = slot.settings.label.as_deref().map(str::to_owned);
        let series = self.series_named(label.unwrap_or_else(|| (self.display)(&slot.key)));
        let [gauges @ .., _, _, _] = &slot.reported;
        let taken_out = gauges.map(|reported| -i64::from(reported));
        self.add(slot.series, taken_out);
        for reported in slot.reported.iter_mut().take(4) {
            *reported = 0;
        }
        slot.series = series;
        self.report(slot);
    }

    /// Brings gauges and counters up to date with a key.
    pub(super) fn report<T>(&mut self, slot: &mut Slot<K, T>) {
        let now = [
            slot.queued() as u32,
            slot.in_progress() as u32,
            slot.deferred() as u32,
            u32::from(slot.is_locked()),
            slot.put as u32,
            slot.done as u32,
            slot.dropped as u32,
        ];
        let [a, b, c, d, put, done, dropped] = now;
        let [a0, b0, c0, d0, put0, done0, dropped0] = slot.reported;
        let change = |new: u32, old: u32| i64::from(new) - i64::from(old);
        self.add(
            slot.series,
            [change(a, a0), change(b, b0), change(c, c0), change(d, d0)],
        );
        if let Some(series) = self.series.get(slot.series as usize) {
            for (counter, more) in series.counters.iter().zip([
                put.wrapping_sub(put0),
                done.wrapping_sub(done0),
                dropped.wrapping_sub(dropped0),
            ]) {
                if more > 0 {
                    counter.increment(u64::from(more));
                }
            }
        }
        slot.reported = now;
    }

    /// Records how long a taken item was queued.
    pub(super) fn record_wait(&self, series: u32, waited: Nanos) {
        if let Some(series) = self.series.get(series as usize) {
            series.wait.record(Duration::from_nanos(waited).as_secs_f64());
        }
    }

    /// Sets the gauges of the oldest queued item's age.
    pub(super) fn observe_ages<'a, T: 'a>(&mut self, slots: impl Iterator<Item = &'a Slot<K, T>>, now: Nanos)
    where
        K: 'a,
    {
        let mut ages = vec![0; self.series.len()];
        for slot in slots {
            if let (Some(at), Some(age)) = (slot.head_at(), ages.get_mut(slot.series as usize)) {
                *age = now.saturating_sub(at).max(*age);
            }
        }
        for (series, age) in self.series.iter().zip(ages) {
            series.oldest_age.set(Duration::from_nanos(age).as_secs_f64());
        }
    }

    fn add(&mut self, series: u32, changes: [i64; 4]) {
        let Some(series) = self.series.get_mut(series as usize) else {
            return;
        };
        for ((sum, gauge), change) in series.sums.iter_mut().zip(&series.gauges).zip(changes) {
            if change != 0 {
                *sum += change;
                gauge.set(*sum as f64);
            }
        }
    }

    fn series_named(&mut self, label: String) -> u32 {
        if let Some(&series) = self.by_label.get(&label) {
            return series;
        }
        if self.by_label.len() >= self.series_max && label != OTHER {
            return self.series_named(OTHER.to_owned());
        }
        let series = self.series.len() as u32;
        self.series.push(Series::new(&self.queue, &label));
        self.by_label.insert(label, series);
        series
    }
}

impl Series {
    fn new(queue: &str, label: &str) -> Self {
        let labels = [("queue", queue.to_owned()), ("key", label.to_owned())];
        Self {
            sums: [0; 4],
            gauges: [
                gauge!("fair_queue_queued", &labels),
                gauge!("fair_queue_in_progress", &labels),
                gauge!("fair_queue_deferred", &labels),
                gauge!("fair_queue_locked", &labels),
            ],
            counters: [
                counter!("fair_queue_put_total", &labels),
                counter!("fair_queue_done_total", &labels),
                counter!("fair_queue_dropped_total", &labels),
            ],
            oldest_age: gauge!("fair_queue_oldest_age_seconds", &labels),
            wait: histogram!("fair_queue_wait_seconds", &labels),
        }
    }
}
