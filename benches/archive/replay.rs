//! Replay: packets fetched block by block, beside COPY TO of the same packets and of the same rows and beside one select per alert.

use std::time::Duration;

use alertstream::archive::Archive;
use futures::TryStreamExt;
use sqlx::PgPool;
use sqlx::postgres::PgPoolCopyExt;

use super::Sizes;
use super::report::{Report, median, rate, timed};

const BLOCK: usize = 500;
const ROUNDS: usize = 5;

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    eprintln!("replay: {} packets", sizes.alerts);
    let pool = archive.pool();
    sqlx::query("VACUUM ANALYZE alert")
        .execute(pool)
        .await
        .expect("statistics");
    let ids: Vec<i64> = sqlx::query_scalar("SELECT id FROM alert ORDER BY jd, id")
        .fetch_all(pool)
        .await
        .expect("ids");
    for connections in [1, 2, 4] {
        let (mut ours, mut whole, mut stored) = (Vec::new(), Vec::new(), Vec::new());
        let keys: Vec<i64> = (0..ids.len() as i64).collect();
        for _ in 0..ROUNDS {
            whole.push(copy_to(pool, "bare", &keys, connections).await);
            stored.push(copy_to(pool, "alert", &ids, connections).await);
            ours.push(replay(archive, &ids, connections).await);
        }
        let of = |times| rate(ids.len(), median(times));
        let (ours, name) = (of(ours), format!("replay, {connections} connection(s), alerts"));
        report.beside(name.clone(), ours, "COPY TO of whole packets, as many", of(whole));
        report.beside(name, ours, "COPY TO of what is stored, as many", of(stored));
    }
    let few = &ids[..ids.len().min(1_000)];
    let (time, ()) = timed(naive(pool, few)).await;
    report.figure(
        "naive: one select per alert, alerts",
        format!("{:.0}/s", rate(few.len(), time)),
    );
}

/// Splits the numbers into one run per connection.
fn shares(ids: &[i64], connections: usize) -> Vec<Vec<i64>> {
    ids.chunks(ids.len().div_ceil(connections))
        .map(<[i64]>::to_vec)
        .collect()
}

async fn replay(archive: &Archive, ids: &[i64], connections: usize) -> Duration {
    let mut readers = tokio::task::JoinSet::new();
    let (time, fetched) = timed(async {
        for share in shares(ids, connections) {
            // One connection each, and as a consumer does it: the next block is asked for while this one is worked on.
            let archive = archive.apart(1);
            readers.spawn(async move {
                let mut fetched = 0;
                let mut blocks = share.chunks(BLOCK).map(|block| archive.fetch(block.to_vec()));
                let mut next = blocks.next();
                while let Some(mut block) = next {
                    next = blocks.next();
                    while let Some(alert) = block.try_next().await.expect("fetched") {
                        fetched += usize::from(!alert.raw.payload.is_empty());
                    }
                }
                fetched
            });
        }
        let mut total = 0;
        while let Some(fetched) = readers.join_next().await {
            total += fetched.expect("a reader");
        }
        total
    })
    .await;
    assert_eq!(fetched, ids.len());
    time
}

async fn copy_to(pool: &PgPool, table: &'static str, ids: &[i64], connections: usize) -> Duration {
    let mut readers = tokio::task::JoinSet::new();
    let (time, _) = timed(async {
        for share in shares(ids, connections) {
            let (first, last) = (share[0], share[share.len() - 1]);
            let pool = pool.clone();
            readers.spawn(async move {
                let statement = format!(
                    "COPY (SELECT id, body FROM {table} WHERE id BETWEEN {} AND {}) TO STDOUT (FORMAT binary)",
                    first.min(last),
                    first.max(last)
                );
                let mut rows = pool.copy_out_raw(&statement).await.expect("COPY");
                let mut bytes = 0;
                while let Some(part) = rows.try_next().await.expect("rows") {
                    bytes += part.len();
                }
                bytes
            });
        }
        while let Some(bytes) = readers.join_next().await {
            assert!(bytes.expect("a reader") > 0);
        }
    })
    .await;
    time
}

async fn naive(pool: &PgPool, ids: &[i64]) {
    for id in ids {
        let body: Vec<u8> = sqlx::query_scalar("SELECT body FROM alert WHERE id = $1")
            .bind(id)
            .fetch_one(pool)
            .await
            .expect("a row");
        assert!(!body.is_empty());
    }
}
