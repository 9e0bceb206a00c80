//! The intake: all that a source talks to. Admission, budgets, settlements, due commits.
//!
//! Invariants: nothing is handed out that no permit covers; a released alert keeps its bytes and comes again in its
//! epoch; a settlement of a former epoch changes nothing; a rejected alert keeps its bytes until the commit that
//! passes it is confirmed. Must not know of decoding, of the queue, or which backend it serves.
//!
//! How it works: [`state`] holds the account under one short lock and knows no waiting; [`core`] puts the waiting
//! around it. A waiter always registers for the wake-up first and looks second, so that a change between the two is
//! not missed. This file is the part that sources see.

mod budget;
mod config;
mod core;
mod dead_letters;
mod ends;
mod lanes;
mod signal;
mod state;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::ack::Rejection;
use crate::dead_letter::{DeadLetter, DeadLetterStore};
use crate::record::{Epoch, Lane, Position, RawAlert, SourceId};

use budget::Charge;
pub use budget::{ByteBudget, DeliveryQuota, LEAST_CHARGE};
pub use config::{Lag, StreamConfig, StreamStats};
pub(crate) use core::Core;
pub(crate) use ends::{Flushed, Wait};
pub(crate) use state::Drain;

/// What settled and may be made durable, of one lane. It tells the whole state, not a difference: a later commit of
/// the same epoch covers every earlier one, so one that was never confirmed needs no repeating.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The lane.
    pub lane: Lane,
    /// The ownership it belongs to.
    pub epoch: Epoch,
    /// Everything delivered below this seq is settled.
    pub upto: u64,
    /// Settled delivered seqs at or above `upto`, as sorted disjoint ranges.
    pub settled_beyond: Vec<Range<u64>>,
    /// The lane was sealed and everything in it is settled.
    pub finished: bool,
    /// What was rejected since the last confirmed commit of this lane; to be stored before this commit.
    pub rejected: Vec<DeadLetter>,
    /// It must be on disk when it is confirmed: a flush waits for it, it is among the last, or it has dead letters.
    pub sync: bool,
    /// The state of the lane that it tells; for the intake.
    pub(crate) version: u64,
    /// The number of the epoch's rejections that it covers; for the intake.
    pub(crate) rejected_upto: u64,
}

/// The right to deliver one alert of at most the reserved bytes. Dropping it gives the bytes back.
#[must_use = "dropping a permit gives its bytes back"]
#[derive(Debug)]
pub struct Permit {
    charge: Charge,
    epoch: Epoch,
}

/// What [`Intake::try_reserve`] answers.
#[derive(Debug)]
pub enum Reserve {
    /// Go on.
    Granted(Permit),
    /// The byte budget is used up: stop reading, keep polling.
    Full,
    /// The lane's span is used up: stop reading this lane, keep polling.
    LaneFull,
    /// The lane is not open, or it is being revoked: forget it.
    LaneGone,
    /// The stream is closing: deliver nothing more.
    Closing,
}

/// What became of the alerts that were offered by [`Intake::offer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// All are admitted.
    Taken,
    /// The byte budget is used up: stop reading, keep polling, offer the rest again.
    Full,
    /// The lane's span is used up: stop reading this lane, keep polling, offer the rest again.
    LaneFull,
    /// The epoch has ended or the lane is being revoked, or the stream is closing: the rest was dropped.
    Gone,
}

/// A source's end of the stream. Cheap to clone; synchronous but for the waits.
#[derive(Clone)]
pub struct Intake {
    core: Arc<Core>,
}

impl Intake {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Gives the source's name.
    pub fn source(&self) -> &SourceId {
        self.core.source()
    }

    /// Opens a lane under a new epoch; a former epoch of it ends as by [`lose`](Self::lose).
    pub fn open(&self, lane: Lane) -> Epoch {
        self.open_at(lane, 0)
    }

    /// Opens a lane whose next seq is at least `from`: what [`Commit::upto`] says while nothing was delivered.
    pub fn open_at(&self, lane: Lane, from: u64) -> Epoch {
        self.core.open(lane, from)
    }

