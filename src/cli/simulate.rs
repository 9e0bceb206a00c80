//! `simulate`: writes a simulated night of packets.

use std::fmt;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::NaiveDate;
use clap::{Args, ValueEnum};
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Call;
use super::brokers::{BrokerArgs, off, writer};
use super::error::{CliError, CliResult, Exit};
use super::output;
use super::progress::Progress;
use super::signals::Signals;
use crate::simulate::{Faults, Settings, SimulatedPacket, Simulation, Survey};
use crate::source::kafka::client::Clients;
use crate::source::kafka::writer::{TopicWriter, create_topic};
use crate::units::counted;

/// How long the last confirmations of a topic may take.
const FINISH_WITHIN: Duration = Duration::from_secs(60);
/// Most packets written between two looks at signals and clock.
const AT_ONCE: usize = 500;

/// Simulates a night of realistic packets: sizes, histories, cutouts and schema of the survey.
///
/// The same settings give the same bytes. Objects come again in the night and tell the same light curve.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream simulate --night 2026-03-14 --alerts 2000                    into ztf_20260314/
  alertstream simulate --night 2026-03-14 --alerts 500 --survey rubin --to rubin/
  alertstream simulate --night 2026-03-14 --alerts 1000 --faults truncate=0.01,duplicate=0.05 --to faulty/
  alertstream simulate --night 2026-03-14 --alerts 9000 --burst 40s        an exposure every 40 s, as a telescope does
  alertstream simulate --night 2026-03-14 --alerts 9000 --to kafka:ztf_20260314_programid1 --brokers localhost:9092

