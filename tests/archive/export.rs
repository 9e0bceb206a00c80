//! Counting, exporting and retention: whole selections in (jd, id) order.

use std::collections::BTreeSet;

use alertstream::archive::ingest::ArchiveWriter;
use alertstream::archive::{Archive, Exported};
use alertstream::query::Query;
use futures::TryStreamExt;

use super::ingest::{batch, incoming};
use crate::common::TestDb;
use crate::common::fixtures::{FIRST_JD, Ztf};

async fn exported(archive: &Archive) -> Vec<Exported> {
    archive.export(&Query::all()).try_collect().await.unwrap()
}

#[tokio::test]
async fn an_export_is_every_packet_in_order_of_time_under_its_own_name() {
    let db = TestDb::new().await;
    let archive = db.archive().await;
    assert_eq!(archive.count(&Query::all()).await.unwrap(), 0);
    assert!(exported(&archive).await.is_empty());
    let writer = ArchiveWriter::new(&archive, 2);
    // Latest first, and more than one run of the cursor.
    let mut alerts = batch(0..2_100);
    let sent: Vec<_> = alerts.iter().map(|incoming| incoming.bytes.clone()).collect();
    alerts.reverse();
    for part in alerts.chunks(200) {
        writer.write(part.to_vec()).await;
    }
    assert_eq!(archive.count(&Query::all()).await.unwrap(), 2_100);
    let exported = exported(&archive).await;
    let packets: Vec<_> = exported.iter().map(|exported| exported.raw.payload.clone()).collect();
    assert!(packets == sent);
    let names: BTreeSet<String> = exported.iter().map(Exported::file_name).collect();
    assert_eq!(names.len(), 2_100);
    assert!(names.contains("ztf_595147630015010000_1.avro"), "{:?}", names.first());
}

#[tokio::test]
async fn revisions_have_names_of_their_own() {
    let db = TestDb::new().await;
    let archive = db.archive().await;
    let writer = ArchiveWriter::new(&archive, 2);
    let revised = Ztf {
        stamp: vec![1; 600],
        ..Ztf::new(0)
    };
    writer.write(vec![incoming(&Ztf::new(0)), incoming(&revised)]).await;
    let mut names: Vec<String> = exported(&archive).await.iter().map(Exported::file_name).collect();
    names.sort();
    assert_eq!(
        names,
        ["ztf_595147630015010000_1.avro", "ztf_595147630015010000_1_r1.avro"]
    );
}

#[tokio::test]
async fn a_dropped_export_leaves_no_session_behind() {
    let db = TestDb::new().await;
    let archive = db.archive().await.apart(2);
    ArchiveWriter::new(&archive, 1).write(batch(0..100)).await;
    let mut export = archive.export(&Query::all());
    export.try_next().await.unwrap().unwrap();
    drop(export);
    // The task ends at its next send; its sessions end with it. Bounded by the test's own timeout.
    let pool = db.pool().await;
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'FETCH%'";
    loop {
        let left: i64 = sqlx::query_scalar(sessions).fetch_one(&pool).await.unwrap();
        if left == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn retention_deletes_what_is_old_and_never_what_has_no_time() {
    let db = TestDb::new().await;
    let archive = db.archive().await;
    let mut alerts = batch(0..50);
    alerts[0].header.jd = None;
    ArchiveWriter::new(&archive, 1).write(alerts).await;
    let noon = FIRST_JD + 30.0 / 86_400.0;
    assert_eq!(archive.delete_before(noon, 7).await.unwrap(), 29);
    assert_eq!(archive.delete_before(noon, 7).await.unwrap(), 0);
    let left = exported(&archive).await;
    assert_eq!(left.len(), 21);
    assert_eq!(left[0].alert_id, Ztf::new(0).candid);
}
