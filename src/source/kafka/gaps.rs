//! Gaps: what a partition's watermarks say about a position in it, and what a reset skipped or repeats.
//!
//! Pure. Kafka's silent reset is switched off (`auto.offset.reset=error`): every jump of a position is decided here,
//! by a setting, and leaves a [`Gap`]. Must not know how watermarks are asked for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The oldest offset that a partition keeps and the one that its next message will get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// The oldest kept.
    pub low: i64,
    /// One after the newest.
    pub high: i64,
}

/// Where to go on when a position does not exist any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResetPolicy {
    /// At the oldest message kept: nothing more is lost.
    #[default]
    Earliest,
    /// After the newest message.
    Latest,
    /// Not at all: the stream fails with the gap.
    Stop,
}

/// Why a position does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GapCause {
    /// Retention deleted the messages before they were read.
    Expired,
    /// The topic was deleted and made again (or truncated): it ends before the position.
    Recreated,
}

/// A jump of a position that nobody asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Gap {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition number.
    pub partition: i32,
    /// The offset that was to be read next.
    pub from: i64,
    /// The offset that is read next instead.
    pub to: i64,
    /// Why.
    pub cause: GapCause,
}

impl Gap {
    /// Gives how many messages were lost for certain; none where the topic is a new one and read from its beginning.
    pub fn lost(&self) -> u64 {
        u64::try_from(self.to.saturating_sub(self.from)).unwrap_or(0)
    }
}

/// Judges a position: `None` when it exists, otherwise why not.
pub fn judge(position: i64, marks: Watermarks) -> Option<GapCause> {
    if position < marks.low {
        Some(GapCause::Expired)
    } else if position > marks.high {
        Some(GapCause::Recreated)
    } else {
        None
    }
}

/// Gives where to go on after a reset; `None` when the policy is to stop.
pub fn target(policy: ResetPolicy, marks: Watermarks) -> Option<i64> {
    match policy {
        ResetPolicy::Earliest => Some(marks.low),
        ResetPolicy::Latest => Some(marks.high),
        ResetPolicy::Stop => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Watermarks = Watermarks { low: 10, high: 20 };

    #[test]
    fn both_ends_of_what_is_kept_exist() {
        assert_eq!(judge(9, MARKS), Some(GapCause::Expired));
        assert_eq!(judge(10, MARKS), None);
        assert_eq!(judge(20, MARKS), None);
        assert_eq!(judge(21, MARKS), Some(GapCause::Recreated));
    }

    #[test]
    fn the_policy_decides_where_to_go_on() {
        assert_eq!(target(ResetPolicy::Earliest, MARKS), Some(10));
        assert_eq!(target(ResetPolicy::Latest, MARKS), Some(20));
        assert_eq!(target(ResetPolicy::Stop, MARKS), None);
    }

    #[test]
    fn a_gap_counts_what_is_lost() {
        let gap = |from, to, cause| Gap {
            topic: "t".into(),
            partition: 0,
            from,
            to,
            cause,
        };
        assert_eq!(gap(3, 10, GapCause::Expired).lost(), 7);
        assert_eq!(gap(90, 0, GapCause::Recreated).lost(), 0);
    }
}
