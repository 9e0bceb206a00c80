//! From flags and configuration file to one checked plan. Nothing here touches a service.
//!
//! Flags win over the file. Without sources in a file there is one, named `archive`, that the flags describe.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::RunArgs;
use crate::cli::Call;
use crate::cli::error::{CliError, CliResult};
use crate::cli::output::Format;
use crate::cli::query_args;
use crate::config::{Config, Mode, SourceConfig, nearest};
use crate::processor::{ProcessorConfig, QueueConfig};
use crate::query::{NightStart, Query, QueryText};
use crate::record::SourceId;
use crate::sink::{SinkConfig, SinkKind};

/// What a run does.
pub(super) struct Plan {
    /// The sources, in the order of their names.
    pub(super) inputs: Vec<Input>,
    /// How alerts wait.
    pub(super) queue: QueueConfig,
    /// How they are worked on.
    pub(super) processor: ProcessorConfig,
    /// Where selected alerts go.
    pub(super) sink: SinkConfig,
    /// The database, where one is named; always when a source reads the archive.
    pub(super) database_url: Option<String>,
}

/// One source of a run.
pub(super) struct Input {
    /// Its name.
    pub(super) id: SourceId,
    /// Where it reads.
    pub(super) from: From,
}

/// Where a source reads.
pub(super) enum From {
    /// A consumer group of the archive.
    Archive {
        /// The group.
        group: String,
        /// Its query; without one the group must exist.
        query: Option<Query>,
        /// Alerts in a block, when this run creates the group.
        block_size: Option<u32>,
    },
    /// Files, folders and tars, which exist.
    Files {
        /// The paths.
        paths: Vec<PathBuf>,
    },
}

/// Makes the plan.
pub(super) fn plan(call: &Call, args: &RunArgs) -> CliResult<Plan> {
    let mut config = call.config();
    if config.source.is_empty() {
        config.source.insert("archive".into(), described_by_flags());
    }
    let sink = sink(&config, args, call.format)?;
    let chosen = choose(config.source, args)?;
    let flags = Flags {
        text: args.query.text()?,
        args,
    };
    flags.check_that_they_have_a_source(&chosen)?;
    let night = config.night.starts_at;
    let inputs = chosen
        .into_iter()
        .map(|(name, source)| {
            let from = match source.mode {
                Mode::Archive => flags.archive(&name, source, night)?,
                Mode::Files => From::Files {
                    paths: existing(source.files.paths)?,
                },
                Mode::Live => return Err(CliError::refused("usage", format!("source `{name}` is live"))),
            };
            Ok(Input {
                id: SourceId::new(name),
                from,
            })
        })
        .collect::<CliResult<Vec<_>>>()?;
    let needs_database = inputs.iter().any(|input| matches!(input.from, From::Archive { .. }));
    let database_url = if needs_database {
        Some(call.database_url()?)
    } else {
        call.database_url_if_named()?
    };
    let mut processor = config.processor;
    if let Some(workers) = args.workers {
        processor.workers = workers as usize;
    }
    Ok(Plan {
        inputs,
        queue: config.queue,
        processor,
        sink,
        database_url,
    })
}

/// The source of a run without a configured one: the archive, with the group and query of the flags.
fn described_by_flags() -> SourceConfig {
    SourceConfig {
        mode: Mode::Archive,
        group: None,
        live: None,
        archive: Default::default(),
        files: Default::default(),
    }
}

fn sink(config: &Config, args: &RunArgs, format: Format) -> CliResult<SinkConfig> {
    let mut sink = config.sink.clone();
    if let Some(path) = &args.sink_path {
        (sink.kind, sink.path) = (SinkKind::Ndjson, path.clone());
    }
    if let Some(problem) = sink.validate().first() {
        return Err(CliError::refused("usage", problem));
    }
    if format == Format::Json && sink.is_stdout() {
        return Err(CliError::refused("usage", "`--json` and the sink both want stdout")
            .hint("give `--sink-path FILE`, or take the summary from `--summary FILE`"));
    }
    Ok(sink)
}

/// Takes the named sources, or all; with the mode that the flags say.
fn choose(all: BTreeMap<String, SourceConfig>, args: &RunArgs) -> CliResult<BTreeMap<String, SourceConfig>> {
    for name in &args.source {
        if !all.contains_key(name) {
            return Err(no_source(name, &all));
        }
    }
    let chosen = all
        .into_iter()
        .filter(|(name, _)| args.source.is_empty() || args.source.contains(name));
    Ok(chosen
        .map(|(name, mut source)| {
            source.mode = args.from.map_or(source.mode, super::From::mode);
            (name, source)
        })
        .collect())
}

/// Refuses a source that the configuration does not have.
pub(in crate::cli) fn no_source(name: &str, all: &BTreeMap<String, SourceConfig>) -> CliError {
    let hint = match nearest(name, all.keys().map(String::as_str)) {
        Some(close) => format!("did you mean `{close}`?"),
        None if all.is_empty() => "give a `--config FILE` that has it".into(),
        None => format!("it has `{}`", all.keys().cloned().collect::<Vec<_>>().join("`, `")),
    };
    CliError::refused("usage", format!("no source `{name}` in the configuration")).hint(hint)
}

/// The flags that describe a source.
struct Flags<'a> {
    text: Option<QueryText>,
    args: &'a RunArgs,
}

impl Flags<'_> {
    /// Group, query and block size are of one source of the archive.
    fn check_that_they_have_a_source(&self, chosen: &BTreeMap<String, SourceConfig>) -> CliResult<()> {
        let archives = chosen.values().filter(|source| source.mode == Mode::Archive).count();
        let given = [
            ("--group", self.args.group.is_some()),
            ("a query", self.text.is_some()),
            ("--block-size", self.args.block_size.is_some()),
        ];
        let Some((what, _)) = given.into_iter().find(|(_, given)| *given) else {
            return Ok(());
        };
        match archives {
            1 => Ok(()),
            0 => Err(
                CliError::refused("usage", format!("{what} is given, but no source reads the archive"))
                    .hint("choose one with `--source NAME`, or read the archive with `--from archive`"),
            ),
            n => Err(
                CliError::refused("usage", format!("{what} is given, but {n} sources read the archive"))
                    .hint("choose one of them with `--source NAME`"),
            ),
        }
    }

    fn archive(&self, name: &str, source: SourceConfig, night: NightStart) -> CliResult<From> {
        let group = self
            .args
            .group
            .clone()
            .or(source.group)
            .filter(|group| !group.is_empty());
        let group = group.ok_or_else(|| {
            CliError::refused(
                "usage",
                format!("source `{name}` reads the archive, but no group is named"),
            )
            .hint("give `--group NAME`: the runs that name the same group share its alerts")
        })?;
        let text = self.text.as_ref().or(source.archive.query.as_ref());
        let query = text.map(|text| query_args::check(text, night)).transpose()?;
        let block_size = self.args.block_size.or(source.archive.block_size);
        Ok(From::Archive {
            group,
            query,
            block_size,
        })
    }
}

/// Checks that the paths are there.
pub(in crate::cli) fn existing(paths: Vec<PathBuf>) -> CliResult<Vec<PathBuf>> {
    match paths.iter().find(|path| !path.exists()) {
        Some(missing) => Err(
            CliError::refused("path", format!("`{}` does not exist", missing.display()))
                .hint("give the path of a file or a folder"),
        ),
        None => Ok(paths),
    }
}
