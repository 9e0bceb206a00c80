//! The loop of an archive source: what happens next.
//!
//! Invariants: waiting is in the `select!`, statements are in the bodies; alerts of a block go out only under its pass;
//! a careful block has its turn only when it is the only one held.

use std::collections::VecDeque;

use futures::future::BoxFuture;
use tokio::time::{Duration, Instant};
use uuid::Uuid;

use super::caretaker::{Caretaker, Report};
use super::feed::{Fed, Held};
use super::gate::{self, Pass};
use super::pace::Pace;
use super::{ArchiveConfig, ArchiveSource, ArchiveSourceError};
use crate::archive::Archive;
use crate::archive::groups::{BuildStep, Group, Groups, Halt, Session, Standing};
use crate::error::{BoxError, ErrorClass};
use crate::record::SourceId;
use crate::source::SourceError;
use crate::source::intake::{Commit, Intake};

/// While one block is held, how often it is looked whether the next is wanted.
const PACE_LOOK: Duration = Duration::from_millis(20);

/// A running consumer.
pub(super) struct Run {
    pub(super) id: SourceId,
    pub(super) archive: Archive,
    pub(super) groups: Groups,
    pub(super) group: Group,
    pub(super) cfg: ArchiveConfig,
    pub(super) intake: Intake,
    pub(super) session: Session,
    pub(super) caretaker: Caretaker,
    /// In the order they were claimed; at most two.
    pub(super) held: VecDeque<Held>,
    pub(super) pace: Pace,
    /// No claim before.
    pub(super) next_look: Instant,
    next_beat: Instant,
    /// The block that waits for its pass, by lease.
    entering: Option<(Uuid, BoxFuture<'static, Pass>)>,
    /// The group has no block left.
    ended: bool,
    /// The last statements are being made: an unreachable database is not waited for long.
    pub(super) leaving: bool,
    said_paused: bool,
}

enum Event {
    Commits(Option<Vec<Commit>>),
    Report(Report),
    Pass(Pass),
    Fed(Fed),
    Tick,
}

/// Joins the group, works until it ends or the stream closes, and leaves.
pub(super) async fn run(source: ArchiveSource, intake: Intake) -> Result<(), SourceError> {
    let ArchiveSource {
        id,
        archive,
        group,
        cfg,
    } = source;
    let groups = Groups::new(&archive);
    let session = groups.session(&group, cfg.liveness, cfg.times()).await;
    let session = session.map_err(|error| work_error(&id, &group, error))?;
    let caretaker = Caretaker::start(groups.clone(), group.clone(), intake.clone(), cfg.rescue);
    caretaker.owner_is(session.owner());
    let now = Instant::now();
    let mut run = Run {
        pace: Pace::new(cfg.reserve),
        held: VecDeque::new(),
        next_look: now,
        next_beat: now + cfg.heartbeat,
        entering: None,
        ended: false,
        leaving: false,
        said_paused: false,
        id,
        archive,
        groups,
        group,
        cfg,
        intake,
        session,
        caretaker,
    };
    let worked = run.work().await;
    run.leave(worked).await
}

/// Makes the stream's error of a database error.
pub(super) fn work_error(id: &SourceId, group: &Group, error: sqlx::Error) -> SourceError {
    let class = if crate::archive::groups::is_transient(&error) {
        ErrorClass::Transient
    } else {
        ErrorClass::Fatal
    };
    let cause: BoxError = match error {
        sqlx::Error::RowNotFound => Box::new(ArchiveSourceError::Deleted {
            name: group.name.to_string(),
        }),
        other => Box::new(other),
    };
    SourceError::Backend {
        source_id: id.clone(),
        class,
        cause,
    }
}

impl Run {
    async fn work(&mut self) -> Result<(), SourceError> {
        loop {
            self.tend().await?;
            match self.next_event().await {
                Event::Commits(Some(commits)) => self.commit(commits).await?,
                Event::Commits(None) => return Ok(()),
                Event::Report(report) => self.on_report(report).await?,
                Event::Pass(pass) => self.on_pass(pass),
                Event::Fed(fed) => self.on_fed(fed).await?,
                Event::Tick => {}
            }
        }
    }

