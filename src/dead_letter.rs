//! Dead letters: alerts that will never be done, kept with their bytes, position and reason.
//!
//! Invariants: stored before the commit that passes them; storing one twice is one (identity: source, position,
//! sha256 of the payload). Must not know which store it is.

use futures::future::BoxFuture;

use crate::ack::Rejection;
use crate::error::BoxError;
use crate::record::{Position, RawAlert, SourceId};

/// One dead letter.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The source that delivered it.
    pub source: SourceId,
    /// Where it stands.
    pub position: Position,
    /// Its bytes and Kafka origin.
    pub raw: RawAlert,
    /// Why.
    pub why: Rejection,
    /// The delivery's attempt number.
    pub attempt: u32,
}

/// Where dead letters go.
pub trait DeadLetterStore: Send + Sync + 'static {
    /// Stores the letters durably, or fails without harm: storing the same letter again is one.
    ///
    /// # Cancel safety
    /// Callers run it to completion.
    fn store<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), BoxError>>;
}
