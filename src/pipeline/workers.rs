//! The workers of a run (to be replaced by the pool).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::ack::Rejection;
use crate::decode::packet::Packet;
use crate::delivery::Delivery;
use crate::error::BoxError;
use crate::processor::{BatchHandler, Context, HandleError, Handler};
use crate::queue::{Deferrals, FairQueue, Ticket};
use crate::record::SourceId;

type Queue = FairQueue<SourceId, Delivery<Packet>>;

/// Workers on a fair queue.
pub struct Workers {
    queue: Queue,
    tasks: Mutex<JoinSet<()>>,
    fault: Arc<Fault>,
}

#[derive(Default)]
struct Fault {
    happened: CancellationToken,
    cause: Mutex<Option<BoxError>>,
}

impl Workers {
    /// Starts workers that handle one alert at a time.
    pub fn each<H: Handler>(handler: Arc<H>, workers: usize) -> Self {
        let this = Self {
            queue: Queue::new(),
            tasks: Mutex::default(),
            fault: Arc::default(),
        };
        for _ in 0..workers {
            let (queue, handler, fault) = (this.queue.clone(), handler.clone(), this.fault.clone());
            this.tasks.lock().spawn(async move {
                while let Ok(ticket) = queue.get().await {
                    let delivery = ticket.complete_with(|delivery| delivery);
                    let result = handler.handle(delivery.get(), &context(&delivery)).await;
                    settle(delivery, result, &fault);
                }
            });
        }
        this
    }

    /// Starts workers that handle up to `most` alerts at a time.
    pub fn batches<H: BatchHandler>(handler: Arc<H>, workers: usize, most: usize) -> Self {
        let this = Self {
            queue: Queue::new(),
            tasks: Mutex::default(),
            fault: Arc::default(),
        };
        for _ in 0..workers {
            let (queue, handler, fault) = (this.queue.clone(), handler.clone(), this.fault.clone());
            this.tasks.lock().spawn(async move {
                while let Ok(tickets) = queue.get_many(most).await {
                    let deliveries: Vec<_> = tickets.into_iter().map(Ticket::complete).collect();
                    let alerts: Vec<Packet> = deliveries.iter().map(|delivery| delivery.get().clone()).collect();
                    let contexts: Vec<Context<'_>> = deliveries.iter().map(context).collect();
                    let results = handler.handle_batch(&alerts, &contexts).await;
                    drop(contexts);
                    for (delivery, result) in deliveries.into_iter().zip(results) {
                        settle(delivery, result, &fault);
                    }
                }
            });
        }
        this
    }

    pub(super) fn entrance(&self) -> impl Fn(Delivery<Packet>) + use<> {
        let queue = self.queue.clone();
        move |delivery| {
            let key = delivery.meta().source.clone();
            drop(queue.try_put(key, delivery));
        }
    }

    pub(super) async fn failed(&self) -> BoxError {
        self.fault.happened.cancelled().await;
        self.fault
            .cause
            .lock()
            .take()
            .unwrap_or_else(|| "the workers failed".into())
    }

    pub(super) async fn drain(&self, within: Duration) {
        drop(self.queue.drain(within, Deferrals::HandBack).await);
        self.queue.close();
        self.tasks.lock().abort_all();
        while let Some(ticket) = self.queue.try_get() {
            drop(ticket);
        }
    }

    pub(super) async fn shutdown(self) -> Option<BoxError> {
        self.queue.close();
        self.tasks.into_inner().shutdown().await;
        self.fault.cause.lock().take()
    }
}

fn context(delivery: &Delivery<Packet>) -> Context<'_> {
    Context {
        source: &delivery.meta().source,
        position: delivery.position(),
        attempt: delivery.meta().attempt,
        try_number: 1,
        origin: delivery.raw().origin.as_deref(),
        reframed: delivery.raw().reframed,
    }
}

fn settle(delivery: Delivery<Packet>, result: Result<(), HandleError>, fault: &Fault) {
    match result {
        Ok(()) => delivery.ack(),
        Err(HandleError::Retry { .. }) => delivery.release(),
        Err(HandleError::Reject { cause }) => {
            delivery.reject_as(Rejection::new("handler", cause.to_string()));
        }
        Err(HandleError::Fatal { cause }) => {
            delivery.release();
            fault.cause.lock().get_or_insert(cause);
            fault.happened.cancel();
        }
    }
}
