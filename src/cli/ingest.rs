//! `ingest`: files, folders, tars, or a configured source, into the archive.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::error::{CliError, CliResult, Exit};
use super::named::Named;
use super::progress::Progress;
use super::signals::Signals;
use super::sources::{From, Opened, no_source};
use super::{Call, output};
use crate::archive::ingest::{ArchiveWriter, IngestStats};
use crate::config::{Config, Mode};
use crate::decode::{Decoder, DecoderConfig};
use crate::nearest::nearest;
use crate::pipeline::{self, Ended, Limits, Pipeline};
use crate::processor::{AlertProcessor, ProcessorConfig, RetryConfig};
use crate::record::SourceId;
use crate::source::files::FilesProgress;
use crate::stream::StreamConfig;
use crate::surveys;
use crate::units::counted;

/// Batches written at the same time.
const WRITERS: u32 = 4;
/// A database that is away for about four minutes is waited for.
const RETRY: RetryConfig = RetryConfig {
    tries: 12,
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
};
/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Archives alert packets, byte for byte.
///
/// Folders are read recursively, whatever the files are called; `.tar` and `.tar.gz` are opened. What is already there
/// is counted as a duplicate, so a half-finished ingest is simply repeated. What is no packet is named with the reason
/// and kept as a dead letter.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream ingest alerts/ night.tar.gz
  alertstream ingest --strict alerts/                     exit 1 when anything was refused
  alertstream ingest --config alertstream.toml --source ztf")]
pub(super) struct IngestArgs {
    /// Files, folders, .tar, .tar.gz.
    #[arg(value_name = "PATH", required_unless_present = "source", conflicts_with = "source")]
    paths: Vec<PathBuf>,
    /// A source of the configuration, instead of paths.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Packets of a survey that is not known are read as this one's, e.g. of [survey.NAME] in the configuration.
    ///
    /// That fills the columns that queries see. A replay decodes the packets anew, without this flag: for the same fields
    /// there, describe the survey in [survey.NAME] of the configuration, with its records' names in `records`.
    #[arg(long, value_name = "NAME")]
    survey: Option<String>,
    /// Alerts written in one transaction.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Ends when nothing was delivered for so long; for a live source.
    ///
    /// The time counts only while everything in its topics is read, here or by the other members of its group. What a
    /// killed member had comes to the others when its session ends (45 s unless set).
    #[arg(long, value_name = "SECONDS", value_parser = super::values::idle_seconds)]
    until_idle: Option<Duration>,
    /// Ends with exit code 1 when anything was refused.
    #[arg(long)]
    strict: bool,
}

/// What an ingest did, in packets.
#[derive(Serialize)]
struct Ingested {
    read: u64,
    archived: u64,
    duplicates: u64,
    revisions: u64,
    reframed: u64,
    dead_letters: u64,
    unknown_schema: u64,
    /// Empty payloads from Kafka: no packets, so not among the read.
    tombstones: u64,
    bytes: u64,
    seconds: f64,
    interrupted: bool,
}

pub(super) async fn run(call: &Call, args: &IngestArgs) -> CliResult {
    let config = call.config();
    let (name, from) = input(&config, args)?;
    let decoder = decoder(&config, args.survey.as_deref())?;
    call.database_url()?;
    let signals = Signals::watch()?;
    let archive = call.archive().await?;
    let writer = Arc::new(ArchiveWriter::new(&archive, WRITERS));
    let processor = ProcessorConfig {
        workers: WRITERS as usize,
        batch_max: args.batch as usize,
        retry: RETRY,
        ..ProcessorConfig::default()
    };
    let pipeline = Pipeline::start(
        AlertProcessor::batching(writer.clone(), &processor),
        &config.queue,
        decoder.clone(),
    );
    let budget = from.budget(config.queue.bytes_max, 1);
    let Opened {
        source,
        at_rest,
        files,
        wait_within,
    } = from.open(name, None, &decoder).await?;
    let stream = StreamConfig {
        wait_within,
        budget,
        dead_letters: Arc::new(Named::new(archive.dead_letters())),
        ..StreamConfig::default()
    };
    let input = pipeline::Input {
        source,
        stream,
        at_rest,
    };
    let limits = Limits {
        until_idle: args.until_idle,
        ..Limits::default()
    };
    let ended = watched(pipeline.run(vec![input], &limits, signals.first()), files.as_ref()).await;
    let done = Ingested::of(&writer.stats(), &ended);
    output::summary(call.format, &done, Ingested::text)?;
    match ended.failure {
        Some(failure) => Err(failure.into()),
        None if args.strict && done.dead_letters > 0 => Err(CliError::failed(
            "refused",
            format!("`--strict`: {} refused", counted(done.dead_letters, "packet")),
        )
        .hint("each is named above; see `alertstream dlq list`")),
        None => Ok(Exit::Finished),
    }
}

