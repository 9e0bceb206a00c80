//! What is committed and what is not: the settled prefix, at revocation, at shutdown, with a broker that is gone.

use std::time::Duration;

use alertstream::source::SourceError;
use alertstream::source::kafka::place::Start;
use alertstream::stream::open;

use super::broker::{Broker, SOON, both, bounded, drain, fresh, next, source, stream, text};

async fn prefix(broker: &Broker) {
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..10).await;
    let group = fresh("group");
    let (mut alerts, control) = stream(&group, bounded(broker.config(&[&topic])));
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(next(&mut alerts).await);
    }
    // Out of order: everything but the fourth.
    let stuck = held.remove(3);
    held.into_iter().rev().for_each(|delivery| delivery.ack());
    control.flush(SOON).await.unwrap();
    assert_eq!(broker.committed(&group, &topic, 1), [3]);
    stuck.ack();
    control.flush(SOON).await.unwrap();
    assert_eq!(broker.committed(&group, &topic, 1), [10]);
    control.shutdown(SOON).await.unwrap();
}
both!(committed_offsets_never_pass_the_first_unsettled_alert, prefix);

async fn handover(broker: &Broker) {
    let topic = broker.topic(4).await;
    broker.fill(&topic, 4, 0..25).await;
    let group = fresh("group");
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let (mut alerts, control) = stream(&group, config.clone());
    let mut seen = Vec::new();
    for _ in 0..100 {
        let delivery = next(&mut alerts).await;
        seen.push(text(&delivery));
        delivery.ack();
    }
    // A second member takes two partitions; what it is given has not been seen by the first.
    let (mut others, other) = stream(&group, config);
    let feeding = broker.fill(&topic, 4, 25..26);
    feeding.await;
    while seen.len() < 104 {
        let delivery = tokio::select! { d = next(&mut alerts) => d, d = next(&mut others) => d };
        seen.push(text(&delivery));
        delivery.ack();
    }
    let (a, b) = tokio::join!(control.shutdown(SOON), other.shutdown(SOON));
    assert_eq!((a.unwrap().open, b.unwrap().open), (0, 0));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 104, "a settled alert is not given to the next owner");
    assert_eq!(broker.committed(&group, &topic, 4), [26; 4]);
}
both!(a_revocation_commits_before_it_lets_go, handover);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_in_time_when_the_broker_is_gone_and_says_unconfirmed() {
    let broker = Broker::mock();
    let topic = broker.topic(2).await;
    broker.fill(&topic, 2, 0..5).await;
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let group = fresh("group");
    let settings = alertstream::stream::StreamConfig {
        commit_within: Duration::from_secs(2),
        ..Default::default()
    };
    let (mut alerts, control) = open(Box::new(source(&group, config)), settings);
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(next(&mut alerts).await);
    }
    broker.mock.as_ref().unwrap().down().unwrap();
    held.into_iter().for_each(|delivery| delivery.ack());
    let ended = tokio::time::timeout(SOON, control.shutdown(Duration::from_secs(1)))
        .await
        .expect("in time");
    assert!(matches!(ended, Err(SourceError::Unconfirmed { .. })), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_shorter_than_the_session_loses_and_repeats_nothing() {
    let broker = Broker::mock();
    let topic = broker.topic(2).await;
    broker.fill(&topic, 2, 0..5).await;
    let group = fresh("group");
    let mut config = broker.config(&[&topic]);
    config.librdkafka.set("session.timeout.ms", "20000");
    config.start = Start::Earliest;
    let (mut alerts, control) = stream(&group, config.clone());
    for _ in 0..10 {
        next(&mut alerts).await.ack();
    }
    let mock = broker.mock.as_ref().unwrap();
    mock.down().unwrap();
    mock.up().unwrap();
    broker.fill(&topic, 2, 5..10).await;
    let mut seen = Vec::new();
    while seen.len() < 10 {
        let delivery = next(&mut alerts).await;
        seen.push(text(&delivery));
        delivery.ack();
    }
    control.shutdown(SOON).await.unwrap();
    let (mut alerts, control) = stream(&group, bounded(config));
    assert_eq!(drain(&mut alerts).await, Vec::<String>::new());
    control.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_longer_than_the_session_loses_nothing_and_passes_nothing() {
    let broker = Broker::mock();
    let topic = broker.topic(2).await;
    broker.fill(&topic, 2, 0..5).await;
    let group = fresh("group");
    let mut config = broker.config(&[&topic]);
    config.librdkafka.set("session.timeout.ms", "1500");
    config.start = Start::Earliest;
    let source = source(&group, config);
    let report = source.report();
    let (mut alerts, control) = open(Box::new(source), Default::default());
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(next(&mut alerts).await);
    }
    // One of each partition is done and committed, the rest is under way when the broker goes.
    let first: Vec<_> = held.extract_if(.., |delivery| delivery.position().seq == 0).collect();
    first.into_iter().for_each(|delivery| delivery.ack());
    control.flush(SOON).await.unwrap();
    let mock = broker.mock.as_ref().unwrap();
    mock.down().unwrap();
    let lost = async {
        while report.counts().lost < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, lost).await.expect("soon");
    held.into_iter().for_each(|delivery| delivery.ack()); // too late: they come again
    mock.up().unwrap();
    broker.fill(&topic, 2, 5..6).await;
    let mut seen = Vec::new();
    for _ in 0..10 {
        let delivery = next(&mut alerts).await;
        seen.push(text(&delivery));
        delivery.ack();
    }
    control.flush(SOON).await.unwrap();
    control.shutdown(SOON).await.unwrap();
    seen.sort();
    let expected = (0..2).flat_map(|partition| (1..6).map(move |number| format!("{partition}:{number}")));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    assert_eq!(broker.committed(&group, &topic, 2), [6; 2]);
}
