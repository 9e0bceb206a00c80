//! Claims: blocks claimed and acknowledged by 1, 4 and 8 consumers, beside the bare statements of the same job and beside
//! one row claimed per alert, each by as many; then again among 100 other large groups.

use alertstream::archive::Archive;
use alertstream::archive::groups::{BlockState, CLAIM_STATEMENT, Claim, Group, Groups, Liveness, SessionTimes};
use alertstream::query::Query;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use uuid::Uuid;

use super::Sizes;
use super::report::{Report, rate, timed};

const BLOCK: i64 = 500;
const CONSUMERS: [usize; 3] = [1, 4, 8];
/// The consumers of the gate, blocks per second and part of the bare statements of which one is wanted.
const GATE: (usize, f64, f64) = (4, 1_500.0, 0.8);
const OTHERS: i64 = 100;
const NAIVE: i64 = 5_000;

const FILL: &str = "INSERT INTO claim_block (group_id, generation, block_seq, n, ids) \
    SELECT $1, 1, s, $3::int, ARRAY(SELECT generate_series(1, $3)) FROM generate_series(0, $2 - 1) s";
/// Of other groups only the rows matter, not the alerts in them.
const FILL_OTHERS: &str = "INSERT INTO claim_block (group_id, generation, block_seq, n, ids) \
    SELECT g, 1, s, 1, ARRAY[s] FROM generate_series(1000000, 1000000 + $1 - 1) g, generate_series(0, $2 - 1) s";
const BUILT: &str = "UPDATE group_build SET built = true, next_seq = $2, total = $2 * $3 WHERE group_id = $1";
const BARE_CLAIM: &str = "WITH k AS MATERIALIZED (SELECT id FROM claim_block WHERE group_id = $1 AND state = 0 \
    ORDER BY block_seq LIMIT 1 FOR UPDATE SKIP LOCKED) \
    UPDATE claim_block b SET state = 1, owner = 1, lease = $2, lease_until = now() + interval '30 s', barren = barren + 1 \
    FROM k WHERE b.id = k.id RETURNING b.id, b.ids";
const BARE_ACKNOWLEDGE: &str = "WITH d AS (DELETE FROM claim_block WHERE id = $1 AND lease = $2 AND state = 1 \
    RETURNING group_id, generation, block_seq, n, dead, missing, lease) \
    INSERT INTO block_done (group_id, generation, block_seq, n, dead, missing, lease) SELECT * FROM d RETURNING block_seq";
const NAIVE_CLAIM: &str = "UPDATE naive_claim SET state = 1 WHERE id = (SELECT id FROM naive_claim WHERE state = 0 \
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    eprintln!("claims: {} blocks", sizes.blocks);
    for consumers in CONSUMERS {
        let naive = naive(archive.pool(), consumers).await;
        let bare_group = filled(archive, &format!("bare-{consumers}"), sizes.blocks).await;
        let bare = drain_bare(archive, &bare_group, consumers, sizes.blocks).await;
        let group = filled(archive, &format!("claims-{consumers}"), sizes.blocks).await;
        let blocks = drain(archive, &group, consumers, sizes.blocks).await;
        let what = format!("claim and acknowledge, {consumers} consumer(s), blocks");
        let part = report.beside(what, blocks, "the bare statements, by as many", bare);
        report.beside(
            format!("the same in alerts, {consumers} consumer(s)"),
            blocks * BLOCK as f64,
            "claim and delete per alert, by as many",
            naive,
        );
        if consumers == GATE.0 {
            report.gate(
                format!("claims by {consumers}"),
                format!("{blocks:.0} blocks/s, {part:.2} of the bare statements"),
                format!("{:.0} blocks/s or {:.2}", GATE.1, GATE.2),
                blocks >= GATE.1 || part >= GATE.2,
            );
        }
    }
}

