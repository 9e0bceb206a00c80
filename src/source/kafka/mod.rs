//! The Kafka source: a live topic as lanes without an end.
//!
//! Owns the consumer's life: one named thread polls a `BaseConsumer` and never waits on the pipeline; a second one
//! commits, and a third looks at the rest of the group when nothing is left here; this file is the asynchronous half
//! that carries settlements from the intake to them. Invariants: offsets are committed only for the settled prefix of a
//! partition, in its present epoch, after its dead letters are stored; closing ends within its time also when
//! librdkafka does not. Must not know of decoding or of the queue.
//!
//! ```text
//!  librdkafka ─poll→ poll thread ─deliver→ Intake ─commits()→ here (dead letters) ─Command→ poll thread ─store→
//!                        ↑  rebalance, statistics, errors (context)               commit thread ─sync commit→
//! ```
#![doc = include_str!("behaviours.md")]

mod ask;
pub mod client;
mod commit;
pub mod config;
mod context;
mod delivery_message;
mod ends;
pub mod error;
pub mod gaps;
pub mod groups;
mod heard;
mod lanes;
mod look;
mod message;
pub mod nights;
mod pass_through;
pub mod place;
mod poll;
pub mod probe;
pub mod report;
mod resets;
mod rest;
mod retention;
mod run;
mod security;
mod session;
mod starts;
mod topic_ids;
pub mod topics;
mod troubles;
pub mod writer;

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::intake::Intake;
use super::{Source, SourceError};
use crate::record::SourceId;
use client::Clients;
use config::LiveConfig;
use error::LiveError;
use nights::NightStart;
use poll::{Command, Ended};
use report::LiveReport;

pub use rest::CaughtUp;
pub use session::Clock;

/// How long the threads may take to close after the last commit; librdkafka can hang when a broker is gone.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// The times that a live source goes by; the defaults are for real brokers.
#[derive(Clone, Debug)]
pub struct Timing {
    /// How long the first answer of a broker may take.
    pub connect_within: Duration,
    /// How long a revocation waits for open deliveries; at most half of the session's time-out counts.
    pub drain_within: Duration,
    /// How often the window of nightly topics is looked at.
    pub refresh_every: Duration,
    /// How long a partition may be behind without progress before that is an error in the log.
    pub stall_after: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect_within: Duration::from_secs(30),
            drain_within: Duration::from_secs(20),
            refresh_every: Duration::from_secs(10),
            stall_after: Duration::from_secs(300),
        }
    }
}

/// A live source.
pub struct KafkaSource {
    id: SourceId,
    pub(crate) group: String,
    pub(crate) config: LiveConfig,
    pub(crate) clients: Clients,
    pub(crate) nights: NightStart,
    pub(crate) clock: Clock,
    pub(crate) timing: Timing,
    pub(crate) report: LiveReport,
    pub(crate) caught_up: CaughtUp,
    pub(crate) rewinds: Rewinds,
}

/// Whether the configured start comes before the group's commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rewinds {
    No,
    ToStart,
}

impl KafkaSource {
    /// Makes a source of a group from its configuration; touches no service.
    ///
    /// # Errors
    /// The first problem that the configuration shows by itself: no group, or one of [`LiveConfig::problems`].
    pub fn new(id: SourceId, group: &str, config: LiveConfig) -> Result<Self, LiveError> {
        if group.trim().is_empty() {
            return Err(LiveError::NoGroup);
        }
        if let Some(problem) = config.problems().into_iter().next() {
            return Err(problem);
        }
        let clients = config.clients()?;
        Ok(Self {
            id,
            group: group.to_owned(),
            config,
            clients,
            nights: NightStart::default(),
            clock: Arc::new(Utc::now),
            timing: Timing::default(),
            report: LiveReport::default(),
            caught_up: CaughtUp::default(),
            rewinds: Rewinds::No,
        })
    }

    /// Sets when a night starts.
    #[must_use]
    pub fn with_nights(mut self, nights: NightStart) -> Self {
        self.nights = nights;
        self
    }

    /// Reads from the configured start whatever the group committed. Running it fails when the group has members.
    #[must_use]
    pub fn from_start(mut self) -> Self {
        self.rewinds = Rewinds::ToStart;
        self
    }

    /// Sets the clock that nights and ends go by.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the times.
    #[must_use]
    pub fn with_timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Gives the counters, which live on while the source runs.
    pub fn report(&self) -> LiveReport {
        self.report.clone()
    }

    /// Gives what says whether everything is read, which lives on while the source runs.
    pub fn caught_up(&self) -> CaughtUp {
        self.caught_up.clone()
    }

    fn failed(id: SourceId, error: LiveError) -> SourceError {
        SourceError::Backend {
            source_id: id,
            class: error.class(),
            cause: error.into(),
        }
    }
}

/// What the poll thread hands back.
pub(crate) struct Closed {
    /// How the loop ended.
    pub(crate) ended: Result<Ended, LiveError>,
    /// Something that was stored for a commit was not confirmed.
    pub(crate) unconfirmed: bool,
}

impl Source for KafkaSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn run(self: Box<Self>, intake: Intake) -> BoxFuture<'static, Result<(), SourceError>> {
        drive(*self, intake).boxed()
    }
}

/// Starts the poll thread and carries commits to it until one of the two is done.
async fn drive(source: KafkaSource, intake: Intake) -> Result<(), SourceError> {
    let id = source.id.clone();
    let (commands, obeyed) = mpsc::channel(16);
    let (done, mut closed) = oneshot::channel();
    let (runtime, threads_intake) = (tokio::runtime::Handle::current(), intake.clone());
    let thread = std::thread::Builder::new().name(format!("kafka-{id}"));
    let started = thread.spawn(move || {
        let caught_up = source.caught_up.clone();
        let closed = run::run(source, threads_intake, runtime, obeyed);
        caught_up.end();
        // The receiver is gone when the watchdog gave this thread up.
        let _ = done.send(closed);
    });
    if let Err(error) = started {
        let broken = LiveError::Broken {
            cause: format!("no thread can be started: {error}"),
        };
        return Err(KafkaSource::failed(id, broken));
    }
    loop {
        let commits = tokio::select! {
            biased;
            closed = &mut closed => return conclude(id, closed.ok()),
            commits = intake.commits() => commits,
        };
        let Some(commits) = commits else { break };
        if commits.is_empty() {
            intake.committed(&[]); // nothing but durability is asked for, and a confirmed commit is durable
            continue;
        }
        if let Err(error) = intake.store_dead_letters(&commits).await {
            tracing::error!(source = %id, %error, "dead letters cannot be stored: what they stand before is not committed");
            continue;
        }
        if commands.send(Command::Commit(commits)).await.is_err() {
            break; // the thread has ended and says why below
        }
    }
    // An error means that the thread has ended by itself.
    let _ = commands.send(Command::Finish).await;
    let closed = tokio::time::timeout(CLOSE_WITHIN + intake.commit_within(), closed).await;
    conclude(id, closed.ok().and_then(Result::ok))
}

fn conclude(id: SourceId, closed: Option<Closed>) -> Result<(), SourceError> {
    let Some(closed) = closed else {
        let cause = "the client did not close in time".into();
        return Err(SourceError::Unconfirmed { source_id: id, cause });
    };
    closed.ended.map_err(|error| KafkaSource::failed(id.clone(), error))?;
    if closed.unconfirmed {
        let cause = "the coordinator did not answer in time".into();
        return Err(SourceError::Unconfirmed { source_id: id, cause });
    }
    Ok(())
}
