//! A flood and a trickle side by side: 50,000 alerts wait in one source, ten a second arrive in another, and four
//! workers take 20 ms for each. Prints what the trickle's alerts waited for a worker, and what that costs the flood;
//! exits 1 when that is more than it should be (`cargo run --release --example fair_sources`, a minute).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alertstream::decode::{Decoder, packet::Packet};
use alertstream::pipeline::{Input, Limits, Pipeline};
use alertstream::processor::{AlertProcessor, Context, HandleError, Handler, ProcessorConfig, QueueConfig};
use alertstream::record::RawAlert;
use alertstream::source::memory::{MemorySource, MemoryTopic};
use alertstream::stream::StreamConfig;
use apache_avro::{Schema, Writer, types::Value};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

pub(crate) const HANDLER_TIME: Duration = Duration::from_millis(20);
const BETWEEN: Duration = Duration::from_millis(100);
const SECONDS: u32 = 20;
/// The race begins when the flood is in the queue.
const QUEUED_AFTER: Duration = Duration::from_secs(1);

/// One handler's time, and 5 ms until a task runs, a timer fires and a packet is decoded.
const WAIT_MOST: f64 = 1.25;
const SHARE_LEAST: f64 = 0.9;

#[tokio::main]
async fn main() -> ExitCode {
    let (alone, _) = race(50_000, 0, SECONDS).await;
    let (beside, waits) = race(50_000, 10, SECONDS).await;
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100].as_secs_f64() / HANDLER_TIME.as_secs_f64();
    let share = beside as f64 / alone as f64;
    println!("trickle: {} alerts; waits for a worker in handler times:", waits.len());
    println!("  median {:.2}, p90 {:.2}, longest {:.2}", at(50), at(90), at(100));
    let fair = [
        verdict("  p99", at(99), "at most 1 and scheduling: 1.25", at(99) <= WAIT_MOST),
        verdict(
            &format!("flood: {alone} alone, {beside} beside it:"),
            share,
            "at least 0.9",
            share >= SHARE_LEAST,
        ),
    ];
    ExitCode::from(u8::from(fair != [true; 2]))
}

fn verdict(what: &str, figure: f64, bound: &str, holds: bool) -> bool {
    println!("{what} {figure:.3} ({bound}) {}", if holds { "PASS" } else { "MISSED" });
    holds
}

/// Counts the flood's alerts from the start of the race on, and notes how long each of the trickle's waited.
#[derive(Clone)]
struct Slow(Instant, Arc<Mutex<(u64, Vec<Duration>)>>);

impl Handler for Slow {
    async fn handle(&self, alert: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
        let waited = self
            .0
            .elapsed()
            .saturating_sub(BETWEEN * alert.header().alert_id as u32);
        sleep(HANDLER_TIME).await;
        match cx.source.as_str() {
            "flood" => self.1.lock().unwrap().0 += u64::from(Instant::now() > self.0),
            _ => self.1.lock().unwrap().1.push(waited),
        }
        Ok(())
    }
}

/// Runs both for some seconds; gives the flood's alerts done, and the waits of the trickle's (`trickle` a second, ten
/// at most), shortest first.
pub(crate) async fn race(flood: i64, trickle: u32, seconds: u32) -> (u64, Vec<Duration>) {
    let topics = [MemoryTopic::new(1), MemoryTopic::new(1)];
    (0..flood).for_each(|n| topics[0].push(0, packet(n)));
    let inputs = ["flood", "trickle"].into_iter().zip(&topics).map(|(name, topic)| {
        let source = Box::new(MemorySource::new(name, topic, "group"));
        let (stream, at_rest) = (
            StreamConfig {
                max_span: usize::MAX,
                ..Default::default()
            },
            None,
        );
        Input {
            source,
            stream,
            at_rest,
        }
    });
    let (handler, stop) = (
        Slow(Instant::now() + QUEUED_AFTER, Arc::default()),
        CancellationToken::new(),
    );
    let processor = AlertProcessor::new(handler.clone(), &ProcessorConfig::default());
    let pipeline = Pipeline::start(processor, &QueueConfig::default(), Decoder::bundled());
    let limits = Limits {
        until_idle: None,
        drain_within: Duration::ZERO,
    };
    let arrivals = async {
        for n in 1..=seconds * 10 {
            sleep_until(handler.0 + BETWEEN * n).await;
            (n % 10 < trickle).then(|| topics[1].push(0, packet(n.into())));
        }
        stop.cancel();
    };
    tokio::join!(pipeline.run(inputs.collect(), &limits, stop.clone()), arrivals);
    let (done, mut waits) = handler.1.lock().unwrap().clone();
    waits.sort_unstable();
    (done, waits)
}

/// The n-th packet: a container of one record.
fn packet(n: i64) -> RawAlert {
    let schema = r#"{"type": "record", "name": "alert", "fields": [{"name": "candid", "type": "long"}]}"#;
    let schema = Schema::parse_str(schema).expect("a schema");
    let mut writer = Writer::new(&schema, Vec::new()).expect("a writer");
    let record = Value::Record(vec![("candid".into(), n.into())]);
    writer.append_value(record).expect("a record");
    RawAlert::from_bytes(writer.into_inner().expect("a container"))
}
