//! Claiming and acknowledging blocks.
//!
//! Invariants: a claim is one statement, takes the lowest free block that nobody else is taking, waits for nobody,
//! and writes only that block's row; an acknowledgement deletes the block under its lease, so a block is done once.
//! A claim or an acknowledgement whose answer was lost is found again by its lease.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};
use uuid::Uuid;

use super::progress::BlockState;
use super::{Halt, bitmap::Bitmap};

/// A block under lease, as the claim returned it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Key of the block's row.
    pub id: i64,
    /// The group's generation it belongs to.
    pub generation: i32,
    /// The block's place in its group, stable across claims.
    pub block_seq: i64,
    /// The fence.
    pub lease: Uuid,
    /// Claims since progress was last made, this one included.
    pub barren: i16,
    /// The alert that was being tried when the block was last lost in careful mode.
    pub trying: Option<i32>,
    /// How often that alert was being tried before.
    pub kills: i16,
    /// What is settled already.
    pub done: Bitmap,
    /// Dead letters among the settled.
    pub dead: i32,
    /// Alerts that were deleted, among the settled.
    pub missing: i32,
    /// The alerts, in (jd, id) order.
    pub ids: Vec<i64>,
}

impl FromRow<'_, PgRow> for Claim {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let ids: Vec<i64> = row.try_get("ids")?;
        let done: Option<Vec<u8>> = row.try_get("done")?;
        Ok(Self {
            id: row.try_get("id")?,
            generation: row.try_get("generation")?,
            block_seq: row.try_get("block_seq")?,
            lease: row.try_get("lease")?,
            barren: row.try_get("barren")?,
            trying: row.try_get("trying")?,
            kills: row.try_get("kills")?,
            done: Bitmap::from_stored(done.as_deref().unwrap_or_default(), ids.len()),
            dead: row.try_get("dead")?,
            missing: row.try_get("missing")?,
            ids,
        })
    }
}

/// What an acknowledgement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// The block is done.
    Done,
    /// The block was not ours any more: nothing was changed.
    Late,
}

/// How a group stands, for a consumer that found no free block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is a free block by now.
    Free,
    /// Nothing is free, and the build goes on.
    Building,
    /// The build is final, nothing is free, and somebody holds a block.
    Held,
    /// The build is final and no block is left, free or claimed.
    Ended,
    /// Claims are stopped.
    Halted(Halt),
    /// The group was deleted.
    Deleted,
}

/// Whose claim it is and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) group: i64,
    pub(super) owner: i32,
    pub(super) lease_secs: f64,
    /// Look for blocks from this place on.
    pub(super) floor: i64,
}

macro_rules! take_next {
    () => {
        "k AS MATERIALIZED (
            SELECT id FROM claim_block WHERE group_id = $1 AND state = 0 AND block_seq >= $5
              AND EXISTS (SELECT FROM consumer_group WHERE group_id = $1 AND halted IS NULL)
            ORDER BY block_seq LIMIT 1 FOR UPDATE SKIP LOCKED),
         u AS (
            UPDATE claim_block b SET state = 1, owner = $2, lease = $3,
              lease_until = clock_timestamp() + make_interval(secs => $4), barren = barren + 1
            FROM k WHERE b.id = k.id
            RETURNING b.id, b.generation, b.block_seq, b.lease, b.barren, b.trying, b.kills, b.done, b.dead,
              b.missing, b.ids)"
    };
}

pub(super) const CLAIM: &str = concat!("WITH ", take_next!(), " SELECT * FROM u");
const FIND: &str = "
    SELECT id, generation, block_seq, lease, barren, trying, kills, done, dead, missing, ids
    FROM claim_block WHERE group_id = $1 AND state = 1 AND lease = $2";
const ACK: &str = "
    WITH d AS (DELETE FROM claim_block WHERE id = $1 AND lease = $2 AND state = 1
               RETURNING group_id, generation, block_seq, n, lease)
    INSERT INTO block_done (group_id, generation, block_seq, n, dead, missing, lease)
    SELECT group_id, generation, block_seq, n, $3, $4, lease FROM d RETURNING block_seq";
