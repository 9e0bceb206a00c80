//! `lag`: how far a group is behind, on Kafka or on the archive.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use serde::Serialize;

use super::Call;
use super::brokers::{BrokerArgs, CONNECT_WITHIN, check_that_a_side_is_named, off, topics};
use super::error::{CliError, CliResult, Exit};
use super::output::{self, Format};
use crate::archive::groups::{GroupStatus, Groups};
use crate::source::kafka::error::LiveError;
use crate::source::kafka::groups::{GroupView, PartitionLag};
use crate::source::kafka::topics::{Found, Topics};

/// Shows how far a group is behind: per partition on Kafka; on the archive whole, and per block that is claimed.
///
/// With `--brokers` or a live `--source` it asks Kafka; otherwise the archive, and there about every group unless one is
/// named. On Kafka it looks twice, so that there is a rate and a time to go, and tells how long retention by age keeps the
/// next message (retention by size may delete it earlier). The line of a group of the archive counts blocks as
/// `committed` and `end` (`high`), and alerts as `lag`; the lines of its claimed blocks, which are among these, count
/// alerts throughout.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream lag tde                                      a group of the archive
  alertstream lag                                          every group of the archive
  alertstream lag tde-search --brokers localhost:9092      a group on Kafka
  alertstream lag --config alertstream.toml --source ztf   the group and topics of a configured source")]
pub(super) struct LagArgs {
    /// The group; the source's own unless given.
    #[arg(value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    brokers: BrokerArgs,
    /// Only these topics of Kafka, or those that regular expressions (`^...`) match.
    #[arg(long, value_name = "TOPIC,...", value_delimiter = ',')]
    topics: Vec<String>,
    /// Seconds between the two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::values::seconds)]
    over: Duration,
}

/// One lane's line.
#[derive(Serialize)]
struct Line {
    lane: String,
    committed: Option<i64>,
    low: Option<i64>,
    high: Option<i64>,
    /// Nothing while a group of the archive is still built: nobody knows yet.
    lag: Option<u64>,
    rate_per_second: Option<f64>,
    eta_seconds: Option<f64>,
    next_at: Option<DateTime<Utc>>,
    /// Hours until retention may delete the next message by its age.
    retention_headroom_hours: Option<f64>,
}

pub(super) async fn run(call: &Call, args: LagArgs) -> CliResult {
    let live = args.brokers.live(call)?;
    let is_kafka = args.brokers.is_given() || (args.group.is_none() && live.is_some());
    let lines = if is_kafka {
        kafka(call, args).await?
    } else {
        archive(call, args.group).await?
    };
    match call.format {
        Format::Json => {
            for line in &lines {
                output::result(Format::Json, line, |_| String::new())?;
            }
        }
        Format::Text => output::stdout(&text(&lines))?,
    }
    Ok(Exit::Finished)
}

async fn kafka(call: &Call, args: LagArgs) -> CliResult<Vec<Line>> {
    let clients = args.brokers.clients(call)?;
    let live = args.brokers.live(call)?;
    let named = args
        .group
        .as_deref()
        .or(live.map(|(group, _)| group))
        .filter(|group| !group.is_empty());
    let group = named
        .ok_or_else(|| CliError::refused("usage", "no group is named"))?
        .to_owned();
    let topics = topics(call, live, args.topics);
    let over = args.over;
    off(move || {
        let view = GroupView::connect(&clients, &group, CONNECT_WITHIN)?;
        let topics = there(&view, &topics)?;
        let first = view.lag(&topics)?;
        std::thread::sleep(over);
        let second = view.lag(&topics)?;
        Ok(second.into_iter().map(|now| line(now, &first, over)).collect())
    })
    .await
}

