//! Building a group: from its query to blocks, one bounded step at a time, by whoever finds nothing to claim.
//!
//! How it works: a step locks the build's row (SKIP LOCKED, so nobody waits for a builder), reads state and generation
//! under that lock, selects what matches in the next slice of the (jd, id) index, packs it into blocks and moves the
//! watermark, all in one short transaction. A query that names few alerts by id, object or place has no slices: its
//! matches are few, and their own index finds them, so a step takes the next of them whole.
//! Invariants: an alert is in exactly one block; blocks are in (jd, id) order and readable while the build goes on; a
//! step that dies changed nothing, and the next builder continues at the watermark; what the group's snapshot did not
//! show is never in it. Must not know of consumers.

use sqlx::postgres::Postgres;
use sqlx::{PgConnection, QueryBuilder, Row};

use super::pack::{Carry, Every, Packer};
use super::{Group, GroupError, Groups, Halt};
use crate::archive::sql::{self, finds_few, push_latest, push_predicates};
use crate::query::Query;

/// Rows of the archive that the first step looks at: the first block is wanted soon.
const FIRST_SLICE: i64 = 2_000;
/// Rows that each later step looks at, or matches that it takes.
const SLICE: i64 = 20_000;

/// What a build step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildStep {
    /// The watermark moved, and so many blocks were added.
    Advanced(usize),
    /// The build is final.
    Built,
    /// Somebody else is at it.
    Busy,
    /// The group is halted: nothing is built.
    Halted(Halt),
    /// The group was deleted.
    Deleted,
}

/// What a build needs to know of a query, besides its predicates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    jd_from: f64,
    jd_to: f64,
    every: Option<Every>,
    pub(super) limit: Option<i64>,
    sliced: bool,
}

impl Plan {
    pub(super) fn of(query: &Query) -> Self {
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Self {
            jd_from: query.jd().map_or(f64::NEG_INFINITY, |range| range.from),
            jd_to: query.jd().map_or(f64::INFINITY, |range| range.to),
            every: query.every().map(|every| Every {
                n: whole(every.n).max(1),
                k: whole(every.k),
            }),
            limit: query.limit().map(whole),
            sliced: !finds_few(query),
        }
    }

    /// Gives the first watermark: just before the first alert that can match.
    pub(super) fn starts_at(&self) -> f64 {
        self.jd_from
    }
}

/// A place in the archive's (jd, id) order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    jd: f64,
    id: i64,
}

/// The build's row and what of the group's a step needs.
struct State {
    generation: i32,
    as_of: String,
    watermark: Place,
    next_seq: i64,
    /// Blocks before this place are done as they are built.
    skip: i64,
    total: i64,
    carry: Carry,
}

const LOCK: &str = "
    SELECT g.generation, g.halted, g.as_of::text AS as_of, b.watermark_jd, b.watermark_id, b.rank, b.next_seq, b.total,
      b.limit_left, b.pending, b.pending_bytes, b.skip_blocks
    FROM group_build b JOIN consumer_group g USING (group_id)
    WHERE b.group_id = $1 AND NOT b.built FOR UPDATE OF b SKIP LOCKED";
const READ: &str = "
    SELECT g.halted, g.reason, b.built FROM consumer_group g JOIN group_build b USING (group_id) WHERE g.group_id = $1";
const SLICE_END: &str = "
    SELECT jd, id FROM alert WHERE (jd, id) > ($1, $2) AND jd < $3 ORDER BY jd, id OFFSET $4 LIMIT 1";
const ADD_BLOCKS: &str = "
    WITH o AS (
      SELECT $3 + o.place - 1 AS block_seq, o.start, o.len
      FROM unnest($5::int[], $6::int[]) WITH ORDINALITY o (start, len, place)),
    skipped AS (
      INSERT INTO block_done (group_id, generation, block_seq, n, dead, missing, lease)
      SELECT $1, $2, block_seq, len, 0, 0, gen_random_uuid() FROM o WHERE block_seq < $7)
    INSERT INTO claim_block (group_id, generation, block_seq, n, ids)
    SELECT $1, $2, block_seq, len, ($4::bigint[])[start : start + len - 1] FROM o WHERE block_seq >= $7";
