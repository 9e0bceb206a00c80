//! A group seen from outside: how far it is behind, and moving it while nobody is in it.
//!
//! Invariant: a group with members is never moved. The calls block, each question bounded in time; run them off the
//! async threads. Must not know of sources.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, Timestamp};
use serde::Serialize;

use super::ask::{self, Part};
use super::client::Clients;
use super::error::LiveError;
use super::gaps::ResetPolicy;
use super::heard::{self, Heard};
use super::lanes::lane_of;
use super::nights::{NightStart, TopicPattern};
use super::place::{Mark, Start};
use super::retention;
use super::starts::{self, Commits, StartPlan};
use super::topics::{Found, Topics};

/// How far a group is in one partition.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PartitionLag {
    /// `kafka:TOPIC/PARTITION`.
    pub lane: String,
    /// What the group committed: the next offset it reads.
    pub committed: Option<i64>,
    /// The oldest offset kept.
    pub low: i64,
    /// One after the newest.
    pub high: i64,
    /// Messages behind.
    pub lag: u64,
    /// Broker time of the next message to read.
    pub next_at: Option<DateTime<Utc>>,
    /// Hours until retention may delete that message by its age; below zero it is overdue. Nothing where nothing is
    /// behind, the topic keeps for ever, or the brokers do not tell. Retention by size may come earlier.
    pub retention_headroom_hours: Option<f64>,
}

/// A group on a cluster, without joining it.
pub struct GroupView {
    consumer: BaseConsumer<Heard>,
    clients: Clients,
    group: String,
}

impl GroupView {
    /// Connects.
    ///
    /// # Errors
    /// No broker answers within `within`, or the credentials are refused.
    pub fn connect(clients: &Clients, group: &str, within: Duration) -> Result<Self, LiveError> {
        Ok(Self {
            consumer: heard::connect(clients, group, within)?,
            clients: clients.clone(),
            group: group.to_owned(),
        })
    }

    /// Gives which topics are there.
    ///
    /// # Errors
    /// No topic matches a regular expression; a topic may not be read; a question was not answered.
    pub fn find(&self, topics: &Topics) -> Result<Found, LiveError> {
        let found = topics.find(&self.consumer);
        found.map_err(|error| error.of_user(self.clients.user()))
    }

    /// Gives how far the group is in each partition of the topics; with no topic named, in all that it has a commit for.
    ///
    /// # Errors
    /// None of the topics exists; no topic is named and the group has no commit; a question was not answered.
    pub fn lag(&self, topics: &[String]) -> Result<Vec<PartitionLag>, LiveError> {
        self.look(topics)
            .map_err(|error| error.of(&self.group, self.clients.user()))
    }

    fn look(&self, topics: &[String]) -> Result<Vec<PartitionLag>, LiveError> {
        let named = !topics.is_empty();
        let topics = if named { topics.to_vec() } else { self.all_topics()? };
        let mut parts = ask::partitions(&self.consumer, &topics)?;
        let committed = ask::committed(&self.consumer, &parts)?;
        parts.retain(|part| named || committed.contains_key(part));
        match (parts.is_empty(), topics.first().filter(|_| named)) {
            (false, _) => {}
            (true, Some(topic)) => return Err(LiveError::NoSuchTopic { topic: topic.clone() }),
            (true, None) => {
                return Err(LiveError::NoCommits {
                    group: self.group.clone(),
                });
            }
        }
        parts.sort();
        let marks = ask::watermarks(&self.consumer, &parts)?;
        let behind = parts.iter().filter_map(|part| {
            let marks = marks.get(part)?;
            let committed = committed.get(part).copied();
            let next = committed.unwrap_or(marks.low).clamp(marks.low, marks.high);
            Some((part, marks, committed, next))
        });
        let behind: Vec<_> = behind.collect();
        let unread: Vec<(Part, i64)> = behind
            .iter()
            .filter(|(_, marks, _, next)| *next < marks.high)
            .map(|(p, _, _, n)| ((*p).clone(), *n))
            .collect();
        let times = self.times(&unread)?;
        let kept = self.retention(&unread);
        let now = Utc::now();
        let headroom = |part: &Part| {
            let goes_at = *times.get(part)? + *kept.get(&*part.topic)?;
            Some((goes_at - now).as_seconds_f64() / 3600.0)
        };
        let lag = |(part, marks, committed, next): (&Part, &super::gaps::Watermarks, Option<i64>, i64)| PartitionLag {
            lane: lane_of(part).to_string(),
            committed,
            low: marks.low,
            high: marks.high,
            lag: u64::try_from(marks.high - next).unwrap_or(0),
            next_at: times.get(part).copied(),
            retention_headroom_hours: headroom(part),
        };
        Ok(behind.into_iter().map(lag).collect())
    }

