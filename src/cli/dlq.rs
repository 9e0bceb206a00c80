//! `dlq`: the dead letters.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Shows and settles the dead letters: alerts that were refused or whose tries were used up.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream dlq list
  alertstream dlq show 17
  alertstream dlq export --to refused/ 17 18
  alertstream dlq retry                                   archive again what can be read by now
  alertstream dlq drop 17")]
pub(super) struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// Lists all dead letters.
    List,
    /// Shows one.
    Show {
        /// Its id, as `dlq list` shows it.
        id: i64,
    },
    /// Tries the packets again: what decodes by now is archived and leaves the list.
    Retry {
        /// Only these; all without.
        id: Vec<i64>,
    },
    /// Writes the bytes to files, `ID.avro` or `ID.bin`.
    Export {
        /// Only these; all without.
        id: Vec<i64>,
        /// The folder.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Removes dead letters for good.
    Drop {
        /// These.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Vec<i64>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
}
