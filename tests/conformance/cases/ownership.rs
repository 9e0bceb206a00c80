//! Who has which lane: sharing, death, revocation.

use std::collections::BTreeSet;
use std::sync::Arc;

use alertstream::stream::open;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;

use crate::backend::{Backend, Spec, Topic};
use crate::consumer::{Consumer, ack, sorted};

/// An owner that does not settle in time loses its lane; what it says afterwards changes nothing.
pub(super) async fn late_ack(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(8, 2)).await;
    let mut slow = Consumer::join(&*topic).await;
    let held = slow.take(8).await; // both lanes, all of it
    let mut quick = Consumer::join(&*topic).await;
    let mut seen = Vec::new();
    // The first deliveries of the new owner are the proof that the lane was revoked.
    seen.push(ack(quick.next().await));
    let before = slow.control.stats();
    for delivery in held {
        delivery.ack();
    }
    let after = slow.control.stats();
    assert!(
        before.released > 0,
        "what stood open at the revocation counts as released"
    );
    assert!(
        after.late > 0 && after.late == before.released,
        "late acknowledgements are counted, and only counted"
    );
    assert_eq!(
        after.delivered,
        after.acked + after.released + after.rejected + after.open
    );
    let (kept, rest) = tokio::join!(slow.rest(), quick.rest());
    seen.extend(rest);
    assert_eq!(
        seen.len(),
        usize::try_from(after.late).unwrap(),
        "the new owner got all of the lane, late or not"
    );
    assert!(kept.is_empty(), "the old owner had settled what it kept");
    slow.shutdown().await;
    quick.shutdown().await;
}

pub(super) async fn two(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(40, 8)).await;
    let (mut a, mut b) = tokio::join!(Consumer::join(&*topic), Consumer::join(&*topic));
    let (mut seen, more) = tokio::join!(a.rest(), b.rest());
    seen.extend(more);
    assert_shared(&*topic, seen, "two consumers");
    a.shutdown().await;
    b.shutdown().await;
}

pub(super) async fn dead(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(20, 4)).await;
    let mut first = Consumer::join(&*topic).await;
    let flushed = first.ack(3).await;
    first.flush().await;
    let open = first.take(2).await;
    first.kill().await;
    drop(open);
    let mut second = Consumer::join(&*topic).await;
    let rest = second.rest().await;
    let all: BTreeSet<Bytes> = flushed.iter().chain(&rest).cloned().collect();
    assert_eq!(all, topic.payloads().into_iter().collect(), "nothing is lost");
    assert!(
        !rest.iter().any(|payload| flushed.contains(payload)),
        "nothing committed is repeated"
    );
    second.shutdown().await;
}

/// Consumers come and go while others work: every alert at least once, and the group gets to its end.
pub(super) async fn reopen(backend: &dyn Backend) {
    let topic = backend.topic(Spec::of(60, 6)).await;
    let mut steady = Consumer::join(&*topic).await;
    let mut seen = steady.ack(4).await;
    for round in 0..3 {
        let mut guest = Consumer::join(&*topic).await;
        seen.extend(steady.ack(3).await);
        if let Some(delivery) = guest.item().await {
            seen.push(ack(delivery.unwrap()));
        }
        if round % 2 == 0 {
            guest.shutdown().await;
        } else {
            guest.kill().await;
        }
    }
    seen.extend(steady.rest().await);
    steady.shutdown().await;
    let seen: BTreeSet<Bytes> = seen.into_iter().collect();
    assert_eq!(seen, topic.payloads().into_iter().collect());
}

/// All of it; each once where the backend can promise that of consumers that come and go.
fn assert_shared(topic: &dyn Topic, mut seen: Vec<Bytes>, who: &str) {
    if topic.rebalances_may_repeat() {
        seen = seen.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    }
    assert_eq!(
        sorted(seen),
        sorted(topic.payloads()),
        "{who}: all of it, nothing twice"
    );
}

pub(super) async fn crowd(backend: &dyn Backend) {
    let sizes = backend.topic(Spec::of(1, 1)).await.crowds();
    for consumers in sizes {
        let topic = backend.topic(Spec::of(192, 64)).await;
        let crowd = join_all((0..consumers).map(|_| one_of_a_crowd(&topic))).await;
        let seen: Vec<Bytes> = crowd.into_iter().flatten().collect();
        assert_shared(&*topic, seen, &format!("{consumers} consumers"));
    }
}

async fn one_of_a_crowd(topic: &Arc<dyn Topic>) -> Vec<Bytes> {
    let (mut alerts, control) = open(topic.consumer().await, topic.config());
    let mut seen = Vec::new();
    while let Some(delivery) = alerts.next().await {
        seen.push(ack(delivery.unwrap()));
        tokio::task::yield_now().await;
    }
    control.shutdown(topic.patience()).await.unwrap();
    seen
}
