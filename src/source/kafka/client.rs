//! The configuration of every client: consumer, producer, admin. The only place that sets a librdkafka setting.
//!
//! Invariants: what a guarantee rests on cannot be changed by the pass-through table (it is refused with the reason);
//! secrets come from the environment or from files and are in no log, error or `Debug`. Must not know what the clients
//! are used for.

use std::collections::BTreeMap;
use std::fmt;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::error::LiveError;
use super::pass_through::resolve;
use super::security::Security;

pub use super::pass_through::PassThrough;

/// What every consumer starts from; `specs` for the reasons are in the crate's documentation of live sources.
const CONSUMER: &[(&str, &str)] = &[
    ("enable.auto.offset.store", "false"),
    ("enable.auto.commit", "false"),
    ("auto.offset.reset", "error"),
    ("check.crcs", "true"),
    ("fetch.queue.backoff.ms", "10"),
    ("topic.metadata.refresh.interval.ms", "10000"),
    ("allow.auto.create.topics", "false"),
    ("enable.partition.eof", "false"),
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("session.timeout.ms", "45000"),
    ("statistics.interval.ms", "5000"),
];

/// What every producer starts from.
const PRODUCER: &[(&str, &str)] = &[
    ("enable.idempotence", "true"),
    ("linger.ms", "20"),
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.kbytes", "65536"),
    ("message.max.bytes", "10485760"),
];

/// What KIP-848 forbids a member to set (`group.protocol=consumer`).
const CLASSIC_ONLY: &[&str] = &[
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.protocol.type",
];

/// Settings that the table may not have, and why.
const REFUSED: &[(&str, &str)] = &[
    ("bootstrap.servers", "use `brokers`"),
    ("metadata.broker.list", "use `brokers`"),
    ("group.id", "use `group`"),
    (
        "enable.auto.commit",
        "offsets are committed only for alerts that are settled",
    ),
    (
        "auto.commit.enable",
        "offsets are committed only for alerts that are settled",
    ),
    (
        "auto.commit.interval.ms",
        "offsets are committed only for alerts that are settled",
    ),
    (
        "enable.auto.offset.store",
        "offsets are stored only for alerts that are settled",
    ),
    ("offset.store.method", "offsets are kept by the group's coordinator"),
    (
        "auto.offset.reset",
        "a reset is never silent; use `start` and `on_reset`",
    ),
    (
        "enable.partition.eof",
        "the end of a bounded read is a snapshot of the watermarks; use `end`",
    ),
    ("isolation.level", "aborted messages are never delivered"),
    (
        "enable.idempotence",
        "the producer must not duplicate or reorder what it sends",
    ),
    ("test.mock.num.brokers", "a client must not bring its own broker"),
];

/// Settings that may have any value but this one, and why.
const REFUSED_VALUES: &[(&str, &str, &str)] = &[
    (
        "check.crcs",
        "false",
        "a flipped bit in an uncompressed packet would not be seen",
    ),
    ("allow.auto.create.topics", "true", "reading must not create a topic"),
    (
        "statistics.interval.ms",
        "0",
        "lag and the ends of bounded reads come from the statistics",
    ),
];

/// Beginnings of the settings that every kind of client understands; the others are for consumers.
const SHARED: &[&str] = &[
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "https.",
    "client.",
    "socket.",
    "broker.",
    "reconnect.",
    "retry.",
    "connections.",
    "api.version.",
    "metadata.",
    "topic.metadata.",
    "debug",
    "log",
    "receive.message.",
    "message.max.",
];

/// Where secrets hide: the values of these settings are never shown.
const SECRET: &[&str] = &[
    "password",
    "secret",
    "jaas",
    "oauthbearer",
    "key.pem",
    "private",
    "certificate.pem",
];

/// Makes the configuration of clients for one set of brokers.
#[derive(Clone)]
pub struct Clients {
    brokers: String,
    settings: BTreeMap<String, String>,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings.keys().collect::<Vec<_>>();
        f.debug_struct("Clients")
            .field("brokers", &self.brokers)
            .field("settings", &settings)
            .finish()
    }
}

impl Clients {
    /// Checks brokers and settings, and resolves the references to secrets; touches no service.
    ///
    /// # Errors
    /// No broker, a refused or unknown setting, a missing reference, SASL or TLS in a build without it.
    pub fn new(brokers: &[String], pass_through: &PassThrough) -> Result<Self, LiveError> {
        let brokers = joined(brokers);
        if brokers.is_empty() {
            return Err(LiveError::NoBrokers);
        }
        let mut settings = BTreeMap::new();
        for (key, value) in pass_through.iter() {
            refuse(key, value)?;
            settings.insert(key.clone(), resolve(key, value)?);
        }
        if let Some(conflict) = pass_through.conflicts().into_iter().next() {
            return Err(conflict);
        }
        let clients = Self { brokers, settings };
        clients.check()?;
        Ok(clients)
    }

