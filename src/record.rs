//! What was read and where: the raw alert, its source, its lane and its position.
//!
//! Owns the vocabulary every other module speaks. Invariants: a payload is never copied after it became `Bytes`;
//! a [`Position`] is the only address of an alert, on every backend. Must not know of decoding, queues or backends.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};

/// Names an input; the fair queue's default key and the label in every log line and metric.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SourceId(Arc<str>);

impl SourceId {
    /// Makes a source name from text.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Gives the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SourceId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

/// An ordered unit of progress: a Kafka partition, a claimed archive block, a file.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// One partition of one topic; it has no end.
    Kafka {
        /// Topic name.
        topic: Arc<str>,
        /// Partition number.
        partition: i32,
    },
    /// One claimed block of a group of the archive; it ends.
    Archive {
        /// Group name.
        group: Arc<str>,
        /// The block's place in its group (`block_seq`), from 0.
        block: i64,
    },
    /// One file, or one member of an archive file (`PATH!MEMBER`).
    File(Arc<str>),
    /// One lane of the in-memory source.
    Memory(u32),
}

/// One ownership of a lane: an assignment of a partition, the fence of a claim.
///
/// A settlement that carries a former epoch changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Epoch(pub u64);

/// The address of one alert: its lane and its place in it (strictly increasing, gaps allowed).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Position {
    /// The lane.
    pub lane: Lane,
    /// Kafka: the offset; archive: the index in the block, from 0; file: the record's number, from 1.
    pub seq: u64,
}

impl fmt::Display for Lane {
    /// Writes the lane as it stands in a position: `kafka:TOPIC/PARTITION`, `archive:GROUP/BLOCK`,
    /// `file:PATH[!MEMBER]` or `memory:LANE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lane::Kafka { topic, partition } => write!(f, "kafka:{topic}/{partition}"),
            Lane::Archive { group, block } => write!(f, "archive:{group}/{block}"),
            Lane::File(path) => write!(f, "file:{path}"),
            Lane::Memory(lane) => write!(f, "memory:{lane}"),
        }
    }
}

impl fmt::Display for Position {
    /// Writes `kafka:TOPIC/PARTITION/OFFSET`, `archive:GROUP/BLOCK/INDEX`, `file:PATH[!MEMBER]#N` or `memory:LANE/SEQ`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if matches!(self.lane, Lane::File(_)) { '#' } else { '/' };
        write!(f, "{}{mark}{}", self.lane, self.seq)
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// Who set a Kafka timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimestampKind {
    /// The producer (`CreateTime`).
    Create,
    /// The broker (`LogAppendTime`).
    LogAppend,
}

/// A Kafka timestamp with its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KafkaTimestamp {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub millis: i64,
    /// Who set it.
    pub kind: TimestampKind,
}

/// One partition of one topic, shared by the origins of what was read from it together.
#[derive(PartialEq, Eq, Debug)]
pub struct TopicPartition {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition number.
    pub partition: i32,
}

/// A header of a Kafka record; its value may be null.
pub type KafkaHeader = (String, Option<Bytes>);

/// Where a packet came from on Kafka; kept through the archive. Small and cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KafkaOrigin {
    from: Arc<TopicPartition>,
    offset: i64,
    timestamp: Option<KafkaTimestamp>,
    named: Option<Arc<KeyAndHeaders>>,
}

#[derive(PartialEq, Eq, Debug)]
struct KeyAndHeaders {
    key: Option<Bytes>,
    headers: Vec<KafkaHeader>,
}

impl KafkaOrigin {
    /// Makes the origin of the record at `offset` of a partition, without key, headers and timestamp.
    pub fn new(from: Arc<TopicPartition>, offset: i64) -> Self {
        Self {
            from,
            offset,
            timestamp: None,
            named: None,
        }
    }

    /// Sets the record's timestamp.
    #[must_use]
    pub fn at(mut self, timestamp: Option<KafkaTimestamp>) -> Self {
        self.timestamp = timestamp;
        self
    }

    /// Sets the record's key and headers.
    #[must_use]
    pub fn named(mut self, key: Option<Bytes>, headers: Vec<KafkaHeader>) -> Self {
        let is_named = key.is_some() || !headers.is_empty();
        self.named = is_named.then(|| Arc::new(KeyAndHeaders { key, headers }));
        self
    }

    /// Gives the topic's name.
    pub fn topic(&self) -> &Arc<str> {
        &self.from.topic
    }

    /// Gives the number of the partition.
    pub fn partition(&self) -> i32 {
        self.from.partition
    }

    /// Gives the offset in the partition.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Gives the record's key, if it had one.
    pub fn key(&self) -> Option<&Bytes> {
        self.named.as_ref()?.key.as_ref()
    }

    /// Gives the record's headers, in order.
    pub fn headers(&self) -> &[KafkaHeader] {
        self.named.as_ref().map_or(&[], |named| &named.headers)
    }

    /// Gives the size of the key and the headers, bytes.
    pub fn named_bytes(&self) -> usize {
        let header =
            |(name, value): &KafkaHeader| size_of::<KafkaHeader>() + name.len() + value.as_ref().map_or(0, Bytes::len);
        self.named.as_ref().map_or(0, |named| {
            named.key.as_ref().map_or(0, Bytes::len) + named.headers.iter().map(header).sum::<usize>()
        })
    }

    /// Gives the record's timestamp, if it had one.
    pub fn timestamp(&self) -> Option<KafkaTimestamp> {
        self.timestamp
    }
}

/// One alert as it was read: bytes that nothing has interpreted.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RawAlert {
    /// The packet, byte for byte. Empty for a Kafka tombstone.
    pub payload: Bytes,
    /// Where it came from on Kafka, now or when it was archived.
    pub origin: Option<KafkaOrigin>,
    /// True when the packet was cut out of a container file of several records and given the file's header and
    /// sync marker, so that its bytes are not those of a whole file.
    pub reframed: bool,
}

impl RawAlert {
    /// Makes a raw alert that has only bytes.
    pub fn from_bytes(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            origin: None,
            reframed: false,
        }
    }

    /// Gives what it keeps in memory, bytes: the packet, and the key and headers that came with it.
    pub fn bytes_kept(&self) -> usize {
        self.payload.len() + self.origin.as_ref().map_or(0, KafkaOrigin::named_bytes)
    }

    /// Gives it memory of its own where its packet may share some with others that were read together: for one that
    /// stays when they go. Packets above [`SHARED_MOST`] never share.
    #[must_use]
    pub(crate) fn apart(mut self) -> Self {
        if self.payload.len() <= SHARED_MOST {
            self.payload = Bytes::copy_from_slice(&self.payload);
        }
        self
    }
}

/// The largest packet that may share memory with others, bytes.
pub(crate) const SHARED_MOST: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_written_as_documented() {
        let at = |lane, seq| Position { lane, seq }.to_string();
        assert_eq!(
            at(
                Lane::Kafka {
                    topic: "t".into(),
                    partition: 3
                },
                9
            ),
            "kafka:t/3/9"
        );
        assert_eq!(
            at(
                Lane::Archive {
                    group: "g".into(),
                    block: 2
                },
                0
            ),
            "archive:g/2/0"
        );
        assert_eq!(at(Lane::File("a.tar!b.avro".into()), 1), "file:a.tar!b.avro#1");
    }
}
