//! Reads a Kafka topic to its end through the stream itself: take, look, acknowledge. Run again, it goes on from there.
//!
//! Change `End::Now` to `End::None` and it goes on for as long as the topic does.
//!
//! `cargo run --example live -- localhost:9092 ztf_20261130_programid1 GROUP`

use std::time::Duration;

use alertstream::decode::Decoder;
use alertstream::record::SourceId;
use alertstream::source::kafka::KafkaSource;
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::place::End;
use alertstream::stream::{StreamConfig, open};
use futures::StreamExt;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The topic's alerts to where it ends now; a group's first read begins at the earliest.
pub(crate) fn topic(brokers: &str, topic: &str) -> LiveConfig {
    let mut config = LiveConfig::new(brokers, &[topic]);
    config.end = End::Now;
    config
}

/// Reads what nobody of the group has read yet; gives how many alerts there were.
pub(crate) async fn read(config: LiveConfig, group: &str) -> Result<u64, AnyError> {
    let source = KafkaSource::new(SourceId::new("live"), group, config)?;
    let decoder = Decoder::bundled();

    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    while let Some(delivery) = alerts.next().await {
        let delivery = delivery?;
        match decoder.decode(&delivery.get().payload) {
            Ok(packet) => {
                let header = packet.header();
                println!("{} {:?} {:?}", delivery.position(), header.object_id, header.magnitude);
                delivery.ack(); // its offset is committed when all before it are settled too
            }
            Err(error) => delivery.reject(error.to_string()), // becomes a dead letter
        }
    }
    Ok(control.shutdown(Duration::from_secs(10)).await?.acked) // the last commit is confirmed
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, name, group] = args.as_slice() else {
        return Err("give the brokers, a topic and a group's name".into());
    };
    println!("{} alerts", read(topic(brokers, name), group).await?);
    Ok(())
}