    /// Gives everything that [`Clients::new`] could refuse, not only the first: each setting is looked at by itself.
    pub fn problems(brokers: &[String], pass_through: &PassThrough) -> Vec<LiveError> {
        let brokers = joined(brokers);
        let mut problems: Vec<LiveError> = brokers.is_empty().then_some(LiveError::NoBrokers).into_iter().collect();
        for (key, value) in pass_through.iter() {
            let checked = refuse(key, value).and_then(|()| resolve(key, value)).and_then(|value| {
                let alone = Self {
                    brokers: brokers.clone(),
                    settings: BTreeMap::from([(key.clone(), value)]),
                };
                alone.check()
            });
            problems.extend(checked.err());
        }
        problems.extend(pass_through.conflicts());
        problems
    }

    /// Lets librdkafka read the settings.
    fn check(&self) -> Result<(), LiveError> {
        let read = self.consumer("check", usize::MAX).create_native_config();
        read.map(drop)
            .map_err(|error| LiveError::call("read the settings", &error))
    }

    /// Gives the addresses as configured.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// Gives the user's name, when the settings have one.
    pub fn user(&self) -> Option<&str> {
        self.settings
            .get("sasl.username")
            .or_else(|| self.settings.get("sasl.user.name"))
            .map(String::as_str)
    }

    /// Gives what the settings ask for of SASL and TLS.
    pub(crate) fn security(&self) -> Security {
        Security::of(self.settings.get("security.protocol").map(String::as_str))
    }

    /// Gives a setting's number, or what it is without one (consumers only).
    pub(crate) fn number(&self, key: &str, otherwise: u64) -> u64 {
        let set = self.settings.get(key).map(String::as_str);
        let value = set.or_else(|| {
            CONSUMER
                .iter()
                .find(|(known, _)| *known == key)
                .map(|(_, value)| *value)
        });
        value.and_then(|value| value.parse().ok()).unwrap_or(otherwise)
    }

    /// Makes the configuration of a consumer of a group whose stream may hold `bytes_max` bytes: what is prefetched
    /// comes out of that budget.
    pub fn consumer(&self, group: &str, bytes_max: usize) -> ClientConfig {
        const MIB: usize = 1024 * 1024;
        let prefetch = (bytes_max / 4).clamp(MIB, 64 * MIB);
        let mut config = self.base();
        for (key, value) in CONSUMER {
            config.set(*key, *value);
        }
        config.set("group.id", group);
        config.set("queued.max.messages.kbytes", (prefetch / 1024).to_string());
        config.set("fetch.max.bytes", prefetch.min(16 * MIB).to_string());
        if self
            .settings
            .get("group.protocol")
            .is_some_and(|protocol| protocol == "consumer")
        {
            for key in CLASSIC_ONLY {
                config.remove(key);
            }
        }
        for (key, value) in &self.settings {
            config.set(key, value);
        }
        config
    }

    /// Makes the configuration of a producer.
    pub fn producer(&self) -> ClientConfig {
        let mut config = self.shared();
        for (key, value) in PRODUCER {
            config.set(*key, *value);
        }
        config
    }

    /// Makes the configuration of an admin client.
    pub fn admin(&self) -> ClientConfig {
        self.shared()
    }

    fn base(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // Why a connection failed stands in the log alone, whatever level a person reads.
        if (config.log_level as i32) < RDKafkaLogLevel::Info as i32 {
            config.set_log_level(RDKafkaLogLevel::Info);
        }
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", "alertstream");
        config
    }

    fn shared(&self) -> ClientConfig {
        let mut config = self.base();
        for (key, value) in &self.settings {
            if SHARED.iter().any(|beginning| key.starts_with(beginning)) {
                config.set(key, value);
            }
        }
        config
    }
}

fn joined(brokers: &[String]) -> String {
    let named = brokers.iter().map(|b| b.trim()).filter(|b| !b.is_empty());
    named.collect::<Vec<_>>().join(",")
}

/// Lets librdkafka read a topic's regular expression. The client that does it knows no broker.
pub(super) fn check_regex(text: &str) -> Result<(), LiveError> {
    let made: Result<BaseConsumer, _> = ClientConfig::new().set("group.id", "check").create();
    let consumer = made.map_err(|error| LiveError::call("make the client", &error))?;
    let subscribed = consumer.subscribe(&[text]);
    consumer.unsubscribe();
    subscribed.map_err(|_| LiveError::Regex { text: text.to_owned() })
}

