//! The command line's contract, checked with the real program: exit codes, JSON keys, what scripts meet.

#[path = "../common/mod.rs"]
mod common;
mod groups;
mod simulate;
mod support;
mod usage;
