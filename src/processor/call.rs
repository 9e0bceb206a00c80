//! One call of a handler, and what follows from it for each alert.
//!
//! Invariants: each alert of a call is settled, put back, or (when the worker is cut off) released: never two of them,
//! never none. A panic and a time-out are failed tries like an error. Must not know how many workers there are.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tracing::Instrument;

use crate::ack::Rejection;
use crate::decode::packet::Packet;
use crate::error::BoxError;
use crate::queue::{Key, Ticket};

use super::config::RetryConfig;
use super::stats::Account;
use super::{BatchHandler, Context, HandleError, Job};

/// What every worker of a pool works with.
pub(super) struct Desk<B> {
    pub(super) handler: B,
    pub(super) retry: RetryConfig,
    pub(super) time_limit: Option<Duration>,
    pub(super) account: Account,
}

/// A failed try: the reason class and a sentence.
struct Failure {
    reason: &'static str,
    message: String,
    /// Wait this long instead of the back-off.
    after: Option<Duration>,
}

impl<B: BatchHandler> Desk<B> {
    /// Works on a batch: what must be tried alone, alone; the rest in one call. A fatal error is given back; what was
    /// not tried by then is released.
    pub(super) async fn work<K: Key>(&self, batch: Vec<Ticket<K, Job>>) -> Result<(), BoxError> {
        let (alone, together): (Vec<_>, Vec<_>) = batch.into_iter().partition(|job| job.is_alone());
        let alone = alone.into_iter().map(|ticket| vec![ticket]);
        for call in std::iter::once(together).chain(alone).filter(|call| !call.is_empty()) {
            self.call(call).await?;
        }
        Ok(())
    }

    async fn call<K: Key>(&self, mut tickets: Vec<Ticket<K, Job>>) -> Result<(), BoxError> {
        // A block may be lost, or its lease run out, while its alerts wait here: others have them, no handler needs to.
        tickets.retain(|job| job.is_open());
        if tickets.is_empty() {
            return Ok(());
        }
        tickets.iter_mut().for_each(|job| job.begin_try(&self.account));
        let outcome = self.handle(&tickets).await;
        let mut results = match outcome {
            Ok(results) => results.into_iter(),
            Err((reason, message)) => {
                let several = tickets.len() > 1;
                for mut ticket in tickets {
                    if several {
                        ticket.keep_alone();
                    }
                    self.failed(
                        ticket,
                        Failure {
                            reason,
                            message: message.clone(),
                            after: None,
                        },
                    );
                }
                return Ok(());
            }
        };
        let mut fatal = None;
        for ticket in tickets {
            let missing = || {
                Err(HandleError::retry(
                    "the batch handler gave fewer results than it was given alerts",
                ))
            };
            if let Err(cause) = self.settle(ticket, results.next().unwrap_or_else(missing)) {
                fatal.get_or_insert(cause);
            }
        }
        fatal.map_or(Ok(()), Err)
    }

    /// Calls the handler; a panic or a time-out is an error with its reason class and a sentence.
    async fn handle<K: Key>(
        &self,
        tickets: &[Ticket<K, Job>],
    ) -> Result<Vec<Result<(), HandleError>>, (&'static str, String)> {
        let deliveries = || {
            tickets
                .iter()
                .filter_map(|job| job.delivery().map(|delivery| (job.tries(), delivery)))
        };
        let alerts: Vec<Packet> = deliveries().map(|(_, delivery)| delivery.get().clone()).collect();
        let contexts: Vec<Context<'_>> = deliveries()
            .map(|(try_number, delivery)| Context {
                source: delivery.source(),
                position: delivery.position(),
                attempt: delivery.attempt(),
                try_number,
                origin: delivery.origin(),
                reframed: delivery.raw().reframed,
            })
            .collect();
        let span = match deliveries().next() {
            Some((_, delivery)) if tickets.len() == 1 => delivery.meta().span.clone(),
            _ => tracing::debug_span!("batch", alerts = alerts.len()),
        };
        // The call itself is inside the block, so that a panic before the first await is caught too.
        let call = async { self.handler.handle_batch(&alerts, &contexts).await }.instrument(span);
        let call = AssertUnwindSafe(call).catch_unwind();
        let caught = match self.time_limit {
            None => call.await,
            Some(limit) => tokio::time::timeout(limit, call)
                .await
                .map_err(|_| ("timeout", format!("the handler took longer than `{limit:?}`")))?,
        };
        caught.map_err(|panic| ("panic", format!("the handler panicked: {}", panic_text(&*panic))))
    }

    fn settle<K: Key>(&self, ticket: Ticket<K, Job>, result: Result<(), HandleError>) -> Result<(), BoxError> {
        match result {
            Ok(()) => ticket.complete_with(Job::ack),
            Err(HandleError::Retry { after, cause }) => {
                self.failed(
                    ticket,
                    Failure {
                        reason: "handler",
                        message: chain(&*cause),
                        after,
                    },
                );
            }
            Err(HandleError::Reject { cause }) => reject(ticket, "rejected", chain(&*cause)),
            // Dropping the ticket releases the alert: it is not done.
            Err(HandleError::Fatal { cause }) => return Err(cause),
        }
        Ok(())
    }

    /// Puts an alert back for another try, or rejects it after the last one.
    fn failed<K: Key>(&self, ticket: Ticket<K, Job>, failure: Failure) {
        let tries = ticket.tries();
        if tries >= self.retry.tries {
            return reject(ticket, failure.reason, failure.message);
        }
        let wait = failure
            .after
            .unwrap_or_else(|| self.retry.back_off(tries, rand::random()));
        if let Some(delivery) = ticket.delivery() {
            tracing::debug!(
                position = %delivery.position(), tries, ?wait, reason = failure.reason, message = failure.message,
                "try failed"
            );
        }
        // A key that serves one alert at a time keeps its order, so its next alerts wait as well. Where the queue takes
        // nothing back (it is closing), the ticket comes back in the error and is dropped: the alert is released.
        let back = if ticket.is_serial() {
            ticket.requeue_front_after(wait)
        } else {
            ticket.requeue_after(wait)
        };
        drop(back);
    }
}

fn reject<K: Key>(ticket: Ticket<K, Job>, reason: &'static str, message: String) {
    let tries = ticket.tries();
    let why = Rejection {
        reason: reason.into(),
        message,
        tries,
    };
    ticket.complete_with(|job| job.reject(why));
}

/// An error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with something that is no text")
}
