//! The processor pool: workers that take packets from the fair queue, call a handler and settle by its result.

use std::future::Future;
use std::time::Duration;

use crate::decode::packet::Packet;
use crate::error::BoxError;
use crate::record::{KafkaOrigin, Position, SourceId};

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

/// Works on one alert.
pub trait Handler: Send + Sync + 'static {
    /// Works on one alert; its result settles the delivery.
    fn handle(&self, alert: &Packet, cx: &Context<'_>) -> impl Future<Output = Result<(), HandleError>> + Send;
}

/// Works on many alerts at once; one result per alert, in order.
pub trait BatchHandler: Send + Sync + 'static {
    /// Works on the alerts; the results settle their deliveries one by one.
    fn handle_batch(
        &self,
        alerts: &[Packet],
        cx: &[Context<'_>],
    ) -> impl Future<Output = Vec<Result<(), HandleError>>> + Send;
}
