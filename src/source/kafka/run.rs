//! The life of the poll thread: connect, join, loop, leave.
//!
//! Invariant: the consumer is dropped on this thread, after everything that refers to it. Must not know of messages.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use chrono::Days;
use parking_lot::Mutex;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::ask::{self, Part};
use super::commit::Committer;
use super::context::{Context, State};
use super::ends::Ends;
use super::error::LiveError;
use super::heard::SERVE;
use super::lanes::Lanes;
use super::look::Looker;
use super::nights::{NIGHTS_MAX, Window};
use super::place::{End, Start};
use super::poll::{Command, Poller};
use super::rest::Rest;
use super::session::Session;
use super::starts::{self, Commits, StartPlan};
use super::troubles::Troubles;
use super::{Closed, KafkaSource, Rewinds};
use crate::payloads::Payloads;
use crate::source::intake::Intake;

/// How long leaving the group may take before the consumer is closed anyway.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);
/// How long closing the client may take after that.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// How long a look at the group that is under way is waited for.
const LOOKED_WITHIN: Duration = Duration::from_secs(1);
/// Memory of settled alerts kept for the next ones, bytes.
const KEPT_BYTES: usize = 8 << 20;

/// Runs a source until its read is over, its stream closes or something fatal happens.
pub(super) fn run(source: KafkaSource, intake: Intake, runtime: Handle, commands: mpsc::Receiver<Command>) -> Closed {
    let name = source.id.as_str().to_owned();
    let made = make(&source, intake, runtime).and_then(|(consumer, session)| {
        let consumer = Arc::new(consumer);
        Ok((consumer.clone(), session, Committer::start(consumer, &name)?))
    });
    let (consumer, session, committer) = match made {
        Ok(made) => made,
        Err(error) => {
            return Closed {
                ended: Err(error),
                unconfirmed: false,
            };
        }
    };
    let low_water = consumer.context().intake.budget().bytes_max() / 2;
    let mut poller = Poller {
        consumer,
        commands,
        committer,
        session,
        low_water,
        commit_failed: false,
    };
    let begun = connect(&poller.consumer, &source, &poller.session)
        .and_then(|()| rewind(&poller.consumer, &source, &poller.session))
        .and_then(|()| poller.session.begin(&poller.consumer))
        .map_err(|error| error.of(&source.group, source.clients.user()));
    let ended = begun.and_then(|()| poller.run());
    let unconfirmed = close(poller);
    Closed { ended, unconfirmed }
}

fn make(source: &KafkaSource, intake: Intake, runtime: Handle) -> Result<(BaseConsumer<Context>, Session), LiveError> {
    let patterns = source.config.patterns();
    let config = source.clients.consumer(&source.group, intake.budget().bytes_max());
    let session_millis = source.clients.number("session.timeout.ms", 45_000);
    let state = State {
        lanes: Lanes::default(),
        plan: plan(source),
        ends: Ends::new(source.config.end.clone(), source.nights, patterns.clone()),
        assignments: 0,
        paused: false,
        closing: false,
        lost_unconfirmed: false,
        failure: None,
    };
    let context = Context {
        intake,
        runtime,
        report: source.report.clone(),
        caught_up: source.caught_up.clone(),
        payloads: Payloads::keeping(KEPT_BYTES),
        state: Mutex::new(state),
        troubles: Mutex::new(Troubles::new(&source.group, source.clients.user())),
        troubled: AtomicBool::new(false),
        drain_within: source
            .timing
            .drain_within
            .min(Duration::from_millis(session_millis / 2)),
    };
    let consumer: BaseConsumer<Context> = config
        .create_with_context(context)
        .map_err(|error| LiveError::call("make the consumer", &error))?;
    let timing = &source.timing;
    let looker = Looker::new(source.clients.consumer(&source.group, 0), source.id.as_str());
    let session = Session::new(
        patterns,
        window(source),
        source.clock.clone(),
        timing.refresh_every,
        timing.stall_after,
        Rest::new(looker, Duration::from_millis(session_millis)),
    );
    Ok((consumer, session))
}

fn plan(source: &KafkaSource) -> StartPlan {
    StartPlan {
        start: source.config.start.clone(),
        on_reset: source.config.on_reset,
        nights: source.nights,
        patterns: source.config.patterns(),
        known: None,
        rewound: HashSet::new(),
    }
}