    /// How long the topics of unread messages keep them.
    fn retention(&self, unread: &[(Part, i64)]) -> HashMap<String, chrono::Duration> {
        let topics: BTreeSet<&str> = unread.iter().map(|(part, _)| &*part.topic).collect();
        if topics.is_empty() {
            return HashMap::new();
        }
        retention::by_time(&self.clients, &topics.into_iter().collect::<Vec<_>>())
    }

    /// Reads the times of single messages, within two seconds for all of them.
    fn times(&self, wanted: &[(Part, i64)]) -> Result<HashMap<Part, DateTime<Utc>>, LiveError> {
        let mut times = HashMap::new();
        if wanted.is_empty() {
            return Ok(times);
        }
        let list = ask::list(wanted.iter().map(|(part, offset)| (part, Offset::Offset(*offset))))?;
        self.consumer
            .assign(&list)
            .map_err(|error| LiveError::call("read the next messages", &error))?;
        let until = std::time::Instant::now() + Duration::from_secs(2);
        while times.len() < wanted.len() && std::time::Instant::now() < until {
            let Some(Ok(message)) = self.consumer.poll(Duration::from_millis(50)) else {
                continue;
            };
            let part = Part {
                topic: message.topic().into(),
                partition: message.partition(),
            };
            if let Timestamp::CreateTime(at) | Timestamp::LogAppendTime(at) = message.timestamp()
                && let Some(at) = DateTime::from_timestamp_millis(at)
            {
                times.entry(part).or_insert(at);
            }
        }
        self.consumer
            .unassign()
            .map_err(|error| LiveError::call("stop reading", &error))?;
        Ok(times)
    }

    fn all_topics(&self) -> Result<Vec<String>, LiveError> {
        let found = self.consumer.fetch_metadata(None, ask::ASK_WITHIN);
        let found = found.map_err(|error| LiveError::call("list the topics", &error))?;
        let names = found.topics().iter().map(|topic| topic.name().to_owned());
        Ok(names.filter(|name| !name.starts_with("__")).collect())
    }

    /// Moves the group to a position in every partition of the topics; gives the new offsets. With [`Start::Offsets`] only
    /// the partitions that it names move, and the topics do not count.
    ///
    /// # Errors
    /// The group has members; a topic or partition does not exist; a question was not answered.
    pub fn seek(&self, topics: &[String], to: &Start, nights: NightStart) -> Result<Vec<(String, i64)>, LiveError> {
        self.go_to(topics, to, nights)
            .map_err(|error| error.of(&self.group, self.clients.user()))
    }

    fn go_to(&self, topics: &[String], to: &Start, nights: NightStart) -> Result<Vec<(String, i64)>, LiveError> {
        let members = ask::members(&self.consumer, &self.group)?;
        if members > 0 {
            return Err(LiveError::GroupInUse {
                group: self.group.clone(),
                members,
            });
        }
        let parts = self.moved(topics, to)?;
        let plan = StartPlan {
            start: to.clone(),
            on_reset: ResetPolicy::Stop,
            nights,
            patterns: topics.iter().map(|topic| TopicPattern::parse(topic)).collect(),
            known: None,
            rewound: Default::default(),
        };
        let placed = starts::place(&self.consumer, &parts, &plan, Commits::Ignored)?;
        let mut offsets: Vec<(Part, i64)> = placed.into_iter().map(|placed| (placed.part, placed.offset)).collect();
        offsets.sort();
        ask::commit_for(&self.consumer, &offsets)?;
        Ok(offsets
            .into_iter()
            .map(|(part, offset)| (lane_of(&part).to_string(), offset))
            .collect())
    }

    /// Gives the partitions that a seek moves; all that is named exists.
    fn moved(&self, topics: &[String], to: &Start) -> Result<Vec<Part>, LiveError> {
        let marks: &[Mark] = match to {
            Start::Offsets(marks) => marks,
            _ => &[],
        };
        let of_marks: BTreeSet<String> = marks.iter().map(|mark| mark.topic.clone()).collect();
        let topics = if marks.is_empty() {
            topics.to_vec()
        } else {
            of_marks.into_iter().collect()
        };
        let mut parts = ask::partitions(&self.consumer, &topics)?;
        if let Some(topic) = topics
            .iter()
            .find(|topic| !parts.iter().any(|part| *part.topic == ***topic))
        {
            return Err(LiveError::NoSuchTopic { topic: topic.clone() });
        }
        let is_of = |part: &Part, mark: &Mark| *part.topic == *mark.topic && part.partition == mark.partition;
        if let Some(mark) = marks.iter().find(|mark| !parts.iter().any(|part| is_of(part, mark))) {
            return Err(LiveError::NoSuchPartition {
                topic: mark.topic.clone(),
                partition: mark.partition,
            });
        }
        parts.retain(|part| marks.is_empty() || marks.iter().any(|mark| is_of(part, mark)));
        Ok(parts)
    }
}
