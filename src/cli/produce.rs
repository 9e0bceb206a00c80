//! `produce`: packets to a Kafka topic, as they are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Call;
use super::brokers::{BrokerArgs, off, writer};
use super::error::{CliError, CliResult, Exit};
use super::output;
use super::progress::Progress;
use super::signals::Signals;
use super::sources::From;
use crate::decode::Decoder;
use crate::delivery::Delivery;
use crate::record::{RawAlert, SourceId};
use crate::source::files::FilesSource;
use crate::source::kafka::writer::{TopicWriter, create_topic};
use crate::stream::{StreamConfig, open};
use crate::units::counted;

/// Packets sent between two looks at signals and clock.
const AT_ONCE: usize = 64;
/// How long the last confirmations may take.
const FINISH_WITHIN: Duration = Duration::from_secs(60);

/// Sends packets to a Kafka topic, byte for byte.
///
/// Files are found as `ingest` finds them. It ends when the brokers confirmed every packet; the producer is idempotent,
/// so that nothing is doubled on the way.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream produce alerts/ --topic ztf_20260314_programid1 --brokers localhost:9092
  alertstream produce night.tar.gz --topic night --brokers localhost:9092 --partitions 16 --key objectId
  alertstream produce alerts/ --topic t --brokers b:9093 -X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 \\
      -X sasl.username=me -X sasl.password=env:KAFKA_PASSWORD")]
pub(super) struct ProduceArgs {
    /// Files, folders, .tar, .tar.gz.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The topic.
    #[arg(long, value_name = "TOPIC")]
    topic: String,
    #[command(flatten)]
    brokers: BrokerArgs,
    /// Sends at most so many packets a second.
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// Creates the topic with so many partitions, if it is missing.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=10_000))]
    partitions: Option<i32>,
    /// The field of the packet that becomes the message's key (packets with the same key keep their order).
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
}

/// What was sent.
#[derive(Serialize)]
struct Sent {
    sent: u64,
    bytes: u64,
    seconds: f64,
}

pub(super) async fn run(call: &Call, args: ProduceArgs) -> CliResult {
    let From::Files(paths) = From::files("produce", args.paths)? else {
        return Err(CliError::refused("usage", "no path is given"));
    };
    let clients = args.brokers.clients(call)?;
    let decoder = call
        .config()
        .decoder()
        .map_err(|error| CliError::refused("config", error))?;
    let signals = Signals::watch()?;
    if let Some(partitions) = args.partitions {
        create_topic(&clients, &args.topic, partitions).await?;
    }
    let topic = args.topic.clone();
    let writer = Arc::new(writer(clients, topic).await?);
    let began = Instant::now();
    let sender = Arc::new(Sender {
        writer: writer.clone(),
        decoder,
        key: args.key,
    });
    let sending = send_files(sender, paths, args.rate, &signals.first()).await;
    // Also what was sent before a failure arrives.
    let finished = off(move || writer.finish(FINISH_WITHIN)).await;
    let (sent, bytes) = sending?;
    finished?;
    let done = Sent {
        sent,
        bytes,
        seconds: began.elapsed().as_secs_f64(),
    };
    output::summary(call.format, &done, |done| {
        format!(
            "{}, {}, in {:.1} s to {}\n",
            counted(done.sent, "packet"),
            output::bytes(done.bytes),
            done.seconds,
            args.topic
        )
    })?;
    Ok(Exit::Finished)
}

/// Sends until the files end or a signal comes; gives packets and bytes.
async fn send_files(
    sender: Arc<Sender>,
    paths: Vec<PathBuf>,
    rate: Option<f64>,
    stop: &CancellationToken,
) -> CliResult<(u64, u64)> {
    let failed = |error| CliError::failed("source", error);
    let splitter = sender.decoder.clone();
    let source = FilesSource::new(
        SourceId::new("files"),
        paths,
        // Packets are sent as they are, damaged ones too: what cannot be cut goes whole.
        Arc::new(move |file| Ok(splitter.split(file).unwrap_or_else(|_| vec![file.clone()]))),
    );
    let (alerts, control) = open(Box::new(source), StreamConfig::default());
    let progress = Progress::counting("producing", "packets");
    let (mut turns, began) = (alerts.ready_chunks(AT_ONCE), Instant::now());
    let (mut sent, mut bytes) = (0, 0);
    loop {
        let turn = tokio::select! {
            turn = turns.next() => turn,
            () = stop.cancelled() => None,
        };
        let Some(turn) = turn else { break };
        let turn = turn.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let (count, sender) = (turn.len() as u64, sender.clone());
        bytes += off(move || sender.send(turn)).await?;
        sent += count;
        progress.advance(count);
        if let Some(rate) = rate {
            let due = began + Duration::from_secs_f64(sent as f64 / rate);
            tokio::select! { () = tokio::time::sleep_until(due) => {}, () = stop.cancelled() => {} }
        }
    }
    drop(turns);
    control.shutdown(Duration::from_secs(5)).await.map_err(failed)?;
    Ok((sent, bytes))
}

/// Sends what the files hold.
struct Sender {
    writer: Arc<TopicWriter>,
    decoder: Decoder,
    key: Option<String>,
}

impl Sender {
    fn send(&self, turn: Vec<Delivery<RawAlert>>) -> CliResult<u64> {
        let mut bytes = 0;
        for delivery in turn {
            let payload = delivery.raw().payload.clone();
            let key = match &self.key {
                Some(field) => self.key_of(&payload, field).map_err(|error| {
                    error.hint(format!(
                        "{} was not sent; name a field of its schema",
                        delivery.position()
                    ))
                })?,
                None => None,
            };
            self.writer.send(key.as_deref().map(str::as_bytes), &payload)?;
            bytes += payload.len() as u64;
            delivery.ack();
        }
        Ok(bytes)
    }

    /// Gives the key; what is no packet, or has null there, is sent without one.
    fn key_of(&self, payload: &bytes::Bytes, field: &str) -> CliResult<Option<String>> {
        let Ok(packet) = self.decoder.decode(payload) else {
            return Ok(None);
        };
        match packet.json(field) {
            None => Err(CliError::failed(
                "key",
                format!("`--key {field}`: `{}` has no such field", packet.schema_name()),
            )),
            Some(serde_json::Value::String(text)) => Ok(Some(text)),
            Some(serde_json::Value::Null) => Ok(None),
            Some(other) => Ok(Some(other.to_string())),
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && rate.is_finite());
    rate.ok_or_else(|| "give packets a second, above 0".into())
}
