//! Queries in Postgres against the brute force in memory, and the plans they get.
//!
//! What each flag must select is said by hand in `values`; latest per object, every n-th and the limit are done by hand in
//! `alerts`, over `Query::matches` where a query is made of other parts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../common/mod.rs"]
mod common;

mod alerts;
mod corpus;
mod plans;
mod selections;
mod values;
