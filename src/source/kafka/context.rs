//! librdkafka's callbacks: assignments, revocations, statistics, errors.
//!
//! How it works: every callback runs inside `poll`, on the poll thread, so the state's lock is never contended; it is
//! there because librdkafka's contexts must be `Sync`. It is never held over a call that polls or waits.
//!
//! Invariants: a partition is opened under a new epoch at an offset that exists, before it is fetched; a revocation
//! waits for open deliveries until a deadline well below the session's time-out, commits, and only then lets go; a
//! lost partition is never committed. Must not know of the poll loop.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rdkafka::bindings::rd_kafka_resp_err_t as RespErr;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, Statistics, TopicPartitionList};
use tokio::runtime::Handle;

use super::ask::{self, Part};
use super::ends::Ends;
use super::error::LiveError;
use super::lanes::{LaneState, Lanes, Phase, lane_of};
use super::report::{Counted, LiveReport};
use super::rest::CaughtUp;
use super::starts::{self, Commits, Placed, StartPlan};
use super::topic_ids::{self, TopicId};
use super::troubles::Troubles;
use crate::payloads::Payloads;
use crate::record::Lane;
use crate::source::intake::{Commit, Intake};

/// How long an assignment asks for its offsets before the source gives up.
const PLACE_WITHIN: Duration = Duration::from_secs(60);

/// How often that is told.
const PLACE_TOLD_EVERY: Duration = Duration::from_secs(10);

/// A fetcher goes by a pause, a resumption or an assignment within a second (`rd_kafka_max_block_ms`); until then the
/// statistics tell where it was before.
const FETCHER_LOOKS_WITHIN: Duration = Duration::from_secs(2);

/// What the callbacks and the poll loop share.
pub(crate) struct Context {
    pub(crate) intake: Intake,
    pub(crate) runtime: Handle,
    pub(crate) report: LiveReport,
    pub(crate) caught_up: CaughtUp,
    /// Where payloads are copied to.
    pub(crate) payloads: Arc<Payloads>,
    pub(crate) state: Mutex<State>,
    pub(crate) troubles: Mutex<Troubles>,
    /// Set by an error event, so that the loop looks at the account only then.
    pub(crate) troubled: AtomicBool,
    /// How long a revocation may wait for open deliveries.
    pub(crate) drain_within: Duration,
}

/// The state of one consumer.
pub(crate) struct State {
    pub(crate) lanes: Lanes,
    pub(crate) plan: StartPlan,
    pub(crate) ends: Ends,
    /// Assignments and revocations so far, empty ones too.
    pub(crate) assignments: u64,
    /// Everything is paused: the byte budget is full.
    pub(crate) paused: bool,
    /// The consumer is being closed: revocations commit nothing more.
    pub(crate) closing: bool,
    /// Lanes were lost while the stream closed, with settlements that nobody can commit any more.
    pub(crate) lost_unconfirmed: bool,
    pub(crate) failure: Option<LiveError>,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        // Errors come as events too, where they are counted and thinned out.
        match level {
            RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                tracing::debug!(target: "librdkafka", facility, "{text}");
            }
            _ => tracing::debug!(target: "librdkafka", facility, ?level, "{text}"),
        }
        self.troubles.lock().said(facility, text);
    }

    fn stats(&self, statistics: Statistics) {
        let mut state = self.state.lock();
        let (paused, now) = (state.paused, Instant::now());
        for lane in state.lanes.iter_mut() {
            let topic = statistics.topics.get(&*lane.part.topic);
            let Some(found) = topic.and_then(|topic| topic.partitions.get(&lane.part.partition)) else {
                continue;
            };
            lane.high = lane.high.max(found.hi_offset.max(found.ls_offset));
            // Control records and compaction leave offsets without a message: the end is reached when the fetcher is
            // past it and nothing fetched is waiting. A pause throws away what waits, and what is told here stands at the
            // end of that until the fetcher goes on.
            let is_fetching = !paused && !lane.span_full && now.duration_since(lane.moved_at) >= FETCHER_LOOKS_WITHIN;
            let is_empty = is_fetching && found.fetchq_cnt == 0 && !lane.holds();
            if is_empty {
                lane.fetched = found.next_offset;
            }
            if is_empty && lane.end.is_some_and(|end| found.next_offset >= end) {
                lane.next = lane.next.max(lane.end.unwrap_or(lane.next));
            }
            self.intake.set_lag(&lane.lane, lane.behind());
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.troubles.lock().event(code, reason, Instant::now());
        self.troubled.store(true, Ordering::Release);
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RespErr, list: &mut TopicPartitionList) {
        let parts = ask::parts_of(list);
        self.state.lock().assignments += 1;
        self.caught_up.set(false);
        if !parts.is_empty() {
            self.report.count(Counted::Rebalance);
        }
        let done = match event {
            RespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => self.assigned(consumer, &parts),
            _ => self.revoked(consumer, &parts),
        };
        if let Err(error) = done {
            self.state.lock().failure.get_or_insert(error);
        }
    }
}