const MOVE: &str = "
    UPDATE group_build SET watermark_jd = $2, watermark_id = $3, rank = $4, next_seq = $5, total = $6, limit_left = $7,
      pending = $8, pending_bytes = $9, built = $10 WHERE group_id = $1";

impl Groups {
    /// Does the next step of a group's build.
    ///
    /// # Errors
    /// The database's. A step that failed changed nothing.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn build_step(&self, group: &Group) -> Result<BuildStep, GroupError> {
        let mut tx = self.pool().begin().await?;
        // What a crashed server forgets of a build is built again: the watermark is in the same transaction.
        sqlx::query("SET LOCAL synchronous_commit = off")
            .execute(&mut *tx)
            .await?;
        let Some(state) = lock(&mut tx, group.id).await? else {
            tx.rollback().await?;
            return self.why_not(group).await;
        };
        let plan = Plan::of(&group.query);
        let mut packer = Packer::new(plan.every, group.block_size as usize, state.carry.clone());
        let end = if packer.is_sated() {
            None
        } else {
            feed(&mut tx, group, &plan, &state, &mut packer).await?
        };
        let built = end.is_none() || packer.is_sated();
        if built {
            packer.finish();
        }
        let (blocks, carry) = packer.into_parts();
        let added = add(&mut tx, group.id, &state, &blocks).await?;
        let next = State {
            watermark: end.unwrap_or(state.watermark),
            next_seq: state.next_seq + i64::try_from(blocks.len()).unwrap_or(0),
            total: state.total + added,
            carry,
            ..state
        };
        store(&mut tx, group.id, &next, built).await?;
        tx.commit().await?;
        Ok(if built {
            BuildStep::Built
        } else {
            BuildStep::Advanced(blocks.len())
        })
    }

    /// No row to lock: built, being built, halted or gone.
    async fn why_not(&self, group: &Group) -> Result<BuildStep, GroupError> {
        let Some(row) = sqlx::query(READ).bind(group.id).fetch_optional(self.pool()).await? else {
            return Ok(BuildStep::Deleted);
        };
        if row.try_get("built")? {
            return Ok(BuildStep::Built);
        }
        Ok(match row.try_get::<Option<String>, _>("halted")? {
            Some(halted) => BuildStep::Halted(Halt::from_stored(&halted, row.try_get("reason")?)),
            None => BuildStep::Busy,
        })
    }
}

/// Locks the build's row; `None` when it cannot be had or the group is halted.
async fn lock(conn: &mut PgConnection, group: i64) -> sqlx::Result<Option<State>> {
    let Some(row) = sqlx::query(LOCK).bind(group).fetch_optional(conn).await? else {
        return Ok(None);
    };
    if row.try_get::<Option<String>, _>("halted")?.is_some() {
        return Ok(None);
    }
    Ok(Some(State {
        generation: row.try_get("generation")?,
        as_of: row.try_get("as_of")?,
        watermark: Place {
            jd: row.try_get("watermark_jd")?,
            id: row.try_get("watermark_id")?,
        },
        next_seq: row.try_get("next_seq")?,
        skip: row.try_get("skip_blocks")?,
        total: row.try_get("total")?,
        carry: Carry {
            rank: row.try_get("rank")?,
            limit_left: row.try_get("limit_left")?,
            pending: row.try_get("pending")?,
            pending_bytes: row.try_get("pending_bytes")?,
        },
    }))
}

/// Feeds the next matches to the packer; gives the new watermark, or `None` when these were the last.
async fn feed(
    conn: &mut PgConnection,
    group: &Group,
    plan: &Plan,
    state: &State,
    packer: &mut Packer,
) -> sqlx::Result<Option<Place>> {
    let rows = if state.rank_is_first() { FIRST_SLICE } else { SLICE };
    let end = if plan.sliced {
        slice_end(conn, plan, state.watermark, rows).await?
    } else {
        None
    };
    let mut query = selection(group, plan, state, end);
    if !plan.sliced {
        query.push(" LIMIT ").push_bind(SLICE);
    }
    if let Some(setting) = sql::transaction_setting(&group.query) {
        sqlx::query(setting).execute(&mut *conn).await?;
    }
    let matches = query.build().persistent(false).fetch_all(conn).await?;
    let mut last = state.watermark;
    for row in &matches {
        last = Place {
            jd: row.try_get("jd")?,
            id: row.try_get("id")?,
        };
        packer.feed(last.id, i64::from(row.try_get::<i32, _>("bytes")?));
    }
    if plan.sliced {
        return Ok(end);
    }
    Ok((i64::try_from(matches.len()).unwrap_or(0) == SLICE).then_some(last))
}

