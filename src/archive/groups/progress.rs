//! Progress inside claimed blocks: the bitmap, heartbeat, giving back; dead letters with the progress that passes them.
//!
//! Invariants: every statement is fenced by the lease, and a block that it does not return is lost. Bitmap and counts
//! are absolute, so repeating a statement whose answer was lost changes nothing more. A dead letter is in the
//! transaction of its fenced statement: 0 rows roll it back, so a former owner leaves no ghost.

use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::bitmap::Bitmap;
use super::claim::{Acknowledged, acknowledge};
use crate::archive::dead_letters;
use crate::dead_letter::DeadLetter;

/// A claimed block as it is to be stored.
#[derive(Clone, Debug)]
pub struct BlockState {
    /// Key of the block's row.
    pub id: i64,
    /// The group's generation.
    pub generation: i32,
    /// The block's place in its group.
    pub block_seq: i64,
    /// The fence.
    pub lease: Uuid,
    /// What is settled, with what was settled before the claim.
    pub done: Bitmap,
    /// Dead letters among them.
    pub dead: i32,
    /// Deleted alerts among them.
    pub missing: i32,
    /// In careful mode: the alert handed out and how often it was before.
    pub trying: Option<(i32, i16)>,
}

/// What is to become of a block with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stays ours.
    Kept,
    /// All of it is settled: it is done.
    Done,
    /// The rest is for others.
    GivenBack,
    /// It was not ours any more; nothing was changed. Only ever an answer.
    Lost,
}

/// How a commit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It may be lost if the server crashes within the next moments; its alerts are then delivered again.
    Soon,
    /// It is on disk when the call returns, and so is every earlier commit.
    Now,
}

const KEEP: &str = "
    UPDATE claim_block SET lease_until = clock_timestamp() + make_interval(secs => $3),
      done = $4, settled = $5, dead = $6, missing = $7, trying = $8, kills = $9,
      barren = CASE WHEN barren <= 3 AND $5 > settled THEN 0 ELSE barren END
    WHERE id = $1 AND lease = $2 AND state = 1 RETURNING id";
const GIVE_BACK: &str = "
    UPDATE claim_block SET state = 0, owner = NULL, lease = NULL, lease_until = NULL,
      done = $3, settled = $4, dead = $5, missing = $6, trying = NULL, kills = 0,
      barren = CASE WHEN barren <= 3 AND $4 > settled THEN 0 ELSE greatest(barren - 1, 0) END
    WHERE id = $1 AND lease = $2 AND state = 1 RETURNING id";
const RENEW: &str = "
    UPDATE claim_block SET lease_until = clock_timestamp() + make_interval(secs => $2)
    WHERE id = ANY($1) AND lease = ANY($3) AND state = 1 RETURNING lease";
const STAY_ACTIVE: &str = "
    UPDATE consumer_group SET last_active_at = now()
    WHERE group_id = $1 AND last_active_at < now() - interval '1 minute'";
const SYNCHRONOUS: &str = "SET LOCAL synchronous_commit = on";

/// Commits one block, with the dead letters that its bitmap passes.
pub(super) async fn commit(
    conn: &mut PgConnection,
    (group, lease_secs): (i64, f64),
    block: &BlockState,
    want: Outcome,
    letters: &[DeadLetter],
    durability: Durability,
) -> sqlx::Result<Outcome> {
    if letters.is_empty() && durability == Durability::Soon {
        return write(conn, (group, lease_secs), block, want).await;
    }
    let mut tx = conn.begin().await?;
    sqlx::query(SYNCHRONOUS).execute(&mut *tx).await?;
    let got = write(&mut tx, (group, lease_secs), block, want).await?;
    if got == Outcome::Lost {
        tx.rollback().await?;
        return Ok(got);
    }
    dead_letters::insert(&mut tx, letters).await?;
    tx.commit().await?;
    Ok(got)
}

async fn write(
    conn: &mut PgConnection,
    (group, lease_secs): (i64, f64),
    block: &BlockState,
    want: Outcome,
) -> sqlx::Result<Outcome> {
    let held = match want {
        Outcome::Done => acknowledge(conn, group, block).await? == Acknowledged::Done,
        Outcome::GivenBack => give_back(conn, block).await?,
        Outcome::Kept | Outcome::Lost => keep(conn, lease_secs, block).await?,
    };
    Ok(if held { want } else { Outcome::Lost })
}

async fn keep(conn: &mut PgConnection, lease_secs: f64, block: &BlockState) -> sqlx::Result<bool> {
    let kept = sqlx::query(KEEP)
        .bind(block.id)
        .bind(block.lease)
        .bind(lease_secs)
        .bind(block.done.as_bytes())
        .bind(count(block))
        .bind(block.dead)
        .bind(block.missing)
        .bind(block.trying.map(|(index, _)| index))
        .bind(block.trying.map_or(0, |(_, kills)| kills))
        .fetch_optional(conn)
        .await?;
    Ok(kept.is_some())
}

async fn give_back(conn: &mut PgConnection, block: &BlockState) -> sqlx::Result<bool> {
    let given = sqlx::query(GIVE_BACK)
        .bind(block.id)
        .bind(block.lease)
        .bind(block.done.as_bytes())
        .bind(count(block))
        .bind(block.dead)
        .bind(block.missing)
        .fetch_optional(conn)
        .await?;
    Ok(given.is_some())
}

fn count(block: &BlockState) -> i32 {
    // A block's size is an int4, so its count is one.
    i32::try_from(block.done.count()).unwrap_or(i32::MAX)
}

/// Renews leases; gives those that are still ours. Keeps the group from expiring, at most once a minute.
pub(super) async fn renew(
    conn: &mut PgConnection,
    (group, lease_secs): (i64, f64),
    held: &[(i64, Uuid)],
) -> sqlx::Result<Vec<Uuid>> {
    let (ids, leases): (Vec<i64>, Vec<Uuid>) = held.iter().copied().unzip();
    let kept = sqlx::query_scalar(RENEW)
        .bind(ids)
        .bind(lease_secs)
        .bind(leases)
        .fetch_all(&mut *conn)
        .await?;
    sqlx::query(STAY_ACTIVE).bind(group).execute(conn).await?;
    Ok(kept)
}
