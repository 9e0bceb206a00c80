//! Reading to an end, resuming at the commit, order within a partition.

use std::time::Duration;

use alertstream::record::{KafkaTimestamp, TimestampKind};
use alertstream::source::kafka::place::Start;
use alertstream::stream::{StreamConfig, open};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

use super::broker::{Broker, both, bounded, drain, fresh, next, source, stream};

async fn reads_all_and_resumes(broker: &Broker) {
    let topic = broker.topic(4).await;
    broker.fill(&topic, 4, 0..50).await;
    let group = fresh("group");
    let (mut alerts, control) = stream(&group, bounded(broker.config(&[&topic])));
    let mut seen = drain(&mut alerts).await;
    control.shutdown(Duration::from_secs(10)).await.unwrap();
    for partition in 0..4 {
        let own = seen
            .iter()
            .filter(|text| text.starts_with(&format!("{partition}:")))
            .cloned()
            .collect::<Vec<_>>();
        assert_eq!(
            own,
            (0..50)
                .map(|number| format!("{partition}:{number}"))
                .collect::<Vec<_>>()
        );
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200);
    assert_eq!(broker.committed(&group, &topic, 4), [50; 4]);

    broker.fill(&topic, 4, 50..60).await;
    let (mut alerts, control) = stream(&group, bounded(broker.config(&[&topic])));
    assert_eq!(drain(&mut alerts).await.len(), 40);
    control.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!(broker.committed(&group, &topic, 4), [60; 4]);
}

both!(
    a_bounded_read_gives_everything_once_and_the_next_one_goes_on,
    reads_all_and_resumes
);

async fn starts(broker: &Broker) {
    let topic = broker.topic(2).await;
    broker.fill(&topic, 2, 0..10).await;
    let read = async |start: Start| {
        let mut config = bounded(broker.config(&[&topic]));
        config.start = start;
        let (mut alerts, control) = stream(&fresh("group"), config);
        let seen = drain(&mut alerts).await;
        control.shutdown(Duration::from_secs(10)).await.unwrap();
        seen
    };
    assert_eq!(read(Start::Latest).await.len(), 0);
    assert_eq!(read(Start::Committed).await.len(), 20);
    let marks = Start::parse(&format!("kafka:{topic}/0/7,kafka:{topic}/1/9")).unwrap();
    let mut seen = read(marks).await;
    seen.sort();
    assert_eq!(seen, ["0:7", "0:8", "0:9", "1:9"]);
}
both!(a_read_starts_where_it_is_told_to, starts);

async fn from_start(broker: &Broker) {
    let topic = broker.topic(2).await;
    broker.fill(&topic, 2, 0..10).await;
    let group = fresh("group");
    let config = bounded(broker.config(&[&topic]));
    for _ in 0..2 {
        let again = source(&group, config.clone()).from_start();
        let (mut alerts, control) = open(Box::new(again), StreamConfig::default());
        assert_eq!(drain(&mut alerts).await.len(), 20);
        control.shutdown(Duration::from_secs(10)).await.unwrap();
    }
}
both!(from_start_comes_before_the_groups_commits, from_start);

async fn keeps(broker: &Broker) {
    let topic = broker.topic(1).await;
    let headers = OwnedHeaders::new().insert(Header {
        key: "candid",
        value: Some("17"),
    });
    let headers = headers.insert(Header::<&str> {
        key: "null",
        value: None,
    });
    let now = chrono::Utc::now().timestamp_millis();
    let record = FutureRecord::to(&topic)
        .key("object")
        .payload("packet")
        .headers(headers)
        .timestamp(now);
    let producer = broker.producer();
    producer
        .send_result(record)
        .map_err(|(e, _)| e)
        .unwrap()
        .await
        .unwrap()
        .unwrap();
    let (mut alerts, control) = stream(&fresh("group"), bounded(broker.config(&[&topic])));
    let delivery = next(&mut alerts).await;
    let origin = delivery.raw().origin.clone().unwrap();
    assert_eq!(
        (&**origin.topic(), origin.partition(), origin.offset()),
        (&*topic, 0, 0)
    );
    assert_eq!(origin.key().map(|key| &key[..]), Some(&b"object"[..]));
    assert_eq!(
        origin.headers(),
        [("candid".into(), Some("17".into())), ("null".into(), None)]
    );
    assert_eq!(
        origin.timestamp(),
        Some(KafkaTimestamp {
            millis: now,
            kind: TimestampKind::Create
        })
    );
    assert_eq!(delivery.position().to_string(), format!("kafka:{topic}/0/0"));
    delivery.ack();
    control.shutdown(Duration::from_secs(10)).await.unwrap();
}
both!(key_headers_and_time_are_kept, keeps);

async fn tombstones(broker: &Broker) {
    let topic = broker.topic(1).await;
    let producer = broker.producer();
    for payload in [None, Some(""), Some("alert"), None] {
        let mut record = FutureRecord::<str, str>::to(&topic).partition(0).key("k");
        record.payload = payload;
        producer
            .send_result(record)
            .map_err(|(e, _)| e)
            .unwrap()
            .await
            .unwrap()
            .unwrap();
    }
    let group = fresh("group");
    let source = source(&group, bounded(broker.config(&[&topic])));
    let report = source.report();
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    assert_eq!(drain(&mut alerts).await, ["", "", "alert", ""]);
    let stats = control.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!((stats.acked, report.counts().tombstones), (4, 3));
    assert_eq!(broker.committed(&group, &topic, 1), [4]);
}
both!(tombstones_are_delivered_empty_counted_and_committed, tombstones);
