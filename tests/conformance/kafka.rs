//! The suite on the Kafka source: on librdkafka's mock cluster everywhere, and on a real broker where
//! `KAFKA_BOOTSTRAP_SERVERS` names one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use alertstream::cli::embedded::mock_kafka::{MockKafka, fast_settings};
use alertstream::dead_letter::MemoryStore;
use alertstream::record::SourceId;
use alertstream::source::Source;
use alertstream::source::kafka::client::{Clients, PassThrough};
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::place::{End, Start};
use alertstream::source::kafka::{KafkaSource, Timing};
use alertstream::stream::StreamConfig;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::backend::{Backend, Kind, Spec, Topic, Works};

mod mock {
    suite!(
        tokio::test(flavor = "multi_thread", worker_threads = 2),
        super::start_mock
    );
}

mod real {
    suite!(
        tokio::test(flavor = "multi_thread", worker_threads = 2),
        super::start_real
    );
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

async fn start_mock() -> Result<Kafka, String> {
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_test_writer()
        .try_init();
    let mock = MockKafka::start().unwrap();
    Ok(Kafka {
        bootstrap: mock.bootstrap().to_owned(),
        mock: Some(Arc::new(mock)),
    })
}

async fn start_real() -> Result<Kafka, String> {
    let bootstrap = std::env::var("KAFKA_BOOTSTRAP_SERVERS").map_err(|_| "no broker".to_owned())?;
    Ok(Kafka { bootstrap, mock: None })
}

/// A broker. A mock must outlive the clients of its topics, so that each topic holds it too.
struct Kafka {
    bootstrap: String,
    mock: Option<Arc<MockKafka>>,
}

impl Kafka {
    fn clients(&self) -> Clients {
        Clients::new(std::slice::from_ref(&self.bootstrap), &PassThrough::default()).unwrap()
    }

    async fn create(&self, name: &str, partitions: i32) {
        if let Some(mock) = &self.mock {
            return mock.create_topic(name, partitions).unwrap();
        }
        let admin: AdminClient<DefaultClientContext> = self.clients().admin().create().unwrap();
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        admin
            .create_topics([&topic], &options)
            .await
            .unwrap()
            .remove(0)
            .unwrap();
    }
}

impl Backend for Kafka {
    fn kind(&self) -> Kind {
        Kind::Kafka
    }

    fn topic(&self, spec: Spec) -> BoxFuture<'_, Arc<dyn Topic>> {
        async move {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("suite-{}-{number}", std::process::id());
            let partitions = i32::try_from(spec.lanes).unwrap();
            self.create(&name, partitions).await;
            let alert = |n: usize| Bytes::from(format!("{n:08}{}", "x".repeat(spec.bytes)));
            let topic = Shared {
                bootstrap: self.bootstrap.clone(),
                payloads: (0..spec.alerts).map(alert).collect(),
                producer: self.clients().producer().set("linger.ms", "0").create().unwrap(),
                name,
                store: MemoryStore::new(),
                mock: self.mock.clone(),
            };
            for (number, payload) in (0..).zip(&topic.payloads) {
                topic.send(number % partitions, payload).await;
            }
            Arc::new(topic) as Arc<dyn Topic>
        }
        .boxed()
    }
}

/// Fields drop in this order: the clients before the mock.
struct Shared {
    producer: FutureProducer,
    bootstrap: String,
    name: String,
    payloads: Vec<Bytes>,
    store: MemoryStore,
    mock: Option<Arc<MockKafka>>,
}

impl Shared {
    async fn send(&self, partition: i32, payload: &Bytes) {
        let record = FutureRecord::<(), [u8]>::to(&self.name)
            .partition(partition)
            .payload(payload);
        self.producer.send(record, Duration::from_secs(30)).await.unwrap();
    }
}

impl Topic for Shared {
    fn payloads(&self) -> Vec<Bytes> {
        self.payloads.clone()
    }

    fn consumer(&self) -> BoxFuture<'_, Box<dyn Source>> {
        let mut config = LiveConfig::new(&self.bootstrap, &[&self.name]);
        (config.start, config.end) = (Start::Earliest, End::Now);
        let mut settings = fast_settings();
        if self.mock.is_none() {
            settings.insert("session.timeout.ms".into(), "6000".into());
        }
        config.librdkafka = PassThrough::new(settings);
        let timing = Timing {
            refresh_every: Duration::from_millis(500),
            ..Timing::default()
        };
        let source = KafkaSource::new(SourceId::new("suite"), &format!("{}-group", self.name), config);
        ready(Box::new(source.unwrap().with_timing(timing)) as Box<dyn Source>).boxed()
    }

    fn config(&self) -> StreamConfig {
        StreamConfig {
            dead_letters: Arc::new(self.store.clone()),
            ..StreamConfig::default()
        }
    }

    fn dead_letters(&self) -> BoxFuture<'_, Vec<(Bytes, String)>> {
        let letters = self.store.letters().into_iter();
        ready(
            letters
                .map(|letter| (letter.raw.payload, letter.why.reason.into_owned()))
                .collect(),
        )
        .boxed()
    }

    fn store_works(&self, works: Works) {
        match works {
            Works::Yes => self.store.come_up(),
            Works::No => self.store.go_down(),
        }
    }

    fn push(&self, payload: Bytes) -> BoxFuture<'_, ()> {
        async move { self.send(0, &payload).await }.boxed()
    }

    fn rebalances_may_repeat(&self) -> bool {
        true
    }

    fn crowds(&self) -> Vec<usize> {
        // Each consumer is a client with threads of its own.
        vec![1, 2, 5, 16]
    }
}
