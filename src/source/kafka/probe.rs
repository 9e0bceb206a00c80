//! A look at a cluster with a consumer's eyes, without joining its group: for `doctor`.
//!
//! Invariants: nothing is committed, created or joined; each question is bounded in time. The calls block: run them off
//! the async threads. Must not know of sources.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;

use super::ask::{self, ASK_WITHIN, Part};
use super::client::Clients;
use super::error::LiveError;
use super::heard::{self, Heard};
use super::lanes::lane_of;
use super::topics::{Found, Topics};

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
        Ok(Self {
            consumer: heard::connect(clients, group, within)?,
            group: group.to_owned(),
            user: clients.user().map(str::to_owned),
        })
    }

    /// Gives which topics are there.
    ///
    /// # Errors
    /// No topic matches a regular expression; a topic may not be read; the question was not answered.
    pub fn find(&self, topics: &Topics) -> Result<Found, LiveError> {
        let found = topics.find(&self.consumer);
        found.map_err(|error| error.of_user(self.user.as_deref()))
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
