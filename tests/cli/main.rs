//! The command line's contract, checked with the real program: exit codes, JSON keys, what scripts meet.

mod archive;
#[path = "../common/mod.rs"]
mod common;
mod demo;
mod examples;
mod groups;
mod run;
mod simulate;
mod support;
mod usage;
