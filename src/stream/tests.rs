//! The stream and its control: quotas, ends, failures, on a paused clock.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::*;
use crate::error::ErrorClass;
use crate::record::{Lane, Position};
use crate::source::intake::Intake;
use crate::source::memory::{MemorySource, MemoryTopic};

/// A source that is one async function.
struct Scripted<F>(SourceId, F);

impl<F, R> Source for Scripted<F>
where
    F: FnOnce(Intake) -> R + Send + 'static,
    R: Future<Output = Result<(), SourceError>> + Send + 'static,
{
    fn id(&self) -> &SourceId {
        &self.0
    }

    fn run(self: Box<Self>, intake: Intake) -> BoxFuture<'static, Result<(), SourceError>> {
        (self.1)(intake).boxed()
    }
}

fn scripted<F, R>(script: F) -> Box<dyn Source>
where
    F: FnOnce(Intake) -> R + Send + 'static,
    R: Future<Output = Result<(), SourceError>> + Send + 'static,
{
    Box::new(Scripted(SourceId::new("scripted"), script))
}

async fn give(intake: &Intake, seqs: std::ops::Range<u64>) {
    for seq in seqs {
        let Some(permit) = intake.reserve(&Lane::Memory(0), 10).await else {
            return;
        };
        intake.deliver(
            permit,
            Position {
                lane: Lane::Memory(0),
                seq,
            },
            RawAlert::from_bytes("0123456789"),
        );
    }
}

fn failure() -> SourceError {
    let cause = "the backend is away".into();
    SourceError::Backend {
        source_id: SourceId::new("scripted"),
        class: ErrorClass::Transient,
        cause,
    }
}