impl Context {
    /// Opens the partitions and starts fetching them. An empty assignment is answered too: the group waits for it.
    fn assigned(&self, consumer: &BaseConsumer<Self>, parts: &[Part]) -> Result<(), LiveError> {
        // Before the offsets: if the topic is made again between the two, the next look at the ids shows it.
        let ids = match self.intake.is_closing() {
            false => topic_ids::of(consumer, parts),
            true => HashMap::new(),
        };
        let placed = self.place(consumer, parts);
        let (placed, failed) = match placed {
            Ok(placed) => (placed, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let sealed = self.open(&placed, &ids);
        self.assign(consumer, &placed)?;
        self.troubles.lock().joined();
        let resting = if self.state.lock().paused {
            parts.to_vec()
        } else {
            sealed
        };
        if !placed.is_empty() {
            // librdkafka remembers a pause of a former ownership of the partition.
            let awake: Vec<Part> = parts.iter().filter(|part| !resting.contains(part)).cloned().collect();
            resume(consumer, &awake)?;
            pause(consumer, &resting)?;
        }
        let at = |placed: &Placed| format!("{}/{}", lane_of(&placed.part), placed.offset);
        let from: Vec<String> = placed.iter().map(at).collect();
        tracing::info!(partitions = placed.len(), from = from.join(" "), "assigned");
        failed.map_or(Ok(()), Err)
    }

    /// Asks for the offsets until they are known: brokers come and go just when groups rebalance.
    fn place(&self, consumer: &BaseConsumer<Self>, parts: &[Part]) -> Result<Vec<Placed>, LiveError> {
        // A consumer that is closing gets no answers any more.
        if parts.is_empty() || self.state.lock().closing || self.intake.is_closing() {
            return Ok(Vec::new());
        }
        let plan = self.state.lock().plan.clone();
        let begun = Instant::now();
        let mut tell_at = begun;
        loop {
            match starts::place(consumer, parts, &plan, Commits::First) {
                Err(error @ LiveError::Call { .. }) => {
                    let now = Instant::now();
                    if self.intake.is_closing() || now.duration_since(begun) > PLACE_WITHIN {
                        return Err(error);
                    }
                    if now >= tell_at {
                        tell_at = now + PLACE_TOLD_EVERY;
                        let (waited_secs, at_most_secs) = ((now - begun).as_secs(), PLACE_WITHIN.as_secs());
                        tracing::warn!(
                            %error, partitions = parts.len(), waited_secs, at_most_secs,
                            "new partitions wait for the brokers to tell where to begin"
                        );
                    }
                    std::thread::sleep(Duration::from_millis(200));
                }
                other => return other,
            }
        }
    }

    /// Opens a lane for each partition; gives those that have nothing to read.
    fn open(&self, placed: &[Placed], ids: &HashMap<String, TopicId>) -> Vec<Part> {
        let mut state = self.state.lock();
        let mut sealed = Vec::new();
        for placed in placed {
            if let Some(gap) = &placed.gap {
                self.report.gap(gap);
            }
            let from = u64::try_from(placed.offset).unwrap_or(0);
            let epoch = self.intake.open_at(lane_of(&placed.part), from);
            let mut lane = LaneState::new(placed.part.clone(), epoch, placed.offset, Instant::now());
            state.plan.rewound.remove(&placed.part);
            lane.high = placed.high;
            lane.topic_id = ids.get(&*placed.part.topic).copied();
            lane.end = state.ends.of(&placed.part, placed.offset, Some(placed.high));
            self.intake.set_lag(&lane.lane, lane.behind());
            if lane.is_at_end() {
                lane.phase = Phase::Sealed;
                self.intake.seal(&lane.lane);
                sealed.push(placed.part.clone());
            }
            state.lanes.insert(lane);
        }
        sealed
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, placed: &[Placed]) -> Result<(), LiveError> {
        let list = ask::list(
            placed
                .iter()
                .map(|placed| (&placed.part, Offset::Offset(placed.offset))),
        )?;
        let done = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(&list),
            _ => consumer.assign(&list),
        };
        done.map_err(|error| LiveError::call("take the assignment", &error))
    }

    /// Drains, commits and lets go of the partitions.
    fn revoked(&self, consumer: &BaseConsumer<Self>, parts: &[Part]) -> Result<(), LiveError> {
        let (parts, closing) = {
            let state = self.state.lock();
            // What was assigned while closing was never taken, and librdkafka refuses to give it back.
            let taken = |part: &&Part| state.lanes.iter().any(|lane| lane.part == **part);
            (
                parts.iter().filter(taken).cloned().collect::<Vec<Part>>(),
                state.closing,
            )
        };
        let lanes: Vec<Lane> = parts.iter().map(lane_of).collect();
        let how = if lanes.is_empty() {
            "nothing was held"
        } else if consumer.assignment_lost() {
            lanes.iter().for_each(|_| self.report.count(Counted::Lost));
            tracing::warn!(
                partitions = lanes.len(),
                "partitions were lost: the session ended, because no broker answered or this process stood still; the \
                 group is joined again, and what was not committed is delivered again"
            );
            self.note_unconfirmed(&parts);
            self.intake.lose(&lanes);
            "lost"
        } else if closing {
            self.intake.lose(&lanes);
            "closing"
        } else if self.drain(consumer, &lanes, &parts) {
            "committed"
        } else {
            "not committed"
        };
        let mut state = self.state.lock();
        for part in &parts {
            state.lanes.remove(part);
        }
        drop(state);
        // Told before it is let go, so that the next owner's line comes later.
        let names: Vec<String> = lanes.iter().map(Lane::to_string).collect();
        tracing::info!(partitions = parts.len(), lanes = names.join(" "), how, "revoked");
        let list = ask::list(parts.iter().map(|part| (part, Offset::Invalid)))?;
        let done = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(&list),
            _ => consumer.unassign(),
        };
        done.map_err(|error| LiveError::call("give the assignment back", &error))
    }

