//! `migrate`: makes or upgrades the archive's tables.

use clap::Args;
use serde::Serialize;

use super::Call;
use super::error::{CliResult, Exit};
use super::output;
use crate::archive::{Archive, ArchiveOptions};

/// Makes the archive's tables, or brings them up to date. Safe to repeat, and to run twice at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  alertstream migrate --database-url postgres://me@localhost/alerts")]
pub(super) struct MigrateArgs {}

#[derive(Serialize)]
struct Migrated {
    from: i64,
    to: i64,
}

pub(super) async fn run(call: &Call) -> CliResult {
    let archive = Archive::connect(&call.database_url()?, &ArchiveOptions::default()).await?;
    let (from, to) = archive.migrate().await?;
    output::result(call.format, &Migrated { from, to }, |done| match done {
        done if done.from == done.to => format!("already at version {}\n", done.to),
        done => format!("migrated from version {} to version {}\n", done.from, done.to),
    })?;
    Ok(Exit::Finished)
}
