//! How long topics keep their messages, as the brokers say.
//!
//! Invariant: what cannot be asked (a broker without admin requests, no right to it) is unknown, and no error. Blocks,
//! bounded in time. Must not know of positions.

use std::collections::HashMap;
use std::time::Duration;

use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use super::client::Clients;

/// How long the answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Gives the topics' `retention.ms`; a topic that keeps its messages for ever, or about which nothing is known, is not
/// in the answer.
pub(crate) fn by_time(clients: &Clients, topics: &[&str]) -> HashMap<String, chrono::Duration> {
    let admin: Result<AdminClient<DefaultClientContext>, _> = clients.admin().create();
    let Ok(admin) = admin else { return HashMap::new() };
    let options = AdminOptions::new()
        .request_timeout(Some(ANSWER_WITHIN))
        .operation_timeout(Some(ANSWER_WITHIN));
    let asked: Vec<ResourceSpecifier<'_>> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let answered = match block_on(admin.describe_configs(&asked, &options)) {
        Ok(answered) => answered,
        Err(error) => {
            tracing::debug!(%error, "the topics' retention cannot be asked");
            return HashMap::new();
        }
    };
    let told = answered.into_iter().filter_map(|topic| {
        let topic = topic.ok()?;
        let millis: i64 = topic.get("retention.ms")?.value.as_ref()?.parse().ok()?;
        let OwnedResourceSpecifier::Topic(name) = topic.specifier else {
            return None;
        };
        let kept = chrono::Duration::try_milliseconds(millis)?;
        (millis >= 0).then_some((name, kept))
    });
    told.collect()
}
