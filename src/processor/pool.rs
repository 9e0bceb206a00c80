//! The pool: workers over one queue, their number, and their end.
//!
//! Invariants: a worker holds the tickets of one call at a time; no worker outlives the pool; after a shutdown nothing
//! is in the queue and every delivery is settled. Must not know what a call does.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::error::BoxError;
use crate::queue::{Deferrals, DrainError, FairQueue, Key};

use super::call::Desk;
use super::stats::{Account, PoolStats};
use super::{BatchHandler, Job};

/// How long a worker that was cut off may take to let go of what it held.
const LET_GO_WITHIN: Duration = Duration::from_secs(1);

/// Why a pool ended.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// A handler said that nothing will work.
    #[error("the handler gave up: {cause}")]
    Fatal {
        /// What it said.
        #[source]
        cause: BoxError,
        /// What was done until then.
        stats: PoolStats,
    },
}

/// Workers at work. Dropping it cuts them off: what they held is released.
#[must_use = "dropping a pool stops its workers"]
pub struct Pool<K: Key, T = Job> {
    queue: FairQueue<K, T>,
    crew: Arc<Crew>,
    account: Account,
    tasks: Mutex<JoinSet<()>>,
    /// When it was first asked to come to an end.
    ending_since: OnceLock<Instant>,
    hire: Box<dyn Fn(usize) -> BoxFuture<'static, ()> + Send + Sync>,
}

/// Sees what a pool did so far, also while others own it.
#[derive(Clone)]
pub struct PoolObserver(Account);

impl PoolObserver {
    /// The counts so far.
    pub fn stats(&self) -> PoolStats {
        self.0.stats()
    }
}

/// Who works, and whether they should.
struct Crew {
    /// Numbers of the workers that live; a worker whose number is not below `wanted` ends after its call.
    live: Mutex<BTreeSet<usize>>,
    wanted: watch::Sender<usize>,
    stop: CancellationToken,
    fatal: Mutex<Option<BoxError>>,
    failed: CancellationToken,
}

