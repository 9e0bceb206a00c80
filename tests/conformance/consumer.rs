//! A consumer in a case: a stream with its control, and patience instead of sleeps.

use std::time::Duration;

use alertstream::delivery::Delivery;
use alertstream::record::RawAlert;
use alertstream::source::SourceError;
use alertstream::stream::{AlertStream, StreamConfig, StreamControl, StreamStats, open};
use bytes::Bytes;
use futures::StreamExt;

use crate::backend::Topic;

pub(crate) struct Consumer<'a> {
    topic: &'a dyn Topic,
    pub(crate) alerts: AlertStream,
    pub(crate) control: StreamControl,
}

impl<'a> Consumer<'a> {
    pub(crate) async fn join(topic: &'a dyn Topic) -> Consumer<'a> {
        Self::join_with(topic, topic.config()).await
    }

    pub(crate) async fn join_with(topic: &'a dyn Topic, cfg: StreamConfig) -> Consumer<'a> {
        let (alerts, control) = open(topic.consumer().await, cfg);
        Self { topic, alerts, control }
    }

    /// The next item, or `None` at the end.
    pub(crate) async fn item(&mut self) -> Option<Result<Delivery<RawAlert>, SourceError>> {
        let next = tokio::time::timeout(self.topic.patience(), self.alerts.next());
        next.await
            .expect("an alert, or the end of the stream, within the backend's patience")
    }

    pub(crate) async fn next(&mut self) -> Delivery<RawAlert> {
        self.item()
            .await
            .expect("one more alert")
            .expect("no failure of the source")
    }

    pub(crate) async fn take(&mut self, n: usize) -> Vec<Delivery<RawAlert>> {
        let mut taken = Vec::new();
        while taken.len() < n {
            taken.push(self.next().await);
        }
        taken
    }

    /// Takes and acknowledges `n` alerts; gives their payloads.
    pub(crate) async fn ack(&mut self, n: usize) -> Vec<Bytes> {
        let mut payloads = Vec::new();
        while payloads.len() < n {
            payloads.push(ack(self.next().await));
        }
        payloads
    }

    /// Takes and acknowledges everything until the end; gives the payloads.
    pub(crate) async fn rest(&mut self) -> Vec<Bytes> {
        let mut payloads = Vec::new();
        while let Some(delivery) = self.item().await {
            payloads.push(ack(delivery.expect("no failure of the source")));
        }
        payloads
    }

    /// Whether nothing comes although the stream is given every occasion.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(400), self.alerts.next())
            .await
            .is_err()
    }

    pub(crate) async fn flush(&self) {
        self.control
            .flush(self.topic.patience())
            .await
            .expect("what is settled is durable");
    }

    pub(crate) async fn shutdown(self) -> StreamStats {
        drop(self.alerts);
        self.control
            .shutdown(Duration::from_secs(20))
            .await
            .expect("the last commit is confirmed")
    }

    pub(crate) async fn kill(self) {
        let dead = self.topic.kill(self.control);
        dead.await;
        drop(self.alerts);
    }
}

pub(crate) fn ack(delivery: Delivery<RawAlert>) -> Bytes {
    let payload = delivery.raw().payload.clone();
    delivery.ack();
    payload
}

pub(crate) fn sorted(mut payloads: Vec<Bytes>) -> Vec<Bytes> {
    payloads.sort();
    payloads
}
