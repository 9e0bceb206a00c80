//! What claims and shows cost: the same with one group or a hundred, fresh or nearly done; tables that do not grow.
//!
//! Sizes are small; `ALERTSTREAM_TEST_SCALE` multiplies them (10 for the sizes of the specification's cases).

use alertstream::archive::groups::{Acknowledged, CLAIM_STATEMENT, Durability, GroupState, Outcome};
use alertstream::query::Query;
use serde_json::Value;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::filled::scale;
use crate::groups::{Fixture, assert_balanced, finished};

/// Adds a group of so many blocks of 2 without building it.
async fn group_of(f: &Fixture, name: &str, blocks: i64) -> i64 {
    let group = f.groups.join_or_create(name, Some(&Query::all()), 2).await.unwrap();
    for statement in [
        "INSERT INTO claim_block (group_id, generation, block_seq, n, ids)
         SELECT $1, 1, s, 2, ARRAY[2 * s + 1, 2 * s + 2] FROM generate_series(0, $2 - 1) s",
        "UPDATE group_build SET built = true, next_seq = $2, total = 2 * $2 WHERE group_id = $1",
    ] {
        sqlx::query(statement)
            .bind(group.id)
            .bind(blocks)
            .execute(&f.pool)
            .await
            .unwrap();
    }
    group.id
}

