//! Batch handlers: one result per alert; a batch that fails as a whole is tried again one by one.

use alertstream::processor::{AlertProcessor, BatchHandler};

use super::*;

/// Notes the places of each call; panics on a batch that holds alert 3; gives no result beyond the fifth alert.
#[derive(Clone, Default)]
struct Batches(Arc<Mutex<Vec<Vec<u64>>>>);

impl BatchHandler for Batches {
    async fn handle_batch(&self, alerts: &[Packet], cx: &[Context<'_>]) -> Vec<Result<(), HandleError>> {
        assert_eq!(alerts.len(), cx.len());
        let places: Vec<u64> = cx.iter().map(|cx| cx.position.seq).collect();
        self.0.lock().unwrap().push(places.clone());
        assert!(!places.contains(&3), "the culprit");
        let result = |n: &u64| {
            if *n == 2 {
                Err(HandleError::reject("no"))
            } else {
                Ok(())
            }
        };
        places.iter().map(result).take(5).collect()
    }
}

async fn run(alerts: &[u64]) -> (Ledger, Vec<Vec<u64>>) {
    let (queue, ledger, batches) = (Queue::new(), Ledger::default(), Batches::default());
    ledger.put(&queue, "a", alerts.iter().copied());
    let pool = AlertProcessor::batching(batches.clone(), &config()).start(queue.clone());
    idle(&queue).await;
    pool.shutdown(ms(100)).await.unwrap();
    let calls = batches.0.lock().unwrap().clone();
    (ledger, calls)
}

#[tokio::test(start_paused = true)]
async fn each_alert_of_a_batch_is_settled_by_its_own_result() {
    let (ledger, calls) = run(&[0, 1, 2]).await;
    assert_eq!(calls, [[0, 1, 2]]);
    assert_eq!(ledger.all(0..3), ["ack", "ack", "rejected after 1"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_culprit_of_a_batch_that_panics_is_rejected() {
    let (ledger, calls) = run(&[0, 1, 3, 4]).await;
    assert_eq!(ledger.all([0, 1, 3, 4]), ["ack", "ack", "panic after 3", "ack"]);
    assert_eq!(calls[0], [0, 1, 3, 4]);
    assert!(calls[1..].iter().all(|call| call.len() == 1), "{calls:?}");
}

/// Works one by one, 10 ms each; alert 3 never ends.
struct OneByOne;

impl BatchHandler for OneByOne {
    async fn handle_batch(&self, _: &[Packet], cx: &[Context<'_>]) -> Vec<Result<(), HandleError>> {
        let mut results = Vec::new();
        for cx in cx {
            tokio::time::sleep(if cx.position.seq == 3 { Duration::MAX } else { ms(10) }).await;
            results.push(Ok(()));
        }
        results
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_settles_nothing_of_a_batch_half_way() {
    let (queue, ledger) = (Queue::new(), Ledger::default());
    ledger.put(&queue, "a", [0, 1, 3, 4]);
    let config = ProcessorConfig {
        time_limit: Some(ms(500)),
        ..config()
    };
    let pool = AlertProcessor::batching(OneByOne, &config).start(queue.clone());
    tokio::time::sleep(ms(501)).await;
    assert_eq!(
        ledger.all([0, 1, 3, 4]),
        ["open"; 4],
        "two were worked on, the call was not done"
    );
    assert_eq!(
        (queue.deferred_size(), queue.inprogress_size()),
        (4, 0),
        "the worker is free"
    );
    idle(&queue).await;
    assert_eq!(ledger.all([0, 1, 3, 4]), ["ack", "ack", "timeout after 3", "ack"]);
    assert_eq!(pool.shutdown(ms(100)).await.unwrap().total.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_result_is_a_failed_try() {
    let (ledger, calls) = run(&[4, 5, 6, 7, 8, 9]).await;
    assert_eq!(calls, [vec![4, 5, 6, 7, 8, 9], vec![9]]);
    assert_eq!(ledger.all(4..10), ["ack"; 6]);
}
