//! One suite over all backends: what a consumer of an `AlertStream` may rely on, whatever stands behind it.
//!
//! The cases are one list, in `cases`; each says on which backends it applies. A backend plugs in with a file of its
//! own that implements `backend::Backend` and calls `suite!`, which makes one test for each case.

// A failed case names itself by its panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod backend;
mod cases;
mod consumer;

/// Makes one test for each case: `suite!(tokio::test, start)`, where `start` is an async fn that gives the backend,
/// or says why there is none here.
macro_rules! suite {
    ($test:meta, $start:path) => {
        suite!(@tests $test, $start, [
            resumes_after_last_commit, checkpoint_capture, drop_is_release, reject_is_stored_then_passed,
            dead_letter_store_down_stops_commits, late_ack_after_revoke_is_ignored,
            two_consumers_share_without_overlap, dead_consumer_is_recovered, flush_means_durable,
            budget_bounds_bytes, stall_is_reported, order_within_lane, shutdown_drains,
            shutdown_deadline_releases, reopen_during_rebalance, large_message, empty_and_tombstone_payloads,
            once_only_with_inbox_under_kill, stats_balance, one_to_64_consumers_same_set
        ]);
    };
    (@tests $test:meta, $start:path, [$($case:ident),*]) => {
        $(#[$test] async fn $case() { crate::cases::run(stringify!($case), $start).await })*

        #[test]
        fn every_case_has_its_test() {
            assert_eq!([$(stringify!($case)),*].as_slice(), crate::cases::names());
        }
    };
}

mod archive;
mod kafka;
mod memory;
