//! The poll thread: everything that touches the consumer, in one loop that never waits on the pipeline.
//!
//! How it works: poll what is there (at most [`BATCH`] messages), offer each to the intake, look at the clock and the
//! channel, poll again (at most [`IDLE`] when there is nothing). What finds no room is held, one message a lane, and
//! the partitions are paused; they are resumed when half of the budget is free again, because librdkafka throws its
//! prefetch away at every pause.
//!
//! Invariants: the loop polls at least every 20 ms but for the questions that an assignment or a reset asks, each
//! bounded; nothing is delivered twice in an epoch; a message without a payload is delivered empty, and counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::ask::Part;
use super::commit::Committer;
use super::context::{Context, State, pause, resume, store};
use super::error::LiveError;
use super::lanes::{Held, LaneState, Phase};
use super::message;
use super::report::Counted;
use super::session::Session;
use crate::source::intake::{Commit, Offer};

/// Messages taken before the loop looks up.
const BATCH: usize = 256;
/// After so many messages, or so many bytes, the stream is told of them: a wake-up costs more than a small message.
const TOLD_AT_ONCE: usize = 64;
const TOLD_BYTES: usize = 256 * 1024;
/// How long an empty poll waits.
const IDLE: Duration = Duration::from_millis(10);

/// What the source says to the loop.
#[derive(Debug)]
pub(crate) enum Command {
    /// These may be committed: their dead letters are stored.
    Commit(Vec<Commit>),
    /// Nothing is left to commit: close.
    Finish,
}

/// Why the loop ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// A bounded read is over, everything of it committed.
    Over,
    /// The stream closed.
    Closed,
}

/// The loop.
pub(crate) struct Poller {
    pub(crate) consumer: Arc<BaseConsumer<Context>>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) committer: Committer,
    pub(crate) session: Session,
    pub(crate) low_water: usize,
    /// The last commit failed, and none has covered it since.
    pub(crate) commit_failed: bool,
}

/// What became of an offered message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offered {
    Taken,
    Full,
    LaneFull,
    AtEnd,
}

impl Poller {
    /// Runs until the read is over, the stream closes or something fatal happens.
    pub(crate) fn run(&mut self) -> Result<Ended, LiveError> {
        loop {
            if let Some(ended) = self.obey() {
                return Ok(ended);
            }
            self.confirm();
            self.relieve()?;
            if self.context().troubled.swap(false, Ordering::AcqRel) || self.session.is_tick_due() {
                self.look_up()?;
            }
            if self.session.is_over() {
                return Ok(Ended::Over);
            }
            self.poll_batch()?;
        }
    }

    pub(crate) fn context(&self) -> &Context {
        self.consumer.context()
    }

