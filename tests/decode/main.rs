//! The decoder against the corpus, against two independent decoders, and against bytes made to break it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, unreachable_pub)]

mod allocations;
mod corpus;
mod differential;
mod hostile;
mod mutation;
mod registry;
mod tolerance;
mod views;
mod waiting;

#[path = "../../fuzz/src/any.rs"]
mod any;
#[path = "../common/counting.rs"]
mod counting;
#[allow(dead_code, reason = "shared with the fuzz targets")]
#[path = "../../fuzz/src/generate.rs"]
mod generate;
#[path = "../../fuzz/src/hostile.rs"]
mod hostile_files;
#[allow(dead_code, reason = "shared with the tests of the command line")]
#[path = "../common/registry.rs"]
mod registry_server;
#[allow(dead_code, reason = "shared with the fuzz targets")]
#[path = "../../fuzz/src/targets.rs"]
mod targets;