    /// Takes a permit for an alert of `bytes` without waiting.
    ///
    /// With a budget that streams share, a source that only ever tries can be overtaken by sources that wait in line.
    pub fn try_reserve(&self, lane: &Lane, bytes: usize) -> Reserve {
        self.core.try_reserve(lane, bytes)
    }

    /// Waits for a permit; `None` when the stream is closing or the lane ended. An alert above the whole budget is
    /// admitted alone.
    ///
    /// # Cancel safety
    /// Nothing was taken; the place in line is lost.
    pub async fn reserve(&self, lane: &Lane, bytes: usize) -> Option<Permit> {
        self.core.reserve(lane, bytes).await
    }

    /// Delivers an alert at `at`, in the epoch that the permit was taken in; when that has ended, the alert is dropped.
    ///
    /// A seq that is not above the lane's last one is a fault of the source and ends the stream with an error.
    pub fn deliver(&self, permit: Permit, at: Position, raw: RawAlert) {
        self.core.deliver(permit, at, raw, None);
    }

    /// Delivers a run of alerts of one epoch, each with its seq, in one step and without waiting: for a source that has
    /// copied them already. What is admitted leaves `alerts`, from the front. The stream is not told before
    /// [`announce`](Self::announce), so that a source which reads many at a time wakes it once.
    ///
    /// A seq that is not above the lane's last one is a fault of the source and ends the stream with an error.
    pub fn offer(&self, epoch: Epoch, alerts: &mut VecDeque<(u64, RawAlert)>) -> Offer {
        self.core.offer(epoch, alerts)
    }

    /// Tells the stream of what was [offered](Self::offer) and taken.
    pub fn announce(&self) {
        self.core.wake_stream();
    }

    /// Delivers what could not be read: it takes its place among the deliveries, no consumer sees it, and it becomes
    /// a dead letter with this reason.
    pub fn deliver_rejected(&self, permit: Permit, at: Position, raw: RawAlert, why: Rejection) {
        self.core.deliver(permit, at, raw, Some(why));
    }

    /// Passes over a position that has no alert (a control record, one deleted meanwhile): settled, not delivered.
    pub fn pass(&self, at: &Position) {
        self.core.pass(at);
    }

    /// Says that the lane's last alert was delivered. When all of it settled, a commit says `finished`, and with
    /// its confirmation the lane is gone.
    pub fn seal(&self, lane: &Lane) {
        self.core.seal(lane);
    }

    /// Says that the last lane was opened and its last alert delivered: [`commits`](Self::commits) gives `None` when
    /// nothing is left to settle or commit.
    pub fn end_of_input(&self) {
        self.core.end_of_input();
    }

    /// Gives what may be committed now, without waiting. Each lane's first comes 100 ms after its opening, later ones
    /// every second, each up to 100 ms earlier or later together with others'; at once when it is finished, when a flush
    /// waits and when the stream closes. What was given and is not confirmed comes again after a second.
    pub fn due_commits(&self) -> Vec<Commit> {
        self.core.due_commits()
    }

    /// Waits until a commit is due (see [`due_commits`](Self::due_commits)); `None` when the stream is closing or its
    /// input ended, and nothing is left to settle or commit.
    ///
    /// An empty batch asks for nothing but durability: a source that confirms by [`written`](Self::written) then
    /// makes everything before it durable; every source answers with [`committed`](Self::committed).
    ///
    /// # Cancel safety
    /// Nothing was taken.
    pub async fn commits(&self) -> Option<Vec<Commit>> {
        self.core.commits().await
    }

    /// Says that these commits are durable, with everything that [`written`](Self::written) said before.
    pub fn committed(&self, done: &[Commit]) {
        self.core.confirm(done, Durability::Durable);
    }

    /// Says that these commits were written, but a crash of the backend may still take them back until something
    /// later is durable: a flush waits on.
    pub fn written(&self, done: &[Commit]) {
        self.core.confirm(done, Durability::Written);
    }

