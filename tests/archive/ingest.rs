//! Ingest: every packet once, byte for byte, however many write and however they die.

use std::collections::BTreeMap;
use std::sync::Arc;

use alertstream::archive::ingest::{ArchiveWriter, Incoming, Written};
use alertstream::archive::{Archive, ArchiveError};
use alertstream::header::AlertHeader;
use alertstream::record::{KafkaOrigin, KafkaTimestamp, RawAlert, TimestampKind, TopicPartition};
use bytes::Bytes;
use futures::TryStreamExt;
use sqlx::PgPool;

use crate::common::TestDb;
use crate::common::fixtures::Ztf;

/// What decoding the fixture gives, without decoding it.
pub(crate) fn incoming(alert: &Ztf) -> Incoming {
    let bytes = Bytes::from(alert.packet());
    // The marker is the last 16 bytes, and stands first where the container header ends.
    let marker = bytes.slice(bytes.len() - 16..);
    let end = bytes.windows(16).position(|window| window == marker).unwrap();
    let header = AlertHeader {
        survey: "ztf".into(),
        schema_version: Some(alert.schemavsn.clone()),
        object_id: Some(alert.object_id.clone()),
        alert_id: alert.candid,
        jd: Some(alert.jd),
        ra: Some(alert.ra),
        dec: Some(alert.dec),
        programid: alert.programid,
        band: Some(["g", "r", "i"][alert.fid as usize - 1].into()),
        magnitude: Some(f64::from(alert.magpsf)),
        rb: alert.rb.map(f64::from),
        drb: alert.drb.map(f64::from),
        ndethist: Some(i64::from(alert.ndethist)),
    };
    Incoming {
        header,
        bytes,
        container_header_len: Some(end),
        schema_is_known: true,
        origin: None,
        reframed: false,
    }
}

pub(crate) fn batch(range: std::ops::Range<u64>) -> Vec<Incoming> {
    range.map(|n| incoming(&Ztf::new(n))).collect()
}

async fn all_ids(pool: &PgPool) -> Vec<i64> {
    sqlx::query_scalar("SELECT id FROM alert ORDER BY jd, id")
        .fetch_all(pool)
        .await
        .unwrap()
}

async fn all_packets(archive: &Archive, pool: &PgPool) -> Vec<RawAlert> {
    let fetched: Vec<_> = archive.fetch(all_ids(pool).await).try_collect().await.unwrap();
    fetched.into_iter().map(|fetched| fetched.raw).collect()
}

fn outcomes(results: &[Result<Written, Arc<ArchiveError>>]) -> Vec<Written> {
    results.iter().map(|result| *result.as_ref().unwrap()).collect()
}

#[tokio::test]
async fn packets_come_out_byte_for_byte_and_headers_are_stored_once() {
    let (db, count) = (TestDb::new().await, 50);
    let (archive, pool) = (db.archive().await, db.pool().await);
    let writer = ArchiveWriter::new(&archive, 2);
    assert_eq!(
        outcomes(&writer.write(batch(0..count)).await),
        vec![Written::Archived; count as usize]
    );
    let packets: Vec<Bytes> = all_packets(&archive, &pool)
        .await
        .into_iter()
        .map(|raw| raw.payload)
        .collect();
    let sent: Vec<Bytes> = batch(0..count).into_iter().map(|incoming| incoming.bytes).collect();
    assert_eq!(packets, sent);
    let (headers, apart): (i64, i64) =
        sqlx::query_as("SELECT (SELECT count(*) FROM container_header), count(container_header) FROM alert")
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!((headers, apart), (1, count as i64));
}

#[tokio::test]
async fn a_duplicate_is_counted_and_changes_nothing() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    let writer = ArchiveWriter::new(&archive, 2);
    writer.write(batch(0..10)).await;
    let before = all_ids(&pool).await;
    // Two of them twice in one batch, among new ones.
    let mixed = batch(8..12).into_iter().chain(batch(9..11)).collect();
    use Written::{Archived, Duplicate};
    assert_eq!(
        outcomes(&writer.write(mixed).await),
        [Duplicate, Duplicate, Archived, Archived, Duplicate, Duplicate]
    );
    let stats = writer.stats();
    assert_eq!((stats.archived, stats.duplicates, stats.revisions), (12, 4, 0));
    assert_eq!(all_ids(&pool).await[..10], before);
}

