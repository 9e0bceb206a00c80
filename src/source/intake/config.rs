//! Settings of a stream, and what it tells of itself: counts and lag.
//!
//! Invariant: the counts balance, `delivered = acked + released + rejected + open`. Must not know of backends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::budget::{ByteBudget, DeliveryQuota};
use crate::dead_letter::{DeadLetterStore, LogStore};
use crate::record::Lane;

/// Settings of one stream; the defaults suit one source in one process.
#[derive(Clone)]
pub struct StreamConfig {
    /// Bounds the bytes of delivered and unsettled alerts. Streams with clones of one budget share it; by default
    /// each has its own, so that a full source stands still alone. 128 MiB.
    pub budget: ByteBudget,
    /// Most delivered positions of a lane at and behind its first unsettled one. 10,000.
    pub max_span: usize,
    /// A position that keeps its stream from going on for this long is an error; `None` waits for ever. 15 min.
    pub stall_after: Option<Duration>,
    /// How long a stream whose only open alerts wait for something from outside (a schema) waits with them before it
    /// ends and leaves them uncommitted: for a bounded read. `None`, the default, waits for ever.
    pub wait_within: Option<Duration>,
    /// How long open deliveries may take to settle when both ends of the stream were dropped without a shutdown. 30 s.
    pub drain_within: Duration,
    /// How long a source may take to write its last commit. 10 s.
    pub commit_within: Duration,
    /// Ends the stream after so many deliveries; clones share the number. By default there is no such end.
    pub quota: Option<DeliveryQuota>,
    /// Where a source without a transaction of its own puts dead letters. By default they are only logged.
    pub dead_letters: Arc<dyn DeadLetterStore>,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            budget: ByteBudget::new(128 << 20),
            max_span: 10_000,
            stall_after: Some(Duration::from_secs(15 * 60)),
            wait_within: None,
            drain_within: Duration::from_secs(30),
            commit_within: Duration::from_secs(10),
            quota: None,
            dead_letters: Arc::new(LogStore),
        }
    }
}

impl fmt::Debug for StreamConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamConfig")
            .field("bytes_max", &self.budget.bytes_max())
            .field("max_span", &self.max_span)
            .field("stall_after", &self.stall_after)
            .field("wait_within", &self.wait_within)
            .field("drain_within", &self.drain_within)
            .field("commit_within", &self.commit_within)
            .field("quota", &self.quota.as_ref().map(DeliveryQuota::left))
            .finish_non_exhaustive()
    }
}

/// What a stream did so far. `delivered = acked + released + rejected + open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamStats {
    /// Deliveries given out; a redelivery is one more.
    pub delivered: u64,
    /// Deliveries settled as done.
    pub acked: u64,
    /// Deliveries that were given back, were dropped, or stood open when their epoch ended.
    pub released: u64,
    /// Deliveries settled as never to be done, with those that the source itself could not read.
    pub rejected: u64,
    /// Deliveries with an attempt above 1, among `delivered`.
    pub redelivered: u64,
    /// Deliveries given out and not settled.
    pub open: u64,
    /// Settlements that came after their epoch had ended and changed nothing; not part of the balance.
    pub late: u64,
    /// Alerts admitted and not yet given out, among them released ones that wait for their next delivery.
    pub waiting: u64,
    /// Positions that the source passed over without an alert.
    pub passed: u64,
    /// Bytes given out, over all deliveries.
    pub bytes: u64,
}

/// How far a stream is behind its backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Alerts not yet settled or not yet read, per open lane whose source knows.
    pub lanes: Vec<(Lane, u64)>,
    /// All that remains, where the source knows more than its open lanes tell (an archive group).
    pub remaining: Option<u64>,
}

impl Lag {
    /// Gives all that remains: what the source said, or the sum over its lanes; `None` when nothing is known.
    pub fn total(&self) -> Option<u64> {
        let sum = || self.lanes.iter().map(|(_, behind)| behind).sum();
        self.remaining.or_else(|| (!self.lanes.is_empty()).then(sum))
    }
}
