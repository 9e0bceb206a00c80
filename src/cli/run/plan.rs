//! From flags and configuration file to one checked plan. Nothing here touches a service.
//!
//! Flags win over the file. Without sources in a file there is one, named `archive`, that the flags describe.

use std::collections::BTreeMap;

use super::RunArgs;
use crate::archive::groups::check_name;
use crate::cli::Call;
use crate::cli::error::{CliError, CliResult};
use crate::cli::names::{Checked, Uses};
use crate::cli::output::Format;
use crate::cli::query_args;
use crate::cli::sources::{From, no_source};
use crate::config::{Config, Mode, SourceConfig};
use crate::decode::Decoder;
use crate::processor::{ProcessorConfig, QueueConfig};
use crate::query::{NightStart, QueryText};
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
    /// Which alerts are selected, checked as far as that goes without asking anybody.
    pub(super) names: Checked,
    /// What decodes.
    pub(super) decoder: Decoder,
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

/// Makes the plan.
pub(super) fn plan(call: &Call, args: &RunArgs) -> CliResult<Plan> {
    let mut config = call.config();
    if config.source.is_empty() {
        config.source.insert("archive".into(), described_by_flags());
    }
    let sink = sink(&config, args, call.format)?;
    let decoder = config.decoder().map_err(|error| CliError::refused("config", error))?;
    let chosen = choose(config.source, args)?;
    let flags = Flags {
        text: args.query.text()?,
        args,
    };
    flags.check_that_they_have_a_source(&chosen)?;
    let night = config.night.starts_at;
    let mut processor = config.processor;
    if let Some(text) = args.filter.clone() {
        processor.filter = Some(text);
    }
    let uses = Uses {
        filter: processor.filter.as_deref(),
        sink: &sink,
    };
    let names = uses.check(&decoder)?;
    let inputs = chosen
        .into_iter()
        .map(|(name, source)| {
            let from = match source.mode {
                Mode::Archive => flags.archive(&name, source, night)?,
                Mode::Files => From::files(&name, source.files.paths)?,
                Mode::Live => flags.live(&name, &source, night)?,
            };
            Ok(Input {
                id: SourceId::new(name),
                from,
            })
        })
        .collect::<CliResult<Vec<_>>>()?;
    let needs_database = inputs.iter().any(|input| input.from.needs_archive());
    let database_url = match (needs_database, &names) {
        (false, _) => call.database_url_if_named()?,
        (true, Checked::Fine(_)) => Some(call.database_url()?),
        // Without an archive there is nothing that could know the name.
        (true, Checked::Unknown(error)) => Some(call.database_url().map_err(|_| error.clone())?),
    };
    if let Some(workers) = args.workers {
        processor.workers = workers as usize;
    }
    Ok(Plan {
        inputs,
        names,
        decoder,
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
    if let Some((_, problem)) = sink.validate().first() {
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
            source.mode = args.from.map_or(source.mode, super::ReadFrom::mode);
            (name, source)
        })
        .collect())
}

/// The flags that describe a source.
struct Flags<'a> {
    text: Option<QueryText>,
    args: &'a RunArgs,
}

impl Flags<'_> {
    /// Group, query, block size and start are each of one source that can have it.
    fn check_that_they_have_a_source(&self, chosen: &BTreeMap<String, SourceConfig>) -> CliResult<()> {
        let of = |modes: &[Mode]| chosen.values().filter(|source| modes.contains(&source.mode)).count();
        let (archives, live) = (of(&[Mode::Archive]), of(&[Mode::Live]));
        let given = [
            ("--group", self.args.group.is_some(), archives + live, "has a group"),
            ("a query", self.text.is_some(), archives, "reads the archive"),
            (
                "--block-size",
                self.args.block_size.is_some(),
                archives,
                "reads the archive",
            ),
            ("--from-start", self.args.from_start, live, "is live"),
        ];
        for (what, given, sources, which) in given {
            if given && sources != 1 {
                let count = if sources == 0 {
                    "no source".into()
                } else {
                    format!("more than one source ({sources})")
                };
                return Err(
                    CliError::refused("usage", format!("{what} is given, but {count} {which}"))
                        .hint("choose one with `--source NAME`, and where it reads with `--from`"),
                );
            }
        }
        Ok(())
    }

    fn live(&self, name: &str, source: &SourceConfig, night: NightStart) -> CliResult<From> {
        match From::live(name, source, self.args.group.as_deref(), night)? {
            From::Live(live) if self.args.from_start => Ok(From::Live(Box::new(live.from_start()))),
            other => Ok(other),
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
        check_name(&group).map_err(|error| CliError::refused("usage", error))?;
        let text = self.text.as_ref().or(source.archive.query.as_ref());
        let query = text
            .map(|text| query_args::check(text, night).map(Box::new))
            .transpose()?;
        let block_size = self.args.block_size.or(source.archive.block_size);
        Ok(From::Archive {
            group,
            query,
            block_size,
        })
    }
}
