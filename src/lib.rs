//! alertstream: a live Kafka topic and a Postgres archive of astronomical alerts behind one consumer API.
//!
//! One alert stream, two backends, one meaning. A processor reads a live topic or a replay of the archive through the same
//! [`AlertStream`](stream::AlertStream), settles each alert the same way, and is switched between them by configuration alone.
//!
//! ```text
//!  bytes →   Source (kafka | archive | files | memory) ─Intake→ AlertStream ─→ decode ─→ FairQueue<SourceId> ─→ AlertProcessor(Handler)
//!  settle ←  AckTracker ←──────────────── AckToken (inside Delivery) ←─────────────────────────────────────────────────┘
//!  commit ←  Source (batched, fenced), after the dead letters are stored
//! ```
//!
//! - One direction. No later stage holds a reference to an earlier one; the way back is the [token](ack::AckToken), which
//!   knows only [`Settle`](ack::Settle).
//! - [`queue`] and [`tracker`] know nothing of alerts; [`source`] knows nothing of decoding or of the queue; [`processor`]
//!   knows nothing of Kafka or Postgres.
//! - Ingesting is the same pipeline with another handler: files or Kafka in, the archive's writer as the batch handler.
//! - Settling is synchronous, infallible and local. Committing is asynchronous, batched, fenced and owned by the source.
//! - A Kafka partition is a lane without an end; a claimed archive block is a lane with an end. One pure
//!   [`AckTracker`](tracker::AckTracker) serves both.
//!
//! # Vocabulary
//!
//! **source** a named input; its name is the fair queue's key · **lane** ordered unit of progress (a topic's partition, a
//! claimed block, a file) · **seq** position in a lane, strictly increasing, gaps allowed · **epoch** one ownership of a lane ·
//! **delivery** an alert and its token · **settle** say what became of a delivery: *ack*, *release* (not done, give it again),
//! *reject* (never will be: dead letter) · **commit** make settlements durable · **group** a named consumer group; on the
//! archive it is bound to one query · **block** an ordered run of archived alerts, the unit of claiming · **claim** a block
//! under lease · **packet** the bytes of one alert with its writer schema · **consumer** one session in a group · **worker**
//! one task of the pool · **attempt** one delivery by a source · **try** one call of a handler inside a delivery · **ticket**
//! an item in progress in the queue · **intake** what a source talks to.
//!
//! # Modules, from the bottom
//!
//! A layer imports only from lower ones; `tests/tidy.rs` holds the table and checks it.
//!
//! | layer | modules |
//! | --- | --- |
//! | 0 | [`record`] what was read and where · [`header`] what routing and archiving need · [`sky`] cones and HEALPix ranges · [`query`] the query algebra · [`queue::core`] the fair rule · [`decode::framing`] |
//! | 1 | [`error`] · [`telemetry`] · [`queue`] the fair multi-FIFO queue, usable alone |
//! | 2 | [`ack`] tokens and settlements · [`surveys`] mappings of fields to the header, as data |
//! | 3 | [`tracker`] · [`delivery`] · [`dead_letter`] |
//! | 4 | [`source::intake`] admission and budgets · [`decode`] · [`archive`] Postgres · [`simulate`] |
//! | 5 | [`source`] the trait and its contract · [`filter`] CEL over a packet |
//! | 6 | [`source::kafka`] · [`source::archive`] · [`source::files`] · [`source::memory`] · [`stream`] · [`processor`] the pool · [`sink`] |
//! | 7 | [`config`] the one TOML file · [`pipeline`] wiring, staged shutdown |
//! | 8 | the command line |
//!
//! # What can be dropped half-way
//!
//! | call | dropped half-way |
//! | --- | --- |
//! | `AlertStream::next`, `Intake::reserve`, `Intake::commits` | nothing taken |
//! | `FairQueue::get` | nothing taken; a wake-up already received is passed on |
//! | `ack`, `release`, `reject`, `FairQueue::try_put` | not async |
//! | `StreamControl::flush` | only the waiting stops |
//! | `Handler::handle` | token dropped, so released |
//!
//! # Where to start
//!
//! A reader of alerts implements [`Handler`](processor::Handler) and runs it with [`Pipeline`](pipeline::Pipeline); `examples/` has runnable
//! forms. A new backend implements [`Source`](source::Source), whose module holds the contract, and is done when the
//! conformance suite passes on it. The queue and the decoder are usable without the rest.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, unreachable_pub)]

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
mod nearest;
mod payloads;
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
