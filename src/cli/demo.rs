//! `demo`: the main job on embedded defaults, and the proof that live and replay mean the same.
//!
//! A simulated night is ingested into a private Postgres, replayed with one and with several workers, and sent through
//! a mock Kafka topic to the same processor. All must select the same alerts. Nothing is left running.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use chrono::NaiveDate;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Call;
use super::embedded::database::OwnDatabase;
use super::embedded::postgres::PrivatePostgres;
use super::error::{CliError, CliResult, Exit};
use super::open_archive;
use super::output;
use super::signals::Signals;
use super::sources::From;
use crate::archive::ingest::ArchiveWriter;
use crate::archive::{Archive, ArchiveOptions, without_empty_host};
use crate::decode::Decoder;
use crate::filter::{Filter, Names};
use crate::pipeline::{self, Ended, Limits, Pipeline, Selector};
use crate::processor::{AlertProcessor, ProcessorConfig, QueueConfig};
use crate::query::Query;
use crate::record::SourceId;
use crate::simulate::{Settings, Simulation};
use crate::sink::{Sink, SinkConfig};
use crate::source::Source;
use crate::source::memory::MemorySource;
use crate::stream::StreamConfig;
use crate::units::counted;

mod live;

use live::Topic;

/// What the demo's processor looks for.
const FILTER: &str = "magnitude < 19.0 && rb >= 0.7";
/// Alerts in a block: small, so that several workers have something to share.
const BLOCK_SIZE: u32 = 100;

/// Shows the main job, with nothing to install or configure: ingest, replay, live, and that all select the same.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream demo
  alertstream demo --alerts 5000 --workers 8 --keep

Uses a private Postgres of the installed binaries and a Kafka broker inside the process. With --database-url or
DATABASE_URL it uses that server: a database of its own there, dropped at the end.")]
pub(super) struct DemoArgs {
    /// Alerts of the simulated night.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    alerts: u64,
    /// Workers of the second replay and of the live run.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: u32,
    /// Keeps the selected alerts of each run as files, and says where.
    #[arg(long)]
    keep: bool,
}

#[derive(Serialize)]
struct Shown {
    alerts: u64,
    ingest: Ingested,
    replay_one_worker: Ran,
    replay: Ran,
    live: Ran,
    same: bool,
}

#[derive(Serialize)]
struct Ingested {
    archived: u64,
    seconds: f64,
}

/// One run of the processor.
#[derive(Serialize)]
struct Ran {
    delivered: u64,
    selected: u64,
    seconds: f64,
    #[serde(skip)]
    alerts: BTreeSet<i64>,
}

pub(super) async fn run(call: &Call, args: &DemoArgs) -> CliResult {
    let signals = Signals::watch()?;
    let folder = Folder::make(args.keep)?;
    let (server, database) = database(call).await?;
    let result = show(args, database.url(), &folder, &signals.first()).await;
    let dropped = database.discard().await;
    server.stop().await;
    dropped.map_err(|error| {
        CliError::failed(
            "postgres",
            format!("the database {} could not be dropped: {error}", database.name()),
        )
    })?;
    let shown = result?;
    output::result(call.format, &shown, |shown| text(shown, args, &folder))?;
    match shown.same {
        true => Ok(Exit::Finished),
        false => Err(CliError::failed("demo", "the runs did not select the same alerts")),
    }
}

/// A database of the demo's own, on the server that is named or else on a private one.
async fn database(call: &Call) -> CliResult<(PrivatePostgres, OwnDatabase)> {
    let given = call.database_url_if_named()?;
    let place = match &given {
        // Says in words why it cannot be reached.
        Some(url) => Some(
            Archive::connect(url, &ArchiveOptions::default())
                .await?
                .place()
                .to_owned(),
        ),
        None => {
            output::say("starting a private Postgres");
            None
        }
    };
    let given = given.map(|url| without_empty_host(&url).into_owned());
    let server = PrivatePostgres::start_unless_given(given).await;
    let server = server.map_err(|error| CliError::failed("postgres", error))?;
    let own = OwnDatabase::create(server.url(), "alertstream_demo").await;
    let own = own.map_err(|error| {
        let place = place.as_deref().unwrap_or("the private Postgres");
        CliError::failed("postgres", format!("no database could be made on {place}: {error}"))
            .hint("give a role that may create databases, or none at all: the demo then starts a Postgres of its own")
    })?;
    if let Some(place) = &place {
        output::say(format!(
            "using the database {} on {place}, dropped at the end",
            own.name()
        ));
    }
    Ok((server, own))
}