    /// Waits for what comes first; nothing is lost with the rest.
    async fn next_event(&mut self) -> Event {
        let wake = self.next_wake();
        let turn = self.turn();
        let Self {
            intake,
            caretaker,
            entering,
            held,
            archive,
            ..
        } = self;
        let feeding = turn
            .and_then(|turn| held.get_mut(turn))
            .filter(|held| held.pass.is_some());
        tokio::select! {
            biased;
            commits = intake.commits() => Event::Commits(commits),
            report = caretaker.report() => Event::Report(report),
            pass = async { match entering { Some((_, wait)) => wait.await, None => std::future::pending().await } } => {
                Event::Pass(pass)
            }
            fed = async { match feeding { Some(held) => held.feed(archive, intake).await, None => std::future::pending().await } } => {
                Event::Fed(fed)
            }
            () = tokio::time::sleep_until(wake) => Event::Tick,
        }
    }

    /// Gives the block whose alerts go out now; `None` when there is none, or a careful one has to wait.
    fn turn(&self) -> Option<usize> {
        let turn = self.held.iter().position(|held| !held.is_exhausted())?;
        let careful = self.held.get(turn).is_some_and(|held| held.progress.is_careful());
        (!self.intake.is_closing() && (turn == 0 || !careful)).then_some(turn)
    }

    /// Does what is due: renewing the leases, claiming, asking for a pass.
    async fn tend(&mut self) -> Result<(), SourceError> {
        let now = Instant::now();
        if now >= self.next_beat {
            self.next_beat = now + self.cfg.heartbeat;
            self.renew().await?;
        }
        let (settled, _) = self.intake.settled_count();
        self.pace.look(now, settled);
        if now >= self.next_look && self.wants_block() {
            self.look().await?;
        }
        self.ask_for_pass();
        Ok(())
    }

    /// Tells whether another block is wanted.
    pub(super) fn wants_block(&self) -> bool {
        if self.ended || self.intake.is_closing() {
            return false;
        }
        match self.held.front() {
            None => true,
            Some(_) if self.held.len() > 1 => false,
            Some(current) if current.progress.is_careful() => false,
            Some(current) => {
                let rest = current.to_hand_out() + self.intake.unsettled(&current.lane);
                let (settled, _) = self.intake.settled_count();
                rest < current.open && self.pace.is_short(Instant::now(), settled, rest as u64)
            }
        }
    }

    fn next_wake(&self) -> Instant {
        let look = match self.held.len() {
            0 => self.next_look,
            1 => self.next_look.max(Instant::now() + PACE_LOOK),
            _ => self.next_beat,
        };
        if self.ended || self.intake.is_closing() {
            self.next_beat
        } else {
            look.min(self.next_beat)
        }
    }

    /// Claims the next free block, or finds out why there is none.
    async fn look(&mut self) -> Result<(), SourceError> {
        if let Some((claim, sent)) = self.claim().await? {
            self.said_paused = false;
            return self.take(claim, sent).await;
        }
        self.next_look = Instant::now() + self.cfg.look;
        match self.standing().await? {
            Standing::Free => self.next_look = Instant::now(),
            Standing::Building => self.caretaker.build(),
            Standing::Held => {}
            Standing::Ended => {
                self.ended = true;
                self.intake.end_of_input();
            }
            Standing::Halted(Halt::Paused) => {
                if !std::mem::replace(&mut self.said_paused, true) {
                    tracing::warn!(group = %self.group.name, "the group is paused: waiting until it is resumed");
                }
            }
            Standing::Halted(Halt::Failed(reason)) => {
                let name = self.group.name.to_string();
                return Err(self.fatal(ArchiveSourceError::Failed { name, reason }));
            }
            Standing::Halted(Halt::Expired(reason)) => {
                let name = self.group.name.to_string();
                return Err(self.fatal(ArchiveSourceError::Expired { name, reason }));
            }
            Standing::Deleted => {
                let name = self.group.name.to_string();
                return Err(self.fatal(ArchiveSourceError::Deleted { name }));
            }
        }
        Ok(())
    }

