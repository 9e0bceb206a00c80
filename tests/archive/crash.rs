//! Consumers and builders that are killed and frozen, servers that crash: after each, every matched alert was
//! delivered, and the group's counts balance.
//!
//! Sizes are small; `ALERTSTREAM_TEST_SCALE` multiplies them.

use std::collections::BTreeMap;
use std::time::Duration;

use alertstream::archive::groups::{GroupState, GroupStatus, Groups, Halt, Standing};
use alertstream::query::Query;
use alertstream::record::SourceId;
use alertstream::source::archive::{ArchiveConfig, ArchiveSource};
use alertstream::stream::{StreamConfig, open};
use futures::StreamExt;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use crate::common::TestDb;
use crate::filled::{fill, scale};
use crate::groups::{Fixture, assert_balanced};
use crate::source::{number, quick};
use crate::worker::{Sink, Told, Worker};

/// Looks again until it is so; the test's own time limit is the runner's.
async fn until<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Fixture {
    async fn balanced(&self) -> GroupStatus {
        let status = self.groups.show("g").await.unwrap();
        assert_balanced(&status);
        status
    }

    async fn is_exhausted(&self) -> bool {
        self.balanced().await.state == GroupState::Exhausted
    }

    fn worker(&self, sink: &Sink, told: &Told) -> Worker {
        Worker::start(self.db.url(), sink.path(), told)
    }
}

