//! What a backend gives to the suite.

use std::sync::Arc;
use std::time::Duration;

use alertstream::source::Source;
use alertstream::stream::{StreamConfig, StreamControl};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

/// Which backend it is; a case says on which it applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code)] // each backend uses its own
pub(crate) enum Kind {
    Memory,
    Archive,
    Kafka,
}

/// Starts a service once per test, and makes topics in it.
pub(crate) trait Backend: Send + Sync {
    fn kind(&self) -> Kind;

    /// Makes a fresh topic (an archive with a group over all of it) that holds `spec.alerts` different alerts.
    fn topic(&self, spec: Spec) -> BoxFuture<'_, Arc<dyn Topic>>;
}

/// What a case wants in its topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) alerts: usize,
    /// Partitions; on the archive the number of blocks (block size = alerts / lanes, rounded up).
    pub(crate) lanes: usize,
    /// About this many bytes each (at least; a real packet may need more).
    pub(crate) bytes: usize,
}

impl Spec {
    pub(crate) fn of(alerts: usize, lanes: usize) -> Self {
        Self {
            alerts,
            lanes,
            bytes: 600,
        }
    }
}

/// A topic with one group of consumers; each of its sources ends at the end of what was in the topic.
pub(crate) trait Topic: Send + Sync {
    /// The payloads of all alerts in it.
    fn payloads(&self) -> Vec<Bytes>;

    /// A new consumer of the group.
    fn consumer(&self) -> BoxFuture<'_, Box<dyn Source>>;

    /// The settings a stream needs here besides the defaults: the store of dead letters.
    fn config(&self) -> StreamConfig {
        StreamConfig::default()
    }

    /// Payload and reason of each dead letter stored so far.
    fn dead_letters(&self) -> BoxFuture<'_, Vec<(Bytes, String)>>;

    /// Makes the store of dead letters fail, or work again; only where a case says so.
    fn store_works(&self, _works: Works) {
        panic!("the store of this backend cannot be made to fail")
    }

    /// Appends a payload to the topic; only where a case says so.
    fn push(&self, _payload: Bytes) -> BoxFuture<'_, ()> {
        panic!("nothing can be appended here")
    }

    /// Ends a consumer as a crash would: no last commit, no goodbye.
    fn kill(&self, control: StreamControl) -> BoxFuture<'static, ()> {
        control.abort().boxed()
    }

    /// Within this time an alert that is there comes, also one of a consumer that was killed.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Whether a change of owners may repeat what was settled and not yet committed: Kafka's coordinator refuses a
    /// commit that comes too late for a rebalance, however short the delay. The archive's fence never does.
    fn rebalances_may_repeat(&self) -> bool {
        false
    }

    /// Numbers of consumers for `one_to_64_consumers_same_set`.
    fn crowds(&self) -> Vec<usize> {
        vec![1, 2, 5, 16, 64]
    }
}

/// Whether the store of dead letters works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Works {
    Yes,
    No,
}
