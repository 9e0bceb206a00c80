//! From a configured source to one that can run: what it reads is checked first, services are touched when it is opened.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::error::{CliError, CliResult};
use crate::archive::Archive;
use crate::archive::groups::{DEFAULT_BLOCK_SIZE, Groups};
use crate::config::SourceConfig;
use crate::decode::Decoder;
use crate::nearest::nearest;
use crate::pipeline::AtRest;
use crate::query::{NightStart, Query};
use crate::record::SourceId;
use crate::source::Source;
use crate::source::archive::{ArchiveConfig, ArchiveSource};
use crate::source::files::{FilesProgress, FilesSource};
use crate::source::kafka::KafkaSource;
use crate::source::kafka::place::End;
use crate::stream::ByteBudget;

/// Where a source reads.
pub(super) enum From {
    /// A consumer group of the archive.
    Archive {
        /// The group.
        group: String,
        /// Its query; without one the group must exist.
        query: Option<Box<Query>>,
        /// Alerts in a block, when this run creates the group.
        block_size: Option<u32>,
    },
    /// Files, folders and tars, which exist.
    Files(Vec<PathBuf>),
    /// Kafka.
    Live(Box<KafkaSource>),
}

/// A source that can run.
pub(super) struct Opened {
    /// The source.
    pub(super) source: Box<dyn Source>,
    /// When idleness counts, for a source that is given its lanes by others.
    pub(super) at_rest: Option<AtRest>,
    /// How far files are read.
    pub(super) files: Option<FilesProgress>,
    /// How long it waits for schemas when it has nothing else to do.
    pub(super) wait_within: Option<Duration>,
}

/// A source with an end waits so long for schemas that a registry does not give; its alerts are then left uncommitted.
const WAIT_WITHIN: Duration = Duration::from_secs(15);

impl From {
    /// Takes the paths of a source; none at all and one that does not exist are refused.
    pub(super) fn files(name: &str, paths: Vec<PathBuf>) -> CliResult<Self> {
        if paths.is_empty() {
            return Err(
                CliError::refused("config", format!("source `{name}` reads files, but has no `paths`"))
                    .hint(format!("give `paths` in [source.{name}.files] of a `--config FILE`")),
            );
        }
        match paths.iter().find(|path| !path.exists()) {
            Some(missing) => Err(
                CliError::refused("path", format!("`{}` does not exist", missing.display()))
                    .hint("give the path of a file or a folder"),
            ),
            None => Ok(Self::Files(paths)),
        }
    }

    /// Takes a live source's configuration.
    pub(super) fn live(name: &str, source: &SourceConfig, group: Option<&str>, night: NightStart) -> CliResult<Self> {
        let table = format!("[source.{name}.live]");
        let live = source.live.clone().ok_or_else(|| {
            CliError::refused("config", format!("source `{name}` is live, but there is no {table}"))
                .hint(format!("give `brokers` and `topics` in {table}"))
        })?;
        let group = group.or(source.group.as_deref()).unwrap_or_default();
        let refused = |error| CliError::refused("config", format!("source `{name}`: {error}"));
        let kafka = KafkaSource::new(SourceId::new(name), group, live).map_err(refused)?;
        Ok(Self::Live(Box::new(kafka.with_nights(night.into()))))
    }

    /// Whether it needs the archive.
    pub(super) fn needs_archive(&self) -> bool {
        matches!(self, Self::Archive { .. })
    }

    fn has_an_end(&self) -> bool {
        match self {
            Self::Archive { .. } | Self::Files(_) => true,
            Self::Live(source) => source.config.end != End::None,
        }
    }

    /// Gives its part of the byte budget that so many sources share.
    pub(super) fn budget(&self, bytes_max: u64, sources: usize) -> ByteBudget {
        ByteBudget::new(part(bytes_max, sources, matches!(self, Self::Live(_))))
    }

    /// Opens it: joins or makes the group of an archive source.
    pub(super) async fn open(self, id: SourceId, archive: Option<&Archive>, decoder: &Decoder) -> CliResult<Opened> {
        let (mut at_rest, mut files) = (None, None);
        let wait_within = self.has_an_end().then_some(WAIT_WITHIN);
        let source: Box<dyn Source> = match self {
            Self::Archive {
                group,
                query,
                block_size,
            } => {
                let archive = archive.ok_or_else(|| CliError::refused("usage", "no database is named"))?;
                let block_size = block_size.unwrap_or(DEFAULT_BLOCK_SIZE);
                let group = Groups::new(archive)
                    .join_or_create(&group, query.as_deref(), block_size)
                    .await?;
                Box::new(ArchiveSource::new(id, archive.clone(), group, ArchiveConfig::default()))
            }
            Self::Files(paths) => {
                let decoder = decoder.clone();
                let source = FilesSource::new(id, paths, Arc::new(move |file| decoder.split(file).map_err(Into::into)));
                files = Some(source.progress());
                Box::new(source)
            }
            Self::Live(source) => {
                let caught_up = source.caught_up();
                at_rest = Some(Box::new(move || caught_up.is_so()) as AtRest);
                source
            }
        };
        Ok(Opened {
            source,
            at_rest,
            files,
            wait_within,
        })
    }
}

/// Equal parts, in bytes, so that a full source stands still alone. What the client of a live source prefetches is a
/// quarter of its stream's budget: together they are the source's part.
fn part(bytes_max: u64, sources: usize, is_live: bool) -> usize {
    let part = usize::try_from(bytes_max).unwrap_or(usize::MAX) / sources.max(1);
    if is_live { part / 5 * 4 } else { part }
}

/// Refuses a source that the configuration does not have.
pub(super) fn no_source(name: &str, all: &BTreeMap<String, SourceConfig>) -> CliError {
    let hint = match nearest(name, all.keys().map(String::as_str)) {
        Some(close) => format!("did you mean `{close}`?"),
        None if all.is_empty() => "give a `--config FILE` that has it".into(),
        None => format!("it has `{}`", all.keys().cloned().collect::<Vec<_>>().join("`, `")),
    };
    CliError::refused("usage", format!("no source `{name}` in the configuration")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::kafka::client::{Clients, PassThrough};

    #[test]
    fn prefetch_queue_and_retries_of_all_sources_share_one_budget() {
        let clients = Clients::new(&["broker:9092".to_owned()], &PassThrough::default()).unwrap();
        for bytes_max in [16 << 20, 128 << 20, 4 << 30] {
            for sources in 1..=3 {
                let (live, other) = (part(bytes_max, sources, true), part(bytes_max, sources, false));
                let config = clients.consumer("group", live);
                let prefetch = config.get("queued.max.messages.kbytes").unwrap();
                let live = live as u64 + 1024 * prefetch.parse::<u64>().unwrap();
                let whole = live + other as u64 * (sources as u64 - 1);
                assert!(
                    whole <= bytes_max && whole * 10 > bytes_max * 8,
                    "{whole} of {bytes_max}"
                );
            }
        }
    }
}
