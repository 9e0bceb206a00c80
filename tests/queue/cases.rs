//! The specification's acceptance cases, and what shows each of them. Case numbers 5 to 7 are not used there.
//!
//! | case | shown by |
//! | --- | --- |
//! | 1 | `an_empty_queue_times_out_at_its_time` |
//! | 2 | `sizes_follow_an_item_through_its_life` |
//! | 3 | `a_waiting_get_is_served_by_a_later_put`, loom `a_put_reaches_a_waiting_get` |
//! | 4 | `every_item_is_got_once_and_each_key_in_order` |
//! | 8 | `a_get_without_time_takes_what_is_there` |
//! | 9 | `none_and_the_empty_string_are_keys_like_any_other` |
//! | 10 | `an_item_that_is_nothing_differs_from_a_timeout` |
//! | 11 | `one_consumer_rotates_strictly` |
//! | 12 | `the_order_is_the_same_when_nothing_is_ever_done` |
//! | 13 | `late_keys_catch_up_with_what_is_in_progress` |
//! | 14 | `completion_renews_the_stamp` |
//! | 15 | `an_idle_key_keeps_its_place_while_remembered` |
//! | 16 | `a_busy_key_waits_until_the_others_are_empty` |
//! | 17 | `a_hundred_gets_are_shared_evenly` |
//! | 18 | `a_late_comer_is_served_by_the_next_get` |
//! | 19 | `many_late_comers_are_served_in_the_order_of_their_puts` |
//! | 20 | `a_key_alone_takes_every_worker` |
//! | 21 | `golden_trace_a`, `golden_trace_b`, `golden_trace_c`, `traces_with_any_parameters_are_those_of_the_model` |
//! | 22 | `the_queue_does_what_the_rule_says`, `the_queue_does_what_the_rule_says_with_limits_weights_pauses_and_returns` |
//! | 23 | `the_queue_does_what_the_rule_says` |
//! | 24 | `a_key_with_nothing_in_progress_is_served_within_as_many_gets_as_there_are_such_keys` |
//! | 25 | `an_exclusive_item_is_alone_in_progress` |
//! | 26 | `exclusive_items_of_one_key_follow_each_other`, loom `an_exclusive_item_hands_its_key_over` |
//! | 27 | `nothing_overtakes_an_exclusive_item` |
//! | 28 | `a_deferred_exclusive_item_waits_for_its_key` |
//! | 29 | `a_blocked_getter_blocks_nobody_and_takes_another_keys_item_at_once`, in real time the bench's `blocked_getter` |
//! | 30 | `an_exclusive_item_delays_its_own_key_only` |
//! | 31 | `a_blocked_getter_returns_the_moment_the_key_is_free` |
//! | 32 | `clearing_a_key_keeps_the_lock_of_its_exclusive_item` |
//! | 33 | `an_exclusive_item_that_goes_back_stays_exclusive` |
//! | 34 | `where_a_timeout_and_a_due_time_coincide_the_item_wins` |
//! | 35 | `a_timeout_before_the_due_time_leaves_the_deferral` |
//! | 36 | `a_due_item_goes_to_the_tail_of_its_key_at_its_time` |
//! | 37 | `a_deferral_wakes_a_getter_that_waits_already` |
//! | 38 | `a_nearer_deferral_shortens_a_waiting_get` |
//! | 39 | `deferrals_due_together_serve_as_many_getters`, `nobody_waits_for_a_timeout_while_items_are_due` |
//! | 40 | `deferrals_due_together_come_in_the_order_of_their_puts` |
//! | 41 | `a_thousand_deferrals_due_at_once_are_got_at_once` |
//! | 42 | `a_deferral_of_nothing_is_an_immediate_put` |
//! | 43 | `a_due_item_counts_as_queued_before_anyone_touches_it` |
//! | 44 | `join_drops_deferrals_and_says_how_many` |
//! | 45 | `join_refuses_deferrals_and_waits_for_what_is_put_meanwhile` |
//! | 46 | `join_refuses_deferrals_and_waits_for_what_is_put_meanwhile` |
//! | 47 | `clearing_lets_a_join_end_but_not_before_what_is_in_progress` |
//! | 48 | `clearing_lets_a_join_end_but_not_before_what_is_in_progress` |
//! | 49 | `two_joins_end_only_when_all_is_done`, `two_joins_that_began_apart_end_together` |
//! | 50 | `clearing_an_unknown_key_does_nothing` |
//! | 51 | `a_closed_key_refuses_puts_until_it_is_reopened` |
//! | 52 | `clearing_takes_what_waits_of_one_key_only` |
//! | 53 | `clearing_takes_what_waits_of_one_key_only` |
//! | 54 | `clearing_takes_deferrals_too` |
//! | 55 | `gauges_equal_the_sizes_also_after_a_clear_and_carry_the_label` |
//! | 56 | `after_a_key_is_closed_nothing_of_it_is_served`, loom `closing_a_key_against_a_put` |
//! | 57 | `gauges_equal_the_sizes_also_after_a_clear_and_carry_the_label` |
//! | 58 | `however_a_holder_ends_its_item_is_completed`, loom `dropping_the_last_ticket_ends_a_join`, `a_ticket_drop_and_a_deferral_against_a_drain` |
//! | 59 | `ten_thousand_cancelled_gets_lose_nothing` |
//! | 60 | `a_getter_cancelled_after_it_was_woken_passes_its_wake_up_on`, loom `a_cancelled_getter_passes_its_wake_up_on` |
//! | 61 | `a_full_key_waits_for_a_get_and_stops_no_other_key`, `completing_frees_no_room_a_get_does` |
//! | 62 | `a_reserve_keeps_a_flood_from_shutting_others_out` |
//! | 63 | `the_oldest_items_make_room`, `a_cancelled_put_leaves_nothing_and_waiting_puts_keep_their_order` |
//! | 64 | `an_item_goes_back_into_a_full_queue` |
//! | 65 | `a_limit_bounds_what_is_in_progress`, `with_limit_one_items_are_completed_in_the_order_of_their_puts` |
//! | 66 | `weights_share_one_consumer`, `weights_share_what_is_in_progress`, `weights_share_several_consumers`, `shares_are_as_the_weights`, `settings_that_bound_nothing_change_no_trace` |
//! | 67 | `a_batch_follows_the_rule_and_is_never_waited_for`, `a_batch_of_one_key_takes_the_key_that_is_next`, `a_batch_respects_limits_and_exclusive_items`, `a_cancelled_batch_takes_nothing`, `ten_thousand_cancelled_gets_lose_nothing` |
//! | 68 | `a_closed_queue_serves_what_it_holds_and_ends_all_getters_at_once`, `closing_wakes_every_waiting_getter`, loom `closing_ends_waiting_gets` |
//! | 69 | `a_drain_with_a_stuck_ticket_ends_at_its_deadline` |
//! | 70 | `counts_balance_at_every_sample`, `the_totals_always_balance` |
//! | 71 | `idle_keys_are_forgotten_and_return_as_new_ones`, `grace_and_number_of_idle_keys_are_options`, `memory_of_used_keys_comes_back`, `memory_of_many_keys_at_once_comes_back` |
//! | 72 | `ages_waits_and_the_fold_into_other` |
//! | 73 | `tickets_and_getters_outlive_the_last_handle` |
//! | 74 | `a_paused_key_is_not_served_and_comes_back_at_its_place`, `resuming_wakes_a_getter` |
//! | 75 | `the_handle_is_shared_between_threads_and_its_futures_move`, and the lint `await_holding_lock` of `Cargo.toml` |
//! | 76 | the bench's `single_thread` |
//! | 77 | the bench's `one_active_key` |
//! | 78 | the bench's `far_deferrals` |
//! | 79 | the bench's `newest_first` |
//! | 80 | the bench's `threads` |
//! | 81 | `a_queued_item_costs_at_most_64_bytes_beside_itself`, the bench's `memory` |
//!
//! Loom cases are run by `cargo test --features loom --test loom_queue`, the bench by `cargo bench --bench queue`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const IN_CARGO_TOML: [&str; 2] = ["await_holding_lock", "Cargo.toml"];

