//! `count`: how many alerts a query matches.

use clap::Args;

use super::query_args::QueryArgs;

/// Counts the alerts that a query matches.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream count --night 2018-08-19
  alertstream count --cone 217.35,61.2,5arcmin --where 'magnitude < 19'")]
pub(super) struct CountArgs {
    #[command(flatten)]
    query: QueryArgs,
}
