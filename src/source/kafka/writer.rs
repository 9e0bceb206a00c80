//! Sending to a topic: bytes as they are, bounded memory, every message confirmed or named as failed.
//!
//! Invariants: at most 64 MiB wait in the client; `finish` says whether all of it arrived. Must not know where the
//! packets come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use super::client::Clients;
use super::error::{LiveError, Trouble, trouble};
use super::heard;
use crate::units::counted;

/// How long a send waits for room before it fails: nothing arrives any more.
const ROOM_WITHIN: Duration = Duration::from_secs(60);

/// How long a topic may take to appear.
const APPEARS_WITHIN: Duration = Duration::from_secs(3);

/// How long the brokers may take to answer before a topic is made.
const REACH_WITHIN: Duration = Duration::from_secs(20);

/// Sends to one topic. Its calls block; run them off the async threads.
pub struct TopicWriter {
    producer: ThreadedProducer<Confirmations>,
    confirmed: Confirmations,
    topic: String,
}

#[derive(Clone, Default)]
struct Confirmations {
    arrived: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    last: Arc<Mutex<Option<String>>>,
}

impl ClientContext for Confirmations {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(target: "librdkafka", facility, ?level, "{text}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, %reason, "the producer's connection has trouble");
        *self.last.lock() = Some(reason.to_owned());
    }
}

impl ProducerContext for Confirmations {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => self.arrived.fetch_add(1, Ordering::Relaxed),
            Err((error, _)) => {
                *self.last.lock() = Some(error.to_string());
                self.failed.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
}

impl TopicWriter {
    /// Makes a writer, and waits for a broker's first answer so that a wrong address is an error at once.
    ///
    /// # Errors
    /// No broker answers within `within`; the topic does not exist; a setting is not valid.
    pub fn connect(clients: &Clients, topic: &str, within: Duration) -> Result<Self, LiveError> {
        drop(heard::connect(clients, "", within)?);
        let confirmed = Confirmations::default();
        let made = clients.producer().create_with_context(confirmed.clone());
        let producer: ThreadedProducer<Confirmations> =
            made.map_err(|error| LiveError::call("make the producer", &error))?;
        let until = std::time::Instant::now() + APPEARS_WITHIN;
        loop {
            let found = producer.client().fetch_metadata(Some(topic), within);
            let found = found.map_err(|error| LiveError::call("ask for the topic", &error))?;
            let mut missing = found.topics().iter().filter_map(|known| known.error());
            if !missing.any(|error| trouble(error.into()) == Trouble::Absent) {
                break;
            }
            // A broker that makes topics by itself, or was asked to just now, says so for a moment too.
            if std::time::Instant::now() >= until {
                let topic = topic.to_owned();
                return Err(LiveError::NoSuchTopic { topic });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(Self {
            producer,
            confirmed,
            topic: topic.to_owned(),
        })
    }

    /// Sends one message; waits while the client is full.
    ///
    /// # Errors
    /// The message is too large for the settings, or there was no room for a minute.
    pub fn send(&self, key: Option<&[u8]>, payload: &[u8]) -> Result<(), LiveError> {
        let until = std::time::Instant::now() + ROOM_WITHIN;
        let mut record = BaseRecord::<[u8], [u8]>::to(&self.topic).payload(payload);
        if let Some(key) = key {
            record = record.key(key);
        }
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if std::time::Instant::now() < until =>
                {
                    record = back;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err((error, _)) => return Err(LiveError::call("send a message", &error)),
            }
        }
    }

    /// Gives how many messages the broker confirmed.
    pub fn arrived(&self) -> u64 {
        self.confirmed.arrived.load(Ordering::Relaxed)
    }

    /// Waits until everything sent is confirmed.
    ///
    /// # Errors
    /// Something did not arrive, or not in time; says how many and why.
    pub fn finish(&self, within: Duration) -> Result<(), LiveError> {
        let flushed = self.producer.flush(within);
        let failed = self.confirmed.failed.load(Ordering::Relaxed);
        if failed > 0 {
            let last = self.confirmed.last.lock().take().unwrap_or_default();
            let cause = format!(
                "{} to `{}` did not arrive: {last}",
                counted(failed, "message"),
                self.topic
            );
            return Err(LiveError::Call {
                doing: "send everything",
                cause,
            });
        }
        flushed.map_err(|error| LiveError::call("send everything in time", &error))
    }
}

/// Creates a topic with this many partitions; one that exists stays as it is.
///
/// # Errors
/// No broker answers; it refuses (permissions, a broker without admin requests).
///
/// # Cancel safety
/// The request may have been carried out.
pub async fn create_topic(clients: &Clients, topic: &str, partitions: i32) -> Result<(), LiveError> {
    let (asking, within) = (clients.clone(), REACH_WITHIN);
    let reached = tokio::task::spawn_blocking(move || heard::connect(&asking, "", within).map(drop));
    match reached.await {
        Ok(reached) => reached?,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
    let admin: Result<AdminClient<DefaultClientContext>, _> = clients.admin().create();
    let admin = admin.map_err(|error| LiveError::call("make the admin client", &error))?;
    let wanted = NewTopic::new(topic, partitions, TopicReplication::Fixed(-1));
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    let done = admin.create_topics([&wanted], &options).await;
    let done = done.map_err(|error| LiveError::call("create the topic", &error))?;
    match done.into_iter().next() {
        None | Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
        Some(Err((_, code))) => Err(LiveError::Call {
            doing: "create the topic",
            cause: format!("`{topic}`: {code}"),
        }),
    }
}
