//! What the queue needs of threads and time, so that loom can stand in for both.
//!
//! With the feature `loom` the mutex is loom's and the clock stands still: the whole queue then runs inside
//! `loom::model`, and only there. Must not know of the queue.

#[cfg(feature = "loom")]
pub(super) use model::{Clock, Mutex, MutexGuard, sleep};
#[cfg(not(feature = "loom"))]
pub(super) use real::{Clock, Mutex, MutexGuard, sleep};

#[cfg(not(feature = "loom"))]
mod real {
    use std::time::Duration;

    use tokio::time::Instant;

    pub(in super::super) use parking_lot::{Mutex, MutexGuard};
    pub(in super::super) use tokio::time::sleep;

    /// Tokio's clock since the queue was made (so a paused clock is exact).
    pub(in super::super) struct Clock {
        origin: Instant,
    }

    impl Clock {
        pub(in super::super) fn start() -> Self {
            Self { origin: Instant::now() }
        }

        /// Nanoseconds since the start.
        pub(in super::super) fn now(&self) -> u64 {
            let since = Instant::now().duration_since(self.origin);
            since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()) // overflows after 584 years
        }

        /// The instant of a time, for a timer; a time too far for the clock is a century away.
        pub(in super::super) fn instant(&self, nanos: u64) -> Instant {
            const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
            self.origin + Duration::from_nanos(nanos).min(CENTURY)
        }
    }
}

#[cfg(feature = "loom")]
mod model {
    pub(in super::super) use loom::sync::MutexGuard;

    /// Loom's mutex with the calls of `parking_lot`'s.
    pub(in super::super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(in super::super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    /// On a clock that stands still, nobody's time comes.
    pub(in super::super) fn sleep(_within: std::time::Duration) -> std::future::Pending<()> {
        std::future::pending()
    }

    /// A clock that stands still.
    pub(in super::super) struct Clock;

    impl Clock {
        pub(in super::super) fn start() -> Self {
            Self
        }

        pub(in super::super) fn now(&self) -> u64 {
            0
        }

        pub(in super::super) fn instant(&self, _nanos: u64) -> tokio::time::Instant {
            tokio::time::Instant::now()
        }
    }
}
