//! What only a real broker can show: time, SASL and ACLs, retention, topics made again, two members of one name.

use std::time::Duration;

use alertstream::source::SourceError;
use alertstream::source::kafka::client::PassThrough;
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::gaps::{GapCause, ResetPolicy};
use alertstream::source::kafka::groups::GroupView;
use alertstream::source::kafka::nights::NightStart;
use alertstream::source::kafka::place::{End, Start};
use alertstream::stream::{ByteBudget, StreamConfig, open};
use futures::StreamExt;
use rdkafka::TopicPartitionList;
use rdkafka::admin::AdminOptions;
use rdkafka::producer::FutureRecord;

use super::broker::{Broker, SOON, bounded, drain, fresh, next, source, stream, text, until};

/// The next item must be the stream's failure; gives its words.
async fn failure(group: &str, config: LiveConfig) -> String {
    let (mut alerts, control) = stream(group, config);
    let item = tokio::time::timeout(SOON, alerts.next())
        .await
        .expect("soon")
        .expect("an item");
    let said = item.expect_err("a failure").to_string();
    let _ = control.shutdown(Duration::from_secs(5)).await;
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_and_end_by_time_are_exact_and_half_open() {
    let Some(broker) = Broker::real("start_and_end_by_time_are_exact_and_half_open") else {
        return;
    };
    let topic = broker.topic(1).await;
    let producer = broker.producer();
    let now = chrono::Utc::now().timestamp_millis();
    for n in 0..10 {
        let payload = format!("0:{n}");
        let record = FutureRecord::<str, str>::to(&topic)
            .payload(&payload)
            .timestamp(now - 100_000 + n * 1000);
        producer
            .send_result(record)
            .map_err(|(e, _)| e)
            .unwrap()
            .await
            .unwrap()
            .unwrap();
    }
    let at = |n: i64| chrono::DateTime::from_timestamp_millis(now - 100_000 + n * 1000).unwrap();
    let mut config = broker.config(&[&topic]);
    (config.start, config.end) = (Start::Time(at(3)), End::Time(at(7)));
    let (mut alerts, control) = stream(&fresh("group"), config);
    assert_eq!(drain(&mut alerts).await, ["0:3", "0:4", "0:5", "0:6"]);
    control.shutdown(SOON).await.unwrap();
}

/// Deletes what is before the offsets, as retention does.
async fn expire(broker: &Broker, topic: &str, before: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, rdkafka::Offset::Offset(before))
        .unwrap();
    let options = AdminOptions::new().operation_timeout(Some(SOON));
    broker.admin().delete_records(&list, &options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_position_is_a_gap_and_the_policy_decides() {
    let Some(broker) = Broker::real("an_expired_position_is_a_gap_and_the_policy_decides") else {
        return;
    };
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..10).await;
    let group = fresh("group");
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let (mut alerts, control) = stream(&group, config.clone());
    for _ in 0..2 {
        next(&mut alerts).await.ack();
    }
    control.shutdown(SOON).await.unwrap();
    expire(&broker, &topic, 6).await;
    let mut strict = config.clone();
    strict.on_reset = ResetPolicy::Stop;
    let said = failure(&group, strict).await;
    assert!(
        said.contains(&format!("`kafka:{topic}/0/2` does not exist any more")),
        "{said}"
    );
    let source = source(&group, bounded(config));
    let report = source.report();
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    assert_eq!(drain(&mut alerts).await, ["0:6", "0:7", "0:8", "0:9"]);
    control.shutdown(SOON).await.unwrap();
    let gap = report.counts().gaps.remove(0);
    assert_eq!((gap.from, gap.to, gap.cause, gap.lost()), (2, 6, GapCause::Expired, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_made_again_is_noticed_read_again_and_reported() {
    let Some(broker) = Broker::real("a_topic_made_again_is_noticed_read_again_and_reported") else {
        return;
    };
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..10).await;
    let group = fresh("group");
    let (mut alerts, control) = stream(&group, bounded(broker.config(&[&topic])));
    assert_eq!(drain(&mut alerts).await.len(), 10);
    control.shutdown(SOON).await.unwrap();
    // Deleting a topic deletes the group's commits of it too, so that another topic's offsets stand for it here.
    let options = AdminOptions::new().operation_timeout(Some(SOON));
    let config = broker.config(&[&topic]);
    let source = source(&group, config);
    let report = source.report();
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    broker.fill(&topic, 1, 10..11).await;
    let last = next(&mut alerts).await;
    assert_eq!(text(&last), "0:10");
    last.ack();
    control.flush(SOON).await.unwrap();
    broker
        .admin()
        .delete_topics(&[&topic], &options)
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    broker.create(&topic, 1, &[]).await;
    broker.fill(&topic, 1, 100..103).await;
    let again = next(&mut alerts).await;
    assert_eq!((text(&again), again.position().seq), ("0:100".to_owned(), 0));
    again.ack();
    for _ in 0..2 {
        next(&mut alerts).await.ack();
    }
    control.flush(SOON).await.unwrap();
    control.shutdown(SOON).await.unwrap();
    assert_eq!(report.counts().gaps[0].cause, GapCause::Recreated);
    assert_eq!(broker.committed(&group, &topic, 1), [3]);
}

/// Deletes a topic of one partition, and makes an empty one of its name.
async fn make_again(broker: &Broker, topic: &str) {
    let options = AdminOptions::new().operation_timeout(Some(SOON));
    let deleted = broker.admin().delete_topics(&[topic], &options).await.unwrap();
    assert_eq!(deleted, [Ok(topic.to_owned())]);
    broker.create(topic, 1, &[]).await;
}

/// While it is full, a source fetches nothing and is told nothing, and its client looks at topics seldom: only the id
/// shows that the topic is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_made_again_that_has_grown_past_the_position_is_read_from_its_beginning() {
    let Some(broker) = Broker::real("a_topic_made_again_that_has_grown_past_the_position_is_read_from_its_beginning")
    else {
        return;
    };
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..5).await;
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    config.librdkafka.set("topic.metadata.refresh.interval.ms", "600000");
    let group = fresh("group");
    let source = source(&group, config);
    let report = source.report();
    let full = StreamConfig {
        budget: ByteBudget::new(512),
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(Box::new(source), full);
    let first = next(&mut alerts).await;
    assert_eq!(text(&first), "0:0");
    make_again(&broker, &topic).await;
    broker.fill(&topic, 1, 100..110).await;
    until(|| !report.counts().gaps.is_empty()).await;
    first.ack();
    for number in 100..110 {
        let again = next(&mut alerts).await;
        assert_eq!(
            (text(&again), again.position().seq),
            (format!("0:{number}"), number - 100)
        );
        again.ack();
    }
    control.flush(SOON).await.unwrap();
    control.shutdown(SOON).await.unwrap();
    let gaps = report.counts().gaps;
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!((gaps[0].cause, gaps[0].to), (GapCause::Recreated, 0));
    assert_eq!(broker.committed(&group, &topic, 1), [10]);
}

/// A lane whose span is full is paused by itself: of the topic that is gone, and not of the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_made_again_under_a_full_span_goes_on() {
    let Some(broker) = Broker::real("a_topic_made_again_under_a_full_span_goes_on") else {
        return;
    };
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..5).await;
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let source = source(&fresh("group"), config);
    let report = source.report();
    let narrow = StreamConfig {
        max_span: 1,
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(Box::new(source), narrow);
    let first = next(&mut alerts).await;
    make_again(&broker, &topic).await;
    broker.fill(&topic, 1, 100..110).await;
    until(|| !report.counts().gaps.is_empty()).await;
    first.ack();
    for number in 100..110 {
        let again = next(&mut alerts).await;
        assert_eq!(text(&again), format!("0:{number}"));
        again.ack();
    }
    control.shutdown(SOON).await.unwrap();
}

/// Settings of the SASL listener for a user.
fn sasl(topic: &str, user: &str, password: &str) -> Option<LiveConfig> {
    let mut config = LiveConfig::new(&std::env::var("KAFKA_SASL_BOOTSTRAP_SERVERS").ok()?, &[topic]);
    let settings = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", user),
        ("sasl.password", password),
        ("session.timeout.ms", "6000"),
    ];
    config.librdkafka = PassThrough::new(settings.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Some(config)
}

#[cfg(feature = "kafka-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_fatal_in_words_and_names_no_secret() {
    let Some(config) = sasl("any", "alice", "hunter2") else {
        println!("skipped: a_wrong_password_is_fatal_in_words_and_names_no_secret (no broker with SASL)");
        return;
    };
    let said = failure("alice-group", config).await;
    assert!(said.contains("refuse the credentials of the user `alice`"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[cfg(feature = "kafka-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_rights_is_told_which_and_one_with_them_reads() {
    let (Some(broker), Ok(admin)) = (
        Broker::real("a_user_without_rights_is_told_which_and_one_with_them_reads"),
        std::env::var("KAFKA_SASL_ADMIN_PASSWORD"),
    ) else {
        return;
    };
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..3).await;
    let secret = std::env::var("KAFKA_SASL_PASSWORD").unwrap();
    let said = failure(&fresh("group"), sasl(&topic, "alice", &secret).unwrap()).await;
    assert!(said.contains("the user `alice` may not"), "{said}");
    let clients = sasl(&topic, "alice", &secret).unwrap().clients().unwrap();
    let (to, topics) = (Start::Latest, vec![topic.clone()]);
    let moving = move || GroupView::connect(&clients, "g", SOON)?.seek(&topics, &to, NightStart::default());
    let said = tokio::task::spawn_blocking(moving)
        .await
        .unwrap()
        .unwrap_err()
        .to_string();
    assert!(said.contains("the user `alice` may not"), "{said}");
    let (mut alerts, control) = stream(&fresh("group"), bounded(sasl(&topic, "admin", &admin).unwrap()));
    assert_eq!(drain(&mut alerts).await.len(), 3);
    control.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_into_a_group_with_members_is_refused() {
    let Some(broker) = Broker::real("a_replay_into_a_group_with_members_is_refused") else {
        return;
    };
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..3).await;
    let group = fresh("group");
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let (mut alerts, control) = stream(&group, config.clone());
    next(&mut alerts).await.ack();
    let (mut others, other) = open(Box::new(source(&group, config).from_start()), StreamConfig::default());
    let item = tokio::time::timeout(SOON, others.next()).await.unwrap().unwrap();
    let said = item.err().unwrap().to_string();
    assert!(said.contains("has 1 live member;"), "{said}");
    let _ = other.shutdown(Duration::from_secs(1)).await;
    control.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_protocols_read_and_hand_over_too() {
    let Some(broker) = Broker::real("other_protocols_read_and_hand_over_too") else {
        return;
    };
    for (key, value) in [
        ("partition.assignment.strategy", "range"),
        ("group.protocol", "consumer"),
    ] {
        let topic = broker.topic(4).await;
        broker.fill(&topic, 4, 0..20).await;
        let mut config = bounded(LiveConfig::new(&broker.bootstrap, &[&topic]));
        config.librdkafka = PassThrough::new([(key.to_owned(), value.to_owned())]);
        let group = fresh("group");
        let (mut a, first) = stream(&group, config.clone());
        let (mut b, second) = stream(&group, config);
        let (mut seen, more) = tokio::join!(drain(&mut a), drain(&mut b));
        seen.extend(more);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 80, "{value}");
        let (one, two) = tokio::join!(first.shutdown(SOON), second.shutdown(SOON));
        one.unwrap();
        two.unwrap();
        assert_eq!(broker.committed(&group, &topic, 4), [20; 4], "{value}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_member_of_one_name_ends_one_of_the_two_with_a_reason() {
    let Some(broker) = Broker::real("the_second_member_of_one_name_ends_one_of_the_two_with_a_reason") else {
        return;
    };
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..3).await;
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    config.librdkafka.set("group.instance.id", "the-one");
    let group = fresh("group");
    let (mut first, one) = stream(&group, config.clone());
    next(&mut first).await.ack();
    let (mut second, two) = stream(&group, config);
    let fenced = async |alerts: &mut alertstream::stream::AlertStream| loop {
        match alerts.next().await {
            Some(Ok(delivery)) => delivery.ack(),
            Some(Err(error)) => return error,
            None => panic!("an end without a reason"),
        }
    };
    let error = tokio::time::timeout(SOON, async {
        tokio::select! { error = fenced(&mut first) => error, error = fenced(&mut second) => error }
    });
    let error = error.await.expect("soon");
    assert!(
        matches!(&error, SourceError::Backend { .. }) && error.to_string().contains("cannot go on"),
        "{error}"
    );
    let (one, two) = tokio::join!(
        one.shutdown(Duration::from_secs(5)),
        two.shutdown(Duration::from_secs(5))
    );
    assert!(one.is_ok() || two.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lag_tells_how_long_retention_keeps_the_next_message() {
    let Some(broker) = Broker::real("lag_tells_how_long_retention_keeps_the_next_message") else {
        return;
    };
    let (hour, for_ever) = (fresh("hour"), fresh("for-ever"));
    broker.create(&hour, 1, &[("retention.ms", "3600000")]).await;
    broker.create(&for_ever, 1, &[("retention.ms", "-1")]).await;
    let producer = broker.producer();
    for topic in [&hour, &for_ever] {
        let record = FutureRecord::<str, str>::to(topic).payload("x");
        let half_an_hour_ago = chrono::Utc::now().timestamp_millis() - 1_800_000;
        let sent = producer.send_result(record.timestamp(half_an_hour_ago));
        sent.map_err(|(e, _)| e).unwrap().await.unwrap().unwrap();
    }
    let clients = LiveConfig::new(&broker.bootstrap, &[&hour]).clients().unwrap();
    let topics = [hour.clone(), for_ever.clone()];
    let asked = tokio::task::spawn_blocking(move || {
        let view = GroupView::connect(&clients, &fresh("group"), SOON).unwrap();
        view.lag(&topics).unwrap()
    });
    let told: Vec<_> = asked.await.unwrap();
    let of = |topic: &str| {
        let line = told.iter().find(|line| line.lane.contains(topic)).unwrap();
        line.retention_headroom_hours
    };
    let left = of(&hour).unwrap();
    assert!(left <= 0.5 && left > 0.0, "{left}");
    assert_eq!(of(&for_ever), None);
}

/// The last offset of a partition that a transaction filled is a control record: nothing is delivered there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_members_end_a_bounded_read_of_partitions_that_end_in_control_records() {
    use rdkafka::producer::Producer;
    let Some(broker) = Broker::real("two_members_end_a_bounded_read_of_partitions_that_end_in_control_records") else {
        return;
    };
    let topic = broker.topic(2).await;
    let group = fresh("group");
    // Both are members before the end comes.
    let mut until = broker.config(&[&topic]);
    until.start = Start::Earliest;
    until.end = End::Time(chrono::Utc::now() + chrono::Duration::seconds(6));
    until.librdkafka.set("statistics.interval.ms", "100");
    let (mut a, one) = stream(&group, until.clone());
    let (mut b, two) = stream(&group, until);
    let producer: rdkafka::producer::FutureProducer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", &broker.bootstrap)
        .set("transactional.id", fresh("tx"))
        .create()
        .unwrap();
    producer.init_transactions(SOON).unwrap();
    producer.begin_transaction().unwrap();
    let mut sent = Vec::new();
    for partition in 0..2 {
        let record = FutureRecord::<str, str>::to(&topic).partition(partition).payload("x");
        sent.push(producer.send_result(record).map_err(|(e, _)| e).unwrap());
    }
    producer.commit_transaction(SOON).unwrap();
    let (seen_a, seen_b) = tokio::join!(drain(&mut a), drain(&mut b));
    assert_eq!(seen_a.len() + seen_b.len(), 2);
    one.shutdown(SOON).await.unwrap();
    two.shutdown(SOON).await.unwrap();
}
