//! Showing groups: state, counts, members, rate.
//!
//! Invariants: one statement, so one moment; its cost depends on the consumers, never on how many alerts or blocks the
//! group has or has done: what is done is in the tally, what is free follows by subtraction. Always
//! total = acknowledged + in_progress + remaining + dead + missing, and blocks: total = free + claimed + done.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::{GroupError, Groups};

/// Whether a group can be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupState {
    /// The build is not final; its blocks can be claimed already.
    Building,
    /// The build is final and work is left, or it matched nothing.
    Ready,
    /// The build is final and everything is done.
    Exhausted,
    /// Somebody stopped it.
    Paused,
    /// It failed for good; `reason` says why.
    Failed,
    /// Nobody used it for as long as its setting says.
    Expired,
}

/// Blocks: `total = free + claimed + done`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BlockCounts {
    /// Built so far.
    pub total: i64,
    /// Nobody's.
    pub free: i64,
    /// Under a lease.
    pub claimed: i64,
    /// Acknowledged.
    pub done: i64,
}

/// Alerts: `total = acknowledged + in_progress + remaining + dead + missing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AlertCounts {
    /// In blocks so far.
    pub total: i64,
    /// Done, as far as committed.
    pub acknowledged: i64,
    /// In claimed blocks and not settled.
    pub in_progress: i64,
    /// In free blocks and not settled.
    pub remaining: i64,
    /// Dead letters.
    pub dead: i64,
    /// Deleted from the archive under the group.
    pub missing: i64,
}

/// One consumer of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its number, also the owner of its blocks.
    pub id: i32,
    /// The machine's name.
    pub host: String,
    /// The process.
    pub pid: i32,
    /// When it last said that it lives.
    #[serde(serialize_with = "rfc3339")]
    pub last_seen_at: DateTime<Utc>,
    /// Blocks it holds.
    pub claimed_blocks: i64,
}

/// A group as `group show` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct GroupStatus {
    /// The name.
    pub name: String,
    /// The state.
    pub state: GroupState,
    /// Why it failed or expired.
    pub reason: Option<String>,
    /// The query, canonical.
    pub query: Value,
    /// SHA-256 of it, in hex.
    pub query_hash: String,
    /// Alerts per block.
    pub block_size: i32,
    /// 1 + the number of rewinds.
    pub generation: i32,
    /// Whether the build is final, so that the totals are.
    pub total_final: bool,
    /// Blocks by state.
    pub blocks: BlockCounts,
    /// Alerts by state.
    pub alerts: AlertCounts,
    /// Consumers that live.
    pub members: Vec<Member>,
    /// Alerts settled per second by them, lately; null when nobody knows.
    pub rate_per_second: Option<f64>,
    /// When the group will be done at this rate, s; null when unknown.
    pub eta_seconds: Option<f64>,
    /// When it was created.
    #[serde(serialize_with = "rfc3339")]
    pub created_at: DateTime<Utc>,
}

/// One claimed block of a group.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct HeldBlock {
    /// Its place in the group.
    pub block_seq: i64,
    /// Its owner's number.
    pub owner: i32,
    /// Alerts in it.
    pub n: i32,
    /// Of these, settled as far as committed.
    pub settled: i32,
}

fn rfc3339<S: Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// Finished blocks that are not in the tally yet: above this, `show` folds them first.
const UNFOLDED_MAX: i64 = 2_000;

const SHOW: &str = "
    SELECT g.group_id, g.name, g.query, encode(g.query_hash, 'hex') AS query_hash, g.block_size, g.generation, g.halted,
      g.reason, g.created_at, b.built, b.next_seq AS blocks, b.total,
      u.blocks AS unfolded, t.blocks + u.blocks AS done_blocks, t.alerts + u.n AS done_n,
      c.blocks AS claimed, c.n AS claimed_n, c.settled AS claimed_settled, p.settled AS partly_settled,
      (t.dead + u.dead + c.dead + p.dead)::int8 AS dead, (t.missing + u.missing + c.missing + p.missing)::int8 AS missing,
      m.members, m.rate
    FROM consumer_group g JOIN group_build b USING (group_id) JOIN group_tally t USING (group_id)
    CROSS JOIN LATERAL (
      SELECT count(*) AS blocks, coalesce(sum(n), 0)::int8 AS n, coalesce(sum(dead), 0)::int8 AS dead,
        coalesce(sum(missing), 0)::int8 AS missing
      FROM block_done d WHERE d.group_id = g.group_id AND d.generation = t.generation) u
    CROSS JOIN LATERAL (
      SELECT count(*) AS blocks, coalesce(sum(n), 0)::int8 AS n, coalesce(sum(settled), 0)::int8 AS settled,
        coalesce(sum(dead), 0)::int8 AS dead, coalesce(sum(missing), 0)::int8 AS missing
      FROM claim_block k WHERE k.group_id = g.group_id AND k.state = 1) c
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(settled), 0)::int8 AS settled, coalesce(sum(dead), 0)::int8 AS dead,
        coalesce(sum(missing), 0)::int8 AS missing
      FROM claim_block k WHERE k.group_id = g.group_id AND k.state = 0 AND k.settled > 0) p
    CROSS JOIN LATERAL (
      SELECT coalesce(jsonb_agg(jsonb_build_object('id', s.id, 'host', s.host, 'pid', s.pid,
          'last_seen_at', s.last_seen_at, 'claimed_blocks',
          (SELECT count(*) FROM claim_block k WHERE k.group_id = g.group_id AND k.state = 1 AND k.owner = s.id))
          ORDER BY s.id), '[]') AS members, sum(s.rate) AS rate
      FROM consumer s WHERE s.group_id = g.group_id AND s.last_seen_at > now() - interval '45 seconds') m
    WHERE $1::text IS NULL OR g.name = $1 ORDER BY g.name";

