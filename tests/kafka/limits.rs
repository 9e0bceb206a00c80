//! Budgets, nights by the clock, denied topics, addresses where nobody is, lag.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alertstream::source::kafka::Timing;
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::place::Start;
use alertstream::stream::{ByteBudget, StreamConfig, open};
use chrono::{DateTime, Utc};
use futures::StreamExt;
use parking_lot::Mutex;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::broker::{Broker, SOON, both, bounded, drain, fresh, next, quick, source, stream, text};

async fn pauses(broker: &Broker) {
    let topic = broker.topic(2).await;
    broker.fill(&topic, 2, 0..100).await;
    let source = source(&fresh("group"), bounded(broker.config(&[&topic])));
    let report = source.report();
    // Each small alert is charged 512 bytes: eight fit.
    let config = StreamConfig {
        budget: ByteBudget::new(4096),
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(Box::new(source), config);
    let mut seen = Vec::new();
    let mut held = Vec::new();
    while seen.len() < 200 {
        let delivery = next(&mut alerts).await;
        seen.push(text(&delivery));
        held.push(delivery);
        if held.len() == 8 {
            held.drain(..).for_each(|delivery| delivery.ack());
        }
    }
    held.into_iter().for_each(|delivery| delivery.ack());
    assert!(drain(&mut alerts).await.is_empty());
    control.shutdown(SOON).await.unwrap();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200, "each once, paused or not");
    let counts = report.counts();
    assert!(counts.pauses > 0);
    assert_eq!(counts.lost, 0, "a full budget costs no membership");
}
both!(a_full_budget_pauses_and_loses_nothing, pauses);

/// While the budget is full, another member joins: what stays here and what comes and goes rests all the same.
async fn paused_over_a_rebalance(broker: &Broker) {
    const BYTES: usize = 8 * 512;
    let topic = broker.topic(4).await;
    broker.fill(&topic, 4, 0..50).await;
    let group = fresh("group");
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let first = source(&group, config.clone());
    let report = first.report();
    let budget = ByteBudget::new(BYTES);
    let limited = StreamConfig {
        budget: budget.clone(),
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(Box::new(first), limited);
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(next(&mut alerts).await);
    }
    until(|| report.counts().pauses > 0).await;
    let before = report.counts().rebalances;

    let (mut others, other) = stream(&group, config);
    let mut seen = BTreeSet::new();
    // Nothing is settled here meanwhile: the budget stays full while the first member gives partitions up.
    let mut look = tokio::time::interval(Duration::from_millis(20));
    while report.counts().rebalances == before {
        tokio::select! {
            delivery = next(&mut others) => {
                seen.insert(text(&delivery));
                delivery.ack();
            }
            _ = look.tick() => {}
        }
    }
    assert!(budget.used() <= BYTES, "no more than the budget came in meanwhile");
    // The other one leaves: its partitions come back to a member that may be full.
    other.shutdown(SOON).await.unwrap();
    drop(others);
    for delivery in held {
        seen.insert(text(&delivery));
        delivery.ack();
    }
    let rest = async {
        while seen.len() < 200 || broker.committed(&group, &topic, 4) != [50; 4] {
            tokio::select! {
                delivery = next(&mut alerts) => {
                    assert!(budget.used() <= BYTES);
                    seen.insert(text(&delivery));
                    delivery.ack();
                }
                _ = look.tick() => {}
            }
        }
    };
    tokio::time::timeout(SOON, rest).await.expect("soon");
    control.shutdown(SOON).await.unwrap();
    assert_eq!((seen.len(), report.counts().lost), (200, 0));
}
both!(a_pause_survives_a_rebalance_and_loses_nothing, paused_over_a_rebalance);

