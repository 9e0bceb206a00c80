//! The account of an intake: deliveries by key, the ready queue, released alerts in wait, counts and phase.
//!
//! Invariants: every admitted alert is in exactly one of ready, waiting and open, or is settled; the counts balance.
//! Must not wait, lock or look at a clock: `core` does that around it.

use std::cell::LazyCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{ByteBudget, Charge, Taken};
use super::lanes::{Ending, Lanes, Sync};
use super::{Commit, StreamConfig, StreamStats};
use crate::ack::{Rejection, Settlement};
use crate::dead_letter::DeadLetter;
use crate::error::ErrorClass;
use crate::record::{Epoch, Lane, Position, RawAlert, SourceId};
use crate::source::SourceError;
use crate::tracker::Settled;

/// A released alert is delivered again after this long, doubling with each attempt.
const REDELIVER_FIRST: Duration = Duration::from_secs(1);
const REDELIVER_MOST: Duration = Duration::from_secs(60);

/// The time, looked up when it is first asked for: most deliveries and settlements never ask.
pub(super) type Now = LazyCell<Instant>;

/// Where a stream stands in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Running,
    /// Nothing more is handed out; open deliveries may still settle.
    Closing,
    /// The source has returned.
    Ended,
}

/// Alerts that were admitted together and not yet handed out; never empty.
pub(super) struct Batch {
    pub(super) epoch: Epoch,
    pub(super) alerts: VecDeque<(u64, RawAlert)>,
    /// What they are charged together.
    pub(super) charge: Charge,
    /// The source itself rejects the first one; no consumer sees it.
    pub(super) verdict: Option<Rejection>,
}

/// An alert that is with a consumer, which holds its bytes, or waits for its next delivery.
pub(super) struct Held {
    pub(super) epoch: Epoch,
    pub(super) seq: u64,
    pub(super) charge: Charge,
    pub(super) attempt: u32,
    /// It waits for something from outside.
    pub(super) is_aside: bool,
}

/// What the stream gets when it asks for the next delivery.
pub(crate) enum Next {
    /// A delivery to be made: its key, alert, position and attempt.
    Deliver {
        key: u64,
        raw: RawAlert,
        at: Position,
        attempt: u32,
    },
    /// Nothing now; look again at this time, or when woken.
    Wait(Option<Instant>),
    /// The source failed while the stream was running.
    Failed(SourceError),
    /// Nothing more will come.
    End,
}

/// How long open deliveries may still settle once the stream closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drain {
    /// As long as somebody holds the stream's control.
    Open,
    /// Until this time.
    Until(Instant),
}

/// The whole account.
pub(super) struct State {
    pub(super) source: SourceId,
    pub(super) lanes: Lanes,
    pub(super) open: HashMap<u64, Held, foldhash::fast::RandomState>,
    pub(super) ready: VecDeque<Batch>,
    pub(super) waiting: BinaryHeap<Reverse<Waiting>>,
    pub(super) phase: Phase,
    pub(super) drain: Drain,
    pub(super) input_ended: bool,
    pub(super) stats: StreamStats,
    /// The source's failure, until somebody takes it, and the phase it came in.
    pub(super) error: Option<(SourceError, Phase)>,
    /// Since when the byte budget has kept the source waiting without a settlement.
    pub(super) bytes_blocked_since: Option<Instant>,
    /// The bytes of alerts that wait for something from outside, as many as the stream's own: they are bounded, and do
    /// not keep the other lanes from going on.
    aside: ByteBudget,
    pub(super) first_settled: Option<Instant>,
    pub(super) remaining: Option<u64>,
    /// Flushes that wait.
    pub(super) flushes: usize,
    /// An empty batch was given out for a flush and not yet answered.
    pub(super) barrier_given: bool,
    next_key: u64,
}

/// What a settlement changed, so that the right waiters are woken.
#[derive(Clone, Copy, Default)]
pub(super) struct Changes {
    /// A commit may be due, or the stream may be drained.
    pub(super) commit: bool,
    /// A lane has room again.
    pub(super) room: bool,
    /// A lane's open or unsettled count came to 0.
    pub(super) lane: bool,
    /// The stream has something to hand out, or to time.
    pub(super) stream: bool,
    /// The stream began to close.
    pub(super) closed: bool,
}