    /// Does what the source said.
    fn obey(&mut self) -> Option<Ended> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Commit(commits)) => {
                    store(
                        &self.consumer,
                        &mut self.consumer.context().state.lock().lanes,
                        &commits,
                    );
                    self.committer.push(commits);
                }
                Ok(Command::Finish) | Err(TryRecvError::Disconnected) => return Some(Ended::Closed),
                Err(TryRecvError::Empty) => return None,
            }
        }
    }

    /// Tells the intake what the coordinator confirmed, of the epochs that still are.
    pub(crate) fn confirm(&mut self) {
        let Some((mut commits, done)) = self.committer.answer() else {
            return;
        };
        let context = self.consumer.context();
        self.commit_failed = done.is_err();
        if let Err(error) = done {
            context.report.count(Counted::FailedCommit);
            tracing::warn!(%error, "a commit failed; a later one covers it");
            return;
        }
        context.report.count(Counted::Commit);
        let mut state = context.state.lock();
        commits.retain(|commit| match state.lanes.in_epoch(&commit.lane, commit.epoch) {
            // Not stored (lost meanwhile), so not covered.
            Some(lane) if u64::try_from(lane.stored).is_ok_and(|stored| stored >= commit.upto) => {
                lane.confirmed = lane.stored.min(i64::try_from(commit.upto).unwrap_or(i64::MAX));
                if commit.finished {
                    lane.phase = Phase::Finished;
                }
                true
            }
            _ => false,
        });
        drop(state);
        context.intake.committed(&commits);
    }

    /// Offers what is held again, and resumes what was paused when there is room.
    fn relieve(&mut self) -> Result<(), LiveError> {
        let context = self.consumer.context();
        let mut state = context.state.lock();
        if !state.paused && !state.lanes.iter().any(|lane| lane.span_full) {
            return Ok(());
        }
        let mut freed = Vec::new();
        let mut sealed = Vec::new();
        for lane in state.lanes.iter_mut() {
            let Some(held) = lane.held.take() else { continue };
            match offer_copied(context, lane, held) {
                Offered::Full => break,
                Offered::AtEnd => sealed.push(lane.part.clone()),
                Offered::LaneFull | Offered::Taken => {}
            }
        }
        for lane in state
            .lanes
            .iter_mut()
            .filter(|lane| lane.span_full && lane.held.is_none())
        {
            // About half of a span again: the same hysteresis as for the bytes.
            if context.intake.lane_room(&lane.lane) >= context.intake.unsettled(&lane.lane) {
                lane.span_full = false;
                freed.push(lane.part.clone());
            }
        }
        let budget = context.intake.budget();
        let is_low = budget.available() >= self.low_water || budget.used() == 0;
        let holds = state.lanes.iter().any(|lane| lane.held.is_some() && !lane.span_full);
        if state.paused && is_low && !holds {
            state.paused = false;
            freed = state.lanes.readable();
            let now = Instant::now();
            state.lanes.iter_mut().for_each(|lane| lane.moved_at = now);
        }
        let stay = state.paused;
        drop(state);
        context.intake.announce();
        pause(&self.consumer, &sealed)?;
        if stay { Ok(()) } else { resume(&self.consumer, &freed) }
    }

    /// Looks at the errors and does what is due by the clock.
    fn look_up(&mut self) -> Result<(), LiveError> {
        let (fatal, reset) = {
            let mut troubles = self.context().troubles.lock();
            (troubles.fatal(Instant::now()), troubles.take_reset())
        };
        let failed = self.context().state.lock().failure.take();
        if let Some(error) = fatal.or(failed) {
            return Err(error);
        }
        if reset {
            self.session.reset(&self.consumer)?;
        }
        self.session.tick(&self.consumer)
    }

    fn poll_batch(&mut self) -> Result<(), LiveError> {
        let mut wait = IDLE;
        let (mut messages, mut bytes) = (0, 0);
        let mut polled = Ok(());
        let mut now = None;
        for _ in 0..BATCH {
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    polled = self.take(&message, *now.get_or_insert_with(Instant::now));
                    (messages, bytes) = (messages + 1, bytes + message.payload_len());
                }
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    let cause = self
                        .consumer
                        .client()
                        .fatal_error()
                        .map_or(code.to_string(), |(_, text)| text);
                    self.context().troubles.lock().broken(cause);
                    self.context().troubled.store(true, Ordering::Release);
                    break;
                }
                // The context's `error` was told the same event, with its reason.
                Some(Err(_)) => {}
            }
            wait = Duration::ZERO;
            if polled.is_err() || messages >= TOLD_AT_ONCE || bytes >= TOLD_BYTES {
                (messages, bytes) = (0, 0);
                self.context().intake.announce();
            }
            if polled.is_err() {
                break;
            }
        }
        if messages > 0 {
            self.context().intake.announce();
        }
        polled
    }

    fn take(&self, message: &BorrowedMessage<'_>, now: Instant) -> Result<(), LiveError> {
        let context = self.consumer.context();
        let mut state = context.state.lock();
        let State { lanes, ends, .. } = &mut *state;
        let Some(lane) = lanes.find(message.topic(), message.partition()) else {
            return Ok(());
        };
        if lane.end.is_none() && ends.is_bounded() {
            let is_later = |until| message.timestamp().to_millis().is_some_and(|at| at >= until);
            if ends.future_millis().is_some_and(is_later) {
                lane.end = Some(message.offset());
                ends.end_at(&lane.part, message.offset());
            }
        }
        match offer(context, lane, message, now) {
            Offered::Taken => Ok(()),
            Offered::AtEnd | Offered::LaneFull => {
                let part = lane.part.clone();
                drop(state);
                pause(&self.consumer, &[part])
            }
            Offered::Full => {
                state.paused = true;
                let parts: Vec<Part> = state.lanes.iter().map(|lane| lane.part.clone()).collect();
                drop(state);
                context.report.count(Counted::Pause);
                pause(&self.consumer, &parts)
            }
        }
    }
}

/// Offers a message to the intake, in its lane.
fn offer(context: &Context, lane: &mut LaneState, message: &BorrowedMessage<'_>, now: Instant) -> Offered {
    let offset = message.offset();
    if offset < lane.next || lane.phase != Phase::Reading || lane.held.is_some() {
        return Offered::Taken; // delivered already in this epoch, or beyond its end
    }
    if lane.end.is_some_and(|end| offset >= end) {
        lane.next = lane.end.unwrap_or(lane.next);
        return seal_at_end(context, lane);
    }
    lane.next = offset + 1;
    lane.moved_at = now;
    lane.stall_told = false;
    let payload = message.payload().unwrap_or_default();
    if payload.is_empty() {
        context.report.count(Counted::Tombstone);
    }
    if payload.len() > context.intake.budget().bytes_max() {
        context.report.count(Counted::Oversized);
    }
    let raw = message::raw(message, &lane.part.topic, context.payloads.copy(payload));
    offer_copied(context, lane, Held { offset, raw })
}

/// Offers a copied message; one that finds no room is held.
fn offer_copied(context: &Context, lane: &mut LaneState, Held { offset, raw }: Held) -> Offered {
    match context.intake.offer(lane.epoch, lane.at(offset), raw) {
        Offer::Taken => seal_at_end(context, lane),
        Offer::Full(raw) => {
            lane.held = Some(Held { offset, raw });
            Offered::Full
        }
        Offer::LaneFull(raw) => {
            lane.held = Some(Held { offset, raw });
            lane.span_full = true;
            Offered::LaneFull
        }
        Offer::Gone => Offered::Taken, // it is delivered again, by whoever comes next
    }
}

/// Seals the lane when nothing more is to come.
pub(crate) fn seal_at_end(context: &Context, lane: &mut LaneState) -> Offered {
    if lane.phase != Phase::Reading || !lane.is_at_end() {
        return Offered::Taken;
    }
    lane.phase = Phase::Sealed;
    context.intake.seal(&lane.lane);
    Offered::AtEnd
}
