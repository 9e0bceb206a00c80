//! Budgets that streams share: bytes of unsettled alerts, and the number of deliveries of a run.
//!
//! Invariants: the bytes given out never exceed the budget, but for one alert above the whole of it, which is
//! admitted alone; waiters are served in order, so a large alert is not overtaken for ever. Must not know of lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What the smallest alert is charged, bytes: it bounds the number of empty ones.
pub const LEAST_CHARGE: usize = 512;

/// A budget of bytes for delivered and not yet settled alerts. Clones share it, so several streams can.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    free: Arc<Semaphore>,
    bytes_max: usize,
}

impl ByteBudget {
    /// Makes a budget of `bytes_max` bytes (at least one alert's least charge).
    pub fn new(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.clamp(LEAST_CHARGE, Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
        }
    }

    /// Gives the size of the whole budget, bytes.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Gives what is free now, bytes.
    pub fn available(&self) -> usize {
        self.free.available_permits()
    }

    /// Gives what is taken now, bytes; an alert above the whole budget counts as the whole budget.
    pub fn used(&self) -> usize {
        self.bytes_max.saturating_sub(self.available())
    }

    pub(crate) fn try_take(&self, bytes: usize) -> Option<Charge> {
        self.try_take_most(std::iter::once(bytes)).map(|(_, charge)| charge)
    }

    /// Takes the bytes of as many alerts of a run as there are bytes for, in one step: how many, and the charge to be
    /// [split](Charge::split) among them; `None` when there are none for the first.
    pub(crate) fn try_take_most(&self, run: impl Iterator<Item = usize>) -> Option<(usize, Charge)> {
        let free = u32::try_from(self.available()).unwrap_or(u32::MAX);
        let (mut alerts, mut sum) = (0, 0_u32);
        for bytes in run {
            match sum.checked_add(self.charge(bytes)).filter(|sum| *sum <= free) {
                Some(more) => (alerts, sum) = (alerts + 1, more),
                None => break,
            }
        }
        if alerts == 0 {
            return None;
        }
        // When another stream was quicker, the next look has less to give.
        self.free.try_acquire_many(sum).ok()?.forget();
        Some((alerts, self.charged(sum)))
    }

    /// Waits in line for the bytes; dropped half-way, nothing is taken.
    pub(crate) async fn take(&self, bytes: usize) -> Option<Charge> {
        let sum = self.charge(bytes);
        self.free.acquire_many(sum).await.ok()?.forget();
        Some(self.charged(sum))
    }

    fn charged(&self, bytes: u32) -> Charge {
        let budget = Arc::new(self.clone());
        Charge { budget, bytes }
    }

    /// Clamps to the whole budget: what is above it waits for all of it and is then alone.
    fn charge(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.max(LEAST_CHARGE).min(self.bytes_max)).unwrap_or(u32::MAX)
    }
}

/// Bytes that were taken; dropping it gives them back.
///
/// The charges of one run share a reference to their budget of their own, so that the thread that takes and those that
/// give back do not count on one cache line.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<ByteBudget>,
    bytes: u32,
}

impl Charge {
    /// Splits off what an alert of `bytes` bytes is charged, at most all of it.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let bytes = self.budget.charge(bytes).min(self.bytes);
        self.bytes -= bytes;
        Self {
            budget: self.budget.clone(),
            bytes,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.free.add_permits(self.bytes as usize);
        }
    }
}

/// A number of deliveries that streams share: the last one taken closes them all. Clones share it.
#[derive(Clone, Debug)]
pub struct DeliveryQuota {
    left: Arc<AtomicU64>,
    used_up: CancellationToken,
}

impl DeliveryQuota {
    /// Makes a quota of `deliveries`; a redelivery takes one too.
    pub fn new(deliveries: u64) -> Self {
        let quota = Self {
            left: Arc::new(AtomicU64::new(deliveries)),
            used_up: CancellationToken::new(),
        };
        if deliveries == 0 {
            quota.used_up.cancel();
        }
        quota
    }

    /// Gives the number of deliveries left.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Waits until the last delivery was taken.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn used_up(&self) {
        self.used_up.cancelled().await;
    }

    pub(crate) fn take(&self) -> Taken {
        let before = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        match before {
            Ok(1) => {
                self.used_up.cancel();
                Taken::Last
            }
            Ok(_) => Taken::One,
            Err(_) => Taken::None,
        }
    }
}

/// What [`DeliveryQuota::take`] gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    One,
    Last,
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_above_the_whole_budget_is_admitted_alone() {
        let budget = ByteBudget::new(10_000);
        let small = budget.try_take(600).unwrap();
        assert!(budget.try_take(50_000).is_none());
        drop(small);
        let large = budget.try_take(50_000).unwrap();
        assert_eq!(budget.available(), 0);
        assert!(budget.try_take(1).is_none());
        drop(large);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn empty_alerts_are_charged_too() {
        let budget = ByteBudget::new(2 * LEAST_CHARGE);
        let held: Vec<_> = std::iter::from_fn(|| budget.try_take(0)).collect();
        assert_eq!(held.len(), 2);
    }

    #[test]
    fn a_run_is_taken_at_once_and_given_back_alert_by_alert() {
        let budget = ByteBudget::new(10_000);
        let sizes = [600, 5_000, 0];
        let (3, mut run) = budget.try_take_most(sizes.into_iter()).unwrap() else {
            panic!("all of them")
        };
        assert_eq!(budget.used(), 600 + 5_000 + LEAST_CHARGE);
        let (some, charge) = budget.try_take_most([3_000, 700, 600].into_iter()).unwrap();
        assert_eq!((some, charge.bytes), (2, 3_700));
        drop(charge);
        assert!(budget.try_take_most([4_000, 1].into_iter()).is_none());
        let mut charges: Vec<_> = sizes.into_iter().map(|bytes| run.split(bytes)).collect();
        drop(run);
        drop(charges.remove(1));
        assert_eq!(budget.used(), 600 + LEAST_CHARGE);
        drop(charges);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_quota_gives_exactly_its_number() {
        let quota = DeliveryQuota::new(2);
        assert_eq!(
            [quota.take(), quota.take(), quota.take()],
            [Taken::One, Taken::Last, Taken::None]
        );
        assert!(quota.used_up.is_cancelled());
    }
}