impl State {
    pub(super) fn new(source: SourceId, bytes_max: usize) -> Self {
        Self {
            source,
            lanes: Lanes::default(),
            open: HashMap::default(),
            ready: VecDeque::new(),
            waiting: BinaryHeap::new(),
            phase: Phase::Running,
            drain: Drain::Open,
            input_ended: false,
            stats: StreamStats::default(),
            error: None,
            bytes_blocked_since: None,
            aside: ByteBudget::new(bytes_max),
            first_settled: None,
            remaining: None,
            flushes: 0,
            barrier_given: false,
            next_key: 0,
        }
    }

    /// Puts admitted alerts into the ready queue; says whether it did.
    pub(super) fn admit(&mut self, batch: Batch) -> bool {
        if self.phase != Phase::Running {
            return false;
        }
        let Some(lane) = self.lanes.get_mut(batch.epoch).filter(|lane| !lane.stopped) else {
            return false;
        };
        let delivered = batch.alerts.iter().try_for_each(|(seq, _)| lane.tracker.deliver(*seq));
        if let Err(out_of_order) = delivered {
            self.fault(out_of_order.into());
            return false;
        }
        self.ready.push_back(batch);
        true
    }

    /// Gives the next delivery: a released alert whose time has come, else the next new one.
    pub(super) fn hand_out(&mut self, now: &Now, cfg: &StreamConfig) -> (Next, Changes) {
        let (due, phase) = (self.lanes.next_due(), self.phase);
        let next = self.look(now, cfg);
        // An alert that its source rejects settles here, where nobody else would tell of it.
        let commit = self.lanes.next_due() != due;
        (
            next,
            Changes {
                commit,
                closed: self.phase != phase,
                ..Changes::default()
            },
        )
    }

