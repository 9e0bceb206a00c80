//! Replay: a whole group by 1, 2 and 4 consumers (claims, fetches, settlements and all), beside as many COPY TO of whole
//! packets and of what is stored, beside fetching alone, and beside consumers that claim, select and delete row by row.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alertstream::archive::Archive;
use alertstream::archive::groups::{BuildStep, Group, Groups};
use alertstream::query::Query;
use alertstream::record::SourceId;
use alertstream::source::archive::{ArchiveConfig, ArchiveSource};
use alertstream::stream::{StreamConfig, open};
use futures::{StreamExt, TryStreamExt};
use sqlx::postgres::PgPoolCopyExt;
use sqlx::{AssertSqlSafe, PgPool};

use super::Sizes;
use super::ingest::{bare_copy, make_tables, write_once};
use super::packets::packet;
use super::report::{Report, median, rate, timed};

const BLOCK: usize = 500;
const ROUNDS: usize = 5;
/// Of COPY TO of whole packets over one connection.
const WANTED: f64 = 0.8;
/// Alerts of the naive way.
const NAIVE: i64 = 2_000;

const NAIVE_CLAIM: &str = "UPDATE naive_queue SET state = 1 WHERE id = (SELECT id FROM naive_queue WHERE state = 0 \
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    eprintln!("replay: {} packets", sizes.replayed);
    let pool = archive.pool();
    let ids = fill(archive, sizes.replayed).await;
    let group = group(archive).await;
    let mut one = 0.0;
    for consumers in [1, 2, 4] {
        let (mut ours, mut fetched, mut whole, mut stored) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let keys: Vec<i64> = (0..ids.len() as i64).collect();
        for _ in 0..ROUNDS {
            whole.push(copy_to(pool, "bare", &keys, consumers).await);
            stored.push(copy_to(pool, "alert", &ids, consumers).await);
            fetched.push(fetch(archive, &ids, consumers).await);
            ours.push(replay(archive, &group, ids.len(), consumers).await);
        }
        let of = |times| rate(ids.len(), median(times));
        let (ours, whole) = (of(ours), of(whole));
        let what = format!("replay, {consumers} consumer(s), alerts");
        let ratio = report.beside(what.clone(), ours, "COPY TO of whole packets, as many", whole);
        report.beside(what.clone(), ours, "COPY TO of what is stored, as many", of(stored));
        report.beside(what.clone(), ours, "fetching alone, as many", of(fetched));
        report.beside(
            what,
            ours,
            "claim, select, delete per alert",
            naive(pool, &ids, consumers).await,
        );
        if consumers == 1 {
            one = ours;
            let measured = format!("{ratio:.2}");
            report.gate(
                "replay by 1 of COPY TO",
                measured,
                format!("{WANTED:.2}"),
                ratio >= WANTED,
            );
        } else if consumers == 2 {
            let more = ours / one;
            report.gate("replay by 2 of that by 1", format!("{more:.2}"), "above 1", more > 1.0);
        }
    }
}

/// Archives the packets, also in one row each for COPY TO; gives their numbers in order.
async fn fill(archive: &Archive, count: usize) -> Vec<i64> {
    let pool = archive.pool();
    make_tables(pool).await;
    let packets = Arc::new((0..count).map(packet).collect::<Vec<_>>());
    bare_copy(pool, &packets, 0, 1).await;
    execute(pool, "TRUNCATE alert").await;
    assert_eq!(write_once(archive, &packets, 2).await, count as u64);
    execute(pool, "VACUUM ANALYZE alert").await;
    execute(pool, "VACUUM ANALYZE bare").await;
    let numbers = sqlx::query_scalar("SELECT id FROM alert ORDER BY jd, id");
    numbers.fetch_all(pool).await.expect("ids")
}

async fn execute(pool: &PgPool, statement: &'static str) {
    sqlx::query(statement).execute(pool).await.expect("a statement");
}

async fn group(archive: &Archive) -> Group {
    let groups = Groups::new(archive);
    groups
        .join_or_create("replay", Some(&Query::all()), BLOCK as u32)
        .await
        .expect("a group")
}

/// Starts the group over and builds it.
async fn begin(groups: &Groups, group: &Group) {
    groups.rewind(&group.name).await.expect("rewound");
    while groups.build_step(group).await.expect("a build step") != BuildStep::Built {}
}

