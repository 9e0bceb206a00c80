//! The examples, run.

use std::time::Duration;

use alertstream::cli::embedded::mock_kafka::{MockKafka, fast_settings};
use alertstream::source::kafka::client::PassThrough;
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::writer::TopicWriter;

use crate::common::{TestDb, fixtures};
use crate::support::{json_on, on, write_packets};

#[allow(dead_code, reason = "an example's `main` is not called here")]
#[path = "../../examples/custom_handler.rs"]
mod custom_handler;
#[allow(dead_code, reason = "an example's `main` is not called here")]
#[path = "../../examples/live.rs"]
mod live;
#[allow(dead_code, reason = "an example's `main` is not called here")]
#[path = "../../examples/replay.rs"]
mod replay;
#[allow(dead_code, reason = "an example's `main` is not called here")]
#[path = "../../examples/switch.rs"]
mod switch;

/// A mock broker whose topic `night` has these alerts, and how it is read.
fn broker(numbers: std::ops::Range<u64>) -> (MockKafka, LiveConfig) {
    let mock = MockKafka::start().unwrap();
    mock.create_topic("night", 3).unwrap();
    let mut config = live::topic(mock.bootstrap(), "night");
    config.librdkafka = PassThrough::new(fast_settings());
    let within = Duration::from_secs(30);
    let writer = TopicWriter::connect(&config.clients().unwrap(), "night", within).unwrap();
    for number in numbers {
        writer.send(None, &fixtures::ztf_packet(number)).unwrap();
    }
    writer.finish(within).unwrap();
    (mock, config)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_example_reads_a_topic_once() {
    let (_mock, config) = broker(0..12);
    assert_eq!(live::read(config.clone(), "example").await.unwrap(), 12);
    assert_eq!(live::read(config, "example").await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_example_finds_the_same_alerts_live_and_replayed() {
    let (_mock, config) = broker(0..60);
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..60);
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    let archive = switch::Backend::Archive {
        url: db.url().to_owned(),
        night: "2018-08-19".to_owned(),
    };
    let live = switch::bright(switch::Backend::Live(config), "example").await.unwrap();
    let replayed = switch::bright(archive, "example").await.unwrap();
    assert_eq!(live, replayed);
    assert_eq!((live.0.len(), live.1), (20, 60)); // of each 50, ten have a magnitude from 17.0 to 17.9
}

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
