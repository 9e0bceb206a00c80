//! Whether everything is read: here, and in the rest of the group's topics by whoever has it.
//!
//! How it works: when nothing is left to deliver here, the group is looked at ([`Looker`]). A bounded read is over when
//! the group has committed every partition of its snapshot up to its end. A run that ends by idleness asks
//! [`CaughtUp`]: the answer is yes when every partition that is owned here was delivered to its end, and the group
//! committed the others to theirs. What a killed member owned is unread and nobody's until its session ends; then it
//! is assigned. Whoever is alive and does not move for longer than that (two sessions) is not waited for.
//!
//! Invariants: an answer of before a rebalance does not count; not to know is no. Must not know what idleness is for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ask::Part;
use super::context::{Context, State};
use super::gaps;
use super::lanes::{LaneState, Phase};
use super::look::{Looker, Question, Seen};
use super::starts::Wanted;

/// How often the group is looked at, while nothing is left to do here.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// How often, when there was no answer.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Others are waited for in silence so long.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// Says whether everything is read. Clones share the answer.
#[derive(Clone, Default, Debug)]
pub struct CaughtUp {
    inner: Arc<Flags>,
}

#[derive(Default, Debug)]
struct Flags {
    /// Somebody wants to know: the group is looked at for nobody else.
    wanted: AtomicBool,
    is_so: AtomicBool,
    is_over: AtomicBool,
}

impl CaughtUp {
    /// Says whether, at the last look, everything in the topics was delivered here or committed by the group; also when
    /// the source has ended. The first call makes the source look, about twice a second while it has nothing to deliver.
    pub fn is_so(&self) -> bool {
        self.inner.wanted.store(true, Ordering::Relaxed);
        self.inner.is_so.load(Ordering::Acquire) || self.inner.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, is_so: bool) {
        self.inner.is_so.store(is_so, Ordering::Release);
    }

    /// The source has ended: nothing more will come.
    pub(crate) fn end(&self) {
        self.inner.is_over.store(true, Ordering::Release);
    }

    fn is_wanted(&self) -> bool {
        self.inner.wanted.load(Ordering::Relaxed)
    }
}

/// The looks of one consumer, and what they add up to.
pub(crate) struct Rest {
    looker: Looker,
    others: Others,
    ask_at: Instant,
    /// What the answer under way is for.
    asked: Asked,
    told_failure: bool,
}

/// How things stood when it was asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Asked {
    /// Assignments and revocations so far.
    turn: u64,
    /// What a bounded read waits for, of partitions that are not owned here.
    left: Vec<(Part, i64)>,
}

impl Rest {
    pub(crate) fn new(looker: Looker, session: Duration) -> Self {
        Self {
            looker,
            others: Others::new(session),
            ask_at: Instant::now(),
            asked: Asked::default(),
            told_failure: false,
        }
    }

    /// Does what is due: takes an answer in, asks the next question. Says whether a bounded read is over.
    pub(crate) fn turn(&mut self, context: &Context, subscribed: &[String], now: Instant) -> bool {
        let mut state = context.state.lock();
        if context.intake.is_closing() {
            return false;
        }
        let asked = Asked {
            turn: state.assignments,
            left: left_elsewhere(&state),
        };
        let may_be_over = state.ends.is_found() && all_finished(&state);
        if may_be_over && asked.left.is_empty() {
            return true;
        }
        let is_quiet = is_quiet(&state, now);
        if !is_quiet {
            context.caught_up.set(false);
        }
        if let Some(seen) = self.looker.answer() {
            self.ask_at = now + ASK_EVERY;
            // An answer to what was asked before a rebalance tells of owners that are none any more.
            if self.asked.turn == state.assignments {
                let over = self.take(context, &mut state, seen, now);
                if over && may_be_over {
                    return true;
                }
            }
        }
        let wants = is_quiet && context.caught_up.is_wanted();
        if (wants || may_be_over) && !self.looker.is_asked() && now >= self.ask_at {
            let topics = if wants { subscribed.to_vec() } else { Vec::new() };
            let parts = asked.left.iter().map(|(part, _)| part.clone()).collect();
            let plan = state.plan.clone();
            self.asked = asked;
            if let Err(error) = self.looker.ask(Question { topics, parts, plan }) {
                self.ask_at = now + ASK_AGAIN_AFTER;
                tracing::warn!(%error, "the group cannot be looked at");
            }
        }
        false
    }

