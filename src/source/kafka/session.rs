//! What is due by the clock: the subscription, the ends of a bounded read, resets, stalls.
//!
//! Invariants: the subscription is always the window's literal names; a bounded read is over only when every
//! partition of its snapshot is committed up to its end, by whichever member of the group. Must not know of messages.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::ask::{self, Part};
use super::context::{Context, pause};
use super::error::LiveError;
use super::lanes::Phase;
use super::nights::{TopicPattern, Window};
use super::poll::seal_at_end;
use super::report::Counted;
use super::resets;
use super::rest::Rest;

/// Tells the time; the tests have their own.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// How often things are looked at.
const TICK: Duration = Duration::from_millis(100);

/// How long nothing is assigned before it is told: a group's first assignment takes some seconds.
const IDLE_TOLD_AFTER: Duration = Duration::from_secs(15);

/// The timers of one consumer.
pub(crate) struct Session {
    pub(crate) patterns: Vec<TopicPattern>,
    pub(crate) window: Window,
    pub(crate) clock: Clock,
    /// How often the window is looked at.
    pub(crate) refresh_every: Duration,
    /// How long a partition may be behind without progress.
    pub(crate) stall_after: Duration,
    subscribed: Vec<String>,
    tick_at: Instant,
    refresh_at: Instant,
    /// Whether everything is read.
    pub(crate) rest: Rest,
    /// When to tell that nothing is assigned; nothing while something is.
    tell_idle_at: Option<Instant>,
    told_idle: bool,
    over: bool,
}

impl Session {
    pub(crate) fn new(
        patterns: Vec<TopicPattern>,
        window: Window,
        clock: Clock,
        refresh_every: Duration,
        stall_after: Duration,
        rest: Rest,
    ) -> Self {
        let now = Instant::now();
        Self {
            patterns,
            window,
            clock,
            refresh_every,
            stall_after,
            subscribed: Vec::new(),
            tick_at: now,
            refresh_at: now,
            rest,
            tell_idle_at: None,
            told_idle: false,
            over: false,
        }
    }

    /// Asks for the first answer of a broker, takes the snapshots of a bounded read, and joins the group.
    pub(crate) fn begin(&mut self, consumer: &BaseConsumer<Context>) -> Result<(), LiveError> {
        let topics = self.literal_topics();
        let known: HashSet<Part> = ask::partitions(consumer, &topics)?.into_iter().collect();
        let is_bounded = consumer.context().state.lock().ends.is_bounded();
        if is_bounded && known.is_empty() && !topics.is_empty() {
            tracing::warn!(
                ?topics,
                "none of these topics is there: a bounded read of them finds nothing"
            );
        }
        consumer.context().state.lock().plan.known = Some(known);
        self.find_ends(consumer)?;
        self.subscribe(consumer)
    }

    /// Gives the names of the window that are no regular expressions.
    pub(crate) fn literal_topics(&self) -> Vec<String> {
        let mut topics = self.window.topics(&self.patterns, (self.clock)());
        topics.retain(|topic| !topic.starts_with('^'));
        topics
    }

    pub(crate) fn is_tick_due(&self) -> bool {
        Instant::now() >= self.tick_at
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, consumer: &BaseConsumer<Context>) -> Result<(), LiveError> {
        let now = Instant::now();
        self.tick_at = now + TICK;
        if now >= self.refresh_at {
            resets::look_at_ids(consumer)?;
            self.subscribe(consumer)?;
            self.tell_stalls(consumer.context(), now);
        }
        self.tell_idle(consumer.context(), now);
        self.find_ends(consumer)?;
        self.seal(consumer)?;
        self.over = self.rest.turn(consumer.context(), &self.subscribed, now);
        Ok(())
    }

    /// Says once in each such time that nothing can be read: a name that is wrong looks like a quiet night.
    fn tell_idle(&mut self, context: &Context, now: Instant) {
        if !context.state.lock().lanes.is_empty() {
            (self.tell_idle_at, self.told_idle) = (None, false);
            return;
        }
        let at = *self.tell_idle_at.get_or_insert(now + IDLE_TOLD_AFTER);
        if now >= at && !std::mem::replace(&mut self.told_idle, true) {
            let topics = &self.subscribed;
            tracing::warn!(
                ?topics,
                "nothing is assigned: a topic is not there, other members have all partitions, the brokers do not answer, or \
                 the group waits until the session of a lost member ends (`session.timeout.ms`, 45 s unless set)"
            );
        }
    }

    /// Subscribes to the window's names when they changed.
    fn subscribe(&mut self, consumer: &BaseConsumer<Context>) -> Result<(), LiveError> {
        self.refresh_at = Instant::now() + self.refresh_every;
        let topics = self.window.topics(&self.patterns, (self.clock)());
        if topics == self.subscribed {
            return Ok(());
        }
        self.tell_left_behind(consumer.context(), &topics);
        if topics.is_empty() {
            consumer.unsubscribe();
        } else {
            let names: Vec<&str> = topics.iter().map(String::as_str).collect();
            consumer
                .subscribe(&names)
                .map_err(|error| LiveError::call("subscribe", &error))?;
        }
        tracing::info!(?topics, "subscribed");
        self.subscribed = topics;
        Ok(())
    }

    /// A night that leaves the window unread is told.
    fn tell_left_behind(&self, context: &Context, topics: &[String]) {
        for lane in context.state.lock().lanes.iter() {
            let stays = topics
                .iter()
                .any(|topic| **topic == *lane.part.topic || topic.starts_with('^'));
            if !stays && lane.behind() > 0 {
                tracing::warn!(lane = %lane.lane, behind = lane.behind(), "its night leaves the window unread");
            }
        }
    }

    /// Takes the snapshot of a bounded read once it is due, and ends the lanes by it.
    fn find_ends(&self, consumer: &BaseConsumer<Context>) -> Result<(), LiveError> {
        let context = consumer.context();
        if !context.state.lock().ends.is_due((self.clock)()) {
            return Ok(());
        }
        let parts = ask::partitions(consumer, &self.literal_topics())?;
        let mut state = context.state.lock();
        let state = &mut *state;
        state.ends.find(consumer, &parts)?;
        for lane in state.lanes.iter_mut() {
            if lane.end.is_none() {
                lane.end = state.ends.of(&lane.part, lane.next, None);
            }
        }
        Ok(())
    }

    /// Seals the lanes that are at their end without a message that said so.
    fn seal(&self, consumer: &BaseConsumer<Context>) -> Result<(), LiveError> {
        let context = consumer.context();
        let mut sealed = Vec::new();
        for lane in context.state.lock().lanes.iter_mut() {
            if lane.phase == Phase::Reading && lane.is_at_end() {
                seal_at_end(context, lane);
                sealed.push(lane.part.clone());
            }
        }
        pause(consumer, &sealed)
    }

    /// Tells of partitions that are behind and do not move.
    fn tell_stalls(&self, context: &Context, now: Instant) {
        let mut state = context.state.lock();
        if state.paused {
            return;
        }
        for lane in state.lanes.iter_mut() {
            let waits = lane.phase == Phase::Reading && !lane.span_full && lane.high > lane.next;
            if waits && !lane.stall_told && now.duration_since(lane.moved_at) >= self.stall_after {
                lane.stall_told = true;
                context.report.count(Counted::Stall);
                tracing::error!(position = %format_args!("{}/{}", lane.lane, lane.next), behind = lane.behind(), "stalled: nothing is fetched");
            }
        }
    }
}
