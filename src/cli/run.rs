//! `run`: the configured processor over its sources, live or replayed.
//!
//! How it works: [`plan`] makes of flags and file one checked plan, without touching a service; [`run`] carries it
//! out. Must not know how a source reads or how the pool works.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::query_args::QueryArgs;
use crate::config::Mode;

mod plan;

/// Runs the configured processor: takes alerts from its sources, filters them, writes the selected ones.
///
/// Every alert is acknowledged only after its line is written. Runs with the same group share the work; a run that is
/// killed is continued by the others, or by the next start.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    /// Where the sources read, instead of what the configuration says.
    #[arg(long, value_enum)]
    from: Option<From>,
    /// Only this source of the configuration; repeatable.
    #[arg(long, value_name = "NAME")]
    source: Vec<String>,
    /// The consumer group: runs that name the same one share its alerts.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Alerts in a block, when this run creates the group.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
    /// Which alerts are selected (CEL): 'magnitude < 19.5 && candidate.distpsnr1 > 2'.
    #[arg(long, value_name = "EXPR")]
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
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    until_idle: Option<Duration>,
    /// Writes the summary to a file, as JSON.
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
enum From {
    Archive,
    Files,
}

impl From {
    fn mode(self) -> Mode {
        match self {
            Self::Archive => Mode::Archive,
            Self::Files => Mode::Files,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "give seconds, 0 or more, as `2.5`".into())
}
