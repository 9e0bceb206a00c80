//! When a delivery last happened, for runs that end when nothing comes any more.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The time of the last delivery of all sources; the start's before the first.
#[derive(Debug)]
pub(super) struct Deliveries {
    last: watch::Sender<Instant>,
}

impl Deliveries {
    /// Begins to count now.
    pub(super) fn new() -> Self {
        Self {
            last: watch::Sender::new(Instant::now()),
        }
    }

    /// Says that something was delivered.
    pub(super) fn happened(&self) {
        self.last.send_replace(Instant::now());
    }

    /// Waits until nothing was delivered for so long; `None` waits for ever.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn idle(&self, after: Option<Duration>) {
        let Some(after) = after else {
            return std::future::pending().await;
        };
        loop {
            let last = *self.last.borrow();
            tokio::time::sleep_until(last + after).await;
            if *self.last.borrow() == last {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idleness_counts_from_the_last_delivery() {
        let start = Instant::now();
        let deliveries = Deliveries::new();
        let waiting = deliveries.idle(Some(Duration::from_secs(5)));
        tokio::pin!(waiting);
        assert!(
            tokio::time::timeout(Duration::from_secs(3), waiting.as_mut())
                .await
                .is_err()
        );
        deliveries.happened();
        waiting.await;
        assert_eq!(start.elapsed(), Duration::from_secs(8));
    }
}
