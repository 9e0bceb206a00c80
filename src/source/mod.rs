//! The `Source` trait and its contract.
//!
//! (The stream-core owner writes the contract chapter here.)

pub mod archive;
pub mod files;
pub mod intake;
pub mod kafka;
pub mod memory;

use futures::future::BoxFuture;

use crate::error::{BoxError, ErrorClass};
use crate::record::{Position, SourceId};
use intake::Intake;

/// Where alerts come from: reads bytes, delivers them to its intake, makes its intake's commits durable.
pub trait Source: Send + 'static {
    /// The source's name.
    fn id(&self) -> &SourceId;
    /// Runs until the source ends or the intake closes; returns after the last commit was tried.
    fn run(self: Box<Self>, intake: Intake) -> BoxFuture<'static, Result<(), SourceError>>;
}

/// Why a source stopped.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The backend failed.
    #[error("source `{source_id}`: {cause}")]
    Backend {
        /// The source's name.
        source_id: SourceId,
        /// What it means for the stream.
        class: ErrorClass,
        /// What happened.
        cause: BoxError,
    },
    /// The last commit could not be confirmed: its alerts will be delivered again.
    #[error("source `{source_id}`: the last commit could not be confirmed: {cause}")]
    Unconfirmed {
        /// The source's name.
        source_id: SourceId,
        /// What happened.
        cause: BoxError,
    },
    /// A position stayed unsettled for `stall_after` while the span behind it was full.
    #[error("source `{source_id}` is stalled at `{position}`")]
    Stalled {
        /// The source's name.
        source_id: SourceId,
        /// The unsettled position.
        position: Position,
    },
}
