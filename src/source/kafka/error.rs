//! Why a live source cannot start or go on, in words, and what librdkafka's codes mean for the stream.
//!
//! No value of a secret setting is ever in an error: librdkafka's own text about a setting is cut to its key. Must not
//! know of the poll loop.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::gaps::{Gap, GapCause};
use super::nights::NIGHTS_MAX;
use super::place::BadPlace;
use crate::error::ErrorClass;
use crate::units::counted;

/// Why a live source cannot start or go on.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// No broker is configured.
    #[error("no broker is configured; set `brokers = [\"HOST:PORT\"]`")]
    NoBrokers,
    /// No topic is configured.
    #[error("no topic is configured; set `topics = [\"NAME\"]`")]
    NoTopics,
    /// The window of nights is empty, or longer than topics are ever kept.
    #[error("`nights = {nights}` is no window of nights; give a number from 1 to {NIGHTS_MAX}")]
    Nights {
        /// What is configured.
        nights: u32,
    },
    /// A topic's regular expression cannot be read.
    #[error(
        "the topic `{text}` is no regular expression; write one of POSIX (extended) after the `^`, or a name without it"
    )]
    Regex {
        /// What is configured.
        text: String,
    },
    /// No group is configured.
    #[error("no consumer group is configured; set `group = \"NAME\"`")]
    NoGroup,
    /// A setting would break a guarantee.
    #[error("the setting `{key}` is refused: {reason}")]
    Refused {
        /// The setting.
        key: String,
        /// Why, and what to use instead.
        reason: &'static str,
    },
    /// librdkafka does not take a setting.
    #[error("the setting `{key}` is not valid: {reason}")]
    Setting {
        /// The setting.
        key: String,
        /// What librdkafka says, without the value.
        reason: String,
    },
    /// A setting refers to something that is not there.
    #[error("the setting `{key}` refers to {what}; set it or correct the reference")]
    Reference {
        /// The setting.
        key: String,
        /// What is missing.
        what: String,
    },
    /// SASL or TLS is asked for in a build without it.
    #[error("`{key}` asks for SASL or TLS, which this build does not have; build with the feature `kafka-tls`")]
    NoTls {
        /// The setting that asks for it.
        key: String,
    },
    /// A position cannot be read.
    #[error(transparent)]
    Place(#[from] BadPlace),
    /// No broker answered.
    #[error("no broker of `{brokers}` answered within {} s ({cause}); {advice}", waited.as_secs())]
    Unreachable {
        /// The configured addresses.
        brokers: String,
        /// How long it was tried.
        waited: Duration,
        /// The last error.
        cause: String,
        /// What to do.
        advice: &'static str,
    },
    /// The port answers in another protocol than `security.protocol` says.
    #[error("the port does not speak {what} ({cause}); set `security.protocol` to {instead}")]
    NotSpoken {
        /// SASL or TLS.
        what: &'static str,
        /// What librdkafka says.
        cause: String,
        /// What may be right.
        instead: &'static str,
    },
    /// The brokers refuse the credentials.
    #[error(
        "the brokers refuse the credentials of {}: {cause}; check the user, the password and the mechanism",
        named(user)
    )]
    Credentials {
        /// The user.
        user: Option<String>,
        /// What the broker said.
        cause: String,
    },
    /// The encrypted connection cannot be made.
    #[error("the TLS connection fails: {cause}; check `ssl.ca.location` and that the port speaks TLS")]
    Tls {
        /// What the library said.
        cause: String,
    },
    /// The user may not use the group.
    #[error(
        "{} may not use the group `{group}`: {cause}; use a group name that the user is allowed, often one that starts with the user's name",
        named(user)
    )]
    GroupDenied {
        /// The group.
        group: String,
        /// The user.
        user: Option<String>,
        /// What the broker said.
        cause: String,
    },
    /// The user may not read a topic.
    #[error("{} may not read a topic: {cause}; ask for read permission on it", named(user))]
    TopicDenied {
        /// The user.
        user: Option<String>,
        /// What the broker said, with the topic.
        cause: String,
    },
    /// A topic that is named does not exist.
    #[error("the topic `{topic}` does not exist")]
    NoSuchTopic {
        /// The topic.
        topic: String,
    },
    /// None of the nights has a topic.
    #[error("none of the nights that `nights` covers has a topic; name topics that are there")]
    NoNight,
    /// A regular expression matches none of the topics.
    #[error("no topic matches `{text}`")]
    NoneMatches {
        /// The expression.
        text: String,
    },
    /// A partition that is named does not exist.
    #[error("the partition `kafka:{topic}/{partition}` does not exist; nothing was changed")]
    NoSuchPartition {
        /// The topic, which exists.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// A group is asked for that committed nothing.
    #[error("the group `{group}` has no commit in any topic; check its name, or name the topics")]
    NoCommits {
        /// The group.
        group: String,
    },
    /// A position does not exist any more and the setting is to stop.
    #[error("`kafka:{}/{}/{}` does not exist any more ({}); set `on_reset` to go on, or seek", .0.topic, .0.partition, .0.from, why(.0))]
    Reset(Gap),
    /// A replay was asked for in a group that is in use.
    #[error(
        "the group `{group}` has {}; replay with a group of its own, or stop what reads in it first",
        counted(*members, "live member")
    )]
    GroupInUse {
        /// The group.
        group: String,
        /// How many members.
        members: usize,
    },
    /// librdkafka's client cannot go on.
    #[error("the client cannot go on: {cause}")]
    Broken {
        /// What librdkafka says.
        cause: String,
    },
    /// A call failed.
    #[error("cannot {doing}: {cause}")]
    Call {
        /// What was being done.
        doing: &'static str,
        /// What librdkafka says.
        cause: String,
    },
}

