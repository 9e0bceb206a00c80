//! One processor over both backends: an argument says whether the handler reads a live topic or a replay of the archive.
//!
//! Only `input` knows the difference. Handler, pool, retries, dead letters and the meaning of an acknowledgement are the
//! same.
//!
//! `cargo run --example switch -- live localhost:9092 ztf_20261130_programid1 GROUP`
//! `cargo run --example switch -- archive postgres://me@localhost/alerts 2026-11-30 GROUP`

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use alertstream::archive::groups::{DEFAULT_BLOCK_SIZE, Groups};
use alertstream::archive::{Archive, ArchiveOptions};
use alertstream::decode::Decoder;
use alertstream::decode::packet::Packet;
use alertstream::pipeline::{Input, Limits, Pipeline};
use alertstream::processor::{AlertProcessor, Context, HandleError, Handler, ProcessorConfig, QueueConfig};
use alertstream::query::{NightStart, Query, QueryText};
use alertstream::record::SourceId;
use alertstream::source::Source;
use alertstream::source::archive::{ArchiveConfig, ArchiveSource};
use alertstream::source::kafka::KafkaSource;
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::place::End;
use alertstream::stream::StreamConfig;
use tokio_util::sync::CancellationToken;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Where the alerts come from.
pub(crate) enum Backend {
    /// A topic, to where it ends now.
    Live(LiveConfig),
    /// A night of the archive at this URL.
    Archive { url: String, night: String },
}

impl Backend {
    fn parse(word: &str, place: &str, what: &str) -> Result<Self, AnyError> {
        match word {
            "live" => {
                let mut config = LiveConfig::new(place, &[what]);
                config.end = End::Now;
                Ok(Self::Live(config))
            }
            "archive" => Ok(Self::Archive {
                url: place.to_owned(),
                night: what.to_owned(),
            }),
            other => Err(format!("`{other}` is neither `live` nor `archive`").into()),
        }
    }

    async fn input(self, group: &str) -> Result<Input, AnyError> {
        let id = SourceId::new("alerts");
        let source: Box<dyn Source> = match self {
            Self::Live(config) => Box::new(KafkaSource::new(id, group, config)?),
            Self::Archive { url, night } => {
                let archive = Archive::connect(&url, &ArchiveOptions::default()).await?;
                let query = Query::parse(&QueryText::new().with("night", &night)?, NightStart::default())?;
                let groups = Groups::new(&archive);
                let group = groups.join_or_create(group, Some(&query), DEFAULT_BLOCK_SIZE).await?;
                Box::new(ArchiveSource::new(id, archive, group, ArchiveConfig::default()))
            }
        };
        Ok(Input {
            source,
            stream: StreamConfig::default(),
            at_rest: None,
        })
    }
}

/// The processor: notes the alerts that are brighter than magnitude 18.
#[derive(Default)]
struct Bright {
    seen: Mutex<BTreeSet<i64>>,
}

impl Handler for Bright {
    async fn handle(&self, alert: &Packet, _: &Context<'_>) -> Result<(), HandleError> {
        let header = alert.header();
        if header.magnitude.is_some_and(|magnitude| magnitude < 18.0) {
            let seen = self.seen.lock();
            seen.map_err(|_| HandleError::fatal("another worker panicked"))?
                .insert(header.alert_id);
        }
        Ok(())
    }
}

/// Runs the processor over the backend; gives the bright alerts and how many alerts there were.
pub(crate) async fn bright(backend: Backend, group: &str) -> Result<(BTreeSet<i64>, u64), AnyError> {
    let handler = Arc::new(Bright::default());
    let processor = AlertProcessor::new(handler.clone(), &ProcessorConfig::default());
    let pipeline = Pipeline::start(processor, &QueueConfig::default(), Decoder::bundled());
    let inputs = vec![backend.input(group).await?];
    let ended = pipeline.run(inputs, &Limits::default(), CancellationToken::new()).await;
    if let Some(failure) = ended.failure {
        return Err(failure.into());
    }
    let acked = ended.sources.values().map(|totals| totals.stream.acked).sum();
    let seen = handler.seen.lock().map_err(|_| "a worker panicked")?.clone();
    Ok((seen, acked))
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [word, place, what, group] = args.as_slice() else {
        return Err("give `live`, brokers and a topic, or `archive`, a URL and a night; then a group's name".into());
    };
    let (bright, alerts) = self::bright(Backend::parse(word, place, what)?, group).await?;
    println!("{} of {alerts} alerts are brighter than 18: {bright:?}", bright.len());
    Ok(())
}
