//! What is durable after what: commits, flush, release, dead letters.

use crate::backend::{Backend, Spec, Works};
use crate::consumer::{Consumer, ack, sorted};

pub(super) async fn resumes(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(10, 1)).await;
    let mut first = Consumer::join(&*topic).await;
    let mut seen = first.ack(5).await;
    first.flush().await;
    first.kill().await;
    let mut second = Consumer::join(&*topic).await;
    let rest = second.rest().await;
    assert_eq!(rest.len(), 5, "exactly what was not committed");
    seen.extend(rest);
    assert_eq!(sorted(seen), sorted(topic.payloads()));
    second.shutdown().await;
}

/// A commit holds what was settled, not what was delivered.
pub(super) async fn checkpoint(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(10, 1)).await;
    let mut first = Consumer::join(&*topic).await;
    let done = first.ack(4).await;
    let fifth = first.next().await;
    let overlap = fifth.raw().payload.clone();
    first.flush().await;
    first.kill().await;
    fifth.ack(); // too late: its consumer is gone
    let mut second = Consumer::join(&*topic).await;
    let rest = second.rest().await;
    assert_eq!(rest.len(), 6);
    assert!(rest.contains(&overlap) && !rest.iter().any(|payload| done.contains(payload)));
    second.shutdown().await;
}

pub(super) async fn drop_is_release(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(3, 1)).await;
    let mut consumer = Consumer::join(&*topic).await;
    let dropped = consumer.next().await;
    assert_eq!(dropped.attempt(), 1);
    let payload = dropped.raw().payload.clone();
    drop(dropped);
    let mut again = None;
    while let Some(delivery) = consumer.item().await {
        let delivery = delivery.unwrap();
        if delivery.raw().payload == payload {
            again = Some(delivery.attempt());
        }
        delivery.ack();
    }
    assert_eq!(again, Some(2), "it came again, as its second attempt");
    let stats = consumer.shutdown().await;
    assert_eq!(
        (stats.delivered, stats.acked, stats.released, stats.redelivered),
        (4, 3, 1, 1)
    );
}

pub(super) async fn reject(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(4, 1)).await;
    let mut first = Consumer::join(&*topic).await;
    first.ack(1).await;
    let bad = first.next().await;
    let payload = bad.raw().payload.clone();
    bad.reject("no good");
    first.flush().await;
    assert_eq!(topic.dead_letters().await, [(payload.clone(), "rejected".to_owned())]);
    first.kill().await;
    let mut second = Consumer::join(&*topic).await;
    let rest = second.rest().await;
    assert_eq!(rest.len(), 2, "the commit passed the rejected alert");
    assert!(!rest.contains(&payload));
    second.shutdown().await;
    assert_eq!(topic.dead_letters().await.len(), 1);
}

pub(super) async fn store_down(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(6, 1)).await;
    topic.store_works(Works::No);
    let mut first = Consumer::join(&*topic).await;
    first.next().await.reject("no good");
    first.ack(2).await;
    let flushed = first.control.flush(std::time::Duration::from_secs(3)).await;
    assert!(flushed.is_err(), "nothing is durable while the store is down");
    first.kill().await;
    assert!(topic.dead_letters().await.is_empty());
    topic.store_works(Works::Yes);
    let mut second = Consumer::join(&*topic).await;
    let all = second.rest().await;
    assert_eq!(
        sorted(all),
        sorted(topic.payloads()),
        "no commit had passed the rejected alert"
    );
    second.shutdown().await;

    // And with the store back in time, the stream goes on by itself.
    let topic = backend.topic(Spec::of(3, 1)).await;
    topic.store_works(Works::No);
    let mut consumer = Consumer::join(&*topic).await;
    consumer.next().await.reject("no good");
    assert!(consumer.control.flush(std::time::Duration::from_secs(1)).await.is_err());
    topic.store_works(Works::Yes);
    consumer.flush().await;
    assert_eq!(consumer.rest().await.len(), 2);
    assert_eq!(topic.dead_letters().await.len(), 1);
    consumer.shutdown().await;
}

pub(super) async fn flush(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(12, 2)).await;
    let mut first = Consumer::join(&*topic).await;
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(ack(first.next().await));
        first.flush().await;
    }
    taken.extend(first.ack(2).await);
    first.flush().await;
    first.flush().await; // with nothing new it is true at once
    first.kill().await;
    let mut second = Consumer::join(&*topic).await;
    let rest = second.rest().await;
    assert!(
        !rest.iter().any(|payload| taken.contains(payload)),
        "nothing that was flushed comes again"
    );
    taken.extend(rest);
    assert_eq!(sorted(taken), sorted(topic.payloads()));
    second.shutdown().await;
}
