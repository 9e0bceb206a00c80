//! A look at a cluster with a consumer's eyes, without joining its group: for `doctor`.
//!
//! Invariants: nothing is committed, created or joined; each question is bounded in time. The calls block: run them off
//! the async threads. Must not know of sources.

use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{ClientContext, Offset};

use super::ask::{self, ASK_WITHIN, Part};
use super::client::Clients;
use super::error::LiveError;
use super::lanes::lane_of;
use super::troubles::Troubles;

/// Keeps what the brokers say of credentials and rights.
struct Heard(Mutex<Troubles>);

impl ClientContext for Heard {
    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.0.lock().event(code, reason, Instant::now());
    }
}

impl ConsumerContext for Heard {}

/// A connected client that asks.
pub struct Probe {
    consumer: BaseConsumer<Heard>,
    group: String,
    user: Option<String>,
}

impl Probe {
    /// Connects as a consumer of the group would.
    ///
    /// # Errors
    /// No broker answers within `within`, or the credentials are refused.
    pub fn connect(clients: &Clients, group: &str, within: Duration) -> Result<Self, LiveError> {
        let user = clients.user();
        let heard = Heard(Mutex::new(Troubles::new(group, user)));
        let made = clients.consumer(group, 0).create_with_context(heard);
        let consumer: BaseConsumer<Heard> = made.map_err(|error| LiveError::call("make the client", &error))?;
        let begun = Instant::now();
        while let Err(error) = consumer.fetch_metadata(None, Duration::from_secs(1)) {
            // Serves the error events: refused credentials are among them.
            while consumer.poll(Duration::ZERO).is_some() {}
            let mut troubles = consumer.context().0.lock();
            if let Some(fatal) = troubles.fatal(Instant::now()) {
                return Err(fatal);
            }
            if begun.elapsed() >= within {
                return Err(LiveError::Unreachable {
                    brokers: clients.brokers().to_owned(),
                    waited: within,
                    cause: troubles.last().map_or_else(|| error.to_string(), str::to_owned),
                });
            }
        }
        Ok(Self {
            consumer,
            group: group.to_owned(),
            user: user.map(str::to_owned),
        })
    }

    /// Gives the names of all topics that the user may see and that a regular expression (`^...`) matches. The brokers'
    /// own rules for expressions differ from these in what names of topics do not need.
    ///
    /// # Errors
    /// The expression is not one; the question was not answered.
    pub fn matching(&self, expression: &str) -> Result<Vec<String>, LiveError> {
        let regex = regex::Regex::new(expression).map_err(|_| LiveError::Regex {
            text: expression.to_owned(),
        })?;
        let found = self.consumer.fetch_metadata(None, ASK_WITHIN);
        let found = found.map_err(|error| LiveError::call("ask for the topics", &error))?;
        let names = found.topics().iter().map(|topic| topic.name().to_owned());
        Ok(names.filter(|name| regex.is_match(name)).collect())
    }

    /// Gives which of the topics exist, each with its number of partitions.
    ///
    /// # Errors
    /// A topic may not be read; the question was not answered.
    pub fn existing(&self, topics: &[String]) -> Result<Vec<(String, usize)>, LiveError> {
        let parts = self.parts(topics)?;
        let count = |topic: &String| parts.iter().filter(|part| *part.topic == **topic).count();
        let counted = topics.iter().map(|topic| (topic.clone(), count(topic)));
        Ok(counted.filter(|(_, partitions)| *partitions > 0).collect())
    }

    /// Gives in how many partitions of the topics the group has a commit: a question that needs a right to the group.
    ///
    /// # Errors
    /// The user may not use the group; the question was not answered.
    pub fn commits(&self, topics: &[String]) -> Result<usize, LiveError> {
        let parts = self.parts(topics)?;
        let asked = ask::list(parts.iter().map(|part| (part, Offset::Invalid)))?;
        let answered = self.consumer.committed_offsets(asked, ASK_WITHIN);
        let list = answered.map_err(|error| match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::GroupAuthorizationFailed) => LiveError::GroupDenied {
                group: self.group.clone(),
                user: self.user.clone(),
                cause: error.to_string(),
            },
            _ => LiveError::call("ask for the group's commits", &error),
        })?;
        let elements = list.elements();
        let committed = elements.iter().filter(|e| matches!(e.offset(), Offset::Offset(_)));
        Ok(committed.count())
    }

    /// Reads the last message of some partition; gives its place and payload, or nothing when none came in time.
    ///
    /// # Errors
    /// The brokers refuse to be read.
    pub fn newest(&self, topics: &[String], within: Duration) -> Result<Option<(String, Bytes)>, LiveError> {
        let marks = ask::watermarks(&self.consumer, &self.parts(topics)?)?;
        let filled = marks.iter().filter(|(_, marks)| marks.high > marks.low);
        let last = ask::list(filled.map(|(part, marks)| (part, Offset::Offset(marks.high - 1))))?;
        if last.count() == 0 {
            return Ok(None);
        }
        let reading = |error| LiveError::call("read a message", &error);
        self.consumer.assign(&last).map_err(reading)?;
        let (until, mut found) = (Instant::now() + within, Ok(None));
        while matches!(found, Ok(None)) && Instant::now() < until {
            found = match self.consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => Ok(message.payload().map(|payload| {
                    let part = Part {
                        topic: message.topic().into(),
                        partition: message.partition(),
                    };
                    let place = format!("{}/{}", lane_of(&part), message.offset());
                    (place, Bytes::copy_from_slice(payload))
                })),
                Some(Err(error)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                    Err(reading(error))
                }
                _ => Ok(None),
            };
        }
        self.consumer.unassign().map_err(reading)?;
        found
    }

    fn parts(&self, topics: &[String]) -> Result<Vec<Part>, LiveError> {
        ask::partitions(&self.consumer, topics).map_err(|error| error.of_user(self.user.as_deref()))
    }
}
