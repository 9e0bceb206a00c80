//! Brokers for the tests, topics of their own, producing, and small readers of a stream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use alertstream::cli::embedded::mock_kafka::{MockKafka, fast_settings};
use alertstream::delivery::Delivery;
use alertstream::record::{RawAlert, SourceId};
use alertstream::source::kafka::client::{Clients, PassThrough};
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::place::{End, Start};
use alertstream::source::kafka::{KafkaSource, Timing};
use alertstream::stream::{AlertStream, StreamConfig, StreamControl, open};
use futures::StreamExt;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};

/// A bound for everything that must happen: a hang fails, nothing is measured with it.
pub(crate) const SOON: Duration = Duration::from_secs(60);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Gives a name that nothing else uses.
pub(crate) fn fresh(what: &str) -> String {
    format!(
        "{what}-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    )
}

/// Shows logs with `RUST_LOG`, for a person.
fn show_logs() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_test_writer()
        .try_init();
}

/// A broker to test against.
pub(crate) struct Broker {
    pub(crate) bootstrap: String,
    pub(crate) mock: Option<MockKafka>,
}

impl Broker {
    /// Starts a mock cluster.
    pub(crate) fn mock() -> Self {
        show_logs();
        let mock = MockKafka::start().unwrap();
        Self {
            bootstrap: mock.bootstrap().to_owned(),
            mock: Some(mock),
        }
    }

    /// Gives the real broker, or says that the test is skipped.
    pub(crate) fn real(test: &str) -> Option<Self> {
        show_logs();
        let bootstrap = std::env::var("KAFKA_BOOTSTRAP_SERVERS").ok();
        if bootstrap.is_none() {
            println!("skipped: {test} (no broker)");
        }
        bootstrap.map(|bootstrap| Self { bootstrap, mock: None })
    }

    /// Makes a topic of its own.
    pub(crate) async fn topic(&self, partitions: i32) -> String {
        let name = fresh("topic");
        self.create(&name, partitions, &[]).await;
        name
    }

    /// Makes a topic with a name and settings.
    pub(crate) async fn create(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        if let Some(mock) = &self.mock {
            mock.create_topic(name, partitions).unwrap();
            return;
        }
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(SOON));
        self.admin()
            .create_topics([&topic], &options)
            .await
            .unwrap()
            .remove(0)
            .unwrap();
    }

    pub(crate) fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.clients().admin().create().unwrap()
    }

    fn clients(&self) -> Clients {
        Clients::new(std::slice::from_ref(&self.bootstrap), &PassThrough::default()).unwrap()
    }

    pub(crate) fn producer(&self) -> FutureProducer {
        let mut config = self.clients().producer();
        config.set("linger.ms", "0").create().unwrap()
    }

    /// Sends `count` messages to each partition: payload `PARTITION:NUMBER`.
    pub(crate) async fn fill(&self, topic: &str, partitions: i32, numbers: std::ops::Range<usize>) {
        let producer = self.producer();
        let mut sent = Vec::new();
        for number in numbers {
            for partition in 0..partitions {
                let payload = format!("{partition}:{number}");
                let record = FutureRecord::<str, str>::to(topic)
                    .partition(partition)
                    .payload(&payload);
                sent.push(
                    producer
                        .send_result(record.headers(OwnedHeaders::new()))
                        .map_err(|(e, _)| e)
                        .unwrap(),
                );
            }
        }
        for sent in sent {
            sent.await.unwrap().unwrap();
        }
    }

    /// Gives the configuration of a source of this broker, with quick timings.
    pub(crate) fn config(&self, topics: &[&str]) -> LiveConfig {
        let mut config = LiveConfig::new(&self.bootstrap, topics);
        let mut settings: BTreeMap<String, String> = fast_settings();
        if self.mock.is_none() {
            settings.insert("session.timeout.ms".into(), "6000".into());
        }
        config.librdkafka = PassThrough::new(settings);
        config
    }

    /// Gives what a group committed for the partitions of a topic, -1 for none.
    pub(crate) fn committed(&self, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
        let consumer: BaseConsumer = self.clients().consumer(group, 1).create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions - 1);
        let found = consumer.committed_offsets(list, SOON).unwrap();
        let offset = |p| found.find_partition(topic, p).map(|element| element.offset());
        (0..partitions)
            .map(|p| {
                if let Some(Offset::Offset(at)) = offset(p) {
                    at
                } else {
                    -1
                }
            })
            .collect()
    }
}

/// Gives timings for tests: quick to notice.
pub(crate) fn quick() -> Timing {
    Timing {
        connect_within: Duration::from_secs(20),
        refresh_every: Duration::from_millis(200),
        ..Timing::default()
    }
}

/// Makes a source.
pub(crate) fn source(group: &str, config: LiveConfig) -> KafkaSource {
    KafkaSource::new(SourceId::new("live"), group, config)
        .unwrap()
        .with_timing(quick())
}

/// Opens a source with the default settings of a stream.
pub(crate) fn stream(group: &str, config: LiveConfig) -> (AlertStream, StreamControl) {
    open(Box::new(source(group, config)), StreamConfig::default())
}

/// A configuration that reads from the earliest to the present end.
pub(crate) fn bounded(mut config: LiveConfig) -> LiveConfig {
    config.start = Start::Earliest;
    config.end = End::Now;
    config
}

/// Waits until something is so: a hang fails.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.expect("soon");
}

/// Takes the next delivery, soon.
pub(crate) async fn next(alerts: &mut AlertStream) -> Delivery<RawAlert> {
    tokio::time::timeout(SOON, alerts.next())
        .await
        .expect("soon")
        .expect("not the end")
        .expect("no failure")
}

/// Takes deliveries, acks each, and gives their payloads as text until the stream ends.
pub(crate) async fn drain(alerts: &mut AlertStream) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(delivery) = tokio::time::timeout(SOON, alerts.next()).await.expect("soon") {
        let delivery = delivery.expect("no failure");
        seen.push(text(&delivery));
        delivery.ack();
    }
    seen
}

/// Gives a delivery's payload as text.
pub(crate) fn text(delivery: &Delivery<RawAlert>) -> String {
    String::from_utf8(delivery.get().payload.to_vec()).unwrap()
}

/// Makes two tests of one: on the mock cluster, and on the real broker where there is one.
macro_rules! both {
    ($name:ident, $body:ident) => {
        mod $name {
            use super::super::broker::Broker;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mock() {
                super::$body(&Broker::mock()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn real() {
                if let Some(broker) = Broker::real(concat!(stringify!($name), "::real")) {
                    super::$body(&broker).await;
                }
            }
        }
    };
}
pub(crate) use both;
