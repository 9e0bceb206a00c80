//! Replays a selection of the archive through the stream itself, without pool or queue: take, look, acknowledge.
//!
//! `cargo run --example replay -- postgres://me@localhost/alerts GROUP NIGHT`

use std::time::Duration;

use alertstream::archive::groups::{DEFAULT_BLOCK_SIZE, Groups};
use alertstream::archive::{Archive, ArchiveOptions};
use alertstream::decode::Decoder;
use alertstream::query::{NightStart, Query, QueryText};
use alertstream::record::SourceId;
use alertstream::source::archive::{ArchiveConfig, ArchiveSource};
use alertstream::stream::{StreamConfig, open};
use futures::StreamExt;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Reads the night's alerts that nobody of the group has read yet; gives how many there were.
pub(crate) async fn replay(url: &str, group: &str, night: &str) -> Result<u64, AnyError> {
    let archive = Archive::connect(url, &ArchiveOptions::default()).await?;
    let query = Query::parse(&QueryText::new().with("night", night)?, NightStart::default())?;
    let group = Groups::new(&archive)
        .join_or_create(group, Some(&query), DEFAULT_BLOCK_SIZE)
        .await?;
    let source = ArchiveSource::new(SourceId::new("replay"), archive, group, ArchiveConfig::default());
    let decoder = Decoder::bundled();

    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    while let Some(delivery) = alerts.next().await {
        let delivery = delivery?;
        match decoder.decode(&delivery.get().payload) {
            Ok(packet) => {
                let header = packet.header();
                println!("{} {:?} {:?}", delivery.position(), header.object_id, header.magnitude);
                delivery.ack(); // dropped instead, it would be delivered again
            }
            Err(error) => delivery.reject(error.to_string()), // becomes a dead letter
        }
    }
    Ok(control.shutdown(Duration::from_secs(10)).await?.acked) // the last commit is confirmed
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, group, night] = args.as_slice() else {
        return Err("give the database's URL, a group's name and a night".into());
    };
    println!("{} alerts", replay(url, group, night).await?);
    Ok(())
}
