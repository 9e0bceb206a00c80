//! Where partitions are read from: the group's commit where it exists, otherwise the configured start.
//!
//! Invariant: every partition gets an absolute offset that exists, before anything is fetched; a commit that does not
//! exist any more is a gap, decided by the policy and told. Must not know of rebalances.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use rdkafka::consumer::{BaseConsumer, ConsumerContext};

use super::ask::{self, Part};
use super::error::LiveError;
use super::gaps::{self, Gap, GapCause, ResetPolicy, Watermarks};
use super::nights::{NightStart, TopicPattern};
use super::place::Start;

/// How partitions get their first offset.
#[derive(Clone, Debug)]
pub(crate) struct StartPlan {
    pub(crate) start: Start,
    pub(crate) on_reset: ResetPolicy,
    pub(crate) nights: NightStart,
    pub(crate) patterns: Vec<TopicPattern>,
    /// The partitions that existed when the source started, once known: what appears later is read from its beginning,
    /// also with `latest`.
    pub(crate) known: Option<HashSet<Part>>,
    /// Partitions whose commits do not count when they are assigned for the first time.
    pub(crate) rewound: HashSet<Part>,
}

/// A partition's first offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    pub(crate) part: Part,
    pub(crate) offset: i64,
    /// The end of the partition when it was placed.
    pub(crate) high: i64,
    pub(crate) gap: Option<Gap>,
}

/// What a configured start says of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Low,
    High,
    Time(DateTime<Utc>),
    At(i64),
}

/// Where a partition is to be read from, and what it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) part: Part,
    /// The group's commit, or where the start says.
    pub(crate) offset: i64,
    pub(crate) is_committed: bool,
    pub(crate) marks: Watermarks,
}

/// Finds the first offset of each partition. With [`Start::Committed`] the group's commits come first; they do with
/// every other start too, unless they are ignored.
pub(crate) fn place<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    parts: &[Part],
    plan: &StartPlan,
    commits: Commits,
) -> Result<Vec<Placed>, LiveError> {
    let wanted = wanted(consumer, parts, plan, commits)?;
    let placed = wanted.iter().map(|w| settle(&w.part, w.offset, w.marks, plan.on_reset));
    placed.collect()
}

/// Finds where each partition is to be read from, whether that exists or not.
pub(crate) fn wanted<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    parts: &[Part],
    plan: &StartPlan,
    commits: Commits,
) -> Result<Vec<Wanted>, LiveError> {
    let committed = match commits {
        Commits::First => {
            let mut committed = ask::committed(consumer, parts)?;
            committed.retain(|part, _| !plan.rewound.contains(part));
            committed
        }
        Commits::Ignored => HashMap::new(),
    };
    let marks = ask::watermarks(consumer, parts)?;
    let wishes: HashMap<&Part, Wish> = parts
        .iter()
        .filter(|part| !committed.contains_key(part))
        .map(|part| (part, plan.wish(part)))
        .collect();
    let timed = at_times(consumer, &wishes)?;
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(marks) = marks.get(part).copied() else {
            return Err(LiveError::Call {
                doing: "read a partition's watermarks",
                cause: format!("`kafka:{}/{}` has no leader now", part.topic, part.partition),
            });
        };
        let offset = match (committed.get(part), wishes.get(part)) {
            (Some(offset), _) => *offset,
            (None, Some(Wish::At(offset))) => *offset,
            (None, Some(Wish::High)) => marks.high,
            (None, Some(Wish::Time(_))) => timed.get(part).copied().unwrap_or(marks.high),
            (None, Some(Wish::Low) | None) => marks.low,
        };
        all.push(Wanted {
            part: part.clone(),
            offset,
            is_committed: committed.contains_key(part),
            marks,
        });
    }
    Ok(all)
}

/// Whether the group's commits count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Commits {
    /// They come before the configured start.
    First,
    /// Only the configured start counts.
    Ignored,
}