    /// Asks for the pass of the block whose turn it is.
    fn ask_for_pass(&mut self) {
        let wanted = self
            .turn()
            .and_then(|turn| self.held.get(turn))
            .filter(|held| held.pass.is_none());
        let Some(held) = wanted else {
            self.entering = None;
            return;
        };
        let lease = held.progress.claim().lease;
        if self.entering.as_ref().is_none_or(|(of, _)| *of != lease) {
            let wait = if held.progress.is_careful() {
                gate::single()
            } else {
                gate::shared()
            };
            self.entering = Some((lease, wait));
        }
    }

    fn on_pass(&mut self, pass: Pass) {
        let Some((lease, _)) = self.entering.take() else { return };
        if let Some(held) = self.held.iter_mut().find(|held| held.progress.claim().lease == lease) {
            held.pass = Some(pass);
        }
    }

    async fn on_fed(&mut self, fed: Fed) -> Result<(), SourceError> {
        match fed {
            Fed::Note(index) => self.note(index).await,
            Fed::Out | Fed::Exhausted => Ok(()),
            Fed::Shut => {
                // Closing ends the turn, and a lost lane is dropped with its block: at the next look at the latest.
                tokio::task::yield_now().await;
                Ok(())
            }
            Fed::Failed(error) => {
                tracing::warn!(group = %self.group.name, %error, "reading packets failed, trying again");
                Ok(())
            }
        }
    }

    async fn on_report(&mut self, report: Report) -> Result<(), SourceError> {
        match report {
            Report::Freed | Report::Step(Ok(BuildStep::Advanced(_) | BuildStep::Built)) => {
                self.next_look = Instant::now();
            }
            // The next look finds out.
            Report::Step(Ok(_)) => {}
            Report::Step(Err(error)) if error.class() == ErrorClass::Transient => {
                tracing::warn!(group = %self.group.name, %error, "a build step failed, trying again");
            }
            Report::Step(Err(error)) => {
                let reason = format!("its build failed: {error}");
                if let Err(error) = self.groups.fail(&self.group, &reason).await {
                    tracing::error!(group = %self.group.name, %error, "the group could not be marked as failed");
                }
                let name = self.group.name.to_string();
                return Err(self.fatal(ArchiveSourceError::Failed { name, reason }));
            }
        }
        Ok(())
    }

    pub(super) fn fatal(&self, cause: impl Into<BoxError>) -> SourceError {
        SourceError::Backend {
            source_id: self.id.clone(),
            class: ErrorClass::Fatal,
            cause: cause.into(),
        }
    }

    /// Gives back what is held, leaves the members, ends the caretaker.
    async fn leave(mut self, worked: Result<(), SourceError>) -> Result<(), SourceError> {
        self.leaving = true;
        let unreachable = matches!(
            &worked,
            Err(SourceError::Unconfirmed { .. }
                | SourceError::Backend {
                    class: ErrorClass::Transient,
                    ..
                })
        );
        if unreachable {
            // The database was waited for already; others free the blocks.
            self.caretaker.end().await;
            return worked;
        }
        if let Err(error) = self.give_back().await {
            self.caretaker.end().await;
            return worked.and(Err(error));
        }
        let left = self.session.leave().await.map_err(|cause| SourceError::Unconfirmed {
            source_id: self.id.clone(),
            cause: cause.into(),
        });
        match &left {
            Ok(()) => self.caretaker.close_books().await,
            Err(_) => self.caretaker.end().await,
        }
        worked.and(left)
    }
}
