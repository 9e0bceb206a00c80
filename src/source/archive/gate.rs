//! The process-wide gate between ordinary blocks and careful ones.
//!
//! A block that has killed consumers is worked alone, so that its alerts are the only ones of the archive that can be
//! to blame. Invariants: an ordinary block is handed out only under a shared pass, a careful one only under the single
//! one; a pass is held from the first alert of a block until its last settlement. Nobody waits for the gate while it
//! holds a pass that another waits for: a source asks for the single pass only when it holds no other block, and a
//! shared pass in hand never depends on one that is still asked for. Waiting is in order, so neither side starves.

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static GATE: RwLock<()> = RwLock::const_new(());

/// The right to hand out a block's alerts.
#[derive(Debug)]
pub(super) enum Pass {
    /// Beside others.
    Shared(#[expect(dead_code, reason = "held for its drop")] RwLockReadGuard<'static, ()>),
    /// Alone in this process.
    Single(#[expect(dead_code, reason = "held for its drop")] RwLockWriteGuard<'static, ()>),
}

/// Waits for a shared pass.
pub(super) fn shared() -> BoxFuture<'static, Pass> {
    GATE.read().map(Pass::Shared).boxed()
}

/// Waits for the single pass.
pub(super) fn single() -> BoxFuture<'static, Pass> {
    GATE.write().map(Pass::Single).boxed()
}
