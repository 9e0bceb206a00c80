//! Dead letters of sources that have no transaction of their own: stored first, tried until stored.
//!
//! Invariant: nothing is dropped; while the store is down nothing is committed, so the byte budget fills up and the
//! source stands still. Must not know which store it is.

use std::time::Duration;

use tokio::time::Instant;

use super::Commit;
use super::core::Core;
use crate::error::BoxError;

const FIRST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(5);

/// Stores what the commits rejected; gives up only when the stream closes and its time is over.
pub(super) async fn store(core: &Core, commits: &[Commit]) -> Result<(), BoxError> {
    let letters: Vec<_> = commits
        .iter()
        .flat_map(|commit| commit.rejected.iter().cloned())
        .collect();
    if letters.is_empty() {
        return Ok(());
    }
    let mut pause = FIRST;
    let mut give_up_at = None;
    loop {
        let Err(error) = core.config().dead_letters.store(&letters).await else {
            return Ok(());
        };
        let closing = core.is_closing();
        if closing && *give_up_at.get_or_insert_with(|| Instant::now() + core.config().commit_within) <= Instant::now()
        {
            return Err(error);
        }
        tracing::warn!(source = %core.source(), letters = letters.len(), %error, "dead letters not stored; nothing is committed meanwhile");
        // A pause ends early when the stream begins to close, so that the last tries are not missed.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = core.closing(), if !closing => {}
        }
        pause = (pause * 2).min(MOST);
    }
}
