//! What is bounded and in which order it comes: bytes, spans, sizes.

use std::collections::HashMap;
use std::time::Duration;

use alertstream::record::Lane;
use alertstream::source::SourceError;
use alertstream::stream::{ByteBudget, StreamConfig};
use bytes::Bytes;

use crate::backend::{Backend, Spec};
use crate::consumer::{Consumer, sorted};

pub(super) async fn budget(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(8, 1)).await;
    let most = topic.payloads().iter().map(Bytes::len).max().unwrap();
    let budget = ByteBudget::new(3 * most + most / 2);
    let cfg = StreamConfig {
        budget: budget.clone(),
        ..topic.config()
    };
    let mut consumer = Consumer::join_with(&*topic, cfg).await;
    let mut held = consumer.take(3).await;
    let held_bytes: usize = held.iter().map(|delivery| delivery.raw().payload.len()).sum();
    assert!(consumer.is_quiet().await, "nothing beyond the budget");
    assert!(budget.used() >= held_bytes && budget.used() <= budget.bytes_max());
    held.remove(0).ack();
    held.push(consumer.next().await);
    assert!(budget.used() <= budget.bytes_max());
    for delivery in held {
        delivery.ack();
    }
    assert_eq!(consumer.rest().await.len(), 4);
    consumer.shutdown().await;
    assert_eq!(budget.used(), 0, "all bytes came back");
}

pub(super) async fn stall(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(12, 1)).await;
    let cfg = StreamConfig {
        max_span: 4,
        stall_after: Some(Duration::from_secs(2)),
        ..topic.config()
    };
    let mut consumer = Consumer::join_with(&*topic, cfg).await;
    let stuck = consumer.next().await;
    consumer.ack(3).await; // the span is full now: one unsettled, three behind it
    let error = consumer.item().await.expect("an error").expect_err("a stall");
    assert!(
        matches!(&error, SourceError::Stalled { position, .. } if position == stuck.position()),
        "{error}"
    );
    assert!(consumer.item().await.is_none(), "and then the end");
    stuck.ack();
    consumer
        .control
        .shutdown(Duration::from_secs(20))
        .await
        .expect("the stream gave its error before");
}

pub(super) async fn order(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(60, 4)).await;
    let mut consumer = Consumer::join(&*topic).await;
    let mut last: HashMap<Lane, u64> = HashMap::new();
    let mut seen = Vec::new();
    while let Some(delivery) = consumer.item().await {
        let delivery = delivery.unwrap();
        let position = delivery.position().clone();
        if let Some(before) = last.insert(position.lane.clone(), position.seq) {
            assert!(before < position.seq, "`{position}` came after {before}");
        }
        seen.push(delivery.raw().payload.clone());
        delivery.ack();
    }
    assert_eq!(sorted(seen), sorted(topic.payloads()));
    consumer.shutdown().await;
}

/// Alerts above the whole budget come all the same, one at a time.
pub(super) async fn large(backend: &dyn Backend) {
    let topic = backend
        .topic(Spec {
            bytes: 200_000,
            ..Spec::of(4, 1)
        })
        .await;
    let budget = ByteBudget::new(16 << 10);
    let cfg = StreamConfig {
        budget: budget.clone(),
        ..topic.config()
    };
    let mut consumer = Consumer::join_with(&*topic, cfg).await;
    let first = consumer.next().await;
    assert!(first.raw().payload.len() > budget.bytes_max());
    assert!(consumer.is_quiet().await, "it is admitted alone");
    let mut seen = vec![first.raw().payload.clone()];
    first.ack();
    seen.extend(consumer.rest().await);
    assert_eq!(sorted(seen), sorted(topic.payloads()));
    consumer.shutdown().await;
}

pub(super) async fn empty(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(2, 1)).await;
    topic.push(Bytes::new()).await;
    topic.push(Bytes::from_static(b"after")).await;
    let mut consumer = Consumer::join(&*topic).await;
    let seen = consumer.rest().await;
    assert_eq!(
        (seen.len(), seen[2].len(), &seen[3][..]),
        (4, 0, &b"after"[..]),
        "an empty payload is a delivery"
    );
    consumer.shutdown().await;
    let mut nothing = Consumer::join(&*topic).await;
    assert!(nothing.rest().await.is_empty(), "and it is committed");
    nothing.shutdown().await;
}
