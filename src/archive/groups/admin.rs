//! Administration: rewind, seek, pause, resume, delete, fail, expiry.
//!
//! Invariants: pause and resume write the group's row only, so they never wait for a builder or a claim. Rewind and
//! delete are one transaction that takes its locks in one order (build, group, tally, blocks, done rows), and wait for
//! at most one build step. Owners of blocks that went find them lost.

use std::time::Duration;

use sqlx::{PgConnection, PgTransaction};

use super::{Group, GroupError, Groups, build, secs};

/// Why a group does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Somebody paused it.
    Paused,
    /// It failed for good, with the reason.
    Failed(String),
    /// Nobody used it for as long as its setting says.
    Expired(String),
}

impl Halt {
    pub(super) fn from_stored(halted: &str, reason: Option<String>) -> Self {
        let reason = reason.unwrap_or_default();
        match halted {
            "paused" => Self::Paused,
            "expired" => Self::Expired(reason),
            _ => Self::Failed(reason),
        }
    }

    /// Says it for a person.
    pub(super) fn as_text(&self) -> String {
        match self {
            Self::Paused => "it is paused".into(),
            Self::Failed(reason) => format!("it failed ({reason})"),
            Self::Expired(reason) => format!("it expired ({reason})"),
        }
    }

    /// Says what makes a group of this name run again.
    pub(super) fn way_out(&self, name: &str) -> String {
        match self {
            Self::Failed(_) => format!("`alertstream group rewind {name}` begins again"),
            Self::Paused | Self::Expired(_) => format!("`alertstream group resume {name}` lets it run again"),
        }
    }
}

const PAUSE: &str = "
    UPDATE consumer_group SET halted = 'paused', reason = NULL WHERE name = $1 AND (halted IS NULL OR halted = 'paused')";
const RESUME: &str = "
    UPDATE consumer_group SET halted = NULL, reason = NULL, last_active_at = now()
    WHERE name = $1 AND (halted IS NULL OR halted <> 'failed')";
const FAIL: &str = "
    UPDATE consumer_group SET halted = 'failed', reason = $2 WHERE group_id = $1";
const HALTED: &str = "SELECT halted, reason FROM consumer_group WHERE name = $1";
const SET_EXPIRY: &str = "
    UPDATE consumer_group SET expire_after = make_interval(secs => $2), last_active_at = now() WHERE name = $1";
const LOCK_BUILD: &str = "SELECT FROM group_build WHERE group_id = $1 FOR UPDATE";
const RAISE: &str = "
    UPDATE consumer_group SET generation = generation + 1, last_active_at = now(),
      halted = CASE WHEN halted = 'paused' THEN halted END, reason = NULL WHERE group_id = $1 RETURNING generation";
const RESET_TALLY: &str = "
    UPDATE group_tally SET generation = $2, blocks = 0, alerts = 0, dead = 0, missing = 0 WHERE group_id = $1";
const RESET_BUILD: &str = "
    UPDATE group_build SET watermark_jd = $2, watermark_id = DEFAULT, rank = 0, next_seq = 0, total = 0,
      limit_left = $3, pending = '{}', pending_bytes = 0, skip_blocks = $4, built = false WHERE group_id = $1";
const DELETE_BLOCKS: &str = "DELETE FROM claim_block WHERE group_id = $1";
const DELETE_DONE: &str = "DELETE FROM block_done WHERE group_id = $1";
const DELETE_GROUP: &str = "DELETE FROM consumer_group WHERE group_id = $1";

