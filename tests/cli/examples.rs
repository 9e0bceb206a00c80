//! The examples, run.

use crate::common::{TestDb, fixtures};
use crate::support::{json_on, on, write_packets};

#[allow(dead_code, reason = "an example's `main` is not called here")]
#[path = "../../examples/custom_handler.rs"]
mod custom_handler;
#[allow(dead_code, reason = "an example's `main` is not called here")]
#[path = "../../examples/replay.rs"]
mod replay;

#[tokio::test(flavor = "multi_thread")]
async fn the_replay_example_reads_a_group_once() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..12);
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    assert_eq!(replay::replay(db.url(), "example", "2018-08-19").await.unwrap(), 12);
    assert_eq!(replay::replay(db.url(), "example", "2018-08-19").await.unwrap(), 0);
    let group = json_on(&db, ["group", "show", "example"]).exits(0).json();
    assert_eq!(group["state"], "exhausted");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_example_finds_the_brightest_alert_of_each_object() {
    let folder = tempfile::tempdir().unwrap();
    write_packets(folder.path(), 0..20);
    let (found, alerts) = custom_handler::brightest(folder.path().to_str().unwrap())
        .await
        .unwrap();
    assert_eq!((found.len(), alerts), (7, 20));
    assert_eq!(found["ZTF18test000"], f64::from(fixtures::Ztf::new(0).magpsf));
}