    /// Takes an answer in; says whether the group has committed everything that a bounded read waits for.
    fn take(&mut self, context: &Context, state: &mut State, seen: Seen, now: Instant) -> bool {
        let seen = match seen {
            Ok(seen) => seen,
            Err(error) => {
                self.ask_at = now + ASK_AGAIN_AFTER;
                context.caught_up.set(false);
                if !std::mem::replace(&mut self.told_failure, true) {
                    tracing::warn!(%error, "how far the group is cannot be asked now; it is asked again every few seconds");
                }
                return false;
            }
        };
        self.told_failure = false;
        let (here, others) = behind(&seen, state);
        let is_waited_for = self.others.are_waited_for(others, state.assignments, now);
        context.caught_up.set(!here && !is_waited_for);
        let committed: HashMap<&Part, i64> = seen
            .iter()
            .filter(|wanted| wanted.is_committed)
            .map(|wanted| (&wanted.part, wanted.offset))
            .collect();
        let is_done = |(part, end): &(Part, i64)| committed.get(part).is_some_and(|done| done >= end);
        self.asked.left.iter().all(is_done)
    }

    /// Ends the thread that looks.
    pub(crate) fn stop(self, within: Duration) {
        self.looker.stop(within);
    }
}

/// Whether nothing comes or waits for room here: otherwise there is no need to ask the brokers.
fn is_quiet(state: &State, now: Instant) -> bool {
    let is_quiet =
        |lane: &LaneState| !lane.holds() && !lane.span_full && now.duration_since(lane.moved_at) >= ASK_EVERY;
    !state.paused && state.lanes.iter().all(is_quiet)
}

/// Rewound partitions have commits that do not count until they are assigned.
fn all_finished(state: &State) -> bool {
    state.plan.rewound.is_empty() && state.lanes.iter().all(|lane| lane.phase == Phase::Finished)
}

/// What a bounded read waits for of partitions that are not owned here.
fn left_elsewhere(state: &State) -> Vec<(Part, i64)> {
    if !state.ends.is_found() {
        return Vec::new();
    }
    let is_own = |part: &Part| state.lanes.iter().any(|lane| lane.part == *part);
    let mut left = state.ends.to_commit();
    left.retain(|(part, _)| !is_own(part));
    left
}

/// Says whether something here is not delivered, and gives the partitions elsewhere that are behind, each with the offset
/// that its owner has come to and the number of messages behind it.
fn behind(seen: &[Wanted], state: &State) -> (bool, Vec<(Part, i64, u64)>) {
    let (mut here, mut others) = (false, Vec::new());
    for wanted in seen {
        let end = state.ends.of(&wanted.part, wanted.offset, Some(wanted.marks.high));
        let end = end.map_or(wanted.marks.high, |end| end.min(wanted.marks.high));
        match state.lanes.iter().find(|lane| lane.part == wanted.part) {
            Some(lane) => here |= lane.phase == Phase::Reading && !is_delivered(lane, end),
            None => {
                let next = match gaps::judge(wanted.offset, wanted.marks) {
                    None => wanted.offset,
                    Some(_) => gaps::target(state.plan.on_reset, wanted.marks).unwrap_or(wanted.marks.low),
                };
                if next < end {
                    others.push((wanted.part.clone(), next, u64::try_from(end - next).unwrap_or(0)));
                }
            }
        }
    }
    (here, others)
}

/// Control records and compaction leave offsets without a message: the fetcher is past them.
fn is_delivered(lane: &LaneState, end: i64) -> bool {
    lane.next >= end || lane.fetched >= end
}

/// The partitions of other members that are behind, and how long they have not moved.
struct Others {
    session: Duration,
    behind: Vec<(Part, i64)>,
    turn: u64,
    since: Instant,
    moved_at: Instant,
    told: bool,
    given_up: bool,
}

impl Others {
    fn new(session: Duration) -> Self {
        let now = Instant::now();
        Self {
            session,
            behind: Vec::new(),
            turn: 0,
            since: now,
            moved_at: now,
            told: false,
            given_up: false,
        }
    }

