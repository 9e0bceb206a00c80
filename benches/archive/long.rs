//! Long work: what a builder and a consumer keep in memory, and what a drain leaves in the queue's tables (case 17).
//!
//! Builder and consumer are this program again, as a process of its own: its memory is then theirs alone.

use std::process::{Command, Stdio};
use std::time::Duration;

use alertstream::archive::groups::{BuildStep, Groups};
use alertstream::archive::{Archive, ArchiveOptions};
use alertstream::query::{NightStart, Query, QueryText};
use alertstream::record::SourceId;
use alertstream::source::archive::{ArchiveConfig, ArchiveSource};
use alertstream::stream::{StreamConfig, open};
use futures::StreamExt;
use sqlx::PgPool;

use super::Sizes;
use super::report::{Report, rate, timed};

/// Tells a process what it is: `build` or `consume`, and the database's URL.
const ROLE: &str = "ALERTSTREAM_BENCH_ROLE";
const URL: &str = "ALERTSTREAM_BENCH_URL";
/// How often a process looks at its memory: at each of so many parts of its work.
const LOOKS: u64 = 20;
/// What may be added after the first tenth of the work, KiB.
const GROWTH_MAX: u64 = 16 * 1024;
/// What a drain may add to the queue's tables, bytes.
const SLACK: i64 = 4 << 20;

const SIZE: &str = "SELECT sum(pg_total_relation_size(c))::int8 FROM \
    unnest('{claim_block,block_done,block_receipt,group_tally,group_build,consumer,consumer_group}'::regclass[]) c";

/// Does what the environment says; false when it says nothing.
pub(crate) async fn runs_as_told() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let url = std::env::var(URL).expect("a URL");
    let archive = Archive::connect(&url, &ArchiveOptions::default()).await.expect("it");
    match role.as_str() {
        "build" => build(&archive).await,
        _ => consume(archive).await,
    }
    true
}

/// A build of everything, in its own process.
pub(crate) async fn builds(archive: &Archive, url: &str, sizes: &Sizes, report: &mut Report) {
    eprintln!("a long build: {} alerts", sizes.rows);
    let groups = Groups::new(archive);
    groups
        .join_or_create("work", Some(&Query::all()), 500)
        .await
        .expect("a group");
    let (time, memory) = timed(child("build", url)).await;
    report.figure(
        format!("build of {} alerts in blocks of 500", sizes.rows),
        format!("{:.0}/s", rate(sizes.rows, time)),
    );
    flat("builder", &memory, report);
    assert_eq!(
        groups.show("work").await.expect("the group").alerts.total,
        sizes.rows as i64
    );
    groups.delete("work").await.expect("deleted");
}

/// Case 17: a drain of many alerts, in its own process, and what it leaves behind. No vacuum but the server's own.
pub(crate) async fn drains(archive: &Archive, url: &str, sizes: &Sizes, report: &mut Report) {
    eprintln!("a long drain: {} alerts", sizes.drained);
    let groups = Groups::new(archive);
    let pool = archive.pool();
    let limit = QueryText::new()
        .with("limit", sizes.drained.to_string())
        .expect("a flag");
    let query = Query::parse(&limit, NightStart::default()).expect("a query");
    sqlx::query("VACUUM FULL claim_block")
        .execute(pool)
        .await
        .expect("empty");
    let group = groups.join_or_create("work", Some(&query), 500).await.expect("a group");
    while groups.build_step(&group).await.expect("a build step") != BuildStep::Built {}
    let start = size(pool).await;
    let (time, memory) = timed(child("consume", url)).await;
    let end = groups.show("work").await.expect("the group");
    assert_eq!(end.alerts.acknowledged, sizes.drained as i64);
    let grown = size(pool).await - start;
    report.figure(
        format!("drain of {} alerts with small packets in blocks of 500", sizes.drained),
        format!("{:.0}/s", rate(sizes.drained, time)),
    );
    report.gate(
        format!("the queue's tables after {} alerts (case 17)", sizes.drained),
        format!("{:+} KiB on {} KiB", grown / 1024, start / 1024),
        format!("at most {:+} KiB", SLACK / 1024),
        grown <= SLACK,
    );
    flat("consumer of small packets", &memory, report);
    groups.delete("work").await.expect("deleted");
}

/// A drain of real packets, in its own process.
pub(crate) async fn drains_packets(archive: &Archive, url: &str, sizes: &Sizes, report: &mut Report) {
    eprintln!("a long drain of packets: {} alerts", sizes.replayed);
    let groups = Groups::new(archive);
    let group = groups
        .join_or_create("work", Some(&Query::all()), 500)
        .await
        .expect("a group");
    while groups.build_step(&group).await.expect("a build step") != BuildStep::Built {}
    let memory = child("consume", url).await;
    flat("consumer of packets", &memory, report);
    groups.delete("work").await.expect("deleted");
}

async fn size(pool: &PgPool) -> i64 {
    sqlx::query_scalar(SIZE).fetch_one(pool).await.expect("its size")
}

/// Reports whether the memory stayed what it was after the first tenth.
fn flat(who: &str, memory: &[u64], report: &mut Report) {
    let first = memory[memory.len() / 10];
    let peak = memory.iter().copied().max().expect("a look");
    let grown = peak.saturating_sub(first);
    report.figure(format!("peak memory of a {who}"), format!("{} MiB", peak / 1024));
    report.gate(
        format!("memory of a {who} after a tenth of its work"),
        format!("{grown:+} KiB"),
        format!("at most {GROWTH_MAX:+} KiB"),
        grown <= GROWTH_MAX,
    );
}

/// Runs a process to its end; gives its peak memory at each look, KiB.
async fn child(role: &'static str, url: &str) -> Vec<u64> {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(ROLE, role).env(URL, url).stdout(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("a thread");
    let output = output.expect("a process");
    assert!(output.status.success(), "{role} failed");
    let text = String::from_utf8(output.stdout).expect("text");
    let looks: Vec<u64> = text.lines().map(|line| line.parse().expect("KiB")).collect();
    assert!(looks.len() as u64 >= LOOKS / 2, "{role} looked {} times", looks.len());
    looks
}

/// Prints the peak of the process's memory so far.
fn look() {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    println!("{}", line.split_whitespace().nth(1).expect("KiB"));
}

async fn build(archive: &Archive) {
    let groups = Groups::new(archive);
    let group = groups.open("work").await.expect("the group");
    while groups.build_step(&group).await.expect("a build step") != BuildStep::Built {
        look();
    }
    look();
}

async fn consume(archive: Archive) {
    let groups = Groups::new(&archive);
    let total = groups
        .show("work")
        .await
        .expect("the group")
        .alerts
        .total
        .unsigned_abs();
    let group = groups.open("work").await.expect("the group");
    let source = ArchiveSource::new(SourceId::new("work"), archive, group, ArchiveConfig::default());
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    let mut count = 0;
    while let Some(delivery) = alerts.next().await {
        delivery.expect("an alert").ack();
        count += 1;
        if count % (total / LOOKS).max(1) == 0 {
            look();
        }
    }
    control.shutdown(Duration::from_secs(10)).await.expect("its end");
    look();
}
