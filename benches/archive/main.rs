//! The archive's speed, in one run, each figure beside its bound and beside a naive way of doing the same job.
//!
//! `cargo bench --bench archive [-- SECTION...]` with sections `ingest`, `replay`, `claims`, `select`, `layout` (all but
//! the last by default). Sizes: `ALERTSTREAM_BENCH_ALERTS` (packets of about 71 kB, default 3000), `ALERTSTREAM_BENCH_ROWS`
//! (alerts with small packets, default 200000), `ALERTSTREAM_BENCH_BLOCKS` (default 20000). A private Postgres with
//! `fsync = off` serves all; ratios hold, absolutes depend on the machine and its load.

mod claims;
mod ingest;
mod layout;
mod packets;
mod replay;
mod report;
mod select;

use alertstream::archive::{Archive, ArchiveOptions};
use alertstream::cli::embedded::postgres::PrivatePostgres;
use report::Report;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// The sizes of a run.
struct Sizes {
    alerts: usize,
    rows: usize,
    blocks: i64,
}

fn size(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

/// A migrated database of its own for a section.
async fn database(server: &PrivatePostgres, name: &str) -> Archive {
    let mut connection = PgConnection::connect(server.url()).await.expect("the server");
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}")))
        .execute(&mut connection)
        .await
        .expect("a database");
    let url = server.url().replace("/postgres?", &format!("/{name}?"));
    let archive = Archive::connect(
        &url,
        &ArchiveOptions {
            connections: 12,
            ..ArchiveOptions::default()
        },
    )
    .await
    .expect("it");
    archive.migrate().await.expect("its tables");
    archive
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("a benchmark: run it by `cargo bench --bench archive`");
        return;
    }
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wants = |section: &str| {
        if wanted.is_empty() {
            section != "layout"
        } else {
            wanted.iter().any(|argument| *argument == section)
        }
    };
    let sizes = Sizes {
        alerts: size("ALERTSTREAM_BENCH_ALERTS", 3_000),
        rows: size("ALERTSTREAM_BENCH_ROWS", 200_000),
        blocks: size("ALERTSTREAM_BENCH_BLOCKS", 20_000) as i64,
    };
    let server = PrivatePostgres::start().await.expect("a private Postgres");
    let mut report = Report::default();
    if wants("ingest") || wants("replay") {
        let archive = database(&server, "packets").await;
        ingest::run(&archive, &sizes, &mut report).await;
        if wants("replay") {
            replay::run(&archive, &sizes, &mut report).await;
        }
    }
    if wants("claims") {
        claims::run(&database(&server, "claims").await, &sizes, &mut report).await;
    }
    if wants("select") {
        select::run(&database(&server, "headers").await, &sizes, &mut report).await;
    }
    if wants("layout") {
        layout::run(&database(&server, "layout").await, &sizes, &mut report).await;
    }
    report.print();
    server.stop().await;
}
