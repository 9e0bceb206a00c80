//! The archive against a real Postgres: what goes in comes out byte for byte, however writers and readers die.

#[path = "../common/mod.rs"]
mod common;

mod ingest;
mod filled;
mod groups;

mod migrations;
