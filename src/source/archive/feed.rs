//! Handing out the alerts of one held block: fetch, admit, deliver; in careful mode one at a time.
//!
//! Invariants: alerts go out in the block's order; one that is not in the archive any more is passed over and counted
//! as missing; nothing goes out without a pass. Everything that waits keeps its state here, so that a `select!` may
//! drop the waiting and come back. Must not run statements: a fetch runs in a task of its own.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::block::Progress;
use super::gate::Pass;
use crate::ack::Rejection;
use crate::archive::{Archive, ArchiveError, Fetch, Fetched};
use crate::record::{Epoch, Lane, Position, RawAlert};
use crate::source::intake::Intake;

/// A fetch that failed is tried again after this long.
const FETCH_AGAIN: Duration = Duration::from_secs(1);
/// The most alerts handed out in one call while nothing has to be waited for; the rest of the loop has its turn after it.
const AT_ONCE: usize = 16;

/// A claimed block while it is worked on.
pub(super) struct Held {
    pub(super) progress: Progress,
    pub(super) lane: Lane,
    pub(super) epoch: Epoch,
    pub(super) pass: Option<Pass>,
    /// How many alerts were to be handed out when it was claimed.
    pub(super) open: usize,
    /// What is still to be handed out.
    places: VecDeque<(usize, i64)>,
    fetch: Option<Fetch>,
    fetch_at: Option<Instant>,
    stage: Stage,
}

enum Stage {
    Fetch,
    /// Its place is to be noted durably before it is handed out.
    Note(usize, RawAlert),
    Admit(usize, RawAlert),
    /// In careful mode: the one that is out is waited for.
    Settle,
    Exhausted,
}

/// Why feeding stopped for now.
#[derive(Debug)]
pub(super) enum Fed {
    /// Note this place durably, then call [`Held::noted`].
    Note(usize),
    /// Some more are out.
    Out,
    /// Everything is out.
    Exhausted,
    /// The stream is closing or the lane was lost.
    Shut,
    /// The fetch failed; feeding goes on by itself if it is called again.
    Failed(ArchiveError),
}

impl Held {
    pub(super) fn new(progress: Progress, lane: Lane, epoch: Epoch) -> Self {
        let places: VecDeque<_> = progress.open_places(0).into();
        Self {
            progress,
            lane,
            epoch,
            pass: None,
            open: places.len(),
            places,
            fetch: None,
            fetch_at: None,
            stage: Stage::Fetch,
        }
    }

    /// Starts reading ahead, before the block has its turn. A careful block is not read ahead.
    pub(super) fn prefetch(&mut self, archive: &Archive) {
        if self.fetch.is_none() && !self.progress.is_careful() {
            self.fetch = Some(archive.fetch(self.places.iter().map(|(_, id)| *id).collect()));
        }
    }

    /// Tells whether everything was handed out.
    pub(super) fn is_exhausted(&self) -> bool {
        matches!(self.stage, Stage::Exhausted)
    }

    /// Gives how many alerts are not handed out yet.
    pub(super) fn to_hand_out(&self) -> usize {
        let in_hand = matches!(self.stage, Stage::Note(..) | Stage::Admit(..));
        self.places.len() + usize::from(in_hand)
    }

    /// Says that the place was noted: it may go out.
    pub(super) fn noted(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Fetch) {
            Stage::Note(index, raw) => Stage::Admit(index, raw),
            other => other,
        };
    }

    /// Hands out the next alert and those that are here by then, or tells why not.
    ///
    /// # Cancel safety
    /// Nothing is lost: call it again.
    pub(super) async fn feed(&mut self, archive: &Archive, intake: &Intake) -> Fed {
        let mut out = 0;
        loop {
            match &self.stage {
                Stage::Exhausted => return Fed::Exhausted,
                Stage::Note(index, _) => return Fed::Note(*index),
                Stage::Settle => {
                    intake.settled(&self.lane).await;
                    // The next one waits for the note of this one: do not let it wait for the next second.
                    intake.hurry_commits();
                    self.stage = Stage::Fetch;
                }
                Stage::Admit(_, raw) => {
                    let Some(permit) = intake.reserve(&self.lane, raw.payload.len()).await else {
                        return Fed::Shut;
                    };
                    self.deliver(intake, permit);
                    out += 1;
                    let more = self.fetch.as_ref().is_some_and(Fetch::has_next);
                    if !more || out == AT_ONCE || self.progress.is_careful() {
                        return Fed::Out;
                    }
                }
                Stage::Fetch => match self.load(archive, intake).await {
                    Ok(()) => {}
                    Err(error) => return Fed::Failed(error),
                },
            }
        }
    }

    fn deliver(&mut self, intake: &Intake, permit: crate::source::intake::Permit) {
        let after = if self.progress.is_careful() {
            Stage::Settle
        } else {
            Stage::Fetch
        };
        let Stage::Admit(index, raw) = std::mem::replace(&mut self.stage, after) else {
            return;
        };
        let at = Position {
            lane: self.lane.clone(),
            seq: index as u64,
        };
        if self.progress.is_killer(index) {
            // It was noted once before it was noted again for each kill.
            let tries = u32::from(self.progress.claim().kills.unsigned_abs()) + 1;
            let message = format!("its consumer died each of the {tries} times that it was tried alone");
            let why = Rejection {
                reason: "kills_consumer".into(),
                message,
                tries,
            };
            intake.deliver_rejected(permit, at, raw, why);
        } else {
            intake.deliver(permit, at, raw);
        }
    }

    /// Takes the next alert that is there, passing over those that are not.
    async fn load(&mut self, archive: &Archive, intake: &Intake) -> Result<(), ArchiveError> {
        if let Some(at) = self.fetch_at {
            tokio::time::sleep_until(at).await;
            self.fetch_at = None;
        }
        let places = &self.places;
        let fetch = self
            .fetch
            .get_or_insert_with(|| archive.fetch(places.iter().map(|(_, id)| *id).collect()));
        let mut next = match fetch.next().await {
            Some(Ok(next)) => Some(next),
            None => None,
            Some(Err(error)) => {
                (self.fetch, self.fetch_at) = (None, Some(Instant::now() + FETCH_AGAIN));
                return Err(error);
            }
        };
        while let Some((index, id)) = self.places.pop_front() {
            if let Some(Fetched { raw, .. }) = next.take_if(|found| found.id == id) {
                let careful = self.progress.is_careful() && !self.progress.is_killer(index);
                self.stage = if careful {
                    Stage::Note(index, raw)
                } else {
                    Stage::Admit(index, raw)
                };
                return Ok(());
            }
            self.progress.miss(index);
            intake.pass(&Position {
                lane: self.lane.clone(),
                seq: index as u64,
            });
        }
        intake.seal(&self.lane);
        self.stage = Stage::Exhausted;
        Ok(())
    }
}
