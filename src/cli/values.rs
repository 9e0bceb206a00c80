//! What several flags take alike: seconds, spans of idleness, dates.
//!
//! Invariant: what is refused is told with an example of what to write. Must not know whose flags they are.

use std::time::Duration;

use chrono::NaiveDate;

/// Reads seconds, 0 or more.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "give seconds, 0 or more, as `2.5`".into())
}

/// Reads how long nothing may come. After no time at all a run would end before its first alert.
pub(super) fn idle_seconds(text: &str) -> Result<Duration, String> {
    seconds(text)
        .ok()
        .filter(|seconds| !seconds.is_zero())
        .ok_or_else(|| "give seconds, more than 0, as `2.5`: so long nothing must come".into())
}

/// Reads a date.
pub(super) fn date(text: &str) -> Result<NaiveDate, String> {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| "write a date as YYYY-MM-DD, such as `2018-08-19`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_at_all_is_no_idleness() {
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(idle_seconds("2.5"), Ok(Duration::from_millis(2500)));
        for wrong in ["0", "0.0", "-1", "soon", "inf", "NaN"] {
            assert!(idle_seconds(wrong).unwrap_err().contains("more than 0"), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_date_is_told_how_dates_are_written() {
        assert!(date("2026-03-09").is_ok());
        for wrong in ["2026-3-99", "2026/03/09", "tonight", ""] {
            assert!(date(wrong).unwrap_err().contains("YYYY-MM-DD"), "{wrong}");
        }
    }
}
