//! Claims: blocks claimed and acknowledged by 1, 4 and 8 consumers, beside one row claimed per alert.

use alertstream::archive::Archive;
use alertstream::archive::groups::{BlockState, Claim, Group, Groups, Liveness, SessionTimes};
use alertstream::query::Query;
use sqlx::PgPool;
use uuid::Uuid;

use super::Sizes;
use super::report::{Report, rate, timed};

const BLOCK: i64 = 500;

const FILL: &str = "INSERT INTO claim_block (group_id, generation, block_seq, n, ids) \
    SELECT $1, 1, s, $3::int, ARRAY(SELECT generate_series(1, $3)) FROM generate_series(0, $2 - 1) s";
const BUILT: &str = "UPDATE group_build SET built = true, next_seq = $2, total = $2 * $3 WHERE group_id = $1";
const NAIVE_CLAIM: &str = "UPDATE naive_claim SET state = 1 WHERE id = (SELECT id FROM naive_claim WHERE state = 0 \
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    eprintln!("claims: {} blocks", sizes.blocks);
    let pool = archive.pool();
    let naive = naive(pool).await;
    for consumers in [1, 4, 8] {
        let groups = Groups::new(archive);
        let name = format!("claims-{consumers}");
        let group = groups
            .join_or_create(&name, Some(&Query::all()), BLOCK as u32)
            .await
            .expect("a group");
        sqlx::query(FILL)
            .bind(group.id)
            .bind(sizes.blocks)
            .bind(BLOCK)
            .execute(pool)
            .await
            .expect("blocks");
        sqlx::query(BUILT)
            .bind(group.id)
            .bind(sizes.blocks)
            .bind(BLOCK)
            .execute(pool)
            .await
            .expect("built");
        sqlx::query("VACUUM ANALYZE claim_block")
            .execute(pool)
            .await
            .expect("statistics");
        let (time, claimed) = timed(drain(&groups, &group, consumers)).await;
        assert_eq!(claimed, sizes.blocks as usize);
        let blocks = rate(claimed, time);
        report.figure(
            format!("claim and acknowledge, {consumers} consumer(s), blocks"),
            format!("{blocks:.0}/s"),
        );
        report.beside(
            format!("the same in alerts, {consumers} consumer(s)"),
            blocks * BLOCK as f64,
            "one row per alert, 1 consumer",
            naive,
        );
    }
}

async fn drain(groups: &Groups, group: &Group, consumers: usize) -> usize {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..consumers {
        let (groups, group) = (groups.clone(), group.clone());
        tasks.spawn(async move {
            let mut session = groups
                .session(&group, Liveness::Lock, SessionTimes::default())
                .await
                .expect("a session");
            let mut claimed = 0;
            let mut next = session.claim(Uuid::new_v4()).await.expect("a claim");
            while let Some(claim) = next {
                claimed += 1;
                next = session
                    .acknowledge_and_claim(&finished(&claim), Uuid::new_v4())
                    .await
                    .expect("done")
                    .1;
            }
            claimed
        });
    }
    let mut total = 0;
    while let Some(claimed) = tasks.join_next().await {
        total += claimed.expect("a consumer");
    }
    total
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

/// Alerts per second when each is claimed by a statement and deleted by another.
async fn naive(pool: &PgPool) -> f64 {
    const ALERTS: usize = 5_000;
    for statement in [
        "CREATE TABLE naive_claim (id bigint PRIMARY KEY, state int NOT NULL DEFAULT 0)",
        "INSERT INTO naive_claim SELECT generate_series(1, 5000)",
        "CREATE INDEX ON naive_claim (id) WHERE state = 0",
        "ANALYZE naive_claim",
    ] {
        sqlx::query(statement).execute(pool).await.expect("a table");
    }
    let mut connection = pool.acquire().await.expect("a connection");
    sqlx::query("SET synchronous_commit = off")
        .execute(&mut *connection)
        .await
        .expect("a setting");
    let (time, ()) = timed(async {
        for _ in 0..ALERTS {
            let id: i64 = sqlx::query_scalar(NAIVE_CLAIM)
                .fetch_one(&mut *connection)
                .await
                .expect("a claim");
            sqlx::query("DELETE FROM naive_claim WHERE id = $1")
                .bind(id)
                .execute(&mut *connection)
                .await
                .expect("done");
        }
    })
    .await;
    rate(ALERTS, time)
}