impl Groups {
    /// Stops claims and build steps; held blocks are finished, consumers wait.
    ///
    /// # Errors
    /// [`GroupError::Unknown`]; [`GroupError::Halted`] for a failed or expired group, which stays what it is.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn pause(&self, name: &str) -> Result<(), GroupError> {
        self.steer(name, PAUSE, "paused").await
    }

    /// Lets a paused or expired group run again. A failed one stays failed: rewind it.
    ///
    /// # Errors
    /// [`GroupError::Unknown`]; [`GroupError::Halted`] for a failed group.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn resume(&self, name: &str) -> Result<(), GroupError> {
        self.steer(name, RESUME, "resumed").await
    }

    /// Runs a statement that changes one row where the group's state allows it.
    async fn steer(&self, name: &str, statement: &'static str, verb: &'static str) -> Result<(), GroupError> {
        loop {
            let changed = sqlx::query(statement).bind(name).execute(self.pool()).await?;
            if changed.rows_affected() > 0 {
                return Ok(());
            }
            let halted: Option<(Option<String>, Option<String>)> =
                sqlx::query_as(HALTED).bind(name).fetch_optional(self.pool()).await?;
            let name = name.to_owned();
            match halted {
                None => return Err(GroupError::Unknown { name }),
                Some((Some(halted), reason)) => {
                    let halt = Halt::from_stored(&halted, reason);
                    return Err(GroupError::Halted { name, verb, halt });
                }
                // Halted at the statement and running again at this look: the statement changes it now.
                Some((None, _)) => {}
            }
        }
    }

    /// Marks a group as failed for good; for errors that no retry can cure.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn fail(&self, group: &Group, reason: &str) -> Result<(), GroupError> {
        sqlx::query(FAIL)
            .bind(group.id)
            .bind(reason)
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// Lets the group expire when nobody has used it for `after`; `None` is never, the default.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn expire_after(&self, name: &str, after: Option<Duration>) -> Result<(), GroupError> {
        self.open(name).await?;
        sqlx::query(SET_EXPIRY)
            .bind(name)
            .bind(after.map(secs))
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// Starts the group over: a new generation of the same query over the same snapshot. A paused group stays paused.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn rewind(&self, name: &str) -> Result<(), GroupError> {
        self.seek(name, 0).await
    }

    /// Starts the group over at the block `block` (its place in the group, from 0): as [`Groups::rewind`], but the
    /// blocks before it count as acknowledged. The same query over the same snapshot gives the same blocks, unless
    /// alerts were deleted since.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn seek(&self, name: &str, block: i64) -> Result<(), GroupError> {
        let group = self.open(name).await?;
        let plan = build::Plan::of(&group.query);
        let mut tx = self.begin_locked(&group).await?;
        let generation: i32 = sqlx::query_scalar(RAISE).bind(group.id).fetch_one(&mut *tx).await?;
        sqlx::query(RESET_TALLY)
            .bind(group.id)
            .bind(generation)
            .execute(&mut *tx)
            .await?;
        delete_blocks(&mut tx, group.id).await?;
        sqlx::query(RESET_BUILD)
            .bind(group.id)
            .bind(plan.starts_at())
            .bind(plan.limit)
            .bind(block.max(0))
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Deletes the group and all it knows; the archive is untouched.
    ///
    /// # Errors
    /// [`GroupError::Unknown`].
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn delete(&self, name: &str) -> Result<(), GroupError> {
        let group = self.open(name).await?;
        let mut tx = self.begin_locked(&group).await?;
        sqlx::query(DELETE_GROUP).bind(group.id).execute(&mut *tx).await?;
        delete_blocks(&mut tx, group.id).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn begin_locked(&self, group: &Group) -> sqlx::Result<PgTransaction<'static>> {
        let mut tx = self.pool().begin().await?;
        sqlx::query(LOCK_BUILD).bind(group.id).execute(&mut *tx).await?;
        Ok(tx)
    }
}

/// The blocks first: that waits for acknowledgements under way, whose done rows the second statement then sees.
async fn delete_blocks(conn: &mut PgConnection, group: i64) -> sqlx::Result<()> {
    sqlx::query(DELETE_BLOCKS).bind(group).execute(&mut *conn).await?;
    sqlx::query(DELETE_DONE).bind(group).execute(conn).await?;
    Ok(())
}
