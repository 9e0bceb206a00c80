//! What stands in the queue for one delivery: the delivery and the tries made on it.
//!
//! Invariant: a job settles its delivery once, and counts that once; a job that is dropped releases it. Must not know of
//! handlers.

use crate::ack::Rejection;
use crate::decode::packet::Packet;
use crate::delivery::Delivery;

use super::stats::{Account, Counts};

/// A delivery in the fair queue. Dropping it releases the delivery.
#[must_use = "dropping a job releases its delivery"]
pub struct Job {
    delivery: Option<Delivery<Packet>>,
    tries: u32,
    /// Its last batch panicked or took too long: it is tried alone, so that only the culprit pays.
    alone: bool,
    account: Option<Account>,
}

impl From<Delivery<Packet>> for Job {
    fn from(delivery: Delivery<Packet>) -> Self {
        Self {
            delivery: Some(delivery),
            tries: 0,
            alone: false,
            account: None,
        }
    }
}

impl Job {
    /// The delivery, until it is settled.
    pub fn delivery(&self) -> Option<&Delivery<Packet>> {
        self.delivery.as_ref()
    }

    /// Says whether working on it would still count: not when its lane was lost while it waited in the queue.
    pub(super) fn is_open(&self) -> bool {
        self.delivery.as_ref().is_some_and(Delivery::is_open)
    }

    /// Failed or running calls of the handler.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    pub(super) fn keep_alone(&mut self) {
        self.alone = true;
    }

    /// Counts one more try; the first one counts the delivery.
    pub(super) fn begin_try(&mut self, account: &Account) {
        self.tries += 1;
        let Some(delivery) = &self.delivery else { return };
        let is_first = self.account.is_none();
        let is_again = delivery.attempt() > 1;
        account.count(delivery.source(), |counts| {
            counts.tries += 1;
            counts.delivered += u64::from(is_first);
            counts.redelivered += u64::from(is_first && is_again);
        });
        self.account.get_or_insert_with(|| account.clone());
    }

    pub(super) fn ack(mut self) {
        self.settle(|counts| counts.acknowledged += 1, Delivery::ack);
    }

    pub(super) fn reject(mut self, why: Rejection) {
        self.settle(|counts| counts.rejected += 1, |delivery| delivery.reject_as(why));
    }

    /// Counted first, so that whoever sees the settlement finds it counted. A settlement that comes too late (the lane
    /// was lost meanwhile) changes nothing for the source, which gives the alert again: it counts as released.
    fn settle(&mut self, count: impl FnOnce(&mut Counts), settle: impl FnOnce(Delivery<Packet>)) {
        if let Some(delivery) = self.delivery.take() {
            if let Some(account) = &self.account {
                if delivery.is_open() {
                    account.count(delivery.source(), count);
                } else {
                    account.count(delivery.source(), |counts| counts.released += 1);
                }
            }
            settle(delivery);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.settle(|counts| counts.released += 1, Delivery::release);
    }
}
