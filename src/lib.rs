//! alertstream: a live Kafka topic and a Postgres archive of astronomical alerts behind one consumer API.
//!
//! ```text
//!  bytes →   Source (kafka | archive | files | memory) ─Intake→ AlertStream ─→ decode ─→ FairQueue<SourceId> ─→ AlertProcessor(Handler)
//!  settle ←  AckTracker ←──────────────── AckToken (inside Delivery) ←─────────────────────────────────────────────────┘
//!  commit ←  Source (batched, fenced), after the dead letters are stored
//! ```

pub mod ack;
pub mod archive;
#[doc(hidden)]
pub mod cli;
pub mod config;
pub mod dead_letter;
pub mod decode;
pub mod delivery;
pub mod error;
pub mod filter;
pub mod header;
pub mod inbox;
pub mod pipeline;
pub mod processor;
pub mod query;
pub mod queue;
pub mod record;
pub mod secret;
pub mod simulate;
pub mod sink;
pub mod sky;
pub mod source;
pub mod stream;
pub mod surveys;
pub mod telemetry;
pub mod tracker;
pub mod units;
