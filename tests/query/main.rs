//! Queries in Postgres against the brute force in memory, and the plans they get.
//!
//! The oracle is `Query::matches` over the same alerts, with latest per object, every n-th and the limit done by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../common/mod.rs"]
mod common;

mod alerts;
mod corpus;
mod plans;
mod selections;