    /// Says whether the stream is closing and nothing is left to settle or commit: for sources that poll.
    pub fn is_drained(&self) -> bool {
        self.core.is_drained()
    }

    /// Stores the dead letters of the commits before they are written, and tries until the store takes them: 100 ms
    /// later, doubling to 5 s. Meanwhile nothing is committed and the budget fills up.
    ///
    /// For sources without a transaction of their own.
    ///
    /// # Errors
    /// The store's last error, when the stream is closing and the time for its last commit is over.
    ///
    /// # Cancel safety
    /// None: run it to completion.
    pub async fn store_dead_letters(&self, commits: &[Commit]) -> Result<(), crate::error::BoxError> {
        dead_letters::store(&self.core, commits).await
    }

    /// Gives the store that [`store_dead_letters`](Self::store_dead_letters) writes to.
    pub fn dead_letter_store(&self) -> Arc<dyn DeadLetterStore> {
        self.core.config().dead_letters.clone()
    }

    /// Stops handing out the lanes' alerts, waits until their open deliveries settled or the deadline came, ends their
    /// epochs and gives the last commits, to be confirmed as the others.
    ///
    /// # Cancel safety
    /// The lanes stay open but stopped; call it again, or [`lose`](Self::lose) them.
    pub async fn revoke(&self, lanes: &[Lane], deadline: Instant) -> Vec<Commit> {
        self.core.revoke(lanes, deadline).await
    }

    /// Ends lanes at once (they were lost): their deliveries count as released, later settlements are ignored.
    pub fn lose(&self, lanes: &[Lane]) {
        self.core.lose(lanes);
    }

    /// Hands out nothing more of the lane from `until` on, unless a later time is told: for lanes held under a lease.
    pub fn valid_until(&self, lane: &Lane, until: Instant) {
        self.core.valid_until(lane, until);
    }

    /// Makes due at once what would be due for commit later.
    pub fn hurry_commits(&self) {
        self.core.hurry_commits();
    }

    /// Resolves when the stream began to close (shutdown, or enough alerts delivered).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn closing(&self) {
        self.core.closing().await;
    }

    /// Says whether the stream began to close.
    pub fn is_closing(&self) -> bool {
        self.core.is_closing()
    }

    /// Resolves when nothing of the lane is unsettled (delivered, released and waiting, or queued), when the lane
    /// ended, or when the stream is closing and nothing of the lane is with a consumer any more.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn settled(&self, lane: &Lane) {
        self.core.settled(lane).await;
    }

    /// Gives the settlements as done or never to be done since the start, for the rate: (count, time of the first one).
    pub fn settled_count(&self) -> (u64, Option<Instant>) {
        self.core.settled_count()
    }

    /// Gives the number of the lane's alerts that are delivered and unsettled.
    pub fn unsettled(&self, lane: &Lane) -> usize {
        self.core.unsettled(lane)
    }

    /// Gives the byte budget: a source that pauses its backend when it is full resumes at a low-water mark of it.
    pub fn budget(&self) -> &ByteBudget {
        &self.core.config().budget
    }

    /// Gives how many more positions the lane's span admits.
    pub fn lane_room(&self, lane: &Lane) -> usize {
        self.core.lane_room(lane)
    }

    /// Tells how many alerts of the lane are not yet read or settled.
    pub fn set_lag(&self, lane: &Lane, behind: u64) {
        self.core.set_lag(lane, behind);
    }

    /// Tells how many alerts remain in all, where the open lanes do not tell.
    pub fn set_remaining(&self, remaining: Option<u64>) {
        self.core.set_remaining(remaining);
    }

    /// How long a source may take to write its last commit.
    pub fn commit_within(&self) -> Duration {
        self.core.config().commit_within
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake")
            .field("source", &self.source().as_str())
            .finish_non_exhaustive()
    }
}

/// What a confirmation says of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    Written,
    Durable,
}

#[cfg(test)]
mod tests;
