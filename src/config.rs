//! The configuration: one TOML file. Each module owns the struct of its table; they are put together here.
//!
//! Invariants: an unknown key is an error that names the nearest valid one and its line; all problems are reported at
//! once; a secret is only ever kept as what the file says. Must not know of the command line, nor touch a service.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use crate::archive::Archive;
use crate::decode::{Decoder, DecoderConfig, SchemasConfig};
use crate::filter::{Filter, FilterError, Names};
use crate::nearest::nearest;
use crate::processor::{KeyBy, ProcessorConfig, QueueConfig};
use crate::query::{NightStart, Query, QueryText};
use crate::secret::Secret;
use crate::sink::SinkConfig;
use crate::source::kafka::config::LiveConfig;
use crate::surveys::Mapping;

mod document;

pub use document::Problem;

/// What stands in for a required entry that is missing, so that the rest of its table is checked in the same round.
const STAND_INS: &[document::StandIn] = &[("mode", "\"archive\""), ("brokers", "[]"), ("topics", "[]")];

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the archive is.
    pub database: DatabaseConfig,
    /// When a night begins.
    pub night: NightConfig,
    /// The named sources.
    pub source: BTreeMap<String, SourceConfig>,
    /// How alerts wait for the processor.
    pub queue: QueueConfig,
    /// The processor: workers, filter, retries.
    pub processor: ProcessorConfig,
    /// Where selected alerts go.
    pub sink: SinkConfig,
    /// Where writer schemas come from that are not bundled.
    pub schemas: SchemasConfig,
    /// Mappings of further surveys to the alert header; the table's name is the survey's unless the mapping says one.
    pub survey: BTreeMap<String, Mapping>,
}

/// `[database]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// A `postgres://` URL: a literal, `env:NAME` or `file:PATH`.
    pub url: Option<Secret>,
}

/// `[night]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NightConfig {
    /// When a night begins, UTC; 00:00 unless set.
    #[serde(deserialize_with = "time_of_day")]
    pub starts_at: NightStart,
}

/// `[source.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// Which of the tables below is read.
    pub mode: Mode,
    /// The consumer group: of the archive, or Kafka's `group.id`.
    pub group: Option<String>,
    /// What to read of Kafka.
    pub live: Option<LiveConfig>,
    /// What to read of the archive.
    #[serde(default)]
    pub archive: ArchiveConfig,
    /// Which files to read.
    #[serde(default)]
    pub files: FilesConfig,
}

/// Where a source reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Kafka.
    Live,
    /// A consumer group of the archive.
    Archive,
    /// Files, folders and tars.
    Files,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Archive => "archive",
            Self::Files => "files",
        })
    }
}

/// `[source.NAME.archive]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArchiveConfig {
    /// The query that the group is bound to; without it an existing group is joined.
    pub query: Option<QueryText>,
    /// Alerts in a block, when this run creates the group.
    pub block_size: Option<u32>,
}

/// `[source.NAME.files]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilesConfig {
    /// Files, folders, `.tar`, `.tar.gz`.
    pub paths: Vec<PathBuf>,
}

