//! Where a bounded read ends: one snapshot over all partitions of all topics, not the first partition's silence.
//!
//! Invariants: an end, once found, never moves; a partition that appears after the snapshot has nothing to read. Must
//! not know of deliveries.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use rdkafka::consumer::{BaseConsumer, ConsumerContext};

use super::ask::{self, Part};
use super::error::LiveError;
use super::nights::{NightStart, TopicPattern};
use super::place::End;

/// What of a partition is inside a bounded read: from the oldest offset kept at the snapshot to before the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bound {
    low: i64,
    end: i64,
}

/// The ends of one read.
pub(crate) struct Ends {
    end: End,
    time: Option<DateTime<Utc>>,
    patterns: Vec<TopicPattern>,
    bounds: HashMap<Part, Bound>,
    found: bool,
}

impl Ends {
    pub(crate) fn new(end: End, nights: NightStart, patterns: Vec<TopicPattern>) -> Self {
        let time = end.time(nights);
        Self {
            end,
            time,
            patterns,
            bounds: HashMap::new(),
            found: false,
        }
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.end != End::None
    }

    pub(crate) fn is_found(&self) -> bool {
        self.found
    }

    /// Says whether the snapshot is to be taken now.
    pub(crate) fn is_due(&self, now: DateTime<Utc>) -> bool {
        self.is_bounded() && !self.found && self.time.is_none_or(|time| time <= now)
    }

    /// Gives the end's time while it is in the future: a message of that time or later ends its partition.
    pub(crate) fn future_millis(&self) -> Option<i64> {
        if self.found {
            None
        } else {
            self.time.map(|time| time.timestamp_millis())
        }
    }

    /// Takes the snapshot.
    pub(crate) fn find<C: ConsumerContext>(
        &mut self,
        consumer: &BaseConsumer<C>,
        parts: &[Part],
    ) -> Result<(), LiveError> {
        let marks = ask::watermarks(consumer, parts)?;
        let by_time: Vec<Part> = parts.iter().filter(|part| self.ends_by_time(part)).cloned().collect();
        let timed = match self.time {
            Some(time) if !by_time.is_empty() => ask::first_at(consumer, &by_time, time.timestamp_millis())?,
            _ => HashMap::new(),
        };
        for (part, marks) in marks {
            let end = timed.get(&part).copied().unwrap_or(marks.high);
            self.bounds.entry(part).or_insert(Bound { low: marks.low, end });
        }
        self.found = true;
        Ok(())
    }

    /// A nightly topic is its night whole; others end by their messages' times.
    fn ends_by_time(&self, part: &Part) -> bool {
        let is_nightly = self
            .patterns
            .iter()
            .any(|pattern| pattern.night_in(&part.topic).is_some());
        self.time.is_some() && !(is_nightly && matches!(self.end, End::Night(_)))
    }

    /// Ends one partition before `offset`, whose message is of the end's time or later.
    pub(crate) fn end_at(&mut self, part: &Part, offset: i64) {
        self.bounds.entry(part.clone()).or_insert(Bound { low: 0, end: offset });
    }

    /// Gives the end of a partition that is read from `start` on; `None` while it is open.
    pub(crate) fn of(&self, part: &Part, start: i64, high: Option<i64>) -> Option<i64> {
        if let Some(bound) = self.bounds.get(part) {
            return Some(bound.end);
        }
        // Names of a regular expression are known only once they are assigned.
        let by_regex = self
            .patterns
            .iter()
            .any(|pattern| matches!(pattern, TopicPattern::Regex(_)));
        match (self.found, by_regex) {
            (true, true) => Some(high.unwrap_or(start)),
            (true, false) => Some(start),
            (false, _) => None,
        }
    }

    /// Gives the partitions that had something to read and where they end: when the group committed all of them, the
    /// read is over for everyone.
    pub(crate) fn to_commit(&self) -> Vec<(Part, i64)> {
        let full = self.bounds.iter().filter(|(_, bound)| bound.low < bound.end);
        full.map(|(part, bound)| (part.clone(), bound.end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(topic: &str, partition: i32) -> Part {
        Part {
            topic: topic.into(),
            partition,
        }
    }

    #[test]
    fn what_appears_after_the_snapshot_has_nothing_to_read() {
        let mut ends = Ends::new(End::Now, NightStart::default(), vec![TopicPattern::parse("t")]);
        assert_eq!(ends.of(&part("t", 0), 3, None), None);
        ends.bounds.insert(part("t", 0), Bound { low: 0, end: 7 });
        ends.found = true;
        assert_eq!(ends.of(&part("t", 0), 3, None), Some(7));
        assert_eq!(ends.of(&part("t", 1), 3, None), Some(3));
    }

    #[test]
    fn empty_partitions_are_waited_for_by_nobody() {
        let mut ends = Ends::new(End::Now, NightStart::default(), Vec::new());
        ends.bounds.insert(part("t", 0), Bound { low: 4, end: 4 });
        ends.bounds.insert(part("t", 1), Bound { low: 0, end: 4 });
        assert_eq!(ends.to_commit(), [(part("t", 1), 4)]);
    }

    #[test]
    fn a_future_end_is_due_at_its_time_and_not_before() {
        let time: DateTime<Utc> = "2026-12-01T00:00:00Z".parse().unwrap();
        let ends = Ends::new(End::Time(time), NightStart::default(), Vec::new());
        assert!(!ends.is_due(time - chrono::Duration::milliseconds(1)));
        assert!(ends.is_due(time));
        assert_eq!(ends.future_millis(), Some(time.timestamp_millis()));
        assert!(!Ends::new(End::None, NightStart::default(), Vec::new()).is_due(time));
    }
}
