//! The archive source through a stream: sharing, giving back, missing alerts, pause, lost blocks, lost connections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alertstream::archive::groups::{Group, GroupState, GroupStatus};
use alertstream::delivery::Delivery;
use alertstream::query::Query;
use alertstream::record::{RawAlert, SourceId};
use alertstream::source::SourceError;
use alertstream::source::archive::{ArchiveConfig, ArchiveSource};
use alertstream::stream::{AlertStream, StreamConfig, StreamControl, StreamStats, open};
use futures::StreamExt;

use crate::groups::{Fixture, assert_balanced, build};

const DRAIN: Duration = Duration::from_secs(10);

/// Times that a test can wait for.
pub(crate) fn quick() -> ArchiveConfig {
    ArchiveConfig {
        lease: Duration::from_secs(3),
        heartbeat: Duration::from_millis(500),
        rescue: Duration::from_millis(300),
        ..ArchiveConfig::default()
    }
}

pub(crate) struct Consumer {
    pub(crate) alerts: AlertStream,
    pub(crate) control: StreamControl,
}

impl Fixture {
    pub(crate) async fn consumer(&self, group: &Group, cfg: ArchiveConfig) -> Consumer {
        let archive = self.db.archive().await;
        let source = ArchiveSource::new(SourceId::new("archive"), archive, group.clone(), cfg);
        let (alerts, control) = open(Box::new(source), StreamConfig::default());
        Consumer { alerts, control }
    }

    async fn show(&self) -> GroupStatus {
        let status = self.groups.show("g").await.unwrap();
        assert_balanced(&status);
        status
    }
}

pub(crate) fn number(delivery: &Delivery<RawAlert>) -> i64 {
    std::str::from_utf8(&delivery.get().payload).unwrap().parse().unwrap()
}

impl Consumer {
    async fn next(&mut self) -> Delivery<RawAlert> {
        tokio::time::timeout(Duration::from_secs(20), self.alerts.next())
            .await
            .expect("an alert in time")
            .expect("an alert")
            .expect("no failure")
    }

    /// Acknowledges everything to the end of the stream; gives the alerts' numbers.
    async fn drain(&mut self) -> Vec<i64> {
        let mut all = Vec::new();
        while let Some(delivery) = self.alerts.next().await {
            let delivery = delivery.unwrap();
            all.push(number(&delivery));
            delivery.ack();
        }
        all
    }