/// Why a configuration was refused: everything that is wrong with it.
#[derive(Debug)]
pub struct ConfigError {
    path: PathBuf,
    problems: Vec<Problem>,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, or anything in it is wrong: all problems at once.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::load_with(path, Urls::OfTheFile)
    }

    /// Reads and checks a file whose `[database] url` is not used, since another is given.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_beside_a_url(path: &Path) -> Result<Self, ConfigError> {
        Self::load_with(path, Urls::Given)
    }

    fn load_with(path: &Path, urls: Urls) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|cause| ConfigError {
            path: path.to_owned(),
            problems: vec![Problem {
                line: None,
                message: format!("cannot be read: {cause}; give a readable file"),
            }],
        })?;
        Self::parse_with(&text, urls).map_err(|problems| ConfigError {
            path: path.to_owned(),
            problems,
        })
    }

    /// Makes the decoder: the bundled schemas and mappings, and what `[schemas]` and `[survey.NAME]` add.
    ///
    /// # Errors
    /// A secret of the registry cannot be read.
    pub fn decoder(&self) -> Result<Decoder, crate::secret::SecretError> {
        Decoder::new(DecoderConfig {
            mappings: self.mappings(),
            schemas: self.schemas.clone(),
        })
    }

    /// Gives the mappings of `[survey.NAME]`.
    pub fn mappings(&self) -> Vec<Mapping> {
        let named = |(name, mapping): (&String, &Mapping)| {
            let mut mapping = mapping.clone();
            if mapping.survey.is_empty() {
                mapping.survey.clone_from(name);
            }
            mapping
        };
        self.survey.iter().map(named).collect()
    }

    /// Reads and checks the text of a file.
    ///
    /// # Errors
    /// Every problem, in the order of their lines.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        Self::parse_with(text, Urls::OfTheFile)
    }

    fn parse_with(text: &str, urls: Urls) -> Result<Self, Vec<Problem>> {
        let document::Read {
            value: config,
            mut problems,
            removed,
        } = document::read::<Self>(text, STAND_INS);
        if let Some(config) = &config {
            // A table that lacks only what was taken out of it has its problem already.
            let lacks = |path: &[String]| removed.iter().any(|gone| gone.starts_with(path));
            let mut checked = config.check();
            // Where `key` was wrong, its default was not meant.
            if !lacks(&["queue", "key"].map(str::to_owned)) {
                config.check_that_keys_are_sources(&mut checked);
            }
            checked.problems.retain(|(path, _)| !lacks(path));
            problems.extend(checked.located(text));
            if !problems.is_empty() && config.sees_other_schemas() {
                // The file is refused in any case: then all that may be wrong is told.
                let mut names = Found::default();
                config.check_names(Unknown::Told, &mut names);
                let more: Vec<Problem> = names.located(text).filter(|p| !problems.contains(p)).collect();
                problems.extend(more);
            }
            if let (Urls::OfTheFile, Some(url), false) = (urls, &config.database.url, problems.is_empty())
                && let Err(error) = url.reveal()
            {
                let mut found = Found::default();
                found.add(["database", "url"], error.to_string());
                problems.extend(found.located(text));
            }
        }
        problems.sort_by_key(|problem| problem.line);
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(problems),
        }
    }

    /// Checks what the types cannot, reading no more than the files that a query names: gives each problem with the path
    /// of its entry. A name of a field that is in no schema known here may be in one that the archive or the files have
    /// seen: where a source reads these, a run looks there.
    pub fn validate(&self) -> Vec<(Vec<String>, String)> {
        let mut found = self.check();
        self.check_that_keys_are_sources(&mut found);
        found.problems
    }

    fn check(&self) -> Found {
        let mut found = Found::default();
        if let Some(url) = self.database.url.as_ref().and_then(Secret::literal)
            && let Err(error) = Archive::check_url(url)
        {
            found.add(["database", "url"], error.to_string());
        }
        for (name, source) in &self.source {
            validate_source(name, source, self.night.starts_at, &mut found);
        }
        for (key, message) in self.queue.validate() {
            found.add_at(["queue"].into_iter().chain(key.iter().map(String::as_str)), message);
        }
        for (key, secret) in [("user", &self.schemas.user), ("password", &self.schemas.password)] {
            if let Some(Err(error)) = secret.as_ref().map(Secret::reveal) {
                found.add(["schemas", key], error.to_string());
            }
        }
        for (key, message) in self.processor.validate() {
            found.add_at(["processor"].into_iter().chain(key.split('.')), message);
        }
        let unknown = if self.sees_other_schemas() {
            Unknown::LeftToTheRun
        } else {
            Unknown::Told
        };
        self.check_names(unknown, &mut found);
        for (key, message) in self.sink.validate() {
            found.add(["sink", key], message);
        }
        found
    }

    /// Whether the alerts may have a schema that is not known before a run looks at what it reads.
    fn sees_other_schemas(&self) -> bool {
        self.source.is_empty() || self.source.values().any(|source| source.mode != Mode::Live)
    }

    /// The filter and the sink name only what an alert can have.
    fn check_names(&self, unknown: Unknown, found: &mut Found) {
        if self.processor.filter.is_none() && self.sink.fields.is_none() {
            return;
        }
        let names = self.names();
        if let Some(text) = &self.processor.filter
            && let Err(error) = Filter::compile(text, &names)
            && (unknown == Unknown::Told || !matches!(error, FilterError::UnknownName { .. }))
        {
            found.add(["processor", "filter"], error.to_string());
        }
        if unknown == Unknown::Told {
            for message in self.sink.unknown_fields(&names) {
                found.add(["sink", "fields"], message);
            }
        }
    }

    /// Gives the names that a filter and the sink's `fields` may use: the bundled schemas' and those of the mappings.
    fn names(&self) -> Names {
        let bare = DecoderConfig {
            mappings: self.mappings(),
            schemas: SchemasConfig::default(),
        };
        Decoder::new(bare).map_or_else(|_| Names::bundled(), |decoder| Names::of(&decoder))
    }

    /// Where the queue is fair between sources, what is set for a key is set for a source.
    fn check_that_keys_are_sources(&self, found: &mut Found) {
        if self.queue.key != KeyBy::Source || self.source.is_empty() {
            return;
        }
        for (table, keys) in [("limits", &self.queue.limits), ("weights", &self.queue.weights)] {
            for key in keys.keys().filter(|key| !self.source.contains_key(*key)) {
                let close = nearest(key, self.source.keys().map(String::as_str));
                let hint = close.map_or("name a source".into(), |close| format!("did you mean `{close}`?"));
                found.add(
                    ["queue", table, key],
                    format!("`{table}.{key}`: there is no source `{key}`; {hint}"),
                );
            }
        }
    }
}

