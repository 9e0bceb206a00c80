//! `seek`: moves a group to a position, on Kafka or on the archive.

use clap::Args;
use serde::Serialize;

use super::Call;
use super::brokers::{BrokerArgs, CONNECT_WITHIN, check_that_a_side_is_named, off, topics};
use super::error::{CliError, CliResult, Exit};
use super::output::{self, Format};
use crate::archive::groups::Groups;
use crate::source::kafka::error::LiveError;
use crate::source::kafka::groups::GroupView;
use crate::source::kafka::place::Start;
use crate::source::kafka::topics::{Found, Topics};

/// Moves a group to a position.
///
/// On Kafka nobody may be in the group. A group of the archive may be in use: its consumers lose their blocks and go on
/// from the new position.
///
/// Positions on Kafka: earliest, latest, a UTC time, night:YYYY-MM-DD, or kafka:TOPIC/PARTITION/OFFSET,... With offsets, only the
/// partitions that are named move. A group of the archive goes back to `earliest` (as `group rewind`), or to a block:
/// archive:GROUP/BLOCK.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream seek tde-search --to night:2026-03-14 --brokers localhost:9092 --topics ztf_20260314_programid1
  alertstream seek tde-search --to 2026-03-14T04:30:00Z --config alertstream.toml --source ztf
  alertstream seek tde --to earliest                       a group of the archive, read again
  alertstream seek tde --to archive:tde/12                 the same, from a block on")]
pub(super) struct SeekArgs {
    /// The group.
    #[arg(value_name = "GROUP")]
    group: String,
    /// Where to.
    #[arg(long, value_name = "POSITION", value_parser = position)]
    to: To,
    #[command(flatten)]
    brokers: BrokerArgs,
    /// The topics of Kafka, or regular expressions that begin with `^`; the source's unless given.
    #[arg(long, value_name = "TOPIC,...", value_delimiter = ',')]
    topics: Vec<String>,
}

/// What a group can be moved to.
const POSITIONS: &str = "`earliest`, `latest`, a UTC time, `night:YYYY-MM-DD` or `kafka:TOPIC/PARTITION/OFFSET,...` \
    on Kafka; `earliest` or `archive:GROUP/BLOCK` on the archive";

/// A position of either backend.
#[derive(Clone, Debug)]
enum To {
    Start(Start),
    Block { group: String, block: i64 },
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
    let topics = topics(call, live, args.topics);
    let To::Start(to) = args.to else {
        return Err(CliError::refused("usage", "`--to archive:...` is no position on Kafka")
            .hint("leave the cluster out, or give `kafka:TOPIC/PARTITION/OFFSET`"));
    };
    if topics.is_empty() && !matches!(to, Start::Offsets(_)) {
        return Err(CliError::refused("usage", "no topic is named").hint("give `--topics TOPIC,...`"));
    }
    let group = args.group;
    let moved = off(move || {
        let view = GroupView::connect(&clients, &group, CONNECT_WITHIN)?;
        view.seek(&there(&view, &topics, &to)?, &to, starts_at)
    });
    let moved = moved.await?;
    Ok(moved
        .into_iter()
        .map(|(lane, offset)| Moved {
            lane,
            offset: Some(offset),
        })
        .collect())
}

/// Gives the topics to move in; a night without a topic is passed over, a name that is no topic is refused.
fn there(view: &GroupView, topics: &Topics, to: &Start) -> Result<Vec<String>, LiveError> {
    if matches!(to, Start::Offsets(_)) {
        return Ok(Vec::new()); // it names them itself
    }
    let Found { names, missing, .. } = view.find(topics)?;
    match missing.into_iter().next() {
        Some(topic) => Err(LiveError::NoSuchTopic { topic }),
        None if names.is_empty() => Err(LiveError::NoNight),
        None => Ok(names),
    }
}

async fn archive(call: &Call, args: SeekArgs) -> CliResult<Vec<Moved>> {
    let block = match args.to {
        To::Start(Start::Earliest) => None,
        To::Block { group, block } if group == args.group => Some(block),
        To::Block { group, block } => {
            return Err(CliError::refused(
                "usage",
                format!(
                    "`--to archive:{group}/{block}` is of another group than `{}`",
                    args.group
                ),
            )
            .hint(format!("give `archive:{}/{block}`", args.group)));
        }
        To::Start(to) => {
            return Err(CliError::refused(
                "usage",
                format!("`--to {to}`: a group of the archive goes to `earliest` or to a block"),
            )
            .hint(format!(
                "give `archive:{}/BLOCK`, make another group with a narrower query, or name a cluster with `--brokers`",
                args.group
            )));
        }
    };
    check_that_a_side_is_named(call)?;
    let archive = call.archive().await?;
    let groups = Groups::new(&archive);
    if let Some(block) = block {
        check_that_it_is_there(&groups, &args.group, block).await?;
    }
    groups.seek(&args.group, block.unwrap_or(0)).await?;
    Ok(vec![Moved {
        lane: format!("archive:{}", args.group),
        offset: block,
    }])
}

/// Refuses a block that the group does not have. How many it has is known once it is built, so that is done first.
async fn check_that_it_is_there(groups: &Groups, group: &str, block: i64) -> CliResult<()> {
    let mut status = groups.show(group).await?;
    if !status.total_final && block >= status.blocks.total {
        super::group::build(groups, &groups.open(group).await?).await?;
        status = groups.show(group).await?;
    }
    if block < status.blocks.total {
        return Ok(());
    }
    let refused = |message: String| CliError::failed("group", message + "; nothing was changed");
    Err(match status.blocks.total {
        _ if !status.total_final => refused(format!(
            "whether the group `{group}` has a block `{block}` is not known yet"
        ))
        .hint("it is known once the group is built: try again"),
        0 => refused(format!(
            "the group `{group}` has no block `{block}`: its query matches no alert"
        )),
        1 => refused(format!("the group `{group}` has no block `{block}`")).hint("it has one block: 0"),
        blocks => refused(format!("the group `{group}` has no block `{block}`"))
            .hint(format!("it has {blocks} blocks: 0 to {}", blocks - 1)),
    })
}

fn position(text: &str) -> Result<To, String> {
    if let Some(place) = text.strip_prefix("archive:") {
        return block(place).ok_or_else(|| format!("`{text}` is no block; give archive:GROUP/BLOCK"));
    }
    match Start::parse(text) {
        Ok(Start::Committed) => Err(format!("a group is at `committed` already; write {POSITIONS}")),
        Ok(start) => Ok(To::Start(start)),
        Err(_) => Err(format!("`{text}` is no position; write {POSITIONS}")),
    }
}

/// Reads GROUP/BLOCK, or the position of a block's first alert, GROUP/BLOCK/0.
fn block(place: &str) -> Option<To> {
    let mut parts = place.split('/');
    let (group, block) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
    let is_first = matches!((parts.next(), parts.next()), (None | Some("0"), None));
    (is_first && !group.is_empty() && block >= 0).then_some(To::Block { group, block })
}
