//! The cases, in one list, each with the backends it applies to.

mod bounds;
mod end;
mod ownership;
mod progress;

use std::future::Future;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::backend::Kind::{Archive, Kafka, Memory};
use crate::backend::{Backend, Kind};

type Run = for<'a> fn(&'a dyn Backend) -> BoxFuture<'a, ()>;

struct Case {
    name: &'static str,
    on: &'static [Kind],
    run: Run,
}

/// Why the cases that are not on every backend are not:
/// `dead_letter_store_down_stops_commits`: the archive's store is the transaction of the commit itself;
/// `late_ack_after_revoke_is_ignored`, `reopen_during_rebalance`: an archive has no rebalance, its leases have cases
/// of their own; `empty_and_tombstone_payloads`: an archive holds no empty packet;
/// `once_only_with_inbox_under_kill`: comes with the inbox.
const CASES: &[Case] = &[
    Case {
        name: "resumes_after_last_commit",
        on: &[Memory, Archive, Kafka],
        run: |b| progress::resumes(b).boxed(),
    },
    Case {
        name: "checkpoint_capture",
        on: &[Memory, Archive, Kafka],
        run: |b| progress::checkpoint(b).boxed(),
    },
    Case {
        name: "drop_is_release",
        on: &[Memory, Archive, Kafka],
        run: |b| progress::drop_is_release(b).boxed(),
    },
    Case {
        name: "reject_is_stored_then_passed",
        on: &[Memory, Archive, Kafka],
        run: |b| progress::reject(b).boxed(),
    },
    Case {
        name: "dead_letter_store_down_stops_commits",
        on: &[Memory, Kafka],
        run: |b| progress::store_down(b).boxed(),
    },
    Case {
        name: "late_ack_after_revoke_is_ignored",
        on: &[Memory, Kafka],
        run: |b| ownership::late_ack(b).boxed(),
    },
    Case {
        name: "two_consumers_share_without_overlap",
        on: &[Memory, Archive, Kafka],
        run: |b| ownership::two(b).boxed(),
    },
    Case {
        name: "dead_consumer_is_recovered",
        on: &[Memory, Archive, Kafka],
        run: |b| ownership::dead(b).boxed(),
    },
    Case {
        name: "flush_means_durable",
        on: &[Memory, Archive, Kafka],
        run: |b| progress::flush(b).boxed(),
    },
    Case {
        name: "budget_bounds_bytes",
        on: &[Memory, Archive, Kafka],
        run: |b| bounds::budget(b).boxed(),
    },
    Case {
        name: "stall_is_reported",
        on: &[Memory, Archive, Kafka],
        run: |b| bounds::stall(b).boxed(),
    },
    Case {
        name: "order_within_lane",
        on: &[Memory, Archive, Kafka],
        run: |b| bounds::order(b).boxed(),
    },
    Case {
        name: "shutdown_drains",
        on: &[Memory, Archive, Kafka],
        run: |b| end::drains(b).boxed(),
    },
    Case {
        name: "shutdown_deadline_releases",
        on: &[Memory, Archive, Kafka],
        run: |b| end::deadline(b).boxed(),
    },
    Case {
        name: "reopen_during_rebalance",
        on: &[Memory, Kafka],
        run: |b| ownership::reopen(b).boxed(),
    },
    Case {
        name: "large_message",
        on: &[Memory, Archive, Kafka],
        run: |b| bounds::large(b).boxed(),
    },
    Case {
        name: "empty_and_tombstone_payloads",
        on: &[Memory, Kafka],
        run: |b| bounds::empty(b).boxed(),
    },
    Case {
        name: "once_only_with_inbox_under_kill",
        on: &[],
        run: |_| std::future::ready(()).boxed(),
    },
    Case {
        name: "stats_balance",
        on: &[Memory, Archive, Kafka],
        run: |b| end::stats_balance(b).boxed(),
    },
    Case {
        name: "one_to_64_consumers_same_set",
        on: &[Memory, Archive, Kafka],
        run: |b| ownership::crowd(b).boxed(),
    },
];

pub(crate) fn names() -> Vec<&'static str> {
    CASES.iter().map(|case| case.name).collect()
}

/// Runs a case, or says why it does not run.
pub(crate) async fn run<B, F>(name: &str, start: impl FnOnce() -> F)
where
    B: Backend,
    F: Future<Output = Result<B, String>>,
{
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the list");
    match start().await {
        Ok(backend) if case.on.contains(&backend.kind()) => (case.run)(&backend).await,
        Ok(backend) => println!("skipped: {name} does not apply to {:?}", backend.kind()),
        Err(why) => println!("skipped: {name} ({why})"),
    }
}