/// Case 10: what 100 other groups change.
pub(crate) async fn among_others(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    eprintln!("claims among {OTHERS} other groups of {} blocks", sizes.other_blocks);
    let pool = archive.pool();
    let group = filled(archive, "alone", sizes.blocks).await;
    let pages_alone = pages(pool, &group).await;
    let alone = drain(archive, &group, GATE.0, sizes.blocks).await;
    let (time, ()) = timed(fill_others(archive, sizes.other_blocks)).await;
    eprintln!(
        "  {} rows made in {:.0} s",
        OTHERS * sizes.other_blocks,
        time.as_secs_f64()
    );
    let group = filled(archive, "among", sizes.blocks).await;
    let pages_among = pages(pool, &group).await;
    let among = drain(archive, &group, GATE.0, sizes.blocks).await;
    let what = format!("the same among {OTHERS} groups of {} blocks", sizes.other_blocks);
    let part = report.beside(what, among, "alone", alone);
    report.figure(
        "pages that a claim touches: alone, among others",
        format!("{pages_alone}, {pages_among}"),
    );
    report.gate(
        format!("claims among {OTHERS} other groups (case 10)"),
        format!("the same plan, {pages_among} pages, {part:.2} of alone"),
        format!("the same plan, {} pages, 0.50", pages_alone + 12),
        pages_among <= pages_alone + 12 && part >= 0.5,
    );
}

/// A group of so many full blocks.
async fn filled(archive: &Archive, name: &str, blocks: i64) -> Group {
    let pool = archive.pool();
    let group = Groups::new(archive)
        .join_or_create(name, Some(&Query::all()), BLOCK as u32)
        .await
        .expect("a group");
    for statement in [FILL, BUILT] {
        let statement = sqlx::query(statement).bind(group.id).bind(blocks).bind(BLOCK);
        statement.execute(pool).await.expect("blocks");
    }
    vacuum(archive).await;
    group
}

async fn vacuum(archive: &Archive) {
    let mut connection = unhurried(archive).await;
    let vacuum = sqlx::query("VACUUM ANALYZE claim_block, block_done");
    vacuum.execute(&mut connection).await.expect("statistics");
}

async fn unhurried(archive: &Archive) -> PgConnection {
    let mut connection = archive.dedicated_connection().await.expect("a connection");
    let unhurried = sqlx::query("SET statement_timeout = 0");
    unhurried.execute(&mut connection).await.expect("a setting");
    connection
}

/// Makes the rows of the other groups, without indexes, which are made after it.
async fn fill_others(archive: &Archive, blocks: i64) {
    let mut connection = unhurried(archive).await;
    let indexes: Vec<(String, String)> = sqlx::query_as(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'claim_block' AND indexname <> 'claim_block_pkey'",
    )
    .fetch_all(&mut connection)
    .await
    .expect("its indexes");
    let mut before = vec!["SET maintenance_work_mem = '512MB'".to_owned()];
    before.extend(indexes.iter().map(|(name, _)| format!("DROP INDEX {name}")));
    for statement in before {
        let statement = sqlx::query(AssertSqlSafe(statement));
        statement.execute(&mut connection).await.expect("dropped");
    }
    let fill = sqlx::query(FILL_OTHERS).bind(OTHERS).bind(blocks);
    fill.execute(&mut connection).await.expect("blocks");
    for (_, definition) in indexes {
        let definition = sqlx::query(AssertSqlSafe(definition));
        definition.execute(&mut connection).await.expect("an index");
    }
}

/// Blocks per second claimed and acknowledged by so many consumers.
async fn drain(archive: &Archive, group: &Group, consumers: usize, blocks: i64) -> f64 {
    let groups = Groups::new(archive);
    let mut tasks = tokio::task::JoinSet::new();
    let (time, ()) = timed(async {
        for _ in 0..consumers {
            tasks.spawn(consume(groups.clone(), group.clone()));
        }
        let total: i64 = tasks.join_all().await.into_iter().sum();
        assert_eq!(total, blocks);
    })
    .await;
    rate(blocks as usize, time)
}

async fn consume(groups: Groups, group: Group) -> i64 {
    let session = groups.session(&group, Liveness::Lock, SessionTimes::default());
    let mut session = session.await.expect("a session");
    let mut claimed = 0;
    let mut next = session.claim(Uuid::new_v4()).await.expect("a claim");
    while let Some(claim) = next {
        claimed += 1;
        let state = finished(&claim);
        let done = session.acknowledge_and_claim(&state, Uuid::new_v4());
        next = done.await.expect("done").1;
    }
    claimed
}

fn finished(claim: &Claim) -> BlockState {
    let mut done = claim.done.clone();
    done.set_range(0..claim.ids.len());
    BlockState {
        id: claim.id,
        generation: claim.generation,
        block_seq: claim.block_seq,
        lease: claim.lease,
        done,
        dead: claim.dead,
        missing: claim.missing,
        trying: None,
    }
}

