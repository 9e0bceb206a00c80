//! Positions that are not there any more, and topics that are not the ones they were: where reading goes on.
//!
//! How it works: the broker tells of a position that does not exist, and the watermarks tell whose it is. A topic that
//! was deleted, made again and has grown past the position says nothing: librdkafka goes on in it. So the topics' ids
//! are asked for at each assignment and looked at again at each refresh.
//!
//! Invariants: every jump of a position is a gap that is told; a topic made again begins a new epoch. Must not know of
//! timers.

use std::collections::HashMap;
use std::time::Instant;

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, RebalanceProtocol};

use super::ask::{self, Part};
use super::context::{Context, resume};
use super::error::LiveError;
use super::gaps::{GapCause, Watermarks};
use super::lanes::{LaneState, Phase, lane_of};
use super::message::Run;
use super::starts::{self, Placed};
use super::topic_ids;

/// A position was found not to exist: finds whose, records the gap and goes on where the policy says.
pub(super) fn reset(consumer: &BaseConsumer<Context>) -> Result<(), LiveError> {
    let context = consumer.context();
    let (positions, policy): (Vec<_>, _) = {
        let state = context.state.lock();
        (state.lanes.iter().filter_map(reading).collect(), state.plan.on_reset)
    };
    let marks = match marks(consumer, &positions) {
        Ok(marks) => marks,
        Err(error) => {
            tracing::warn!(%error, "a position does not exist and the watermarks are not known yet");
            context.troubles.lock().again();
            return Ok(());
        }
    };
    for (part, next) in positions {
        if let Some(marks) = marks.get(&part).copied() {
            go_on(consumer, &starts::settle(&part, next, marks, policy)?)?;
        }
    }
    Ok(())
}

/// Looks whether the topics are the ones they were; those that were made again are read again.
pub(super) fn look_at_ids(consumer: &BaseConsumer<Context>) -> Result<(), LiveError> {
    let context = consumer.context();
    let parts: Vec<Part> = {
        let state = context.state.lock();
        state.lanes.iter().map(|lane| lane.part.clone()).collect()
    };
    let ids = topic_ids::of(consumer, &parts);
    let (mut again, policy) = (Vec::new(), context.state.lock().plan.on_reset);
    for lane in context.state.lock().lanes.iter_mut() {
        let Some(id) = ids.get(&*lane.part.topic) else { continue };
        if *lane.topic_id.get_or_insert(*id) != *id {
            again.extend(reading(lane));
        }
    }
    let marks = match marks(consumer, &again) {
        Ok(marks) => marks,
        Err(error) => {
            // The ids stay different: the next look finds them again.
            tracing::warn!(%error, "a topic was made again and its watermarks are not known yet");
            return Ok(());
        }
    };
    for (part, next) in again {
        let Some(marks) = marks.get(&part).copied() else {
            continue;
        };
        // At the beginning, nothing of the topic that is gone was read.
        if next > marks.low {
            go_on(
                consumer,
                &starts::skip(&part, next, marks, policy, GapCause::Recreated)?,
            )?;
        }
        if let Some(lane) = context.state.lock().lanes.find(&part.topic, part.partition) {
            lane.topic_id = ids.get(&*part.topic).copied();
        }
    }
    Ok(())
}

fn reading(lane: &LaneState) -> Option<(Part, i64)> {
    (lane.phase == Phase::Reading).then(|| (lane.part.clone(), lane.next))
}

fn marks(consumer: &BaseConsumer<Context>, positions: &[(Part, i64)]) -> Result<HashMap<Part, Watermarks>, LiveError> {
    let parts: Vec<Part> = positions.iter().map(|(part, _)| part.clone()).collect();
    ask::watermarks(consumer, &parts)
}

/// Goes on where it was decided. Without a gap the position exists (again): the fetcher is set going at it.
fn go_on(consumer: &BaseConsumer<Context>, placed: &Placed) -> Result<(), LiveError> {
    let context = consumer.context();
    if let Some(gap) = &placed.gap {
        context.report.gap(gap);
        move_to(consumer, &placed.part, placed.offset, gap.cause)?;
    }
    if let Err(error) = restart(consumer, &placed.part, placed.offset) {
        // In the middle of a rebalance: the next look finds the same position, and no gap before it.
        tracing::warn!(%error, "a partition cannot go on yet");
        context.troubles.lock().again();
    }
    // A pause outlives the restart; that of a full span belonged to the epoch that is gone.
    let is_awake = {
        let mut state = context.state.lock();
        let paused = state.paused;
        let lane = state.lanes.find(&placed.part.topic, placed.part.partition);
        lane.is_some_and(|lane| !paused && !lane.span_full && lane.phase == Phase::Reading)
    };
    if is_awake {
        resume(consumer, std::slice::from_ref(&placed.part))?;
    }
    Ok(())
}

/// Sets the fetcher of a partition going at an offset. A fetcher that a reset has stopped cannot seek: its partition
/// is taken back and assigned again, between us and the library only.
fn restart(consumer: &BaseConsumer<Context>, part: &Part, offset: i64) -> Result<(), LiveError> {
    let one = ask::list([(part, Offset::Offset(offset))])?;
    let done = match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer
            .incremental_unassign(&one)
            .and_then(|()| consumer.incremental_assign(&one)),
        _ => {
            let state = consumer.context().state.lock();
            let all = ask::list(state.lanes.iter().map(|lane| (&lane.part, Offset::Offset(lane.next))))?;
            drop(state);
            consumer.assign(&all)
        }
    };
    done.map_err(|error| LiveError::call("go on at another offset", &error))
}

/// Sets a lane to another offset. A topic that was made again starts a new epoch: its offsets begin again.
fn move_to(consumer: &BaseConsumer<Context>, part: &Part, to: i64, cause: GapCause) -> Result<(), LiveError> {
    let context = consumer.context();
    let mut state = context.state.lock();
    let state = &mut *state;
    let Some(lane) = state.lanes.find(&part.topic, part.partition) else {
        return Ok(());
    };
    lane.next = to;
    lane.fetched = -1;
    lane.moved_at = Instant::now();
    if cause == GapCause::Expired {
        return Ok(()); // what was copied before stands before the gap
    }
    lane.run = Run::default();
    lane.held.clear();
    lane.epoch = context.intake.open_at(lane_of(part), u64::try_from(to).unwrap_or(0));
    lane.topic_id = None;
    lane.stored = -1;
    lane.high = -1;
    lane.span_full = false;
    // librdkafka commits a stored offset only above the committed one, which belongs to the topic that is gone.
    let list = ask::list([(part, Offset::Offset(to))])?;
    if let Err(error) = consumer.commit(&list, CommitMode::Sync) {
        tracing::warn!(%error, lane = %lane.lane, "the commit of a topic made again failed; later ones cover it");
    }
    Ok(())
}
