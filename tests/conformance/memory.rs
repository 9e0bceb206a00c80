//! The suite on the memory source, on a paused clock.

use std::sync::Arc;

use alertstream::dead_letter::MemoryStore;
use alertstream::record::RawAlert;
use alertstream::source::Source;
use alertstream::source::memory::{MemorySource, MemoryTopic};
use alertstream::stream::StreamConfig;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::backend::{Backend, Kind, Spec, Topic, Works};

suite!(tokio::test(start_paused = true), start);

async fn start() -> Result<Memory, String> {
    Ok(Memory)
}

struct Memory;

impl Backend for Memory {
    fn kind(&self) -> Kind {
        Kind::Memory
    }

    fn topic(&self, spec: Spec) -> BoxFuture<'_, Arc<dyn Topic>> {
        let topic = MemoryTopic::new(u32::try_from(spec.lanes).unwrap());
        let alert = |n: usize| Bytes::from(format!("{n:08}{}", "x".repeat(spec.bytes)));
        let payloads: Vec<Bytes> = (0..spec.alerts).map(alert).collect();
        for (lane, payload) in (0..).zip(&payloads) {
            topic.push(lane, RawAlert::from_bytes(payload.clone()));
        }
        topic.seal();
        let topic: Arc<dyn Topic> = Arc::new(Shared {
            topic,
            payloads,
            store: MemoryStore::new(),
        });
        ready(topic).boxed()
    }
}

struct Shared {
    topic: MemoryTopic,
    payloads: Vec<Bytes>,
    store: MemoryStore,
}

impl Topic for Shared {
    fn payloads(&self) -> Vec<Bytes> {
        self.payloads.clone()
    }

    fn consumer(&self) -> BoxFuture<'_, Box<dyn Source>> {
        let source: Box<dyn Source> = Box::new(MemorySource::new("suite", &self.topic, "suite"));
        ready(source).boxed()
    }

    fn config(&self) -> StreamConfig {
        StreamConfig {
            dead_letters: Arc::new(self.store.clone()),
            ..StreamConfig::default()
        }
    }

    fn dead_letters(&self) -> BoxFuture<'_, Vec<(Bytes, String)>> {
        let letters = self.store.letters();
        ready(
            letters
                .into_iter()
                .map(|letter| (letter.raw.payload, letter.why.reason.into_owned()))
                .collect(),
        )
        .boxed()
    }

    fn store_works(&self, works: Works) {
        match works {
            Works::Yes => self.store.come_up(),
            Works::No => self.store.go_down(),
        }
    }

    fn push(&self, payload: Bytes) -> BoxFuture<'_, ()> {
        self.topic.push(0, RawAlert::from_bytes(payload));
        ready(()).boxed()
    }
}
