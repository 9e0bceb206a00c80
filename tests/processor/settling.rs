//! A handler's result decides; silence is a release.

use alertstream::processor::{AlertProcessor, PoolError};
use futures::FutureExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_result_settles_the_alert() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..4);
    ledger.put(&queue, "b", 4..5);
    let handler = Does(|n, tries| {
        async move {
            match n {
                0 => Ok(()),
                1 => Err(HandleError::reject("not mine")),
                2 if tries < 3 => Err(HandleError::retry("not yet")),
                3 => Err(std::io::Error::other("never"))?, // `?` means retry
                _ => Ok(()),
            }
        }
        .boxed()
    });
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    idle(&queue).await;
    assert_eq!(
        ledger.all(0..5),
        ["ack", "rejected after 1", "ack", "handler after 3", "ack"]
    );
    assert_eq!(
        (ledger.message(1), ledger.message(3)),
        ("not mine".into(), "never".into())
    );
    let stats = pool.shutdown(ms(100)).await.unwrap();
    let a = stats.sources[&SourceId::new("a")];
    assert_eq!(
        (a.delivered, a.acknowledged, a.rejected, a.released, a.open()),
        (4, 2, 2, 0, 0)
    );
    assert_eq!((a.tries, a.redelivered, stats.total.delivered), (8, 2, 5));
}

#[tokio::test(start_paused = true)]
async fn an_alert_of_a_lost_lane_reaches_no_handler() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", [0, LOST, LOST + 1, 1]);
    let handler = Does(|n, _| {
        assert!(n < LOST, "the others have it");
        async { Ok(()) }.boxed()
    });
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    idle(&queue).await;
    assert_eq!(ledger.all([0, LOST, LOST + 1, 1]), ["ack", "release", "release", "ack"]);
    let stats = pool.shutdown(ms(100)).await.unwrap();
    assert_eq!((stats.total.delivered, stats.total.acknowledged), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_time_out_are_failed_tries() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..4);
    let handler = Does(|n, tries| {
        if n == 0 {
            panic!("before the first await");
        }
        async move {
            match n {
                1 => panic!("number {n}"),
                2 => std::future::pending().await,
                _ if tries == 1 => panic!("once"),
                _ => Ok(()),
            }
        }
        .boxed()
    });
    let config = ProcessorConfig {
        time_limit: Some(ms(500)),
        ..config()
    };
    let pool = AlertProcessor::new(handler, &config).start(queue.clone());
    idle(&queue).await;
    assert_eq!(
        ledger.all(0..4),
        ["panic after 3", "panic after 3", "timeout after 3", "ack"]
    );
    assert_eq!(ledger.message(1), "the handler panicked: number 1");
    assert_eq!(ledger.message(2), "the handler took longer than `500ms`");
    let stats = pool.shutdown(ms(100)).await.unwrap();
    assert_eq!((stats.total.rejected, stats.total.open()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_stops_the_pool_and_surfaces() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", 0..9);
    let handler = Does(|n, _| {
        async move {
            if n == 1 {
                Err(HandleError::fatal("the disk is gone"))
            } else {
                Ok(())
            }
        }
        .boxed()
    });
    let pool = AlertProcessor::new(handler, &config()).start(queue.clone());
    pool.failed().await;
    let Err(PoolError::Fatal { cause, stats }) = pool.shutdown(ms(100)).await else {
        panic!("it failed")
    };
    assert_eq!(cause.to_string(), "the disk is gone");
    assert_eq!(
        (stats.total.acknowledged, stats.total.released, stats.total.open()),
        (1, 1, 0)
    );
    assert_eq!(ledger.of(0), "ack");
    assert!(ledger.all(1..9).iter().all(|settled| settled == "release"));
}