/// The same by two bare statements a block.
async fn drain_bare(archive: &Archive, group: &Group, consumers: usize, blocks: i64) -> f64 {
    let mut tasks = tokio::task::JoinSet::new();
    let id = group.id;
    let (time, ()) = timed(async {
        for _ in 0..consumers {
            let mut connection = asynchronous(archive).await;
            tasks.spawn(async move {
                let mut claimed = 0;
                loop {
                    let lease = Uuid::new_v4();
                    let claim = sqlx::query_as::<_, (i64, Vec<i64>)>(BARE_CLAIM).bind(id).bind(lease);
                    let Some((block, ids)) = claim.fetch_optional(&mut connection).await.expect("a claim") else {
                        return claimed;
                    };
                    assert_eq!(ids.len() as i64, BLOCK);
                    let done = sqlx::query(BARE_ACKNOWLEDGE).bind(block).bind(lease);
                    done.execute(&mut connection).await.expect("done");
                    claimed += 1;
                }
            });
        }
        let total: i64 = tasks.join_all().await.into_iter().sum();
        assert_eq!(total, blocks);
    })
    .await;
    rate(blocks as usize, time)
}

/// A connection that commits as a consumer's does.
async fn asynchronous(archive: &Archive) -> PgConnection {
    let mut connection = archive.dedicated_connection().await.expect("a connection");
    let asynchronous = sqlx::query("SET synchronous_commit = off");
    asynchronous.execute(&mut connection).await.expect("a setting");
    connection
}

/// The pages that a group's next claim touches, after a check that it walks the partial index and nothing else.
async fn pages(pool: &PgPool, group: &Group) -> u64 {
    let mut connection = pool.acquire().await.expect("a connection");
    let mut tx = connection.begin().await.expect("a transaction");
    let prepare = format!("PREPARE claim (bigint, int, uuid, float8, bigint) AS {CLAIM_STATEMENT}");
    sqlx::raw_sql(AssertSqlSafe(prepare))
        .execute(&mut *tx)
        .await
        .expect("prepared");
    let explain = format!(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE claim ({}, 1, gen_random_uuid(), 30, 0)",
        group.id
    );
    let explained = sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut *tx).await;
    let plan: serde_json::Value = explained.expect("a plan");
    sqlx::raw_sql("DEALLOCATE claim")
        .execute(&mut *tx)
        .await
        .expect("forgotten");
    tx.rollback().await.expect("rolled back");
    let plan = &plan[0]["Plan"];
    let text = plan.to_string();
    assert!(
        text.contains("claim_block_free") && !text.contains("Seq Scan"),
        "{plan:#}"
    );
    plan["Shared Hit Blocks"].as_u64().expect("pages") + plan["Shared Read Blocks"].as_u64().expect("pages")
}

/// Alerts per second when each is claimed by a statement and deleted by another.
async fn naive(pool: &PgPool, consumers: usize) -> f64 {
    for statement in [
        "DROP TABLE IF EXISTS naive_claim".to_owned(),
        "CREATE TABLE naive_claim (id bigint PRIMARY KEY, state int NOT NULL DEFAULT 0)".to_owned(),
        format!("INSERT INTO naive_claim SELECT generate_series(1, {NAIVE})"),
        "CREATE INDEX ON naive_claim (id) WHERE state = 0".to_owned(),
        "ANALYZE naive_claim".to_owned(),
    ] {
        let statement = sqlx::query(AssertSqlSafe(statement));
        statement.execute(pool).await.expect("a table");
    }
    let mut tasks = tokio::task::JoinSet::new();
    let (time, ()) = timed(async {
        for _ in 0..consumers {
            let pool = pool.clone();
            tasks.spawn(async move {
                let mut connection = pool.acquire().await.expect("a connection");
                let asynchronous = sqlx::query("SET synchronous_commit = off");
                asynchronous.execute(&mut *connection).await.expect("a setting");
                let claim = || sqlx::query_scalar::<_, i64>(NAIVE_CLAIM);
                while let Some(id) = claim().fetch_optional(&mut *connection).await.expect("a claim") {
                    let done = sqlx::query("DELETE FROM naive_claim WHERE id = $1").bind(id);
                    done.execute(&mut *connection).await.expect("done");
                }
            });
        }
        tasks.join_all().await;
    })
    .await;
    rate(NAIVE as usize, time)
}