/// From the start of all consumers to the last acknowledgement of any.
pub(crate) async fn replay(archive: &Archive, group: &Group, count: usize, consumers: usize) -> Duration {
    begin(&Groups::new(archive), group).await;
    let mut tasks = tokio::task::JoinSet::new();
    let start = Instant::now();
    for consumer in 0..consumers {
        let source = ArchiveSource::new(
            SourceId::new(format!("c{consumer}")),
            archive.apart(4),
            group.clone(),
            ArchiveConfig::default(),
        );
        tasks.spawn(consume(source));
    }
    let (mut total, mut end) = (0, start);
    while let Some(consumed) = tasks.join_next().await {
        let (consumed, last) = consumed.expect("a consumer");
        total += consumed;
        end = end.max(last);
    }
    assert_eq!(total, count);
    end - start
}

async fn consume(source: ArchiveSource) -> (usize, Instant) {
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    let (mut count, mut last) = (0, Instant::now());
    while let Some(delivery) = alerts.next().await {
        let delivery = delivery.expect("an alert");
        count += usize::from(!delivery.get().payload.is_empty());
        delivery.ack();
        last = Instant::now();
    }
    control.shutdown(Duration::from_secs(10)).await.expect("its end");
    (count, last)
}

/// Splits the numbers into one run per connection.
fn shares(ids: &[i64], connections: usize) -> Vec<Vec<i64>> {
    ids.chunks(ids.len().div_ceil(connections))
        .map(<[i64]>::to_vec)
        .collect()
}

/// As a consumer fetches: the next block is asked for while this one is read.
async fn fetch(archive: &Archive, ids: &[i64], readers: usize) -> Duration {
    let mut tasks = tokio::task::JoinSet::new();
    let (time, fetched) = timed(async {
        for share in shares(ids, readers) {
            let archive = archive.apart(2);
            tasks.spawn(async move {
                let mut fetched = 0;
                let mut blocks = share.chunks(BLOCK).map(|block| archive.fetch(block.to_vec()));
                let (mut next, mut after) = (blocks.next(), blocks.next());
                while let Some(mut block) = next {
                    while let Some(alert) = block.try_next().await.expect("fetched") {
                        fetched += usize::from(!alert.raw.payload.is_empty());
                    }
                    (next, after) = (after, blocks.next());
                }
                fetched
            });
        }
        let mut total = 0;
        while let Some(fetched) = tasks.join_next().await {
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
    let (time, ()) = timed(async {
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

/// Alerts per second when each is claimed, selected and deleted by a statement of its own.
async fn naive(pool: &PgPool, ids: &[i64], consumers: usize) -> f64 {
    let count = NAIVE.min(ids.len() as i64);
    for statement in [
        "DROP TABLE IF EXISTS naive_queue".to_owned(),
        "CREATE TABLE naive_queue (id bigint PRIMARY KEY, state int NOT NULL DEFAULT 0)".to_owned(),
        format!("INSERT INTO naive_queue SELECT id FROM alert ORDER BY jd, id LIMIT {count}"),
        "CREATE INDEX ON naive_queue (id) WHERE state = 0".to_owned(),
        "ANALYZE naive_queue".to_owned(),
    ] {
        sqlx::query(AssertSqlSafe(statement))
            .execute(pool)
            .await
            .expect("a table");
    }
    let mut tasks = tokio::task::JoinSet::new();
    let (time, ()) = timed(async {
        for _ in 0..consumers {
            let pool = pool.clone();
            tasks.spawn(async move {
                let mut connection = pool.acquire().await.expect("a connection");
                execute_on(&mut connection, "SET synchronous_commit = off").await;
                let claim = || sqlx::query_scalar::<_, i64>(NAIVE_CLAIM);
                while let Some(id) = claim().fetch_optional(&mut *connection).await.expect("a claim") {
                    let body: Vec<u8> = sqlx::query_scalar("SELECT body FROM alert WHERE id = $1")
                        .bind(id)
                        .fetch_one(&mut *connection)
                        .await
                        .expect("a row");
                    assert!(!body.is_empty());
                    let done = sqlx::query("DELETE FROM naive_queue WHERE id = $1").bind(id);
                    done.execute(&mut *connection).await.expect("done");
                }
            });
        }
        tasks.join_all().await;
    })
    .await;
    rate(count as usize, time)
}

async fn execute_on(connection: &mut sqlx::PgConnection, statement: &'static str) {
    sqlx::query(statement).execute(connection).await.expect("a setting");
}
