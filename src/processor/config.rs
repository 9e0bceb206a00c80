//! The tables `[queue]` and `[processor]` of the configuration, and what they make.
//!
//! Invariant: `validate` gives every problem at once, each with the key it stands under. Must not know of files or of
//! the other tables.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use crate::decode::packet::Packet;
use crate::delivery::Delivery;
use crate::queue::{FairQueue, Options};
use crate::units;

use super::Job;

/// The fair queue's key as text: a source's name, an object's, a survey's, or a programid.
pub type QueueKey = std::sync::Arc<str>;

/// What the fair queue is fair between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyBy {
    /// The source's name.
    #[default]
    Source,
    /// The object's name; with limit 1 the alerts of an object are worked on one at a time, in order.
    Object,
    /// The survey.
    Survey,
    /// The program that an alert belongs to.
    Programid,
}

impl KeyBy {
    /// The key of an alert. One whose object is unknown is alone under its alert id (written `#ID`).
    pub fn key_of(self, delivery: &Delivery<Packet>) -> QueueKey {
        let header = delivery.get().header();
        match self {
            Self::Source => delivery.source().as_str().into(),
            Self::Object => match &header.object_id {
                Some(object) => object.as_str().into(),
                None => format!("#{}", header.alert_id).into(),
            },
            Self::Survey => header.survey.as_str().into(),
            Self::Programid => header.programid.to_string().into(),
        }
    }
}

/// `[queue]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// What the queue is fair between.
    pub key: KeyBy,
    /// Most bytes of alerts read and not yet settled: prefetch, queue and retries of all sources together, each source
    /// an equal part. An alert above a source's part is admitted when the source holds nothing else.
    #[serde(with = "units::bytes")]
    pub bytes_max: u64,
    /// Most alerts in progress of each key that `limits` does not name.
    pub limit: Option<u32>,
    /// Most alerts in progress, per key.
    pub limits: BTreeMap<String, u32>,
    /// Share of the workers, per key; 1 for a key that is not named.
    pub weights: BTreeMap<String, u32>,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            key: KeyBy::default(),
            bytes_max: 128 << 20,
            limit: None,
            limits: BTreeMap::new(),
            weights: BTreeMap::new(),
        }
    }
}

impl QueueConfig {
    /// Gives every problem: the path of its key under `[queue]`, and a sentence.
    pub fn validate(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        if self.bytes_max == 0 {
            problems.push((
                vec!["bytes_max".to_owned()],
                "`bytes_max = 0`: nothing could be read; give a size such as `128MiB`".into(),
            ));
        }
        if self.limit == Some(0) {
            problems.push((
                vec!["limit".to_owned()],
                "`limit = 0`: nothing would be worked on; give at least 1".into(),
            ));
        }
        for (table, entries) in [("limits", &self.limits), ("weights", &self.weights)] {
            for key in entries.iter().filter(|entry| *entry.1 == 0).map(|entry| entry.0) {
                problems.push((
                    vec![table.to_owned(), key.clone()],
                    format!("`{table}.{key} = 0`: `{key}` would never be served; give at least 1"),
                ));
            }
        }
        problems
    }

    /// Makes the queue. Limits and weights of 0 count as 1; see [`QueueConfig::validate`].
    ///
    /// Its bound is the sources' byte budget, so it has no capacity of its own: the key of every queued alert holds a
    /// permit. Metrics are reported under `queue = "alerts"`.
    pub fn build(&self) -> FairQueue<QueueKey, Job> {
        const SERIES_MAX: usize = 64;
        let at_least_one = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let mut options = Options::new().metrics("alerts", SERIES_MAX);
        if let Some(limit) = self.limit {
            options = options.key_limit(at_least_one(limit));
        }
        let queue = options.build();
        for (key, limit) in &self.limits {
            queue.set_limit(&key.as_str().into(), Some(at_least_one(*limit)));
        }
        for (key, weight) in &self.weights {
            queue.set_weight(&key.as_str().into(), at_least_one(*weight));
        }
        queue
    }
}

/// Most workers of a processor.
const WORKERS_MAX: u32 = 4096;

/// `[processor]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessorConfig {
    /// Alerts worked on at the same time; 1 to 4096.
    pub workers: usize,
    /// Which alerts are selected, in CEL; all without it.
    pub filter: Option<String>,
    /// How often a failing alert is tried, and how far apart.
    pub retry: RetryConfig,
    /// A try that takes longer has failed; no limit without it.
    #[serde(with = "units::optional_duration")]
    pub time_limit: Option<Duration>,
    /// Most alerts given at once to a handler of batches.
    pub batch_max: usize,
}

impl Default for ProcessorConfig {
    fn default() -> Self {
        Self {
            workers: 4,
            filter: None,
            retry: RetryConfig::default(),
            time_limit: None,
            batch_max: 500,
        }
    }
}

impl ProcessorConfig {
    /// Gives every problem: its key under `[processor]`, dotted, and a sentence.
    pub fn validate(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if self.workers == 0 {
            problems.push((
                "workers",
                "`workers = 0`: nothing would be worked on; give at least 1".into(),
            ));
        }
        if self.workers > WORKERS_MAX as usize {
            problems.push((
                "workers",
                format!("`workers = {}`: give at most {WORKERS_MAX}", self.workers),
            ));
        }
        if self.batch_max == 0 {
            problems.push(("batch_max", "`batch_max = 0`: a batch holds at least one alert".into()));
        }
        if self.time_limit == Some(Duration::ZERO) {
            problems.push((
                "time_limit",
                "`time_limit = 0s`: every try would fail; leave it out for no limit".into(),
            ));
        }
        problems.extend(self.retry.validate());
        problems
    }
}

/// `[processor] retry`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// Calls of the handler inside one delivery before the alert is rejected.
    pub tries: u32,
    /// Wait after the first failed try; it doubles with each further one.
    #[serde(with = "units::duration")]
    pub first: Duration,
    /// Longest wait.
    #[serde(with = "units::duration")]
    pub most: Duration,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            tries: 5,
            first: Duration::from_secs(1),
            most: Duration::from_secs(5 * 60),
        }
    }
}

impl RetryConfig {
    /// Gives every problem: its key under `[processor]`, dotted, and a sentence.
    pub fn validate(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if self.tries == 0 {
            problems.push((
                "retry.tries",
                "`retry.tries = 0`: a handler is called at least once; give at least 1".into(),
            ));
        }
        if self.most < self.first {
            let said = format!(
                "`retry.most = {:?}` is shorter than `retry.first = {:?}`; give the longest wait in `most`",
                self.most, self.first
            );
            problems.push(("retry.most", said));
        }
        problems
    }

    /// How long to wait after `failed` failed tries (from 1): doubling, at most `most`, between half of it and all of it
    /// as `random` (0 to 1) says, so that alerts that failed together do not come back together.
    pub fn back_off(&self, failed: u32, random: f64) -> Duration {
        let doubled = 2_u32
            .checked_pow(failed.saturating_sub(1))
            .and_then(|factor| self.first.checked_mul(factor));
        let full = doubled.unwrap_or(self.most).min(self.most);
        full.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0))
    }
}
