//! Files through the whole pipeline into the archive: ingesting is processing with another handler.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alertstream::archive::Archive;
use alertstream::archive::ingest::{ArchiveWriter, IngestStats};
use alertstream::decode::Decoder;
use alertstream::pipeline::{Ended, Input, Limits, Pipeline};
use alertstream::processor::{AlertProcessor, ProcessorConfig, QueueConfig};
use alertstream::query::Query;
use alertstream::record::SourceId;
use alertstream::source::files::FilesSource;
use alertstream::stream::StreamConfig;
use futures::TryStreamExt;
use tokio_util::sync::CancellationToken;

use crate::common::TestDb;
use crate::common::fixtures::{Ztf, container, not_avro, tar_gz, truncated_packet, ztf_packet};

async fn ingest(archive: &Archive, paths: Vec<PathBuf>) -> (Ended, IngestStats) {
    let decoder = Decoder::bundled();
    let splitting = decoder.clone();
    let split = Arc::new(move |file: &bytes::Bytes| splitting.split(file).map_err(Into::into));
    let input = Input {
        source: Box::new(FilesSource::new(SourceId::new("files"), paths, split)),
        stream: StreamConfig {
            dead_letters: Arc::new(archive.dead_letters()),
            ..StreamConfig::default()
        },
        at_rest: None,
    };
    let writer = ArchiveWriter::new(archive, 2);
    let processor = ProcessorConfig {
        workers: 2,
        batch_max: 50,
        ..ProcessorConfig::default()
    };
    let processor = AlertProcessor::batching(Arc::new(writer.clone()), &processor);
    let pipeline = Pipeline::start(processor, &QueueConfig::default(), decoder);
    let ended = pipeline
        .run(vec![input], &Limits::default(), CancellationToken::new())
        .await;
    (ended, writer.stats())
}

/// 20 good files, two bad ones, an empty one, a container of three records, and a tar of five and a bad one.
fn fill(folder: &Path) {
    for n in 0..20 {
        std::fs::write(folder.join(format!("{n:02}.avro")), ztf_packet(n)).unwrap();
    }
    std::fs::write(folder.join("cut.avro"), truncated_packet(90)).unwrap();
    std::fs::write(folder.join("notes.txt"), not_avro()).unwrap();
    std::fs::write(folder.join("empty"), b"").unwrap();
    std::fs::write(
        folder.join("three.avro"),
        container(&[Ztf::new(30), Ztf::new(31), Ztf::new(32)]),
    )
    .unwrap();
    let mut members: Vec<(String, Vec<u8>)> = (40..45).map(|n| (format!("m{n}"), ztf_packet(n))).collect();
    members.push(("bad".into(), truncated_packet(45)));
    let members = members.iter().map(|(name, bytes)| (name.as_str(), &bytes[..]));
    std::fs::write(folder.join("night.tar.gz"), tar_gz(members)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_packet_is_a_dead_letter_once_the_rest_is_archived_and_again_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let db = TestDb::new().await;
    let archive = db.archive().await;
    let (ended, stats) = ingest(&archive, vec![folder.path().to_owned()]).await;
    assert!(ended.failure.is_none(), "{:?}", ended.failure);
    assert_eq!(
        (stats.archived, stats.duplicates, stats.revisions, stats.reframed),
        (28, 0, 0, 3)
    );
    let letters = archive.dead_letters().page(0).await.unwrap();
    let mut named: Vec<(String, String)> = letters
        .iter()
        .map(|letter| {
            (
                letter.path.clone().unwrap().rsplit('/').next().unwrap().to_owned(),
                letter.reason.clone(),
            )
        })
        .collect();
    named.sort();
    let expected = [
        ("cut.avro", "truncated"),
        ("empty", "empty"),
        ("night.tar.gz!bad", "truncated"),
        ("notes.txt", "not_avro"),
    ];
    assert_eq!(
        named,
        expected.map(|(name, reason)| (name.to_owned(), reason.to_owned()))
    );
    let (_, again) = ingest(&archive, vec![folder.path().to_owned()]).await;
    assert_eq!((again.archived, again.duplicates, again.reframed), (0, 28, 3));
    assert_eq!(archive.dead_letters().page(0).await.unwrap(), letters);
    let packets: Vec<_> = archive.export(&Query::all()).try_collect().await.unwrap();
    assert_eq!(packets.len(), 28);
    // What was whole in its file is stored as it was; a record of three is a packet of its own.
    assert!((0..20).all(|n| packets.iter().any(|packet| packet.raw.payload[..] == ztf_packet(n)[..])));
    assert_eq!(packets.iter().filter(|packet| packet.raw.reframed).count(), 3);
}