/// The table's rows: the case, and the names in back-ticks.
fn rows() -> Vec<(u32, Vec<&'static str>)> {
    let table = include_str!("cases.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! | "));
    let row = |line: &'static str| {
        let (case, shown_by) = line.split_once(" | ")?;
        let names = shown_by
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| !IN_CARGO_TOML.contains(name));
        Some((case.parse().ok()?, names.collect()))
    };
    table.filter_map(row).collect()
}

#[test]
fn every_case_is_shown_by_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    for file in [
        "tests/loom_queue.rs",
        "benches/queue/main.rs",
        "benches/queue/threads.rs",
        "src/queue/core/tests.rs",
    ] {
        text += &fs::read_to_string(root.join(file)).unwrap();
    }
    for file in fs::read_dir(root.join("tests/queue")).unwrap() {
        text += &fs::read_to_string(file.unwrap().path()).unwrap();
    }
    let rows = rows();
    let cases: BTreeSet<u32> = rows.iter().map(|row| row.0).collect();
    assert_eq!(cases, (1..=4).chain(8..=81).collect());
    for (case, names) in rows {
        assert!(!names.is_empty(), "case {case}");
        for name in names {
            assert!(
                text.contains(&format!("fn {name}(")),
                "case {case}: `{name}` is nowhere"
            );
        }
    }
}
