//! Consumer groups of the archive: a name bound to one query, whose alerts any number of consumers share in blocks.
//!
//! Owns the life cycle (create, build, claim, progress, rescue, show, administration) and the SQL of it, one file per
//! step. Invariants: a group's set is frozen by the snapshot taken when it was created; every state change of a block
//! is fenced by its lease and its row count is checked; a claim writes no row that consumers share. Must not know of
//! intakes, deliveries or handlers: that is `source::archive`.
//!
//! Nothing here may be dropped half-way (`Pool::begin` of sqlx 0.9.0 is not cancel-safe on Postgres): callers run each
//! operation to its end, in a task or in the body of a `select!` branch.

mod admin;
pub mod bitmap;
mod build;
mod claim;
pub mod pack;
mod progress;
mod rescue;
mod session;
mod show;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sqlx::{PgPool, Row};

use super::Archive;
use crate::error::ErrorClass;
use crate::query::Query;

pub use admin::Halt;
pub use build::BuildStep;
pub use claim::{Acknowledged, Claim, Standing};
pub use progress::{BlockState, Durability, Outcome};
pub use rescue::Rescuer;
pub use session::{Liveness, Session, SessionTimes};
pub use show::{AlertCounts, BlockCounts, GroupState, GroupStatus, HeldBlock, Member};

/// The statement of a claim: `$1` group, `$2` owner, `$3` lease, `$4` its length in s, `$5` the place to look from. For
/// those who look at its plan.
#[doc(hidden)]
pub const CLAIM_STATEMENT: &str = claim::CLAIM;

/// Alerts per block where nothing else is said.
pub const DEFAULT_BLOCK_SIZE: u32 = 500;

/// Why an operation on a group failed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// No group of that name, and no query to create it with.
    #[error("there is no group `{name}`: give a query to create it, or see `alertstream group list`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The name is bound to another query.
    #[error(
        "group `{name}` is bound to the query `{stored}`, not to `{given}`: use another name, or delete the group first"
    )]
    OtherQuery {
        /// The name.
        name: String,
        /// The query it is bound to, canonical.
        stored: Value,
        /// The query that was given, canonical.
        given: Value,
    },
    /// The name is empty, too long or holds a character that positions need.
    #[error("`{name}` cannot name a group: use 1 to 200 characters without `/` and control characters")]
    BadName {
        /// The name.
        name: String,
    },
    /// The stored query is not one this version reads.
    #[error("the query of group `{name}` cannot be read by this version: {cause}")]
    UnreadableQuery {
        /// The name.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
    /// It is halted, and what was asked for does not change that.
    #[error("group `{name}` cannot be {verb}: {}; {}", halt.as_text(), halt.way_out(name))]
    Halted {
        /// The name.
        name: String,
        /// What was asked for, as `paused`.
        verb: &'static str,
        /// Why it does not run.
        halt: Halt,
    },
    /// The database failed.
    #[error("the archive's database failed: {0}")]
    Database(#[from] sqlx::Error),
}

impl GroupError {
    /// Tells whether trying again may help.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Database(error) if is_transient(error) => ErrorClass::Transient,
            _ => ErrorClass::Fatal,
        }
    }
}

/// Tells whether an error may go away by itself: a lost connection, a time-out, a server that is starting or stopping,
/// a deadlock. Everything the server says about the statement itself stays.
pub fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(db) => db.code().is_some_and(|code| {
            ["08", "40", "53", "55", "57", "58"]
                .iter()
                .any(|class| code.starts_with(class))
                || code == "25P03"
        }),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}

/// One group, as a consumer or builder needs it.
#[derive(Clone, Debug)]
pub struct Group {
    /// Key in the database.
    pub id: i64,
    /// The name.
    pub name: Arc<str>,
    /// The query it is bound to.
    pub query: Query,
    /// Alerts per block.
    pub block_size: u32,
}

/// The groups of one archive.
#[derive(Clone, Debug)]
pub struct Groups {
    pool: PgPool,
}

