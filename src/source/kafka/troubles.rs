//! What librdkafka's error events add up to: patience with connections, an end with refused credentials.
//!
//! Invariants: a refusal ends the stream only after a few attempts or seconds; a flood of events is a few log lines.
//! Time comes in as an argument. Must not know of lanes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::client::Clients;
use super::error::{LiveError, Trouble, trouble};
use super::security::{self, bare};

/// Refused credentials, a refused group or topic end the stream when this time brings no change: a few attempts.
const GRACE: Duration = Duration::from_secs(3);
/// The same kind of event is logged once in this time.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// The account of error events of one client.
#[derive(Default)]
pub(crate) struct Troubles {
    group: String,
    user: Option<String>,
    denied: Option<(Instant, LiveError)>,
    fatal: Option<LiveError>,
    reset: bool,
    logged: HashMap<i32, Instant>,
    last: Option<String>,
    /// What the log said last of a connection that failed.
    failed: Option<String>,
    /// Nothing is logged: what asks tells its error itself.
    silent: bool,
}

impl Troubles {
    pub(crate) fn new(group: &str, user: Option<&str>) -> Self {
        Self {
            group: group.to_owned(),
            user: user.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Makes an account that is not logged: who asks once tells the error that comes of it.
    pub(crate) fn silent(group: &str, user: Option<&str>) -> Self {
        Self {
            silent: true,
            ..Self::new(group, user)
        }
    }

    /// Takes an event in.
    pub(crate) fn event(&mut self, code: RDKafkaErrorCode, reason: &str, now: Instant) {
        let kind = trouble(code);
        let cause = bare(reason).to_owned();
        match kind {
            Trouble::EndOfPartition => return,
            Trouble::Absent => {
                tracing::debug!(%reason, "a subscribed topic is not there");
                return;
            }
            Trouble::Reset => self.reset = true,
            Trouble::Credentials | Trouble::Tls => {
                // librdkafka tries again and again, and tells a refusal only once.
                let (user, cause) = (self.user.clone(), cause.clone());
                let error = security::not_spoken(&cause).unwrap_or(match kind {
                    Trouble::Credentials => LiveError::Credentials { user, cause },
                    _ => LiveError::Tls { cause },
                });
                self.denied.get_or_insert((now, error));
            }
            Trouble::Group => {
                let error = LiveError::GroupDenied {
                    group: self.group.clone(),
                    user: self.user.clone(),
                    cause: cause.clone(),
                };
                self.denied.get_or_insert((now, error));
            }
            Trouble::Topic => {
                let error = LiveError::TopicDenied {
                    user: self.user.clone(),
                    cause: cause.clone(),
                };
                self.denied.get_or_insert((now, error));
            }
            Trouble::Connection | Trouble::Other => {}
        }
        // That all brokers are down says less than what went wrong with one.
        if code != RDKafkaErrorCode::AllBrokersDown {
            self.last = Some(cause);
        }
        self.log(code, reason, now);
    }

    /// Takes a line of librdkafka's log in: some connections that fail are told nowhere else.
    pub(crate) fn said(&mut self, facility: &str, text: &str) {
        if facility == "FAIL" {
            self.failed = Some(bare(text).to_owned());
        }
    }

    /// Takes in that the client can do no more.
    pub(crate) fn broken(&mut self, cause: String) {
        self.fatal.get_or_insert(LiveError::Broken { cause });
    }

    /// Takes in that the group was joined: the credentials work, and the group is allowed.
    pub(crate) fn joined(&mut self) {
        if !matches!(self.denied, Some((_, LiveError::TopicDenied { .. }))) {
            self.denied = None;
        }
    }

    /// Gives the error that ends the stream, once there is one.
    pub(crate) fn fatal(&mut self, now: Instant) -> Option<LiveError> {
        if self
            .denied
            .as_ref()
            .is_some_and(|(since, _)| now.duration_since(*since) >= GRACE)
        {
            return self.denied.take().map(|(_, error)| error);
        }
        self.fatal.take()
    }

    /// Says, once, whether a position was found not to exist.
    pub(crate) fn take_reset(&mut self) -> bool {
        std::mem::take(&mut self.reset)
    }

    /// Says that the reset could not be looked into yet.
    pub(crate) fn again(&mut self) {
        self.reset = true;
    }

    /// Makes the error of brokers that did not answer, with what is known of the reason.
    pub(crate) fn unreachable(&self, clients: &Clients, waited: Duration, error: &KafkaError) -> LiveError {
        let told = self.failed.clone().or_else(|| self.last.clone());
        let cause = told.unwrap_or_else(|| error.to_string());
        // A broker that goes down says the same for a moment: only where nothing ever answered does it mean the port.
        if let Some(error) = security::not_spoken(&cause) {
            return error;
        }
        LiveError::Unreachable {
            brokers: clients.brokers().to_owned(),
            waited,
            advice: clients.security().advice(&cause),
            cause,
        }
    }

    fn log(&mut self, code: RDKafkaErrorCode, reason: &str, now: Instant) {
        use RDKafkaErrorCode as Code;
        if self.silent {
            tracing::debug!(%code, %reason, "the broker connection has trouble");
            return;
        }
        // A connection that fails comes as several events, and the log alone may say why.
        let (key, reason) = match (trouble(code), code) {
            (Trouble::Connection, Code::AllBrokersDown) => (code, self.failed.as_deref().unwrap_or(reason)),
            (Trouble::Connection, _) => (Code::AllBrokersDown, reason),
            _ => (code, reason),
        };
        let logged = self.logged.get(&(key as i32));
        if logged.is_none_or(|at| now.duration_since(*at) >= LOG_EVERY) {
            self.logged.insert(key as i32, now);
            tracing::warn!(
                %code,
                %reason,
                "the broker connection has trouble; librdkafka goes on trying, and nothing is lost meanwhile; if it stays, \
                 check that the brokers run and can be reached"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_credentials_end_the_stream_after_a_few_attempts() {
        let (mut troubles, now) = (Troubles::new("g", Some("alice")), Instant::now());
        troubles.event(RDKafkaErrorCode::Authentication, "wrong password", now);
        assert!(troubles.fatal(now).is_none());
        let said = troubles.fatal(now + GRACE).unwrap().to_string();
        assert!(said.contains("`alice`") && said.contains("wrong password"), "{said}");
        troubles.event(RDKafkaErrorCode::Authentication, "wrong password", now);
        troubles.joined();
        assert!(troubles.fatal(now + GRACE).is_none());
    }

    #[test]
    fn a_denied_group_has_a_moment_to_be_allowed() {
        let (mut troubles, now) = (Troubles::new("g", None), Instant::now());
        troubles.event(RDKafkaErrorCode::GroupAuthorizationFailed, "no", now);
        assert!(troubles.fatal(now).is_none());
        assert!(matches!(
            troubles.fatal(now + GRACE),
            Some(LiveError::GroupDenied { .. })
        ));
        troubles.event(RDKafkaErrorCode::GroupAuthorizationFailed, "no", now);
        troubles.joined();
        assert!(troubles.fatal(now + GRACE).is_none());
    }

    #[test]
    fn connections_and_absent_nights_never_end_the_stream() {
        let (mut troubles, now) = (Troubles::new("g", None), Instant::now());
        for _ in 0..1000 {
            troubles.event(RDKafkaErrorCode::AllBrokersDown, "down", now);
            troubles.event(RDKafkaErrorCode::UnknownTopicOrPartition, "absent", now);
        }
        assert!(troubles.fatal(now + GRACE).is_none());
        assert_eq!(troubles.logged.len(), 1);
    }
}
