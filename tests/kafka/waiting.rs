//! What a source does while it waits for the other members of its group.

use std::time::Duration;

use alertstream::source::kafka::place::Start;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use super::broker::{Broker, SOON, both, bounded, drain, fresh, next, source, stream, until};

/// The coordinator answers the requests of one connection in their order, and a join when all members have joined: what
/// is asked on a member's own connection meanwhile is not answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_read_is_over_while_its_own_join_waits_for_a_member_that_does_not_come() {
    let Some(broker) = Broker::real("a_bounded_read_is_over_while_its_own_join_waits_for_a_member_that_does_not_come")
    else {
        return;
    };
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 0..3).await;
    let (group, mut config) = (fresh("group"), broker.config(&[&topic]));
    config.librdkafka.set("partition.assignment.strategy", "range");
    let mut other = config.clients().unwrap().consumer(&group, 1);
    // Not polled, it stays a member (it goes on telling that it is alive), gives nothing back and does not join again.
    other.set("max.poll.interval.ms", "86400000");
    let other: BaseConsumer = other.create().unwrap();
    other.subscribe(&[&topic]).unwrap();
    until(|| {
        let _ = other.poll(Duration::from_millis(20));
        other.assignment().unwrap().count() == 1
    })
    .await;

    let (mut alerts, control) = stream(&group, bounded(config));
    let state = || {
        let found = other.fetch_group_list(Some(&group), SOON).unwrap();
        found.groups()[0].state().to_owned()
    };
    until(|| state() == "PreparingRebalance").await;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic, 0, Offset::Offset(3)).unwrap();
    other.commit(&list, CommitMode::Sync).unwrap();
    assert_eq!(drain(&mut alerts).await, Vec::<String>::new());
    control.shutdown(SOON).await.unwrap();
}

/// Two members share the partitions; the one that has read everything of its own is not at rest before the other is.
async fn caught_up_with_the_group(broker: &Broker) {
    let topic = broker.topic(2).await;
    broker.fill(&topic, 2, 0..5).await;
    let group = fresh("group");
    let mut config = broker.config(&[&topic]);
    config.start = Start::Earliest;
    let first = source(&group, config.clone());
    let caught_up = first.caught_up();
    assert!(!caught_up.is_so(), "before anything is known");
    let (mut alerts, control) = alertstream::stream::open(Box::new(first), Default::default());
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(next(&mut alerts).await);
    }
    // All is delivered; what becomes of it is not the source's to wait for.
    until(|| caught_up.is_so()).await;
    held.into_iter().for_each(|delivery| delivery.ack());
    control.flush(SOON).await.unwrap();

    let (mut others, other) = stream(&group, config);
    // Each has a partition, so one of the two new alerts comes to each.
    until(|| control.lag().lanes.len() == 1 && other.lag().lanes.len() == 1).await;
    until(|| caught_up.is_so()).await;
    broker.fill(&topic, 2, 5..6).await;
    next(&mut alerts).await.ack();
    let theirs = next(&mut others).await;
    until(|| !caught_up.is_so()).await;
    theirs.ack();
    until(|| caught_up.is_so()).await;
    let (a, b) = tokio::join!(control.shutdown(SOON), other.shutdown(SOON));
    assert!(a.is_ok() && b.is_ok());
    assert!(caught_up.is_so(), "nothing comes from a source that has ended");
}
both!(a_member_is_caught_up_when_the_others_are_too, caught_up_with_the_group);

/// A night that has not come is nothing to wait for; one that has come is.
async fn caught_up_without_topics(broker: &Broker) {
    let (topic, other) = (fresh("absent"), fresh("^absent"));
    let mut config = broker.config(&[&topic, &other]);
    config.start = Start::Earliest;
    let first = source(&fresh("group"), config);
    let caught_up = first.caught_up();
    let (mut alerts, control) = alertstream::stream::open(Box::new(first), Default::default());
    until(|| caught_up.is_so()).await;
    broker.create(&topic, 1, &[]).await;
    broker.fill(&topic, 1, 0..1).await;
    let only = next(&mut alerts).await;
    until(|| caught_up.is_so()).await;
    only.ack();
    control.shutdown(SOON).await.unwrap();
}
both!(
    a_source_whose_topics_are_not_there_is_caught_up,
    caught_up_without_topics
);