impl LiveError {
    /// Says what the error means for the stream.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unreachable { .. } | Self::Call { .. } => ErrorClass::Transient,
            _ => ErrorClass::Fatal,
        }
    }

    /// Gives the path, in a live source's table, of the entry that is at fault.
    pub fn entry(&self) -> Vec<&str> {
        match self {
            Self::NoBrokers => vec!["brokers"],
            Self::NoTopics | Self::Regex { .. } => vec!["topics"],
            Self::Nights { .. } => vec!["nights"],
            Self::Refused { key, .. }
            | Self::Setting { key, .. }
            | Self::Reference { key, .. }
            | Self::NoTls { key } => {
                vec!["librdkafka", key]
            }
            _ => Vec::new(),
        }
    }

    /// Adds the names of group and user, where a question that does not know them was refused.
    pub(crate) fn of(self, name: &str, user: Option<&str>) -> Self {
        match self.of_user(user) {
            Self::GroupDenied { user: None, cause, .. } => {
                let (group, user) = (name.to_owned(), user.map(str::to_owned));
                Self::GroupDenied { group, user, cause }
            }
            other => other,
        }
    }

    /// Adds the user's name, where a question that does not know it was refused.
    pub(crate) fn of_user(self, name: Option<&str>) -> Self {
        match self {
            Self::TopicDenied { user: None, cause } => {
                let user = name.map(str::to_owned);
                Self::TopicDenied { user, cause }
            }
            other => other,
        }
    }

    /// Makes an error of a failed call, with no value of a setting in it.
    pub(crate) fn call(doing: &'static str, error: &KafkaError) -> Self {
        match error {
            KafkaError::ClientConfig(_, reason, key, _) => Self::Setting {
                key: key.clone(),
                reason: without_value(reason),
            },
            other => Self::Call {
                doing,
                cause: other.to_string(),
            },
        }
    }
}

/// librdkafka quotes the value after the key in some of its texts; everything after a quoted value is dropped.
fn without_value(reason: &str) -> String {
    match reason.find(" value \"") {
        Some(at) => reason.get(..at).unwrap_or_default().to_owned(),
        None => reason.to_owned(),
    }
}

fn named(user: &Option<String>) -> String {
    user.as_ref().map_or_else(
        || "this client (no user)".to_owned(),
        |user| format!("the user `{user}`"),
    )
}

fn why(gap: &Gap) -> &'static str {
    match gap.cause {
        GapCause::Expired => "retention deleted it",
        GapCause::Recreated => "the topic ends before it: it was made again or truncated",
    }
}

/// What one of librdkafka's error events is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// Credentials refused.
    Credentials,
    /// The encrypted connection cannot be made.
    Tls,
    /// The group is not allowed.
    Group,
    /// A topic is not allowed.
    Topic,
    /// A position does not exist.
    Reset,
    /// A subscribed topic does not exist (yet, or any more): a normal state.
    Absent,
    /// Connections come and go; librdkafka tries again by itself.
    Connection,
    /// Not an error: the end of a partition was reached.
    EndOfPartition,
    /// Anything else: worth a line in the log.
    Other,
}

/// Sorts an error code.
pub(crate) fn trouble(code: RDKafkaErrorCode) -> Trouble {
    use RDKafkaErrorCode as Code;
    match code {
        Code::Authentication | Code::SaslAuthenticationFailed | Code::UnsupportedSASLMechanism => Trouble::Credentials,
        Code::SSL => Trouble::Tls,
        Code::GroupAuthorizationFailed | Code::ClusterAuthorizationFailed => Trouble::Group,
        Code::TopicAuthorizationFailed => Trouble::Topic,
        Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::NoOffset => Trouble::Reset,
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => Trouble::Absent,
        Code::AllBrokersDown | Code::BrokerTransportFailure | Code::Resolve | Code::OperationTimedOut => {
            Trouble::Connection
        }
        Code::PartitionEOF => Trouble::EndOfPartition,
        _ => Trouble::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do_and_name_the_user() {
        let denied = LiveError::GroupDenied {
            group: "g".into(),
            user: Some("alice".into()),
            cause: "no".into(),
        };
        assert_eq!(
            denied.to_string(),
            "the user `alice` may not use the group `g`: no; use a group name that the user is allowed, often one \
             that starts with the user's name"
        );
        let gap = Gap {
            topic: "t".into(),
            partition: 1,
            from: 5,
            to: 9,
            cause: GapCause::Expired,
        };
        assert!(
            LiveError::Reset(gap)
                .to_string()
                .starts_with("`kafka:t/1/5` does not exist any more (retention")
        );
    }

    #[test]
    fn a_value_that_librdkafka_quotes_is_cut() {
        assert_eq!(
            without_value("Configuration property \"x\" value \"secret\" is"),
            "Configuration property \"x\""
        );
    }
}