impl StartPlan {
    fn wish(&self, part: &Part) -> Wish {
        let is_new = self.known.as_ref().is_some_and(|known| !known.contains(part));
        match &self.start {
            Start::Committed | Start::Earliest => Wish::Low,
            _ if is_new => Wish::Low,
            Start::Latest => Wish::High,
            Start::Time(at) => Wish::Time(*at),
            // The topic of a night is that night, whatever its messages' times say.
            Start::Night(_) if self.patterns.iter().any(|p| p.night_in(&part.topic).is_some()) => Wish::Low,
            Start::Night(night) => Wish::Time(self.nights.begin_of(*night)),
            Start::Offsets(marks) => {
                let mark = marks
                    .iter()
                    .find(|mark| *mark.topic == *part.topic && mark.partition == part.partition);
                mark.map_or(Wish::Low, |mark| Wish::At(mark.offset))
            }
        }
    }
}

fn at_times<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    wishes: &HashMap<&Part, Wish>,
) -> Result<HashMap<Part, i64>, LiveError> {
    let timed = wishes.iter().filter_map(|(part, wish)| match wish {
        Wish::Time(at) => Some(((*part).clone(), *at)),
        _ => None,
    });
    let (parts, times): (Vec<Part>, Vec<DateTime<Utc>>) = timed.unzip();
    // One start has one time.
    match times.first() {
        Some(at) => ask::first_at(consumer, &parts, at.timestamp_millis()),
        None => Ok(HashMap::new()),
    }
}

/// Takes the wanted offset if it exists; otherwise makes a gap and goes where the policy says.
pub(crate) fn settle(part: &Part, wanted: i64, marks: Watermarks, policy: ResetPolicy) -> Result<Placed, LiveError> {
    let Some(cause) = gaps::judge(wanted, marks) else {
        return Ok(Placed {
            part: part.clone(),
            offset: wanted,
            high: marks.high,
            gap: None,
        });
    };
    skip(part, wanted, marks, policy, cause)
}

/// Makes a gap from an offset that does not exist, or is not what it was, and goes where the policy says.
pub(crate) fn skip(
    part: &Part,
    from: i64,
    marks: Watermarks,
    policy: ResetPolicy,
    cause: GapCause,
) -> Result<Placed, LiveError> {
    let gap = |to| Gap {
        topic: part.topic.clone(),
        partition: part.partition,
        from,
        to,
        cause,
    };
    match gaps::target(policy, marks) {
        Some(to) => Ok(Placed {
            part: part.clone(),
            offset: to,
            high: marks.high,
            gap: Some(gap(to)),
        }),
        None => Err(LiveError::Reset(gap(marks.low))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::kafka::gaps::GapCause;

    fn part(topic: &str) -> Part {
        Part {
            topic: topic.into(),
            partition: 0,
        }
    }

    fn plan(start: Start) -> StartPlan {
        StartPlan {
            start,
            on_reset: ResetPolicy::Earliest,
            nights: NightStart::default(),
            patterns: vec![TopicPattern::parse("ztf_{night}")],
            known: Some(HashSet::from([part("old"), part("ztf_20261130")])),
            rewound: HashSet::new(),
        }
    }

    #[test]
    fn latest_skips_nothing_of_a_partition_that_appears_later() {
        assert_eq!(plan(Start::Latest).wish(&part("old")), Wish::High);
        assert_eq!(plan(Start::Latest).wish(&part("ztf_20261201")), Wish::Low);
    }

    #[test]
    fn a_nights_topic_is_read_whole_and_another_topic_by_time() {
        let night = plan(Start::Night("2026-11-30".parse().unwrap()));
        assert_eq!(night.wish(&part("ztf_20261130")), Wish::Low);
        assert!(matches!(night.wish(&part("old")), Wish::Time(_)));
    }

    #[test]
    fn a_position_that_does_not_exist_is_a_gap_or_an_error() {
        let marks = Watermarks { low: 5, high: 9 };
        let placed = settle(&part("t"), 2, marks, ResetPolicy::Earliest).unwrap();
        assert_eq!((placed.offset, placed.gap.unwrap().cause), (5, GapCause::Expired));
        let placed = settle(&part("t"), 12, marks, ResetPolicy::Latest).unwrap();
        assert_eq!((placed.offset, placed.gap.unwrap().cause), (9, GapCause::Recreated));
        assert!(matches!(
            settle(&part("t"), 2, marks, ResetPolicy::Stop),
            Err(LiveError::Reset(_))
        ));
        assert_eq!(settle(&part("t"), 9, marks, ResetPolicy::Stop).unwrap().gap, None);
    }
}