fn payloads(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("alert {n}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_exact_over_all_sources_and_ends_them_cleanly() {
    let quota = DeliveryQuota::new(25);
    let mut streams = Vec::new();
    let mut controls = Vec::new();
    for name in ["a", "b", "c"] {
        let cfg = StreamConfig {
            quota: Some(quota.clone()),
            ..StreamConfig::default()
        };
        let (alerts, control) = open(Box::new(MemorySource::of(name, payloads(20))), cfg);
        streams.push(alerts);
        controls.push(control);
    }
    let mut all = futures::stream::select_all(streams);
    let mut delivered = 0;
    while let Some(delivery) = all.next().await {
        delivery.unwrap().ack();
        delivered += 1;
    }
    assert_eq!((delivered, quota.left()), (25, 0));
    let mut acked = 0;
    for control in controls {
        acked += control.shutdown(Duration::from_secs(1)).await.unwrap().acked;
    }
    assert_eq!(acked, 25);
}

#[tokio::test(start_paused = true)]
async fn redeliveries_take_from_the_quota() {
    let cfg = StreamConfig {
        quota: Some(DeliveryQuota::new(3)),
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(Box::new(MemorySource::of("a", payloads(1))), cfg);
    for attempt in 1..=3 {
        let delivery = alerts.next().await.unwrap().unwrap();
        assert_eq!(delivery.attempt(), attempt);
        delivery.release();
    }
    assert!(alerts.next().await.is_none());
    let stats = control.shutdown(Duration::from_secs(1)).await.unwrap();
    assert_eq!((stats.delivered, stats.released), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_wakes_streams_that_wait() {
    let quota = DeliveryQuota::new(1);
    let cfg = || StreamConfig {
        quota: Some(quota.clone()),
        ..StreamConfig::default()
    };
    let (mut idle, _control) = open(Box::new(MemorySource::new("idle", &MemoryTopic::new(1), "g")), cfg());
    let waiting = tokio::spawn(async move { idle.next().await.is_none() });
    let (mut busy, _control_too) = open(Box::new(MemorySource::of("busy", payloads(5))), cfg());
    busy.next().await.unwrap().unwrap().ack();
    assert!(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_control_alone_closes_nothing() {
    let (alerts, control) = open(Box::new(MemorySource::of("a", payloads(3))), StreamConfig::default());
    drop(control);
    let acked = alerts.map(|delivery| delivery.unwrap().ack()).count().await;
    assert_eq!(acked, 3);
}

/// Sets its flag when the source's future is gone.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_both_ends_leaves_no_task_for_ever() {
    let flag = Arc::new(AtomicBool::new(false));
    let gone = Gone(flag.clone());
    let source = scripted(move |intake| async move {
        let _gone = gone;
        intake.open(Lane::Memory(0));
        give(&intake, 0..1).await;
        std::future::pending().await // it ignores that the stream closes
    });
    let cfg = StreamConfig {
        drain_within: Duration::from_secs(7),
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(source, cfg);
    let held = alerts.next().await.unwrap().unwrap();
    drop((alerts, control));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!flag.load(Ordering::SeqCst), "the open delivery still has its time");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(flag.load(Ordering::SeqCst));
    held.ack();
}

#[tokio::test(start_paused = true)]
async fn a_failing_source_is_the_last_item_and_reported_once() {
    let source = scripted(|intake| async move {
        intake.open(Lane::Memory(0));
        give(&intake, 0..1).await;
        intake.settled(&Lane::Memory(0)).await;
        Err(failure())
    });
    let (mut alerts, control) = open(source, StreamConfig::default());
    alerts.next().await.unwrap().unwrap().ack();
    let error = alerts.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("the backend is away"));
    assert!(alerts.next().await.is_none());
    assert!(control.shutdown(Duration::ZERO).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_failure_while_closing_is_for_the_shutdown() {
    let source = scripted(|intake| async move {
        intake.closing().await;
        let source_id = SourceId::new("scripted");
        Err(SourceError::Unconfirmed {
            source_id,
            cause: "the broker is gone".into(),
        })
    });
    let (mut alerts, control) = open(source, StreamConfig::default());
    control.close();
    assert!(alerts.next().await.is_none());
    let error = control.shutdown(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, SourceError::Unconfirmed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_source_is_its_error() {
    let source = scripted(|_| async move { std::panic::panic_any("a bug") });
    let (mut alerts, _control) = open(source, StreamConfig::default());
    assert!(alerts.next().await.unwrap().unwrap_err().to_string().contains("a bug"));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_end_is_cut_off_in_bounded_time() {
    let (alerts, control) = open(scripted(|_| std::future::pending()), StreamConfig::default());
    let start = Instant::now();
    drop(alerts);
    let error = control.shutdown(Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(error, SourceError::Unconfirmed { .. }), "{error}");
    assert!(start.elapsed() <= Duration::from_secs(2 + 10 + 5 + 1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_nobody_confirms_ends_in_bounded_time_however_long_deliveries_may_settle() {
    let source = scripted(|intake| async move {
        intake.open(Lane::Memory(0));
        give(&intake, 0..1).await;
        while intake.commits().await.is_some() {}
        Ok(())
    });
    let (mut alerts, control) = open(source, StreamConfig::default());
    alerts.next().await.unwrap().unwrap().ack();
    let start = Instant::now();
    drop(alerts);
    let error = control.shutdown(Duration::from_secs(86_400)).await.unwrap_err();
    assert!(matches!(error, SourceError::Unconfirmed { .. }), "{error}");
    assert!(start.elapsed() <= Duration::from_secs(10 + 5 + 2));
}

#[tokio::test(start_paused = true)]
async fn a_full_budget_without_settlements_is_a_stall() {
    let source = scripted(|intake| async move {
        intake.open(Lane::Memory(0));
        give(&intake, 0..100).await;
        while let Some(batch) = intake.commits().await {
            intake.committed(&batch);
        }
        Ok(())
    });
    let stall_after = Some(Duration::from_secs(30));
    let cfg = StreamConfig {
        budget: ByteBudget::new(1024),
        stall_after,
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(source, cfg);
    let start = Instant::now();
    let first = alerts.next().await.unwrap().unwrap();
    alerts.next().await.unwrap().unwrap().ack();
    // A third fits now; nobody settles from here on.
    let third = alerts.next().await.unwrap().unwrap();
    let error = alerts.next().await.unwrap().unwrap_err();
    assert!(
        matches!(&error, SourceError::Stalled { position, .. } if position.seq == 0),
        "{error}"
    );
    assert!((30..33).contains(&start.elapsed().as_secs()));
    first.ack();
    third.ack();
    control.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_abort_commits_nothing() {
    let topic = MemoryTopic::new(1);
    topic.push(0, RawAlert::from_bytes("x"));
    let (mut alerts, control) = open(Box::new(MemorySource::new("a", &topic, "g")), StreamConfig::default());
    alerts.next().await.unwrap().unwrap().ack();
    control.abort().await;
    assert_eq!((topic.committed("g"), topic.members("g")), (vec![0], 0));
    assert!(alerts.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_cannot_be_confirmed_times_out() {
    let source = scripted(|intake| async move {
        intake.open(Lane::Memory(0));
        give(&intake, 0..1).await;
        intake.closing().await;
        Ok(())
    });
    let (mut alerts, control) = open(source, StreamConfig::default());
    alerts.next().await.unwrap().unwrap().ack();
    let error = control.flush(Duration::from_secs(3)).await.unwrap_err();
    assert!(matches!(error, FlushError::TimedOut { .. }));
}

#[tokio::test(start_paused = true)]
async fn lag_is_what_the_source_says_and_goes_with_its_lane() {
    let source = scripted(|intake| async move {
        intake.open(Lane::Memory(0));
        intake.open(Lane::Memory(1));
        intake.set_lag(&Lane::Memory(0), 7);
        intake.set_lag(&Lane::Memory(1), 5);
        give(&intake, 0..1).await;
        intake.settled(&Lane::Memory(0)).await;
        intake.lose(&[Lane::Memory(1)]);
        give(&intake, 1..2).await;
        intake.closing().await;
        Ok(())
    });
    let (mut alerts, control) = open(source, StreamConfig::default());
    let first = alerts.next().await.unwrap().unwrap();
    assert_eq!(control.lag().total(), Some(12));
    first.ack();
    let _second = alerts.next().await.unwrap().unwrap();
    assert_eq!(control.lag().total(), Some(7));
}
