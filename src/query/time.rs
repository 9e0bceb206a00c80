//! Times as people write them, taken to Julian dates in UTC: jd, MJD, ISO-8601 and nights, alone or as intervals.
//!
//! Invariants: an interval is half-open, not empty, its ends finite; an open end is infinite. No clock: nothing here
//! knows what time it is.

use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

use super::error::QueryError;

/// Days from JD 0 to the midnight that begins day 0 of the common era.
const JD_OF_DAY_ZERO: f64 = 1_721_424.5;
/// JD of MJD 0, days.
const JD_OF_MJD_ZERO: f64 = 2_400_000.5;

/// When a night begins, UTC: 00:00 as ZTF names its topics, 12:00 for Rubin's dayObs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NightStart {
    secs: u32,
}

impl NightStart {
    /// Reads `HH:MM`, UTC.
    ///
    /// # Errors
    /// Whatever is no time of day.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        match NaiveTime::parse_from_str(text, "%H:%M") {
            Ok(time) => Ok(Self {
                secs: time.num_seconds_from_midnight(),
            }),
            Err(_) => Err(QueryError::value(
                "night",
                text,
                "a night starts at a time of day in UTC, as `12:00`",
            )),
        }
    }

    /// Gives the time of day at which a night begins, UTC.
    pub fn time_of_day(self) -> NaiveTime {
        NaiveTime::from_num_seconds_from_midnight_opt(self.secs, 0).unwrap_or(NaiveTime::MIN)
    }

    /// Gives the JD (UTC, days) at which the night of a date begins.
    pub fn begins(self, date: NaiveDate) -> f64 {
        midnight(date) + f64::from(self.secs) / 86_400.0
    }
}

/// A half-open interval of Julian dates (UTC, days); an open end is infinite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JdRange {
    /// First instant inside.
    pub from: f64,
    /// First instant after.
    pub to: f64,
}

impl JdRange {
    /// Says whether an instant lies inside.
    pub fn contains(&self, jd: f64) -> bool {
        self.from <= jd && jd < self.to
    }

    /// Gives what both hold; `None` when that is nothing.
    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        let both = Self {
            from: self.from.max(other.from),
            to: self.to.min(other.to),
        };
        (both.from < both.to).then_some(both)
    }

    /// Gives the interval as `--jd` takes it.
    pub(super) fn written(&self) -> String {
        let end = |jd: f64| {
            if jd.is_finite() {
                format!("{jd:?}")
            } else {
                String::new()
            }
        };
        format!("{}..{}", end(self.from), end(self.to))
    }
}

/// Reads `--jd A..B`.
pub(super) fn jd(text: &str) -> Result<JdRange, QueryError> {
    interval("jd", text, |end| {
        end.parse()
            .map_err(|_| "write Julian dates, as `2458349.5..2458350.5`".to_owned())
    })
}

/// Reads `--mjd A..B`.
pub(super) fn mjd(text: &str) -> Result<JdRange, QueryError> {
    interval("mjd", text, |end| {
        let mjd: f64 = end
            .parse()
            .map_err(|_| "write modified Julian dates, as `58349.0..58350.0`".to_owned())?;
        Ok(exact_jd(end).unwrap_or(mjd + JD_OF_MJD_ZERO))
    })
}

/// Reads `--time A..B`.
pub(super) fn time(text: &str) -> Result<JdRange, QueryError> {
    interval("time", text, |end| {
        instant(end)
            .ok_or_else(|| "write ISO-8601 times in UTC, as `2018-08-19T03:00:00Z..2018-08-19T04:00:00Z`".into())
    })
}

/// Reads `--night D` or `--night D..E`, both nights included.
pub(super) fn night(text: &str, starts_at: NightStart) -> Result<JdRange, QueryError> {
    let refuse = |why: &str| QueryError::value("night", text, why);
    let date = |end: &str| {
        NaiveDate::parse_from_str(end, "%Y-%m-%d")
            .map_err(|_| refuse("write nights as YYYY-MM-DD: `2018-08-19` or `2018-08-19..2018-08-21`"))
    };
    let after = |date: NaiveDate| {
        date.checked_add_days(Days::new(1))
            .map_or(f64::INFINITY, |next| starts_at.begins(next))
    };
    let (first, last) = text
        .split_once("..")
        .map_or((text, text), |(a, b)| (a.trim(), b.trim()));
    if text.trim().is_empty() || (first.is_empty() && last.is_empty()) {
        return Err(refuse("name a night, as `2018-08-19`"));
    }
    let from = if first.is_empty() {
        f64::NEG_INFINITY
    } else {
        starts_at.begins(date(first.trim())?)
    };
    let to = if last.is_empty() {
        f64::INFINITY
    } else {
        after(date(last.trim())?)
    };
    if from >= to {
        return Err(refuse("the last night is before the first: swap them"));
    }
    Ok(JdRange { from, to })
}

/// Reads `A..B` with an open end allowed; `end` takes the text of an end to a jd, or says what to write.
fn interval(flag: &'static str, text: &str, end: impl Fn(&str) -> Result<f64, String>) -> Result<JdRange, QueryError> {
    let refuse = |why: &str| QueryError::value(flag, text, why);
    let Some((from, to)) = text.split_once("..") else {
        return Err(refuse(
            "an interval is written `A..B`, `A..` or `..B` (A included, B not)",
        ));
    };
    let (from, to) = (from.trim(), to.trim());
    if from.is_empty() && to.is_empty() {
        return Err(refuse("at least one end must be given; `--all` selects every alert"));
    }
    let bound = |text: &str, open: f64| match text {
        "" => Ok(open),
        _ => match end(text) {
            Ok(jd) if jd.is_finite() => Ok(jd + 0.0),
            Ok(_) => Err(refuse("an end must be finite; leave it out for an open end")),
            Err(why) => Err(refuse(&why)),
        },
    };
    let range = JdRange {
        from: bound(from, f64::NEG_INFINITY)?,
        to: bound(to, f64::INFINITY)?,
    };
    if range.from >= range.to {
        return Err(refuse("the interval is empty: A must be before B"));
    }
    Ok(range)
}

/// Adds 2,400,000.5 to a decimal MJD digit by digit, so that a jd and the same mjd are the same number.
fn exact_jd(mjd: &str) -> Option<f64> {
    let (whole, fraction) = mjd.split_once('.').unwrap_or((mjd, ""));
    let digits = |text: &str| text.len() <= 17 && text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    // One digit more, so that the half day has its place even without a fraction; 18 digits at most.
    let places = fraction.len() + 1;
    let scale = 10_u64.checked_pow(u32::try_from(places).ok()?)?;
    let sum = format!("{fraction}0").parse::<u64>().ok()? + scale / 2;
    let days = whole.parse::<u64>().ok()? + 2_400_000 + sum / scale;
    format!("{days}.{:0places$}", sum % scale).parse().ok()
}

/// Reads an ISO-8601 time; without an offset it is UTC, without a time of day it is midnight.
pub(crate) fn instant(text: &str) -> Option<f64> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(jd_of(time.naive_utc()));
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let formats = [
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M",
    ];
    let timed = formats
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    timed
        .map(jd_of)
        .or_else(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(midnight))
}

fn jd_of(time: NaiveDateTime) -> f64 {
    let of_day = f64::from(time.num_seconds_from_midnight()) + f64::from(time.nanosecond()) / 1e9;
    midnight(time.date()) + of_day / 86_400.0
}

fn midnight(date: NaiveDate) -> f64 {
    use chrono::Datelike;
    f64::from(date.num_days_from_ce()) + JD_OF_DAY_ZERO
}
