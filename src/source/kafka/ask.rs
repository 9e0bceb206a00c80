//! Questions to the brokers, each bounded in time: partitions, commits, watermarks, offsets at a time, members.
//!
//! Invariant: a `TopicPartitionList` lives no longer than its call (closing a consumer waits for every one of them).
//! Must not know what the answers are used for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::error::LiveError;
use super::gaps::Watermarks;

/// How long one question may take.
pub(crate) const ASK_WITHIN: Duration = Duration::from_secs(10);

/// One partition of a topic.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Part {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
}

/// Makes a list of partitions with an offset each, skipping those without one.
pub(crate) fn list<'a>(parts: impl IntoIterator<Item = (&'a Part, Offset)>) -> Result<TopicPartitionList, LiveError> {
    let mut list = TopicPartitionList::new();
    for (part, offset) in parts {
        list.add_partition_offset(&part.topic, part.partition, offset)
            .map_err(|error| LiveError::call("list the partitions", &error))?;
    }
    Ok(list)
}

/// Reads the partitions of a list.
pub(crate) fn parts_of(list: &TopicPartitionList) -> Vec<Part> {
    let elements = list.elements();
    elements
        .iter()
        .map(|e| Part {
            topic: e.topic().into(),
            partition: e.partition(),
        })
        .collect()
}

/// Gives the partitions of topics; a topic that does not exist has none.
pub(crate) fn partitions<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topics: &[String],
) -> Result<Vec<Part>, LiveError> {
    let mut parts = Vec::new();
    for topic in topics {
        let found = consumer.fetch_metadata(Some(topic), ASK_WITHIN);
        let found = found.map_err(|error| LiveError::call("ask for a topic's partitions", &error))?;
        for known in found.topics().iter().filter(|known| known.name() == topic) {
            if let Some(error) = known.error().map(RDKafkaErrorCode::from) {
                if error == RDKafkaErrorCode::TopicAuthorizationFailed {
                    return Err(LiveError::TopicDenied {
                        user: None,
                        cause: format!("`{topic}`: {error}"),
                    });
                }
                continue;
            }
            let name: Arc<str> = topic.as_str().into();
            parts.extend(known.partitions().iter().map(|p| Part {
                topic: name.clone(),
                partition: p.id(),
            }));
        }
    }
    Ok(parts)
}

/// Gives the names of all topics that the user may see and that a regular expression (`^...`) matches. The brokers' own
/// rules for expressions differ from these in what names of topics do not need.
pub(crate) fn matching<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    expression: &str,
) -> Result<Vec<String>, LiveError> {
    let regex = regex::Regex::new(expression).map_err(|_| LiveError::Regex {
        text: expression.to_owned(),
    })?;
    let found = consumer.fetch_metadata(None, ASK_WITHIN);
    let found = found.map_err(|error| LiveError::call("ask for the topics", &error))?;
    let names = found.topics().iter().map(|topic| topic.name().to_owned());
    Ok(names.filter(|name| regex.is_match(name)).collect())
}

/// Gives what the group committed; a partition without a commit is not in the answer.
pub(crate) fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    parts: &[Part],
) -> Result<HashMap<Part, i64>, LiveError> {
    if parts.is_empty() {
        return Ok(HashMap::new());
    }
    let asked = list(parts.iter().map(|part| (part, Offset::Invalid)))?;
    answer(
        "ask for the group's commits",
        consumer.committed_offsets(asked, ASK_WITHIN),
    )
}

/// Gives the watermarks of partitions; one that has no leader now is not in the answer.
pub(crate) fn watermarks<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    parts: &[Part],
) -> Result<HashMap<Part, Watermarks>, LiveError> {
    // Two questions for all partitions together: as a "time", the brokers take -2 for the oldest offset and -1 for
    // the end. `fetch_watermarks` would ask each partition by itself.
    let low = at_time(consumer, parts, Offset::Beginning)?;
    let high = at_time(consumer, parts, Offset::End)?;
    let both = |(part, low): (Part, i64)| {
        let high = high.get(&part).copied()?;
        Some((part, Watermarks { low, high }))
    };
    Ok(low.into_iter().filter_map(both).collect())
}

/// Gives the first offset at a time (milliseconds since 1970) or later; a partition that has none is not in the answer.
pub(crate) fn first_at<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    parts: &[Part],
    millis: i64,
) -> Result<HashMap<Part, i64>, LiveError> {
    at_time(consumer, parts, Offset::Offset(millis.max(0)))
}

fn at_time<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    parts: &[Part],
    time: Offset,
) -> Result<HashMap<Part, i64>, LiveError> {
    if parts.is_empty() {
        return Ok(HashMap::new());
    }
    let asked = list(parts.iter().map(|part| (part, time)))?;
    answer("ask for offsets", consumer.offsets_for_times(asked, ASK_WITHIN))
}

/// Makes the error of a question; who asked adds the names of group and user ([`LiveError::of`]).
fn refused(doing: &'static str, error: &KafkaError) -> LiveError {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::GroupAuthorizationFailed) => LiveError::GroupDenied {
            group: String::new(),
            user: None,
            cause: error.to_string(),
        },
        _ => LiveError::call(doing, error),
    }
}

fn answer(doing: &'static str, answered: KafkaResult<TopicPartitionList>) -> Result<HashMap<Part, i64>, LiveError> {
    let answered = answered.map_err(|error| refused(doing, &error))?;
    let mut offsets = HashMap::new();
    for element in answered.elements() {
        if let (Ok(()), Offset::Offset(offset)) = (element.error(), element.offset()) {
            offsets.insert(
                Part {
                    topic: element.topic().into(),
                    partition: element.partition(),
                },
                offset,
            );
        }
    }
    Ok(offsets)
}

/// Gives the number of live members of a group (none, where the broker does not tell: a mock).
pub(crate) fn members<C: ConsumerContext>(consumer: &BaseConsumer<C>, group: &str) -> Result<usize, LiveError> {
    let found = match consumer.fetch_group_list(Some(group), ASK_WITHIN) {
        Err(KafkaError::GroupListFetch(RDKafkaErrorCode::UnsupportedFeature)) => return Ok(0),
        found => found.map_err(|error| refused("ask for the group's members", &error))?,
    };
    let own = found.groups().iter().filter(|known| known.name() == group);
    Ok(own.map(|known| known.members().len()).sum())
}

/// Commits these offsets for a group without members; the broker refuses when it has some.
pub(crate) fn commit_for<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    offsets: &[(Part, i64)],
) -> Result<(), LiveError> {
    if offsets.is_empty() {
        return Ok(());
    }
    let wanted = list(offsets.iter().map(|(part, offset)| (part, Offset::Offset(*offset))))?;
    consumer
        .commit(&wanted, CommitMode::Sync)
        .map_err(|error| refused("commit the group's offsets", &error))
}