async fn show(args: &DemoArgs, url: &str, folder: &Folder, stop: &CancellationToken) -> CliResult<Shown> {
    let archive = Archive::connect(url, &ArchiveOptions::default()).await?;
    archive.migrate().await?;
    let archive = open_archive(url).await?;
    let stage = Stage {
        archive,
        decoder: Decoder::bundled(),
        stop: stop.clone(),
    };
    let packets = simulate(args.alerts).await?;
    output::say(format!(
        "ingesting a simulated night of {}",
        counted(args.alerts, "alert")
    ));
    let ingest = stage.ingest(packets.clone()).await?;
    output::say("replaying it with 1 worker");
    let replay_one_worker = stage.replay("one-worker", 1, &folder.file("one-worker.ndjson")).await?;
    output::say(format!("replaying it with {}", counted(args.workers, "worker")));
    let replay = stage
        .replay("workers", args.workers, &folder.file("workers.ndjson"))
        .await?;
    output::say("sending it through a mock Kafka topic to the same processor");
    let topic = Topic::filled(packets).await?;
    let live = stage
        .process(topic.source()?, args.workers, &folder.file("live.ndjson"))
        .await?;
    topic.close().await;
    let same = [&replay_one_worker, &live]
        .iter()
        .all(|ran| ran.alerts == replay.alerts)
        && [&replay_one_worker, &replay, &live]
            .iter()
            .all(|ran| ran.delivered == args.alerts);
    Ok(Shown {
        alerts: args.alerts,
        ingest,
        replay_one_worker,
        replay,
        live,
        same,
    })
}

/// Makes the packets, off the async threads.
async fn simulate(alerts: u64) -> CliResult<Vec<Bytes>> {
    let night = NaiveDate::from_ymd_opt(2026, 3, 14).unwrap_or_default();
    let simulation = Simulation::new(Settings::night(night, alerts)).map_err(|e| CliError::failed("demo", e))?;
    let packets = tokio::task::spawn_blocking(move || simulation.map(|packet| packet.payload).collect());
    packets.await.map_err(|error| CliError::failed("internal", error))
}

/// What all steps use.
struct Stage {
    archive: Archive,
    decoder: Decoder,
    stop: CancellationToken,
}

impl Stage {
    async fn ingest(&self, packets: Vec<Bytes>) -> CliResult<Ingested> {
        let writer = Arc::new(ArchiveWriter::new(&self.archive, 2));
        let config = ProcessorConfig {
            workers: 2,
            batch_max: 200,
            ..ProcessorConfig::default()
        };
        let processor = AlertProcessor::batching(writer.clone(), &config);
        let pipeline = Pipeline::start(processor, &QueueConfig::default(), self.decoder.clone());
        let ended = self.end(pipeline, Box::new(MemorySource::of("night", packets))).await?;
        Ok(Ingested {
            archived: writer.stats().archived,
            seconds: ended.took.as_secs_f64(),
        })
    }

    async fn replay(&self, group: &str, workers: u32, to: &Path) -> CliResult<Ran> {
        let (group, query, block_size) = (group.to_owned(), Some(Box::new(Query::all())), Some(BLOCK_SIZE));
        self.process(
            From::Archive {
                group,
                query,
                block_size,
            },
            workers,
            to,
        )
        .await
    }

