//! The identities of topics: a topic that was deleted and made again has its name and another id.
//!
//! rdkafka 0.39 has no safe call for it, so these are librdkafka's own. Invariants: whatever is made here is destroyed
//! here, in the opposite order, also on the way of a failure; nothing of librdkafka's leaves this file. Must not know of
//! lanes.
#![allow(unsafe_code)]

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};

use super::ask::Part;

/// How long the question may take.
const WITHIN: Duration = Duration::from_secs(1);

/// A topic's id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TopicId(i64, i64);

/// Gives the ids of the topics of partitions. One that is not there or may not be seen, and every one of a broker that has no ids (older
/// than 2.8), or that does not answer within two seconds, is not in the answer.
pub(crate) fn of<C: ConsumerContext>(consumer: &BaseConsumer<C>, parts: &[Part]) -> HashMap<String, TopicId> {
    let topics: BTreeSet<&str> = parts.iter().map(|part| &*part.topic).collect();
    let names: Vec<CString> = topics.iter().filter_map(|topic| CString::new(*topic).ok()).collect();
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    // Any broker can answer; librdkafka would ask the controller, which not every cluster tells.
    let known = topics.first().map(|topic| consumer.fetch_metadata(Some(topic), WITHIN));
    let broker = known
        .and_then(Result::ok)
        .and_then(|known| known.brokers().first().map(|broker| broker.id()));
    let (Some(broker), false) = (broker, pointers.is_empty()) else {
        return HashMap::new();
    };
    let client = consumer.client().native_ptr();
    let within = i32::try_from(WITHIN.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `client` lives as long as `consumer`, which is borrowed for the whole call. The collection copies the
    // names, which live until it is made. Collection, options, queue and event are made here, checked against null where
    // they can be, used only here and destroyed once, after their last use; an answer that comes when the queue is gone
    // is dropped by librdkafka, whose request holds the queue by a reference of its own.
    unsafe {
        let collection = sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        let describe = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = sys::rd_kafka_AdminOptions_new(client, describe);
        let queue = sys::rd_kafka_queue_new(client);
        sys::rd_kafka_AdminOptions_set_request_timeout(options, within, ptr::null_mut(), 0);
        sys::rd_kafka_AdminOptions_set_broker(options, broker, ptr::null_mut(), 0);
        sys::rd_kafka_DescribeTopics(client, collection, options, queue);
        let event = sys::rd_kafka_queue_poll(queue, within);
        let ids = if event.is_null() { HashMap::new() } else { read(event) };
        if !event.is_null() {
            sys::rd_kafka_event_destroy(event);
        }
        sys::rd_kafka_queue_destroy(queue);
        sys::rd_kafka_AdminOptions_destroy(options);
        sys::rd_kafka_TopicCollection_destroy(collection);
        ids
    }
}

/// # Safety
/// `event` is a live event of librdkafka.
unsafe fn read(event: *mut sys::rd_kafka_event_t) -> HashMap<String, TopicId> {
    let mut ids = HashMap::new();
    // SAFETY: what is read here belongs to the event, which outlives this call. The result is null unless the event is
    // an answer to the question; the array has `count` descriptions; a name is a C string.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return ids;
        }
        let mut count = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        for at in 0..if topics.is_null() { 0 } else { count } {
            let topic = *topics.add(at);
            let id = sys::rd_kafka_TopicDescription_topic_id(topic);
            let name = sys::rd_kafka_TopicDescription_name(topic);
            if id.is_null() || name.is_null() {
                continue;
            }
            let most = sys::rd_kafka_Uuid_most_significant_bits(id);
            let least = sys::rd_kafka_Uuid_least_significant_bits(id);
            if (most, least) != (0, 0) {
                let name = CStr::from_ptr(name).to_string_lossy().into_owned();
                ids.insert(name, TopicId(most, least));
            }
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::embedded::mock_kafka::MockKafka;
    use rdkafka::ClientConfig;

    #[test]
    fn each_topic_has_an_id_of_its_own_and_an_absent_one_has_none() {
        let mock = MockKafka::start().unwrap();
        mock.create_topic("one", 1).unwrap();
        mock.create_topic("two", 1).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", mock.bootstrap()).set("group.id", "g");
        let consumer: BaseConsumer = config.create().unwrap();
        let part = |topic: &str| Part {
            topic: topic.into(),
            partition: 0,
        };
        let ids = of(&consumer, &["one", "two", "none"].map(part));
        assert_eq!(ids.len(), 2, "{ids:?}");
        assert_ne!(ids["one"], ids["two"]);
        assert_eq!(of(&consumer, &["one", "two"].map(part)), ids);
        mock.down().unwrap();
        assert!(of(&consumer, &[part("one")]).is_empty());
        assert!(of(&consumer, &[]).is_empty());
    }
}