/// Whether the database's URL is the file's. A reference in it that leads nowhere is told beside other problems; alone it
/// is left to what uses it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urls {
    OfTheFile,
    Given,
}

/// What becomes of a name that no schema known here has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Told,
    LeftToTheRun,
}

#[derive(Default)]
struct Found {
    problems: Vec<(Vec<String>, String)>,
}

impl Found {
    /// Gives the problems with their lines in the text.
    fn located(self, text: &str) -> impl Iterator<Item = Problem> {
        self.problems.into_iter().map(move |(path, message)| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            Problem {
                line: document::line_of(text, &path),
                message,
            }
        })
    }

    fn add<const N: usize>(&mut self, path: [&str; N], message: impl Into<String>) {
        self.add_at(path, message);
    }

    fn add_at<'p>(&mut self, path: impl IntoIterator<Item = &'p str>, message: impl Into<String>) {
        let path = path.into_iter().map(str::to_owned).collect();
        self.problems.push((path, message.into()));
    }
}

fn validate_source(name: &str, source: &SourceConfig, night: NightStart, found: &mut Found) {
    if name.is_empty() {
        found.add(["source", name], "a source's name cannot be empty");
    }
    if source.group.as_deref() == Some("") {
        found.add(
            ["source", name, "group"],
            "`group` cannot be empty; name the consumer group",
        );
    }
    if source.archive.block_size == Some(0) {
        found.add(
            ["source", name, "archive", "block_size"],
            "`block_size = 0`: a block holds at least one alert",
        );
    }
    if let Some(text) = &source.archive.query {
        for error in Query::problems(text, night) {
            let path = ["source", name, "archive", "query"];
            found.add_at(path.into_iter().chain(error.part()), error.in_a_table());
        }
    }
    for problem in source.live.iter().flat_map(LiveConfig::problems) {
        let path = ["source", name, "live"];
        found.add_at(path.into_iter().chain(problem.entry()), problem.to_string());
    }
    if source.mode == Mode::Live && source.live.is_none() {
        found.add(
            ["source", name],
            format!("source `{name}` is live; give `brokers` and `topics` in [source.{name}.live]"),
        );
    }
    if source.mode == Mode::Files && source.files.paths.is_empty() {
        found.add(
            ["source", name],
            format!("source `{name}` reads files; give `paths` in [source.{name}.files]"),
        );
    }
}

fn time_of_day<'de, D: Deserializer<'de>>(from: D) -> Result<NightStart, D::Error> {
    let text = String::deserialize(from)?;
    NightStart::parse(&text).map_err(|_| {
        serde::de::Error::custom(format!(
            "`starts_at = \"{text}\"` is no time of day; write it as \"12:00\" (UTC)"
        ))
    })
}

impl ConfigError {
    /// Gives the problems.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration `{}`", self.path.display())?;
        match self.problems.as_slice() {
            [one] => write!(f, ": {one}"),
            many => many.iter().try_for_each(|problem| write!(f, "\n  {problem}")),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests;