/// The nights that are read: the configured number, or from the night that the start names to the one that the end does.
fn window(source: &KafkaSource) -> Window {
    let nights = source.config.nights;
    let start = match &source.config.start {
        Start::Night(night) => Some(*night),
        start => start.time(source.nights).map(|time| source.nights.night_of(time)),
    };
    let last = match &source.config.end {
        End::Night(night) => Some(*night),
        _ => None,
    };
    let back = Days::new(u64::from(nights.min(NIGHTS_MAX)));
    Window {
        nights,
        starts_at: source.nights,
        first: start.or(last.map(|last| last - back)),
        last,
    }
}

/// Waits for a broker's first answer, so that a wrong address is an error and not silence.
fn connect(consumer: &BaseConsumer<Context>, source: &KafkaSource, session: &Session) -> Result<(), LiveError> {
    let topics = session.literal_topics();
    let begun = Instant::now();
    loop {
        let answer = consumer.fetch_metadata(topics.first().map(String::as_str), Duration::from_secs(1));
        let Err(error) = answer else { return Ok(()) };
        // Serves the error events: refused credentials are among them.
        while consumer.poll(SERVE).is_some() {}
        let mut troubles = consumer.context().troubles.lock();
        if let Some(fatal) = troubles.fatal(Instant::now()) {
            return Err(fatal);
        }
        let waited = begun.elapsed();
        if waited >= source.timing.connect_within || consumer.context().intake.is_closing() {
            return Err(troubles.unreachable(&source.clients, waited, &error));
        }
    }
}

/// Sets the group to the configured start, when that was asked for and nobody is in it.
fn rewind(consumer: &BaseConsumer<Context>, source: &KafkaSource, session: &Session) -> Result<(), LiveError> {
    if source.rewinds == Rewinds::No {
        return Ok(());
    }
    let members = ask::members(consumer, &source.group)?;
    if members > 0 {
        let group = source.group.clone();
        return Err(LiveError::GroupInUse { group, members });
    }
    let parts = ask::partitions(consumer, &session.literal_topics())?;
    let placed = starts::place(consumer, &parts, &plan(source), Commits::Ignored)?;
    let offsets: Vec<(Part, i64)> = placed.into_iter().map(|placed| (placed.part, placed.offset)).collect();
    if let Err(error) = ask::commit_for(consumer, &offsets) {
        // The mock cluster refuses this for ever once the group had members. Not committed, the start is remembered.
        tracing::debug!(%error, "the start cannot be committed; it counts for each partition's first assignment");
        consumer.context().state.lock().plan.rewound = parts.into_iter().collect();
    }
    Ok(())
}

/// Waits for the running commits, leaves the group and drops the consumer; says whether a commit was left unconfirmed.
fn close(mut poller: Poller) -> bool {
    let within = poller.context().intake.commit_within();
    let until = Instant::now() + within;
    while !poller.committer.is_idle() && Instant::now() < until {
        poller.confirm();
        let _ = poller.consumer.poll(Duration::from_millis(5));
    }
    let unconfirmed =
        !poller.committer.is_idle() || poller.commit_failed || poller.context().state.lock().lost_unconfirmed;
    let Poller {
        consumer,
        committer,
        session,
        ..
    } = poller;
    session.rest.stop(LOOKED_WITHIN);
    // The client may never come back from leaving: that is waited for, not gone through, on this thread. Everything that
    // could be confirmed is.
    let (done, left) = std::sync::mpsc::channel();
    let leaving = std::thread::Builder::new().name("kafka-leave".into());
    let started = leaving.spawn(move || {
        leave(consumer, committer);
        // Nobody listens when it took too long.
        let _ = done.send(());
    });
    if started.is_err() || left.recv_timeout(LEAVE_WITHIN + CLOSE_WITHIN).is_err() {
        tracing::warn!("the client did not close in time; its threads end with the process");
    }
    unconfirmed
}

/// Gives the partitions back, leaves the group and closes the client.
///
/// librdkafka 2.12 loses the answer to a call from its rebalance callback when the group ends at that moment (an
/// operation that is queued while `rd_kafka_cgrp_terminated` runs is dropped without a reply), and the call waits for
/// ever.
fn leave(consumer: Arc<BaseConsumer<Context>>, committer: Committer) {
    consumer.context().state.lock().closing = true;
    consumer.unsubscribe();
    let until = Instant::now() + LEAVE_WITHIN;
    while !consumer.context().state.lock().lanes.is_empty() && Instant::now() < until {
        let _ = consumer.poll(Duration::from_millis(10));
    }
    if committer.stop(Duration::from_secs(1)) {
        drop(consumer);
    } else {
        // The commit thread holds the consumer inside a call that does not return: neither may be waited for.
        std::mem::forget(consumer);
    }
}
