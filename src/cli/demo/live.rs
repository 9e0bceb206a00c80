//! The demo's live side: a mock Kafka topic in this process, filled with the night.

use bytes::Bytes;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;

use crate::cli::embedded::mock_kafka::{MockKafka, fast_settings, partitions_for};
use crate::cli::error::{CliError, CliResult};
use crate::cli::sources::From;
use crate::record::SourceId;
use crate::source::kafka::KafkaSource;
use crate::source::kafka::client::{Clients, PassThrough};
use crate::source::kafka::config::LiveConfig;
use crate::source::kafka::place::{End, Start};

/// The topic, as ZTF names them.
const TOPIC: &str = "ztf_20260314_programid1";
/// How long the broker may take to have everything.
const FLUSH_WITHIN: Duration = Duration::from_secs(60);

/// A topic with the night in it.
pub(super) struct Topic {
    broker: MockKafka,
}

impl Topic {
    /// Starts a broker and sends the packets, off the async threads.
    pub(super) async fn filled(packets: Vec<Bytes>) -> CliResult<Self> {
        let filling = tokio::task::spawn_blocking(move || fill(&packets));
        filling
            .await
            .map_err(|error| CliError::failed("internal", error))?
            .map_err(failed)
    }

    /// Gives a source that reads the topic from its first alert to the last one that is there now.
    pub(super) fn source(&self) -> CliResult<From> {
        let mut config = LiveConfig::new(self.broker.bootstrap(), &[TOPIC]);
        (config.start, config.end) = (Start::Earliest, End::Now);
        config.librdkafka = PassThrough::new(fast_settings());
        let source = KafkaSource::new(SourceId::new("demo"), "demo", config).map_err(failed)?;
        Ok(From::Live(Box::new(source)))
    }

    /// Ends the broker, off the async threads: it joins threads of its own.
    pub(super) async fn close(self) {
        let _ = tokio::task::spawn_blocking(move || drop(self.broker)).await;
    }
}

fn fill(packets: &[Bytes]) -> Result<Topic, Box<dyn std::error::Error + Send + Sync>> {
    let broker = MockKafka::start()?;
    let bytes = packets.iter().map(|packet| packet.len() as u64).sum();
    let partitions = partitions_for(bytes);
    broker.create_topic(TOPIC, partitions)?;
    let clients = Clients::new(&[broker.bootstrap().to_owned()], &PassThrough::new(fast_settings()))?;
    let producer: BaseProducer = clients.producer().create()?;
    for (packet, partition) in packets.iter().zip((0..partitions).cycle()) {
        let mut record = BaseRecord::<(), [u8]>::to(TOPIC).partition(partition).payload(packet);
        // A full queue of the producer: let it send.
        while let Err((_, refused)) = producer.send(record) {
            producer.poll(Duration::from_millis(20));
            record = refused;
        }
    }
    producer.flush(FLUSH_WITHIN)?;
    Ok(Topic { broker })
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::failed("demo", format!("the mock Kafka topic: {error}"))
}
