//! The least that a poll thread costs: it copies what a replay gives back, and hands batches over a channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alertstream::stream::StreamConfig;
use bytes::Bytes;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientConfig, Timestamp};
use tokio::sync::mpsc;

use super::broker::TOPIC;
use super::rate::{Clock, Took, live};

/// What is handed over at once, as the stream does it.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 512 * 1024;

/// What is kept of a message.
#[expect(dead_code, reason = "it is only carried")]
struct Copied {
    offset: i64,
    partition: i32,
    timestamp: Timestamp,
    key: Option<Bytes>,
    headers: Vec<(String, Option<Bytes>)>,
    payload: Bytes,
}

impl Copied {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map_or_else(Vec::new, |headers| {
            headers
                .iter()
                .map(|header| (header.key.to_owned(), header.value.map(Bytes::copy_from_slice)))
                .collect()
        });
        Self {
            offset: message.offset(),
            partition: message.partition(),
            timestamp: message.timestamp(),
            key: message.key().map(Bytes::copy_from_slice),
            headers,
            payload: Bytes::copy_from_slice(message.payload().unwrap_or_default()),
        }
    }
}

pub(crate) async fn run(bootstrap: &str, group: &str, count: usize) -> Took {
    let bytes_max = StreamConfig::default().budget.bytes_max();
    let mut config = live(bootstrap).clients().unwrap().consumer(group, bytes_max);
    config.set("auto.offset.reset", "earliest");
    let (batches, mut incoming) = mpsc::channel(2);
    let over = Arc::new(AtomicBool::new(false));
    let polling = {
        let over = over.clone();
        std::thread::spawn(move || poll(&config, &batches, &over))
    };
    let (mut clock, mut seen) = (None, 0);
    while seen < count {
        let batch: Vec<Copied> = incoming.recv().await.unwrap();
        clock.get_or_insert_with(Clock::start);
        for copied in batch {
            std::hint::black_box(copied);
            seen += 1;
        }
    }
    let took = clock.unwrap().stop();
    over.store(true, Ordering::Relaxed);
    polling.join().unwrap();
    took
}

fn poll(config: &ClientConfig, batches: &mpsc::Sender<Vec<Copied>>, over: &AtomicBool) {
    let consumer: BaseConsumer = config.create().unwrap();
    consumer.subscribe(&[TOPIC]).unwrap();
    while !over.load(Ordering::Relaxed) {
        let (mut batch, mut bytes) = (Vec::with_capacity(BATCH), 0);
        let mut wait = Duration::from_millis(10);
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(message) = consumer.poll(wait) else { break };
            let message = message.unwrap();
            bytes += message.payload_len();
            batch.push(Copied::of(&message));
            wait = Duration::ZERO;
        }
        if !batch.is_empty() && batches.blocking_send(batch).is_err() {
            return;
        }
    }
}
