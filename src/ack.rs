//! Settlements: what became of a delivery, and the token through which it is said.
//!
//! Invariants: a token settles once; dropping it releases; the alert's bytes go back with it, so that one that is not
//! done can be given again. Settling is synchronous, infallible and local: it never
//! waits and never touches a service. Must not know which source or lane type it serves.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::record::RawAlert;

/// Why an alert will never be done: the reason class and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Machine-readable class: `truncated`, `not_avro`, `handler`, `panic`, `timeout`, `kills_consumer`, `unknown_schema`...
    pub reason: Cow<'static, str>,
    /// What happened, for a person.
    pub message: String,
    /// Handler calls (tries) made before giving up; 0 when no handler saw it.
    pub tries: u32,
}

impl Rejection {
    /// Makes a rejection that no handler call led to.
    pub fn new(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            tries: 0,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Done.
    Ack,
    /// Not done; give it again.
    Release,
    /// Never will be done: it becomes a dead letter.
    Reject(Rejection),
}

/// The way back to a source's intake; all that a token knows.
pub trait Settle: Send + Sync {
    /// Records the settlement of the delivery `key` (the intake's own number of it), and takes its alert back.
    ///
    /// It is called from any thread, also from a `Drop`: it must neither wait nor panic.
    fn settle(&self, key: u64, raw: RawAlert, what: Settlement);

    /// Says whether settling the delivery `key` would still count: not after its lane was lost or its lease ran out.
    fn is_open(&self, _key: u64) -> bool {
        true
    }

    /// The delivery `key`, of `bytes` bytes, waits for something from outside: its lane is to bring no more until it
    /// goes on.
    fn set_aside(&self, _key: u64, _bytes: usize) {}

    /// The delivery `key` goes on.
    fn take_up(&self, _key: u64) {}
}

/// The affine right to settle one delivery. Dropping it releases the delivery.
#[must_use = "dropping a token releases its delivery"]
pub struct AckToken {
    settle: Option<Arc<dyn Settle>>,
    key: u64,
    raw: RawAlert,
}

impl AckToken {
    /// Makes the token of delivery `key`, which gives this alert back.
    pub fn new(settle: Arc<dyn Settle>, key: u64, raw: RawAlert) -> Self {
        Self {
            settle: Some(settle),
            key,
            raw,
        }
    }

    /// Gives the alert.
    pub fn raw(&self) -> &RawAlert {
        &self.raw
    }

    /// Says whether settling would still count.
    pub fn is_open(&self) -> bool {
        self.settle.as_ref().is_some_and(|settle| settle.is_open(self.key))
    }

    /// Says that the delivery waits for something from outside; see [`Settle::set_aside`].
    pub fn set_aside(&self) {
        if let Some(settle) = &self.settle {
            settle.set_aside(self.key, self.raw.bytes_kept());
        }
    }

    /// Says that the delivery goes on.
    pub fn take_up(&self) {
        if let Some(settle) = &self.settle {
            settle.take_up(self.key);
        }
    }

    /// Settles the delivery.
    pub fn settle(mut self, what: Settlement) {
        if let Some(settle) = self.settle.take() {
            settle.settle(self.key, std::mem::take(&mut self.raw), what);
        }
    }
}

impl Drop for AckToken {
    fn drop(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle.settle(self.key, std::mem::take(&mut self.raw), Settlement::Release);
        }
    }
}

impl fmt::Debug for AckToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AckToken")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(u64, RawAlert, Settlement)>>);

    impl Settle for Heard {
        fn settle(&self, key: u64, raw: RawAlert, what: Settlement) {
            self.0.lock().push((key, raw, what));
        }
    }

    fn alert() -> RawAlert {
        RawAlert::from_bytes("x")
    }

    #[test]
    fn a_token_settles_once() {
        let heard = Arc::new(Heard::default());
        AckToken::new(heard.clone(), 7, alert()).settle(Settlement::Ack);
        assert_eq!(*heard.0.lock(), [(7, alert(), Settlement::Ack)]);
    }

    #[test]
    fn a_dropped_token_releases() {
        let heard = Arc::new(Heard::default());
        drop(AckToken::new(heard.clone(), 3, alert()));
        assert_eq!(*heard.0.lock(), [(3, alert(), Settlement::Release)]);
    }

    #[test]
    fn a_panic_releases() {
        let heard = Arc::new(Heard::default());
        let token = AckToken::new(heard.clone(), 1, alert());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = token;
            std::panic::panic_any("handler");
        }));
        assert!(caught.is_err());
        assert_eq!(*heard.0.lock(), [(1, alert(), Settlement::Release)]);
    }
}
