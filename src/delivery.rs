//! A delivery: an alert together with the duty to settle it.
//!
//! Invariants: exactly one settlement per delivery; drop is release. Must not know of queues, handlers or backends.

use std::borrow::Cow;

use crate::ack::{AckToken, Rejection, Settlement};
use crate::record::{Position, RawAlert, SourceId};

/// Where a delivery came from and how often it was given.
#[derive(Clone, Debug)]
pub struct Meta {
    /// The source.
    pub source: SourceId,
    /// The position.
    pub position: Position,
    /// 1 + the earlier deliveries in this epoch.
    pub attempt: u32,
}

/// An alert (or what was made of it) and its token.
#[must_use = "dropping a delivery releases it"]
pub struct Delivery<T> {
    body: T,
    raw: RawAlert,
    meta: Meta,
    token: AckToken,
}

impl Delivery<RawAlert> {
    /// Makes a delivery; for intakes.
    pub fn new(raw: RawAlert, meta: Meta, token: AckToken) -> Self {
        Self {
            body: raw.clone(),
            raw,
            meta,
            token,
        }
    }
}

impl<T> Delivery<T> {
    /// Gives the body.
    pub fn get(&self) -> &T {
        &self.body
    }
    /// Gives the raw alert.
    pub fn raw(&self) -> &RawAlert {
        &self.raw
    }
    /// Gives the position.
    pub fn position(&self) -> &Position {
        &self.meta.position
    }
    /// Gives source, position and attempt.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }
    /// Makes something else of the body.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Delivery<U> {
        Delivery {
            body: f(self.body),
            raw: self.raw,
            meta: self.meta,
            token: self.token,
        }
    }
    /// Makes something else of the body, or gives the delivery back with the error.
    ///
    /// # Errors
    /// What `f` returned, beside the unchanged delivery.
    pub fn try_map<U, E>(self, f: impl FnOnce(&T) -> Result<U, E>) -> Result<Delivery<U>, (Self, E)> {
        match f(&self.body) {
            Ok(body) => Ok(Delivery {
                body,
                raw: self.raw,
                meta: self.meta,
                token: self.token,
            }),
            Err(error) => Err((self, error)),
        }
    }
    /// Settles as done.
    pub fn ack(self) {
        self.token.settle(Settlement::Ack);
    }
    /// Settles as not done: it is delivered again.
    pub fn release(self) {
        self.token.settle(Settlement::Release);
    }
    /// Settles as never to be done, with the reason class `rejected`: it becomes a dead letter.
    pub fn reject(self, why: impl Into<Cow<'static, str>>) {
        self.reject_as(Rejection {
            reason: "rejected".into(),
            message: why.into().into_owned(),
            tries: 0,
        });
    }
    /// Settles as never to be done, with a full reason.
    pub fn reject_as(self, why: Rejection) {
        self.token.settle(Settlement::Reject(why));
    }
}
