//! `run`: the configured processor over its sources, live or replayed.
//!
//! How it works: [`plan`] makes of flags and file one checked plan, without touching a service; [`run`] carries it
//! out. Must not know how a source reads or how the pool works.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::error::{CliError, CliResult, Exit};
use super::named::Named;
use super::names::{Checked, Uses};
use super::progress::Progress;
use super::query_args::QueryArgs;
use super::signals::Signals;
use super::sources::{From, Opened};
use super::{Call, names, open_archive, values};
use crate::archive::Archive;
use crate::config::Mode;
use crate::dead_letter::{DeadLetterStore, LogStore};
use crate::decode::Decoder;
use crate::pipeline::{self, Limits, Pipeline, Selector};
use crate::processor::{AlertProcessor, PoolObserver};
use crate::sink::{Sink, SinkConfig};
use crate::stream::{DeliveryQuota, StreamConfig};

mod plan;
mod summary;

use plan::Plan;
use summary::{Summary, SummaryFile};

/// How often the progress bar is told how far the run is.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Runs the configured processor: takes alerts from its sources, filters them, writes the selected ones.
///
/// Every alert is acknowledged only after its line is written. Runs with the same group share the work; a run that is
/// killed is continued by the others, or by the next start.
///
/// It ends with 0 also when alerts became dead letters. It ends with 1 when alerts at its end still wait for a schema
/// that the registry does not give: they are not committed, and the next start reads them again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    /// Where the sources read, instead of what the configuration says.
    #[arg(long, value_enum)]
    from: Option<ReadFrom>,
    /// Only this source of the configuration; repeatable.
    #[arg(long, value_name = "NAME")]
    source: Vec<String>,
    /// The consumer group: runs that name the same one share its alerts.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Alerts in a block, when this run creates the group.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
    /// A live group begins at the configured start again, whatever it committed; refused while it has members.
    #[arg(long)]
    from_start: bool,
    /// Which alerts are selected (CEL): 'magnitude < 19.5 && candidate.distpsnr1 > 2'.
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// The file that lines are appended to; - is stdout.
    #[arg(long, value_name = "PATH")]
    sink_path: Option<String>,
    /// Alerts worked on at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// Ends after exactly N deliveries.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_alerts: Option<u64>,
    /// Ends when nothing was delivered for so long.
    ///
    /// With a live source that time counts only while everything in its topics is read, here or by the other members of
    /// its group. What a killed member had comes to the others when its session ends (45 s unless set).
    #[arg(long, value_name = "SECONDS", value_parser = values::idle_seconds)]
    until_idle: Option<Duration>,
    /// Writes the summary to a file, as JSON; the file is made before the run begins.
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    #[command(flatten)]
    query: QueryArgs,
}

const EXAMPLES: &str = "\
Examples:
  alertstream run --group tde --night 2018-08-19                        replay a night to stdout
  alertstream run --group tde                                           join in: the two share the rest
  alertstream run --group bright --all --filter 'magnitude < 18' --sink-path bright.ndjson --workers 8
  alertstream run --config alertstream.toml --from archive              the live processor, over the archive";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ReadFrom {
    Live,
    Archive,
    Files,
}

impl ReadFrom {
    fn mode(self) -> Mode {
        match self {
            Self::Live => Mode::Live,
            Self::Archive => Mode::Archive,
            Self::Files => Mode::Files,
        }
    }
}

