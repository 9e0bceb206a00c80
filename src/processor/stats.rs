//! What a pool did: counts per source.
//!
//! Invariant: `delivered = acknowledged + released + rejected + open` for every source at every moment. Must not know
//! how alerts are worked on.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use crate::record::SourceId;

/// Counts of deliveries. A delivery counts once a worker took it for the first time.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Deliveries taken by a worker.
    pub delivered: u64,
    /// Done.
    pub acknowledged: u64,
    /// Not done; they will be delivered again.
    pub released: u64,
    /// Never will be done: dead letters.
    pub rejected: u64,
    /// Deliveries with an attempt above 1.
    pub redelivered: u64,
    /// Calls of the handler, one for each alert of a batch.
    pub tries: u64,
}

impl Counts {
    /// Deliveries taken and not yet settled: in progress, or waiting for another try.
    pub fn open(&self) -> u64 {
        self.delivered - self.acknowledged - self.released - self.rejected
    }

    fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.acknowledged += other.acknowledged;
        self.released += other.released;
        self.rejected += other.rejected;
        self.redelivered += other.redelivered;
        self.tries += other.tries;
    }
}

/// A pool's counts at one moment.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolStats {
    /// All sources together.
    #[serde(flatten)]
    pub total: Counts,
    /// Each source.
    pub sources: BTreeMap<SourceId, Counts>,
}

/// Where the counts are kept.
#[derive(Clone, Default)]
pub(super) struct Account(Arc<Mutex<BTreeMap<SourceId, Counts>>>);

impl Account {
    /// Changes one source's counts.
    pub(super) fn count(&self, source: &SourceId, change: impl FnOnce(&mut Counts)) {
        let mut sources = self.0.lock();
        match sources.get_mut(source) {
            Some(counts) => change(counts),
            None => change(sources.entry(source.clone()).or_default()),
        }
    }

    pub(super) fn stats(&self) -> PoolStats {
        let sources = self.0.lock().clone();
        let mut total = Counts::default();
        sources.values().for_each(|counts| total.add(counts));
        PoolStats { total, sources }
    }
}