fn refuse(key: &str, value: &str) -> Result<(), LiveError> {
    let refused = |reason| {
        Err(LiveError::Refused {
            key: key.to_owned(),
            reason,
        })
    };
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == key) {
        return refused(reason);
    }
    if let Some((.., reason)) = REFUSED_VALUES
        .iter()
        .find(|(refused, bad, _)| *refused == key && *bad == value)
    {
        return refused(reason);
    }
    if key.ends_with("_cb") || key == "opaque" {
        return refused("callbacks cannot be set from a file");
    }
    let wants_tls = key.starts_with("sasl.") || key.starts_with("ssl.") || key == "enable.ssl.certificate.verification";
    let wants_tls = wants_tls || (key == "security.protocol" && !value.eq_ignore_ascii_case("plaintext"));
    if wants_tls && !cfg!(feature = "kafka-tls") {
        return Err(LiveError::NoTls { key: key.to_owned() });
    }
    Ok(())
}

/// Says whether a setting's value must never be shown.
pub fn is_secret(key: &str) -> bool {
    SECRET.iter().any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(pairs: &[(&str, &str)]) -> Result<Clients, LiveError> {
        let table = PassThrough::new(
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        Clients::new(&["localhost:9092".to_owned()], &table)
    }

    #[test]
    fn what_breaks_a_guarantee_is_refused_with_the_reason() {
        for (key, value) in [
            ("enable.auto.commit", "true"),
            ("check.crcs", "false"),
            ("auto.offset.reset", "latest"),
        ] {
            let said = clients(&[(key, value)]).unwrap_err().to_string();
            assert!(said.starts_with(&format!("the setting `{key}` is refused: ")), "{said}");
        }
        clients(&[("check.crcs", "true"), ("session.timeout.ms", "6000")]).unwrap();
    }

    #[test]
    fn an_unknown_setting_is_named_and_its_value_is_not() {
        let said = clients(&[("sesion.timeout.ms", "hunter2")]).unwrap_err().to_string();
        assert!(
            said.contains("`sesion.timeout.ms`") && !said.contains("hunter2"),
            "{said}"
        );
        let said = clients(&[("session.timeout.ms", "hunter2")]).unwrap_err().to_string();
        assert!(
            said.contains("`session.timeout.ms`") && !said.contains("hunter2"),
            "{said}"
        );
    }

    #[test]
    fn secrets_are_in_no_debug() {
        let settings = [
            ("security.protocol", "SASL_SSL"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "me"),
            ("sasl.password", "hunter2"),
        ];
        let table = PassThrough::new(settings.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(!format!("{table:?}").contains("hunter2"));
        #[cfg(feature = "kafka-tls")]
        {
            let clients = Clients::new(&["b:1".to_owned()], &table).unwrap();
            assert!(!format!("{clients:?}").contains("hunter2"));
        }
        assert!(is_secret("sasl.password") && is_secret("ssl.key.password") && !is_secret("sasl.username"));
    }

    #[test]
    fn a_reference_that_is_missing_is_named() {
        let said = clients(&[("client.rack", "env:ALERTSTREAM_NOT_SET")])
            .unwrap_err()
            .to_string();
        assert!(said.contains("`ALERTSTREAM_NOT_SET`"), "{said}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "rack-1\n").unwrap();
        let clients = clients(&[("client.rack", &format!("file:{}", file.path().display()))]).unwrap();
        assert_eq!(clients.consumer("g", 1).get("client.rack"), Some("rack-1"));
    }

    #[cfg(not(feature = "kafka-tls"))]
    #[test]
    fn a_build_without_tls_names_the_missing_feature() {
        let said = clients(&[("security.protocol", "SASL_SSL")]).unwrap_err().to_string();
        assert!(said.contains("`kafka-tls`"), "{said}");
    }

    #[test]
    fn the_prefetch_comes_out_of_the_budget_and_kip_848_gets_what_it_allows() {
        let plain = clients(&[]).unwrap().consumer("g", 32 * 1024 * 1024);
        assert_eq!(plain.get("queued.max.messages.kbytes"), Some("8192"));
        assert_eq!(plain.get("fetch.max.bytes"), Some("8388608"));
        let new = clients(&[("group.protocol", "consumer")])
            .unwrap()
            .consumer("g", usize::MAX);
        assert_eq!(new.get("queued.max.messages.kbytes"), Some("65536"));
        assert_eq!(new.get("session.timeout.ms"), None);
    }
}
