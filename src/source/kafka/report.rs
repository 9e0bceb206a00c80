//! What a live source tells of itself beside its deliveries: counters and the gaps.
//!
//! Invariant: bounded (the oldest gaps go first; the counters stay whole). Must not know of the poll loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use super::gaps::Gap;

/// How many gaps are kept.
const GAPS_MAX: usize = 1000;

/// Counters of one live source. Clones share them.
#[derive(Clone, Default, Debug)]
pub struct LiveReport {
    inner: Arc<Inner>,
}

#[derive(Default, Debug)]
struct Inner {
    tombstones: AtomicU64,
    oversized: AtomicU64,
    pauses: AtomicU64,
    rebalances: AtomicU64,
    commits: AtomicU64,
    failed_commits: AtomicU64,
    stalls: AtomicU64,
    lost: AtomicU64,
    gaps: Mutex<VecDeque<Gap>>,
}

/// The counters at one moment.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct LiveCounts {
    /// Messages without a payload, delivered empty; the pipeline acknowledges them.
    pub tombstones: u64,
    /// Messages above the whole byte budget, each delivered alone.
    pub oversized: u64,
    /// Times the partitions were paused because the budget was full.
    pub pauses: u64,
    /// Assignments and revocations that were not empty.
    pub rebalances: u64,
    /// Commits that the coordinator confirmed.
    pub commits: u64,
    /// Commits that failed; what they said is in a later one.
    pub failed_commits: u64,
    /// Partitions found behind and without progress.
    pub stalls: u64,
    /// Partitions lost without a revocation (the session had ended).
    pub lost: u64,
    /// Resets, newest last; the newest thousand.
    pub gaps: Vec<Gap>,
}

impl LiveReport {
    /// Gives the counters now.
    pub fn counts(&self) -> LiveCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let inner = &self.inner;
        LiveCounts {
            tombstones: read(&inner.tombstones),
            oversized: read(&inner.oversized),
            pauses: read(&inner.pauses),
            rebalances: read(&inner.rebalances),
            commits: read(&inner.commits),
            failed_commits: read(&inner.failed_commits),
            stalls: read(&inner.stalls),
            lost: read(&inner.lost),
            gaps: inner.gaps.lock().iter().cloned().collect(),
        }
    }

    pub(crate) fn count(&self, what: Counted) {
        let inner = &self.inner;
        let (counter, name) = match what {
            Counted::Tombstone => (&inner.tombstones, "alertstream_kafka_tombstones_total"),
            Counted::Oversized => (&inner.oversized, "alertstream_kafka_oversized_total"),
            Counted::Pause => (&inner.pauses, "alertstream_kafka_pauses_total"),
            Counted::Rebalance => (&inner.rebalances, "alertstream_kafka_rebalances_total"),
            Counted::Commit => (&inner.commits, "alertstream_kafka_commits_total"),
            Counted::FailedCommit => (&inner.failed_commits, "alertstream_kafka_failed_commits_total"),
            Counted::Stall => (&inner.stalls, "alertstream_kafka_stalls_total"),
            Counted::Lost => (&inner.lost, "alertstream_kafka_lost_partitions_total"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        metrics::counter!(name).increment(1);
    }

    pub(crate) fn gap(&self, gap: &Gap) {
        tracing::warn!(
            topic = %gap.topic, partition = gap.partition, from = gap.from, to = gap.to, cause = ?gap.cause,
            lost = gap.lost(), "a position does not exist any more; reading goes on elsewhere"
        );
        metrics::counter!("alertstream_kafka_gaps_total").increment(1);
        let mut gaps = self.inner.gaps.lock();
        if gaps.len() == GAPS_MAX {
            gaps.pop_front();
        }
        gaps.push_back(gap.clone());
    }
}

/// What can be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    Tombstone,
    Oversized,
    Pause,
    Rebalance,
    Commit,
    FailedCommit,
    Stall,
    Lost,
}
