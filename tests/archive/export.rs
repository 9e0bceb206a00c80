//! Counting, exporting and retention: whole selections in (jd, id) order.

use std::collections::BTreeSet;

use alertstream::archive::ingest::ArchiveWriter;
use alertstream::archive::{Archive, Exported};
use alertstream::query::{NightStart, Query, QueryText};
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
async fn packets_without_an_id_are_numbered_in_the_order_they_came_whatever_is_exported() {
    let db = TestDb::new().await;
    let archive = db.archive().await;
    let writer = ArchiveWriter::new(&archive, 1);
    let mut sent = batch(0..5);
    for (n, alert) in sent.iter_mut().enumerate() {
        alert.header.alert_id = 0;
        alert.header.survey = if n == 3 { "other".into() } else { "ztf".into() };
        alert.header.programid = 1;
        // Against the order of time.
        alert.header.jd = Some(FIRST_JD - n as f64);
    }
    for alert in &sent {
        writer.write(vec![alert.clone()]).await;
    }
    let names: Vec<String> = exported(&archive).await.iter().map(Exported::file_name).collect();
    assert_eq!(
        names,
        [
            "ztf_0_1_r3.avro",
            "other_0_1.avro",
            "ztf_0_1_r2.avro",
            "ztf_0_1_r1.avro",
            "ztf_0_1.avro"
        ]
    );
    let later = QueryText::new().with("jd", format!("{}..", FIRST_JD - 1.5)).unwrap();
    let later = Query::parse(&later, NightStart::default()).unwrap();
    let some: Vec<Exported> = archive.export(&later).try_collect().await.unwrap();
    assert_eq!(some.iter().map(Exported::file_name).collect::<Vec<_>>(), names[3..]);
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
