//! Decoded packets on their way in: versions that no mapping knows, and a bad packet among good ones.

use alertstream::archive::ingest::{ArchiveWriter, Incoming};
use alertstream::decode::Decoder;
use alertstream::query::Query;
use futures::TryStreamExt;

use crate::common::TestDb;
use crate::common::fixtures::Ztf;

#[tokio::test]
async fn an_alert_of_a_newer_schema_is_archived_replayed_and_counted() {
    let db = TestDb::new().await;
    let archive = db.archive().await;
    let decoder = Decoder::bundled();
    let newer = Ztf {
        schemavsn: "99.1".into(),
        ..Ztf::new(0)
    };
    let packets = [newer.packet(), Ztf::new(1).packet()].map(bytes::Bytes::from);
    let decoded: Vec<Incoming> = packets
        .iter()
        .map(|packet| Incoming::from(&decoder.decode(packet).unwrap()))
        .collect();
    assert_eq!(
        (decoded[0].header.alert_id, decoded[0].header.jd),
        (newer.candid, Some(newer.jd))
    );
    let writer = ArchiveWriter::new(&archive, 1);
    for result in writer.write(decoded).await {
        result.unwrap();
    }
    assert_eq!((writer.stats().archived, writer.stats().unknown_schema), (2, 1));
    let exported: Vec<_> = archive.export(&Query::all()).try_collect().await.unwrap();
    assert!(exported.iter().map(|exported| &exported.raw.payload).eq(&packets));
}
