//! The processor pool: workers that take packets from the fair queue, call a handler and settle by its result.
//!
//! Owns what a handler is, how often it is tried, and the workers. Invariants: the handler's result alone decides what
//! becomes of an alert; silence (a worker cut off, a queue closed) is a release. Must not know of Kafka or Postgres.
//!
//! A failed try is put off in the queue, with a back-off: the worker is free meanwhile and the source's other alerts go
//! on (those of the same key wait only where the key's limit is 1, which keeps its order). A panic and a try that takes
//! longer than [`ProcessorConfig::time_limit`] are failed tries too. After the last try the alert is rejected with the
//! reason class `handler`, `panic` or `timeout`.
//!
//! ```
//! use alertstream::decode::packet::Packet;
//! use alertstream::processor::{AlertProcessor, Context, HandleError, Handler, ProcessorConfig, QueueConfig};
//!
//! struct Bright;
//!
//! impl Handler for Bright {
//!     async fn handle(&self, alert: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
//!         if alert.header().magnitude.is_some_and(|magnitude| magnitude < 17.0) {
//!             println!("{} {:?}", cx.position, alert.header().object_id);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let queue = QueueConfig::default().build();
//! let pool = AlertProcessor::new(Bright, &ProcessorConfig::default()).start(queue.clone());
//! // ... decoded deliveries are put: queue.put(config.key.key_of(&delivery), delivery.into()).await
//! let stats = pool.shutdown(std::time::Duration::from_secs(10)).await?;
//! assert_eq!(stats.total.open(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod call;
mod config;
mod job;
mod pool;
mod stats;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::decode::packet::Packet;
use crate::error::BoxError;
use crate::queue::{FairQueue, Key};
use crate::record::{KafkaOrigin, Position, SourceId};

use call::Desk;
use stats::Account;

pub use config::{KeyBy, ProcessorConfig, QueueConfig, QueueKey, RetryConfig};
pub use job::Job;
pub use pool::{Pool, PoolError, PoolObserver};
pub use stats::{Counts, PoolStats};

/// What a handler may know about the delivery it works on.
pub struct Context<'a> {
    /// The source's name.
    pub source: &'a SourceId,
    /// Where the alert stands.
    pub position: &'a Position,
    /// The delivery's number in this epoch, from 1.
    pub attempt: u32,
    /// The call's number inside this delivery, from 1.
    pub try_number: u32,
    /// Where the packet came from on Kafka, now or when it was archived.
    pub origin: Option<&'a KafkaOrigin>,
    /// The packet was cut out of a container file of several records.
    pub reframed: bool,
}

/// What a handler says when it did not succeed. `?` on any error means [`HandleError::Retry`].
#[derive(Debug)]
pub enum HandleError {
    /// Try again, after the pool's back-off or after the given time.
    Retry {
        /// Wait this long instead of the pool's back-off.
        after: Option<Duration>,
        /// Why.
        cause: BoxError,
    },
    /// This alert will never work: dead letter.
    Reject {
        /// Why.
        cause: BoxError,
    },
    /// Nothing will work: stop the pool; the alert is not done.
    Fatal {
        /// Why.
        cause: BoxError,
    },
}

impl HandleError {
    /// Try again, after the pool's back-off.
    pub fn retry(cause: impl Into<BoxError>) -> Self {
        Self::Retry {
            after: None,
            cause: cause.into(),
        }
    }

    /// Try again after this time.
    pub fn retry_after(after: Duration, cause: impl Into<BoxError>) -> Self {
        Self::Retry {
            after: Some(after),
            cause: cause.into(),
        }
    }

    /// This alert will never work.
    pub fn reject(cause: impl Into<BoxError>) -> Self {
        Self::Reject { cause: cause.into() }
    }

    /// Nothing will work.
    pub fn fatal(cause: impl Into<BoxError>) -> Self {
        Self::Fatal { cause: cause.into() }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandleError {
    fn from(cause: E) -> Self {
        Self::retry(cause)
    }
}

/// Works on one alert.
pub trait Handler: Send + Sync + 'static {
    /// Works on one alert; its result settles the delivery.
    ///
    /// # Cancel safety
    /// It is dropped half-way when its time limit is over (a failed try) and when the pool is cut off (a release).
    fn handle(&self, alert: &Packet, cx: &Context<'_>) -> impl Future<Output = Result<(), HandleError>> + Send;
}

/// Works on many alerts at once; one result per alert, in order.
///
/// The alerts of a batch that panicked or took too long are tried again one by one, so that only the culprit is
/// rejected in the end.
pub trait BatchHandler: Send + Sync + 'static {
    /// Works on the alerts; the results settle their deliveries one by one. A missing result is a failed try.
    ///
    /// # Cancel safety
    /// As [`Handler::handle`].
    fn handle_batch(
        &self,
        alerts: &[Packet],
        cx: &[Context<'_>],
    ) -> impl Future<Output = Vec<Result<(), HandleError>>> + Send;
}

/// A handler with its settings, ready to start: a [`Pool`] of workers over a fair queue.
pub struct AlertProcessor<B> {
    desk: Desk<B>,
    workers: usize,
    batch_max: usize,
}

impl<H: Handler> AlertProcessor<Each<H>> {
    /// Prepares a handler of single alerts.
    pub fn new(handler: H, config: &ProcessorConfig) -> Self {
        Self {
            batch_max: 1,
            ..AlertProcessor::batching(Each(handler), config)
        }
    }
}

impl<B: BatchHandler> AlertProcessor<B> {
    /// Prepares a handler of batches of up to [`ProcessorConfig::batch_max`] alerts; a batch is what is there, it is
    /// never waited for.
    pub fn batching(handler: B, config: &ProcessorConfig) -> Self {
        let desk = Desk {
            handler,
            retry: config.retry,
            time_limit: config.time_limit,
            account: Account::default(),
        };
        Self {
            desk,
            workers: config.workers,
            batch_max: config.batch_max.max(1),
        }
    }

    /// Starts the workers.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start<K: Key + Send + Sync + 'static>(self, queue: FairQueue<K, Job>) -> Pool<K> {
        Pool::start(queue, self.desk, self.workers, self.batch_max)
    }
}

impl<H: Handler> Handler for Arc<H> {
    async fn handle(&self, alert: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
        H::handle(self, alert, cx).await
    }
}

impl<B: BatchHandler> BatchHandler for Arc<B> {
    async fn handle_batch(&self, alerts: &[Packet], cx: &[Context<'_>]) -> Vec<Result<(), HandleError>> {
        B::handle_batch(self, alerts, cx).await
    }
}

/// A handler of single alerts as one of batches of one.
pub struct Each<H>(H);

impl<H: Handler> BatchHandler for Each<H> {
    async fn handle_batch(&self, alerts: &[Packet], cx: &[Context<'_>]) -> Vec<Result<(), HandleError>> {
        let mut results = Vec::with_capacity(alerts.len());
        for (alert, cx) in alerts.iter().zip(cx) {
            results.push(self.0.handle(alert, cx).await);
        }
        results
    }
}
