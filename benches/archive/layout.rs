//! Where a packet's bytes are kept: TOAST as it comes (external), TOAST with lz4, and chunks of 8 kB inline in rows of
//! their own; each written by one COPY and read back through the same client, put together into one buffer.

use std::collections::HashMap;
use std::time::Duration;

use alertstream::archive::Archive;
use bytes::BufMut;
use futures::TryStreamExt;
use sqlx::{AssertSqlSafe, PgPool, Row};

use super::Sizes;
use super::copy::copy_in;
use super::packets::{HEADER, packet};
use super::report::{Report, median, rate, timed};

const CHUNK: usize = 8_000;
const ROUNDS: usize = 5;
/// Table, what is said of it, bytes of a chunk (0: whole), statements that make it.
const LAYOUTS: [(&str, usize, &[&str]); 3] = [
    (
        "external",
        0,
        &[
            "CREATE TABLE external (id bigint PRIMARY KEY, body bytea NOT NULL)",
            "ALTER TABLE external ALTER body SET STORAGE EXTERNAL",
        ],
    ),
    (
        "lz4",
        0,
        &["CREATE TABLE lz4 (id bigint PRIMARY KEY, body bytea COMPRESSION lz4 NOT NULL)"],
    ),
    (
        "chunks",
        CHUNK,
        &[
            "CREATE TABLE chunks (id bigint, n smallint, body bytea NOT NULL, PRIMARY KEY (id, n)) WITH (toast_tuple_target = 8160)",
            "ALTER TABLE chunks ALTER body SET STORAGE MAIN",
        ],
    ),
];

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    let pool = archive.pool();
    let bodies: Vec<bytes::Bytes> = match std::env::var_os("ALERTSTREAM_CORPUS") {
        Some(folder) => real_bodies(folder.as_ref(), sizes.alerts),
        None => (0..sizes.alerts).map(|n| packet(n).bytes.slice(HEADER..)).collect(),
    };
    for (_, _, statements) in LAYOUTS {
        for statement in statements {
            sqlx::query(AssertSqlSafe(*statement))
                .execute(pool)
                .await
                .expect("a table");
        }
    }
    let mut times: HashMap<&str, (Vec<Duration>, Vec<Duration>)> = HashMap::new();
    for _ in 0..ROUNDS {
        for (table, chunk, _) in LAYOUTS {
            let of = times.entry(table).or_default();
            of.0.push(load(pool, table, chunk, &bodies).await);
            for _ in 0..3 {
                of.1.push(read(pool, table, chunk, &bodies).await);
            }
        }
    }
    for (table, _, _) in LAYOUTS {
        let (loads, reads) = times.remove(table).expect("measured");
        let size: i64 = sqlx::query_scalar("SELECT pg_total_relation_size($1::text::regclass)")
            .bind(table)
            .fetch_one(pool)
            .await
            .expect("its size");
        let (load, read) = (rate(bodies.len(), median(loads)), rate(bodies.len(), median(reads)));
        report.figure(
            format!("layout `{table}`: written, read back, size"),
            format!("{load:.0}/s, {read:.0}/s, {} MiB", size >> 20),
        );
    }
}

/// Bodies of real packets, over and over.
fn real_bodies(folder: &std::path::Path, count: usize) -> Vec<bytes::Bytes> {
    let mut bodies = Vec::new();
    for entry in std::fs::read_dir(folder.join("ztf/v4.01")).expect("the corpus") {
        let packet = bytes::Bytes::from(std::fs::read(entry.expect("an entry").path()).expect("a packet"));
        let marker = packet.slice(packet.len() - 16..);
        let end = packet
            .windows(16)
            .position(|window| window == marker)
            .expect("a container");
        bodies.push(packet.slice(end..));
    }
    bodies.iter().cycle().take(count).cloned().collect()
}

async fn load(pool: &PgPool, table: &str, chunk: usize, bodies: &[bytes::Bytes]) -> Duration {
    sqlx::query(AssertSqlSafe(format!("TRUNCATE {table}")))
        .execute(pool)
        .await
        .expect("emptied");
    let mut connection = pool.acquire().await.expect("a connection");
    let work = async {
        let statement = format!("COPY {table} FROM STDIN (FORMAT binary)");
        copy_in(
            &mut connection,
            &statement,
            bodies.iter().enumerate(),
            |out, (id, body)| {
                let parts = body.chunks(if chunk == 0 { body.len() } else { chunk });
                for (n, part) in parts.enumerate() {
                    out.put_i16(if chunk == 0 { 2 } else { 3 });
                    out.put_i32(8);
                    out.put_i64(id as i64);
                    if chunk != 0 {
                        out.put_i32(2);
                        out.put_i16(n as i16);
                    }
                    out.put_i32(part.len() as i32);
                    out.put_slice(part);
                }
            },
        )
        .await;
    };
    let time = timed(work).await.0;
    sqlx::query(AssertSqlSafe(format!("VACUUM ANALYZE {table}")))
        .execute(pool)
        .await
        .expect("statistics");
    time
}

async fn read(pool: &PgPool, table: &str, chunk: usize, bodies: &[bytes::Bytes]) -> Duration {
    let order = if chunk == 0 { "" } else { " ORDER BY id, n" };
    let statement = format!("SELECT id, body FROM {table} WHERE id = ANY($1){order}");
    let work = async {
        let mut whole = 0;
        for from in (0..bodies.len()).step_by(170) {
            let ids: Vec<i64> = (from..bodies.len().min(from + 170)).map(|id| id as i64).collect();
            let mut rows = sqlx::query(AssertSqlSafe(statement.clone())).bind(ids).fetch(pool);
            let mut packets: HashMap<i64, Vec<u8>> = HashMap::new();
            while let Some(row) = rows.try_next().await.expect("a row") {
                let packet = packets
                    .entry(row.get(0))
                    .or_insert_with(|| Vec::with_capacity(HEADER + 64_000));
                packet.extend_from_slice(row.get::<&[u8], _>(1));
            }
            whole += packets.values().map(Vec::len).sum::<usize>();
        }
        assert_eq!(whole, bodies.iter().map(bytes::Bytes::len).sum::<usize>());
    };
    timed(work).await.0
}
