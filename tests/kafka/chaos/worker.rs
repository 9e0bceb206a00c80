//! A consumer as a process of its own, so that it can be killed: this test binary, started again.
//!
//! It appends `got TIME PARTITION OFFSET` when it is given an alert, handles alerts side by side for times of their own
//! (so that they complete out of order), appends `done ...` and then acknowledges; `late ...` when that could not count
//! any more. Of the source's own words it appends `assigned TIME PARTITION OFFSET` and `revoked TIME PARTITION HOW`. It
//! ends well when its stdin does.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use alertstream::record::{Lane, Position};
use alertstream::source::kafka::place::Start;
use alertstream::stream::{ByteBudget, StreamConfig, open};
use futures::StreamExt;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::broker::{Broker, SOON, source};

const MARK: &str = "ALERTSTREAM_TEST_KAFKA_WORKER";
/// Alerts of a few bytes are charged 512: so many are in flight at most.
const IN_FLIGHT: usize = 64;

/// A running worker; killed when dropped.
pub(super) struct Worker(Child);

impl Worker {
    pub(super) fn start(bootstrap: &str, topic: &str, group: &str, log: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "chaos::worker::runs_only_when_told", "--nocapture"])
            .env(MARK, bootstrap)
            .env("WORKER_TOPIC", topic)
            .env("WORKER_GROUP", group)
            .env("WORKER_LOG", log)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// SIGKILL, and waits for its end.
    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Lets it end; tells whether it ended well.
    pub(super) fn end(mut self) -> bool {
        drop(self.0.stdin.take());
        self.0.wait().unwrap().success()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Nanoseconds since 1970: what processes of one machine agree on.
pub(super) fn now() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_nanos()
}

/// Appends a line in one write, so that a kill tears none.
fn say(mut log: &File, what: &str, at: &Position) {
    let Lane::Kafka { partition, .. } = at.lane else {
        panic!("a partition, not `{at}`")
    };
    let line = format!("{what} {} {partition} {}\n", now(), at.seq);
    log.write_all(line.as_bytes()).unwrap();
}

/// Writes down which partitions come and go.
struct Owned(Arc<File>);

impl<S: tracing::Subscriber> Layer<S> for Owned {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with("alertstream::source::kafka") {
            return;
        }
        let mut words = Words::default();
        event.record(&mut words);
        // `kafka:TOPIC/PARTITION/OFFSET` and `kafka:TOPIC/PARTITION`.
        let lines: Vec<String> = match words.message.as_str() {
            "assigned" => words
                .from
                .split_whitespace()
                .map(|place| {
                    let (lane, offset) = place.rsplit_once('/').unwrap();
                    let partition = lane.rsplit_once('/').unwrap().1;
                    format!("assigned {} {partition} {offset}\n", now())
                })
                .collect(),
            "revoked" => words
                .lanes
                .split_whitespace()
                .map(|lane| {
                    let partition = lane.rsplit_once('/').unwrap().1;
                    format!("revoked {} {partition} {}\n", now(), words.how.replace(' ', "-"))
                })
                .collect(),
            _ => return,
        };
        (&*self.0).write_all(lines.concat().as_bytes()).unwrap();
    }
}

#[derive(Default)]
struct Words {
    message: String,
    from: String,
    lanes: String,
    how: String,
}

impl Words {
    fn take(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "from" => self.from = text,
            "lanes" => self.lanes = text,
            "how" => self.how = text,
            _ => {}
        }
    }
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_only_when_told() {
    let Ok(bootstrap) = std::env::var(MARK) else { return };
    let told = |name: &str| std::env::var(name).unwrap();
    let log = OpenOptions::new().create(true).append(true).open(told("WORKER_LOG"));
    let log = Arc::new(log.unwrap());
    tracing_subscriber::registry().with(Owned(log.clone())).init();
    let mut config = Broker { bootstrap, mock: None }.config(&[&told("WORKER_TOPIC")]);
    config.start = Start::Earliest;
    let stream = StreamConfig {
        budget: ByteBudget::new(IN_FLIGHT * 512),
        ..StreamConfig::default()
    };
    let (mut alerts, control) = open(Box::new(source(&told("WORKER_GROUP"), config)), stream);
    let over = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::pin!(over);
    loop {
        let delivery = tokio::select! {
            _ = &mut over => break,
            next = alerts.next() => next.expect("no end").expect("no failure"),
        };
        say(&log, "got", delivery.position());
        let log = log.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(rand::random_range(0..60))).await;
            say(&log, "done", delivery.position());
            if !delivery.is_open() {
                say(&log, "late", delivery.position());
            }
            delivery.ack();
        });
    }
    control.shutdown(SOON).await.unwrap();
}