const HELD: &str = "
    SELECT k.block_seq, k.owner, k.n, k.settled FROM claim_block k JOIN consumer_group g USING (group_id)
    WHERE g.name = $1 AND k.state = 1 ORDER BY k.block_seq";

impl Groups {
    /// Shows one group.
    ///
    /// # Errors
    /// [`GroupError::Unknown`] when there is none of that name.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn show(&self, name: &str) -> Result<GroupStatus, GroupError> {
        self.read(Some(name))
            .await?
            .pop()
            .ok_or_else(|| GroupError::Unknown { name: name.into() })
    }

    /// Shows every group, by name.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn list(&self) -> Result<Vec<GroupStatus>, GroupError> {
        self.read(None).await
    }

    /// Gives the blocks of a group that are claimed now, in order: at most two per consumer.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn held(&self, name: &str) -> Result<Vec<HeldBlock>, GroupError> {
        Ok(sqlx::query_as(HELD).bind(name).fetch_all(self.pool()).await?)
    }

    async fn read(&self, name: Option<&str>) -> Result<Vec<GroupStatus>, GroupError> {
        self.expire_unused().await?;
        let rows = sqlx::query(SHOW)
            .persistent(false)
            .bind(name)
            .fetch_all(self.pool())
            .await?;
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            if row.try_get::<i64, _>("unfolded")? > UNFOLDED_MAX {
                // For the next look; who drained the group left them, in numbers that its consumers bound.
                while self.fold(row.try_get("group_id")?).await? > 0 {}
            }
            all.push(GroupStatus::from_row(&row)?);
        }
        Ok(all)
    }
}

impl FromRow<'_, PgRow> for GroupStatus {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let n = |name: &str| row.try_get::<i64, _>(name);
        let (total, claimed, done) = (n("blocks")?, n("claimed")?, n("done_blocks")?);
        let blocks = BlockCounts {
            total,
            free: total - claimed - done,
            claimed,
            done,
        };
        let (dead, missing) = (n("dead")?, n("missing")?);
        let settled = n("done_n")? + n("claimed_settled")? + n("partly_settled")?;
        let in_progress = n("claimed_n")? - n("claimed_settled")?;
        let alerts = AlertCounts {
            total: n("total")?,
            acknowledged: settled - dead - missing,
            in_progress,
            remaining: n("total")? - settled - in_progress,
            dead,
            missing,
        };
        let total_final: bool = row.try_get("built")?;
        let halted: Option<String> = row.try_get("halted")?;
        let rate: Option<f64> = row.try_get("rate")?;
        let left = alerts.in_progress + alerts.remaining;
        Ok(Self {
            name: row.try_get("name")?,
            state: state(halted.as_deref(), total_final, blocks),
            reason: row.try_get("reason")?,
            query: row.try_get("query")?,
            query_hash: row.try_get("query_hash")?,
            block_size: row.try_get("block_size")?,
            generation: row.try_get("generation")?,
            total_final,
            blocks,
            alerts,
            members: row.try_get::<Json<Vec<Member>>, _>("members")?.0,
            rate_per_second: rate,
            eta_seconds: eta(total_final, left, rate),
            created_at: row.try_get("created_at")?,
        })
    }
}

fn state(halted: Option<&str>, built: bool, blocks: BlockCounts) -> GroupState {
    match halted {
        Some("paused") => GroupState::Paused,
        Some("expired") => GroupState::Expired,
        Some(_) => GroupState::Failed,
        None if !built => GroupState::Building,
        None if blocks.total > 0 && blocks.free == 0 && blocks.claimed == 0 => GroupState::Exhausted,
        None => GroupState::Ready,
    }
}

fn eta(total_final: bool, left: i64, rate: Option<f64>) -> Option<f64> {
    match rate {
        _ if !total_final => None,
        _ if left == 0 => Some(0.0),
        // Below 2^53 alerts the cast is exact.
        Some(rate) if rate > 0.0 => Some(left as f64 / rate),
        _ => None,
    }
}
