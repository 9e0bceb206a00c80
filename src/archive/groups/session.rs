//! A consumer's session: its own connection, its liveness lock, its row among the members.
//!
//! Invariants: the connection is outside any pool, since recycling it would give a live owner's blocks away; claims
//! start after the lock is granted; a session that reconnects takes a new owner number and stamps its blocks with it
//! before anything else is done with them. A statement that takes longer than the lease is given up together with its
//! connection (never with the connection kept), so its answer counts as lost and is found again by lease.

use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

use super::claim::{self, Claim, Standing, Terms};
use super::progress::{self, BlockState, Durability, Outcome};
use super::{Acknowledged, Group, Groups, secs};
use crate::dead_letter::DeadLetter;

/// First key of every liveness lock; the second is the owner's number.
pub(super) const LOCK_CLASS: i32 = 0x000A_1E57;

/// How others notice that a consumer died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// By an advisory lock that ends with the connection: within seconds.
    #[default]
    Lock,
    /// By the lease alone; for connections through a transaction pooler.
    LeasesOnly,
}

/// The times of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionTimes {
    /// How long a claim holds without renewal.
    pub lease: Duration,
    /// How long one attempt to connect may take.
    pub connect: Duration,
}

impl Default for SessionTimes {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            connect: Duration::from_secs(5),
        }
    }
}

/// One consumer's session in one group.
#[derive(Debug)]
pub struct Session {
    conn: PgConnection,
    options: PgConnectOptions,
    group: i64,
    owner: i32,
    liveness: Liveness,
    times: SessionTimes,
    /// Nothing was free below this place at the last look from the start, and when that was.
    floor: i64,
    looked: Instant,
}

/// How long blocks that were given back below the floor may go unseen by a consumer that finds others.
const FLOOR_HOLDS: Duration = Duration::from_millis(250);

/// A plan is kept for the session's life, so it must not be one that suits the few blocks of the group's first moment.
const SETTINGS: &str = "
    SELECT set_config('synchronous_commit', 'off', false), set_config('statement_timeout', '60s', false),
      set_config('idle_in_transaction_session_timeout', '10s', false), set_config('lock_timeout', '20s', false),
      set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
      set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '20000', false),
      set_config('jit', 'off', false), set_config('enable_seqscan', 'off', false),
      set_config('enable_bitmapscan', 'off', false)";
const JOIN: &str = "
    INSERT INTO consumer (group_id, host, pid, locks) SELECT group_id, $2, $3, $4 FROM consumer_group
    WHERE group_id = $1 RETURNING id";
const LOCK: &str = "SELECT pg_try_advisory_lock($1, $2)";
const RESTAMP: &str = "
    UPDATE claim_block SET owner = $1, lease_until = clock_timestamp() + make_interval(secs => $3)
    WHERE group_id = $4 AND lease = ANY($2) AND state = 1 RETURNING lease";
const LEAVE: &str = "DELETE FROM consumer WHERE id = $1";
const MARK: &str = "UPDATE consumer SET last_seen_at = now() WHERE id = $1";

impl Groups {
    /// Opens a consumer's session: connects, joins the members, takes the liveness lock.
    ///
    /// # Errors
    /// The database's; `RowNotFound` when the group was deleted.
    ///
    /// # Cancel safety
    /// Dropping it ends the connection; a member's row may stay until it is swept.
    pub async fn session(&self, group: &Group, liveness: Liveness, times: SessionTimes) -> sqlx::Result<Session> {
        let options = (*self.pool.connect_options())
            .clone()
            .application_name(&format!("alertstream {}", group.name));
        let conn = connect(&options, times).await?;
        let mut session = Session {
            conn,
            options,
            group: group.id,
            owner: 0,
            liveness,
            times,
            floor: 0,
            looked: Instant::now(),
        };
        session.enter().await?;
        Ok(session)
    }
}

