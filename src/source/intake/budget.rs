//! Budgets that streams share: bytes of unsettled alerts, and the number of deliveries of a run.
//!
//! Invariants: the bytes given out never exceed the budget, but for one alert above the whole of it, which is
//! admitted alone; waiters are served in order, so a large alert is not overtaken for ever. Must not know of lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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

    pub(crate) fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_many_owned(self.charge(bytes)).ok()
    }

    /// Waits in line for the bytes; dropped half-way, nothing is taken.
    pub(crate) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_many_owned(self.charge(bytes)).await.ok()
    }

    /// Clamps to the whole budget: what is above it waits for all of it and is then alone.
    fn charge(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.max(LEAST_CHARGE).min(self.bytes_max)).unwrap_or(u32::MAX)
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
    fn a_quota_gives_exactly_its_number() {
        let quota = DeliveryQuota::new(2);
        assert_eq!(
            [quota.take(), quota.take(), quota.take()],
            [Taken::One, Taken::Last, Taken::None]
        );
        assert!(quota.used_up.is_cancelled());
    }
}