/// Gives the topics to look at: what is there of those that are named. None are named: all that the group has commits in.
fn there(view: &GroupView, topics: &Topics) -> Result<Vec<String>, LiveError> {
    if topics.is_empty() {
        return Ok(Vec::new());
    }
    let Found { names, missing, .. } = view.find(topics)?;
    match missing.into_iter().next() {
        _ if !names.is_empty() => Ok(names),
        Some(topic) => Err(LiveError::NoSuchTopic { topic }),
        None => Err(LiveError::NoNight),
    }
}

/// Makes a line of the second look, with the rate since the first.
fn line(now: PartitionLag, first: &[PartitionLag], over: Duration) -> Line {
    let before = first
        .iter()
        .find(|before| before.lane == now.lane)
        .and_then(|before| before.committed);
    let done = now.committed.zip(before).map(|(now, before)| now - before);
    let rate = done
        .filter(|_| !over.is_zero())
        .map(|done| done as f64 / over.as_secs_f64());
    let eta = match rate {
        _ if now.lag == 0 => Some(0.0),
        Some(rate) if rate > 0.0 => Some(now.lag as f64 / rate),
        _ => None,
    };
    Line {
        lane: now.lane,
        committed: now.committed,
        low: Some(now.low),
        high: Some(now.high),
        lag: Some(now.lag),
        rate_per_second: rate,
        eta_seconds: eta,
        next_at: now.next_at,
        retention_headroom_hours: now.retention_headroom_hours,
    }
}

async fn archive(call: &Call, group: Option<String>) -> CliResult<Vec<Line>> {
    check_that_a_side_is_named(call)?;
    let groups = Groups::new(&call.archive().await?);
    let shown = match &group {
        Some(name) => vec![groups.show(name).await?],
        None => groups.list().await?,
    };
    let mut lines = Vec::new();
    for status in shown {
        let name = &status.name;
        let held = groups.held(name).await?;
        lines.push(whole(&status));
        lines.extend(held.into_iter().map(|block| Line {
            lane: format!("archive:{name}/{}", block.block_seq),
            committed: Some(block.settled.into()),
            low: Some(0),
            high: Some(block.n.into()),
            lag: u64::try_from(block.n - block.settled).ok(),
            rate_per_second: None,
            eta_seconds: None,
            next_at: None,
            retention_headroom_hours: None,
        }));
    }
    Ok(lines)
}

/// The line of a group of the archive, which its claimed blocks are part of.
fn whole(status: &GroupStatus) -> Line {
    let left = u64::try_from(status.alerts.remaining + status.alerts.in_progress).ok();
    Line {
        lane: format!("archive:{}", status.name),
        committed: Some(status.blocks.done),
        low: Some(0),
        high: status.total_final.then_some(status.blocks.total),
        lag: left.filter(|_| status.total_final),
        rate_per_second: status.rate_per_second,
        eta_seconds: status.eta_seconds,
        next_at: None,
        retention_headroom_hours: None,
    }
}

fn text(lines: &[Line]) -> String {
    let shown = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.lane.clone(),
                shown(line.committed),
                shown(line.high),
                line.lag
                    .map_or_else(|| "still building".to_owned(), |lag| lag.to_string()),
                line.rate_per_second
                    .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}/s")),
                line.eta_seconds
                    .map_or_else(|| "-".to_owned(), |eta| format!("{eta:.0} s")),
                line.next_at
                    .map_or_else(|| "-".to_owned(), |at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string()),
                line.retention_headroom_hours
                    .map_or_else(|| "-".to_owned(), |hours| format!("{hours:.1} h")),
            ]
        })
        .collect();
    // The line of a group of the archive counts its blocks already.
    let is_part = |line: &&Line| line.lane.starts_with("archive:") && line.lane.contains('/');
    let total: Option<u64> = lines.iter().filter(|line| !is_part(line)).map(|line| line.lag).sum();
    let total = total.map_or_else(|| "is not known: still building".to_owned(), |total| total.to_string());
    let head = [
        "lane",
        "committed",
        "end",
        "lag",
        "rate",
        "to go",
        "next is of",
        "kept for",
    ];
    output::table(&head, &rows) + &format!("total lag {total}\n")
}
