//! Which topics a name stands for now: itself, its nights by the clock, or all that its regular expression matches.
//!
//! Invariant: a night whose topic is not there is normal, and only counted. The calls block, each question bounded in
//! time. Must not know what the topics are used for.

use chrono::{DateTime, Utc};
use rdkafka::consumer::{BaseConsumer, ConsumerContext};

use super::ask::{self, Part};
use super::config::LiveConfig;
use super::error::LiveError;
use super::nights::{NightStart, TopicPattern, Window};

/// Topics as they are asked for.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    literal: Vec<String>,
    nightly: Vec<String>,
    expressions: Vec<String>,
}

/// What of them is there.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The topics that are there, sorted.
    pub names: Vec<String>,
    /// The partitions they have together.
    pub partitions: usize,
    /// Names that are no topic.
    pub missing: Vec<String>,
    /// How many nights have no topic.
    pub absent_nights: usize,
}

impl Topics {
    /// Takes what a live source names.
    pub fn of(live: &LiveConfig, starts_at: NightStart, now: DateTime<Utc>) -> Self {
        let window = Window {
            nights: live.nights,
            starts_at,
            first: None,
            last: None,
        };
        let (mut topics, mut nightly) = (Self::default(), Vec::new());
        for pattern in live.patterns() {
            match pattern {
                TopicPattern::Literal(name) => topics.literal.push(name),
                TopicPattern::Regex(text) => topics.expressions.push(text),
                TopicPattern::Nightly { .. } => nightly.push(pattern),
            }
        }
        topics.nightly = window.topics(&nightly, now);
        topics
    }

    /// Takes names as a person gives them: topics, or regular expressions that begin with `^`.
    pub fn named(names: Vec<String>) -> Self {
        let (expressions, literal) = names.into_iter().partition(|name| name.starts_with('^'));
        Self {
            literal,
            nightly: Vec::new(),
            expressions,
        }
    }

    /// Says whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.literal.is_empty() && self.nightly.is_empty() && self.expressions.is_empty()
    }

    /// Asks the brokers.
    pub(crate) fn find<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>) -> Result<Found, LiveError> {
        let mut names: Vec<String> = self.literal.iter().chain(&self.nightly).cloned().collect();
        for expression in &self.expressions {
            let matched = ask::matching(consumer, expression)?;
            if matched.is_empty() {
                let text = expression.clone();
                return Err(LiveError::NoneMatches { text });
            }
            names.extend(matched);
        }
        names.sort();
        names.dedup();
        let parts = ask::partitions(consumer, &names)?;
        let is_there = |name: &String| parts.iter().any(|Part { topic, .. }| **topic == **name);
        let absent = |names: &[String]| names.iter().filter(|name| !is_there(name)).cloned().collect::<Vec<_>>();
        let (missing, nights) = (absent(&self.literal), absent(&self.nightly));
        names.retain(is_there);
        Ok(Found {
            names,
            partitions: parts.len(),
            missing,
            absent_nights: nights.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let live = LiveConfig::new("b:1", &["one", "^two.*", "three_{night}"]);
        let now = "2026-03-14T05:00:00Z".parse().unwrap();
        let topics = Topics::of(&live, NightStart::default(), now);
        assert_eq!(
            (topics.literal, topics.expressions),
            (vec!["one".into()], vec!["^two.*".into()])
        );
        assert_eq!(topics.nightly, ["three_20260312", "three_20260313", "three_20260314"]);
        let named = Topics::named(vec!["^a".into(), "b".into()]);
        assert_eq!(
            (named.literal, named.expressions),
            (vec!["b".to_owned()], vec!["^a".to_owned()])
        );
        assert!(Topics::named(Vec::new()).is_empty());
    }
}
