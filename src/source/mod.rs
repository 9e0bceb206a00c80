//! The `Source` trait and its contract.
//!
//! Invariants: a source talks to its [`Intake`] and to its backend, to nothing else. Must not know of decoding, of the
//! queue, or who consumes.
//!
//! # The contract
//!
//! A source reads bytes, delivers them to its intake, and makes durable what its intake says has settled. Everything
//! between is the intake's: budgets, redelivery, prefixes, dead-letter bookkeeping, when to commit. Whoever writes a
//! source sees to these points; `tests/conformance` checks them on every backend.
//!
//! 1. **Open a lane before it delivers in it** ([`Intake::open_at`]) with the seq it starts at: what was committed. A
//!    lane that comes back is opened again; whatever was in its former epoch no longer counts.
//! 2. **Take a permit, then read or deliver.** One permit per alert, of at least its payload's bytes. A source that
//!    must never wait (Kafka's poll thread) uses [`Intake::try_reserve`]; on `Full` it stops reading and keeps its
//!    session alive, and goes on at a low-water mark of [`Intake::budget`]. `LaneFull` stops that lane alone.
//! 3. **Deliver each lane in order**, every seq above the one before. Gaps are fine; a position that holds no alert is
//!    [passed over](Intake::pass), what cannot be read is [delivered as rejected](Intake::deliver_rejected), so that no
//!    position is dropped in silence. An empty payload is an alert like any other.
//! 4. **Take commits all the time**, also while it waits for room, and while it reads nothing. For each batch: store the
//!    dead letters, by [`Intake::store_dead_letters`] or in the commit's own transaction; write the commit, fenced, so
//!    that a former owner changes nothing; confirm it by [`Intake::committed`]. A commit tells the whole state of its
//!    lane and epoch: a later one covers an earlier one that failed, and an unconfirmed one comes again after a second.
//!    A backend that only knows prefixes stores `upto` and ignores the rest.
//! 5. **`sync` means on disk.** A source may confirm other commits by [`Intake::written`] when they are not yet safe
//!    against a crash of the backend; an empty batch then asks it to make them so.
//! 6. **Give lanes up in order:** [`Intake::revoke`], write what it returns, confirm it, and only then let the next
//!    owner have the lane. A lane that is already somebody else's is [lost](Intake::lose): nothing of it may be written.
//! 7. **End.** A lane with an end is [sealed](Intake::seal) after its last alert; its commit says `finished`. When the
//!    input has an end, say so ([`Intake::end_of_input`]) or return when everything is confirmed. When the stream is
//!    [closing](Intake::closing), deliver nothing more, go on committing until [`Intake::commits`] gives `None`, and
//!    return. Return an error when the last commit could not be confirmed within [`Intake::commit_within`].
//! 8. **Errors.** What trying again may cure is the source's own to retry, with back-off, bounded logs and no loss.
//!    It returns an error only when nothing more can come, and says in words what somebody should do.
//! 9. **No detached work.** What it starts (threads, tasks, connections) ends before `run` returns, and also when its
//!    future is dropped, which happens when it does not end within its time, and in an abort.
//!
//! # Cancel safety
//!
//! | call | dropped half-way |
//! | --- | --- |
//! | `AlertStream::next`, [`Intake::reserve`], [`Intake::commits`] | nothing taken |
//! | [`Intake::closing`], [`Intake::settled`] | only the waiting stops |
//! | [`Intake::revoke`] | the lanes stay open but stopped: call it again, or lose them |
//! | [`Intake::store_dead_letters`] | run it to completion: put it into a branch's body, not into the `select!` |
//! | `open`, `deliver`, `pass`, `seal`, `committed`, `written`, `lose`, settling | not async |
//! | `StreamControl::flush` | only the waiting stops |
//! | `StreamControl::shutdown` | the stream goes on closing within the same bounds |
//! | [`Source::run`] | the source is cut off: nothing more is committed, open deliveries count as released |
//!
//! # A source in full
//!
//! ```
//! use alertstream::record::{Lane, Position, RawAlert, SourceId};
//! use alertstream::source::intake::Intake;
//! use alertstream::source::{Source, SourceError};
//! use alertstream::stream::{StreamConfig, open};
//! use futures::{FutureExt, StreamExt, future::BoxFuture};
//!
//! /// Counts to `upto`, and forgets where it was.
//! struct Counter {
//!     id: SourceId,
//!     upto: u64,
//! }
//!
//! impl Source for Counter {
//!     fn id(&self) -> &SourceId {
//!         &self.id
//!     }
//!
//!     fn run(self: Box<Self>, intake: Intake) -> BoxFuture<'static, Result<(), SourceError>> {
//!         async move {
//!             let lane = Lane::Memory(0);
//!             intake.open(lane.clone());
//!             let read = async {
//!                 for seq in 0..self.upto {
//!                     let text = format!("alert {seq}");
//!                     let Some(permit) = intake.reserve(&lane, text.len()).await else { return };
//!                     intake.deliver(permit, Position { lane: lane.clone(), seq }, RawAlert::from_bytes(text));
//!                 }
//!                 intake.seal(&lane);
//!                 intake.end_of_input();
//!             };
//!             let commit = async {
//!                 while let Some(batch) = intake.commits().await {
//!                     let stored = intake.store_dead_letters(&batch).await;
//!                     stored.map_err(|cause| SourceError::Unconfirmed { source_id: self.id.clone(), cause })?;
//!                     intake.committed(&batch); // it has nowhere to write
//!                 }
//!                 Ok(())
//!             };
//!             futures::join!(read, commit).1
//!         }
//!         .boxed()
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let source = Counter { id: SourceId::new("counter"), upto: 3 };
//! let (alerts, _control) = open(Box::new(source), StreamConfig::default());
//! assert_eq!(alerts.map(|delivery| delivery.unwrap().ack()).count().await, 3);
//! # }
//! ```

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
///
/// The module's chapter is its contract.
pub trait Source: Send + 'static {
    /// The source's name.
    fn id(&self) -> &SourceId;

    /// Runs until the source ends or the intake closes; returns after the last commit was tried.
    ///
    /// # Errors
    /// What keeps it from going on, or [`SourceError::Unconfirmed`] when the last commit was not confirmed.
    ///
    /// # Cancel safety
    /// Dropped, the source is cut off: nothing more is committed, and what it started ends.
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
    #[error(
        "source `{source_id}`: the last commit could not be confirmed, its alerts will be delivered again: {cause}"
    )]
    Unconfirmed {
        /// The source's name.
        source_id: SourceId,
        /// What happened.
        cause: BoxError,
    },
    /// A position stayed unsettled for `stall_after` and kept its source from going on.
    #[error(
        "source `{source_id}` is stalled: `{position}` has not been settled; look at what handles it, or raise `stall_after`"
    )]
    Stalled {
        /// The source's name.
        source_id: SourceId,
        /// The unsettled position.
        position: Position,
    },
}

impl SourceError {
    /// Gives the source's name.
    pub fn source_id(&self) -> &SourceId {
        match self {
            Self::Backend { source_id, .. } | Self::Unconfirmed { source_id, .. } | Self::Stalled { source_id, .. } => {
                source_id
            }
        }
    }

    /// Says what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Backend { class, .. } => *class,
            Self::Unconfirmed { .. } => ErrorClass::Transient,
            Self::Stalled { .. } => ErrorClass::Fatal,
        }
    }
}
