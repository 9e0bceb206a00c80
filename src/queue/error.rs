//! Why the queue refused: every error of a put carries the item, so that nothing is lost.
//!
//! Must not know of alerts.

use std::fmt;

/// Why a put was refused; the item is inside.
#[non_exhaustive]
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum PutError<T> {
    /// A capacity is used up: wait (`put`), or put less.
    Full(T),
    /// The queue is closed: nothing can be put any more.
    Closed(T),
    /// The key is closed: reopen it, or put under another key.
    KeyClosed(T),
    /// A join or drain is going on, which refuses deferrals: put without a delay, or after it ended.
    Joining(T),
}

impl<T> PutError<T> {
    /// Gives the item back.
    pub fn into_item(self) -> T {
        match self {
            Self::Full(item) | Self::Closed(item) | Self::KeyClosed(item) | Self::Joining(item) => item,
        }
    }

    /// Makes something else of the item.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> PutError<U> {
        match self {
            Self::Full(item) => PutError::Full(f(item)),
            Self::Closed(item) => PutError::Closed(f(item)),
            Self::KeyClosed(item) => PutError::KeyClosed(f(item)),
            Self::Joining(item) => PutError::Joining(f(item)),
        }
    }

    fn text(&self) -> &'static str {
        match self {
            Self::Full(_) => "the queue is full: wait for room or put less",
            Self::Closed(_) => "the queue is closed: nothing can be put any more",
            Self::KeyClosed(_) => "the key is closed: reopen it first",
            Self::Joining(_) => "the queue is joining and refuses deferrals: put without a delay",
        }
    }
}

impl<T> fmt::Debug for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Full(_) => "Full",
            Self::Closed(_) => "Closed",
            Self::KeyClosed(_) => "KeyClosed",
            Self::Joining(_) => "Joining",
        };
        write!(f, "{name}(..)")
    }
}

impl<T> fmt::Display for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl<T> std::error::Error for PutError<T> {}

/// Why a get gave nothing.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GetError {
    /// Nothing could be served within the time.
    #[error("nothing could be served within the time")]
    Timeout,
    /// The queue is closed and empty.
    #[error("the queue is closed and empty")]
    Closed,
}

/// A drain that did not end in its time. Nothing was taken out; the queue goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue did not drain in time: `{queued}` queued, `{in_progress}` in progress, `{deferred}` deferred")]
pub struct DrainError {
    /// Items still queued.
    pub queued: usize,
    /// Items still in progress.
    pub in_progress: usize,
    /// Items still deferred.
    pub deferred: usize,
}
