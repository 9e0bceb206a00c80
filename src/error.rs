//! Error classes: what a caller can do about an error, whatever raised it.
//!
//! Each concern has its own `#[non_exhaustive]` enum beside its code; here is only what they share.

/// A boxed error of a handler or of a source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What an error means for the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// Trying again may help: a time-out, a lost connection.
    Transient,
    /// This alert will never work; it becomes a dead letter and the stream goes on.
    Poison,
    /// Nothing will work until somebody acts: bad credentials, a group bound to another query.
    Fatal,
}
