//! Real packets: every byte of every survey and version comes back; the queries of the 30-alert sample.
//!
//! Needs the corpus' folder (`ALERTSTREAM_CORPUS`); says that it was skipped where there is none.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use alertstream::archive::ingest::{ArchiveWriter, Incoming, Written};
use alertstream::archive::{Archive, Exported};
use alertstream::decode::Decoder;
use alertstream::query::Query;
use bytes::Bytes;
use futures::TryStreamExt;

use super::groups::query;
use crate::common::{TestDb, corpus, files_below};

/// Every good packet below a folder, tars opened.
fn packets(folder: &Path) -> Vec<Bytes> {
    let mut packets = Vec::new();
    for path in files_below(folder) {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => packets.extend(members(&path)),
            Some("avro" | "bin") if !path.components().any(|part| part.as_os_str() == "broken") => {
                packets.push(std::fs::read(&path).unwrap().into());
            }
            _ => {}
        }
    }
    packets
}

fn members(tar_gz: &Path) -> Vec<Bytes> {
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(tar_gz).unwrap()));
    let members = tar.entries().unwrap().filter_map(|member| {
        let mut member = member.unwrap();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        member.header().entry_type().is_file().then(|| Bytes::from(bytes))
    });
    members.collect()
}

async fn ingest(archive: &Archive, packets: &[Bytes]) -> Vec<Written> {
    let decoder = Decoder::bundled();
    let decoded = packets
        .iter()
        .map(|packet| Incoming::from(&decoder.decode(packet).unwrap()));
    let results = ArchiveWriter::new(archive, 2).write(decoded.collect()).await;
    results.into_iter().map(|result| result.unwrap()).collect()
}

#[tokio::test]
async fn every_packet_of_the_corpus_comes_back_byte_for_byte() {
    let Some(folder) = corpus("every_packet_of_the_corpus_comes_back_byte_for_byte") else {
        return;
    };
    let db = TestDb::new().await;
    let archive = db.archive().await;
    let sent = packets(&folder);
    assert!(sent.len() >= 60, "the corpus has {} packets", sent.len());
    let results = ingest(&archive, &sent).await;
    let distinct: BTreeSet<&Bytes> = sent.iter().collect();
    assert_eq!(
        results.iter().filter(|written| **written != Written::Duplicate).count(),
        distinct.len()
    );
    let exported: Vec<Exported> = archive.export(&Query::all()).try_collect().await.unwrap();
    let received: BTreeSet<&Bytes> = exported.iter().map(|exported| &exported.raw.payload).collect();
    assert!(
        received == distinct,
        "{} of {} came back",
        received.intersection(&distinct).count(),
        distinct.len()
    );
    let names: BTreeSet<String> = exported.iter().map(Exported::file_name).collect();
    assert_eq!(names.len(), distinct.len());
    assert!(
        ingest(&archive, &sent)
            .await
            .iter()
            .all(|written| *written == Written::Duplicate)
    );
}

#[tokio::test]
async fn the_sample_night_is_found_by_time_place_and_night() {
    let Some(folder) = corpus("the_sample_night_is_found_by_time_place_and_night") else {
        return;
    };
    let db = TestDb::new().await;
    let archive = db.archive().await;
    let sent = members(&folder.join("ztf/ztf_public_20180819_sample.tar.gz"));
    assert_eq!(ingest(&archive, &sent).await, vec![Written::Archived; 30]);
    let pool = db.pool().await;
    let (first, last, ra, dec): (f64, f64, f64, f64) = sqlx::query_as(
        "SELECT min(jd), max(jd), (array_agg(ra ORDER BY jd, id))[1], (array_agg(dec ORDER BY jd, id))[1] FROM alert",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    let count = async |key: &str, value: &str| archive.count(&query(&[(key, value)])).await.unwrap();
    assert_eq!(count("jd", &format!("{first:?}..{last:?}")).await, 29);
    assert!(count("cone", &format!("{ra},{dec},2")).await >= 1);
    assert_eq!(count("cone", "0,0,1").await, 0);
    assert_eq!(count("night", "2018-08-19").await, 30);
    let headers: i64 = sqlx::query_scalar("SELECT count(*) FROM container_header")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(headers, 1);
}
