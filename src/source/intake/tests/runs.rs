//! Runs of alerts that are offered and committed together.

use std::collections::VecDeque;
use std::time::Duration;

use super::*;
use crate::record::{KafkaOrigin, TopicPartition};

fn run(seqs: std::ops::Range<u64>, bytes: usize) -> VecDeque<(u64, RawAlert)> {
    seqs.map(|seq| (seq, RawAlert::from_bytes(vec![seq as u8; bytes])))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_is_admitted_as_far_as_bytes_and_span_go_and_the_rest_stays_in_order() {
    let intake = intake_with(StreamConfig {
        max_span: 7,
        ..bytes_max(5_000)
    });
    let epoch = intake.open(LANE);
    let mut alerts = run(0..9, 1_000);
    assert_eq!(intake.offer(epoch, &mut alerts), Offer::Full);
    assert_eq!((alerts.len(), alerts[0].0, intake.budget().available()), (4, 5, 0));
    for seq in 0..5 {
        let delivery = intake.next().unwrap();
        assert_eq!((delivery.position().seq, delivery.get().payload[0]), (seq, seq as u8));
        if seq > 0 {
            delivery.ack(); // the first one keeps the span
        } else {
            std::mem::forget(delivery);
        }
    }
    assert_eq!(intake.budget().used(), 1_000);
    assert_eq!(intake.offer(epoch, &mut alerts), Offer::LaneFull);
    assert_eq!(alerts.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(intake.core.stats().waiting, 2);
    intake.lose(&[LANE]);
    assert_eq!(intake.offer(epoch, &mut alerts), Offer::Gone);
    assert!(alerts.is_empty());
    assert_eq!(
        intake.budget().used(),
        0,
        "what was handed out, waited or was offered has given its bytes back"
    );
}

#[tokio::test(start_paused = true)]
async fn a_released_alert_of_a_run_lets_go_of_the_memory_of_the_others() {
    let intake = intake();
    let epoch = intake.open(LANE);
    let shared = bytes::Bytes::from(vec![7; 2_000]);
    let part = |seq: u64| RawAlert::from_bytes(shared.slice(0..1_000 * (1 + seq as usize)));
    let mut alerts = (0..2).map(|seq| (seq, part(seq))).collect();
    assert_eq!(intake.offer(epoch, &mut alerts), Offer::Taken);
    let released = intake.next().unwrap();
    let first = released.raw().payload.clone();
    assert_eq!(first.as_ptr(), shared.as_ptr());
    released.release();
    intake.next().unwrap().ack();
    tokio::time::advance(Duration::from_secs(2)).await;
    let again = intake.next().unwrap();
    assert_eq!((again.attempt(), &again.get().payload), (2, &first));
    assert_ne!(again.get().payload.as_ptr(), shared.as_ptr());
}

#[tokio::test(start_paused = true)]
async fn lanes_that_are_due_within_a_moment_are_committed_together() {
    let intake = intake();
    intake.open(LANE);
    intake.give(&LANE, 0);
    tokio::time::advance(Duration::from_millis(60)).await;
    let other = Lane::Memory(9);
    intake.open(other.clone());
    intake.give(&other, 0);
    intake.take(2).into_iter().for_each(Delivery::ack);
    assert!(intake.due_commits().is_empty(), "none is due");
    tokio::time::advance(Duration::from_millis(50)).await;
    assert_eq!(intake.due_commits().len(), 2, "one is due, the other 50 ms later");
}

#[tokio::test(start_paused = true)]
async fn lanes_that_change_one_after_the_other_make_ten_commits_a_second_at_most() {
    let intake = intake();
    let lanes: Vec<Lane> = (0..50).map(Lane::Memory).collect();
    for lane in &lanes {
        intake.open(lane.clone());
    }
    tokio::time::advance(Duration::from_millis(100)).await;
    let mut given = Vec::new();
    for lane in &lanes {
        intake.give(lane, 0);
        intake.next().unwrap().ack();
        let commits = intake.due_commits();
        intake.committed(&commits);
        given.push(commits.len());
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    tokio::time::advance(Duration::from_millis(100)).await;
    given.push(intake.due_commits().len());
    assert_eq!(given.iter().sum::<usize>(), 50, "{given:?}");
    assert!(given.iter().filter(|commits| **commits > 0).count() <= 7, "{given:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_and_headers_are_charged_as_a_packet_is() {
    let intake = intake_with(bytes_max(10_000));
    let epoch = intake.open(LANE);
    let from = Arc::new(TopicPartition {
        topic: "t".into(),
        partition: 0,
    });
    let headers = vec![("h".into(), None), ("n".into(), Some(vec![0; 5_000].into()))];
    let origin = KafkaOrigin::new(from, 0).named(Some(vec![0; 1_000].into()), headers);
    let named = RawAlert {
        origin: Some(origin),
        ..RawAlert::default()
    };
    let mut alerts = (0..2).map(|seq| (seq, named.clone())).collect();
    assert_eq!(intake.offer(epoch, &mut alerts), Offer::Full);
    assert_eq!(alerts.len(), 1);
    let used = intake.budget().used();
    assert!((6_002..6_300).contains(&used), "{used}");
    intake.next().unwrap().ack();
    assert_eq!(intake.budget().used(), 0);
}