/// Waits until something holds, soon.
async fn until(holds: impl Fn() -> bool) {
    let held = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, held).await.expect("soon");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_behind_and_from_which_nothing_is_fetched_is_told() {
    let broker = Broker::mock();
    let topic = broker.topic(2).await;
    broker.fill(&topic, 1, 0..5).await;
    // Every fetch is refused for longer than the test takes.
    let refusals = vec![RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; 20_000];
    let mock = broker.mock.as_ref().unwrap();
    mock.fail_next(RDKafkaApiKey::Fetch, &refusals).unwrap();
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let timing = Timing {
        stall_after: Duration::from_millis(500),
        ..quick()
    };
    let source = source(&fresh("group"), config).with_timing(timing);
    let report = source.report();
    let (_alerts, control) = open(Box::new(source), StreamConfig::default());
    until(|| report.counts().stalls > 0).await;
    let told = report.counts().stalls;
    assert_eq!(told, 1, "the empty partition is not behind, and one stall is told once");
    control.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_above_the_byte_budget_is_counted_and_comes_alone() {
    let broker = Broker::mock();
    let topic = broker.topic(1).await;
    let large = "x".repeat(20_000);
    let producer = broker.producer();
    for payload in ["small", &large, "after"] {
        let record = rdkafka::producer::FutureRecord::<str, str>::to(&topic).payload(payload);
        let sent = producer.send_result(record).map_err(|(e, _)| e).unwrap();
        sent.await.unwrap().unwrap();
    }
    let source = source(&fresh("group"), bounded(broker.config(&[&topic])));
    let report = source.report();
    let config = StreamConfig {
        budget: ByteBudget::new(4096),
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(Box::new(source), config);
    assert_eq!(drain(&mut alerts).await, ["small", &large, "after"]);
    control.shutdown(SOON).await.unwrap();
    assert_eq!(report.counts().oversized, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_the_user_may_not_use_ends_the_stream_and_names_it() {
    let broker = Broker::mock();
    let topic = broker.topic(1).await;
    let group = fresh("not-mine");
    let denied = vec![RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED; 1000];
    let mock = broker.mock.as_ref().unwrap();
    mock.fail_next(RDKafkaApiKey::FindCoordinator, &denied).unwrap();
    let (mut alerts, control) = stream(&group, broker.config(&[&topic]));
    let item = tokio::time::timeout(SOON, alerts.next()).await.unwrap().unwrap();
    let said = item.err().unwrap().to_string();
    assert!(
        said.contains(&format!("may not use the group `{group}`")) && said.contains("starts with the user's name"),
        "{said}"
    );
    let _ = control.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nights_come_late_go_and_stay_absent_by_the_clock() {
    let broker = Broker::mock();
    let base = fresh("ztf");
    let name = |night: &str| format!("{base}_{night}_programid1");
    broker.create(&name("20261129"), 1, &[]).await;
    broker.fill(&name("20261129"), 1, 0..2).await;
    let now = Arc::new(Mutex::new("2026-11-30T12:00:00Z".parse::<DateTime<Utc>>().unwrap()));
    let clock = now.clone();
    let mut config = broker.config(&[&format!("{base}_{{night}}_programid1")]);
    (config.nights, config.start) = (1, Start::Latest);
    let source = source(&fresh("group"), config).with_clock(Arc::new(move || *clock.lock()));
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    // Tonight's topic is late; it is read from its beginning although the start is `latest`.
    broker.create(&name("20261130"), 1, &[]).await;
    broker.fill(&name("20261130"), 1, 0..3).await;
    for n in 0..3 {
        let delivery = next(&mut alerts).await;
        assert_eq!(
            (
                text(&delivery),
                delivery.raw().origin.clone().unwrap().topic().to_string()
            ),
            (format!("0:{n}"), name("20261130"))
        );
        delivery.ack();
    }
    *now.lock() = "2026-12-01T00:00:00Z".parse().unwrap();
    broker.create(&name("20261201"), 1, &[]).await;
    broker.fill(&name("20261201"), 1, 7..8).await;
    let delivery = next(&mut alerts).await;
    assert_eq!(
        delivery.position().to_string(),
        format!("kafka:{}/0/0", name("20261201"))
    );
    delivery.ack();
    control.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_topic_ends_the_stream_with_the_cause() {
    let broker = Broker::mock();
    let topic = broker.topic(1).await;
    let mock = broker.mock.as_ref().unwrap();
    mock.topic_error(&topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        .unwrap();
    let (mut alerts, control) = stream(&fresh("group"), broker.config(&[&topic]));
    let item = tokio::time::timeout(SOON, alerts.next()).await.unwrap().unwrap();
    let said = item.err().unwrap().to_string();
    assert!(said.contains("may not read a topic") && said.contains(&topic), "{said}");
    let _ = control.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_where_nobody_is_fails_in_time_and_in_words() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config = LiveConfig::new(&nobody.to_string(), &["t"]);
    let timing = Timing {
        connect_within: Duration::from_secs(2),
        ..Timing::default()
    };
    let source = source("group", config).with_timing(timing);
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    let item = tokio::time::timeout(SOON, alerts.next()).await.unwrap().unwrap();
    let said = item.err().unwrap().to_string();
    assert!(said.contains(&format!("no broker of `{nobody}` answered")), "{said}");
    let _ = control.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_commits_are_gaps_on_the_mock_too() {
    let broker = Broker::mock();
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..3).await;
    let group = fresh("group");
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let (mut alerts, control) = stream(&group, config.clone());
    next(&mut alerts).await.ack();
    control.shutdown(SOON).await.unwrap();
    // The mock keeps 5 MiB a partition: the first messages go.
    let producer = broker.producer();
    let large = vec![b'x'; 900_000];
    for _ in 0..8 {
        let record = rdkafka::producer::FutureRecord::<str, [u8]>::to(&topic)
            .partition(0)
            .payload(&large);
        producer
            .send_result(record)
            .map_err(|(e, _)| e)
            .unwrap()
            .await
            .unwrap()
            .unwrap();
    }
    let source = source(&group, bounded(config));
    let report = source.report();
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    let seen = drain(&mut alerts).await;
    assert!(!seen.is_empty() && seen.iter().all(|payload| payload.len() == large.len()));
    control.shutdown(SOON).await.unwrap();
    let counts = report.counts();
    assert_eq!((counts.gaps.len(), counts.gaps[0].from), (1, 1));
    assert!(counts.gaps[0].lost() > 0);
}

async fn lag(broker: &Broker) {
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..5).await;
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    config.librdkafka.set("statistics.interval.ms", "50");
    let (mut alerts, control) = stream(&fresh("group"), config);
    let first = next(&mut alerts).await;
    assert_eq!(control.lag().lanes.len(), 1);
    assert_eq!(control.lag().total(), Some(5), "nothing is settled");
    first.ack();
    for _ in 0..4 {
        next(&mut alerts).await.ack();
    }
    control.flush(SOON).await.unwrap();
    let caught_up = async {
        while control.lag().total() != Some(0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, caught_up)
        .await
        .expect("the lag follows the settlements");
    control.shutdown(SOON).await.unwrap();
}
both!(lag_is_told_per_partition, lag);
