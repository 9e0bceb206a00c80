//! A flood and a trickle side by side: 50,000 alerts wait in one source, ten a second arrive in another, and four
//! workers take 20 ms for each. Prints what the trickle's alerts waited, and what that costs the flood.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use alertstream::decode::{Decoder, packet::Packet};
use alertstream::processor::{
    AlertProcessor, Context, HandleError, Handler, Job, ProcessorConfig, QueueConfig, QueueKey,
};
use alertstream::queue::FairQueue;
use alertstream::record::RawAlert;
use alertstream::source::memory::{MemorySource, MemoryTopic};
use alertstream::stream::{StreamConfig, open};
use apache_avro::{Schema, Writer, types::Value};
use futures::StreamExt;
use tokio::time::{Instant, sleep, sleep_until};

pub(crate) const HANDLER_TIME: Duration = Duration::from_millis(20);
const BETWEEN_TRICKLES: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() {
    let lasts = Duration::from_secs(10);
    let (alone, _) = race(50_000, false, lasts).await;
    let (beside, waits) = race(50_000, true, lasts).await;
    let p99 = waits[waits.len() * 99 / 100].as_secs_f64() / HANDLER_TIME.as_secs_f64();
    println!(
        "trickle: {} alerts, p99 of their waits {p99:.2} handler times",
        waits.len()
    );
    println!(
        "flood: {alone} alone, {beside} beside = {:.3}",
        beside as f64 / alone as f64
    );
}

/// Counts the flood's alerts and notes how long each of the trickle's waited.
#[derive(Clone)]
struct Slow(Instant, Arc<Mutex<(u64, Vec<Duration>)>>);

impl Handler for Slow {
    async fn handle(&self, alert: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
        let waited = self
            .0
            .elapsed()
            .saturating_sub(BETWEEN_TRICKLES * alert.header().alert_id as u32);
        sleep(HANDLER_TIME).await;
        match cx.source.as_str() {
            "flood" => self.1.lock().unwrap().0 += 1,
            _ => self.1.lock().unwrap().1.push(waited),
        }
        Ok(())
    }
}

/// Runs both sources, or the flood alone, through one queue and one pool; the waits come shortest first.
pub(crate) async fn race(flood: usize, with_trickle: bool, lasts: Duration) -> (u64, Vec<Duration>) {
    let (queue, topics) = (
        QueueConfig::default().build(),
        [MemoryTopic::new(1), MemoryTopic::new(1)],
    );
    (0..flood).for_each(|n| topics[0].push(0, packet(n as i64)));
    tokio::spawn(feed(MemorySource::new("flood", &topics[0], "group"), queue.clone()));
    tokio::spawn(feed(MemorySource::new("trickle", &topics[1], "group"), queue.clone()));
    while queue.qsize() < flood {
        sleep(Duration::from_millis(1)).await; // the whole flood is queued before the first trickle arrives
    }
    let handler = Slow(Instant::now(), Arc::default());
    let pool = AlertProcessor::new(handler.clone(), &ProcessorConfig::default()).start(queue);
    for n in (0..).take_while(|n| with_trickle && BETWEEN_TRICKLES * *n < lasts) {
        sleep_until(handler.0 + BETWEEN_TRICKLES * n).await;
        topics[1].push(0, packet(n.into()));
    }
    sleep_until(handler.0 + lasts).await;
    pool.shutdown(HANDLER_TIME).await.expect("no handler gives up");
    let (done, mut waits) = handler.1.lock().unwrap().clone();
    waits.sort_unstable();
    (done, waits)
}

/// Decodes one source's alerts and puts them under its name.
async fn feed(source: MemorySource, queue: FairQueue<QueueKey, Job>) {
    let (config, decoder) = (
        StreamConfig {
            max_span: usize::MAX,
            ..StreamConfig::default()
        },
        Decoder::bundled(),
    );
    let (mut alerts, _control) = open(Box::new(source), config);
    while let Some(Ok(delivery)) = alerts.next().await {
        let packet = decoder.decode(&delivery.get().payload).expect("a packet");
        let put = queue.put(delivery.source().as_str().into(), delivery.map(|_| packet).into());
        if put.await.is_err() {
            return; // the pool has shut down
        }
    }
}

/// The n-th packet: a container of one record.
fn packet(n: i64) -> RawAlert {
    let schema = r#"{"type": "record", "name": "alert", "fields": [{"name": "candid", "type": "long"}]}"#;
    let schema = Schema::parse_str(schema).expect("a schema");
    let mut writer = Writer::new(&schema, Vec::new()).expect("a writer");
    writer
        .append_value(Value::Record(vec![("candid".into(), n.into())]))
        .expect("a record");
    RawAlert::from_bytes(writer.into_inner().expect("a container"))
}
