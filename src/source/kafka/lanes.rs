//! The partitions that this consumer owns: how far each was delivered, where it ends, and what waits for room.
//!
//! Invariants: `next` only grows within an epoch; what is copied is offered in order, and is at most what one look at
//! librdkafka brings. No call to librdkafka and no lock here. Must not know of commits' dead letters.

use std::collections::VecDeque;
use std::time::Instant;

use super::ask::Part;
use super::message::Run;
use super::topic_ids::TopicId;
use crate::record::{Epoch, Lane, RawAlert};

/// How far a lane is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// It is being read.
    Reading,
    /// Its end was reached; what was delivered is not all settled and committed.
    Sealed,
    /// Everything up to its end is committed.
    Finished,
}

/// One owned partition.
pub(crate) struct LaneState {
    pub(crate) part: Part,
    pub(crate) lane: Lane,
    pub(crate) epoch: Epoch,
    /// The topic's identity, once it was asked for.
    pub(crate) topic_id: Option<TopicId>,
    /// The offset to deliver next.
    pub(crate) next: i64,
    /// The offset stored for the next commit, or -1.
    pub(crate) stored: i64,
    /// The offset that the coordinator confirmed, or where the lane began.
    pub(crate) confirmed: i64,
    /// The first offset not to deliver, for bounded reads.
    pub(crate) end: Option<i64>,
    pub(crate) phase: Phase,
    /// Its own span is full: it is paused by itself.
    pub(crate) span_full: bool,
    /// Copied and not yet offered.
    pub(crate) run: Run,
    /// Offered, and found no room.
    pub(crate) held: VecDeque<(u64, RawAlert)>,
    /// The broker's end of the partition as the statistics last said, or -1.
    pub(crate) high: i64,
    /// Where the fetcher was at the last statistics, when nothing of it waited to be taken; or -1.
    pub(crate) fetched: i64,
    /// When the last message came, or the lane was opened or resumed.
    pub(crate) moved_at: Instant,
    /// The stall was told.
    pub(crate) stall_told: bool,
}

impl LaneState {
    pub(crate) fn new(part: Part, epoch: Epoch, next: i64, now: Instant) -> Self {
        let lane = lane_of(&part);
        Self {
            part,
            lane,
            epoch,
            topic_id: None,
            next,
            stored: -1,
            confirmed: next,
            end: None,
            phase: Phase::Reading,
            span_full: false,
            run: Run::default(),
            held: VecDeque::new(),
            high: -1,
            fetched: -1,
            moved_at: now,
            stall_told: false,
        }
    }

    /// Says whether something was copied and not taken.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty() || !self.run.is_empty()
    }

    /// Says whether nothing more is to be delivered of it.
    pub(crate) fn is_at_end(&self) -> bool {
        !self.holds() && self.end.is_some_and(|end| self.next >= end)
    }

    /// Gives how many messages are behind the first one that is not settled.
    pub(crate) fn behind(&self) -> u64 {
        let done = if self.stored >= 0 { self.stored } else { self.next };
        u64::try_from(self.high.saturating_sub(done)).unwrap_or(0)
    }
}

/// Gives the lane of a partition.
pub(crate) fn lane_of(part: &Part) -> Lane {
    Lane::Kafka {
        topic: part.topic.clone(),
        partition: part.partition,
    }
}

/// The owned partitions. A consumer owns few (tens): a list with the last hit remembered beats a map, and those that a
/// batch touched are remembered too.
#[derive(Default)]
pub(crate) struct Lanes {
    all: Vec<LaneState>,
    last: usize,
    fresh: Vec<usize>,
    /// Some lane may have a full span.
    pub(crate) any_full: bool,
}

impl Lanes {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LaneState> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LaneState> {
        self.all.iter_mut()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn insert(&mut self, lane: LaneState) {
        self.remove(&lane.part);
        self.all.push(lane);
    }

    pub(crate) fn remove(&mut self, part: &Part) -> Option<LaneState> {
        let at = self.all.iter().position(|lane| lane.part == *part)?;
        let removed = self.all.swap_remove(at);
        // Another lane stands in its place now.
        self.fresh = (0..self.all.len()).collect();
        Some(removed)
    }

