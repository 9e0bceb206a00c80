//! `count`: how many alerts a query matches.

use clap::Args;
use serde::Serialize;

use super::Call;
use super::error::{CliResult, Exit};
use super::output;
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

#[derive(Serialize)]
struct Counted {
    alerts: u64,
}

pub(super) async fn run(call: &Call, args: &CountArgs) -> CliResult {
    let query = args.query.query(call.config().night.starts_at)?;
    let alerts = call.archive().await?.count(&query).await?;
    output::result(call.format, &Counted { alerts }, |counted| {
        format!("{}\n", counted.alerts)
    })?;
    Ok(Exit::Finished)
}
