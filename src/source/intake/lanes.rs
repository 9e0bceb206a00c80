//! The open lanes of an intake: their trackers, their rejected alerts, and when each is to be committed next.
//!
//! Invariants: an epoch belongs to one opening of one lane; a lane is scheduled exactly when something of it is not
//! yet confirmed; rejected alerts keep their bytes until confirmed. Must not know of deliveries, wake-ups or locks;
//! time comes in as an argument.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::budget::Charge;
use super::state::Now;
use super::{Commit, Durability};
use crate::dead_letter::DeadLetter;
use crate::record::{Epoch, Lane, Position};
use crate::tracker::{AckTracker, Settled};

/// A lane's first commit comes this long after its opening.
const FIRST_COMMIT: Duration = Duration::from_millis(100);
/// Later ones, and those that were not confirmed, come at this distance.
const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// Commits are at least this far apart, and what is due within this time comes along with what is due: many lanes make
/// few commits.
const TOGETHER: Duration = Duration::from_millis(100);

/// One lane in one epoch.
pub(super) struct LaneState {
    pub(super) lane: Lane,
    pub(super) tracker: AckTracker,
    /// Handed out and not settled.
    pub(super) open: usize,
    /// Handed out, and waiting for something from outside: meanwhile nothing more is admitted.
    pub(super) aside: usize,
    /// It is being revoked: hand out and admit nothing more.
    pub(super) stopped: bool,
    /// Since when its full span has kept the source waiting without progress.
    pub(super) blocked_since: Option<Instant>,
    pub(super) behind: Option<u64>,
    /// Nothing of it is handed out from then on.
    pub(super) valid_until: Option<Instant>,
    rejected: VecDeque<(DeadLetter, Charge)>,
    /// Rejections of this epoch that were confirmed.
    rejected_before: u64,
    /// Counts the changes; a commit tells the state at one of them.
    version: u64,
    written: u64,
    durable: u64,
    scheduled: Option<Instant>,
    next_commit: Instant,
}

impl LaneState {
    fn commit(&self, epoch: Epoch, sync: Sync) -> Commit {
        Commit {
            lane: self.lane.clone(),
            epoch,
            upto: self.tracker.upto(),
            settled_beyond: self.tracker.settled_beyond(),
            finished: self.tracker.is_finished(),
            rejected: self.rejected.iter().map(|(letter, _)| letter.clone()).collect(),
            sync: sync == Sync::Needed || !self.rejected.is_empty(),
            version: self.version,
            rejected_upto: self.rejected_before + self.rejected.len() as u64,
        }
    }

    /// When a change that happens now is to be committed: not before others have gathered since the last commits.
    fn next_change_at(&self, now: Instant, quiet_until: Option<Instant>) -> Instant {
        if self.tracker.is_finished() {
            now
        } else {
            self.next_commit.max(now).max(quiet_until.unwrap_or(now))
        }
    }

    /// Says whether the commit that says `finished` is confirmed.
    fn is_over(&self) -> bool {
        self.tracker.is_finished() && self.written == self.version
    }
}

/// Whether a commit must be on disk when it is confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sync {
    Needed,
    AsComes,
}

/// All open lanes.
#[derive(Default)]
pub(super) struct Lanes {
    states: HashMap<Epoch, LaneState, foldhash::fast::RandomState>,
    current: HashMap<Lane, Epoch>,
    due: BTreeSet<(Instant, Epoch)>,
    last_epoch: u64,
    /// No commit that can wait is due before.
    quiet_until: Option<Instant>,
    /// Something was written, and nothing after it is durable.
    pub(super) unsynced: bool,
    /// Durable confirmations so far.
    pub(super) syncs: u64,
    /// Epochs that ended with a last commit that is not confirmed yet.
    revoked: BTreeMap<Epoch, Lane>,
    /// Epochs that ended with settlements nobody can commit any more, since the last flush.
    pub(super) lost: u64,
}

impl Lanes {
    pub(super) fn open(&mut self, lane: Lane, from: u64, now: Instant) -> Epoch {
        self.last_epoch += 1;
        let epoch = Epoch(self.last_epoch);
        self.revoked.retain(|_, old| {
            let again = *old == lane;
            self.lost += u64::from(again);
            !again
        });
        self.current.insert(lane.clone(), epoch);
        self.states.insert(
            epoch,
            LaneState {
                lane,
                tracker: AckTracker::starting_at(from),
                open: 0,
                aside: 0,
                stopped: false,
                blocked_since: None,
                behind: None,
                valid_until: None,
                rejected: VecDeque::new(),
                rejected_before: 0,
                version: 0,
                written: 0,
                durable: 0,
                scheduled: None,
                next_commit: now + FIRST_COMMIT,
            },
        );
        epoch
    }

