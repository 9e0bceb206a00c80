//! What consumers do for each other: free the blocks of the dead, fold what is done, sweep members, apply expiry.
//!
//! Invariants: a block goes back to free, never away; its bitmap, `barren` and `trying` stay. An expired lease frees at
//! once. An unheld liveness lock counts only when the same rescuer saw the same (id, lease, owner) unheld at two looks
//! at least 1.5 s apart: a consumer that reconnects is without a lock for a moment, and stamps its blocks anew.
//! Nothing here waits for a row that somebody holds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sqlx::Row;
use uuid::Uuid;

use super::session::LOCK_CLASS;
use super::{Group, Groups};

/// How far two looks must be apart.
const SECOND_LOOK: Duration = Duration::from_millis(1500);

/// One rescuer, with what it saw at its last look.
#[derive(Debug)]
pub struct Rescuer {
    groups: Groups,
    group: i64,
    suspects: HashMap<(i64, Uuid, i32), Instant>,
}

const LOOK: &str = "
    WITH live AS MATERIALIZED (
      SELECT l.objid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $2::int4::oid AND l.objsubid = 2
        AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
    SELECT b.id, b.lease, b.owner, b.lease_until < now() AS expired FROM claim_block b
    WHERE b.group_id = $1 AND b.state = 1 AND (b.lease_until < now() OR (
      NOT EXISTS (SELECT FROM live WHERE live.objid = b.owner::oid)
      AND NOT EXISTS (SELECT FROM consumer c WHERE c.id = b.owner AND NOT c.locks)))";
const FREE: &str = "
    WITH d AS MATERIALIZED (
      SELECT b.id, b.lease, b.owner FROM claim_block b
      JOIN unnest($1::bigint[], $2::uuid[], $3::int[], $4::bool[]) x (id, lease, owner, expired) ON b.id = x.id
      WHERE b.state = 1 AND b.lease = x.lease AND b.owner = x.owner AND (NOT x.expired OR b.lease_until < now())
      FOR UPDATE OF b SKIP LOCKED)
    UPDATE claim_block b SET state = 0, owner = NULL, lease = NULL, lease_until = NULL
    FROM d WHERE b.id = d.id AND b.lease = d.lease AND b.owner = d.owner RETURNING b.block_seq";
// A range, not a list: linear under every plan, also one made for a table that was just empty.
const FOLD: &str = "
    WITH t AS MATERIALIZED (
      SELECT group_id, generation FROM group_tally WHERE group_id = $1 FOR UPDATE SKIP LOCKED),
    e AS MATERIALIZED (
      SELECT max(block_seq) AS last FROM (
        SELECT block_seq FROM block_done WHERE group_id = $1 AND generation = (SELECT generation FROM t)
        ORDER BY block_seq LIMIT 10000) o),
    d AS (
      DELETE FROM block_done WHERE group_id = $1 AND generation = (SELECT generation FROM t)
        AND block_seq <= (SELECT last FROM e)
      RETURNING n, dead, missing, lease),
    r AS (INSERT INTO block_receipt (lease) SELECT lease FROM d ON CONFLICT DO NOTHING),
    s AS (SELECT count(*) AS blocks, sum(n) AS n, sum(dead) AS dead, sum(missing) AS missing FROM d)
    UPDATE group_tally t SET blocks = t.blocks + s.blocks, alerts = t.alerts + s.n, dead = t.dead + s.dead,
      missing = t.missing + s.missing FROM s WHERE t.group_id = $1 AND s.blocks > 0 RETURNING s.blocks";
const FORGET: &str = "
    DELETE FROM block_receipt WHERE lease = ANY (ARRAY(
      SELECT lease FROM block_receipt WHERE at < now() - interval '10 minutes' ORDER BY at LIMIT 10000))";
const SWEEP: &str = "
    DELETE FROM consumer c WHERE group_id = $1 AND last_seen_at < now() - interval '1 minute'
      AND NOT EXISTS (SELECT FROM claim_block b WHERE b.group_id = $1 AND b.state = 1 AND b.owner = c.id)";
const TOUCH: &str = "
    UPDATE consumer SET last_seen_at = now(), rate = $2 WHERE id = $1";
const EXPIRE: &str = "
    UPDATE consumer_group g SET halted = 'expired', reason = 'not used for ' || expire_after
    WHERE expire_after IS NOT NULL AND halted IS NULL AND last_active_at < now() - expire_after
      AND NOT EXISTS (SELECT FROM claim_block b WHERE b.group_id = g.group_id AND b.state = 1 AND b.lease_until > now())";

impl Rescuer {
    /// Makes a rescuer for one group.
    pub fn new(groups: Groups, group: &Group) -> Self {
        Self {
            groups,
            group: group.id,
            suspects: HashMap::new(),
        }
    }

    /// Looks once: frees what the dead hold, and gives the freed blocks' places.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn look(&mut self) -> sqlx::Result<Vec<i64>> {
        // Planned anew each time: a plan made while the table was small is no plan for a large one.
        let rows = sqlx::query(LOOK)
            .persistent(false)
            .bind(self.group)
            .bind(LOCK_CLASS)
            .fetch_all(self.groups.pool())
            .await?;
        let now = Instant::now();
        let mut seen = HashMap::new();
        let (mut ids, mut leases, mut owners, mut expireds) = (vec![], vec![], vec![], vec![]);
        for row in rows {
            let key: (i64, Uuid, i32) = (row.try_get("id")?, row.try_get("lease")?, row.try_get("owner")?);
            let expired: bool = row.try_get("expired")?;
            let since = self.suspects.get(&key).copied().unwrap_or(now);
            if expired || now.duration_since(since) >= SECOND_LOOK {
                ids.push(key.0);
                leases.push(key.1);
                owners.push(key.2);
                expireds.push(expired);
            }
            seen.insert(key, since);
        }
        self.suspects = seen; // bounded by the claimed blocks of the group
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        sqlx::query_scalar(FREE)
            .bind(ids)
            .bind(leases)
            .bind(owners)
            .bind(expireds)
            .fetch_all(self.groups.pool())
            .await
    }

    /// Keeps the books: folds what is done, forgets receipts of long ago, sweeps members that are gone, notes that
    /// member `owner` is alive and how many alerts per second it settles, expires what nobody uses.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn keep_books(&self, owner: i32, rate: Option<f64>) -> sqlx::Result<()> {
        sqlx::query(TOUCH)
            .bind(owner)
            .bind(rate)
            .execute(self.groups.pool())
            .await?;
        self.groups.fold(self.group).await?;
        sqlx::query(FORGET).execute(self.groups.pool()).await?;
        sqlx::query(SWEEP).bind(self.group).execute(self.groups.pool()).await?;
        self.groups.expire_unused().await
    }
}

impl Groups {
    /// Counts up to 10,000 finished blocks into the group's tally; gives how many. Nothing when another does it.
    pub(super) async fn fold(&self, group: i64) -> sqlx::Result<i64> {
        Ok(sqlx::query_scalar(FOLD)
            .persistent(false)
            .bind(group)
            .fetch_optional(self.pool())
            .await?
            .unwrap_or(0))
    }

    /// Marks as expired every group that asked for it and that nobody has used for that long.
    pub(super) async fn expire_unused(&self) -> sqlx::Result<()> {
        sqlx::query(EXPIRE).execute(self.pool()).await.map(drop)
    }
}
