//! The poll thread: everything that touches the consumer, in one loop that never waits on the pipeline.
//!
//! How it works: poll and copy what is there (at most [`BATCH`] messages or [`BATCH_BYTES`]), offer it to the intake a
//! lane at a time, look at the clock and the channel, poll again (at most [`IDLE`] when there is nothing). Whole batches
//! change hands because a lock, a wake-up and a cache line that two threads write cost more than a small message. What
//! finds no room is held in its lane, and the partitions are paused; they are resumed when half of the budget is free
//! again, because librdkafka throws its prefetch away at every pause.
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

use super::commit::Committer;
use super::context::{Context, State, pause, resume, store};
use super::error::LiveError;
use super::lanes::{LaneState, Phase};
use super::report::Counted;
use super::resets;
use super::session::Session;
use crate::record::Position;
use crate::source::intake::{Commit, Offer};

/// Messages, and bytes of them, that change hands at once.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 512 * 1024;
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

/// What became of what a lane holds.
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
        if !state.paused && !state.lanes.any_full {
            return Ok(());
        }
        let mut freed = Vec::new();
        let mut sealed = Vec::new();
        for lane in state.lanes.iter_mut() {
            if !lane.holds() {
                continue;
            }
            match offer(context, lane) {
                Offered::Full => break,
                Offered::AtEnd => sealed.push(lane.part.clone()),
                Offered::LaneFull | Offered::Taken => {}
            }
        }
        let now = Instant::now();
        for lane in state.lanes.iter_mut().filter(|lane| lane.span_full && !lane.holds()) {
            // About half of a span again: the same hysteresis as for the bytes.
            if context.intake.lane_room(&lane.lane) >= context.intake.unsettled(&lane.lane) {
                lane.span_full = false;
                lane.moved_at = now;
                if lane.phase == Phase::Reading {
                    freed.push(lane.part.clone());
                }
            }
        }
        let budget = context.intake.budget();
        let is_low = budget.available() >= self.low_water || budget.used() == 0;
        let holds = state.lanes.iter().any(|lane| lane.holds() && !lane.span_full);
        if state.paused && is_low && !holds {
            state.paused = false;
            freed = state.lanes.readable();
            state.lanes.iter_mut().for_each(|lane| lane.moved_at = now);
        }
        let (stay, any_full) = (state.paused, state.lanes.iter().any(|lane| lane.span_full));
        state.lanes.any_full = any_full;
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
            resets::reset(&self.consumer)?;
        }
        self.session.tick(&self.consumer)
    }

    fn poll_batch(&mut self) -> Result<(), LiveError> {
        let mut wait = IDLE;
        let mut bytes = 0;
        let mut now = None;
        for _ in 0..BATCH {
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    bytes += self.copy(&message, *now.get_or_insert_with(Instant::now));
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
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        if now.is_some() { self.hand_over() } else { Ok(()) }
    }

    /// Copies a message into its lane; gives the bytes that it keeps there.
    fn copy(&self, message: &BorrowedMessage<'_>, now: Instant) -> usize {
        let context = self.consumer.context();
        let mut state = context.state.lock();
        let State { lanes, ends, .. } = &mut *state;
        let Some(lane) = lanes.find_fresh(message.topic(), message.partition()) else {
            return 0;
        };
        let offset = message.offset();
        if lane.end.is_none() && ends.is_bounded() {
            let is_later = |until| message.timestamp().to_millis().is_some_and(|at| at >= until);
            if ends.future_millis().is_some_and(is_later) {
                lane.end = Some(offset);
                ends.end_at(&lane.part, offset);
            }
        }
        if offset < lane.next || lane.phase != Phase::Reading {
            return 0; // delivered already in this epoch, or beyond its end
        }
        if let Some(end) = lane.end.filter(|end| offset >= *end) {
            lane.next = end;
            return 0;
        }
        lane.next = offset + 1;
        lane.moved_at = now;
        lane.stall_told = false;
        let bytes = message.payload_len();
        if bytes == 0 {
            context.report.count(Counted::Tombstone);
        }
        if bytes > context.intake.budget().bytes_max() {
            context.report.count(Counted::Oversized);
        }
        lane.run.push(message, &lane.part.topic, &context.payloads)
    }

    /// Offers what was copied, and tells the stream. When the budget is full everything is paused, and offered again
    /// later; a lane that is full or at its end is paused alone.
    fn hand_over(&self) -> Result<(), LiveError> {
        let context = self.consumer.context();
        let mut state = context.state.lock();
        let mut resting = Vec::new();
        let mut is_full = false;
        let mut any_full = false;
        while let Some(lane) = state.lanes.next_fresh() {
            // What a lane with a full span or a full budget holds is offered again when there is room.
            match if lane.span_full || is_full {
                Offered::Taken
            } else {
                offer(context, lane)
            } {
                Offered::Taken => {}
                Offered::AtEnd => resting.push(lane.part.clone()),
                Offered::LaneFull => {
                    any_full = true;
                    resting.push(lane.part.clone());
                }
                Offered::Full => is_full = true,
            }
        }
        state.lanes.any_full |= any_full;
        if is_full {
            state.paused = true;
            resting = state.lanes.iter().map(|lane| lane.part.clone()).collect();
            context.report.count(Counted::Pause);
        }
        drop(state);
        context.intake.announce();
        pause(&self.consumer, &resting)
    }
}

/// Offers what a lane holds to the intake.
fn offer(context: &Context, lane: &mut LaneState) -> Offered {
    lane.run.drain_into(&mut lane.held, &context.payloads);
    if lane.held.is_empty() {
        return seal_at_end(context, lane);
    }
    match context.intake.offer(lane.epoch, &mut lane.held) {
        Offer::Taken => seal_at_end(context, lane),
        Offer::Full => Offered::Full,
        Offer::LaneFull => {
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
    // A control record at the end is passed over, so that the end itself is committed: other members wait for that.
    if let Some(seq) = lane.end.and_then(|end| u64::try_from(end - 1).ok()) {
        let lane = lane.lane.clone();
        context.intake.pass(&Position { lane, seq });
    }
    context.intake.seal(&lane.lane);
    Offered::AtEnd
}
