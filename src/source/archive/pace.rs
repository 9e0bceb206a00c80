//! How fast alerts are settled, and so when the next block is to be claimed. Pure: time comes in as an argument.
//!
//! Invariant: the rest of a block is short when it should last under the reserve at the rate seen; while nothing settles
//! it never is, so that a slow consumer does not sit on work.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The rate is that of the last moments, not of the whole run.
const WINDOW: Duration = Duration::from_secs(5);
/// Looks kept of a window.
const LOOKS: u32 = 20;

/// Watches settlements.
#[derive(Debug)]
pub(super) struct Pace {
    reserve: Duration,
    looks: VecDeque<(Instant, u64)>,
}

impl Pace {
    pub(super) fn new(reserve: Duration) -> Self {
        Self {
            reserve,
            looks: VecDeque::new(),
        }
    }

    /// Notes that a block began, `settled` alerts being settled so far. After a pause the rate is measured anew.
    pub(super) fn begin(&mut self, now: Instant, settled: u64) {
        if self.looks.back().is_none_or(|(_, last)| *last == settled) {
            self.looks.clear();
        }
        self.look(now, settled);
    }

    /// Notes how many alerts are settled so far.
    pub(super) fn look(&mut self, now: Instant, settled: u64) {
        if self
            .looks
            .back()
            .is_some_and(|(at, _)| now.duration_since(*at) < WINDOW / LOOKS)
        {
            return;
        }
        self.looks.push_back((now, settled));
        while self.looks.len() > 2
            && self
                .looks
                .front()
                .is_some_and(|(at, _)| now.duration_since(*at) > WINDOW)
        {
            self.looks.pop_front();
        }
    }

    /// Tells whether `rest` unsettled alerts should last less than the reserve.
    pub(super) fn is_short(&self, now: Instant, settled: u64, rest: u64) -> bool {
        let Some((since, before)) = self.looks.front() else {
            return false;
        };
        let (span, count) = (
            now.duration_since(*since).as_secs_f64(),
            settled.saturating_sub(*before),
        );
        // rest / rate < reserve, without dividing by a rate of 0. Counts are far below 2^53.
        rest as f64 * span < self.reserve.as_secs_f64() * count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_block_is_wanted_two_seconds_before_the_end_and_never_before_a_settlement() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::new(Duration::from_secs(2));
        pace.begin(at(0), 0);
        assert!(!pace.is_short(at(5_000), 0, 1), "nothing settled yet");
        for second in 1..=90_u64 {
            pace.look(at(second * 1000), second);
            // One alert a second, 100 in the block: wanted when fewer than two are left.
            assert!(!pace.is_short(at(second * 1000), second, 100 - second), "{second}");
        }
        assert!(!pace.is_short(at(98_000), 98, 2));
        assert!(pace.is_short(at(99_000), 99, 1));
        // After a pause the rate is measured anew.
        pace.begin(at(200_000), 99);
        pace.begin(at(300_000), 99);
        assert!(!pace.is_short(at(300_100), 99, 1));
    }

    #[test]
    fn a_fast_consumer_claims_ahead_at_once() {
        let start = Instant::now();
        let mut pace = Pace::new(Duration::from_secs(2));
        pace.begin(start, 0);
        assert!(pace.is_short(start + Duration::from_millis(10), 100, 400));
    }
}