#[tokio::test]
async fn the_same_history_under_another_candid_is_another_alert_and_other_bytes_are_a_revision() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    let writer = ArchiveWriter::new(&archive, 2);
    let first = Ztf::new(1);
    let other_candid = Ztf {
        candid: first.candid + 1_000_000,
        ..first.clone()
    };
    let revision = |n: u8| Ztf {
        stamp: vec![n; 600],
        ..first.clone()
    };
    use Written::{Archived, Duplicate, Revision};
    let sent = [first.clone(), other_candid, revision(2), revision(1), first.clone()].map(|alert| incoming(&alert));
    assert_eq!(
        outcomes(&writer.write(sent.to_vec()).await),
        [Archived, Archived, Revision, Revision, Duplicate]
    );
    assert_eq!(
        outcomes(&writer.write(vec![incoming(&revision(3)), incoming(&revision(2))]).await),
        [Revision, Duplicate]
    );
    let mut packets: Vec<Bytes> = all_packets(&archive, &pool)
        .await
        .into_iter()
        .map(|raw| raw.payload)
        .collect();
    let mut expected: Vec<Bytes> = sent[..4].iter().map(|incoming| incoming.bytes.clone()).collect();
    expected.push(revision(3).packet().into());
    packets.sort();
    expected.sort();
    assert_eq!(packets, expected);
    let revisions: Vec<i32> = sqlx::query_scalar("SELECT revision FROM alert WHERE alert_id = $1 ORDER BY id")
        .bind(first.candid)
        .fetch_all(&pool)
        .await
        .unwrap();
    let numbered: BTreeMap<i32, ()> = revisions.into_iter().map(|revision| (revision, ())).collect();
    assert_eq!(numbered.into_keys().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn unknown_versions_ids_times_and_framings_are_archived_and_counted() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    let writer = ArchiveWriter::new(&archive, 2);
    let mut newer = incoming(&Ztf {
        schemavsn: "9.9".into(),
        ..Ztf::new(0)
    });
    newer.schema_is_known = false;
    let mut timeless = incoming(&Ztf::new(1));
    timeless.header = AlertHeader {
        jd: Some(f64::NAN),
        ra: Some(f64::NAN),
        magnitude: Some(f64::NAN),
        ..timeless.header
    };
    let bare = |byte: u8| Incoming {
        header: AlertHeader {
            survey: "elsewhere".into(),
            programid: 1,
            ..AlertHeader::default()
        },
        bytes: Bytes::from(vec![0, 0, 0, 3, 132, byte]),
        container_header_len: None,
        schema_is_known: false,
        origin: None,
        reframed: true,
    };
    let sent = vec![newer, timeless, bare(1), bare(2)];
    assert_eq!(outcomes(&writer.write(sent.clone()).await), vec![Written::Archived; 4]);
    let stats = writer.stats();
    assert_eq!((stats.archived, stats.unknown_schema, stats.reframed), (4, 3, 2));
    let mut packets: Vec<Bytes> = all_packets(&archive, &pool)
        .await
        .into_iter()
        .map(|raw| raw.payload)
        .collect();
    let mut expected: Vec<Bytes> = sent.into_iter().map(|incoming| incoming.bytes).collect();
    packets.sort();
    expected.sort();
    assert_eq!(packets, expected);
    let unknown_times: i64 = sqlx::query_scalar("SELECT count(*) FROM alert WHERE jd = '-Infinity'")
        .fetch_one(&pool)
        .await
        .unwrap();
    let not_a_number: i64 =
        sqlx::query_scalar("SELECT count(*) FROM alert WHERE 'NaN' IN (jd, ra, dec, magnitude, rb, drb)")
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!((unknown_times, not_a_number), (3, 0));
}