    /// Says whether there is something to wait for.
    fn are_waited_for(&mut self, behind: Vec<(Part, i64, u64)>, turn: u64, now: Instant) -> bool {
        let messages: u64 = behind.iter().map(|(_, _, messages)| messages).sum();
        let behind: Vec<(Part, i64)> = behind.into_iter().map(|(part, next, _)| (part, next)).collect();
        if self.behind.is_empty() {
            self.since = now;
            self.told = false;
        }
        if behind != self.behind || turn != self.turn {
            self.moved_at = now;
            self.given_up = false;
        }
        (self.behind, self.turn) = (behind, turn);
        if self.behind.is_empty() {
            return false;
        }
        let partitions = self.behind.len();
        let session_secs = self.session.as_secs();
        if now.duration_since(self.moved_at) >= self.session * 2 {
            if !std::mem::replace(&mut self.given_up, true) {
                tracing::warn!(
                    partitions,
                    messages,
                    "other members are behind, alive and do not commit: they are not waited for any longer"
                );
            }
            return false;
        }
        if now.duration_since(self.since) >= TOLD_AFTER && !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                partitions,
                messages,
                session_secs,
                "everything here is read; waiting for the partitions of other members (those of a killed one come here \
                 when its session ends)"
            );
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::record::Epoch;
    use crate::source::kafka::ends::Ends;
    use crate::source::kafka::gaps::{ResetPolicy, Watermarks};
    use crate::source::kafka::lanes::Lanes;
    use crate::source::kafka::nights::NightStart;
    use crate::source::kafka::place::{End, Start};
    use crate::source::kafka::starts::StartPlan;

    const SESSION: Duration = Duration::from_secs(45);

    fn part(partition: i32) -> Part {
        Part {
            topic: "t".into(),
            partition,
        }
    }

    #[test]
    fn others_are_waited_for_while_they_move_and_two_sessions_longer() {
        let begun = Instant::now();
        let mut others = Others::new(SESSION);
        let at = |secs| begun + Duration::from_secs(secs);
        let one = |next| vec![(part(0), next, 9)];
        assert!(!others.are_waited_for(Vec::new(), 1, at(0)));
        assert!(others.are_waited_for(one(1), 1, at(1)));
        assert!(others.are_waited_for(one(1), 1, at(90)));
        assert!(others.are_waited_for(one(2), 1, at(91)), "it moved");
        assert!(others.are_waited_for(one(2), 1, at(180)));
        assert!(others.are_waited_for(one(2), 2, at(182)), "a rebalance came between");
        assert!(others.are_waited_for(one(2), 2, at(271)));
        assert!(
            !others.are_waited_for(one(2), 2, at(272)),
            "alive, and it does not move"
        );
        assert!(others.are_waited_for(one(3), 2, at(273)), "it moves again");
        assert!(!others.are_waited_for(Vec::new(), 2, at(274)));
    }

    /// A consumer that owns partition 0 and delivered it up to before offset 5.
    fn state() -> State {
        let mut lanes = Lanes::default();
        lanes.insert(LaneState::new(part(0), Epoch(1), 5, Instant::now()));
        let plan = StartPlan {
            start: Start::Committed,
            on_reset: ResetPolicy::Earliest,
            nights: NightStart::default(),
            patterns: Vec::new(),
            known: None,
            rewound: Default::default(),
        };
        State {
            lanes,
            plan,
            ends: Ends::new(End::None, NightStart::default(), Vec::new()),
            assignments: 1,
            paused: false,
            closing: false,
            lost_unconfirmed: false,
            failure: None,
        }
    }

    #[test]
    fn a_partition_is_behind_by_its_deliveries_here_and_by_its_commits_elsewhere() {
        let wanted = |partition, offset, high| Wanted {
            part: part(partition),
            offset,
            is_committed: true,
            marks: Watermarks { low: 2, high },
        };
        let mut state = state();
        assert_eq!(behind(&[wanted(0, 1, 5), wanted(1, 7, 7)], &state), (false, Vec::new()));
        assert_eq!(behind(&[wanted(0, 6, 6)], &state), (true, Vec::new()));
        let expired_and_made_again = [wanted(1, 6, 7), wanted(2, 0, 3), wanted(3, 9, 4)];
        let others = vec![(part(1), 6, 1), (part(2), 2, 1), (part(3), 2, 2)];
        assert_eq!(behind(&expired_and_made_again, &state), (false, others));
        // The last offset is a control record.
        let lane = state.lanes.iter_mut().next().unwrap();
        lane.fetched = 6;
        assert_eq!(behind(&[wanted(0, 5, 6)], &state), (false, Vec::new()));
    }

    #[test]
    fn the_answer_is_no_until_it_is_known_and_yes_at_the_end() {
        let caught_up = CaughtUp::default();
        assert!(!caught_up.is_wanted());
        assert!(!caught_up.is_so());
        assert!(caught_up.is_wanted(), "by the first question");
        caught_up.set(true);
        assert!(caught_up.is_so());
        caught_up.set(false);
        caught_up.end();
        assert!(caught_up.is_so());
    }
}
