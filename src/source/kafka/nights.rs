//! Nights: which night an instant belongs to, and which nightly topics a source reads now.
//!
//! Pure: time comes in as an argument. A night D is [D start, D+1 start) in UTC. The window of topics is bounded and
//! made of literal names, so that an expired or a late night is an absent topic and nothing else. Must not know Kafka.

use chrono::{DateTime, Days, Duration, NaiveDate, NaiveTime, Utc};

/// The placeholder in a topic's name; it becomes the night as `YYYYMMDD`.
pub const PLACEHOLDER: &str = "{night}";

/// When a night starts, in UTC: 00:00 for ZTF's topics, 12:00 for Rubin's dayObs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NightStart(NaiveTime);

impl From<crate::query::NightStart> for NightStart {
    fn from(start: crate::query::NightStart) -> Self {
        Self(start.time_of_day())
    }
}

impl NightStart {
    /// Reads `HH:MM`.
    pub fn parse(text: &str) -> Option<Self> {
        NaiveTime::parse_from_str(text, "%H:%M").ok().map(Self)
    }

    /// Gives the night that the instant belongs to.
    pub fn night_of(self, at: DateTime<Utc>) -> NaiveDate {
        (at - self.0.signed_duration_since(NaiveTime::MIN)).date_naive()
    }

    /// Gives the first instant of a night.
    pub fn begin_of(self, night: NaiveDate) -> DateTime<Utc> {
        night.and_time(self.0).and_utc()
    }

    /// Gives the first instant after a night.
    pub fn end_of(self, night: NaiveDate) -> DateTime<Utc> {
        self.begin_of(night) + Duration::days(1)
    }
}

/// What a configured topic names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopicPattern {
    /// One topic.
    Literal(String),
    /// One topic a night: the text before and after the night.
    Nightly {
        /// Before the night.
        before: String,
        /// After the night.
        after: String,
    },
    /// Every topic that the regular expression matches (`^...`).
    Regex(String),
}

impl TopicPattern {
    /// Reads a configured name.
    pub fn parse(text: &str) -> Self {
        if text.starts_with('^') {
            return Self::Regex(text.to_owned());
        }
        match text.split_once(PLACEHOLDER) {
            Some((before, after)) => Self::Nightly {
                before: before.to_owned(),
                after: after.to_owned(),
            },
            None => Self::Literal(text.to_owned()),
        }
    }

    /// Gives the night that a topic's name stands for, when the pattern is nightly and matches it.
    pub fn night_in(&self, topic: &str) -> Option<NaiveDate> {
        let Self::Nightly { before, after } = self else {
            return None;
        };
        let night = topic.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
        NaiveDate::parse_from_str(night, "%Y%m%d")
            .ok()
            .filter(|_| night.len() == 8)
    }

    fn names(&self, nights: &[NaiveDate], into: &mut Vec<String>) {
        match self {
            Self::Literal(name) | Self::Regex(name) => into.push(name.clone()),
            Self::Nightly { before, after } => {
                into.extend(
                    nights
                        .iter()
                        .map(|night| format!("{before}{}{after}", night.format("%Y%m%d"))),
                );
            }
        }
    }
}

/// The nights that nightly topics are read for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// How many nights before tonight.
    pub nights: u32,
    /// When a night starts.
    pub starts_at: NightStart,
    /// Nothing before this night, if set.
    pub first: Option<NaiveDate>,
    /// Nothing after this night, if set.
    pub last: Option<NaiveDate>,
}

/// Nights that a window may reach back at most, whatever it was asked for.
pub const NIGHTS_MAX: u32 = 60;

impl Window {
    /// Gives the nights of the window, oldest first; at most [`NIGHTS_MAX`] and tonight.
    pub fn nights(&self, now: DateTime<Utc>) -> Vec<NaiveDate> {
        let tonight = self.starts_at.night_of(now);
        let last = self.last.map_or(tonight, |last| last.min(tonight));
        let oldest = tonight - Days::new(u64::from(NIGHTS_MAX));
        let back = tonight - Days::new(u64::from(self.nights.min(NIGHTS_MAX)));
        let first = self.first.unwrap_or(back).max(oldest);
        first.iter_days().take_while(|night| *night <= last).collect()
    }

    /// Gives the names to subscribe to now, sorted and without repetition.
    pub fn topics(&self, patterns: &[TopicPattern], now: DateTime<Utc>) -> Vec<String> {
        let nights = self.nights(now);
        let mut names = Vec::new();
        for pattern in patterns {
            pattern.names(&nights, &mut names);
        }
        names.sort();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn night(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn window(nights: u32) -> Window {
        Window {
            nights,
            starts_at: NightStart::default(),
            first: None,
            last: None,
        }
    }

    #[test]
    fn a_night_is_half_open() {
        let start = NightStart::parse("12:00").unwrap();
        assert_eq!(start.night_of(at("2026-11-30T11:59:59.999Z")), night("2026-11-29"));
        assert_eq!(start.night_of(at("2026-11-30T12:00:00Z")), night("2026-11-30"));
        assert_eq!(start.begin_of(night("2026-11-30")), at("2026-11-30T12:00:00Z"));
        assert_eq!(start.end_of(night("2026-12-31")), at("2027-01-01T12:00:00Z"));
        assert_eq!(NightStart::parse("25:00"), None);
    }

    #[test]
    fn the_window_is_tonight_and_the_last_n_nights() {
        let patterns = [
            TopicPattern::parse("ztf_{night}_programid1"),
            TopicPattern::parse("extra"),
        ];
        assert_eq!(
            window(2).topics(&patterns, at("2026-12-01T02:00:00Z")),
            [
                "extra",
                "ztf_20261129_programid1",
                "ztf_20261130_programid1",
                "ztf_20261201_programid1"
            ]
        );
        assert_eq!(window(0).nights(at("2026-12-01T00:00:00Z")), [night("2026-12-01")]);
    }

    #[test]
    fn a_start_and_an_end_bound_the_window_and_nothing_reaches_back_for_ever() {
        let bounded = Window {
            first: Some(night("2026-11-20")),
            last: Some(night("2026-11-21")),
            ..window(1)
        };
        assert_eq!(
            bounded.nights(at("2026-12-01T00:00:00Z")),
            [night("2026-11-20"), night("2026-11-21")]
        );
        let old = Window {
            first: Some(night("1990-01-01")),
            ..window(1)
        };
        assert_eq!(old.nights(at("2026-12-01T00:00:00Z")).len(), NIGHTS_MAX as usize + 1);
        let future = Window {
            first: Some(night("2030-01-01")),
            ..window(1)
        };
        assert!(future.nights(at("2026-12-01T00:00:00Z")).is_empty());
    }

    #[test]
    fn a_topic_gives_its_night_back() {
        let pattern = TopicPattern::parse("ztf_{night}_programid1");
        assert_eq!(pattern.night_in("ztf_20261130_programid1"), Some(night("2026-11-30")));
        assert_eq!(pattern.night_in("ztf_20261130_programid2"), None);
        assert_eq!(pattern.night_in("ztf_2026113_programid1"), None);
        assert_eq!(TopicPattern::parse("^ztf_.*"), TopicPattern::Regex("^ztf_.*".into()));
    }
}
