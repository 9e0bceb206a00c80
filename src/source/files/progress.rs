//! How far the files source has come.
//!
//! Invariant: what is done never passes the totals once these are known. Must not know how it is shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the files source, shared with whoever shows them. An archive is one file; bytes are those on disk.
#[derive(Clone, Debug, Default)]
pub struct FilesProgress {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    files: AtomicU64,
    bytes: AtomicU64,
    files_done: AtomicU64,
    bytes_done: AtomicU64,
}

impl FilesProgress {
    /// Gives the number of files; it grows while folders are being listed, before the first file is read.
    pub fn files_total(&self) -> u64 {
        self.counts.files.load(Ordering::Relaxed)
    }

    /// Gives the size of all files, bytes.
    pub fn bytes_total(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }

    /// Gives the number of files read.
    pub fn files_done(&self) -> u64 {
        self.counts.files_done.load(Ordering::Relaxed)
    }

    /// Gives the bytes read.
    pub fn bytes_done(&self) -> u64 {
        self.counts.bytes_done.load(Ordering::Relaxed)
    }

    pub(super) fn found(&self, bytes: u64) {
        self.counts.files.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn read(&self, bytes: u64) {
        self.counts.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn done(&self) {
        self.counts.files_done.fetch_add(1, Ordering::Relaxed);
    }
}
