//! `retention`: deletes old nights from the archive, in bounded batches.

use chrono::NaiveDate;
use clap::Args;
use serde::Serialize;

use super::Call;
use super::error::{CliResult, Exit};
use super::output;
use crate::archive::groups::{GroupState, Groups};
use crate::units::counted;

/// Deletes the alerts of all nights before one. Groups that have them show them as missing.
///
/// What a group that is still being built has not reached yet it does not know as missing, nor does a group that is
/// rewound: those have what is left.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  alertstream retention --before 2018-08-19               keeps that night and all later ones")]
pub(super) struct RetentionArgs {
    /// The first night that is kept.
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = super::values::date)]
    before: NaiveDate,
    /// Alerts deleted in one transaction.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
}

#[derive(Serialize)]
struct Deleted {
    deleted: u64,
}

pub(super) async fn run(call: &Call, args: &RetentionArgs) -> CliResult {
    let jd = call.config().night.starts_at.begins(args.before);
    let archive = call.archive().await?;
    let deleted = archive.delete_before(jd, args.batch).await?;
    let groups = if deleted > 0 {
        Groups::new(&archive).list().await?
    } else {
        Vec::new()
    };
    for group in groups {
        if group.state == GroupState::Building {
            output::say(format!(
                "the group {} is still being built: what it had not reached is not in it, and not counted as missing",
                group.name
            ));
        }
    }
    output::result(call.format, &Deleted { deleted }, |done| {
        format!("{} deleted\n", counted(done.deleted, "alert"))
    })?;
    Ok(Exit::Finished)
}
