//! Ingest: our writer, beside one bare COPY of the same packets and beside one insert per alert.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alertstream::archive::Archive;
use alertstream::archive::ingest::{ArchiveWriter, Incoming};
use bytes::{BufMut, BytesMut};
use sqlx::PgPool;

use super::Sizes;
use super::packets::{HEADER, packet};
use super::report::{Report, median, rate, timed};

/// Alerts of one transaction.
const BATCH: usize = 100;
const ROUNDS: usize = 3;

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    eprintln!("ingest: {} packets", sizes.alerts);
    let packets: Arc<Vec<Incoming>> = Arc::new((0..sizes.alerts).map(packet).collect());
    let pool = archive.pool();
    for table in ["bare", "naive"] {
        let create = format!("CREATE TABLE {table} (id bigint PRIMARY KEY, body bytea NOT NULL)");
        execute(pool, create).await;
        execute(pool, format!("ALTER TABLE {table} ALTER body SET STORAGE EXTERNAL")).await;
    }
    let (mut whole, mut bodies, mut ours) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        whole.push(bare_copy(pool, &packets, 0).await);
        bodies.push(bare_copy(pool, &packets, HEADER).await);
        for (times, connections) in ours.iter_mut().zip([1, 2, 4]) {
            times.push(write(archive, &packets, connections).await);
        }
    }
    // Left behind for the replay: COPY TO of the same bytes.
    bare_copy(pool, &packets, 0).await;
    let of = |times| rate(sizes.alerts, median(times));
    let (whole, bodies) = (of(whole), of(bodies));
    for (times, connections) in ours.into_iter().zip([1, 2, 4]) {
        let ours = of(times);
        report.beside(
            format!("ingest, {connections} connection(s), alerts"),
            ours,
            "one COPY of whole packets",
            whole,
        );
        report.beside(
            format!("ingest, {connections} connection(s), alerts"),
            ours,
            "one COPY of what is stored",
            bodies,
        );
    }
    let few = &packets[..packets.len().min(500)];
    let (time, ()) = timed(naive(pool, few)).await;
    report.figure(
        "naive: one insert per alert, alerts",
        format!("{:.0}/s", rate(few.len(), time)),
    );
    let (time, _) = timed(write_once(archive, &packets, 2)).await;
    report.figure(
        "ingest again (all duplicates), alerts",
        format!("{:.0}/s", rate(sizes.alerts, time)),
    );
}

async fn execute(pool: &PgPool, statement: String) {
    sqlx::query(sqlx::AssertSqlSafe(statement))
        .execute(pool)
        .await
        .expect("a statement");
}

async fn write(archive: &Archive, packets: &Arc<Vec<Incoming>>, connections: usize) -> Duration {
    execute(archive.pool(), "TRUNCATE alert".into()).await;
    let (time, archived) = timed(write_once(archive, packets, connections)).await;
    assert_eq!(archived, packets.len() as u64);
    time
}

async fn write_once(archive: &Archive, packets: &Arc<Vec<Incoming>>, connections: usize) -> u64 {
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
    while let Some(done) = workers.join_next().await {
        done.expect("a worker");
    }
    writer.stats().archived
}

/// One COPY of the packets from `skip` on, into a table of key and bytes.
async fn bare_copy(pool: &PgPool, packets: &[Incoming], skip: usize) -> Duration {
    execute(pool, "TRUNCATE bare".into()).await;
    let mut connection = pool.acquire().await.expect("a connection");
    let copying = async {
        let mut copy = connection
            .copy_in_raw("COPY bare FROM STDIN (FORMAT binary)")
            .await
            .expect("COPY");
        let mut out = BytesMut::new();
        out.put_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
        for (n, packet) in packets.iter().enumerate() {
            let body = &packet.bytes[skip..];
            out.put_i16(2);
            out.put_i32(8);
            out.put_i64(n as i64);
            out.put_i32(body.len() as i32);
            out.put_slice(body);
            if out.len() > 256 * 1024 {
                copy.send(&out[..]).await.expect("sent");
                out.clear();
            }
        }
        out.put_i16(-1);
        copy.send(&out[..]).await.expect("sent");
        copy.finish().await.expect("COPY");
    };
    timed(copying).await.0
}

async fn naive(pool: &PgPool, packets: &[Incoming]) {
    for (n, packet) in packets.iter().enumerate() {
        let insert = sqlx::query("INSERT INTO naive VALUES ($1, $2) ON CONFLICT DO NOTHING");
        insert
            .bind(n as i64)
            .bind(&packet.bytes[..])
            .execute(pool)
            .await
            .expect("inserted");
    }
}
