//! Writers that die: SIGKILL in the middle of an ingest, and two ingests of the same packets at once.
//!
//! The process that is killed is this test binary again, told by an environment variable to be a writer.

use std::process::{Child, Command, Stdio};

use alertstream::archive::ingest::{ArchiveWriter, IngestStats};
use alertstream::archive::{Archive, ArchiveOptions};
use futures::TryStreamExt;

use super::ingest::batch;
use crate::common::TestDb;
use crate::common::fixtures::ztf_packets;

/// Alerts of one ingest.
const ALERTS: u64 = 600;
const BATCH: u64 = 20;
/// Names the database to write into; set for the process that is to be killed.
const WRITER: &str = "ALERTSTREAM_TEST_WRITER";

async fn ingest_all(archive: &Archive) -> IngestStats {
    let writer = ArchiveWriter::new(archive, 2);
    for start in (0..ALERTS).step_by(BATCH as usize) {
        for result in writer.write(batch(start..start + BATCH)).await {
            result.unwrap();
        }
    }
    writer.stats()
}

/// Not a test of its own: what the killed process runs. Does nothing when the variable is not set.
#[tokio::test]
async fn writer_process() {
    let Ok(url) = std::env::var(WRITER) else { return };
    ingest_all(&Archive::connect(&url, &ArchiveOptions::default()).await.unwrap()).await;
}

fn writer(db: &TestDb) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::writer_process"])
        .env(WRITER, db.url())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

async fn archived(pool: &sqlx::PgPool) -> u64 {
    sqlx::query_scalar::<_, i64>("SELECT count(*) FROM alert")
        .fetch_one(pool)
        .await
        .unwrap() as u64
}

async fn assert_each_is_there_once(archive: &Archive, pool: &sqlx::PgPool) {
    let ids: Vec<i64> = sqlx::query_scalar("SELECT id FROM alert ORDER BY jd, id")
        .fetch_all(pool)
        .await
        .unwrap();
    let fetched: Vec<_> = archive.fetch(ids).try_collect().await.unwrap();
    assert!(
        fetched
            .iter()
            .map(|fetched| &fetched.raw.payload[..])
            .eq(ztf_packets(ALERTS).iter().map(|packet| &packet[..]))
    );
}

#[tokio::test]
async fn an_ingest_killed_in_the_middle_is_completed_by_the_next() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    for round in 1..=3 {
        let mut child = writer(&db);
        // Until it has stored something of this round, which was not there before.
        while archived(&pool).await < round * ALERTS / 6 && child.try_wait().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let before = archived(&pool).await;
    assert_eq!(before % BATCH, 0, "half a batch was stored");
    let stats = ingest_all(&archive).await;
    assert_eq!((stats.archived + stats.duplicates, stats.revisions), (ALERTS, 0));
    assert_each_is_there_once(&archive, &pool).await;
}

#[tokio::test]
async fn two_ingests_of_the_same_packets_at_once_store_each_once() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    let mut child = writer(&db);
    let (first, second) = tokio::join!(ingest_all(&archive), ingest_all(&archive));
    assert!(child.wait().unwrap().success());
    assert!(first.archived + second.archived <= ALERTS);
    assert_eq!((first.revisions, second.revisions), (0, 0));
    assert_each_is_there_once(&archive, &pool).await;
}
