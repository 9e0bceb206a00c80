//! Places: where a live read starts and ends, as text and as values.
//!
//! Pure. Half-open: a start is the first thing delivered, an end the first thing not delivered. `night:D` is the first
//! instant of the night as a start and the first instant after it as an end. Must not know how an offset is found.

use std::fmt;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use serde::{Deserialize, Deserializer};

use super::nights::NightStart;

/// One partition and an offset in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Topic name.
    pub topic: String,
    /// Partition number.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
}

/// Where a read starts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Start {
    /// Where the group committed last; where it has no commit, at the earliest.
    #[default]
    Committed,
    /// At the oldest message kept.
    Earliest,
    /// After the newest message.
    Latest,
    /// At the first message of this time or later.
    Time(DateTime<Utc>),
    /// At the beginning of a night.
    Night(NaiveDate),
    /// At these offsets; partitions not named start at the earliest.
    Offsets(Vec<Mark>),
}

/// Where a read ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum End {
    /// Never.
    #[default]
    None,
    /// At the high watermarks of all partitions when the read starts.
    Now,
    /// Before the first message of this time or later.
    Time(DateTime<Utc>),
    /// After a night.
    Night(NaiveDate),
}

/// A place that cannot be read; carries the text and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no {what}; write {allowed}")]
pub struct BadPlace {
    text: String,
    what: &'static str,
    allowed: &'static str,
}

const STARTS: &str =
    "`committed`, `earliest`, `latest`, a UTC time, `night:YYYY-MM-DD` or `kafka:TOPIC/PARTITION/OFFSET,...`";
const ENDS: &str = "`none`, `now`, a UTC time or `night:YYYY-MM-DD`";

impl Start {
    /// Reads a start.
    ///
    /// # Errors
    /// When the text is none of the forms.
    pub fn parse(text: &str) -> Result<Self, BadPlace> {
        let bad = || BadPlace {
            text: text.to_owned(),
            what: "start position",
            allowed: STARTS,
        };
        match text.trim() {
            "committed" => Ok(Self::Committed),
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            marks if marks.starts_with("kafka:") => parse_marks(marks).map(Self::Offsets).ok_or_else(bad),
            other => match night(other) {
                Some(night) => Ok(Self::Night(night)),
                None => time(other).map(Self::Time).ok_or_else(bad),
            },
        }
    }

    /// Gives the time it stands for, if it stands for one.
    pub fn time(&self, nights: NightStart) -> Option<DateTime<Utc>> {
        match self {
            Self::Time(at) => Some(*at),
            Self::Night(night) => Some(nights.begin_of(*night)),
            _ => None,
        }
    }
}

impl End {
    /// Reads an end.
    ///
    /// # Errors
    /// When the text is none of the forms.
    pub fn parse(text: &str) -> Result<Self, BadPlace> {
        match text.trim() {
            "none" => Ok(Self::None),
            "now" => Ok(Self::Now),
            other => match night(other) {
                Some(night) => Ok(Self::Night(night)),
                None => time(other).map(Self::Time).ok_or_else(|| BadPlace {
                    text: text.to_owned(),
                    what: "end position",
                    allowed: ENDS,
                }),
            },
        }
    }

    /// Gives the time it stands for, if it stands for one.
    pub fn time(&self, nights: NightStart) -> Option<DateTime<Utc>> {
        match self {
            Self::Time(at) => Some(*at),
            Self::Night(night) => Some(nights.end_of(*night)),
            _ => None,
        }
    }
}

fn parse_marks(text: &str) -> Option<Vec<Mark>> {
    text.split(',').map(|mark| parse_mark(mark.trim())).collect()
}

fn parse_mark(text: &str) -> Option<Mark> {
    let mut parts = text.strip_prefix("kafka:")?.rsplitn(3, '/');
    let offset = parts.next()?.parse().ok().filter(|offset| *offset >= 0)?;
    let partition = parts.next()?.parse().ok().filter(|partition| *partition >= 0)?;
    let topic = parts.next().filter(|topic| !topic.is_empty())?.to_owned();
    Some(Mark {
        topic,
        partition,
        offset,
    })
}

fn night(text: &str) -> Option<NaiveDate> {
    text.strip_prefix("night:")?.parse().ok()
}

/// Reads RFC 3339, or the same without a zone, which is UTC.
fn time(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(at.with_timezone(&Utc));
    }
    let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f");
    naive
        .or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M"))
        .ok()
        .map(|at| at.and_utc())
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed => f.write_str("committed"),
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::Time(at) => write!(f, "{}", at.to_rfc3339()),
            Self::Night(night) => write!(f, "night:{night}"),
            Self::Offsets(marks) => {
                for (i, mark) in marks.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}kafka:{}/{}/{}", mark.topic, mark.partition, mark.offset)?;
                }
                Ok(())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Start {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_is_read_and_written_back() {
        for text in [
            "committed",
            "earliest",
            "latest",
            "night:2026-11-30",
            "kafka:a/b/3/9,kafka:t/0/0",
        ] {
            assert_eq!(Start::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Start::parse("2026-11-30T12:00:00").unwrap(),
            Start::Time("2026-11-30T12:00:00Z".parse().unwrap())
        );
        assert_eq!(
            Start::parse("kafka:a/b/3/9").unwrap(),
            Start::Offsets(vec![Mark {
                topic: "a/b".into(),
                partition: 3,
                offset: 9
            }])
        );
    }

    #[test]
    fn what_is_no_place_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "now",
            "beginning",
            "night:2026-13-01",
            "kafka:t/0",
            "kafka:t/-1/4",
            "kafka:/0/1",
            "2026-11-30",
        ] {
            let said = Start::parse(text).unwrap_err().to_string();
            assert!(
                said.contains(&format!("`{text}`")) && said.contains("earliest"),
                "{said}"
            );
        }
        assert!(End::parse("earliest").unwrap_err().to_string().contains("`now`"));
    }

    #[test]
    fn a_night_starts_at_its_beginning_and_ends_after_it() {
        let noon = NightStart::parse("12:00").unwrap();
        let start = Start::parse("night:2026-11-30").unwrap().time(noon).unwrap();
        let end = End::parse("night:2026-11-30").unwrap().time(noon).unwrap();
        assert_eq!((end - start).num_hours(), 24);
        assert_eq!(start.to_rfc3339(), "2026-11-30T12:00:00+00:00");
    }
}