async fn connect(options: &PgConnectOptions, times: SessionTimes) -> sqlx::Result<PgConnection> {
    let attempt = async {
        let mut conn = options.connect().await?;
        sqlx::query(SETTINGS).execute(&mut conn).await?;
        Ok(conn)
    };
    tokio::time::timeout(times.connect, attempt)
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

impl Session {
    /// Gives the number that claimed blocks carry, and the member's id.
    pub fn owner(&self) -> i32 {
        self.owner
    }

    /// Takes a fresh owner number and its lock.
    async fn enter(&mut self) -> sqlx::Result<()> {
        loop {
            self.owner = sqlx::query_scalar(JOIN)
                .bind(self.group)
                .bind(host())
                .bind(i32::try_from(std::process::id()).unwrap_or(0))
                .bind(self.liveness == Liveness::Lock)
                .fetch_one(&mut self.conn)
                .await?;
            if self.liveness == Liveness::LeasesOnly {
                return Ok(());
            }
            let granted: bool = sqlx::query_scalar(LOCK)
                .bind(LOCK_CLASS)
                .bind(self.owner)
                .fetch_one(&mut self.conn)
                .await?;
            if granted {
                return Ok(());
            }
            // The number came round and a session of long ago still holds it: take another.
            sqlx::query(LEAVE).bind(self.owner).execute(&mut self.conn).await?;
        }
    }

    /// Connects anew and stamps the blocks of `mine`; gives those that are still ours.
    ///
    /// # Errors
    /// The database's: try again later. `RowNotFound` when the group was deleted.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn reconnect(&mut self, mine: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
        let former = self.owner;
        self.conn = connect(&self.options, self.times).await?;
        self.floor = 0;
        self.enter().await?;
        let kept = sqlx::query_scalar(RESTAMP)
            .bind(self.owner)
            .bind(mine)
            .bind(secs(self.times.lease))
            .bind(self.group)
            .fetch_all(&mut self.conn)
            .await?;
        sqlx::query(LEAVE).bind(former).execute(&mut self.conn).await?;
        Ok(kept)
    }

    /// Claims the next free block under the fence `lease`; `None` when there is none.
    ///
    /// # Errors
    /// The database's; after a lost connection, reconnect and look with [`Session::find`] first.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn claim(&mut self, lease: Uuid) -> sqlx::Result<Option<Claim>> {
        let limit = self.times.lease;
        let terms = self.terms();
        let mut claimed = bounded(limit, claim::claim(&mut self.conn, terms, lease)).await?;
        if claimed.is_none() && terms.floor > 0 {
            self.floor = 0;
            let terms = self.terms();
            claimed = bounded(limit, claim::claim(&mut self.conn, terms, lease)).await?;
        }
        self.raise_floor(claimed.as_ref());
        Ok(claimed)
    }

    /// Finds the claim made under `lease`, if it was made.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn find(&mut self, lease: Uuid) -> sqlx::Result<Option<Claim>> {
        bounded(self.times.lease, claim::find(&mut self.conn, self.group, lease)).await
    }

    /// Stores the state of one block, with the dead letters it passes. `want` and the answer: see [`Outcome`].
    ///
    /// # Errors
    /// The database's. Repeating the call after a lost answer is harmless.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn commit(
        &mut self,
        block: &BlockState,
        want: Outcome,
        letters: &[DeadLetter],
        durability: Durability,
    ) -> sqlx::Result<Outcome> {
        let terms = (self.group, secs(self.times.lease));
        let work = progress::commit(&mut self.conn, terms, block, want, letters, durability);
        let outcome = bounded(self.times.lease, work).await?;
        if outcome == Outcome::Lost {
            // Perhaps by a rewind: then everything is to be seen again, in order.
            self.floor = 0;
        }
        Ok(outcome)
    }

    /// Acknowledges a block and claims the next one in the same statement.
    ///
    /// # Errors
    /// The database's. After a lost answer, acknowledge again, and look for the claim with [`Session::find`].
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn acknowledge_and_claim(
        &mut self,
        block: &BlockState,
        lease: Uuid,
    ) -> sqlx::Result<(Acknowledged, Option<Claim>)> {
        let (limit, terms) = (self.times.lease, self.terms());
        let (done, mut claimed) =
            bounded(limit, claim::acknowledge_and_claim(&mut self.conn, terms, block, lease)).await?;
        if done == Acknowledged::Late {
            self.floor = 0;
        }
        if claimed.is_none() && terms.floor > 0 {
            self.floor = 0;
            let terms = self.terms();
            claimed = bounded(limit, claim::claim(&mut self.conn, terms, lease)).await?;
        }
        self.raise_floor(claimed.as_ref().filter(|_| done == Acknowledged::Done));
        Ok((done, claimed))
    }

    /// Renews the leases of the held blocks `(id, lease)`; gives the leases that are still ours.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn renew(&mut self, held: &[(i64, Uuid)]) -> sqlx::Result<Vec<Uuid>> {
        let terms = (self.group, secs(self.times.lease));
        let kept = bounded(self.times.lease, progress::renew(&mut self.conn, terms, held)).await?;
        if kept.len() < held.len() {
            self.floor = 0;
        }
        Ok(kept)
    }

    /// Tells how the group stands.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn standing(&mut self) -> sqlx::Result<Standing> {
        bounded(self.times.lease, claim::standing(&mut self.conn, self.group)).await
    }

    /// Makes every earlier commit durable: writes a row and waits until it is on disk.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn make_durable(&mut self) -> sqlx::Result<()> {
        self.synchronously(MARK).await
    }

    /// Leaves the members, which makes every earlier commit durable, and ends the connection.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn leave(mut self) -> sqlx::Result<()> {
        self.synchronously(LEAVE).await?;
        self.conn.close().await
    }

    async fn synchronously(&mut self, statement: &'static str) -> sqlx::Result<()> {
        let (conn, owner) = (&mut self.conn, self.owner);
        let work = async move {
            let mut tx = conn.begin().await?;
            sqlx::query("SET LOCAL synchronous_commit = on")
                .execute(&mut *tx)
                .await?;
            sqlx::query(statement).bind(owner).execute(&mut *tx).await?;
            tx.commit().await
        };
        bounded(self.times.lease, work).await
    }

    /// The next look begins where this one found a block: what is done leaves dead entries in the index, and walking
    /// over them would make a claim dearer the more is done. Now and then it begins at the start, so that blocks given
    /// back are seen.
    fn raise_floor(&mut self, claimed: Option<&Claim>) {
        self.floor = claimed.map_or(0, |claim| claim.block_seq);
    }

    fn terms(&mut self) -> Terms {
        if self.floor == 0 || self.looked.elapsed() >= FLOOR_HOLDS {
            (self.floor, self.looked) = (0, Instant::now());
        }
        Terms {
            group: self.group,
            owner: self.owner,
            lease_secs: secs(self.times.lease),
            floor: self.floor,
        }
    }
}

/// A statement that takes longer than the lease is worthless. The caller reconnects on any error, so a connection on
/// which a future was dropped half-way is never used again.
async fn bounded<T>(limit: Duration, statement: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    tokio::time::timeout(limit, statement)
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

fn timed_out() -> sqlx::Error {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time").into()
}

fn host() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