    async fn shutdown(self) -> Result<StreamStats, SourceError> {
        drop(self.alerts);
        self.control.shutdown(DRAIN).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_consumer_flushed_the_next_does_not_get() {
    for taken in [5, 4] {
        let f = Fixture::with(10).await;
        let group = f.built("g", &Query::all(), 2).await;
        let mut one = f.consumer(&group, quick()).await;
        let mut first = Vec::new();
        let mut unsettled = None;
        for place in 0..5 {
            let delivery = one.next().await;
            first.push(number(&delivery));
            if place < taken {
                delivery.ack();
            } else {
                unsettled = Some(delivery);
            }
        }
        one.control.flush(DRAIN).await.unwrap();
        drop(unsettled);
        one.shutdown().await.unwrap();
        let mut two = f.consumer(&group, quick()).await;
        let rest = two.drain().await;
        two.shutdown().await.unwrap();
        assert_eq!(rest.len(), 10 - taken);
        let both: BTreeSet<i64> = first.iter().chain(&rest).copied().collect();
        assert_eq!(both.len(), 10);
        let end = f.show().await;
        assert_eq!((end.state, end.alerts.acknowledged), (GroupState::Exhausted, 10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_consumer_replays_in_exact_order_while_it_builds() {
    let f = Fixture::with(30_000).await;
    let group = f.groups.join_or_create("g", Some(&Query::all()), 500).await.unwrap();
    let mut one = f.consumer(&group, ArchiveConfig::default()).await;
    let got = one.drain().await;
    let stats = one.shutdown().await.unwrap();
    assert_eq!((stats.delivered, stats.acked, stats.open), (30_000, 30_000, 0));
    let order: Vec<i64> = sqlx::query_scalar("SELECT alert_id FROM alert ORDER BY jd, id")
        .fetch_all(&f.pool)
        .await
        .unwrap();
    assert!(got == order);
    assert_eq!(f.show().await.blocks.done, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_consumers_share_without_overlap() {
    let f = Fixture::with(6_000).await;
    let group = f.built("g", &Query::all(), 50).await;
    let mut running = Vec::new();
    for _ in 0..5 {
        let mut consumer = f.consumer(&group, ArchiveConfig::default()).await;
        running.push(tokio::spawn(async move {
            let got = consumer.drain().await;
            consumer.shutdown().await.unwrap();
            got
        }));
    }
    let mut all = Vec::new();
    for consumer in running {
        all.extend(consumer.await.unwrap());
    }
    all.sort_unstable();
    assert!(all == (1..=6_000).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_deleted_under_a_group_are_counted_as_missing_and_their_block_ends() {
    let f = Fixture::with(10).await;
    let group = f.built("g", &Query::all(), 4).await;
    sqlx::query("DELETE FROM alert WHERE alert_id IN (1, 2, 3, 4, 7)")
        .execute(&f.pool)
        .await
        .unwrap();
    let mut one = f.consumer(&group, quick()).await;
    let mut got = one.drain().await;
    one.shutdown().await.unwrap();
    got.sort_unstable();
    assert_eq!(got, [5, 6, 8, 9, 10]);
    let end = f.show().await;
    assert_eq!(
        (end.state, end.alerts.acknowledged, end.alerts.missing),
        (GroupState::Exhausted, 5, 5)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_alert_is_a_dead_letter_once_and_released_ones_come_again() {
    let f = Fixture::with(6).await;
    let group = f.built("g", &Query::all(), 3).await;
    let mut one = f.consumer(&group, quick()).await;
    let mut attempts = Vec::new();
    while let Some(delivery) = one.alerts.next().await {
        let delivery = delivery.unwrap();
        match (number(&delivery), delivery.meta().attempt) {
            (2, _) => delivery.reject("no good"),
            (5, 1) => delivery.release(),
            (n, attempt) => {
                attempts.push((n, attempt));
                delivery.ack();
            }
        }
    }
    one.shutdown().await.unwrap();
    assert!(attempts.contains(&(5, 2)) && attempts.len() == 5, "{attempts:?}");
    let end = f.show().await;
    assert_eq!((end.alerts.dead, end.alerts.acknowledged), (1, 5));
    let letters: Vec<(String, String)> = sqlx::query_as("SELECT position, reason FROM dead_letter")
        .fetch_all(&f.pool)
        .await
        .unwrap();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].0.starts_with("archive:g/"), "{letters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_group_waits_and_goes_on_when_resumed() {
    let f = Fixture::with(6).await;
    let group = f.built("g", &Query::all(), 3).await;
    f.groups.pause("g").await.unwrap();
    let mut one = f.consumer(&group, quick()).await;
    // It has joined, and nothing comes.
    while f.groups.show("g").await.unwrap().members.is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(futures::poll!(one.alerts.next()).is_pending());
    f.groups.resume("g").await.unwrap();
    assert_eq!(one.drain().await.len(), 6);
    one.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_group_ends_its_consumers_with_the_reason() {
    let f = Fixture::with(6).await;
    let group = f.built("g", &Query::all(), 3).await;
    let mut one = f.consumer(&group, quick()).await;
    let first = one.next().await;
    f.groups.delete("g").await.unwrap();
    first.ack();
    let error = loop {
        match one.alerts.next().await {
            Some(Ok(delivery)) => delivery.ack(),
            Some(Err(error)) => break error,
            None => panic!("no reason was given"),
        }
    };
    assert!(error.to_string().contains("group `g` was deleted"), "{error}");
    one.shutdown().await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_under_a_consumer_gives_everything_again() {
    let f = Fixture::with(8).await;
    let group = f.built("g", &Query::all(), 4).await;
    let mut one = f.consumer(&group, quick()).await;
    one.next().await.ack();
    let held = one.next().await;
    f.groups.rewind("g").await.unwrap();
    held.ack();
    let mut got: Vec<i64> = one.drain().await;
    one.shutdown().await.unwrap();
    got.sort_unstable();
    got.dedup();
    assert_eq!(got, (1..=8).collect::<Vec<i64>>());
    let end = f.show().await;
    assert_eq!((end.generation, end.alerts.acknowledged), (2, 8));
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_connections_are_replaced_without_losing_blocks() {
    let f = Fixture::with(400).await;
    let group = f.groups.join_or_create("g", Some(&Query::all()), 20).await.unwrap();
    let mut one = f.consumer(&group, quick()).await;
    let mut all = Vec::new();
    while let Some(delivery) = one.alerts.next().await {
        let delivery = delivery.unwrap();
        all.push(number(&delivery));
        if all.len() % 40 == 0 {
            sqlx::query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'alertstream g%' AND datname = current_database()",
            )
            .execute(&f.pool)
            .await
            .unwrap();
        }
        delivery.ack();
    }
    one.shutdown().await.unwrap();
    let delivered = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((delivered, all.len()), (400, 400));
    assert_eq!(f.show().await.alerts.acknowledged, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_groups_at_once_do_not_touch_each_other() {
    let f = Fixture::with(300).await;
    let g = f.groups.join_or_create("g", Some(&Query::all()), 10).await.unwrap();
    let h = f.groups.join_or_create("h", Some(&Query::all()), 7).await.unwrap();
    build(&f.groups, &h).await;
    let (mut one, mut two) = (f.consumer(&g, quick()).await, f.consumer(&h, quick()).await);
    let (a, b) = tokio::join!(one.drain(), two.drain());
    assert_eq!((a.len(), b.len()), (300, 300));
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
    f.show().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_careful_block_waits_until_no_other_alert_is_with_a_handler() {
    let f = Fixture::with(6).await;
    let g = f.built("g", &Query::all(), 3).await;
    let h = f.built("h", &Query::all(), 6).await;
    sqlx::query("UPDATE claim_block SET barren = 3 WHERE group_id = $1")
        .bind(h.id)
        .execute(&f.pool)
        .await
        .unwrap();
    let mut ordinary = f.consumer(&g, quick()).await;
    let out = ordinary.next().await;
    let settled = Arc::new(AtomicBool::new(false));
    let mut careful = f.consumer(&h, quick()).await;
    let seen = settled.clone();
    let alone = tokio::spawn(async move {
        let first = careful.next().await;
        assert!(
            seen.load(Ordering::SeqCst),
            "another alert of the archive was with a handler"
        );
        // One at a time, and each noted before it is given.
        assert_eq!(careful.control.stats().open, 1);
        first.ack();
        let rest = careful.drain().await;
        careful.shutdown().await.unwrap();
        rest.len()
    });
    while f.groups.show("h").await.unwrap().blocks.claimed == 0 {
        tokio::task::yield_now().await;
    }
    settled.store(true, Ordering::SeqCst);
    out.ack();
    assert_eq!(ordinary.drain().await.len(), 5);
    ordinary.shutdown().await.unwrap();
    assert_eq!(alone.await.unwrap(), 5);
    assert_eq!(f.groups.show("h").await.unwrap().state, GroupState::Exhausted);
}
