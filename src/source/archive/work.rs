//! The statements of an archive source: claim, commit, note, renew, give back; recovery after a lost connection.
//!
//! Invariants: whatever fails for a moment is repeated after the session has connected anew and stamped its blocks; a
//! block that is not ours any more is dropped and told to the intake at once; a claim or an acknowledgement whose
//! answer was lost is found by its lease. A lease counts from when its last confirmed renewal was sent.

use tokio::time::{Duration, Instant};
use uuid::Uuid;

use super::block::Progress;
use super::feed::Held;
use super::run::{Run, work_error};
use crate::archive::groups::{Acknowledged, BlockState, Claim, Durability, Outcome, Standing, is_transient};
use crate::record::Lane;
use crate::source::SourceError;
use crate::source::intake::Commit;

/// First wait before connecting again; doubles up to [`AGAIN_MOST`].
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MOST: Duration = Duration::from_secs(2);

impl Run {
    /// Claims the next free block, and tells when that was sent; `None` when there is none.
    pub(super) async fn claim(&mut self) -> Result<Option<(Claim, Instant)>, SourceError> {
        loop {
            let (lease, sent) = (Uuid::new_v4(), Instant::now());
            let error = match self.session.claim(lease).await {
                Ok(claim) => return Ok(claim.map(|claim| (claim, sent))),
                Err(error) => error,
            };
            self.recover(error, Some(lease)).await?;
            if let Some(claim) = self.find(lease).await? {
                return Ok(Some((claim, sent)));
            }
        }
    }

    /// Finds a claim whose answer was lost.
    async fn find(&mut self, lease: Uuid) -> Result<Option<Claim>, SourceError> {
        loop {
            match self.session.find(lease).await {
                Ok(claim) => return Ok(claim),
                Err(error) => self.recover(error, Some(lease)).await?,
            }
        }
    }

    pub(super) async fn standing(&mut self) -> Result<Standing, SourceError> {
        loop {
            match self.session.standing().await {
                Ok(standing) => return Ok(standing),
                Err(error) => self.recover(error, None).await?,
            }
        }
    }

    /// Takes a block in hand whose claim was sent at `sent`; one with nothing left to hand out is acknowledged at once.
    pub(super) async fn take(&mut self, claim: Claim, sent: Instant) -> Result<(), SourceError> {
        let progress = Progress::new(claim);
        if progress.open_places(0).is_empty() {
            let outcome = self
                .store(&progress.state(), Outcome::Done, &[], Durability::Soon)
                .await?;
            tracing::debug!(block = progress.claim().block_seq, ?outcome, "a block had nothing left");
            return Ok(());
        }
        if progress.is_careful() {
            let claim = progress.claim();
            tracing::warn!(group = %self.group.name, block = claim.block_seq, barren = claim.barren,
                "no claim of this block made progress lately: working it alone, one alert at a time");
        }
        let lane = Lane::Archive {
            group: self.group.name.clone(),
            block: progress.claim().block_seq,
        };
        // Ours before, lost without our knowing, and free again: what is in hand of it belongs to a former lease.
        let former: Vec<Uuid> = self
            .held
            .iter()
            .filter(|held| held.lane == lane)
            .map(|held| held.progress.claim().lease)
            .collect();
        self.lose(&former);
        let epoch = self.intake.open(lane.clone());
        self.intake.valid_until(&lane, sent + self.cfg.lease);
        let mut held = Held::new(progress, lane, epoch);
        held.prefetch(&self.archive);
        self.held.push_back(held);
        if self.held.len() == 1 {
            self.pace.begin(Instant::now(), self.intake.settled_count().0);
        }
        Ok(())
    }

    /// Makes commits durable, or at least written, and tells the intake.
    pub(super) async fn commit(&mut self, commits: Vec<Commit>) -> Result<(), SourceError> {
        if commits.is_empty() {
            while let Err(error) = self.session.make_durable().await {
                self.recover(error, None).await?;
            }
            self.intake.committed(&[]);
        }
        for commit in commits {
            self.commit_one(commit).await?;
        }
        Ok(())
    }

