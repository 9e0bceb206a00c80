//! The intake: all that a source talks to. Admission, budgets, settlements, due commits.

use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use crate::dead_letter::DeadLetter;
use crate::record::{Epoch, Lane, Position, RawAlert};

/// What settled and may be made durable, of one lane.
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
}

/// The right to deliver one alert of at most the reserved bytes. Dropping it gives the bytes back.
#[must_use]
pub struct Permit {
    pub(crate) _bytes: usize,
}

/// What [`Intake::try_reserve`] answers.
pub enum Reserve {
    /// Go on.
    Granted(Permit),
    /// The byte budget or a lane's span is used up: stop reading, keep polling.
    Full,
    /// The stream is closing: deliver nothing more.
    Closing,
}

/// A source's end of the stream. Cheap to clone; synchronous but for the waits.
#[derive(Clone)]
pub struct Intake {}

impl Intake {
    /// Opens a lane under a new epoch; a former epoch's settlements are ignored from here on.
    pub fn open(&self, _lane: Lane) -> Epoch {
        todo!()
    }
    /// Takes a permit without waiting.
    pub fn try_reserve(&self, _bytes: usize) -> Reserve {
        todo!()
    }
    /// Waits for a permit; `None` when the stream is closing. An alert above the whole budget is admitted alone.
    pub async fn reserve(&self, _bytes: usize) -> Option<Permit> {
        todo!()
    }
    /// Delivers an alert at `at`, in the lane's current epoch.
    pub fn deliver(&self, _permit: Permit, _at: Position, _raw: RawAlert) {
        todo!()
    }
    /// Says that the lane's last alert was delivered.
    pub fn seal(&self, _lane: &Lane) {
        todo!()
    }
    /// Gives what may be committed now, without waiting.
    pub fn due_commits(&self) -> Vec<Commit> {
        todo!()
    }
    /// Waits until a commit is due; `None` when the stream is closing and nothing is left to settle or commit.
    pub async fn commits(&self) -> Option<Vec<Commit>> {
        todo!()
    }
    /// Says that these commits are durable.
    pub fn committed(&self, _done: &[Commit]) {
        todo!()
    }
    /// Stops handing out the lanes' alerts, waits until their open deliveries settled or the deadline came, ends their
    /// epochs and gives the last commits.
    pub async fn revoke(&self, _lanes: &[Lane], _deadline: Instant) -> Vec<Commit> {
        todo!()
    }
    /// Ends a lane at once (it was lost): its deliveries are dropped, later settlements are ignored.
    pub fn lose(&self, _lanes: &[Lane]) {
        todo!()
    }
    /// Resolves when the stream began to close (shutdown, or enough alerts delivered).
    pub async fn closing(&self) {
        todo!()
    }
    /// Resolves when nothing of the lane is unsettled (delivered, released and waiting, or queued).
    pub async fn settled(&self, _lane: &Lane) {
        todo!()
    }
    /// Settlements since the start, for the rate: (count, time of the first one).
    pub fn settled_count(&self) -> (u64, Option<Instant>) {
        todo!()
    }
    /// How long a source may take to write its last commit.
    pub fn commit_within(&self) -> Duration {
        Duration::from_secs(10)
    }
}