async fn slice_end(conn: &mut PgConnection, plan: &Plan, from: Place, rows: i64) -> sqlx::Result<Option<Place>> {
    let row = sqlx::query(SLICE_END)
        .bind(from.jd)
        .bind(from.id)
        .bind(plan.jd_to)
        .bind(rows - 1)
        .fetch_optional(conn)
        .await?;
    row.map(|row| {
        Ok(Place {
            jd: row.try_get("jd")?,
            id: row.try_get("id")?,
        })
    })
    .transpose()
}

/// What matches after the watermark, up to `end`, in order. Without slices the matches are found first and ordered
/// after, so that the planner never walks the whole (jd, id) index for the few.
fn selection(group: &Group, plan: &Plan, state: &State, end: Option<Place>) -> QueryBuilder<Postgres> {
    let mut q = QueryBuilder::new("WITH m AS ");
    q.push(if plan.sliced {
        "NOT MATERIALIZED ("
    } else {
        "MATERIALIZED ("
    });
    q.push("SELECT a.id, a.jd, a.bytes FROM alert a WHERE ");
    push_window(&mut q, state, end);
    q.push(" AND ");
    push_predicates(&mut q, &group.query);
    push_latest(&mut q, &group.query, Some(&state.as_of));
    q.push(") SELECT m.id, m.jd, m.bytes FROM m ORDER BY m.jd, m.id");
    q
}

fn push_window(q: &mut QueryBuilder<Postgres>, state: &State, end: Option<Place>) {
    q.push("(a.jd, a.id) > (")
        .push_bind(state.watermark.jd)
        .push(", ")
        .push_bind(state.watermark.id)
        .push(")");
    if let Some(end) = end {
        q.push(" AND (a.jd, a.id) <= (")
            .push_bind(end.jd)
            .push(", ")
            .push_bind(end.id)
            .push(")");
    }
    q.push(" AND pg_visible_in_snapshot(a.ingest_xid, ")
        .push_bind(state.as_of.clone())
        .push("::text::pg_snapshot)");
}

/// Writes the blocks; gives the number of alerts in them.
async fn add(conn: &mut PgConnection, group: i64, state: &State, blocks: &[Vec<i64>]) -> sqlx::Result<i64> {
    let ids: Vec<i64> = blocks.iter().flatten().copied().collect();
    let (mut starts, mut lens, mut start) = (Vec::new(), Vec::new(), 1_i32);
    for block in blocks {
        // A step takes at most a slice and what was pending: far below an int4.
        let len = i32::try_from(block.len()).unwrap_or(i32::MAX);
        starts.push(start);
        lens.push(len);
        start = start.saturating_add(len);
    }
    let added = i64::try_from(ids.len()).unwrap_or(i64::MAX);
    if added > 0 {
        sqlx::query(ADD_BLOCKS)
            .bind(group)
            .bind(state.generation)
            .bind(state.next_seq)
            .bind(ids)
            .bind(starts)
            .bind(lens)
            .bind(state.skip)
            .execute(conn)
            .await?;
    }
    Ok(added)
}

async fn store(conn: &mut PgConnection, group: i64, state: &State, built: bool) -> sqlx::Result<()> {
    sqlx::query(MOVE)
        .bind(group)
        .bind(state.watermark.jd)
        .bind(state.watermark.id)
        .bind(state.carry.rank)
        .bind(state.next_seq)
        .bind(state.total)
        .bind(state.carry.limit_left)
        .bind(&state.carry.pending)
        .bind(state.carry.pending_bytes)
        .bind(built)
        .execute(conn)
        .await
        .map(drop)
}

impl State {
    fn rank_is_first(&self) -> bool {
        self.next_seq == 0 && self.carry.rank == 0
    }
}
