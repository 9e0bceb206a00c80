//! Budgets and spans smaller than a batch, with packets of every size: nothing lost, doubled or out of order.

use std::collections::BTreeMap;

use alertstream::stream::{ByteBudget, StreamConfig, open};
use bytes::Bytes;
use futures::StreamExt;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

use super::broker::{Broker, SOON, both, bounded, fresh, source};

const PARTITIONS: i32 = 4;
const SIZES: [usize; 8] = [0, 10, 5_000, 10, 100_000, 700, 4_096, 4_097];

/// The payload of message `number` of a partition.
fn payload(partition: i32, number: usize) -> Vec<u8> {
    vec![(number * 7 + usize::try_from(partition).unwrap()) as u8; SIZES[number % SIZES.len()]]
}

/// Fills partitions with packets of mixed sizes, with keys, and headers of which some are null.
async fn fill_mixed(broker: &Broker, topic: &str, count: usize) {
    let producer = broker.producer();
    let mut sent = Vec::new();
    for number in 0..count {
        for partition in 0..PARTITIONS {
            let (key, payload) = (format!("k{number}"), payload(partition, number));
            let mut headers = OwnedHeaders::new();
            for n in 0..number % 5 {
                let (key, value) = (format!("h{n}"), (n % 2 == 0).then_some("v"));
                headers = headers.insert(Header { key: &key, value });
            }
            let record = FutureRecord::<str, [u8]>::to(topic).partition(partition).key(&key);
            let record = record.payload(&payload).headers(headers);
            sent.push(producer.send_result(record).map_err(|(e, _)| e).unwrap());
        }
    }
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
}

/// Reads a topic of `count` packets a partition to its end within this budget and span; each packet must come once, in
/// order, whole.
async fn read(broker: &Broker, topic: &str, count: usize, bytes_max: usize, max_span: usize) {
    let mut config = bounded(broker.config(&[topic]));
    config.librdkafka.set("statistics.interval.ms", "1");
    let budget = ByteBudget::new(bytes_max);
    let limits = StreamConfig {
        budget: budget.clone(),
        max_span,
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(Box::new(source(&fresh("group"), config)), limits);
    let mut next = BTreeMap::new();
    while let Some(delivery) = tokio::time::timeout(SOON, alerts.next()).await.expect("soon") {
        let delivery = delivery.unwrap();
        let raw = delivery.raw();
        let origin = raw.origin.as_ref().unwrap();
        let (partition, expected) = (origin.partition(), next.entry(origin.partition()).or_insert(0_usize));
        assert_eq!(
            origin.offset(),
            i64::try_from(*expected).unwrap(),
            "partition {partition}"
        );
        assert!(raw.payload == payload(partition, *expected), "{partition}/{expected}");
        assert_eq!(origin.key(), Some(&Bytes::from(format!("k{expected}"))));
        let is_null: Vec<bool> = origin.headers().iter().map(|(_, value)| value.is_none()).collect();
        assert_eq!(is_null, (0..*expected % 5).map(|n| n % 2 == 1).collect::<Vec<_>>());
        *expected += 1;
        delivery.ack();
    }
    let stats = control.shutdown(SOON).await.unwrap();
    assert_eq!(next, (0..PARTITIONS).map(|partition| (partition, count)).collect());
    assert_eq!((stats.acked, stats.redelivered), (4 * count as u64, 0));
    assert_eq!(budget.used(), 0, "every byte was given back");
}

async fn mixed(broker: &Broker) {
    const COUNT: usize = 48;
    let topic = broker.topic(PARTITIONS).await;
    fill_mixed(broker, &topic, COUNT).await;
    // Below one packet, a few of them, some batches; spans from one on.
    for (bytes_max, max_span) in [(512, 10_000), (3_000, 10_000), (1 << 20, 1), (250_000, 7), (3_000, 2)] {
        read(broker, &topic, COUNT, bytes_max, max_span).await;
    }
}
both!(mixed_sizes_under_tight_limits_come_once_in_order_and_whole, mixed);