#[tokio::test]
async fn the_kafka_origin_is_kept() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    let from = Arc::new(TopicPartition {
        topic: "ztf_20180819_programid1".into(),
        partition: 4,
    });
    let headers = vec![("h".into(), None), ("h".into(), Some(Bytes::from_static(b"\0")))];
    let origin = KafkaOrigin::new(from, 1 << 33)
        .at(Some(KafkaTimestamp {
            millis: 1_534_680_000_123,
            kind: TimestampKind::LogAppend,
        }))
        .named(Some(Bytes::from_static(b"\0\xff")), headers);
    let mut alert = incoming(&Ztf::new(0));
    alert.origin = Some(origin.clone());
    ArchiveWriter::new(&archive, 1).write(vec![alert]).await;
    let packets = all_packets(&archive, &pool).await;
    assert_eq!(packets[0].origin.as_ref(), Some(&origin));
}

#[tokio::test]
async fn writers_of_the_same_packets_neither_deadlock_nor_count_twice() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    let writer = Arc::new(ArchiveWriter::new(&archive, 8));
    // Eight writers, the same alerts and two revisions of each, in batches that start at other places.
    let mut writers = tokio::task::JoinSet::new();
    for offset in 0..8u64 {
        let writer = writer.clone();
        writers.spawn(async move {
            for n in 0..10 {
                let start = (offset * 3 + n) % 10 * 6;
                let mut alerts = batch(start..start + 12);
                alerts.extend((start..start + 12).map(|n| {
                    incoming(&Ztf {
                        stamp: vec![offset as u8 % 2; 500],
                        ..Ztf::new(n)
                    })
                }));
                if offset % 2 == 1 {
                    alerts.reverse();
                }
                for result in writer.write(alerts).await {
                    result.unwrap();
                }
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let stats = writer.stats();
    assert_eq!(stats.archived + stats.duplicates + stats.revisions, 8 * 10 * 24);
    // 66 alerts, each with three contents.
    assert_eq!((stats.archived, stats.revisions), (66, 132));
    let revisions: Vec<(i64, Vec<i32>)> =
        sqlx::query_as("SELECT alert_id, array_agg(revision ORDER BY revision) FROM alert GROUP BY 1")
            .fetch_all(&pool)
            .await
            .unwrap();
    assert_eq!(revisions.len(), 66);
    assert!(revisions.iter().all(|(_, revisions)| revisions == &[0, 1, 2]));
}

#[tokio::test]
async fn what_is_not_there_is_left_out_and_the_order_asked_for_is_kept() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    ArchiveWriter::new(&archive, 1).write(batch(0..20)).await;
    let mut ids = all_ids(&pool).await;
    ids.reverse();
    ids.insert(3, i64::MAX);
    let fetched: Vec<_> = archive.fetch(ids.clone()).try_collect().await.unwrap();
    ids.remove(3);
    assert_eq!(fetched.iter().map(|fetched| fetched.id).collect::<Vec<_>>(), ids);
}

#[tokio::test]
async fn a_stopped_server_is_a_transient_failure_of_the_whole_batch() {
    let server = alertstream::cli::embedded::postgres::PrivatePostgres::start()
        .await
        .unwrap();
    let db = TestDb::on(server.url()).await;
    let archive = db.archive().await;
    archive.migrate().await.unwrap();
    let writer = ArchiveWriter::new(&archive, 1);
    writer.write(batch(0..5)).await;
    server.stop_immediate().await.unwrap();
    let failed = writer.write(batch(3..10)).await;
    assert!(failed.iter().all(|result| {
        result
            .as_ref()
            .is_err_and(|error| error.class() == alertstream::error::ErrorClass::Transient)
    }));
    server.restart().await.unwrap();
    for result in writer.write(batch(3..10)).await {
        result.unwrap();
    }
    assert_eq!((writer.stats().archived, writer.stats().duplicates), (10, 2));
    drop(db);
    server.stop().await;
}
