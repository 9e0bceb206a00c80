//! Fairness and back-pressure from the source to the handler.

use alertstream::pipeline::{Input, Limits, Pipeline};
use alertstream::processor::{AlertProcessor, QueueConfig};
use alertstream::source::memory::MemorySource;
use alertstream::stream::{ByteBudget, StreamConfig, StreamControl, open};
use futures::{FutureExt, StreamExt};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;

/// Issue 5, "in the product": what a trickle waits beside a flood, and what that costs the flood. Here on the paused
/// clock; the example measures it in real time.
#[tokio::test(start_paused = true)]
async fn a_flood_delays_a_trickle_by_one_handler_time_at_most() {
    let (alone, _) = fair_sources::race(4_000, 0, 10).await;
    let (beside, waits) = fair_sources::race(4_000, 10, 10).await;
    assert!(
        (1_990..=2_004).contains(&alone),
        "four workers, 20 ms, ten seconds: {alone}"
    );
    // The last arrives as the race ends.
    assert!(waits.len() >= 99, "{}", waits.len());
    assert!(*waits.last().unwrap() <= fair_sources::HANDLER_TIME, "{waits:?}");
    assert!(beside * 10 >= alone * 9, "{beside} of {alone}");
}

/// A queue's gauges that change with time alone are set while a pipeline runs, whatever the handlers do.
#[tokio::test(start_paused = true)]
async fn a_pipeline_tells_how_old_the_oldest_alert_is() {
    let seen = recorder::Seen::default();
    let stuck = Does(|_, _| {
        async {
            sleep(Duration::from_secs(3600)).await;
            Ok(())
        }
        .boxed()
    });
    let _recording = metrics::set_default_local_recorder(&seen);
    let processor = AlertProcessor::new(stuck, &config());
    let pipeline = Pipeline::start(processor, &QueueConfig::default(), Decoder::bundled());
    let input = Input {
        source: Box::new(MemorySource::of("night", fixtures::ztf_packets(3))),
        stream: StreamConfig::default(),
        at_rest: None,
    };
    let (stop, observer) = (CancellationToken::new(), pipeline.observer());
    let limits = Limits {
        drain_within: Duration::ZERO,
        ..Limits::default()
    };
    let watch = async {
        sleep(Duration::from_secs(61)).await;
        let age = seen.read("fair_queue_oldest_age_seconds", "alerts", "night");
        assert!((55.0..=61.0).contains(&age), "{age}");
        assert_eq!(
            (
                observer.stats().total.open(),
                seen.read("fair_queue_queued", "alerts", "night")
            ),
            (1, 2.0)
        );
        stop.cancel();
    };
    tokio::join!(pipeline.run(vec![input], &limits, stop.clone()), watch);
    assert_eq!(seen.sum("fair_queue_queued") + seen.sum("fair_queue_in_progress"), 0.0);
}

/// Streams a source of alerts into the queue, with a byte budget that holds `holds` of them.
fn stream(queue: &Queue, name: &str, alerts: u64, holds: usize) -> StreamControl {
    let packets = fixtures::ztf_packets(alerts);
    let bytes = packets.iter().map(Vec::len).max().unwrap();
    let config = StreamConfig {
        budget: ByteBudget::new(bytes * holds),
        ..StreamConfig::default()
    };
    let (mut stream, control) = open(Box::new(MemorySource::of(name, packets)), config);
    let (queue, decoder) = (queue.clone(), Decoder::bundled());
    tokio::spawn(async move {
        while let Some(Ok(delivery)) = stream.next().await {
            let Ok(delivery) = delivery.try_map(|raw| decoder.decode(&raw.payload)) else {
                panic!("a packet")
            };
            let key = delivery.source().as_str().into();
            queue.put(key, delivery.into()).await.unwrap();
        }
    });
    control
}

#[tokio::test(start_paused = true)]
async fn a_full_source_stands_still_alone() {
    let queue = Queue::new();
    queue.pause(&"stuck".into());
    let (stuck, free) = (stream(&queue, "stuck", 100, 10), stream(&queue, "free", 100, 10));
    let handler = Does(|_, _| async { Ok(()) }.boxed());
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    sleep(Duration::from_secs(5)).await;
    assert_eq!((stuck.stats().delivered, stuck.stats().open), (10, 10));
    assert_eq!(free.stats().acked, 100);
    queue.resume(&"stuck".into());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(stuck.stats().acked, 100);
    assert_eq!(pool.shutdown(ms(100)).await.unwrap().total.acknowledged, 200);
}

/// Takes 50 ms; fails twice for each alert of `failing`, which then waits a minute.
struct FailsTwice;

impl Handler for FailsTwice {
    async fn handle(&self, _alert: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
        sleep(ms(50)).await;
        if cx.source.as_str() == "failing" && cx.try_number < 3 {
            return Err(HandleError::retry_after(Duration::from_secs(60), "later"));
        }
        Ok(())
    }
}

/// Parts of one budget, as `run` shares it out: what is read and not settled never adds up to more, whatever fails.
#[tokio::test(start_paused = true)]
async fn what_is_held_never_adds_up_to_more_than_the_budget() {
    let queue = Queue::new();
    let (failing, free) = (stream(&queue, "failing", 60, 10), stream(&queue, "free", 300, 10));
    let pool = AlertProcessor::new(FailsTwice, &ProcessorConfig { workers: 3, ..config() }).start(queue.clone());
    let (mut most, mut full_beside_others) = ((0, 0), 0);
    while failing.stats().acked + free.stats().acked < 360 {
        let before = free.stats().acked;
        sleep(ms(60)).await;
        let (a, b) = (failing.stats(), free.stats());
        most = (most.0.max(a.open), most.1.max(b.open));
        full_beside_others += u64::from(a.open == 10 && b.acked > before);
    }
    assert_eq!(most, (10, 10), "each fills its part and no more");
    assert!(full_beside_others > 20, "{full_beside_others}");
    pool.shutdown(ms(100)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_budget_covers_the_queue_and_the_retries() {
    let queue = Queue::new();
    let failing = stream(&queue, "failing", 100, 10);
    let handler = Does(|_, tries| {
        let wait = HandleError::retry_after(Duration::from_secs(60), "later");
        async move { if tries == 1 { Err(wait) } else { Ok(()) } }.boxed()
    });
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    sleep(Duration::from_secs(30)).await;
    assert_eq!(
        (queue.deferred_size(), failing.stats().delivered),
        (10, 10),
        "nothing more is read meanwhile"
    );
    sleep(Duration::from_secs(60 * 10 + 30)).await;
    assert_eq!(failing.stats().acked, 100);
    pool.shutdown(ms(100)).await.unwrap();
}
