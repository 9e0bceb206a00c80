//! Case 67: batches.

use alertstream::queue::PutOptions;

use super::*;

fn three_keys() -> Queue {
    let queue = Queue::new();
    put(&queue, "A", &["a1", "a2", "a3", "a4"]);
    put(&queue, "B", &["b1"]);
    put(&queue, "C", &["c1"]);
    queue
}

#[tokio::test]
async fn a_batch_follows_the_rule_and_is_never_waited_for() {
    let queue = three_keys();
    let batch = queue.get_many(5).await.unwrap();
    assert_eq!(items(&batch), ["a1", "b1", "c1", "a2", "a3"]);
    assert_eq!(queue.key_stats(&"A").in_progress, 3);
    assert_eq!(items(&queue.get_many(5).await.unwrap()), ["a4"]);
}

#[tokio::test]
async fn a_batch_of_one_key_takes_the_key_that_is_next() {
    let queue = three_keys();
    assert_eq!(items(&queue.get_many_of_one_key(3).await.unwrap()), ["a1", "a2", "a3"]);
    assert_eq!(items(&queue.get_many_of_one_key(3).await.unwrap()), ["b1"]);
}

#[tokio::test]
async fn a_batch_respects_limits_and_exclusive_items() {
    let queue = three_keys();
    queue.set_limit(&"A", std::num::NonZeroU32::new(2));
    queue.try_put_with("B", "x", PutOptions::new().exclusive()).unwrap();
    let batch = queue.get_many(9).await.unwrap();
    assert_eq!(items(&batch), ["a1", "b1", "c1", "a2"]);
    drop(batch);
    put(&queue, "B", &["b2"]);
    let mut batch = items(&queue.get_many(9).await.unwrap());
    batch.sort_unstable();
    assert_eq!(batch, ["a3", "a4", "x"], "the exclusive item is alone for its key");
}

#[tokio::test]
async fn a_cancelled_batch_takes_nothing() {
    let queue = Queue::new();
    let mut batch = queue.get_many(3);
    assert!(poll_once(&mut batch).is_pending());
    put(&queue, "A", &["a1", "a2"]);
    drop(batch);
    assert_eq!(sizes(&queue), (2, 0, 0));
    assert_eq!(queue.get_many(3).await.unwrap().len(), 2);
}
