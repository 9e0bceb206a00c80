//! Settlements: what became of a delivery, and the token through which it is said.
//!
//! Invariants: a token settles once; dropping it releases. Settling is synchronous, infallible and local: it never
//! waits and never touches a service. Must not know which source or lane type it serves.

use std::borrow::Cow;
use std::sync::Arc;

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
    /// Records the settlement of the delivery `key` (the intake's own number of it).
    fn settle(&self, key: u64, what: Settlement);
}

/// The affine right to settle one delivery. Dropping it releases the delivery.
#[must_use = "dropping a token releases its delivery"]
pub struct AckToken {
    settle: Option<Arc<dyn Settle>>,
    key: u64,
}

impl AckToken {
    /// Makes the token of delivery `key`.
    pub fn new(settle: Arc<dyn Settle>, key: u64) -> Self {
        Self {
            settle: Some(settle),
            key,
        }
    }

    /// Settles the delivery.
    pub fn settle(mut self, what: Settlement) {
        if let Some(settle) = self.settle.take() {
            settle.settle(self.key, what);
        }
    }
}

impl Drop for AckToken {
    fn drop(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle.settle(self.key, Settlement::Release);
        }
    }
}