    pub(super) fn epoch(&self, lane: &Lane) -> Option<Epoch> {
        self.current.get(lane).copied()
    }

    pub(super) fn get(&self, epoch: Epoch) -> Option<&LaneState> {
        self.states.get(&epoch)
    }

    pub(super) fn get_mut(&mut self, epoch: Epoch) -> Option<&mut LaneState> {
        self.states.get_mut(&epoch)
    }

    pub(super) fn current(&self, lane: &Lane) -> Option<&LaneState> {
        self.epoch(lane).and_then(|epoch| self.get(epoch))
    }

    pub(super) fn current_mut(&mut self, lane: &Lane) -> Option<&mut LaneState> {
        self.epoch(lane).and_then(|epoch| self.get_mut(epoch))
    }

    /// Says whether alerts of the epoch may be handed out now.
    pub(super) fn is_valid(&self, epoch: Epoch, now: &Now) -> bool {
        self.get(epoch)
            .and_then(|lane| lane.valid_until)
            .is_none_or(|until| **now < until)
    }

    /// The open lanes, in the order of their opening.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LaneState> {
        self.epochs().into_iter().filter_map(|epoch| self.get(epoch))
    }

    pub(super) fn epochs(&self) -> Vec<Epoch> {
        let mut epochs: Vec<Epoch> = self.states.keys().copied().collect();
        epochs.sort_unstable();
        epochs
    }

    /// Settles a seq of an epoch for good, with the dead letter that it became.
    pub(super) fn settle(
        &mut self,
        epoch: Epoch,
        seq: u64,
        rejected: Option<(DeadLetter, Charge)>,
        now: &Now,
    ) -> Settled {
        let Some(state) = self.states.get_mut(&epoch) else {
            return Settled::NotOpen;
        };
        let settled = state.tracker.settle(seq);
        if settled == Settled::NotOpen {
            return settled;
        }
        if settled == Settled::Prefix {
            state.blocked_since = None;
        }
        state.rejected.extend(rejected);
        state.version += 1;
        // Most settlements find their lane scheduled by an earlier one, which is not later.
        if state.scheduled.is_none() || state.tracker.is_finished() {
            let at = state.next_change_at(**now, self.quiet_until);
            self.schedule(epoch, at);
        }
        settled
    }

    /// Counts a change of a lane and schedules its commit.
    pub(super) fn changed(&mut self, epoch: Epoch, now: Instant) {
        let Some(state) = self.states.get_mut(&epoch) else {
            return;
        };
        state.version += 1;
        let at = state.next_change_at(now, self.quiet_until);
        self.schedule(epoch, at);
    }

    /// Makes every scheduled commit due now.
    pub(super) fn hurry(&mut self, now: Instant) {
        for (_, epoch) in std::mem::take(&mut self.due) {
            if let Some(state) = self.states.get_mut(&epoch) {
                state.scheduled = Some(now);
                self.due.insert((now, epoch));
            }
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Gives the due commits; each comes again after a while unless it is confirmed.
    pub(super) fn take_due(&mut self, now: Instant, sync: Sync) -> Vec<Commit> {
        let mut commits = Vec::new();
        if self.next_due().is_none_or(|at| at > now) {
            return commits;
        }
        while let Some((at, epoch)) = self.due.pop_first() {
            if at > now + TOGETHER {
                self.due.insert((at, epoch));
                break;
            }
            let Some(state) = self.states.get_mut(&epoch) else {
                continue;
            };
            commits.push(state.commit(epoch, sync));
            state.scheduled = None;
            state.next_commit = now + COMMIT_EVERY;
        }
        self.quiet_until = Some(now + TOGETHER);
        for commit in &commits {
            self.schedule(commit.epoch, now + COMMIT_EVERY);
        }
        commits
    }

    /// Takes confirmations; gives the bytes of the rejected alerts they cover, to be freed outside of locks.
    pub(super) fn confirm(&mut self, done: &[Commit], how: Durability) -> Vec<Charge> {
        let mut freed = Vec::new();
        self.unsynced |= how == Durability::Written && !done.is_empty();
        for commit in done {
            self.revoked.remove(&commit.epoch);
            let Some(state) = self.states.get_mut(&commit.epoch) else {
                continue;
            };
            state.written = state.written.max(commit.version);
            while state.rejected_before < commit.rejected_upto
                && let Some((_, charge)) = state.rejected.pop_front()
            {
                state.rejected_before += 1;
                freed.push(charge);
            }
            if how == Durability::Durable {
                state.durable = state.durable.max(commit.version);
            }
            if state.written == state.version
                && let Some(at) = state.scheduled.take()
            {
                self.due.remove(&(at, commit.epoch));
            }
            if state.is_over() {
                self.remove(commit.epoch);
            }
        }
        if how == Durability::Durable {
            self.synced();
        }
        freed
    }

    /// Ends an epoch. A last commit is made when something is unconfirmed and `ending` allows it.
    pub(super) fn end(&mut self, epoch: Epoch, ending: Ending) -> Option<Commit> {
        let state = self.remove(epoch)?;
        if state.version == state.written {
            return None;
        }
        match ending {
            Ending::Commit => {
                self.revoked.insert(epoch, state.lane.clone());
                Some(state.commit(epoch, Sync::Needed))
            }
            Ending::Lose => {
                self.lost += 1;
                None
            }
        }
    }

    /// Says whether every change is confirmed.
    pub(super) fn is_clean(&self) -> bool {
        self.due.is_empty()
    }

    /// What a flush waits for: each lane's present version, and the last commits of revoked lanes.
    pub(super) fn flush_target(&self) -> FlushTarget {
        let lanes = self.states.iter().filter(|(_, state)| state.version > state.durable);
        FlushTarget {
            versions: lanes.map(|(epoch, state)| (*epoch, state.version)).collect(),
            revoked: self.revoked.keys().copied().collect(),
            sync: if self.unsynced { self.syncs + 1 } else { self.syncs },
        }
    }

    /// Says whether the target is durable.
    pub(super) fn is_flushed(&self, target: &FlushTarget) -> bool {
        // A lane that is gone was confirmed, or lost (which the flush reads from `lost`), or waits in `revoked`.
        let durable = |(epoch, version): &(Epoch, u64)| match self.states.get(epoch) {
            Some(state) => state.durable >= *version,
            None => !self.revoked.contains_key(epoch),
        };
        self.syncs >= target.sync
            && target.versions.iter().all(durable)
            && !target.revoked.iter().any(|epoch| self.revoked.contains_key(epoch))
            && !(self.unsynced
                && target
                    .versions
                    .iter()
                    .any(|(epoch, _)| !self.states.contains_key(epoch)))
    }

    /// The first position of a lane that has kept its source waiting since before `then`.
    pub(super) fn blocked_before(&self, then: Instant) -> Option<Position> {
        self.iter()
            .find(|state| state.blocked_since.is_some_and(|since| since <= then))
            .and_then(oldest)
    }

    /// The first unsettled position of the lane that was opened first.
    pub(super) fn oldest(&self) -> Option<Position> {
        self.iter().find_map(oldest)
    }

    fn schedule(&mut self, epoch: Epoch, at: Instant) {
        let Some(state) = self.states.get_mut(&epoch) else {
            return;
        };
        if let Some(old) = state.scheduled {
            if old <= at {
                return;
            }
            self.due.remove(&(old, epoch));
        }
        state.scheduled = Some(at);
        self.due.insert((at, epoch));
    }

    fn remove(&mut self, epoch: Epoch) -> Option<LaneState> {
        let state = self.states.remove(&epoch)?;
        if let Some(at) = state.scheduled {
            self.due.remove(&(at, epoch));
        }
        if self.current.get(&state.lane) == Some(&epoch) {
            self.current.remove(&state.lane);
        }
        Some(state)
    }

    fn synced(&mut self) {
        self.syncs += 1;
        if std::mem::take(&mut self.unsynced) {
            for state in self.states.values_mut() {
                state.durable = state.written;
            }
        }
    }
}

fn oldest(state: &LaneState) -> Option<Position> {
    state.tracker.oldest().map(|seq| Position {
        lane: state.lane.clone(),
        seq,
    })
}

/// How an epoch ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// With a last commit.
    Commit,
    /// Without: somebody else owns the lane.
    Lose,
}

/// What a flush waits for.
#[derive(Clone, Debug)]
pub(crate) struct FlushTarget {
    versions: Vec<(Epoch, u64)>,
    revoked: Vec<Epoch>,
    sync: u64,
}