/// Gives what is read, and under which name.
fn input(config: &Config, args: &IngestArgs) -> CliResult<(SourceId, From)> {
    let Some(name) = &args.source else {
        return Ok((SourceId::new("ingest"), From::files("ingest", args.paths.clone())?));
    };
    let source = config.source.get(name).ok_or_else(|| no_source(name, &config.source))?;
    let from = match source.mode {
        Mode::Files => From::files(name, source.files.paths.clone())?,
        Mode::Live => From::live(name, source, None, config.night.starts_at)?,
        // Where the archive gets its alerts from; reading them back is what the mode is for.
        Mode::Archive if source.live.is_some() => From::live(name, source, None, config.night.starts_at)?,
        Mode::Archive if !source.files.paths.is_empty() => From::files(name, source.files.paths.clone())?,
        Mode::Archive => {
            return Err(CliError::refused(
                "usage",
                format!("source `{name}` reads the archive, which has its alerts"),
            )
            .hint(format!(
                "give it a [source.{name}.live] or [source.{name}.files], or give paths"
            )));
        }
    };
    Ok((SourceId::new(name.as_str()), from))
}

/// Makes the decoder; the named survey's mapping stands behind all others, for every record.
fn decoder(config: &Config, survey: Option<&str>) -> CliResult<Decoder> {
    let unreadable = |error| CliError::refused("config", error);
    let Some(survey) = survey else {
        return config.decoder().map_err(unreadable);
    };
    let mut mappings = config.mappings();
    mappings.extend(surveys::bundled());
    let Some(mapping) = mappings.iter().find(|mapping| mapping.survey == survey) else {
        let close = nearest(survey, mappings.iter().map(|mapping| mapping.survey.as_str()));
        let hint = close.map_or("describe it in [survey.NAME] of the configuration".into(), |close| {
            format!("did you mean `{close}`?")
        });
        return Err(CliError::refused("usage", format!("no mapping of a survey `{survey}`")).hint(hint));
    };
    let mut last = mapping.clone();
    last.records = vec!["*".into()];
    mappings.push(last);
    Decoder::new(DecoderConfig {
        mappings,
        schemas: config.schemas.clone(),
    })
    .map_err(unreadable)
}

/// Shows how far the files are read while the pipeline runs.
async fn watched(running: impl Future<Output = Ended>, files: Option<&FilesProgress>) -> Ended {
    let progress = files.map(|files| (Progress::of_bytes(files.bytes_total(), "ingesting"), files));
    tokio::pin!(running);
    loop {
        match tokio::time::timeout(LOOK, running.as_mut()).await {
            Ok(ended) => return ended,
            Err(_) => progress
                .iter()
                .for_each(|(bar, files)| bar.set(files.bytes_done(), files.bytes_total())),
        }
    }
}

impl Ingested {
    fn of(stats: &IngestStats, ended: &Ended) -> Self {
        let dead_letters = ended.sources.values().map(|totals| totals.stream.rejected).sum();
        let tombstones = ended.sources.values().map(|totals| totals.tombstones).sum();
        let IngestStats {
            archived,
            duplicates,
            revisions,
            reframed,
            unknown_schema,
            bytes,
        } = *stats;
        Self {
            read: archived + duplicates + revisions + dead_letters,
            archived,
            duplicates,
            revisions,
            reframed,
            dead_letters,
            unknown_schema,
            tombstones,
            bytes,
            seconds: ended.took.as_secs_f64(),
            interrupted: ended.interrupted,
        }
    }

    fn text(&self) -> String {
        let rate = |per_second: f64| {
            if self.seconds > 0.0 {
                per_second / self.seconds
            } else {
                0.0
            }
        };
        let mut rows = vec![
            ("read", self.read.to_string()),
            ("archived", self.archived.to_string()),
            ("duplicates", self.duplicates.to_string()),
            ("revisions", self.revisions.to_string()),
            ("reframed", self.reframed.to_string()),
            ("dead letters", self.dead_letters.to_string()),
            ("bytes", output::bytes(self.bytes)),
            (
                "took",
                format!("{:.1} s, {:.0} alerts/s", self.seconds, rate(self.read as f64)),
            ),
        ];
        if self.unknown_schema > 0 {
            rows.push(("of an unknown schema", self.unknown_schema.to_string()));
        }
        if self.tombstones > 0 {
            rows.push(("tombstones", self.tombstones.to_string()));
        }
        output::aligned(&rows)
            + if self.interrupted {
                "interrupted: run it again to go on\n"
            } else {
                ""
            }
    }
}