    /// Waits for the open deliveries, stores their dead letters, commits. What does not make it is delivered again by
    /// the next owner. Says whether the commit was confirmed.
    fn drain(&self, consumer: &BaseConsumer<Self>, lanes: &[Lane], parts: &[Part]) -> bool {
        let deadline = tokio::time::Instant::now() + self.drain_within;
        let commits = self.runtime.block_on(async {
            let commits = self.intake.revoke(lanes, deadline).await;
            self.without_unstored(commits, deadline).await
        });
        store(consumer, &mut self.state.lock().lanes, &commits);
        match consumer.commit_consumer_state(CommitMode::Sync) {
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {
                self.report.count(Counted::Commit);
                self.intake.committed(&commits);
                true
            }
            Err(error) => {
                self.report.count(Counted::FailedCommit);
                self.note_unconfirmed(parts);
                tracing::warn!(%error, "the last commit before a revocation failed; its alerts are delivered again");
                false
            }
        }
    }

    /// While the stream closes, what is lost now is what its last commit would have said.
    fn note_unconfirmed(&self, parts: &[Part]) {
        let mut state = self.state.lock();
        let is_open = |lane: &LaneState| parts.contains(&lane.part) && lane.confirmed < lane.next;
        if self.intake.is_closing() && state.lanes.iter().any(is_open) {
            state.lost_unconfirmed = true;
        }
    }

    /// Stores the commits' dead letters, in one attempt; gives the commits that nothing stands before.
    async fn without_unstored(&self, commits: Vec<Commit>, deadline: tokio::time::Instant) -> Vec<Commit> {
        let letters: Vec<_> = commits
            .iter()
            .flat_map(|commit| commit.rejected.iter().cloned())
            .collect();
        if letters.is_empty() {
            return commits;
        }
        let dead_letters = self.intake.dead_letter_store();
        // The store must run to completion: in a task of its own it does, also when the deadline comes first.
        let storing = self.runtime.spawn(async move { dead_letters.store(&letters).await });
        match tokio::time::timeout_at(deadline, storing).await {
            Ok(Ok(Ok(()))) => commits,
            _ => commits
                .into_iter()
                .filter(|commit| commit.rejected.is_empty())
                .collect(),
        }
    }
}

/// Stores the offsets of commits of the present epochs for the next commit; never one below a stored one.
pub(crate) fn store(consumer: &BaseConsumer<Context>, lanes: &mut Lanes, commits: &[Commit]) {
    let mut wanted = Vec::new();
    for commit in commits {
        let Some(lane) = lanes.in_epoch(&commit.lane, commit.epoch) else {
            continue;
        };
        let upto = i64::try_from(commit.upto).unwrap_or(i64::MAX);
        if upto > lane.stored {
            wanted.push((lane.part.clone(), upto));
        }
    }
    // The list holds references inside librdkafka: it must be gone before the consumer closes.
    let Ok(list) = ask::list(wanted.iter().map(|(part, upto)| (part, Offset::Offset(*upto)))) else {
        return;
    };
    if wanted.is_empty() || consumer.store_offsets(&list).is_err() {
        return; // none of them is owned any more: they will be delivered again by their owner
    }
    for element in list.elements() {
        let Some(lane) = lanes.find(element.topic(), element.partition()) else {
            continue;
        };
        if let (Ok(()), Offset::Offset(upto)) = (element.error(), element.offset()) {
            lane.stored = upto;
        }
    }
}

/// Pauses partitions; librdkafka drops what it prefetched of them.
pub(crate) fn pause(consumer: &BaseConsumer<Context>, parts: &[Part]) -> Result<(), LiveError> {
    if parts.is_empty() {
        return Ok(());
    }
    let list = ask::list(parts.iter().map(|part| (part, Offset::Invalid)))?;
    consumer
        .pause(&list)
        .map_err(|error| LiveError::call("pause partitions", &error))
}

/// Resumes partitions.
pub(crate) fn resume(consumer: &BaseConsumer<Context>, parts: &[Part]) -> Result<(), LiveError> {
    if parts.is_empty() {
        return Ok(());
    }
    let list = ask::list(parts.iter().map(|part| (part, Offset::Invalid)))?;
    consumer
        .resume(&list)
        .map_err(|error| LiveError::call("resume partitions", &error))
}