pub(super) async fn run(call: &Call, args: &RunArgs) -> CliResult {
    let Plan {
        inputs: planned,
        queue,
        processor,
        sink,
        names,
        decoder,
        database_url,
    } = plan::plan(call, args)?;
    let stop = Signals::watch()?;
    let filter = match names {
        Checked::Fine(filter) => filter,
        Checked::Unknown(error) => {
            let froms = planned.iter().map(|input| &input.from);
            look_for_names(froms, database_url.as_deref(), &decoder)
                .await
                .map_err(|failed| error.hint(format!("the archive's schemas could not be looked at: {failed}")))?;
            let uses = Uses {
                filter: processor.filter.as_deref(),
                sink: &sink,
            };
            uses.check_again(&decoder)?
        }
    };
    let to = args.summary.as_deref().map(SummaryFile::create).transpose()?;
    let bar = bar(&sink);
    let sink = Sink::open(&sink).map_err(|error| CliError::failed("sink", error))?;
    let archive = match &database_url {
        Some(url) => Some(open_archive(url).await?),
        None => None,
    };
    let dead_letters: Arc<dyn DeadLetterStore> = match &archive {
        Some(archive) => Arc::new(Named::new(archive.dead_letters())),
        None => Arc::new(LogStore),
    };
    let quota = args.max_alerts.map(DeliveryQuota::new);
    let streams = StreamConfig {
        quota,
        dead_letters,
        ..StreamConfig::default()
    };
    let inputs = inputs(planned, archive.as_ref(), &decoder, &streams, queue.bytes_max).await?;
    let selector = Arc::new(Selector::new(filter, sink));
    let processor = AlertProcessor::new(selector.clone(), &processor);
    let limits = Limits {
        until_idle: args.until_idle,
        ..Limits::default()
    };
    let pipeline = Pipeline::start(processor, &queue, decoder);
    let showing = show(bar, pipeline.observer());
    let ended = beside(pipeline.run(inputs, &limits, stop.first()), showing).await;
    let told = summary::tell(call.format, to, &Summary::of(&ended, &selector));
    match ended.failure {
        Some(failure) => Err(failure.into()),
        None => told.map(|()| Exit::Finished),
    }
}

/// Shows the decoder the schemas of what the sources read.
async fn look_for_names(
    froms: impl Iterator<Item = &From>,
    database_url: Option<&str>,
    decoder: &Decoder,
) -> Result<(), String> {
    let mut archived = false;
    for from in froms {
        match from {
            From::Files(paths) => names::of_files(paths.clone(), decoder).await,
            From::Archive { .. } => archived = true,
            From::Live(_) => {}
        }
    }
    // One archive, however many sources read it.
    if let (true, Some(url)) = (archived, database_url) {
        let looked = async { names::of_archive(&open_archive(url).await?, decoder).await };
        looked.await.map_err(|error: CliError| error.message().to_owned())?;
    }
    Ok(())
}

fn bar(sink: &SinkConfig) -> Progress {
    if sink.is_stdout() {
        Progress::counting_beside_stdout("processed", "alerts")
    } else {
        Progress::counting("processed", "alerts")
    }
}

/// Does the work, and meanwhile what goes on beside it.
async fn beside<T>(work: impl Future<Output = T>, goes_on: impl Future<Output = Infallible>) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = goes_on => match never {},
    }
}

/// Shows how many alerts are settled, until it is dropped.
async fn show(bar: Progress, pool: PoolObserver) -> Infallible {
    loop {
        let done = pool.stats().total;
        bar.reach(done.acknowledged + done.rejected);
        tokio::time::sleep(SHOW_EVERY).await;
    }
}

/// Opens the sources.
async fn inputs(
    planned: Vec<plan::Input>,
    archive: Option<&Archive>,
    decoder: &Decoder,
    streams: &StreamConfig,
    bytes_max: u64,
) -> CliResult<Vec<pipeline::Input>> {
    let sources = planned.len();
    let mut inputs = Vec::new();
    for plan::Input { id, from } in planned {
        let budget = from.budget(bytes_max, sources);
        let Opened {
            source,
            at_rest,
            wait_within,
            ..
        } = from.open(id, archive, decoder).await?;
        let stream = StreamConfig {
            budget,
            wait_within,
            ..streams.clone()
        };
        inputs.push(pipeline::Input {
            source,
            stream,
            at_rest,
        });
    }
    Ok(inputs)
}
