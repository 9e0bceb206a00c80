//! `rdkafka::Message` for the deliveries of every backend, so that a handler written for rdkafka runs on a replay.
//!
//! Invariant: what Kafka once said of an alert is said again, also from the archive. Where an alert never was on Kafka,
//! its lane stands in: the archive's group as topic, 0 as partition and its place in the group as offset; a file's path
//! and the record's number. Must not know where a delivery is used.

use rdkafka::Timestamp;
use rdkafka::message::{Header, Headers, Message};

use crate::delivery::Delivery;
use crate::record::{KafkaOrigin, KafkaTimestamp, Lane, TimestampKind};

impl Headers for KafkaOrigin {
    fn count(&self) -> usize {
        self.headers().len()
    }

    fn try_get(&self, idx: usize) -> Option<Header<'_, &[u8]>> {
        let (key, value) = self.headers().get(idx)?;
        Some(Header {
            key,
            value: value.as_deref(),
        })
    }
}

impl<T> Message for Delivery<T> {
    type Headers = KafkaOrigin;

    fn key(&self) -> Option<&[u8]> {
        self.raw().origin.as_ref()?.key().map(|key| &key[..])
    }

    fn payload(&self) -> Option<&[u8]> {
        // Kafka's null payload and its empty one are both a tombstone here.
        let raw = self.raw();
        Some(&raw.payload[..]).filter(|payload| !payload.is_empty() || raw.origin.is_none())
    }

    /// Gives nothing: the payload is shared.
    #[allow(unsafe_code)]
    // SAFETY: the trait makes it unsafe for those who hand out librdkafka's memory; nothing is handed out here.
    unsafe fn payload_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    fn topic(&self) -> &str {
        if let Some(origin) = &self.raw().origin {
            return origin.topic();
        }
        match &self.position().lane {
            Lane::Kafka { topic, .. } => topic,
            Lane::Archive { group, .. } => group,
            Lane::File(path) => path,
            Lane::Memory(_) => "memory",
        }
    }

    fn partition(&self) -> i32 {
        if let Some(origin) = &self.raw().origin {
            return origin.partition();
        }
        match &self.position().lane {
            Lane::Kafka { partition, .. } => *partition,
            Lane::Memory(lane) => i32::try_from(*lane).unwrap_or(i32::MAX),
            _ => 0,
        }
    }

    /// Gives the offset; for an archived alert that never was on Kafka its block (upper 32 bits) and place in the
    /// block (lower 32), which rise in the order of the group.
    fn offset(&self) -> i64 {
        if let Some(origin) = &self.raw().origin {
            return origin.offset();
        }
        let at = self.position();
        let seq = i64::try_from(at.seq).unwrap_or(i64::MAX);
        match &at.lane {
            Lane::Archive { block, .. } => (block << 32) | (seq & 0xFFFF_FFFF),
            _ => seq,
        }
    }

    fn timestamp(&self) -> Timestamp {
        match self.raw().origin.as_ref().and_then(KafkaOrigin::timestamp) {
            None => Timestamp::NotAvailable,
            Some(KafkaTimestamp {
                millis,
                kind: TimestampKind::Create,
            }) => Timestamp::CreateTime(millis),
            Some(KafkaTimestamp {
                millis,
                kind: TimestampKind::LogAppend,
            }) => Timestamp::LogAppendTime(millis),
        }
    }

    fn headers(&self) -> Option<&KafkaOrigin> {
        self.raw().origin.as_ref().filter(|origin| !origin.headers().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use futures::StreamExt;

    use super::*;
    use crate::delivery::Meta;
    use crate::record::{Position, RawAlert, SourceId, TopicPartition};
    use crate::source::memory::MemorySource;
    use crate::stream::{StreamConfig, open};

    /// A handler as it is written for rdkafka.
    fn describe(message: &impl Message) -> String {
        let headers = message.headers().map_or(0, Headers::count);
        let key = message.key_view::<str>().transpose().unwrap().unwrap_or("-");
        let payload = message.payload_view::<str>().unwrap().unwrap();
        let at = (message.topic(), message.partition(), message.offset());
        format!("{at:?} {key} {payload} {headers} {:?}", message.timestamp().to_millis())
    }

    #[tokio::test]
    async fn a_handler_written_for_rdkafka_sees_where_an_alert_once_was() {
        let from = Arc::new(TopicPartition {
            topic: "ztf".into(),
            partition: 3,
        });
        let origin = KafkaOrigin::new(from, 9)
            .at(Some(KafkaTimestamp {
                millis: 17,
                kind: TimestampKind::LogAppend,
            }))
            .named(Some(Bytes::from_static(b"k")), vec![("h".into(), None)]);
        let raw = RawAlert {
            origin: Some(origin),
            ..RawAlert::from_bytes("x")
        };
        let delivery = {
            let (mut alerts, _control) = open(Box::new(MemorySource::of("m", ["y"])), StreamConfig::default());
            alerts.next().await.unwrap().unwrap()
        };
        assert_eq!(describe(&delivery), "(\"memory\", 0, 0) - y 0 None");
        let token = crate::ack::AckToken::new(Arc::new(Nobody), 0, raw);
        let archived = Delivery::new(delivery.meta().clone(), token);
        assert_eq!(describe(&archived), "(\"ztf\", 3, 9) k x 1 Some(17)");
    }

    #[test]
    fn an_alert_that_never_was_on_kafka_has_its_place_in_the_group_or_the_file() {
        let at = |lane: Lane, seq| {
            let meta = Meta::new(SourceId::new("s"), Position { lane, seq }, 1);
            let token = crate::ack::AckToken::new(Arc::new(Nobody), 0, RawAlert::from_bytes("y"));
            describe(&Delivery::new(meta, token))
        };
        let archive = |block, seq| {
            let group = "tde".into();
            at(Lane::Archive { group, block }, seq)
        };
        let offset = (2_i64 << 32) + 5;
        assert_eq!(archive(2, 5), format!("(\"tde\", 0, {offset}) - y 0 None"));
        assert_eq!(archive(0, 7), "(\"tde\", 0, 7) - y 0 None");
        assert_eq!(at(Lane::File("a.avro".into()), 3), "(\"a.avro\", 0, 3) - y 0 None");
    }

    struct Nobody;
    impl crate::ack::Settle for Nobody {
        fn settle(&self, _key: u64, _raw: RawAlert, _what: crate::ack::Settlement) {}
    }
}
