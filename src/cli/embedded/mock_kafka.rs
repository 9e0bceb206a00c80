//! librdkafka's mock cluster in this process: real protocol on loopback, no packages, starts at once.
//!
//! Owns the cluster for as long as it lives; it must be dropped after every client that talks to it. Its limits (no
//! admin, no SASL, 5 MiB a partition, no seek by time) are librdkafka's. Must not know of sources or of commands.
#![allow(unsafe_code)] // one raw call: the safe binding does not have the group's initial rebalance delay

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::bindings::{rd_kafka_handle_mock_cluster, rd_kafka_mock_group_initial_rebalance_delay_ms};
use rdkafka::client::Client;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

/// What one partition keeps before the oldest messages go (bytes); hard-coded in librdkafka.
pub const PARTITION_BYTES_MAX: u64 = 5 * 1024 * 1024;

/// A running mock cluster of one broker.
pub struct MockKafka {
    /// The client that librdkafka hangs the cluster on: dropping it ends the cluster.
    host: BaseProducer,
    bootstrap: String,
}

impl MockKafka {
    /// Starts a cluster of one broker on a port of the kernel's choice, without the usual wait before a group's first
    /// rebalance.
    ///
    /// # Errors
    /// When librdkafka cannot start it (no loopback socket).
    pub fn start() -> Result<Self, KafkaError> {
        let host: BaseProducer = ClientConfig::new().set("test.mock.num.brokers", "1").create()?;
        let native = host.client().native_ptr();
        // SAFETY: `native` is a live client created with `test.mock.num.brokers`, so its mock cluster exists (checked
        // against null) and lives as long as the client, which `host` keeps; the call only stores an integer in it
        // under librdkafka's own lock.
        unsafe {
            let cluster = rd_kafka_handle_mock_cluster(native);
            if cluster.is_null() {
                return Err(KafkaError::MockCluster(RDKafkaErrorCode::Fail));
            }
            rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0);
        }
        let bootstrap = cluster(host.client())?.bootstrap_servers();
        Ok(Self { host, bootstrap })
    }

    /// Gives the address for `bootstrap.servers`.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// When it exists already.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), KafkaError> {
        cluster(self.host.client())?.create_topic(topic, partitions, 1)
    }

    /// Drops every connection and refuses new ones until [`MockKafka::up`].
    ///
    /// # Errors
    /// When librdkafka refuses.
    pub fn down(&self) -> Result<(), KafkaError> {
        cluster(self.host.client())?.broker_down(-1)
    }

    /// Accepts connections again.
    ///
    /// # Errors
    /// When librdkafka refuses.
    pub fn up(&self) -> Result<(), KafkaError> {
        cluster(self.host.client())?.broker_up(-1)
    }

    /// Answers the next requests of a kind with these errors, in order.
    ///
    /// # Errors
    /// When the cluster is gone.
    pub fn fail_next(&self, requests: RDKafkaApiKey, errors: &[RDKafkaRespErr]) -> Result<(), KafkaError> {
        cluster(self.host.client())?.request_errors(requests, errors);
        Ok(())
    }

    /// Lets every metadata answer for the topic carry this error.
    ///
    /// # Errors
    /// When the cluster is gone.
    pub fn topic_error(&self, topic: &str, error: RDKafkaRespErr) -> Result<(), KafkaError> {
        cluster(self.host.client())?.topic_error(topic, error)
    }

    /// Delays every answer by this much.
    ///
    /// # Errors
    /// When librdkafka refuses.
    pub fn round_trip(&self, delay: Duration) -> Result<(), KafkaError> {
        cluster(self.host.client())?.broker_round_trip_time(-1, delay)
    }
}

fn cluster(host: &Client<DefaultProducerContext>) -> Result<MockCluster<'_, DefaultProducerContext>, KafkaError> {
    host.mock_cluster()
        .ok_or(KafkaError::MockCluster(RDKafkaErrorCode::Fail))
}

/// Gives how many partitions hold this many bytes without losing the oldest, with half to spare.
pub fn partitions_for(bytes: u64) -> i32 {
    let wanted = bytes.div_ceil(PARTITION_BYTES_MAX / 2).clamp(1, 512);
    i32::try_from(wanted).unwrap_or(512)
}

/// Gives the client settings that make consumers of the mock quick: short sessions and fetch waits.
pub fn fast_settings() -> BTreeMap<String, String> {
    [
        ("fetch.wait.max.ms", "10"),
        ("session.timeout.ms", "6000"),
        ("heartbeat.interval.ms", "100"),
        ("topic.metadata.refresh.interval.ms", "500"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mock_cluster_answers_on_loopback_and_keeps_its_topics() {
        let mock = MockKafka::start().unwrap();
        assert!(mock.bootstrap().starts_with("127.0.0.1:"));
        mock.create_topic("night", 7).unwrap();
        let client: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", mock.bootstrap())
            .create()
            .unwrap();
        let found = client
            .client()
            .fetch_metadata(Some("night"), Duration::from_secs(10))
            .unwrap();
        assert_eq!(found.topics()[0].partitions().len(), 7);
    }

    #[test]
    fn enough_partitions_are_asked_for() {
        assert_eq!(partitions_for(0), 1);
        assert_eq!(partitions_for(100 * 1024 * 1024), 40);
        assert_eq!(partitions_for(u64::MAX), 512);
    }
}
