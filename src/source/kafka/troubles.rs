//! What librdkafka's error events add up to: patience with connections, an end with refused credentials.
//!
//! Invariants: a refusal ends the stream only after a few attempts or seconds; a flood of events is a few log lines.
//! Time comes in as an argument. Must not know of lanes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;

use super::error::{LiveError, Trouble, trouble};

/// Refused credentials end the stream at this attempt.
const ATTEMPTS: u32 = 3;
/// A refused group or topic ends the stream when it is not allowed within this time.
const GRACE: Duration = Duration::from_secs(3);
/// The same kind of event is logged once in this time.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// The account of error events of one client.
#[derive(Default)]
pub(crate) struct Troubles {
    group: String,
    user: Option<String>,
    refused: u32,
    denied: Option<(Instant, LiveError)>,
    fatal: Option<LiveError>,
    reset: bool,
    logged: HashMap<i32, Instant>,
    last: Option<String>,
}

impl Troubles {
    pub(crate) fn new(group: &str, user: Option<&str>) -> Self {
        Self {
            group: group.to_owned(),
            user: user.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Takes an event in.
    pub(crate) fn event(&mut self, code: RDKafkaErrorCode, reason: &str, now: Instant) {
        let kind = trouble(code);
        let cause = reason.to_owned();
        match kind {
            Trouble::EndOfPartition => return,
            Trouble::Absent => {
                tracing::debug!(%reason, "a subscribed topic is not there");
                return;
            }
            Trouble::Reset => self.reset = true,
            Trouble::Credentials | Trouble::Tls => {
                self.refused += 1;
                if self.refused >= ATTEMPTS {
                    let user = self.user.clone();
                    let credentials = kind == Trouble::Credentials;
                    let cause = cause.clone();
                    let error = if credentials {
                        LiveError::Credentials { user, cause }
                    } else {
                        LiveError::Tls { cause }
                    };
                    self.fatal.get_or_insert(error);
                }
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
        self.last = Some(cause);
        self.log(code, reason, now);
    }

    /// Takes in that the client can do no more.
    pub(crate) fn broken(&mut self, cause: String) {
        self.fatal.get_or_insert(LiveError::Broken { cause });
    }

    /// Takes in that the group was joined: the credentials work.
    pub(crate) fn joined(&mut self) {
        self.refused = 0;
        if self
            .denied
            .as_ref()
            .is_some_and(|(_, error)| matches!(error, LiveError::GroupDenied { .. }))
        {
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

    /// Gives what the last event said.
    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    fn log(&mut self, code: RDKafkaErrorCode, reason: &str, now: Instant) {
        let logged = self.logged.get(&(code as i32));
        if logged.is_none_or(|at| now.duration_since(*at) >= LOG_EVERY) {
            self.logged.insert(code as i32, now);
            tracing::warn!(%code, %reason, "the broker connection has trouble; librdkafka goes on trying");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_credentials_end_the_stream_at_the_third_attempt() {
        let (mut troubles, now) = (Troubles::new("g", Some("alice")), Instant::now());
        for _ in 0..2 {
            troubles.event(RDKafkaErrorCode::Authentication, "wrong password", now);
            assert!(troubles.fatal(now).is_none());
        }
        troubles.joined();
        for _ in 0..3 {
            troubles.event(RDKafkaErrorCode::Authentication, "wrong password", now);
        }
        let said = troubles.fatal(now).unwrap().to_string();
        assert!(said.contains("`alice`") && said.contains("wrong password"), "{said}");
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
