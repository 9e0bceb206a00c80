//! From a message of librdkafka to a raw alert, with exactly one copy of the payload.
//!
//! Must not know of lanes or budgets.

use std::sync::Arc;

use bytes::Bytes;
use rdkafka::Timestamp;
use rdkafka::message::{BorrowedMessage, Headers, Message};

use crate::record::{KafkaOrigin, KafkaTimestamp, RawAlert, TimestampKind};

/// Makes an alert of a message and its copied payload.
pub(crate) fn raw(message: &BorrowedMessage<'_>, topic: &Arc<str>, payload: Bytes) -> RawAlert {
    let origin = KafkaOrigin {
        topic: topic.clone(),
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(Bytes::copy_from_slice),
        headers: message.headers().map(headers).unwrap_or_default(),
        timestamp: timestamp(message.timestamp()),
    };
    RawAlert {
        origin: Some(Arc::new(origin)),
        ..RawAlert::from_bytes(payload)
    }
}

fn headers(headers: &impl Headers) -> Vec<(String, Option<Bytes>)> {
    headers
        .iter()
        .map(|header| (header.key.to_owned(), header.value.map(Bytes::copy_from_slice)))
        .collect()
}

/// Reads a timestamp, with who set it.
pub(crate) fn timestamp(timestamp: Timestamp) -> Option<KafkaTimestamp> {
    match timestamp {
        Timestamp::NotAvailable => None,
        Timestamp::CreateTime(millis) => Some(KafkaTimestamp {
            millis,
            kind: TimestampKind::Create,
        }),
        Timestamp::LogAppendTime(millis) => Some(KafkaTimestamp {
            millis,
            kind: TimestampKind::LogAppend,
        }),
    }
}
