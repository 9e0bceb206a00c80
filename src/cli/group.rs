//! `group`: consumer groups of the archive.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::Call;
use super::error::{CliError, CliResult, Exit};
use super::output::{self, Format};
use super::progress::Progress;
use super::query_args::QueryArgs;
use super::signals::Signals;
use crate::archive::groups::{
    BuildStep, DEFAULT_BLOCK_SIZE, Group, GroupError, GroupState, GroupStatus, Groups, Member, check_name,
};
use crate::units::counted;

/// How often a build that somebody else is at is looked at.
const BUSY_LOOK: Duration = Duration::from_millis(100);

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
        query: Box<QueryArgs>,
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

pub(super) async fn run(call: &Call, args: GroupArgs) -> CliResult {
    match args.command {
        GroupCommand::Create {
            name,
            block_size,
            wait,
            query,
        } => {
            check_name(&name).map_err(|error| CliError::refused("usage", error))?;
            let query = query.query(call.config().night.starts_at)?;
            let groups = groups(call).await?;
            let group = groups
                .join_or_create(&name, Some(&query), block_size.unwrap_or(DEFAULT_BLOCK_SIZE))
                .await?;
            if wait {
                build(&groups, &group).await?;
            }
            show(call, &groups, &name).await
        }
        GroupCommand::List => list(call).await,
        GroupCommand::Show { name } => show(call, &groups(call).await?, &name).await,
        GroupCommand::Rewind { name } => {
            let groups = groups(call).await?;
            groups.rewind(&name).await?;
            steered(call, &groups, name).await
        }
        GroupCommand::Pause { name } => {
            let groups = groups(call).await?;
            groups.pause(&name).await?;
            steered(call, &groups, name).await
        }
        GroupCommand::Resume { name } => {
            let groups = groups(call).await?;
            groups.resume(&name).await?;
            steered(call, &groups, name).await
        }
        GroupCommand::Delete { name } => {
            groups(call).await?.delete(&name).await?;
            say_state(
                call,
                &Steered {
                    name,
                    state: "deleted".into(),
                },
            )
        }
    }
}

async fn groups(call: &Call) -> CliResult<Groups> {
    Ok(Groups::new(&call.archive().await?))
}

/// Builds the group to its end, or until a signal; whoever consumes continues then.
pub(super) async fn build(groups: &Groups, group: &Group) -> CliResult<()> {
    let signals = Signals::watch()?;
    let stop = signals.first();
    let progress = Progress::counting("building", "blocks");
    while !stop.is_cancelled() {
        match groups.build_step(group).await? {
            BuildStep::Advanced(blocks) => progress.advance(blocks as u64),
            BuildStep::Busy => tokio::time::sleep(BUSY_LOOK).await,
            BuildStep::Built => break,
            BuildStep::Halted(halt) => {
                let name = group.name.to_string();
                return Err(GroupError::Halted {
                    name,
                    verb: "built",
                    halt,
                }
                .into());
            }
            BuildStep::Deleted => {
                return Err(CliError::failed(
                    "group",
                    format!("group `{}` was deleted meanwhile", group.name),
                ));
            }
        }
    }
    Ok(())
}

async fn show(call: &Call, groups: &Groups, name: &str) -> CliResult {
    let status = groups.show(name).await?;
    output::result(call.format, &status, text)?;
    Ok(Exit::Finished)
}

fn text(group: &GroupStatus) -> String {
    let (alerts, blocks) = (&group.alerts, &group.blocks);
    let known = |value: Option<f64>, unit: &str| value.map_or("unknown".into(), |value| format!("{value:.0}{unit}"));
    let state = match &group.reason {
        Some(reason) => format!("{}: {reason}", state(group.state)),
        None => state(group.state),
    };
    let so_far = if group.total_final { "" } else { " so far" };
    let mut text = output::aligned(&[
        ("name", group.name.clone()),
        ("state", state),
        ("query", group.query.to_string()),
        ("alerts", format!("{}{so_far}", alerts.total)),
        ("  acknowledged", alerts.acknowledged.to_string()),
        ("  in progress", alerts.in_progress.to_string()),
        ("  remaining", alerts.remaining.to_string()),
        ("  dead", alerts.dead.to_string()),
        ("  missing", alerts.missing.to_string()),
        (
            "blocks",
            format!("{} free, {} claimed, {} done", blocks.free, blocks.claimed, blocks.done),
        ),
        ("block size", group.block_size.to_string()),
        ("generation", group.generation.to_string()),
        ("rate", known(group.rate_per_second, " alerts/s")),
        ("remaining time", known(group.eta_seconds, " s")),
        (
            "created",
            group.created_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        ),
    ]);
    for member in &group.members {
        let Member {
            id,
            host,
            pid,
            claimed_blocks,
            last_seen_at,
        } = member;
        let seen = last_seen_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        text.push_str(&format!(
            "member {id}: process {pid} on {host}, {}, last seen {seen}\n",
            counted(*claimed_blocks, "block")
        ));
    }
    text
}

async fn list(call: &Call) -> CliResult {
    let all = groups(call).await?.list().await?;
    match call.format {
        Format::Json => all
            .iter()
            .try_for_each(|group| output::result(call.format, group, text))?,
        Format::Text => {
            let rows: Vec<Vec<String>> = all.iter().map(row).collect();
            output::stdout(&output::table(
                &[
                    "name",
                    "state",
                    "alerts",
                    "acknowledged",
                    "in progress",
                    "remaining",
                    "dead",
                    "missing",
                ],
                &rows,
            ))?;
        }
    }
    Ok(Exit::Finished)
}

fn row(group: &GroupStatus) -> Vec<String> {
    let alerts = &group.alerts;
    let counts = [
        alerts.total,
        alerts.acknowledged,
        alerts.in_progress,
        alerts.remaining,
        alerts.dead,
        alerts.missing,
    ];
    [group.name.clone(), state(group.state)]
        .into_iter()
        .chain(counts.map(|count| count.to_string()))
        .collect()
}

/// Writes a state as the JSON does.
fn state(state: GroupState) -> String {
    format!("{state:?}").to_lowercase()
}

#[derive(Serialize)]
struct Steered {
    name: String,
    state: String,
}

async fn steered(call: &Call, groups: &Groups, name: String) -> CliResult {
    let state = state(groups.show(&name).await?.state);
    say_state(call, &Steered { name, state })
}

fn say_state(call: &Call, done: &Steered) -> CliResult {
    output::result(call.format, done, |done| {
        format!("group `{}` is {}\n", done.name, done.state)
    })?;
    Ok(Exit::Finished)
}