impl<K> Pool<K, Job>
where
    K: Key + Send + Sync + 'static,
{
    pub(super) fn start<B: BatchHandler>(
        queue: FairQueue<K, Job>,
        desk: Desk<B>,
        workers: usize,
        batch_max: usize,
    ) -> Self {
        let account = desk.account.clone();
        let desk = Arc::new(desk);
        let crew = Arc::new(Crew {
            live: Mutex::new(BTreeSet::new()),
            wanted: watch::Sender::new(0),
            stop: CancellationToken::new(),
            fatal: Mutex::new(None),
            failed: CancellationToken::new(),
        });
        let hire: Box<dyn Fn(usize) -> BoxFuture<'static, ()> + Send + Sync> = {
            let (queue, crew) = (queue.clone(), crew.clone());
            Box::new(move |number| Box::pin(work(number, queue.clone(), crew.clone(), desk.clone(), batch_max)))
        };
        let pool = Self {
            queue,
            crew,
            account,
            tasks: Mutex::new(JoinSet::new()),
            ending_since: OnceLock::new(),
            hire,
        };
        pool.set_workers(workers);
        pool
    }

    /// Changes the number of workers. Those too many end after the call they are in; 0 pauses the pool.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn set_workers(&self, workers: usize) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let mut live = self.crew.live.lock();
        self.crew.wanted.send_replace(workers);
        for number in 0..workers {
            if live.insert(number) {
                tasks.spawn((self.hire)(number));
            }
        }
    }

    /// How many workers there should be.
    pub fn workers(&self) -> usize {
        *self.crew.wanted.borrow()
    }

    /// The counts so far.
    pub fn stats(&self) -> PoolStats {
        self.account.stats()
    }

    /// Gives a way to see the counts that does not keep the pool.
    pub fn observer(&self) -> PoolObserver {
        PoolObserver(self.account.clone())
    }

    /// Resolves when a handler said that nothing will work: workers take nothing more, and
    /// [`shutdown`](Pool::shutdown) gives the cause.
    ///
    /// # Cancel safety
    /// Dropping it only ends the wait.
    pub async fn failed(&self) {
        self.crew.failed.cancelled().await;
    }

    /// Waits until nothing is queued or in progress, at most `within`. Alerts that wait for another try are not waited
    /// for, and none is put off any more: an alert whose try fails meanwhile is released. The pool goes on.
    ///
    /// # Errors
    /// [`DrainError`] with what is left at the deadline.
    ///
    /// # Cancel safety
    /// Dropping it only ends the wait.
    pub async fn drain(&self, within: Duration) -> Result<(), DrainError> {
        self.ending_since.get_or_init(Instant::now);
        // What is handed back (alerts between two tries) is dropped: released.
        self.queue.drain(within, Deferrals::HandBack).await.map(drop)
    }

    /// Ends the pool: workers take nothing more, end their calls within the time or are cut off, and everything that
    /// was not finished (in progress, queued, waiting for another try) is released. The queue is closed.
    ///
    /// # Errors
    /// [`PoolError::Fatal`] if a handler said that nothing will work.
    ///
    /// # Cancel safety
    /// Dropping it cuts the workers off; what they held is released.
    pub async fn shutdown(self, within: Duration) -> Result<PoolStats, PoolError> {
        let since = *self.ending_since.get_or_init(Instant::now);
        self.crew.stop.cancel();
        self.queue.close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        if timeout(within, ended(&mut tasks)).await.is_err() {
            let waited = humantime::format_duration(Duration::from_secs(since.elapsed().as_secs()));
            tracing::warn!(%waited, "handlers did not end in time; their alerts are released");
            tasks.abort_all();
            // A handler that never awaits cannot be cut off; its alert is released when it returns.
            drop(timeout(LET_GO_WITHIN, ended(&mut tasks)).await);
        }
        self.queue.clear_all();
        let stats = self.account.stats();
        match self.crew.fatal.lock().take() {
            Some(cause) => Err(PoolError::Fatal { cause, stats }),
            None => Ok(stats),
        }
    }
}

async fn ended(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// One worker's life.
async fn work<K: Key, B: BatchHandler>(
    number: usize,
    queue: FairQueue<K, Job>,
    crew: Arc<Crew>,
    desk: Arc<Desk<B>>,
    batch_max: usize,
) {
    let mut wanted = crew.wanted.subscribe();
    loop {
        let batch = tokio::select! {
            biased;
            () = crew.stop.cancelled() => return,
            () = dismissed(&mut wanted, number) => None,
            batch = queue.get_many(batch_max) => Some(batch),
        };
        match batch {
            None if crew.leaves(number) => return,
            None => {} // hired again meanwhile
            Some(Ok(batch)) => {
                if let Err(cause) = desk.work(batch).await {
                    return crew.fail(cause);
                }
            }
            Some(Err(_closed)) => return,
        }
    }
}

/// Resolves when the worker is one too many.
async fn dismissed(wanted: &mut watch::Receiver<usize>, number: usize) {
    drop(wanted.wait_for(|wanted| number >= *wanted).await);
}

impl Crew {
    /// Takes a worker out if it is still one too many. Under the lock under which workers are hired, so that a number
    /// is never hired twice nor left without a worker.
    fn leaves(&self, number: usize) -> bool {
        let mut live = self.live.lock();
        let leaves = number >= *self.wanted.borrow();
        if leaves {
            live.remove(&number);
        }
        leaves
    }

    fn fail(&self, cause: BoxError) {
        // The end of the pool gives the first cause; each worker may bring one.
        tracing::debug!(%cause, "a handler gave up; the pool stops");
        self.fatal.lock().get_or_insert(cause);
        self.stop.cancel();
        self.failed.cancel();
    }
}
