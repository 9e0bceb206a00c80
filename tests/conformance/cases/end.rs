//! How a stream ends, and what it says of itself.

use std::time::Duration;

use alertstream::stream::StreamStats;

use crate::backend::{Backend, Spec};
use crate::consumer::{Consumer, sorted};

pub(super) async fn drains(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(10, 1)).await;
    let mut first = Consumer::join(&*topic).await;
    let mut seen = first.ack(3).await;
    let open = first.take(2).await;
    seen.extend(open.iter().map(|delivery| delivery.raw().payload.clone()));
    let Consumer {
        control, mut alerts, ..
    } = first;
    // The open deliveries settle while the shutdown waits for them.
    let settle = async {
        let end = futures::StreamExt::next(&mut alerts).await;
        assert!(end.is_none(), "nothing is handed out any more");
        open.into_iter().for_each(|delivery| delivery.ack());
    };
    let (stats, ()) = tokio::join!(control.shutdown(topic.patience()), settle);
    let stats = stats.expect("confirmed");
    assert_eq!((stats.delivered, stats.acked, stats.open), (5, 5, 0));
    let mut second = Consumer::join(&*topic).await;
    let rest = second.rest().await;
    assert_eq!(rest.len(), 5, "exactly what was not handed out before");
    seen.extend(rest);
    assert_eq!(sorted(seen), sorted(topic.payloads()));
    second.shutdown().await;
}

pub(super) async fn deadline(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(6, 1)).await;
    let mut first = Consumer::join(&*topic).await;
    first.ack(2).await;
    let stuck = first.next().await;
    let payload = stuck.raw().payload.clone();
    let stats = first
        .control
        .shutdown(Duration::from_millis(300))
        .await
        .expect("the rest is confirmed");
    assert_eq!((stats.delivered, stats.acked, stats.released, stats.open), (3, 2, 1, 0));
    stuck.ack(); // changes nothing any more
    let mut second = Consumer::join(&*topic).await;
    let rest = second.rest().await;
    assert_eq!(rest.len(), 4);
    assert!(rest.contains(&payload), "what did not settle in time comes again");
    second.shutdown().await;
}

pub(super) async fn stats_balance(backend: &dyn Backend) {
    // Two lanes: a consumer of the archive holds no third block before it has settled all of one.
    let topic = backend.topic(Spec::of(30, 2)).await;
    let mut consumer = Consumer::join(&*topic).await;
    let mut held = Vec::new();
    for n in 0..30 {
        let delivery = consumer.next().await;
        match n % 5 {
            0 => delivery.reject("no good"),
            1 if delivery.attempt() == 1 => delivery.release(),
            2 => held.push(delivery),
            _ => delivery.ack(),
        }
        assert_balance(consumer.control.stats());
    }
    assert!(consumer.control.stats().open > 0);
    for delivery in held {
        delivery.ack();
    }
    let rest = consumer.rest().await;
    let stats = consumer.shutdown().await;
    assert_balance(stats);
    assert_eq!((stats.open, stats.waiting, stats.late), (0, 0, 0));
    assert_eq!(stats.delivered, 30 + rest.len() as u64);
    assert_eq!(stats.acked + stats.rejected, 30, "every alert was settled once");
    assert_eq!(stats.released, stats.redelivered);
    assert_eq!(topic.dead_letters().await.len() as u64, stats.rejected);
}

fn assert_balance(stats: StreamStats) {
    assert_eq!(
        stats.delivered,
        stats.acked + stats.released + stats.rejected + stats.open,
        "{stats:?}"
    );
}