const ACK_AND_CLAIM: &str = concat!(
    "WITH d AS (DELETE FROM claim_block WHERE id = $6 AND lease = $7 AND state = 1
                RETURNING group_id, generation, block_seq, n, lease),
          i AS (INSERT INTO block_done (group_id, generation, block_seq, n, dead, missing, lease)
                SELECT group_id, generation, block_seq, n, $8, $9, lease FROM d RETURNING block_seq), ",
    take_next!(),
    " SELECT EXISTS (SELECT FROM i) AS acknowledged, u.* FROM (VALUES (1)) one LEFT JOIN u ON true"
);
const WAS_DONE: &str = "
    SELECT EXISTS (SELECT FROM block_done WHERE group_id = $1 AND generation = $2 AND block_seq = $3 AND lease = $4)
      OR EXISTS (SELECT FROM block_receipt WHERE lease = $4)";
const STANDING: &str = "
    SELECT g.halted, g.reason, b.built,
      EXISTS (SELECT FROM claim_block WHERE group_id = $1 AND state = 0) AS free,
      EXISTS (SELECT FROM claim_block WHERE group_id = $1 AND state = 1) AS held
    FROM consumer_group g JOIN group_build b USING (group_id) WHERE g.group_id = $1";

/// Claims the next free block under the fence `lease`; `None` when there is none.
pub(super) async fn claim(conn: &mut PgConnection, terms: Terms, lease: Uuid) -> sqlx::Result<Option<Claim>> {
    sqlx::query_as(CLAIM)
        .bind(terms.group)
        .bind(terms.owner)
        .bind(lease)
        .bind(terms.lease_secs)
        .bind(terms.floor)
        .fetch_optional(conn)
        .await
}

/// Finds a claim whose answer was lost.
pub(super) async fn find(conn: &mut PgConnection, group: i64, lease: Uuid) -> sqlx::Result<Option<Claim>> {
    sqlx::query_as(FIND).bind(group).bind(lease).fetch_optional(conn).await
}

/// Acknowledges a block; repeating it is a success.
pub(super) async fn acknowledge(conn: &mut PgConnection, group: i64, block: &BlockState) -> sqlx::Result<Acknowledged> {
    let done = sqlx::query(ACK)
        .bind(block.id)
        .bind(block.lease)
        .bind(block.dead)
        .bind(block.missing)
        .fetch_optional(&mut *conn)
        .await?;
    if done.is_some() {
        Ok(Acknowledged::Done)
    } else {
        was_done(conn, group, block).await
    }
}

/// Acknowledges a block and claims the next one, in one round trip.
pub(super) async fn acknowledge_and_claim(
    conn: &mut PgConnection,
    terms: Terms,
    block: &BlockState,
    lease: Uuid,
) -> sqlx::Result<(Acknowledged, Option<Claim>)> {
    let row = sqlx::query(ACK_AND_CLAIM)
        .bind(terms.group)
        .bind(terms.owner)
        .bind(lease)
        .bind(terms.lease_secs)
        .bind(terms.floor)
        .bind(block.id)
        .bind(block.lease)
        .bind(block.dead)
        .bind(block.missing)
        .fetch_one(&mut *conn)
        .await?;
    let claimed: Option<i64> = row.try_get("id")?;
    let claim = if claimed.is_some() {
        Some(Claim::from_row(&row)?)
    } else {
        None
    };
    let acknowledged = if row.try_get("acknowledged")? {
        Acknowledged::Done
    } else {
        was_done(conn, terms.group, block).await?
    };
    Ok((acknowledged, claim))
}

async fn was_done(conn: &mut PgConnection, group: i64, block: &BlockState) -> sqlx::Result<Acknowledged> {
    let done: bool = sqlx::query_scalar(WAS_DONE)
        .bind(group)
        .bind(block.generation)
        .bind(block.block_seq)
        .bind(block.lease)
        .fetch_one(conn)
        .await?;
    Ok(if done { Acknowledged::Done } else { Acknowledged::Late })
}

/// Tells how the group stands, in one statement.
pub(super) async fn standing(conn: &mut PgConnection, group: i64) -> sqlx::Result<Standing> {
    let Some(row) = sqlx::query(STANDING).bind(group).fetch_optional(conn).await? else {
        return Ok(Standing::Deleted);
    };
    if let Some(halted) = row.try_get::<Option<String>, _>("halted")? {
        return Ok(Standing::Halted(Halt::from_stored(&halted, row.try_get("reason")?)));
    }
    let (built, free, held): (bool, bool, bool) = (row.try_get("built")?, row.try_get("free")?, row.try_get("held")?);
    Ok(match (free, built, held) {
        (true, _, _) => Standing::Free,
        (false, false, _) => Standing::Building,
        (false, true, true) => Standing::Held,
        (false, true, false) => Standing::Ended,
    })
}
