//! The archive source: one consumer of a group, replaying its blocks through an intake.
//!
//! How it works: [`run`] is the loop; it waits for commits, passes, reports and the next alert in one `select!`, and
//! runs every statement in the body of a branch, so that none is ever dropped half-way. What it holds and wants is
//! decided by pure parts: [`block`] (what of a block is settled), [`pace`] (when the next one is wanted). [`work`] makes
//! the decisions durable, fenced by each block's lease, and finds lost answers again. [`feed`] hands out one block's
//! alerts; [`caretaker`] looks for the dead and builds; [`gate`] keeps careful blocks alone in the process.
//!
//! Invariants: at most two blocks are held; a lost block is told to the intake before anything else happens; what the
//! intake is told is stored was stored under the lease. Must not know of decoding, queues or handlers.

mod block;
mod caretaker;
mod feed;
mod gate;
mod pace;
mod run;
mod work;

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::archive::Archive;
use crate::archive::groups::{Group, Groups, Liveness, SessionTimes};
use crate::record::SourceId;
use crate::source::intake::Intake;
use crate::source::{Source, SourceError};

/// The times and choices of a consumer; the defaults are those of the guarantees.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveConfig {
    /// How long a claim holds without renewal. 30 s.
    pub lease: Duration,
    /// How often it is renewed. 10 s.
    pub heartbeat: Duration,
    /// How often an idle consumer looks for a free block. 250 ms.
    pub look: Duration,
    /// How often consumers look for the blocks of the dead. 2 s.
    pub rescue: Duration,
    /// The next block is claimed when the rest of the current one should last less than this. 2 s.
    pub reserve: Duration,
    /// How long an unreachable database is waited for. 5 min.
    pub give_up_after: Duration,
    /// How others notice that this consumer died.
    pub liveness: Liveness,
}

impl Default for ArchiveConfig {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            look: Duration::from_millis(250),
            rescue: Duration::from_secs(2),
            reserve: Duration::from_secs(2),
            give_up_after: Duration::from_secs(300),
            liveness: Liveness::Lock,
        }
    }
}

impl ArchiveConfig {
    fn times(&self) -> SessionTimes {
        SessionTimes {
            lease: self.lease,
            ..SessionTimes::default()
        }
    }
}

/// Why an archive source stopped, besides the database.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ArchiveSourceError {
    /// Somebody deleted the group.
    #[error("group `{name}` was deleted")]
    Deleted {
        /// The group.
        name: String,
    },
    /// The group failed.
    #[error("group `{name}` has failed: {reason}; rewind it when the cause is gone")]
    Failed {
        /// The group.
        name: String,
        /// Why.
        reason: String,
    },
    /// The group expired.
    #[error("group `{name}` has expired ({reason}); resume or rewind it")]
    Expired {
        /// The group.
        name: String,
        /// How.
        reason: String,
    },
}

/// One consumer of an archive group, as a source.
pub struct ArchiveSource {
    id: SourceId,
    archive: Archive,
    group: Group,
    cfg: ArchiveConfig,
}

impl ArchiveSource {
    /// Makes a consumer of `group`; it joins the members when it runs.
    pub fn new(id: SourceId, archive: Archive, group: Group, cfg: ArchiveConfig) -> Self {
        Self {
            id,
            archive,
            group,
            cfg,
        }
    }

    /// Gives the group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Gives the groups of the same archive.
    pub fn groups(&self) -> Groups {
        Groups::new(&self.archive)
    }
}

impl Source for ArchiveSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn run(self: Box<Self>, intake: Intake) -> BoxFuture<'static, Result<(), SourceError>> {
        run::run(*self, intake).boxed()
    }
}
