//! The configuration of a live source: the table `[source.NAME.live]`.
//!
//! Owns its fields and their checks; touches no service. Must not know the rest of the file.

use serde::Deserialize;

use super::client::{self, Clients, PassThrough};
use super::error::LiveError;
use super::gaps::ResetPolicy;
use super::nights::{NIGHTS_MAX, TopicPattern};
use super::place::{End, Start};

/// `[source.NAME.live]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveConfig {
    /// Addresses as `HOST:PORT`.
    pub brokers: Vec<String>,
    /// Topics: literal names, names with `{night}`, or regular expressions that begin with `^`.
    pub topics: Vec<String>,
    /// How many nights before tonight the topics with `{night}` cover: 1 to [`NIGHTS_MAX`].
    #[serde(default = "default_nights")]
    pub nights: u32,
    /// Where a group without a commit starts.
    #[serde(default)]
    pub start: Start,
    /// Where the read ends.
    #[serde(default)]
    pub end: End,
    /// What happens when a position does not exist any more.
    #[serde(default)]
    pub on_reset: ResetPolicy,
    /// Settings passed through to librdkafka.
    #[serde(default)]
    pub librdkafka: PassThrough,
}

fn default_nights() -> u32 {
    2
}

impl LiveConfig {
    /// Makes the configuration of these topics with everything else at its default.
    pub fn new(brokers: &str, topics: &[&str]) -> Self {
        Self {
            brokers: brokers.split(',').map(str::to_owned).collect(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            nights: default_nights(),
            start: Start::default(),
            end: End::default(),
            on_reset: ResetPolicy::default(),
            librdkafka: PassThrough::default(),
        }
    }

    /// Gives every problem of the table, without touching a service.
    pub fn problems(&self) -> Vec<LiveError> {
        let mut problems = Vec::new();
        if self.topics.is_empty() || self.topics.iter().any(|topic| topic.trim().is_empty()) {
            problems.push(LiveError::NoTopics);
        }
        if !(1..=NIGHTS_MAX).contains(&self.nights) {
            problems.push(LiveError::Nights { nights: self.nights });
        }
        for pattern in self.patterns() {
            if let TopicPattern::Regex(text) = pattern {
                problems.extend(client::check_regex(&text).err());
            }
        }
        problems.extend(Clients::problems(&self.brokers, &self.librdkafka));
        problems
    }

    /// Makes the clients' configuration.
    ///
    /// # Errors
    /// As [`Clients::new`].
    pub fn clients(&self) -> Result<Clients, LiveError> {
        Clients::new(&self.brokers, &self.librdkafka)
    }

    /// Gives the topics' patterns.
    pub fn patterns(&self) -> Vec<TopicPattern> {
        self.topics.iter().map(|topic| TopicPattern::parse(topic)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_table_is_read() {
        let config: LiveConfig = toml::from_str(
            r#"
            brokers = ["localhost:9092"]
            topics = ["ztf_{night}_programid1"]
            nights = 2
            start = "night:2026-11-30"
            end = "none"
            [librdkafka]
            "session.timeout.ms" = 6000
            "check.crcs" = true
            "#,
        )
        .unwrap();
        assert!(config.problems().is_empty());
        assert_eq!(config.start, Start::Night("2026-11-30".parse().unwrap()));
    }

    #[test]
    fn every_problem_is_given_at_once() {
        let config = LiveConfig::new("", &[]);
        assert_eq!(config.problems().len(), 2);
        let mut config = LiveConfig::new("b:1", &["^night_[0-9", "^fine_.*"]);
        config.nights = 0;
        let settings = [
            ("enable.auto.commit", "true"),
            ("check.crcs", "false"),
            ("sesion.timeout.ms", "1"),
        ];
        let settings = settings
            .into_iter()
            .chain([("session.timeout.ms", "soon"), ("client.rack", "r")]);
        config.librdkafka = PassThrough::new(settings.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let said: Vec<String> = config.problems().iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 6, "{said:#?}");
        for (problem, named) in said.iter().zip([
            "`nights = 0`",
            "`^night_[0-9`",
            "`check.crcs`",
            "`enable.auto.commit`",
            "`sesion.timeout.ms`",
            "`session.timeout.ms`",
        ]) {
            assert!(problem.contains(named), "{named} in {said:#?}");
        }
        config.nights = NIGHTS_MAX + 1;
        assert!(config.problems()[0].to_string().contains("`nights = 61`"));
        let said =
            toml::from_str::<LiveConfig>("brokers = [\"b\"]\ntopics = [\"t\"]\nstart = \"yesterday\"").unwrap_err();
        assert!(said.to_string().contains("`yesterday`"), "{said}");
    }
}
