//! Flags that name a Kafka cluster, and its errors as the command line's.
//!
//! Must not know what a command does with the cluster.

use std::time::Duration;

use clap::Args;

use super::Call;
use super::error::{CliError, CliResult};
use super::sources::no_source;
use crate::source::kafka::client::{Clients, PassThrough};
use crate::source::kafka::config::LiveConfig;
use crate::source::kafka::error::LiveError;
use crate::source::kafka::topics::Topics;
use crate::source::kafka::writer::TopicWriter;

/// How long the first answer of a broker may take.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(20);

/// Which cluster.
#[derive(Debug, Args, Clone)]
pub(super) struct BrokerArgs {
    /// Kafka's addresses, HOST:PORT,...
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    brokers: Vec<String>,
    /// The cluster of this live source of the configuration.
    #[arg(long, value_name = "NAME", conflicts_with = "brokers")]
    source: Option<String>,
    /// A setting of librdkafka; a secret as `env:NAME` or `file:PATH`. Repeatable.
    #[arg(short = 'X', long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    settings: Vec<(String, String)>,
}

impl BrokerArgs {
    /// Says whether a cluster is named.
    pub(super) fn is_given(&self) -> bool {
        !self.brokers.is_empty() || self.source.is_some()
    }

    /// Gives the source that is named, or the only live one.
    pub(super) fn live<'a>(&self, call: &'a Call) -> CliResult<Option<(&'a str, &'a LiveConfig)>> {
        let Some(config) = &call.config else {
            return match &self.source {
                Some(name) => Err(no_source(name, &Default::default())),
                None => Ok(None),
            };
        };
        let group = |source: &'a crate::config::SourceConfig| source.group.as_deref().unwrap_or_default();
        if let Some(name) = &self.source {
            let source = config.source.get(name).ok_or_else(|| no_source(name, &config.source))?;
            let live = source.live.as_ref();
            let missing = || CliError::refused("config", format!("source `{name}` has no [source.{name}.live]"));
            return Ok(Some((group(source), live.ok_or_else(missing)?)));
        }
        let mut all = config
            .source
            .values()
            .filter_map(|source| Some((group(source), source.live.as_ref()?)));
        let first = all.next();
        Ok(first.filter(|_| all.next().is_none() && self.brokers.is_empty()))
    }

    /// Gives the clients' configuration; touches no service.
    pub(super) fn clients(&self, call: &Call) -> CliResult<Clients> {
        let (brokers, mut settings) = match self.live(call)? {
            Some((_, live)) => (live.brokers.clone(), live.librdkafka.clone()),
            None => (self.brokers.clone(), PassThrough::default()),
        };
        if brokers.is_empty() {
            return Err(CliError::refused("usage", "no Kafka cluster is named")
                .hint("give `--brokers HOST:PORT`, or `--source NAME` of a configuration file"));
        }
        for (key, value) in &self.settings {
            settings.set(key, value);
        }
        Clients::new(&brokers, &settings).map_err(|error| CliError::refused("config", error))
    }
}

/// Refuses a group of which nothing says where it is; one of the archive needs a database, one of Kafka its source.
pub(super) fn check_that_a_side_is_named(call: &Call) -> CliResult<()> {
    let sources = call.config.iter().flat_map(|config| &config.source);
    let live = sources.into_iter().find(|(_, source)| source.live.is_some());
    if let (Some((name, _)), None) = (live, call.database_url_if_named()?) {
        return Err(CliError::refused("usage", "no database is named, and no cluster").hint(format!(
            "for a group on Kafka give `--source {name}`; for one of the archive `--database-url URL`, DATABASE_URL or [database] url"
        )));
    }
    Ok(())
}

/// Gives the topics of a group's source, or those that are named instead.
pub(super) fn topics(call: &Call, live: Option<(&str, &LiveConfig)>, named: Vec<String>) -> Topics {
    match live {
        Some((_, live)) if named.is_empty() => {
            Topics::of(live, call.config().night.starts_at.into(), chrono::Utc::now())
        }
        _ => Topics::named(named),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("give KEY=VALUE, as `client.id=me`")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

impl From<LiveError> for CliError {
    fn from(error: LiveError) -> Self {
        match &error {
            LiveError::Unreachable { .. } => Self::failed("unreachable", error),
            LiveError::Refused { .. } | LiveError::Setting { .. } | LiveError::Reference { .. } => {
                Self::refused("config", error)
            }
            LiveError::GroupInUse { .. } => Self::failed("group", error),
            _ => Self::failed("kafka", error),
        }
    }
}

/// Connects to a topic that a command sends to.
pub(super) async fn writer(clients: Clients, topic: String) -> CliResult<TopicWriter> {
    let connected = off(move || TopicWriter::connect(&clients, &topic, CONNECT_WITHIN)).await;
    connected.map_err(|error| match error {
        LiveError::NoSuchTopic { .. } => CliError::from(error).hint("`--partitions N` creates it"),
        other => other.into(),
    })
}

/// Runs calls that block off the async threads.
pub(super) async fn off<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
