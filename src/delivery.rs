//! A delivery: an alert together with the duty to settle it.
//!
//! Invariants: exactly one settlement per delivery; drop is release; the payload is shared, never copied. Must not
//! know of queues, handlers or backends.

use std::borrow::Cow;
use std::fmt;

use tracing::Span;

use crate::ack::{AckToken, Rejection, Settlement};
use crate::record::{KafkaOrigin, Position, RawAlert, SourceId};

/// Where a delivery came from and how often it was given.
#[derive(Clone, Debug)]
pub struct Meta {
    /// The source.
    pub source: SourceId,
    /// The position.
    pub position: Position,
    /// 1 + the earlier deliveries in this epoch.
    pub attempt: u32,
    /// The span `alert{source, lane, seq, attempt}`, at debug level: whatever works on the alert works inside it.
    pub span: Span,
}

impl Meta {
    /// Makes the description of a delivery, with its span.
    pub fn new(source: SourceId, position: Position, attempt: u32) -> Self {
        let span = tracing::debug_span!(
            "alert", source = %source, lane = %position.lane, seq = position.seq, attempt
        );
        Self {
            source,
            position,
            attempt,
            span,
        }
    }
}

/// An alert (or what was made of it) and its token.
///
/// The pool settles for its handlers; whoever reads an `AlertStream` directly settles each delivery himself, by
/// [`ack`](Delivery::ack), [`release`](Delivery::release) or [`reject`](Delivery::reject). Silence means "not done".
#[must_use = "dropping a delivery releases it"]
pub struct Delivery<T> {
    body: Body<T>,
    meta: Meta,
    token: AckToken,
}

/// What a delivery carries: something made of the alert, or a view of the alert itself, which the token holds.
enum Body<T> {
    Made(T),
    Raw {
        see: fn(&RawAlert) -> &T,
        take: fn(&RawAlert) -> T,
    },
}

impl Delivery<RawAlert> {
    /// Makes a delivery of the token's alert; for intakes.
    pub fn new(meta: Meta, token: AckToken) -> Self {
        Self {
            body: Body::Raw {
                see: |raw| raw,
                take: RawAlert::clone,
            },
            meta,
            token,
        }
    }
}

impl<T> Delivery<T> {
    /// Gives the body.
    pub fn get(&self) -> &T {
        match &self.body {
            Body::Made(body) => body,
            Body::Raw { see, .. } => see(self.token.raw()),
        }
    }

    /// Gives the raw alert.
    pub fn raw(&self) -> &RawAlert {
        self.token.raw()
    }

    /// Gives the position.
    pub fn position(&self) -> &Position {
        &self.meta.position
    }

    /// Gives the source's name.
    pub fn source(&self) -> &SourceId {
        &self.meta.source
    }

    /// Says whether settling it would still count: not after its lane was lost, or the lease on it ran out.
    pub fn is_open(&self) -> bool {
        self.token.is_open()
    }

    /// Says that it waits for something from outside (a schema): until it is taken up or settled, its lane brings
    /// nothing more, and its bytes do not keep other lanes from going on.
    pub fn set_aside(&self) {
        self.token.set_aside();
    }

    /// Says that it goes on, after [`set_aside`](Self::set_aside).
    pub fn take_up(&self) {
        self.token.take_up();
    }

    /// Gives the delivery's number in this epoch, from 1.
    pub fn attempt(&self) -> u32 {
        self.meta.attempt
    }

    /// Gives where the packet came from on Kafka, now or when it was archived.
    pub fn origin(&self) -> Option<&KafkaOrigin> {
        self.raw().origin.as_ref()
    }

    /// Gives source, position, attempt and span.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Makes something else of the body.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Delivery<U> {
        let body = match self.body {
            Body::Made(body) => body,
            Body::Raw { take, .. } => take(self.token.raw()),
        };
        Delivery {
            body: Body::Made(f(body)),
            meta: self.meta,
            token: self.token,
        }
    }

    /// Makes something else of the body, or gives the delivery back with the error.
    ///
    /// # Errors
    /// What `f` returned, beside the unchanged delivery.
    // The delivery is the point of the error: a caller settles it, it is not passed up.
    #[allow(clippy::result_large_err)]
    pub fn try_map<U, E>(self, f: impl FnOnce(&T) -> Result<U, E>) -> Result<Delivery<U>, (Self, E)> {
        match f(self.get()) {
            Ok(body) => Ok(Delivery {
                body: Body::Made(body),
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
        self.reject_as(Rejection::new("rejected", why.into().into_owned()));
    }

    /// Settles as never to be done, with a full reason.
    pub fn reject_as(self, why: Rejection) {
        self.token.settle(Settlement::Reject(why));
    }
}

/// Shows where the alert stands, not its bytes.
impl<T> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("source", &self.meta.source.as_str())
            .field("position", &format_args!("{}", self.meta.position))
            .field("attempt", &self.meta.attempt)
            .field("bytes", &self.raw().payload.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::ack::Settle;
    use crate::record::Lane;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Settlement>>);

    impl Settle for Heard {
        fn settle(&self, _key: u64, _raw: RawAlert, what: Settlement) {
            self.0.lock().push(what);
        }
    }

    fn delivery(heard: &Arc<Heard>) -> Delivery<RawAlert> {
        let meta = Meta::new(
            SourceId::new("s"),
            Position {
                lane: Lane::Memory(0),
                seq: 4,
            },
            2,
        );
        Delivery::new(meta, AckToken::new(heard.clone(), 1, RawAlert::from_bytes("abc")))
    }

    #[test]
    fn map_shares_the_payload_and_keeps_the_token() {
        let heard = Arc::new(Heard::default());
        let first = delivery(&heard);
        let bytes = first.raw().payload.as_ptr();
        let second = first.map(|raw| raw.payload.len());
        assert_eq!((*second.get(), second.raw().payload.as_ptr()), (3, bytes));
        assert!(heard.0.lock().is_empty());
        second.ack();
        assert_eq!(*heard.0.lock(), [Settlement::Ack]);
    }

    #[test]
    fn a_failed_try_map_gives_the_delivery_back_unsettled() {
        let heard = Arc::new(Heard::default());
        let (back, error) = delivery(&heard).try_map(|_| Err::<(), _>("no")).unwrap_err();
        assert_eq!((error, back.attempt()), ("no", 2));
        assert!(heard.0.lock().is_empty());
        back.reject("because");
        assert_eq!(
            *heard.0.lock(),
            [Settlement::Reject(Rejection::new("rejected", "because"))]
        );
    }

    #[test]
    fn dropping_a_delivery_releases_it() {
        let heard = Arc::new(Heard::default());
        drop(delivery(&heard));
        assert_eq!(*heard.0.lock(), [Settlement::Release]);
    }

    #[test]
    fn debug_shows_the_position_and_no_payload() {
        let text = format!("{:?}", delivery(&Arc::new(Heard::default())));
        assert!(text.contains("memory:0/4") && !text.contains("abc"), "{text}");
    }
}
