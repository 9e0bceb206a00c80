//! The memory source: topics with lanes and consumer groups, for tests and examples.
//!
//! Invariants: a lane of a group has one owner; a commit moves a group's place in a lane, never backwards, and only
//! its owner's does; a new owner starts at the group's place. Must not know of decoding. It is bounded by what was
//! pushed into it.
//!
//! It behaves as Kafka does, without a broker: a consumer that joins or leaves makes the group share its lanes anew,
//! the old owner of a lane settles and commits before the new one starts, and one that is cut off has committed
//! nothing more.

mod topic;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, select_all};
use tokio::time::Instant;

use super::intake::{Commit, Intake, Permit, Reserve};
use super::{Source, SourceError};
use crate::record::{Lane, Position, RawAlert, SourceId};

use topic::Member;
pub use topic::MemoryTopic;

/// How long a lane that goes to another consumer may take to settle.
const REVOKE_WITHIN: Duration = Duration::from_secs(5);

/// One consumer of a [`MemoryTopic`], in a group.
#[derive(Debug)]
pub struct MemorySource {
    id: SourceId,
    topic: MemoryTopic,
    group: String,
}

impl MemorySource {
    /// Makes a consumer of a topic; it joins its group when its stream opens.
    pub fn new(id: impl Into<String>, topic: &MemoryTopic, group: impl Into<String>) -> Self {
        Self {
            id: SourceId::new(id.into()),
            topic: topic.clone(),
            group: group.into(),
        }
    }

    /// Makes the only consumer of a topic of its own: one lane with these payloads, and an end.
    pub fn of<B: Into<Bytes>>(id: impl Into<String>, payloads: impl IntoIterator<Item = B>) -> Self {
        let topic = MemoryTopic::new(1);
        for payload in payloads {
            topic.push(0, RawAlert::from_bytes(payload));
        }
        topic.seal();
        Self::new(id, &topic, "memory")
    }
}

impl Source for MemorySource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn run(self: Box<Self>, intake: Intake) -> BoxFuture<'static, Result<(), SourceError>> {
        let consumer = Consumer {
            member: self.topic.join(&self.group),
            id: self.id,
            intake,
            reading: BTreeMap::new(),
        };
        consumer.run().boxed()
    }
}

/// A member of a group at work.
struct Consumer {
    id: SourceId,
    member: Member,
    intake: Intake,
    /// The next seq to deliver, per owned lane.
    reading: BTreeMap<u32, Reading>,
}

#[derive(Clone, Copy)]
struct Reading {
    next: u64,
    sealed: bool,
}

impl Consumer {
    async fn run(mut self) -> Result<(), SourceError> {
        loop {
            let topic = self.member.topic().clone();
            let changed = topic.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.share().await? {
                continue;
            }
            if self.member.is_complete() {
                return Ok(());
            }
            let blocked = self.read();
            tokio::select! {
                biased;
                batch = self.intake.commits() => match batch {
                    Some(batch) => self.commit(batch).await?,
                    None => return Ok(()),
                },
                (lane, permit) = room(&self.intake, blocked) => self.deliver(lane, permit),
                () = changed => {}
            }
        }
    }

    /// Gives up the lanes that others are to have, takes those that are free; says whether it waited meanwhile.
    async fn share(&mut self) -> Result<bool, SourceError> {
        let give_up: Vec<u32> = self
            .reading
            .keys()
            .copied()
            .filter(|lane| !self.member.wants(*lane))
            .collect();
        if !give_up.is_empty() {
            let lanes: Vec<Lane> = give_up.iter().map(|lane| Lane::Memory(*lane)).collect();
            let last = self.intake.revoke(&lanes, Instant::now() + REVOKE_WITHIN).await;
            self.commit(last).await?;
            for lane in &give_up {
                self.reading.remove(lane);
            }
            self.member.let_go(&give_up);
            return Ok(true);
        }
        for (lane, next) in self.member.take() {
            self.intake.open_at(Lane::Memory(lane), next);
            self.reading.insert(lane, Reading { next, sealed: false });
        }
        Ok(false)
    }

    /// Delivers what there is and what has room; gives the lanes that wait for room, with the bytes they wait for.
    fn read(&mut self) -> Vec<(u32, usize)> {
        let mut blocked = Vec::new();
        for lane in self.reading.keys().copied().collect::<Vec<_>>() {
            while let Some(raw) = self.next(lane) {
                match self.intake.try_reserve(&Lane::Memory(lane), raw.payload.len()) {
                    Reserve::Granted(permit) => self.deliver(lane, Some(permit)),
                    Reserve::Full | Reserve::LaneFull => {
                        blocked.push((lane, raw.payload.len()));
                        break;
                    }
                    Reserve::LaneGone | Reserve::Closing => break,
                }
            }
            self.seal_if_over(lane);
        }
        blocked
    }

    fn next(&self, lane: u32) -> Option<RawAlert> {
        self.reading
            .get(&lane)
            .and_then(|reading| self.member.topic().get(lane, reading.next))
    }

    fn deliver(&mut self, lane: u32, permit: Option<Permit>) {
        let raw = self.next(lane);
        if let (Some(permit), Some(raw), Some(reading)) = (permit, raw, self.reading.get_mut(&lane)) {
            let at = Position {
                lane: Lane::Memory(lane),
                seq: reading.next,
            };
            reading.next += 1;
            self.intake.deliver(permit, at, raw);
        }
    }

    fn seal_if_over(&mut self, lane: u32) {
        let end = self.member.topic().end(lane);
        if let (Some(end), Some(reading)) = (end, self.reading.get_mut(&lane))
            && reading.next >= end
            && !reading.sealed
        {
            reading.sealed = true;
            self.intake.seal(&Lane::Memory(lane));
        }
    }

    async fn commit(&self, batch: Vec<Commit>) -> Result<(), SourceError> {
        let stored = self.intake.store_dead_letters(&batch).await;
        stored.map_err(|cause| SourceError::Unconfirmed {
            source_id: self.id.clone(),
            cause,
        })?;
        self.member.commit(&batch);
        self.intake.committed(&batch);
        Ok(())
    }
}

/// Waits for room in any of the lanes; for ever when none waits.
async fn room(intake: &Intake, blocked: Vec<(u32, usize)>) -> (u32, Option<Permit>) {
    if blocked.is_empty() || intake.is_closing() {
        return std::future::pending().await;
    }
    let waits = blocked
        .into_iter()
        .map(|(lane, bytes)| async move { (lane, intake.reserve(&Lane::Memory(lane), bytes).await) }.boxed());
    let (granted, _, _) = select_all(waits).await;
    granted
}
