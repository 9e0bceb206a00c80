//! A client that only asks: it connects, and keeps what the brokers say of credentials and rights.
//!
//! Invariants: joins no group; connecting is bounded in time and blocks. Must not know what is asked.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::client::Clients;
use super::error::LiveError;
use super::troubles::Troubles;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);

/// How long events are served between two attempts: without any time a poll takes one line of the log and ends.
pub(super) const SERVE: Duration = Duration::from_millis(50);

/// What the brokers and librdkafka said.
pub(crate) struct Heard(Mutex<Troubles>);

impl ClientContext for Heard {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(target: "librdkafka", facility, ?level, "{text}");
        self.0.lock().said(facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.0.lock().event(code, reason, Instant::now());
    }
}

impl ConsumerContext for Heard {}

/// The name of a client without a group: librdkafka makes no consumer without one.
const NOBODY: &str = "alertstream";

/// Connects as a consumer of the group would; the group may be empty.
pub(crate) fn connect(clients: &Clients, group: &str, within: Duration) -> Result<BaseConsumer<Heard>, LiveError> {
    let heard = Heard(Mutex::new(Troubles::silent(group, clients.user())));
    let group = if group.is_empty() { NOBODY } else { group };
    let made = clients.consumer(group, 0).create_with_context(heard);
    let consumer: BaseConsumer<Heard> = made.map_err(|error| LiveError::call("make the client", &error))?;
    let begun = Instant::now();
    while let Err(error) = consumer.fetch_metadata(None, ATTEMPT.min(within)) {
        // Serves the error events: refused credentials are among them.
        while consumer.poll(SERVE).is_some() {}
        let mut troubles = consumer.context().0.lock();
        if let Some(fatal) = troubles.fatal(Instant::now()) {
            return Err(fatal);
        }
        if begun.elapsed() >= within {
            return Err(troubles.unreachable(clients, within, &error));
        }
    }
    Ok(consumer)
}
