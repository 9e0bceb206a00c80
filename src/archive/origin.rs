//! A packet's Kafka origin as columns, and back.
//!
//! Invariants: what was received is given back unchanged, null keys and null header values included. The headers are one
//! `bytea`: for each, the name's length and bytes, then the value's length (-1 for null) and bytes, lengths as 4 bytes
//! big-endian; not text or json, because neither holds every byte. Must not know which table the columns are in.

use bytes::{Buf, BufMut, Bytes};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::ArchiveError;
use std::sync::Arc;

use crate::record::{KafkaOrigin, KafkaTimestamp, TimestampKind, TopicPartition};

/// The columns of an origin, all null where there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OriginColumns {
    pub(super) topic: Option<String>,
    pub(super) partition: Option<i32>,
    pub(super) offset: Option<i64>,
    pub(super) timestamp: Option<i64>,
    pub(super) timestamp_by: Option<i16>,
    pub(super) key: Option<Bytes>,
    pub(super) headers: Option<Vec<u8>>,
}

impl From<&KafkaOrigin> for OriginColumns {
    fn from(origin: &KafkaOrigin) -> Self {
        Self {
            topic: Some(origin.topic().to_string()),
            partition: Some(origin.partition()),
            offset: Some(origin.offset()),
            timestamp: origin.timestamp().map(|t| t.millis),
            timestamp_by: origin.timestamp().map(|t| match t.kind {
                TimestampKind::Create => 0,
                TimestampKind::LogAppend => 1,
            }),
            key: origin.key().cloned(),
            headers: (!origin.headers().is_empty()).then(|| write_headers(origin.headers())),
        }
    }
}

impl OriginColumns {
    /// Reads the columns named `kafka_*` of a row.
    pub(super) fn of_row(row: &PgRow) -> Result<Self, ArchiveError> {
        Ok(Self {
            topic: row.try_get("kafka_topic")?,
            partition: row.try_get("kafka_partition")?,
            offset: row.try_get("kafka_offset")?,
            timestamp: row.try_get("kafka_timestamp")?,
            timestamp_by: row.try_get("kafka_timestamp_by")?,
            key: row
                .try_get::<Option<&[u8]>, _>("kafka_key")?
                .map(Bytes::copy_from_slice),
            headers: row.try_get("kafka_headers")?,
        })
    }

    /// Makes the origin again; `None` where the packet did not come from Kafka.
    pub(super) fn into_origin(self) -> Result<Option<KafkaOrigin>, ArchiveError> {
        let (Some(topic), Some(partition), Some(offset)) = (self.topic, self.partition, self.offset) else {
            return Ok(None);
        };
        let kind = if self.timestamp_by == Some(1) {
            TimestampKind::LogAppend
        } else {
            TimestampKind::Create
        };
        let headers = match &self.headers {
            None => Vec::new(),
            Some(stored) => read_headers(stored).ok_or_else(|| ArchiveError::Damaged {
                what: format!("the Kafka headers of `{topic}/{partition}/{offset}`"),
            })?,
        };
        let topic = topic.into();
        let origin = KafkaOrigin::new(Arc::new(TopicPartition { topic, partition }), offset)
            .at(self.timestamp.map(|millis| KafkaTimestamp { millis, kind }))
            .named(self.key, headers);
        Ok(Some(origin))
    }
}

fn write_headers(headers: &[(String, Option<Bytes>)]) -> Vec<u8> {
    let mut out = Vec::new();
    // A Kafka record is far below 2 GiB, so no length wraps.
    for (name, value) in headers {
        out.put_i32(name.len() as i32);
        out.put_slice(name.as_bytes());
        match value {
            None => out.put_i32(-1),
            Some(value) => {
                out.put_i32(value.len() as i32);
                out.put_slice(value);
            }
        }
    }
    out
}

fn read_headers(mut stored: &[u8]) -> Option<Vec<(String, Option<Bytes>)>> {
    let mut headers = Vec::new();
    while !stored.is_empty() {
        let name = String::from_utf8(read_part(&mut stored)??.to_vec()).ok()?;
        headers.push((name, read_part(&mut stored)?));
    }
    Some(headers)
}

/// Reads one length and its bytes: outer `None` is damage, inner `None` is null.
fn read_part(stored: &mut &[u8]) -> Option<Option<Bytes>> {
    let length = stored.try_get_i32().ok()?;
    if length == -1 {
        return Some(None);
    }
    let (part, rest) = stored.split_at_checked(usize::try_from(length).ok()?)?;
    *stored = rest;
    Some(Some(Bytes::copy_from_slice(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_comes_back_unchanged() {
        let from = Arc::new(TopicPartition {
            topic: "ztf_20180819_programid1".into(),
            partition: 3,
        });
        let headers = vec![
            ("a".into(), None),
            ("a".into(), Some(Bytes::new())),
            (String::new(), Some(Bytes::from_static(b"\xff\0"))),
        ];
        let origin = KafkaOrigin::new(from, 1 << 40)
            .at(Some(KafkaTimestamp {
                millis: -5,
                kind: TimestampKind::LogAppend,
            }))
            .named(Some(Bytes::from_static(b"\0key")), headers);
        let back = OriginColumns::from(&origin).into_origin().unwrap().unwrap();
        assert_eq!(back, origin);
        assert_eq!(OriginColumns::default().into_origin().unwrap(), None);
    }

    #[test]
    fn damaged_headers_are_noticed() {
        for damaged in [&[0, 0, 0, 9, 1][..], &[0, 0], &[0xff, 0xff, 0xff, 0xff], &[0, 0, 0, 0]] {
            assert_eq!(read_headers(damaged), None);
        }
    }
}