fn assert_all_delivered(counts: &BTreeMap<i64, usize>, alerts: i64) {
    let missing: Vec<i64> = (1..=alerts).filter(|n| !counts.contains_key(n)).collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_alert_is_lost_however_consumers_are_killed() {
    let mut random = rand::rngs::StdRng::seed_from_u64(20_180_819);
    for consumers in if scale() > 1 { vec![1, 2, 5, 16, 64] } else { vec![2, 6] } {
        let alerts = 1_500 * scale();
        let f = Fixture::with(alerts).await;
        f.groups.join_or_create("g", Some(&Query::all()), 25).await.unwrap();
        let told = Told {
            pause: Duration::from_millis(2),
            ..Told::default()
        };
        let sink = Sink::new();
        let mut workers: Vec<Worker> = (0..consumers).map(|_| f.worker(&sink, &told)).collect();
        let mut kills = 2 * consumers;
        while !f.is_exhausted().await {
            tokio::time::sleep(Duration::from_millis(random.random_range(50..300))).await;
            let victim = random.random_range(0..workers.len());
            if kills > 0 {
                kills -= 1;
                workers[victim].kill();
            }
            if workers[victim].ended().is_some() {
                workers[victim] = f.worker(&sink, &told);
            }
        }
        let end = f.balanced().await;
        assert_eq!((end.alerts.acknowledged, end.alerts.dead), (alerts, 0));
        assert_all_delivered(&sink.counts(), alerts);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_kills_in_a_row_on_one_block_with_progress_make_no_dead_letter() {
    let f = Fixture::with(600).await;
    f.built("g", &Query::all(), 600).await;
    let told = Told {
        pause: Duration::from_millis(5),
        ..Told::default()
    };
    let sink = Sink::new();
    let mut before = 0;
    for _ in 0..5 {
        let mut worker = f.worker(&sink, &told);
        before = until(async || {
            let settled = f.balanced().await.alerts.acknowledged;
            (settled > before).then_some(settled)
        })
        .await;
        worker.kill();
    }
    assert!(f.worker(&sink, &Told::default()).wait());
    let end = f.balanced().await;
    assert_eq!(
        (end.state, end.alerts.acknowledged, end.alerts.dead),
        (GroupState::Exhausted, 600, 0)
    );
    let counts = sink.counts();
    assert_all_delivered(&counts, 600);
    // A crash repeats at most what was settled since the last progress commit: about a second's worth.
    let repeated: usize = counts.values().map(|count| count - 1).sum();
    assert!(repeated < 5 * 300, "{repeated}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_that_kills_its_consumer_is_the_only_dead_letter() {
    let f = Fixture::with(60).await;
    f.built("g", &Query::all(), 20).await;
    let told = Told {
        dies_of: Some(33),
        ..Told::default()
    };
    let sink = Sink::new();
    let mut deaths = 0;
    while !f.worker(&sink, &told).wait() {
        deaths += 1;
        assert!(deaths < 12, "it goes on killing");
    }
    let end = f.balanced().await;
    assert_eq!(
        (end.state, end.alerts.acknowledged, end.alerts.dead),
        (GroupState::Exhausted, 59, 1)
    );
    let letters: Vec<(String, Vec<u8>)> = sqlx::query_as("SELECT reason, payload FROM dead_letter")
        .fetch_all(&f.pool)
        .await
        .unwrap();
    assert_eq!(letters, [("kills_consumer".to_owned(), b"33".to_vec())]);
    let counts = sink.counts();
    assert_eq!((counts.len(), counts.get(&33)), (59, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_builder_is_continued_and_nothing_is_doubled() {
    let alerts = 100_000 * scale();
    let f = Fixture::with(alerts).await;
    let group = f.groups.join_or_create("g", Some(&Query::all()), 100).await.unwrap();
    let sink = Sink::new();
    let told = Told {
        builds: Some(Duration::from_millis(1)),
        ..Told::default()
    };
    let mut builder = f.worker(&sink, &told);
    until(async || (f.balanced().await.blocks.total > 0).then_some(())).await;
    // Frozen wherever it is, also inside a step: nobody but another builder waits for it.
    builder.signal("STOP");
    let mut session = f.session(&group).await;
    assert!(session.claim(Uuid::new_v4()).await.unwrap().is_some());
    f.groups.pause("g").await.unwrap();
    assert_eq!(f.balanced().await.state, GroupState::Paused);
    f.groups.resume("g").await.unwrap();
    session.leave().await.unwrap();
    assert!(!f.balanced().await.total_final, "the build was not in the middle");
    builder.kill();
    crate::groups::build(&f.groups, &group).await;
    let (blocks, places, distinct): (i64, i64, i64) = sqlx::query_as(
        "SELECT count(*), sum(n)::int8, (SELECT count(DISTINCT i) FROM claim_block, unnest(ids) i) FROM claim_block",
    )
    .fetch_one(&f.pool)
    .await
    .unwrap();
    assert_eq!((blocks, places, distinct), (alerts / 100, alerts, alerts));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_builder_blocks_neither_claims_nor_show_nor_pause_and_a_rewind_for_one_step_only() {
    let f = Fixture::with(40_000).await;
    let group = f.groups.join_or_create("g", Some(&Query::all()), 100).await.unwrap();
    f.groups.build_step(&group).await.unwrap();
    // A builder in mid-step holds this lock, and the server takes it away when the builder does nothing for 10 s.
    let mut frozen = f.db.archive().await.dedicated_connection().await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT FROM group_build FOR UPDATE")
        .execute(&mut frozen)
        .await
        .unwrap();
    let soon = Duration::from_secs(5);
    let mut session = f.session(&group).await;
    let answered = tokio::time::timeout(soon, async {
        assert!(session.claim(Uuid::new_v4()).await.unwrap().is_some());
        assert_balanced(&f.groups.show("g").await.unwrap());
        f.groups.pause("g").await.unwrap();
        assert_eq!(session.standing().await.unwrap(), Standing::Halted(Halt::Paused));
        f.groups.resume("g").await.unwrap();
    });
    answered.await.expect("nothing waits for a frozen builder");
    f.groups.rewind("g").await.unwrap();
    crate::groups::build(&f.groups, &group).await;
    let end = f.balanced().await;
    assert_eq!((end.generation, end.alerts.total), (2, 40_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_claim_makes_nobody_wait() {
    let f = Fixture::with(20).await;
    let group = f.built("g", &Query::all(), 5).await;
    let mut stalled = f.pool.begin().await.unwrap();
    let first: i64 = sqlx::query_scalar(
        "SELECT block_seq FROM claim_block WHERE state = 0 ORDER BY block_seq LIMIT 1 FOR UPDATE SKIP LOCKED",
    )
    .fetch_one(&mut *stalled)
    .await
    .unwrap();
    let mut session = f.session(&group).await;
    let claim = tokio::time::timeout(Duration::from_secs(5), session.claim(Uuid::new_v4()));
    let claim = claim.await.expect("a claim waits for nobody").unwrap().unwrap();
    assert_eq!((first, claim.block_seq), (0, 1));
    stalled.rollback().await.unwrap();
    let mut other = f.session(&group).await;
    assert_eq!(other.claim(Uuid::new_v4()).await.unwrap().unwrap().block_seq, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_consumer_keeps_its_claim_and_a_frozen_one_loses_it() {
    let f = Fixture::with(4).await;
    f.built("g", &Query::all(), 4).await;
    let slow: i64 = sqlx::query_scalar("SELECT alert_id FROM alert ORDER BY jd, id OFFSET 1 LIMIT 1")
        .fetch_one(&f.pool)
        .await
        .unwrap();
    let (one, two) = (Sink::new(), Sink::new());
    // Longer than the lease of 3 s.
    let told = Told {
        long_pause: Some((slow, Duration::from_secs(6))),
        ..Told::default()
    };
    let mut first = f.worker(&one, &told);
    until(async || (f.balanced().await.blocks.claimed == 1).then_some(())).await;
    let mut second = f.worker(&two, &Told::default());
    assert!(first.wait(), "the slow one");
    assert!(second.wait(), "the idle one");
    assert_eq!((one.counts().len(), two.counts().len()), (4, 0));

    f.groups.rewind("g").await.unwrap();
    let (one, two) = (Sink::new(), Sink::new());
    let mut first = f.worker(&one, &told);
    until(async || (f.balanced().await.blocks.claimed == 1).then_some(())).await;
    first.signal("STOP");
    assert!(f.worker(&two, &Told::default()).wait(), "the heir ends the group");
    let done = f.balanced().await;
    assert_eq!(done.alerts.acknowledged, 4);
    first.signal("CONT");
    assert!(
        first.wait(),
        "the frozen one finds its block lost and ends with the group"
    );
    let after = f.balanced().await;
    assert_eq!((done.alerts, done.blocks), (after.alerts, after.blocks));
    assert_all_delivered(&two.counts().into_iter().chain(one.counts()).collect(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_stops_by_sigkill_gives_its_block_to_one_that_waits() {
    let f = Fixture::with(10).await;
    f.built("g", &Query::all(), 10).await;
    let (one, two) = (Sink::new(), Sink::new());
    let told = Told {
        pause: Duration::from_secs(3_600),
        ..Told::default()
    };
    let mut holder = f.worker(&one, &told);
    until(async || (f.balanced().await.blocks.claimed == 1).then_some(())).await;
    let mut heir = f.worker(&two, &Told::default());
    until(async || (f.balanced().await.members.len() == 2).then_some(())).await;
    holder.kill();
    assert!(heir.wait());
    assert_eq!(two.counts().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_under_consumers_loses_nothing() {
    use alertstream::cli::embedded::postgres::PrivatePostgres;
    let server = PrivatePostgres::start().await.expect("a Postgres to crash");
    let db = TestDb::on(server.url()).await;
    let archive = db.archive().await;
    archive.migrate().await.unwrap();
    let alerts = 3_000;
    fill(archive.pool(), alerts).await;
    let groups = Groups::new(&archive);
    let group = groups.join_or_create("g", Some(&Query::all()), 50).await.unwrap();
    let mut running = Vec::new();
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    for _ in 0..2 {
        let source = ArchiveSource::new(SourceId::new("archive"), db.archive().await, group.clone(), quick());
        let (mut stream, control) = open(Box::new(source), StreamConfig::default());
        let seen = seen.clone();
        running.push(tokio::spawn(async move {
            while let Some(delivery) = stream.next().await {
                let delivery = delivery.expect("no failure");
                tokio::time::sleep(Duration::from_millis(2)).await;
                seen.lock().push(number(&delivery));
                delivery.ack();
            }
            control.shutdown(Duration::from_secs(10)).await
        }));
    }
    for crash in 1..=3 {
        until(async || (seen.lock().len() > crash * 500).then_some(())).await;
        server.stop_immediate().await.unwrap();
        server.restart().await.unwrap();
    }
    for consumer in running {
        consumer.await.unwrap().expect("a clean end");
    }
    let counts = seen.lock().iter().fold(BTreeMap::new(), |mut counts, n| {
        *counts.entry(*n).or_default() += 1;
        counts
    });
    assert_all_delivered(&counts, alerts);
    let end = groups.show("g").await.unwrap();
    assert_balanced(&end);
    assert_eq!((end.state, end.alerts.acknowledged), (GroupState::Exhausted, alerts));
    drop(db);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_alone_recover_a_dead_consumer_too() {
    let f = Fixture::with(10).await;
    let group = f.built("g", &Query::all(), 5).await;
    let cfg = ArchiveConfig {
        liveness: alertstream::archive::groups::Liveness::LeasesOnly,
        ..quick()
    };
    let mut dead = f.consumer(&group, cfg).await;
    dead.alerts.next().await.unwrap().unwrap().ack();
    dead.control.abort().await;
    drop(dead.alerts);
    let mut heir = f.consumer(&group, cfg).await;
    let mut count = 0;
    while let Some(delivery) = heir.alerts.next().await {
        delivery.unwrap().ack();
        count += 1;
    }
    assert!(count >= 9);
    heir.control.shutdown(Duration::from_secs(10)).await.unwrap();
    assert!(f.is_exhausted().await);
}
