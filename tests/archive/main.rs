//! The archive against a real Postgres: what goes in comes out byte for byte, however writers and readers die.

// A failed case names itself by its panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../common/mod.rs"]
mod common;

mod corpus;
mod crash;
mod dead_letters;
mod export;
mod filled;
mod groups;
mod ingest;
mod killed;
mod migrations;
mod newer;
mod pipeline;
mod plans;
mod source;
mod worker;
