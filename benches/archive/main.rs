//! The archive's speed, in one run, each figure beside its bound and beside a naive way of doing the same job.
//!
//! `cargo bench --bench archive [-- SECTION...]` with sections `ingest`, `replay`, `claims`, `others` (case 10), `select`,
//! `long` (memory, case 17) and `layout` (all but the last by default). Ends with exit code 1 when a gate was missed.
//! Sizes, by environment variable: `ALERTSTREAM_BENCH_ALERTS` (packets of about 71 kB to ingest, default 3000),
//! `ALERTSTREAM_BENCH_REPLAYED` (the same to replay, 20000), `ALERTSTREAM_BENCH_ROWS` (alerts with small packets,
//! 5000000), `ALERTSTREAM_BENCH_DRAINED` (of these, in the drain of case 17, 1000000), `ALERTSTREAM_BENCH_BLOCKS` (blocks
//! to claim, 10000), `ALERTSTREAM_BENCH_OTHER_BLOCKS` (of each of the 100 groups of case 10, 100000).
//! `ALERTSTREAM_BENCH_SHORT=1` divides the last four by 10. A private Postgres with `fsync = off` and 2 GB of shared
//! buffers serves all; ratios hold, absolutes depend on the machine and its load.

mod claims;
mod copy;
mod ingest;
mod layout;
mod long;
mod packets;
mod replay;
mod report;
mod rows;
mod select;

use alertstream::archive::{Archive, ArchiveOptions};
use alertstream::cli::embedded::database::OwnDatabase;
use alertstream::cli::embedded::postgres::PrivatePostgres;
use report::{Report, timed};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

const SECTIONS: [&str; 7] = ["ingest", "replay", "claims", "others", "select", "long", "layout"];

const SHARED_BUFFERS: &str = "2GB";

/// The sizes of a run.
struct Sizes {
    alerts: usize,
    replayed: usize,
    rows: usize,
    drained: usize,
    blocks: i64,
    other_blocks: i64,
}

impl Sizes {
    fn from_environment() -> Self {
        let part = if std::env::var("ALERTSTREAM_BENCH_SHORT").is_ok_and(|short| short != "0") {
            10
        } else {
            1
        };
        Self {
            alerts: size("ALERTS", 3_000),
            replayed: size("REPLAYED", 20_000),
            rows: size("ROWS", 5_000_000 / part),
            drained: size("DRAINED", 1_000_000 / part),
            blocks: size("BLOCKS", 10_000 / part) as i64,
            other_blocks: size("OTHER_BLOCKS", 100_000 / part) as i64,
        }
    }
}

fn size(name: &str, default: usize) -> usize {
    let given = std::env::var(format!("ALERTSTREAM_BENCH_{name}"));
    given.ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A database of its own for a section, and the migrated archive in it.
async fn database(server: &PrivatePostgres) -> (OwnDatabase, Archive) {
    let own = OwnDatabase::create(server.url(), "bench").await.expect("a database");
    let options = ArchiveOptions {
        connections: 12,
        ..ArchiveOptions::default()
    };
    let archive = Archive::connect(own.url(), &options).await.expect("it");
    archive.migrate().await.expect("its tables");
    (own, archive)
}

/// Restarts the server with the memory that one for millions of alerts has.
async fn give_memory(server: &PrivatePostgres) {
    let mut connection = PgConnection::connect(server.url()).await.expect("the server");
    let set = format!("ALTER SYSTEM SET shared_buffers = '{SHARED_BUFFERS}'");
    let set = sqlx::query(AssertSqlSafe(set));
    set.execute(&mut connection).await.expect("a setting");
    server.stop_immediate().await.expect("stopped");
    server.restart().await.expect("started");
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    if long::runs_as_told().await {
        return std::process::ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("a benchmark: run it by `cargo bench --bench archive`");
        return std::process::ExitCode::SUCCESS;
    }
    let mut wanted: Vec<&str> = arguments.iter().map(String::as_str).collect();
    wanted.retain(|argument| !argument.starts_with("--"));
    if let Some(unknown) = wanted.iter().find(|section| !SECTIONS.contains(section)) {
        println!("no section `{unknown}`; there are {SECTIONS:?}");
        return 2.into();
    }
    if wanted.is_empty() {
        wanted = SECTIONS.into_iter().filter(|section| *section != "layout").collect();
    }
    let server = PrivatePostgres::start().await.expect("a private Postgres");
    give_memory(&server).await;
    let mut report = Report::default();
    measure(&server, &wanted, &mut report).await;
    server.stop().await;
    if report.print() { 0.into() } else { 1.into() }
}

async fn measure(server: &PrivatePostgres, wanted: &[&str], report: &mut Report) {
    let sizes = Sizes::from_environment();
    let wants = |section: &str| wanted.contains(&section);
    if wants("ingest") {
        let (own, archive) = database(server).await;
        ingest::run(&archive, &sizes, report).await;
        own.discard().await.expect("dropped");
    }
    if wants("replay") {
        let (own, archive) = database(server).await;
        replay::run(&archive, &sizes, report).await;
        long::drains_packets(&archive, own.url(), &sizes, report).await;
        own.discard().await.expect("dropped");
    }
    if wants("claims") || wants("others") {
        let (own, archive) = database(server).await;
        if wants("claims") {
            claims::run(&archive, &sizes, report).await;
        }
        if wants("others") {
            claims::among_others(&archive, &sizes, report).await;
        }
        own.discard().await.expect("dropped");
    }
    if wants("select") || wants("long") {
        let (own, archive) = database(server).await;
        let (time, ()) = timed(rows::fill(&archive, sizes.rows)).await;
        eprintln!("{} header rows made in {:.0} s", sizes.rows, time.as_secs_f64());
        if wants("select") {
            select::run(&archive, &sizes, report).await;
        }
        if wants("long") {
            long::drains(&archive, own.url(), &sizes, report).await;
            long::builds(&archive, own.url(), &sizes, report).await;
        }
        own.discard().await.expect("dropped");
    }
    if wants("layout") {
        let (own, archive) = database(server).await;
        layout::run(&archive, &sizes, report).await;
        own.discard().await.expect("dropped");
    }
}
