//! The waiting around the account: one short lock, and a wake-up for each kind of waiter.
//!
//! Invariants: no lock is held over an await; a waiter registers before it looks; tasks are woken after the lock is
//! let go. Must not know of sources or of the stream's own task.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::lanes::Ending;
use super::signal::Signal;
use super::state::{Batch, Now, Phase, State};
use super::{Commit, Durability, Offer, Permit, Reserve, StreamConfig};
use crate::ack::{Rejection, Settle, Settlement};
use crate::record::{Epoch, Lane, Position, RawAlert, SourceId};

/// What source, stream, control and tokens share.
pub(crate) struct Core {
    pub(super) cfg: StreamConfig,
    pub(super) source: SourceId,
    pub(super) state: Mutex<State>,
    /// The stream's task, when it waits for a delivery.
    pub(super) stream: Mutex<Option<Waker>>,
    /// Wakes `commits`.
    pub(super) commit: Signal,
    /// Wakes `reserve`.
    room: Signal,
    /// Wakes `revoke`, `settled`, `flush` and the store of dead letters.
    pub(super) lane: Signal,
    /// Wakes the stream's own task.
    pub(super) drain: Notify,
    pub(super) closing: CancellationToken,
}

impl Core {
    pub(crate) fn new(source: SourceId, cfg: StreamConfig) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(source.clone(), cfg.budget.bytes_max())),
            source,
            cfg,
            stream: Mutex::new(None),
            commit: Signal::default(),
            room: Signal::default(),
            lane: Signal::default(),
            drain: Notify::new(),
            closing: CancellationToken::new(),
        })
    }

    pub(crate) fn source(&self) -> &SourceId {
        &self.source
    }

    pub(crate) fn config(&self) -> &StreamConfig {
        &self.cfg
    }

    pub(super) fn open(&self, lane: Lane, from: u64) -> Epoch {
        let mut state = self.state.lock();
        if let Some(former) = state.lanes.epoch(&lane) {
            state.end(&[former], Ending::Lose);
        }
        state.lanes.open(lane, from, Instant::now())
    }

    pub(super) fn try_reserve(&self, lane: &Lane, bytes: usize) -> Reserve {
        let mut state = self.state.lock();
        let epoch = match self.admits(&mut state, lane) {
            Ok(epoch) => epoch,
            Err(refusal) => return refusal,
        };
        match self.cfg.budget.try_take(bytes) {
            Some(charge) => {
                state.bytes_blocked_since = None;
                Reserve::Granted(Permit { charge, epoch })
            }
            None => {
                state.bytes_blocked_since.get_or_insert_with(Instant::now);
                Reserve::Full
            }
        }
    }

    pub(super) fn offer(&self, epoch: Epoch, alerts: &mut VecDeque<(u64, RawAlert)>) -> Offer {
        let mut state = self.state.lock();
        let offer = self.offer_locked(&mut state, epoch, alerts);
        let failed = state.error.is_some() && state.phase == Phase::Running;
        drop(state);
        if failed {
            self.close();
        }
        if offer == Offer::Gone {
            alerts.clear();
        }
        offer
    }

    fn offer_locked(&self, state: &mut State, epoch: Epoch, alerts: &mut VecDeque<(u64, RawAlert)>) -> Offer {
        while !alerts.is_empty() {
            match self.refusal(state, epoch) {
                None => {}
                Some(Reserve::LaneFull) => return Offer::LaneFull,
                Some(_) => return Offer::Gone,
            }
            let span = state.lanes.get(epoch).map_or(0, |lane| lane.tracker.span());
            let room = self.cfg.max_span.saturating_sub(span);
            let sizes = alerts.iter().take(room).map(|(_, raw)| raw.bytes_kept());
            let Some((some, charge)) = self.cfg.budget.try_take_most(sizes) else {
                state.bytes_blocked_since.get_or_insert_with(Instant::now);
                return Offer::Full;
            };
            state.bytes_blocked_since = None;
            let rest = alerts.split_off(some);
            let taken = Batch {
                epoch,
                alerts: std::mem::replace(alerts, rest),
                charge,
                verdict: None,
            };
            if !state.admit(taken) {
                return Offer::Gone;
            }
        }
        Offer::Taken
    }

    pub(super) async fn reserve(&self, lane: &Lane, bytes: usize) -> Option<Permit> {
        // The span comes first, so that no bytes are held while it is waited for; it is looked at again when the bytes
        // are there, and when it is full by then they are given back.
        loop {
            match self.try_reserve(lane, bytes) {
                Reserve::Granted(permit) => return Some(permit),
                Reserve::Closing | Reserve::LaneGone => return None,
                Reserve::LaneFull => self.wait_for_room(lane).await,
                Reserve::Full => {
                    let charge = tokio::select! {
                        biased;
                        () = self.wait_while_open(lane) => return None,
                        charge = self.cfg.budget.take(bytes) => charge?,
                    };
                    let admitted = {
                        let mut state = self.state.lock();
                        state.bytes_blocked_since = None;
                        self.admits(&mut state, lane)
                    };
                    match admitted {
                        Ok(epoch) => return Some(Permit { charge, epoch }),
                        Err(Reserve::LaneFull) => {}
                        Err(_) => return None,
                    }
                }
            }
        }
    }

    pub(super) fn deliver(&self, permit: Permit, at: Position, raw: RawAlert, verdict: Option<Rejection>) {
        let mut state = self.state.lock();
        // The epoch tells the lane; a permit of another lane's delivers nothing.
        let fits = state.lanes.get(permit.epoch).is_some_and(|lane| lane.lane == at.lane);
        let admitted = fits
            && state.admit(Batch {
                epoch: permit.epoch,
                alerts: VecDeque::from([(at.seq, raw)]),
                charge: permit.charge,
                verdict,
            });
        let failed = state.error.is_some() && state.phase == Phase::Running;
        drop(state);
        if failed {
            self.close();
        } else if admitted {
            self.wake_stream();
        }
    }

    pub(super) fn pass(&self, at: &Position) {
        let now = Now::new(Instant::now);
        let mut state = self.state.lock();
        let Some(epoch) = state.lanes.epoch(&at.lane) else {
            return;
        };
        let tracker = state.lanes.get_mut(epoch).map(|lane| &mut lane.tracker);
        if tracker.is_some_and(|tracker| tracker.deliver(at.seq).is_ok()) {
            state.stats.passed += 1;
            state.lanes.settle(epoch, at.seq, None, &now);
            drop(state);
            self.commit.tell();
        }
    }

    pub(super) fn seal(&self, lane: &Lane) {
        let mut state = self.state.lock();
        let Some(epoch) = state.lanes.epoch(lane) else { return };
        let finished = state.lanes.get_mut(epoch).is_some_and(|lane| {
            lane.tracker.seal();
            lane.tracker.is_finished()
        });
        if finished {
            state.lanes.changed(epoch, Instant::now());
            drop(state);
            self.commit.tell();
        }
    }

    pub(super) fn end_of_input(&self) {
        self.state.lock().input_ended = true;
        self.commit.tell();
    }

    pub(super) fn due_commits(&self) -> Vec<Commit> {
        self.state.lock().take_due(Instant::now())
    }

    pub(super) async fn commits(&self) -> Option<Vec<Commit>> {
        let _waiting = self.commit.waiting();
        loop {
            let changed = self.commit.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let next = {
                let mut state = self.state.lock();
                let due = state.take_due(Instant::now());
                if !due.is_empty() || state.wants_barrier() {
                    return Some(due);
                }
                if state.is_drained() {
                    return None;
                }
                state.lanes.next_due()
            };
            match next {
                Some(at) => tokio::select! { () = changed => {}, () = tokio::time::sleep_until(at) => {} },
                None => changed.await,
            }
        }
    }

    pub(super) fn confirm(&self, done: &[Commit], how: Durability) {
        let freed = {
            let mut state = self.state.lock();
            state.barrier_given &= how == Durability::Written;
            state.lanes.confirm(done, how)
        };
        drop(freed);
        self.commit.tell();
        self.lane.tell();
    }

    /// Whether the stream closes and all that keeps it is a commit that was not confirmed.
    pub(crate) fn awaits_commits_only(&self) -> bool {
        self.state.lock().awaits_commits_only()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.state.lock().is_drained()
    }

    pub(super) async fn revoke(&self, lanes: &[Lane], deadline: Instant) -> Vec<Commit> {
        let epochs = {
            let mut state = self.state.lock();
            let epochs = state.lane_epochs(lanes);
            for epoch in &epochs {
                if let Some(lane) = state.lanes.get_mut(*epoch) {
                    lane.stopped = true;
                }
            }
            state.drop_undelivered(&epochs);
            epochs
        };
        self.room.tell();
        let settled = self.until(|state| {
            epochs
                .iter()
                // What waits for something from outside is not waited for.
                .all(|epoch| state.lanes.get(*epoch).is_none_or(|lane| lane.open <= lane.aside))
                .then_some(())
        });
        // Only the waiting is bounded; what was not settled by then counts as released.
        let _ = tokio::time::timeout_at(deadline, settled).await;
        let commits = self.state.lock().end(&epochs, Ending::Commit);
        self.lane_ended();
        commits
    }

    pub(super) fn lose(&self, lanes: &[Lane]) {
        {
            let mut state = self.state.lock();
            let epochs = state.lane_epochs(lanes);
            state.end(&epochs, Ending::Lose);
        }
        self.lane_ended();
    }

    pub(super) fn valid_until(&self, lane: &Lane, until: Instant) {
        if let Some(lane) = self.state.lock().lanes.current_mut(lane) {
            lane.valid_until = Some(until);
        }
        self.wake_stream();
    }

    pub(super) fn hurry_commits(&self) {
        self.state.lock().lanes.hurry(Instant::now());
        self.commit.tell();
    }

    pub(super) async fn settled(&self, lane: &Lane) {
        self.until(|state| {
            let closing = state.phase != Phase::Running;
            let settled = state
                .lanes
                .current(lane)
                .is_none_or(|lane| lane.tracker.unsettled() == 0 || (lane.open == 0 && (closing || lane.stopped)));
            settled.then_some(())
        })
        .await;
    }

    pub(super) fn settled_count(&self) -> (u64, Option<Instant>) {
        let state = self.state.lock();
        (state.stats.acked + state.stats.rejected, state.first_settled)
    }

    pub(super) fn unsettled(&self, lane: &Lane) -> usize {
        self.state
            .lock()
            .lanes
            .current(lane)
            .map_or(0, |lane| lane.tracker.unsettled())
    }

    pub(super) fn lane_room(&self, lane: &Lane) -> usize {
        let state = self.state.lock();
        state
            .lanes
            .current(lane)
            .filter(|lane| lane.aside == 0)
            .map_or(0, |lane| self.cfg.max_span.saturating_sub(lane.tracker.span()))
    }

    pub(super) fn set_lag(&self, lane: &Lane, behind: u64) {
        if let Some(lane) = self.state.lock().lanes.current_mut(lane) {
            lane.behind = Some(behind);
        }
    }

    pub(super) fn set_remaining(&self, remaining: Option<u64>) {
        self.state.lock().remaining = remaining;
    }

    pub(crate) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    // ---- waiting and waking ----

    /// Waits until `look` finds something; it is asked again after each change of a lane.
    pub(super) async fn until<R>(&self, mut look: impl FnMut(&mut State) -> Option<R>) -> R {
        let _waiting = self.lane.waiting();
        loop {
            let changed = self.lane.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look(&mut self.state.lock()) {
                return found;
            }
            changed.await;
        }
    }

    pub(super) fn wake_stream(&self) {
        let waker = self.stream.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn wake_all(&self) {
        self.commit.tell();
        self.room.tell();
        self.lane.tell();
        self.drain.notify_one();
        self.wake_stream();
    }

    /// The epoch that admits an alert of this lane now, or why none does.
    fn admits(&self, state: &mut State, lane: &Lane) -> Result<Epoch, Reserve> {
        if state.phase != Phase::Running {
            return Err(Reserve::Closing);
        }
        let epoch = state.lanes.epoch(lane).ok_or(Reserve::LaneGone)?;
        self.refusal(state, epoch).map_or(Ok(epoch), Err)
    }

    /// Why an epoch admits no alert now; `None` when it does.
    fn refusal(&self, state: &mut State, epoch: Epoch) -> Option<Reserve> {
        if state.phase != Phase::Running {
            return Some(Reserve::Closing);
        }
        match state.lanes.get_mut(epoch) {
            Some(lane) if lane.stopped => Some(Reserve::LaneGone),
            // What waits for something from outside is no stall.
            Some(lane) if lane.aside > 0 => Some(Reserve::LaneFull),
            Some(lane) if lane.tracker.span() >= self.cfg.max_span => {
                lane.blocked_since.get_or_insert_with(Instant::now);
                Some(Reserve::LaneFull)
            }
            Some(_) => None,
            None => Some(Reserve::LaneGone),
        }
    }

    async fn wait_for_room(&self, lane: &Lane) {
        self.until_room(|| !matches!(self.admits(&mut self.state.lock(), lane), Err(Reserve::LaneFull)))
            .await;
    }

    async fn wait_while_open(&self, lane: &Lane) {
        self.until_room(|| {
            matches!(
                self.admits(&mut self.state.lock(), lane),
                Err(Reserve::LaneGone | Reserve::Closing)
            )
        })
        .await;
    }

    async fn until_room(&self, mut look: impl FnMut() -> bool) {
        let _waiting = self.room.waiting();
        loop {
            let changed = self.room.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if look() {
                return;
            }
            changed.await;
        }
    }

    fn lane_ended(&self) {
        self.commit.tell();
        self.room.tell();
        self.lane.tell();
    }
}

impl Settle for Core {
    fn is_open(&self, key: u64) -> bool {
        self.state.lock().is_open(key, &Now::new(Instant::now))
    }

    fn set_aside(&self, key: u64, bytes: usize) {
        let freed = self.state.lock().set_aside(key, bytes);
        drop(freed);
    }

    fn take_up(&self, key: u64) {
        let was_aside = self.state.lock().take_up(key);
        if was_aside {
            self.room.tell();
        }
    }

    fn settle(&self, key: u64, mut raw: RawAlert, what: Settlement) {
        let changes = self.state.lock().settle(key, &mut raw, what, &Now::new(Instant::now));
        if changes.commit {
            self.commit.tell();
        }
        if changes.room {
            self.room.tell();
        }
        if changes.lane {
            self.lane.tell();
        }
        if changes.stream {
            self.wake_stream();
        }
    }
}
