//! A processor of one's own: a handler that finds the brightest alert of each object, in a pool, over files.
//!
//! Other sources need another first line only: the handler, the pool and what happens to failures stay the same.
//!
//! `cargo run --example custom_handler -- alerts/`

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use alertstream::decode::Decoder;
use alertstream::decode::packet::Packet;
use alertstream::pipeline::{Input, Limits, Pipeline};
use alertstream::processor::{AlertProcessor, Context, HandleError, Handler, ProcessorConfig, QueueConfig};
use alertstream::record::SourceId;
use alertstream::source::files::FilesSource;
use alertstream::stream::StreamConfig;
use tokio_util::sync::CancellationToken;

/// The brightest magnitude of each object.
#[derive(Default)]
struct Brightest {
    found: Mutex<BTreeMap<String, f64>>,
}

impl Handler for Brightest {
    async fn handle(&self, alert: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
        let header = alert.header();
        let Some(object) = header.object_id.clone() else {
            return Err(HandleError::reject(format!("{}: no object", cx.position))); // never will be done: dead letter
        };
        let magnitude = header.magnitude.unwrap_or(f64::INFINITY);
        let mut found = self
            .found
            .lock()
            .map_err(|_| HandleError::fatal("another worker panicked"))?;
        let best = found.entry(object).or_insert(magnitude);
        *best = best.min(magnitude);
        Ok(()) // acknowledged; an error would be tried again, with a back-off
    }
}

/// Works on all files below a path; gives the objects and how many alerts there were.
pub(crate) async fn brightest(path: &str) -> Result<(BTreeMap<String, f64>, u64), Box<dyn std::error::Error>> {
    let decoder = Decoder::bundled();
    let splitter = decoder.clone();
    let split = Arc::new(move |file: &bytes::Bytes| splitter.split(file).map_err(Into::into));
    let source = FilesSource::new(SourceId::new("files"), vec![path.into()], split);
    let input = Input {
        source: Box::new(source),
        stream: StreamConfig::default(),
        at_rest: None,
    };

    let handler = Arc::new(Brightest::default());
    let processor = AlertProcessor::new(handler.clone(), &ProcessorConfig::default());
    let pipeline = Pipeline::start(processor, &QueueConfig::default(), decoder);
    let ended = pipeline
        .run(vec![input], &Limits::default(), CancellationToken::new())
        .await;
    if let Some(failure) = ended.failure {
        return Err(failure.into());
    }
    let acked = ended.sources.values().map(|totals| totals.stream.acked).sum();
    let found = handler.found.lock().map_err(|_| "a worker panicked")?.clone();
    Ok((found, acked))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a folder of alerts")?;
    let (objects, alerts) = brightest(&path).await?;
    for (object, magnitude) in &objects {
        println!("{object} {magnitude:.2}");
    }
    println!("{} objects in {alerts} alerts", objects.len());
    Ok(())
}
