//! Ingest: our writer over 1, 2 and 4 connections, beside as many bare COPYs of the same packets and beside one insert
//! per alert over as many.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alertstream::archive::Archive;
use alertstream::archive::ingest::{ArchiveWriter, Incoming};
use bytes::BufMut;
use sqlx::PgPool;

use super::Sizes;
use super::copy::copy_in;
use super::packets::{HEADER, packet};
use super::report::{Report, median, rate, timed};

/// Alerts of one transaction.
const BATCH: usize = 100;
const ROUNDS: usize = 3;
const CONNECTIONS: [usize; 3] = [1, 2, 4];
/// Of COPY FROM of whole packets, over as many connections.
const WANTED: f64 = 0.6;
/// Alerts of the naive way, which is slow.
const NAIVE: usize = 600;

type Packets = Arc<Vec<Incoming>>;

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    eprintln!("ingest: {} packets", sizes.alerts);
    let packets: Packets = Arc::new((0..sizes.alerts).map(packet).collect());
    let pool = archive.pool();
    make_tables(pool).await;
    for connections in CONNECTIONS {
        let (mut whole, mut bodies, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            whole.push(bare_copy(pool, &packets, 0, connections).await);
            bodies.push(bare_copy(pool, &packets, HEADER, connections).await);
            ours.push(write(archive, &packets, connections).await);
        }
        let of = |times| rate(sizes.alerts, median(times));
        let (whole, bodies, ours) = (of(whole), of(bodies), of(ours));
        let what = format!("ingest, {connections} connection(s), alerts");
        let ratio = report.beside(what.clone(), ours, "COPY FROM of whole packets, as many", whole);
        report.beside(what.clone(), ours, "COPY FROM of what is stored, as many", bodies);
        report.beside(
            what,
            ours,
            "one insert per alert, as many",
            naive(pool, &packets, connections).await,
        );
        report.gate(
            format!("ingest over {connections} of COPY FROM over as many"),
            format!("{ratio:.2}"),
            format!("{WANTED:.2}"),
            ratio >= WANTED,
        );
    }
    let (time, _) = timed(write_once(archive, &packets, 2)).await;
    report.figure(
        "ingest again (all duplicates), alerts",
        format!("{:.0}/s", rate(sizes.alerts, time)),
    );
}

/// Makes the tables of the bare and the naive way.
pub(crate) async fn make_tables(pool: &PgPool) {
    for table in ["bare", "naive"] {
        let create = format!("CREATE TABLE IF NOT EXISTS {table} (id bigint PRIMARY KEY, body bytea NOT NULL)");
        execute(pool, create).await;
        execute(pool, format!("ALTER TABLE {table} ALTER body SET STORAGE EXTERNAL")).await;
    }
}

async fn execute(pool: &PgPool, statement: String) {
    sqlx::query(sqlx::AssertSqlSafe(statement))
        .execute(pool)
        .await
        .expect("a statement");
}

async fn write(archive: &Archive, packets: &Packets, connections: usize) -> Duration {
    execute(archive.pool(), "TRUNCATE alert".into()).await;
    let (time, archived) = timed(write_once(archive, packets, connections)).await;
    assert_eq!(archived, packets.len() as u64);
    time
}

/// Archives the packets over so many connections; gives how many were new.
pub(crate) async fn write_once(archive: &Archive, packets: &Packets, connections: usize) -> u64 {
    let writer = Arc::new(ArchiveWriter::new(archive, connections as u32));
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (writer, next, packets) = (writer.clone(), next.clone(), packets.clone());
        workers.spawn(async move {
            loop {
                let from = next.fetch_add(BATCH, Ordering::Relaxed);
                let Some(part) = packets
                    .get(from..packets.len().min(from + BATCH))
                    .filter(|part| !part.is_empty())
                else {
                    return;
                };
                for result in writer.write(part.to_vec()).await {
                    result.expect("archived");
                }
            }
        });
    }
    workers.join_all().await;
    writer.stats().archived
}

/// Copies the packets from `skip` on into a table of key and bytes, over so many connections.
pub(crate) async fn bare_copy(pool: &PgPool, packets: &Packets, skip: usize, connections: usize) -> Duration {
    execute(pool, "TRUNCATE bare".into()).await;
    let mut copies = tokio::task::JoinSet::new();
    let share = packets.len().div_ceil(connections);
    let copying = async {
        for part in 0..connections {
            let (pool, packets) = (pool.clone(), packets.clone());
            let numbers = part * share..packets.len().min((part + 1) * share);
            copies.spawn(async move { copy_part(&pool, &packets, numbers, skip).await });
        }
        copies.join_all().await;
    };
    timed(copying).await.0
}

async fn copy_part(pool: &PgPool, packets: &[Incoming], numbers: Range<usize>, skip: usize) {
    let mut connection = pool.acquire().await.expect("a connection");
    let statement = "COPY bare FROM STDIN (FORMAT binary)";
    copy_in(&mut connection, statement, numbers, |out, n| {
        let body = &packets[n].bytes[skip..];
        out.put_i16(2);
        out.put_i32(8);
        out.put_i64(n as i64);
        out.put_i32(body.len() as i32);
        out.put_slice(body);
    })
    .await;
}

/// Alerts per second, each in a statement and a transaction of its own, over so many connections.
async fn naive(pool: &PgPool, packets: &Packets, connections: usize) -> f64 {
    execute(pool, "TRUNCATE naive".into()).await;
    let count = packets.len().min(NAIVE);
    let mut inserts = tokio::task::JoinSet::new();
    let inserting = async {
        for part in 0..connections {
            let (pool, packets) = (pool.clone(), packets.clone());
            inserts.spawn(async move {
                let mut connection = pool.acquire().await.expect("a connection");
                for n in (part..count).step_by(connections) {
                    let insert = sqlx::query("INSERT INTO naive VALUES ($1, $2) ON CONFLICT DO NOTHING");
                    let insert = insert.bind(n as i64).bind(&packets[n].bytes[..]);
                    insert.execute(&mut *connection).await.expect("inserted");
                }
            });
        }
        inserts.join_all().await;
    };
    rate(count, timed(inserting).await.0)
}