    /// Finds the lane of a message.
    pub(crate) fn find(&mut self, topic: &str, partition: i32) -> Option<&mut LaneState> {
        let is = |lane: &LaneState| lane.part.partition == partition && *lane.part.topic == *topic;
        if !self.all.get(self.last).is_some_and(is) {
            // Fetches bring the partitions in turn: the next one is the likeliest.
            let (before, after) = self.all.split_at(self.last.min(self.all.len()));
            let next = after.iter().position(is).map(|at| before.len() + at);
            self.last = next.or_else(|| before.iter().position(is))?;
        }
        self.all.get_mut(self.last)
    }

    /// Finds the lane of a message, and counts it among the fresh ones.
    pub(crate) fn find_fresh(&mut self, topic: &str, partition: i32) -> Option<&mut LaneState> {
        self.find(topic, partition)?;
        if !self.fresh.contains(&self.last) {
            self.fresh.push(self.last);
        }
        self.all.get_mut(self.last)
    }

    /// Gives one of the lanes that were touched since they were last given.
    pub(crate) fn next_fresh(&mut self) -> Option<&mut LaneState> {
        let at = self.fresh.pop()?;
        self.all.get_mut(at)
    }

    /// Finds a lane in this epoch; one of a former ownership is not found.
    pub(crate) fn in_epoch(&mut self, lane: &Lane, epoch: Epoch) -> Option<&mut LaneState> {
        self.all.iter_mut().find(|own| own.epoch == epoch && own.lane == *lane)
    }

    /// Gives the partitions that are being read and not paused by themselves.
    pub(crate) fn readable(&self) -> Vec<Part> {
        let open = |lane: &&LaneState| lane.phase == Phase::Reading && !lane.span_full;
        self.all.iter().filter(open).map(|lane| lane.part.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(topic: &str, partition: i32, epoch: u64) -> LaneState {
        LaneState::new(
            Part {
                topic: topic.into(),
                partition,
            },
            Epoch(epoch),
            5,
            Instant::now(),
        )
    }

    #[test]
    fn a_lane_is_found_again_and_a_former_epoch_is_not() {
        let mut lanes = Lanes::default();
        lanes.insert(lane("a", 0, 1));
        lanes.insert(lane("a", 1, 2));
        lanes.insert(lane("a", 0, 3));
        assert_eq!(lanes.iter().count(), 2);
        assert_eq!(lanes.find("a", 0).unwrap().epoch, Epoch(3));
        assert!(lanes.find("b", 0).is_none());
        let old = lane_of(&Part {
            topic: "a".into(),
            partition: 0,
        });
        assert!(lanes.in_epoch(&old, Epoch(1)).is_none());
        assert!(lanes.in_epoch(&old, Epoch(3)).is_some());
    }

    #[test]
    fn a_fresh_lane_is_given_once_also_when_another_leaves() {
        let mut lanes = Lanes::default();
        (0..3).for_each(|n| lanes.insert(lane("a", n, 1)));
        let fresh = |lanes: &mut Lanes| {
            let mut all: Vec<i32> = std::iter::from_fn(|| lanes.next_fresh().map(|lane| lane.part.partition)).collect();
            all.sort_unstable();
            all
        };
        for partition in [2, 0, 2] {
            assert_eq!(lanes.find_fresh("a", partition).unwrap().part.partition, partition);
        }
        assert!(lanes.find_fresh("b", 0).is_none());
        assert_eq!((fresh(&mut lanes), fresh(&mut lanes)), (vec![0, 2], vec![]));
        lanes.find_fresh("a", 2).unwrap();
        let first = lanes.find("a", 0).unwrap().part.clone();
        lanes.remove(&first);
        assert!(fresh(&mut lanes).contains(&2));
    }

    #[test]
    fn an_end_is_exclusive_and_waits_for_what_is_held() {
        let mut lane = lane("a", 0, 1);
        lane.end = Some(6);
        assert!(!lane.is_at_end());
        lane.next = 6;
        assert!(lane.is_at_end());
        lane.held.push_back((5, RawAlert::from_bytes("x")));
        assert!(!lane.is_at_end());
    }
}