    async fn commit_one(&mut self, commit: Commit) -> Result<(), SourceError> {
        let Some(place) = self.held.iter().position(|held| held.epoch == commit.epoch) else {
            // Of a lane that is lost: the intake knows.
            return Ok(());
        };
        let Some(held) = self.held.get(place) else {
            return Ok(());
        };
        let state = held
            .progress
            .after(commit.upto, &commit.settled_beyond, commit.rejected.len());
        if commit.finished && !commit.sync && self.wants_next_beside(place) {
            let sent = Instant::now();
            let (done, next) = self.acknowledge_and_claim(&state).await?;
            let outcome = if done == Acknowledged::Done {
                Outcome::Done
            } else {
                Outcome::Lost
            };
            self.settle(&state, outcome, &commit, sent, Durability::Soon);
            return match next {
                Some(claim) => self.take(claim, sent).await,
                None => Ok(()),
            };
        }
        let want = if commit.finished { Outcome::Done } else { Outcome::Kept };
        let durability = if commit.sync { Durability::Now } else { Durability::Soon };
        let sent = Instant::now();
        let outcome = self.store(&state, want, &commit.rejected, durability).await?;
        let durability = if commit.rejected.is_empty() {
            durability
        } else {
            Durability::Now
        };
        self.settle(&state, outcome, &commit, sent, durability);
        Ok(())
    }

    /// Notes what became of a stored block, and tells the intake.
    fn settle(&mut self, state: &BlockState, outcome: Outcome, commit: &Commit, sent: Instant, durability: Durability) {
        match outcome {
            Outcome::Lost => return self.lose(&[state.lease]),
            Outcome::Kept => self.kept(state, sent),
            Outcome::Done | Outcome::GivenBack => {
                self.held.retain(|held| held.progress.claim().lease != state.lease);
                if !self.held.is_empty() {
                    self.pace.begin(Instant::now(), self.intake.settled_count().0);
                }
            }
        }
        match durability {
            Durability::Now => self.intake.committed(std::slice::from_ref(commit)),
            Durability::Soon => self.intake.written(std::slice::from_ref(commit)),
        }
    }

    fn kept(&mut self, state: &BlockState, sent: Instant) {
        if let Some(held) = self
            .held
            .iter_mut()
            .find(|held| held.progress.claim().lease == state.lease)
        {
            held.progress.stored(state);
            self.intake.valid_until(&held.lane, sent + self.cfg.lease);
        }
    }

    /// Tells whether, once this block is done, another will be wanted at once.
    fn wants_next_beside(&self, place: usize) -> bool {
        let now = Instant::now();
        if now < self.next_look || self.intake.is_closing() || self.held.len() > 2 {
            return false;
        }
        match self.held.iter().enumerate().find(|(other, _)| *other != place) {
            None => true,
            Some((_, other)) if other.progress.is_careful() => false,
            Some((_, other)) => {
                let rest = other.to_hand_out() + self.intake.unsettled(&other.lane);
                rest < other.open && self.pace.is_short(now, self.intake.settled_count().0, rest as u64)
            }
        }
    }

    async fn acknowledge_and_claim(
        &mut self,
        state: &BlockState,
    ) -> Result<(Acknowledged, Option<Claim>), SourceError> {
        let lease = Uuid::new_v4();
        let error = match self.session.acknowledge_and_claim(state, lease).await {
            Ok((done, claim)) => {
                if claim.is_none() {
                    self.next_look = Instant::now();
                }
                return Ok((done, claim));
            }
            Err(error) => error,
        };
        self.recover_with(error, &[state.lease, lease]).await?;
        let outcome = self.store(state, Outcome::Done, &[], Durability::Soon).await?;
        let done = if outcome == Outcome::Done {
            Acknowledged::Done
        } else {
            Acknowledged::Late
        };
        Ok((done, self.find(lease).await?))
    }

    /// Notes durably that the alert at `index` is handed out next, after what settled before it.
    pub(super) async fn note(&mut self, index: usize) -> Result<(), SourceError> {
        let due = self.intake.due_commits();
        if !due.is_empty() {
            self.commit(due).await?;
        }
        let Some(held) = self.held.front_mut().filter(|held| held.progress.is_careful()) else {
            return Ok(());
        };
        held.progress.try_next(index);
        let (state, sent) = (held.progress.state(), Instant::now());
        match self.store(&state, Outcome::Kept, &[], Durability::Now).await? {
            Outcome::Lost => self.lose(&[state.lease]),
            _ => {
                self.kept(&state, sent);
                if let Some(held) = self.held.front_mut() {
                    held.noted();
                }
            }
        }
        Ok(())
    }

    /// Renews every lease; what is not ours any more is lost.
    pub(super) async fn renew(&mut self) -> Result<(), SourceError> {
        loop {
            let held: Vec<(i64, Uuid)> = self
                .held
                .iter()
                .map(|held| (held.progress.claim().id, held.progress.claim().lease))
                .collect();
            let sent = Instant::now();
            match self.session.renew(&held).await {
                Ok(kept) => {
                    self.renewed(&kept, sent);
                    return Ok(());
                }
                Err(error) => self.recover(error, None).await?,
            }
        }
    }