    fn look(&mut self, now: &Now, cfg: &StreamConfig) -> Next {
        loop {
            if self.phase != Phase::Running {
                return self.at_end();
            }
            let Some((held, raw, verdict)) = self.pop(now) else {
                return Next::Wait(self.waiting.peek().map(|Reverse(waiting)| waiting.due));
            };
            let taken = cfg.quota.as_ref().map_or(Taken::One, |quota| quota.take());
            if taken == Taken::None {
                drop((held, raw));
                self.close(**now);
                return Next::End;
            }
            let next = self.give(held, raw, verdict, now);
            if taken == Taken::Last {
                self.close(**now);
            }
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// Says whether settling a delivery would still count: its lane is held, and under a lease that did not run out.
    pub(super) fn is_open(&self, key: u64, now: &Now) -> bool {
        self.open
            .get(&key)
            .is_some_and(|held| self.lanes.is_valid(held.epoch, now))
    }

    /// Stops the lane of a delivery that waits for something from outside; gives the bytes that are free for other
    /// lanes, to be freed outside of locks.
    pub(super) fn set_aside(&mut self, key: u64, bytes: usize) -> Option<Charge> {
        let held = self.open.get_mut(&key).filter(|held| !held.is_aside)?;
        held.is_aside = true;
        if let Some(lane) = self.lanes.get_mut(held.epoch) {
            lane.aside += 1;
            lane.blocked_since = None;
        }
        let charge = self.aside.try_take(bytes)?;
        self.bytes_blocked_since = None;
        Some(std::mem::replace(&mut held.charge, charge))
    }

    /// Lets the lane of such a delivery go on; says whether it was one.
    pub(super) fn take_up(&mut self, key: u64) -> bool {
        let Some(held) = self.open.get_mut(&key).filter(|held| held.is_aside) else {
            return false;
        };
        held.is_aside = false;
        if let Some(lane) = self.lanes.get_mut(held.epoch) {
            lane.aside = lane.aside.saturating_sub(1);
        }
        true
    }

    /// Records the settlement of a delivery.
    pub(super) fn settle(&mut self, key: u64, raw: &mut RawAlert, what: Settlement, now: &Now) -> Changes {
        let Some(held) = self.open.remove(&key) else {
            self.stats.late += 1;
            return Changes::default();
        };
        self.stats.open -= 1;
        let (epoch, was_aside, due) = (held.epoch, held.is_aside, self.lanes.next_due());
        if let Some(lane) = self.lanes.get_mut(epoch) {
            lane.open = lane.open.saturating_sub(1);
            lane.aside = lane.aside.saturating_sub(usize::from(was_aside));
        }
        let mut changes = Changes::default();
        match what {
            Settlement::Ack => {
                self.stats.acked += 1;
                changes.room = self.lanes.settle(epoch, held.seq, None, now) == Settled::Prefix;
                self.settled_one(now);
            }
            Settlement::Reject(why) => {
                self.stats.rejected += 1;
                changes.room = self.reject(held, std::mem::take(raw), why, now) == Settled::Prefix;
            }
            Settlement::Release => {
                self.stats.released += 1;
                changes.stream = self.give_back(held, std::mem::take(raw), now);
            }
        }
        if self.phase == Phase::Closing && self.open.is_empty() {
            self.lanes.hurry(**now);
        }
        changes.room |= was_aside;
        let lane = self.lanes.get(epoch);
        changes.lane = lane.is_none_or(|lane| lane.open == 0 || lane.tracker.unsettled() == 0);
        changes.commit = self.lanes.next_due() != due || self.phase != Phase::Running || self.input_ended;
        changes
    }

    /// Stops handing out: what was admitted and not handed out is dropped, everything settled is due for commit.
    pub(super) fn close(&mut self, now: Instant) {
        if self.phase == Phase::Running {
            self.phase = Phase::Closing;
            self.ready.clear();
            self.waiting.clear();
            self.lanes.hurry(now);
        }
    }

    /// Gives up on the open deliveries: they count as released.
    pub(super) fn abandon(&mut self, now: Instant) {
        self.stats.released += self.open.len() as u64;
        self.stats.open = 0;
        for held in std::mem::take(&mut self.open).into_values() {
            if let Some(lane) = self.lanes.get_mut(held.epoch) {
                (lane.open, lane.aside) = (0, 0);
            }
        }
        self.lanes.hurry(now);
    }

    /// Ends the epochs of these lanes and everything in them.
    pub(super) fn end(&mut self, epochs: &[Epoch], ending: Ending) -> Vec<Commit> {
        self.drop_undelivered(epochs);
        let before = self.open.len();
        self.open.retain(|_, held| !epochs.contains(&held.epoch));
        self.stats.released += (before - self.open.len()) as u64;
        self.stats.open = self.open.len() as u64;
        epochs
            .iter()
            .filter_map(|epoch| self.lanes.end(*epoch, ending))
            .collect()
    }

    /// Drops what these epochs have in the ready queue and in wait.
    pub(super) fn drop_undelivered(&mut self, epochs: &[Epoch]) {
        self.ready.retain(|batch| !epochs.contains(&batch.epoch));
        self.waiting
            .retain(|Reverse(waiting)| !epochs.contains(&waiting.held.epoch));
    }

    /// Gives the due commits.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Commit> {
        let last = self.phase != Phase::Running || self.flushes > 0;
        self.lanes
            .take_due(now, if last { Sync::Needed } else { Sync::AsComes })
    }

    /// Says once for each flush that the backend is asked for durability alone.
    pub(super) fn wants_barrier(&mut self) -> bool {
        let wanted = self.flushes > 0 && self.lanes.unsynced && self.lanes.is_clean() && !self.barrier_given;
        self.barrier_given |= wanted;
        wanted
    }

    /// Says whether nothing is left to settle or commit, now or later.
    pub(super) fn is_drained(&self) -> bool {
        (self.phase != Phase::Running || self.input_ended) && self.is_settled() && self.lanes.is_clean()
    }

    pub(super) fn awaits_commits_only(&self) -> bool {
        self.phase != Phase::Running && self.is_settled() && !self.lanes.is_clean()
    }

    fn is_settled(&self) -> bool {
        self.open.is_empty() && self.ready.is_empty() && self.waiting.is_empty()
    }

    /// Records a failure of the source; the first one counts.
    pub(super) fn fail(&mut self, error: SourceError) {
        self.error.get_or_insert((error, self.phase));
    }

    pub(super) fn lane_epochs(&self, lanes: &[Lane]) -> Vec<Epoch> {
        lanes.iter().filter_map(|lane| self.lanes.epoch(lane)).collect()
    }

    /// A failure of a running stream is the stream's last item; one of a closing stream is for whoever shuts it down.
    fn at_end(&mut self) -> Next {
        let failed = self.error.take_if(|(_, phase)| *phase == Phase::Running);
        failed.map_or(Next::End, |(error, _)| Next::Failed(error))
    }

    /// Takes the next alert of a lane that is still valid; the others stay where they are.
    fn pop(&mut self, now: &Now) -> Option<(Held, RawAlert, Option<Rejection>)> {
        while self.waiting.peek().is_some_and(|Reverse(waiting)| waiting.due <= **now) {
            let Reverse(mut waiting) = self.waiting.pop()?;
            if self.lanes.is_valid(waiting.held.epoch, now) {
                return Some((waiting.held, waiting.raw, None));
            }
            waiting.due = **now + REDELIVER_FIRST;
            self.waiting.push(Reverse(waiting));
        }
        let lanes = &self.lanes;
        let next = self.ready.iter().position(|batch| lanes.is_valid(batch.epoch, now))?;
        let batch = self.ready.get_mut(next)?;
        let (seq, raw) = batch.alerts.pop_front()?;
        let held = Held {
            epoch: batch.epoch,
            seq,
            charge: batch.charge.split(raw.bytes_kept()),
            attempt: 0,
            is_aside: false,
        };
        let verdict = batch.verdict.take();
        if batch.alerts.is_empty() {
            self.ready.remove(next);
        }
        Some((held, raw, verdict))
    }

    /// Makes a delivery of an alert, or rejects it at once where the source said so.
    fn give(&mut self, mut held: Held, raw: RawAlert, verdict: Option<Rejection>, now: &Now) -> Option<Next> {
        let lane = self.lanes.get_mut(held.epoch)?;
        held.attempt = lane.tracker.attempt(held.seq)?;
        self.stats.delivered += 1;
        self.stats.bytes += raw.payload.len() as u64;
        if let Some(why) = verdict {
            self.stats.rejected += 1;
            self.reject(held, raw, why, now);
            return None;
        }
        lane.open += 1;
        self.stats.redelivered += u64::from(held.attempt > 1);
        self.stats.open += 1;
        self.next_key += 1;
        let at = Position {
            lane: lane.lane.clone(),
            seq: held.seq,
        };
        let (key, attempt) = (self.next_key, held.attempt);
        self.open.insert(key, held);
        Some(Next::Deliver { key, raw, at, attempt })
    }

    fn reject(&mut self, held: Held, raw: RawAlert, why: Rejection, now: &Now) -> Settled {
        let Held {
            epoch,
            seq,
            charge,
            attempt,
            ..
        } = held;
        self.settled_one(now);
        let Some(lane) = self.lanes.get(epoch) else {
            return Settled::NotOpen;
        };
        let letter = DeadLetter {
            source: self.source.clone(),
            position: Position {
                lane: lane.lane.clone(),
                seq,
            },
            raw: raw.apart(),
            why,
            attempt,
        };
        self.lanes.settle(epoch, seq, Some((letter, charge)), now)
    }

    /// Keeps a released alert for its next delivery; says whether it did.
    fn give_back(&mut self, held: Held, raw: RawAlert, now: &Now) -> bool {
        let again = self.phase == Phase::Running && self.lanes.get(held.epoch).is_some_and(|lane| !lane.stopped);
        if again {
            let doublings = held.attempt.saturating_sub(1).min(6);
            let due = **now + (REDELIVER_FIRST * (1 << doublings)).min(REDELIVER_MOST);
            self.next_key += 1;
            self.waiting.push(Reverse(Waiting {
                due,
                order: self.next_key,
                held,
                raw: raw.apart(),
            }));
        }
        again
    }

    fn settled_one(&mut self, now: &Now) {
        self.bytes_blocked_since = None;
        self.first_settled.get_or_insert_with(|| **now);
    }

    fn fault(&mut self, cause: crate::error::BoxError) {
        self.fail(SourceError::Backend {
            source_id: self.source.clone(),
            class: ErrorClass::Fatal,
            cause,
        });
    }
}

/// A released alert that waits for its next delivery.
pub(super) struct Waiting {
    due: Instant,
    order: u64,
    held: Held,
    raw: RawAlert,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.order) == (other.due, other.order)
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}