const CREATE: &str = "
    WITH g AS (INSERT INTO consumer_group (name, query, query_hash, block_size) VALUES ($1, $2, $3, $4)
               ON CONFLICT (name) DO NOTHING RETURNING group_id),
         t AS (INSERT INTO group_tally (group_id) SELECT group_id FROM g)
    INSERT INTO group_build (group_id, limit_left, watermark_jd) SELECT group_id, $5, $6 FROM g";
const BY_NAME: &str = "SELECT group_id, query, query_hash, block_size FROM consumer_group WHERE name = $1";

impl Groups {
    /// Makes the handle on an archive's groups.
    pub fn new(archive: &Archive) -> Self {
        Self {
            pool: archive.pool().clone(),
        }
    }

    /// Gives the pool that statements outside a consumer's own session run on.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Joins the group `name`, or creates it bound to `query`; without a query the group must exist.
    ///
    /// `block_size` counts only when the group is created. The set is what is visible at that moment.
    ///
    /// # Errors
    /// [`GroupError::OtherQuery`] shows both queries; [`GroupError::Unknown`] when there is neither group nor query.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn join_or_create(
        &self,
        name: &str,
        query: Option<&Query>,
        block_size: u32,
    ) -> Result<Group, GroupError> {
        check_name(name)?;
        loop {
            if let Some(group) = self.find(name, query).await? {
                return Ok(group);
            }
            let Some(query) = query else {
                return Err(GroupError::Unknown { name: name.into() });
            };
            let plan = build::Plan::of(query);
            // Waits at most for the one-statement transaction of whoever creates the same name right now.
            sqlx::query(CREATE)
                .bind(name)
                .bind(query.canonical())
                .bind(query.hash().as_slice())
                .bind(i32::try_from(block_size.max(1)).unwrap_or(i32::MAX))
                .bind(plan.limit)
                .bind(plan.starts_at())
                .execute(&self.pool)
                .await?;
            // No row at the next look means that it was deleted meanwhile: start over.
        }
    }

    /// Opens an existing group.
    ///
    /// # Errors
    /// [`GroupError::Unknown`] when there is none.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn open(&self, name: &str) -> Result<Group, GroupError> {
        self.find(name, None)
            .await?
            .ok_or_else(|| GroupError::Unknown { name: name.into() })
    }

    async fn find(&self, name: &str, query: Option<&Query>) -> Result<Option<Group>, GroupError> {
        let Some(row) = sqlx::query(BY_NAME).bind(name).fetch_optional(&self.pool).await? else {
            return Ok(None);
        };
        let (stored, hash): (Value, Vec<u8>) = (row.try_get("query")?, row.try_get("query_hash")?);
        if let Some(query) = query
            && query.hash().as_slice() != hash.as_slice()
        {
            return Err(GroupError::OtherQuery {
                name: name.into(),
                stored,
                given: query.canonical(),
            });
        }
        let bound = Query::from_canonical(&stored).map_err(|cause| GroupError::UnreadableQuery {
            name: name.into(),
            cause: cause.to_string(),
        })?;
        let block_size = u32::try_from(row.try_get::<i32, _>("block_size")?).unwrap_or(DEFAULT_BLOCK_SIZE);
        Ok(Some(Group {
            id: row.try_get("group_id")?,
            name: name.into(),
            query: bound,
            block_size,
        }))
    }
}

/// Checks a group's name: it stands between slashes in a position, and in one line of a terminal.
///
/// # Errors
/// [`GroupError::BadName`].
pub fn check_name(name: &str) -> Result<(), GroupError> {
    if name.is_empty() || name.len() > 200 || name.chars().any(|c| c == '/' || c.is_control()) {
        return Err(GroupError::BadName {
            name: name.escape_debug().to_string(),
        });
    }
    Ok(())
}

/// Gives a span of time as Postgres takes it in `make_interval(secs => ..)`.
pub(crate) fn secs(span: Duration) -> f64 {
    span.as_secs_f64()
}
