//! `ingest`: files, folders, tars, or a configured source, into the archive.

use std::path::PathBuf;

use clap::Args;

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
    /// Alerts written in one transaction.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Ends with exit code 1 when anything was refused.
    #[arg(long)]
    strict: bool,
}
