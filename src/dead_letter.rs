//! Dead letters: alerts that will never be done, kept with their bytes, position and reason.
//!
//! Invariants: stored before the commit that passes them; storing one twice is one (identity: source, position,
//! sha256 of the payload). Must not know which source it serves. Two stores are here: one for tests, and one that
//! only logs, for when no database is configured.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

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

impl DeadLetter {
    /// Says whether the other is the same letter: same source, position and payload.
    pub fn is_same(&self, other: &DeadLetter) -> bool {
        self.source == other.source && self.position == other.position && self.raw.payload == other.raw.payload
    }
}

/// Where dead letters go.
pub trait DeadLetterStore: Send + Sync + 'static {
    /// Stores the letters durably, or fails without harm: storing the same letter again is one.
    ///
    /// # Errors
    /// Whatever kept the letters from being durable; the caller tries again.
    ///
    /// # Cancel safety
    /// Callers run it to completion.
    fn store<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// A store that keeps nothing: each letter becomes one log line with its position and reason.
///
/// For runs without a database; what it "stored" can only be read again from its source.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStore;

impl DeadLetterStore for LogStore {
    fn store<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), BoxError>> {
        for letter in letters {
            tracing::warn!(
                source = %letter.source, position = %letter.position, reason = %letter.why.reason,
                message = %letter.why.message, bytes = letter.raw.payload.len(), "dead letter, not stored: no database"
            );
        }
        futures::future::ready(Ok(())).boxed()
    }
}

/// A store in memory, for tests: it can be made to fail. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Stored>>,
}

#[derive(Default)]
struct Stored {
    letters: Vec<DeadLetter>,
    down: bool,
    refused: u64,
}

impl MemoryStore {
    /// Makes an empty store that works.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every later call fail.
    pub fn go_down(&self) {
        self.inner.lock().down = true;
    }

    /// Makes later calls work again.
    pub fn come_up(&self) {
        self.inner.lock().down = false;
    }

    /// Gives the letters stored so far, each once, in order.
    pub fn letters(&self) -> Vec<DeadLetter> {
        self.inner.lock().letters.clone()
    }

    /// Gives the number of calls that failed.
    pub fn refused(&self) -> u64 {
        self.inner.lock().refused
    }
}

impl DeadLetterStore for MemoryStore {
    fn store<'a>(&'a self, letters: &'a [DeadLetter]) -> BoxFuture<'a, Result<(), BoxError>> {
        let mut stored = self.inner.lock();
        let answer = if stored.down {
            stored.refused += 1;
            Err("the dead-letter store is down".into())
        } else {
            for letter in letters {
                if !stored.letters.iter().any(|old| old.is_same(letter)) {
                    stored.letters.push(letter.clone());
                }
            }
            Ok(())
        };
        futures::future::ready(answer).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Lane;

    #[tokio::test]
    async fn storing_twice_is_once() {
        let (store, at) = (
            MemoryStore::new(),
            Position {
                lane: Lane::Memory(0),
                seq: 1,
            },
        );
        let letter = DeadLetter {
            source: SourceId::new("s"),
            position: at,
            raw: RawAlert::from_bytes("x"),
            why: Rejection::new("truncated", "ends in the middle"),
            attempt: 1,
        };
        store.go_down();
        assert!(store.store(std::slice::from_ref(&letter)).await.is_err());
        store.come_up();
        store.store(&[letter.clone(), letter.clone()]).await.unwrap();
        store.store(&[letter]).await.unwrap();
        assert_eq!((store.letters().len(), store.refused()), (1, 1));
    }
}
