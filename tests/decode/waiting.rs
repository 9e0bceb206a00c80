//! A pipeline whose packets name a schema that the registry does not give: a lane waits, nothing is skipped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alertstream::decode::packet::Packet;
use alertstream::pipeline::{Ended, Input, Limits, Pipeline, PipelineError};
use alertstream::processor::{AlertProcessor, Context, HandleError, Handler, ProcessorConfig, QueueConfig};
use alertstream::record::{Lane, RawAlert};
use alertstream::source::memory::{MemorySource, MemoryTopic};
use alertstream::stream::{ByteBudget, StreamConfig};
use tokio_util::sync::CancellationToken;

use crate::generate::{self, Dice};
use crate::registry;
use crate::registry_server::{Registry, packet};

/// Counts the alerts of each lane and says when one was handled.
#[derive(Default)]
struct Seen {
    lanes: Mutex<BTreeMap<u32, u64>>,
    changed: tokio::sync::Notify,
}

impl Seen {
    fn of(&self, lane: u32) -> u64 {
        self.lanes.lock().unwrap().get(&lane).copied().unwrap_or(0)
    }

    async fn until(&self, reached: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            if reached(self) {
                return;
            }
            changed.await;
        }
    }
}

impl Handler for Seen {
    async fn handle(&self, _: &Packet, cx: &Context<'_>) -> Result<(), HandleError> {
        let Lane::Memory(lane) = cx.position.lane else {
            return Err(HandleError::fatal("another lane"));
        };
        *self.lanes.lock().unwrap().entry(lane).or_default() += 1;
        self.changed.notify_one();
        Ok(())
    }
}

/// A topic of three lanes, with the registry, the handler and the stop token of one run.
struct Scene {
    topic: MemoryTopic,
    registry: Registry,
    folder: tempfile::TempDir,
    seen: Arc<Seen>,
    stop: CancellationToken,
}

/// Lane 0: one known packet, one of the unknown schema, 300 known ones. Lanes 1 and 2: 300 known ones each.
const KNOWN: u64 = 300;
/// The budget holds 20 known packets; what waits may take as much again.
const PACKETS_HELD: usize = 20;

impl Scene {
    fn new() -> Self {
        let (topic, registry) = (MemoryTopic::new(3), Registry::start(&[503]));
        let known = known();
        for (lane, count) in [(0, 1), (1, KNOWN), (2, KNOWN)] {
            (0..count).for_each(|_| topic.push(lane, RawAlert::from_bytes(known.clone())));
        }
        topic.push(0, RawAlert::from_bytes(packet(7)));
        (0..KNOWN).for_each(|_| topic.push(0, RawAlert::from_bytes(known.clone())));
        Self {
            topic,
            registry,
            folder: tempfile::tempdir().unwrap(),
            seen: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    fn start(&self, wait_within: Option<Duration>) -> tokio::task::JoinHandle<Ended> {
        let processor = AlertProcessor::new(self.seen.clone(), &ProcessorConfig::default());
        let decoder = registry::decoder(&self.registry.url, self.folder.path());
        let pipeline = Pipeline::start(processor, &QueueConfig::default(), decoder);
        let stream = StreamConfig {
            budget: ByteBudget::new(PACKETS_HELD * known().len()),
            wait_within,
            ..StreamConfig::default()
        };
        let source = Box::new(MemorySource::new("s", &self.topic, "g"));
        let input = Input {
            source,
            stream,
            at_rest: None,
        };
        let stop = self.stop.clone();
        tokio::spawn(async move { pipeline.run(vec![input], &Limits::default(), stop).await })
    }

    /// Waits until everything of the other lanes is done, though the registry is down.
    async fn others_go_on(&self) {
        self.seen.until(|seen| seen.of(1) == KNOWN && seen.of(2) == KNOWN).await;
        assert_eq!(self.seen.of(0), 1, "what stands behind the unknown schema waits");
    }
}

fn known() -> Vec<u8> {
    let schema = serde_json::from_str(include_str!("../../schemas/lsst/v9.0.json")).unwrap();
    generate::confluent(900, &generate::datum(&schema, &mut Dice::new(3), 200))
}

#[tokio::test(start_paused = true)]
async fn a_lane_waits_through_an_outage_the_others_go_on_and_nothing_needs_a_restart() {
    let scene = Scene::new();
    scene.topic.seal();
    let running = scene.start(None);
    scene.others_go_on().await;
    assert!(scene.topic.committed("g")[0] <= 1, "nothing is skipped");
    scene.registry.answer(200);
    let ended = running.await.unwrap();
    assert!(ended.failure.is_none() && !ended.interrupted);
    assert_eq!(scene.seen.of(0), KNOWN + 2);
    assert_eq!(scene.topic.committed("g"), [KNOWN + 2, KNOWN, KNOWN]);
    let stats = ended.sources.values().next().unwrap().stream;
    assert_eq!((stats.acked, stats.redelivered, stats.rejected), (3 * KNOWN + 2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_bounded_read_ends_without_the_alerts_that_wait_and_does_not_commit_them() {
    let scene = Scene::new();
    scene.topic.seal();
    let ended = scene.start(Some(Duration::from_secs(15))).await.unwrap();
    // A script must notice: these alerts were not worked on.
    match ended.failure.as_ref().expect("a failure") {
        PipelineError::SchemasMissing { alerts, schemas, .. } => assert!(*alerts > 0 && schemas.len() == 1),
        other => panic!("{other}"),
    }
    assert!(!ended.interrupted);
    assert_eq!(scene.topic.committed("g"), [1, KNOWN, KNOWN]);
    let stats = ended.sources.values().next().unwrap().stream;
    assert_eq!((stats.acked, stats.rejected), (2 * KNOWN + 1, 0));
    assert!(stats.released > 0 && scene.registry.asked() > 1, "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_signal_ends_a_wait_and_the_next_run_goes_on_where_it_was() {
    let scene = Scene::new();
    let running = scene.start(None);
    scene.others_go_on().await;
    scene.stop.cancel();
    let ended = running.await.unwrap();
    assert!(ended.failure.is_none() && ended.interrupted);
    assert_eq!(scene.topic.committed("g"), [1, KNOWN, KNOWN]);

    scene.registry.answer(200);
    scene.topic.seal();
    let scene = Scene {
        stop: CancellationToken::new(),
        seen: Arc::default(),
        ..scene
    };
    assert!(scene.start(None).await.unwrap().failure.is_none());
    assert_eq!(scene.topic.committed("g"), [KNOWN + 2, KNOWN, KNOWN]);
    assert_eq!([0, 1, 2].map(|lane| scene.seen.of(lane)), [KNOWN + 1, 0, 0]);
}