/// Explains the claim of a group's next block, without claiming it; gives the whole plan.
async fn explain(f: &Fixture, group: i64) -> Value {
    let mut tx = f.pool.begin().await.unwrap();
    let prepare = format!("PREPARE claim (bigint, int, uuid, float8, bigint) AS {CLAIM_STATEMENT}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *tx).await.unwrap();
    let explain =
        format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE claim ({group}, 1, gen_random_uuid(), 30, 0)");
    let plan: Value = sqlx::query_scalar(AssertSqlSafe(explain))
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    sqlx::raw_sql("DEALLOCATE claim").execute(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();
    plan[0]["Plan"].clone()
}

fn nodes(plan: &Value) -> Vec<&Value> {
    let below = plan["Plans"].as_array().into_iter().flatten().flat_map(nodes);
    std::iter::once(plan).chain(below).collect()
}

/// The pages that a claim touches, after a check that it walks the partial index and nothing else.
fn pages(plan: &Value) -> u64 {
    let scans: Vec<&Value> = nodes(plan)
        .into_iter()
        .filter(|node| node["Relation Name"] == "claim_block")
        .collect();
    assert!(
        scans.iter().any(|node| node["Index Name"] == "claim_block_free"),
        "{plan:#}"
    );
    for node in scans {
        assert_ne!(node["Node Type"], "Seq Scan", "{plan:#}");
        assert_eq!(node["Rows Removed by Filter"].as_u64().unwrap_or(0), 0, "{plan:#}");
        assert!(node["Actual Rows"].as_f64().unwrap() <= 1.0, "{plan:#}");
    }
    plan["Shared Hit Blocks"].as_u64().unwrap() + plan["Shared Read Blocks"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_other_groups_and_a_nearly_done_one_do_not_change_a_claims_plan() {
    let f = Fixture::with(0).await;
    let blocks = 2_000 * scale();
    let group = group_of(&f, "g", blocks).await;
    sqlx::query("VACUUM ANALYZE claim_block")
        .execute(&f.pool)
        .await
        .unwrap();
    let alone = pages(&explain(&f, group).await);
    for other in 0..100 {
        group_of(&f, &format!("other{other}"), 200 * scale()).await;
    }
    sqlx::query("VACUUM ANALYZE claim_block")
        .execute(&f.pool)
        .await
        .unwrap();
    let among = pages(&explain(&f, group).await);
    sqlx::query("DELETE FROM claim_block WHERE group_id = $1 AND block_seq < $2 / 100 * 99")
        .bind(group)
        .bind(blocks)
        .execute(&f.pool)
        .await
        .unwrap();
    sqlx::query("VACUUM ANALYZE claim_block")
        .execute(&f.pool)
        .await
        .unwrap();
    let late = pages(&explain(&f, group).await);
    // Some index levels more, for a table a hundred times as large.
    assert!(among <= alone + 12 && late <= alone + 12, "{alone} {among} {late}");
}

/// Case 17 as a consumer's statements make it: 1,000,000 alerts in blocks of 500, each block's progress stored five times.
/// Nothing is vacuumed here, so a statement that copied a block's numbers (4 kB) would show at once.
#[tokio::test(flavor = "multi_thread")]
async fn draining_a_group_leaves_the_tables_as_large_as_they_were() {
    const BLOCKS: i64 = 2_000;
    const SLACK: i64 = 3 << 20;
    let f = Fixture::with(0).await;
    sqlx::query("ALTER TABLE claim_block SET (autovacuum_enabled = false)")
        .execute(&f.pool)
        .await
        .unwrap();
    let group = f.groups.join_or_create("g", Some(&Query::all()), 500).await.unwrap();
    for statement in [
        "INSERT INTO claim_block (group_id, generation, block_seq, n, ids)
         SELECT $1, 1, s, 500, ARRAY(SELECT generate_series(500 * s, 500 * s + 499)) FROM generate_series(0, $2 - 1) s",
        "UPDATE group_build SET built = true, next_seq = $2, total = 500 * $2 WHERE group_id = $1",
    ] {
        let statement = sqlx::query(statement).bind(group.id).bind(BLOCKS);
        statement.execute(&f.pool).await.unwrap();
    }
    let size = async || -> i64 {
        sqlx::query_scalar(
            "SELECT sum(pg_total_relation_size(c))::int8 FROM
             unnest('{claim_block,block_done,block_receipt,group_tally,group_build,consumer,consumer_group}'::regclass[]) c",
        )
        .fetch_one(&f.pool)
        .await
        .unwrap()
    };
    let start = size().await;
    assert!(start > 4_000 * BLOCKS, "the blocks' numbers are in it: {start}");
    let mut session = f.session(&group).await;
    let mut held = session.claim(Uuid::new_v4()).await.unwrap();
    let mut done = 0;
    while let Some(claim) = held {
        let mut state = finished(&claim);
        for part in 1..=5 {
            state.done = claim.done.clone();
            state.done.set_range(0..part * 90);
            let kept = session.commit(&state, Outcome::Kept, &[], Durability::Soon).await;
            assert_eq!(kept.unwrap(), Outcome::Kept);
        }
        let (acknowledged, next) = session
            .acknowledge_and_claim(&finished(&claim), Uuid::new_v4())
            .await
            .unwrap();
        assert_eq!(acknowledged, Acknowledged::Done);
        done += 1;
        if done % 500 == 0 {
            assert_balanced(&f.groups.show("g").await.unwrap());
        }
        held = next;
    }
    assert_eq!(done, BLOCKS);
    let end = f.groups.show("g").await.unwrap();
    assert_balanced(&end);
    assert_eq!((end.state, end.blocks.done), (GroupState::Exhausted, BLOCKS));
    let grown = size().await - start;
    assert!(grown <= SLACK, "{start} bytes grew by {grown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_folded_so_that_a_show_reads_little() {
    let f = Fixture::with(0).await;
    let group = group_of(&f, "g", 10).await;
    let blocks = 30_000 * scale();
    sqlx::query(
        "INSERT INTO block_done (group_id, generation, block_seq, n, dead, missing, lease)
         SELECT $1, 1, s + 10, 2, s % 2, 0, gen_random_uuid() FROM generate_series(0, $2 - 1) s",
    )
    .bind(group)
    .bind(blocks)
    .execute(&f.pool)
    .await
    .unwrap();
    sqlx::query("UPDATE group_build SET next_seq = 10 + $2, total = 2 * (10 + $2) WHERE group_id = $1")
        .bind(group)
        .bind(blocks)
        .execute(&f.pool)
        .await
        .unwrap();
    let before = f.groups.show("g").await.unwrap();
    let after = f.groups.show("g").await.unwrap();
    assert_balanced(&before);
    assert_eq!((before.alerts, before.blocks), (after.alerts, after.blocks));
    assert_eq!(
        (after.blocks.done, after.blocks.free, after.alerts.dead),
        (blocks, 10, blocks / 2)
    );
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM block_done")
        .fetch_one(&f.pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
}
