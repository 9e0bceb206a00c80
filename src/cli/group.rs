//! `group`: consumer groups of the archive.

use clap::{Args, Subcommand};

use super::query_args::QueryArgs;

/// Makes, shows and steers consumer groups: named sets of archived alerts that any number of runs share.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream group create tde --night 2018-08-19 --wait
  alertstream group show tde
  alertstream group rewind tde                            read it all again
  alertstream group pause tde; alertstream group resume tde")]
pub(super) struct GroupArgs {
    #[command(subcommand)]
    command: GroupCommand,
}

#[derive(Debug, Subcommand)]
enum GroupCommand {
    /// Binds a name to a query; the set is frozen now, the blocks are made by whoever consumes.
    Create {
        /// The group's name.
        name: String,
        /// Alerts in a block.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        block_size: Option<u32>,
        /// Makes all blocks now.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Lists the groups.
    List,
    /// Shows a group's state and progress.
    Show {
        /// The group's name.
        name: String,
    },
    /// Begins again from the first alert.
    Rewind {
        /// The group's name.
        name: String,
    },
    /// Lets nobody claim; what is held is finished.
    Pause {
        /// The group's name.
        name: String,
    },
    /// Ends a pause.
    Resume {
        /// The group's name.
        name: String,
    },
    /// Removes the group; its alerts stay.
    Delete {
        /// The group's name.
        name: String,
    },
}