    /// Runs the demo's processor over a source.
    async fn process(&self, from: From, workers: u32, to: &Path) -> CliResult<Ran> {
        let sink = SinkConfig {
            path: to.display().to_string(),
            ..SinkConfig::default()
        };
        let sink = Sink::open(&sink).map_err(|error| CliError::failed("sink", error))?;
        let filter = Filter::compile(FILTER, &Names::of(&self.decoder));
        let filter = filter.map_err(|error| CliError::failed("internal", error))?;
        let selector = Arc::new(Selector::new(Some(filter), sink));
        let config = ProcessorConfig {
            workers: workers as usize,
            ..ProcessorConfig::default()
        };
        let processor = AlertProcessor::new(selector.clone(), &config);
        let pipeline = Pipeline::start(processor, &QueueConfig::default(), self.decoder.clone());
        let id = SourceId::new("demo");
        let opened = from.open(id.clone(), Some(&self.archive), &self.decoder).await?;
        let ended = self.end(pipeline, opened.source).await?;
        let delivered = ended.sources.values().map(|totals| totals.stream.delivered).sum();
        let selected = selector.counts(&id).selected;
        Ok(Ran {
            delivered,
            selected,
            seconds: ended.took.as_secs_f64(),
            alerts: alerts_in(to)?,
        })
    }

    async fn end(&self, pipeline: Pipeline, source: Box<dyn Source>) -> CliResult<Ended> {
        let dead_letters = Arc::new(self.archive.dead_letters());
        let stream = StreamConfig {
            dead_letters,
            ..StreamConfig::default()
        };
        let input = pipeline::Input {
            source,
            stream,
            at_rest: None,
        };
        let ended = pipeline.run(vec![input], &Limits::default(), self.stop.clone()).await;
        if ended.interrupted {
            return Err(CliError::failed(
                "interrupted",
                "the demo was interrupted; nothing is left running",
            ));
        }
        match ended.failure {
            Some(failure) => Err(failure.into()),
            None => Ok(ended),
        }
    }
}

/// What the demo reads of a written line.
#[derive(Deserialize)]
struct Line {
    alert_id: i64,
}

/// Reads which alerts a run wrote.
fn alerts_in(file: &Path) -> CliResult<BTreeSet<i64>> {
    let unreadable = |error: &dyn std::fmt::Display| CliError::failed("demo", format!("`{}`: {error}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    let id = |line: &str| serde_json::from_str::<Line>(line).map(|line| line.alert_id);
    text.lines()
        .map(|line| id(line).map_err(|error| unreadable(&error)))
        .collect()
}

fn text(shown: &Shown, args: &DemoArgs, folder: &Folder) -> String {
    let row = |what: String, ran: &Ran| {
        let rate = ran.delivered as f64 / ran.seconds.max(f64::EPSILON);
        let numbers = [ran.delivered.to_string(), ran.selected.to_string()];
        let times = [format!("{:.1} s", ran.seconds), format!("{rate:.0}/s")];
        std::iter::once(what).chain(numbers).chain(times).collect::<Vec<_>>()
    };
    let rows = [
        row("replay, 1 worker".into(), &shown.replay_one_worker),
        row(format!("replay, {}", counted(args.workers, "worker")), &shown.replay),
        row("live, through Kafka".into(), &shown.live),
    ];
    let table = output::table(&["run", "delivered", "selected", "took", "rate"], &rows);
    let verdict = match shown.same {
        true => format!(
            "all three selected the same {} ({FILTER})\n",
            counted(shown.replay.selected, "alert")
        ),
        false => "the three did NOT select the same alerts\n".into(),
    };
    let kept = match args.keep {
        true => format!("their lines are in {}\n", folder.path.display()),
        false => String::new(),
    };
    let Ingested { archived, seconds } = &shown.ingest;
    let archived = counted(*archived, "alert");
    format!("{archived} of a simulated night archived in {seconds:.1} s\n\n{table}\n{verdict}{kept}")
}

/// The folder of the runs' files; gone with this value unless it is kept.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn make(keep: bool) -> CliResult<Self> {
        let path = std::env::temp_dir().join(format!("alertstream-demo-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&path).map_err(|e| CliError::failed("output", format!("`{}`: {e}", path.display())))?;
        Ok(Self { path, keep })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
