//! The files source: files, folders, `.tar`, `.tar.gz` and `.tgz`, in sorted order, one lane per file or member.
//!
//! Invariants: nothing is passed over in silence, what cannot be read becomes a dead letter with its reason; in memory
//! is one file beside what the byte budget covers; commits move nothing, so a second run reads everything again. Must
//! not know how a packet is decoded: what cuts a container file into its records is given to it.
//!
//! A lane is `PATH`, or `PATH!MEMBER` for a member of an archive (`~2` is appended when a name comes a second time);
//! `seq` is the record's number, from 1. An archive found in a folder is opened; one inside an archive is a member as
//! any other. Links and devices inside a folder or an archive are refused, links to files in a folder are followed.

mod archive;
mod heads;
mod progress;
mod reader;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;

use super::intake::Intake;
use super::{Source, SourceError};
use crate::ack::Rejection;
use crate::error::ErrorClass;
use crate::record::SourceId;

pub use heads::heads;
pub use progress::FilesProgress;
use reader::Reader;

/// Cuts a file into the packets of its records. A file that cannot be cut becomes a dead letter with the given reason.
/// The decoder's own is `|file| decoder.split(file).map_err(Into::into)`.
pub type Split = Arc<dyn Fn(&Bytes) -> Result<Vec<Bytes>, Rejection> + Send + Sync>;

/// Largest file or member that is read, bytes; a larger one is refused.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Reads files once, in order, and ends.
pub struct FilesSource {
    id: SourceId,
    paths: Vec<PathBuf>,
    split: Split,
    progress: FilesProgress,
}

impl FilesSource {
    /// Makes a source of these files and folders, in this order.
    pub fn new(id: SourceId, paths: Vec<PathBuf>, split: Split) -> Self {
        Self {
            id,
            paths,
            split,
            progress: FilesProgress::default(),
        }
    }

    /// Gives how far it has come, also while it runs: for a progress bar.
    pub fn progress(&self) -> FilesProgress {
        self.progress.clone()
    }
}

impl Source for FilesSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn run(self: Box<Self>, intake: Intake) -> BoxFuture<'static, Result<(), SourceError>> {
        run(*self, intake).boxed()
    }
}

async fn run(source: FilesSource, intake: Intake) -> Result<(), SourceError> {
    let FilesSource {
        id,
        paths,
        split,
        progress,
    } = source;
    let reader = Reader::new(intake.clone(), Handle::current(), split, progress);
    let reading = tokio::task::spawn_blocking(move || reader.read(paths));
    let committed = commit(&id, &intake).await;
    // The reader ends by itself: the stream is closing, or it has read everything.
    let read = reading.await;
    committed?;
    read.map_err(|error| SourceError::Backend {
        source_id: id,
        class: ErrorClass::Fatal,
        cause: error.into(),
    })
}

/// Stores dead letters and confirms, until nothing is left.
async fn commit(id: &SourceId, intake: &Intake) -> Result<(), SourceError> {
    while let Some(batch) = intake.commits().await {
        let stored = intake.store_dead_letters(&batch).await;
        stored.map_err(|cause| SourceError::Unconfirmed {
            source_id: id.clone(),
            cause,
        })?;
        intake.committed(&batch);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
