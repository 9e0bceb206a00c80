//! `seek`: moves a group to a position, on Kafka or on the archive.

use clap::Args;
use serde::Serialize;

use super::Call;
use super::brokers::{BrokerArgs, CONNECT_WITHIN, off};
use super::error::{CliError, CliResult, Exit};
use super::output::{self, Format};
use crate::archive::groups::Groups;
use crate::source::kafka::groups::GroupView;
use crate::source::kafka::nights::{TopicPattern, Window};
use crate::source::kafka::place::{Mark, Start};

/// Moves a group that nobody is in to a position.
///
/// Positions on Kafka: earliest, latest, a UTC time, night:YYYY-MM-DD, or kafka:TOPIC/PARTITION/OFFSET,... A group of
/// the archive goes back to `earliest` (as `group rewind`).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream seek tde-search --to night:2026-03-14 --brokers localhost:9092 --topics ztf_20260314_programid1
  alertstream seek tde-search --to 2026-03-14T04:30:00Z --config alertstream.toml --source ztf
  alertstream seek tde --to earliest                       a group of the archive, read again")]
pub(super) struct SeekArgs {
    /// The group.
    #[arg(value_name = "GROUP")]
    group: String,
    /// Where to.
    #[arg(long, value_name = "POSITION", value_parser = position)]
    to: Start,
    #[command(flatten)]
    brokers: BrokerArgs,
    /// The topics of Kafka; the source's unless given.
    #[arg(long, value_name = "TOPIC,...", value_delimiter = ',')]
    topics: Vec<String>,
}

/// Where a lane is now.
#[derive(Serialize)]
struct Moved {
    lane: String,
    offset: Option<i64>,
}

pub(super) async fn run(call: &Call, args: SeekArgs) -> CliResult {
    let moved = if args.brokers.is_given() {
        kafka(call, args).await?
    } else {
        archive(call, args).await?
    };
    match call.format {
        Format::Json => {
            for moved in &moved {
                output::result(Format::Json, moved, |_| String::new())?;
            }
        }
        Format::Text => {
            let place = |offset: Option<i64>| offset.map_or_else(|| "start".to_owned(), |offset| offset.to_string());
            let rows: Vec<Vec<String>> = moved.iter().map(|m| vec![m.lane.clone(), place(m.offset)]).collect();
            output::stdout(&output::table(&["lane", "now at"], &rows))?;
        }
    }
    Ok(Exit::Finished)
}

async fn kafka(call: &Call, args: SeekArgs) -> CliResult<Vec<Moved>> {
    let clients = args.brokers.clients(call)?;
    let live = args.brokers.live(call)?;
    let starts_at = call.config().night.starts_at.into();
    let mut topics = args.topics;
    if let (true, Some((_, live))) = (topics.is_empty(), live) {
        let window = Window {
            nights: live.nights,
            starts_at,
            first: None,
            last: None,
        };
        topics = window.topics(&live.patterns(), chrono::Utc::now());
        topics.retain(|name| !matches!(TopicPattern::parse(name), TopicPattern::Regex(_)));
    }
    if let (true, Start::Offsets(marks)) = (topics.is_empty(), &args.to) {
        topics = marks.iter().map(|Mark { topic, .. }| topic.clone()).collect();
        topics.sort();
        topics.dedup();
    }
    if topics.is_empty() {
        return Err(CliError::refused("usage", "no topic is named").hint("give `--topics TOPIC,...`"));
    }
    let (group, to) = (args.group, args.to);
    let moved =
        off(move || GroupView::connect(&clients, &group, CONNECT_WITHIN)?.seek(&topics, &to, starts_at)).await?;
    Ok(moved
        .into_iter()
        .map(|(lane, offset)| Moved {
            lane,
            offset: Some(offset),
        })
        .collect())
}

async fn archive(call: &Call, args: SeekArgs) -> CliResult<Vec<Moved>> {
    if args.to != Start::Earliest {
        return Err(CliError::refused(
            "usage",
            format!("`--to {}`: a group of the archive goes to `earliest` only", args.to),
        )
        .hint("make another group with a narrower query, or name a cluster with `--brokers`"));
    }
    let archive = call.archive().await?;
    Groups::new(&archive).rewind(&args.group).await?;
    Ok(vec![Moved {
        lane: format!("archive:{}", args.group),
        offset: None,
    }])
}

fn position(text: &str) -> Result<Start, String> {
    match Start::parse(text) {
        Ok(Start::Committed) => Err("a group is at `committed` already; give another position".into()),
        Ok(start) => Ok(start),
        Err(error) => Err(error.to_string()),
    }
}
