//! The command line's contract, checked with the real program: exit codes, JSON keys, what scripts meet.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failed test is a panic

mod archive;
#[path = "../common/mod.rs"]
mod common;
mod demo;
mod doctor;
mod examples;
mod groups;
mod kcat;
mod live;
mod live_ends;
mod names;
#[allow(dead_code, unreachable_pub, reason = "shared with the decoder's tests")]
#[path = "../common/registry.rs"]
mod registry;
mod run;
mod same;
mod simulate;
mod support;
mod usage;
