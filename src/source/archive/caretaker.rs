//! What a consumer does beside its blocks: look for the dead, keep the books, build when asked.
//!
//! Invariants: statements run here to their end, in a task of its own that is joined when the source ends, so that a
//! long build step delays neither a heartbeat nor a delivery. Must not know of held blocks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::archive::groups::{BuildStep, Group, GroupError, Groups, Rescuer};
use crate::source::intake::Intake;

/// Settlements are counted over this long for the rate that `group show` tells.
const RATE_OVER: Duration = Duration::from_secs(30);

/// What the caretaker tells.
#[derive(Debug)]
pub(super) enum Report {
    /// What the build step that was asked for came to.
    Step(Result<BuildStep, GroupError>),
    /// Blocks of the dead are free again.
    Freed,
}

/// What the caretaker is asked for.
#[derive(Debug)]
enum Order {
    Build,
    CloseBooks,
}

/// The source's end of the task.
pub(super) struct Caretaker {
    orders: mpsc::Sender<Order>,
    reports: mpsc::Receiver<Report>,
    owner: Arc<AtomicI32>,
    building: bool,
    task: JoinHandle<()>,
}

impl Caretaker {
    pub(super) fn start(groups: Groups, group: Group, intake: Intake, every: Duration) -> Self {
        let (orders, asked) = mpsc::channel(1);
        let (tell, reports) = mpsc::channel(16);
        let owner = Arc::new(AtomicI32::new(0));
        let work = Work {
            rescuer: Rescuer::new(groups.clone(), &group),
            groups,
            group,
            intake,
            owner: owner.clone(),
            looks: VecDeque::new(),
            tell,
        };
        Self {
            orders,
            reports,
            owner,
            building: false,
            task: tokio::spawn(work.run(asked, every)),
        }
    }

    /// Tells under which number the session goes now.
    pub(super) fn owner_is(&self, owner: i32) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    /// Asks for a build step, unless one is on its way.
    pub(super) fn build(&mut self) {
        // Room for one: full means that it was asked already.
        self.building = self.building || self.orders.try_send(Order::Build).is_ok();
    }

    /// Waits for the next report.
    ///
    /// # Cancel safety
    /// Nothing was taken.
    pub(super) async fn report(&mut self) -> Report {
        match self.reports.recv().await {
            Some(report) => {
                self.building &= !matches!(report, Report::Step(_));
                report
            }
            // The task ends only after this end did, or by a panic, which joining it tells.
            None => std::future::pending().await,
        }
    }

    /// Folds what this consumer finished last, then ends the task.
    pub(super) async fn close_books(self) {
        // It fails only when the task is gone.
        let _ = self.orders.send(Order::CloseBooks).await;
        self.end().await;
    }

    /// Ends the task after the statement in work.
    pub(super) async fn end(self) {
        // Dropping the orders lets the task take those that wait, and then ends it.
        drop((self.orders, self.reports));
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the caretaker of a group ended badly");
        }
    }
}

struct Work {
    rescuer: Rescuer,
    groups: Groups,
    group: Group,
    intake: Intake,
    owner: Arc<AtomicI32>,
    looks: VecDeque<(Instant, u64)>,
    tell: mpsc::Sender<Report>,
}

impl Work {
    async fn run(mut self, mut asked: mpsc::Receiver<Order>, every: Duration) {
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                order = asked.recv() => match order {
                    Some(Order::CloseBooks) => {
                        if let Err(error) = self.rescuer.keep_books(self.owner.load(Ordering::Relaxed), None).await {
                            tracing::debug!(group = %self.group.name, %error, "closing the books failed");
                        }
                    }
                    Some(Order::Build) => {
                        let step = self.groups.build_step(&self.group).await;
                        if self.tell.send(Report::Step(step)).await.is_err() {
                            return;
                        }
                    }
                    None => return,
                },
                _ = tick.tick() => {
                    if let Err(error) = self.round().await {
                        // The next round tries again; what matters to the blocks is told by the session.
                        tracing::debug!(group = %self.group.name, %error, "a caretaker's round failed");
                    }
                }
            }
        }
    }

    async fn round(&mut self) -> Result<(), GroupError> {
        let freed = self.rescuer.look().await?;
        if !freed.is_empty() {
            tracing::warn!(group = %self.group.name, blocks = ?freed, "freed the blocks of a consumer that is gone");
            // A full channel means that the source has reports enough to look again.
            let _ = self.tell.try_send(Report::Freed);
        }
        let rate = self.rate();
        self.rescuer
            .keep_books(self.owner.load(Ordering::Relaxed), rate)
            .await?;
        let alerts = self.groups.show(&self.group.name).await?.alerts;
        self.intake
            .set_remaining(u64::try_from(alerts.in_progress + alerts.remaining).ok());
        Ok(())
    }

    /// Alerts settled per second, lately.
    fn rate(&mut self) -> Option<f64> {
        let (now, (settled, _)) = (Instant::now(), self.intake.settled_count());
        self.looks.push_back((now, settled));
        while self.looks.len() > 2
            && self
                .looks
                .front()
                .is_some_and(|(at, _)| now.duration_since(*at) > RATE_OVER)
        {
            self.looks.pop_front();
        }
        let (at, before) = *self.looks.front()?;
        let span = now.duration_since(at).as_secs_f64();
        // Below 2^53 alerts the cast is exact.
        (span > 0.0).then(|| settled.saturating_sub(before) as f64 / span)
    }
}