    fn renewed(&mut self, kept: &[Uuid], sent: Instant) {
        for held in self
            .held
            .iter()
            .filter(|held| kept.contains(&held.progress.claim().lease))
        {
            self.intake.valid_until(&held.lane, sent + self.cfg.lease);
        }
        let lost: Vec<Uuid> = self
            .leases()
            .into_iter()
            .filter(|lease| !kept.contains(lease))
            .collect();
        self.lose(&lost);
    }

    /// Gives the rest of what is held back, after everything that settled is stored.
    pub(super) async fn give_back(&mut self) -> Result<(), SourceError> {
        while let Some(held) = self.held.front() {
            let state = held.progress.state();
            let outcome = self.store(&state, Outcome::GivenBack, &[], Durability::Soon).await?;
            if outcome == Outcome::Lost {
                self.report_late(&[state.block_seq]);
            }
            self.held.pop_front();
        }
        Ok(())
    }

    /// Stores a block; repeated until it is answered.
    async fn store(
        &mut self,
        state: &BlockState,
        want: Outcome,
        letters: &[crate::dead_letter::DeadLetter],
        durability: Durability,
    ) -> Result<Outcome, SourceError> {
        loop {
            match self.session.commit(state, want, letters, durability).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => self.recover(error, Some(state.lease)).await?,
            }
        }
    }

    fn leases(&self) -> Vec<Uuid> {
        self.held.iter().map(|held| held.progress.claim().lease).collect()
    }

    /// Drops blocks that are not ours any more; their settlements change nothing from here on.
    fn lose(&mut self, leases: &[Uuid]) {
        let is_lost = |held: &Held| leases.contains(&held.progress.claim().lease);
        let lost: Vec<&Held> = self.held.iter().filter(|held| is_lost(held)).collect();
        if lost.is_empty() {
            return;
        }
        let lanes: Vec<Lane> = lost.iter().map(|held| held.lane.clone()).collect();
        let blocks: Vec<i64> = lost.iter().map(|held| held.progress.claim().block_seq).collect();
        self.intake.lose(&lanes);
        self.held.retain(|held| !is_lost(held));
        self.report_late(&blocks);
    }

    fn report_late(&self, blocks: &[i64]) {
        tracing::warn!(group = %self.group.name, ?blocks,
            "blocks were lost to another consumer, a rewind or a deletion: what settled since their last commit does not count");
    }

    async fn recover(&mut self, error: sqlx::Error, in_doubt: Option<Uuid>) -> Result<(), SourceError> {
        self.recover_with(error, in_doubt.as_slice()).await
    }

    /// Connects anew after a failure that may pass. The fate of the blocks in doubt is told by the statement that is
    /// then repeated; the others are kept or lost here.
    async fn recover_with(&mut self, error: sqlx::Error, in_doubt: &[Uuid]) -> Result<(), SourceError> {
        if !is_transient(&error) {
            return Err(work_error(&self.id, &self.group, error));
        }
        tracing::warn!(group = %self.group.name, %error, "the connection to the archive failed, connecting again");
        let (began, mut wait) = (Instant::now(), AGAIN_FIRST);
        loop {
            let mut mine = self.leases();
            mine.extend_from_slice(in_doubt);
            let sent = Instant::now();
            match self.session.reconnect(&mine).await {
                Ok(mut kept) => {
                    kept.extend_from_slice(in_doubt);
                    self.caretaker.owner_is(self.session.owner());
                    self.renewed(&kept, sent);
                    tracing::info!(group = %self.group.name, "connected to the archive again");
                    return Ok(());
                }
                Err(error) if !is_transient(&error) => return Err(work_error(&self.id, &self.group, error)),
                Err(error) if self.has_waited_enough(began) => return Err(self.gave_up(error)),
                Err(_) => {}
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(AGAIN_MOST);
        }
    }

    fn has_waited_enough(&self, began: Instant) -> bool {
        let limit = if self.leaving || self.intake.is_closing() {
            self.intake.commit_within()
        } else {
            self.cfg.give_up_after
        };
        began.elapsed() >= limit
    }

    fn gave_up(&self, error: sqlx::Error) -> SourceError {
        if self.leaving || self.intake.is_closing() {
            return SourceError::Unconfirmed {
                source_id: self.id.clone(),
                cause: error.into(),
            };
        }
        work_error(&self.id, &self.group, error)
    }
}