Faults: truncate (ends early), flip (one bit), wrong-id (another schema id or format version), duplicate (the packet
before again), schema-bump (a schema nobody knows yet). A rate is the share of packets.")]
pub(super) struct SimulateArgs {
    /// The night's date.
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = super::values::date)]
    night: NaiveDate,
    /// How many packets.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    alerts: u64,
    /// Whose packets.
    #[arg(long, value_enum, default_value = "ztf", value_name = "NAME")]
    survey: SurveyName,
    /// The survey's schema version, of the bundled ones; the newest unless given.
    #[arg(long, value_name = "VERSION")]
    schema: Option<String>,
    /// Decides everything that is random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The folder that gets a file for each packet, SURVEY_YYYYMMDD unless given; or kafka:TOPIC.
    #[arg(long, value_name = "DIR or kafka:TOPIC")]
    to: Option<PathBuf>,
    #[command(flatten)]
    brokers: BrokerArgs,
    /// Creates the topic with so many partitions, if it is missing.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=10_000))]
    partitions: Option<i32>,
    /// Writes the packets of one exposure at once, then waits until this long after (e.g. 40s).
    #[arg(long, value_name = "PERIOD", value_parser = humantime::parse_duration)]
    burst: Option<Duration>,
    /// What goes wrong, and how often (0 to 1): truncate, flip, wrong-id, duplicate, schema-bump, as `flip=0.01,duplicate=0.1`.
    #[arg(long, value_name = "KIND=RATE,...", value_parser = Faults::parse)]
    faults: Option<Faults>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SurveyName {
    Ztf,
    Rubin,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Written {
    written: u64,
    bytes: u64,
}

pub(super) async fn run(call: &Call, args: SimulateArgs) -> CliResult {
    let survey = match args.survey {
        SurveyName::Ztf => Survey::Ztf,
        SurveyName::Rubin => Survey::Rubin,
    };
    let target = Target::read(call, &args, survey)?;
    let settings = Settings {
        night: args.night,
        night_starts_at: call.config().night.starts_at,
        alerts: args.alerts,
        survey,
        seed: args.seed,
        schema: args.schema,
        faults: args.faults.unwrap_or_default(),
    };
    let simulation = Simulation::new(settings).map_err(|e| CliError::refused("usage", e))?;
    let signals = Signals::watch()?;
    let place = target.to_string();
    let sink = target.open(args.partitions).await?;
    let progress = Progress::towards(args.alerts, "simulating", "packets");
    let writer = Writer {
        sink,
        survey,
        packets: simulation.peekable(),
    };
    let written = write(writer, args.burst, &signals.first(), &progress).await?;
    drop(progress);
    output::summary(call.format, &written, |done| {
        format!(
            "{}, {}, in {place}\n",
            counted(done.written, "packet"),
            output::bytes(done.bytes)
        )
    })?;
    Ok(Exit::Finished)
}

/// Where packets go.
enum Target {
    Folder(PathBuf),
    Topic { clients: Clients, topic: String },
}

impl Target {
    /// Reads the flags; refuses what is no folder and no topic before anything is written.
    fn read(call: &Call, args: &SimulateArgs, survey: Survey) -> CliResult<Self> {
        let named = || format!("{}_{}", survey.name(), args.night.format("%Y%m%d")).into();
        let to = args.to.clone().unwrap_or_else(named);
        if let Some(topic) = to.to_string_lossy().strip_prefix("kafka:") {
            let (clients, topic) = (args.brokers.clients(call)?, topic.to_owned());
            if topic.is_empty() {
                return Err(CliError::refused("usage", "`--to kafka:` names no topic").hint("give `--to kafka:TOPIC`"));
            }
            return Ok(Self::Topic { clients, topic });
        }
        if to.exists() && !to.is_dir() {
            return Err(CliError::refused(
                "path",
                format!("`--to {}` is no folder", to.display()),
            ));
        }
        Ok(Self::Folder(to))
    }

    async fn open(self, partitions: Option<i32>) -> CliResult<Sink> {
        match self {
            Self::Folder(folder) => {
                std::fs::create_dir_all(&folder).map_err(|e| unwritable(&folder, &e))?;
                Ok(Sink::Folder(folder))
            }
            Self::Topic { clients, topic } => {
                if let Some(partitions) = partitions {
                    create_topic(&clients, &topic, partitions).await?;
                }
                Ok(Sink::Topic(writer(clients, topic).await?))
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Topic { topic, .. } => write!(f, "kafka:{topic}"),
        }
    }
}

/// An open target.
enum Sink {
    Folder(PathBuf),
    Topic(TopicWriter),
}

impl Sink {
    fn write(&self, name: &str, payload: &[u8]) -> CliResult<()> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                std::fs::write(&path, payload).map_err(|e| unwritable(&path, &e))
            }
            Self::Topic(writer) => Ok(writer.send(None, payload)?),
        }
    }

    /// Waits until everything is where it belongs.
    fn finish(&self) -> CliResult<()> {
        match self {
            Self::Folder(_) => Ok(()),
            Self::Topic(writer) => Ok(writer.finish(FINISH_WITHIN)?),
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed("output", format!("`{}` cannot be written: {error}", path.display()))
}

/// Writes until the end, the first failure or the first signal.
async fn write(
    mut writer: Writer,
    burst: Option<Duration>,
    ending: &CancellationToken,
    progress: &Progress,
) -> CliResult<Written> {
    let mut total = Written::default();
    let mut next = Instant::now();
    loop {
        let step = tokio::task::spawn_blocking(move || writer.step().map(|(step, more)| (writer, step, more)));
        let (back, step, more) = match step.await {
            Ok(result) => result?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        writer = back;
        total.written += step.written;
        total.bytes += step.bytes;
        progress.advance(step.written);
        if more == More::Nothing || ending.is_cancelled() {
            off(move || writer.sink.finish()).await?;
            return Ok(total);
        }
        if let (Some(period), More::NextExposure) = (burst, more) {
            next += period;
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = ending.cancelled() => {}
            }
        }
    }
}

/// What is left after a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    SameExposure,
    NextExposure,
    Nothing,
}

/// Writes packets to files, the names in order of time.
struct Writer {
    sink: Sink,
    survey: Survey,
    packets: Peekable<Simulation>,
}

impl Writer {
    /// Writes the packets of one exposure, or as many of them as are written at once.
    fn step(&mut self) -> CliResult<(Written, More)> {
        let mut step = Written::default();
        let exposure = self.packets.peek().map(|packet| packet.exposure);
        for _ in 0..AT_ONCE {
            match self.packets.next_if(|packet| Some(packet.exposure) == exposure) {
                Some(packet) => self.file(&packet, &mut step)?,
                None => break,
            }
        }
        let more = match self.packets.peek() {
            None => More::Nothing,
            Some(packet) if Some(packet.exposure) == exposure => More::SameExposure,
            Some(_) => More::NextExposure,
        };
        Ok((step, more))
    }

    fn file(&self, packet: &SimulatedPacket, step: &mut Written) -> CliResult<()> {
        let extension = match self.survey {
            Survey::Ztf => "avro",
            Survey::Rubin => "bin",
        };
        let name = format!("{:08}_{}.{extension}", packet.sequence, packet.alert_id);
        self.sink.write(&name, &packet.payload)?;
        step.written += 1;
        step.bytes += packet.payload.len() as u64;
        Ok(())
    }
}
