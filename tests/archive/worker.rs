//! A consumer as a process of its own, so that it can be killed and frozen: this test binary, started again.
//!
//! It appends one line per alert to a file, in one write, and acknowledges after it; what it is told stands in the
//! environment.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alertstream::archive::groups::{BuildStep, Groups};
use alertstream::archive::{Archive, ArchiveOptions};
use alertstream::record::SourceId;
use alertstream::source::archive::{ArchiveConfig, ArchiveSource};
use alertstream::stream::{StreamConfig, open};
use futures::StreamExt;

use crate::source::{number, quick};

const MARK: &str = "ALERTSTREAM_TEST_WORKER";

/// What a worker is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Time spent on each alert.
    pub(crate) pause: Duration,
    /// Time spent on one alert: (number, time).
    pub(crate) long_pause: Option<(i64, Duration)>,
    /// The alert whose handling ends the process.
    pub(crate) dies_of: Option<i64>,
    /// Build only, this long between two steps.
    pub(crate) builds: Option<Duration>,
}

/// A running worker; killed when dropped.
pub(crate) struct Worker {
    child: Child,
}

impl Worker {
    pub(crate) fn start(url: &str, sink: &Path, told: &Told) -> Self {
        let millis = |span: Duration| span.as_millis().to_string();
        let (slow, slow_for) = told.long_pause.map_or((0, Duration::ZERO), |slow| slow);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::runs_only_when_told", "--nocapture"])
            .env(MARK, url)
            .env("WORKER_SINK", sink)
            .env("WORKER_PAUSE", millis(told.pause))
            .env("WORKER_SLOW", slow.to_string())
            .env("WORKER_SLOW_FOR", millis(slow_for))
            .env("WORKER_DIES_OF", told.dies_of.unwrap_or(0).to_string())
            .env("WORKER_BUILDS", told.builds.map_or_else(String::new, millis))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().unwrap();
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([format!("-{name}"), self.pid().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Says whether it ended, and how.
    pub(crate) fn ended(&mut self) -> Option<bool> {
        self.child.try_wait().unwrap().map(|status| status.success())
    }

    /// Waits for its end; tells whether it ended well.
    pub(crate) fn wait(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A file that workers append to.
pub(crate) struct Sink {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Sink {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            path: folder.path().join("sink"),
            _folder: folder,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How often each alert is in it. A torn last line, of which no alert depends, is left out.
    pub(crate) fn counts(&self) -> BTreeMap<i64, usize> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            *counts.entry(line.parse().unwrap()).or_default() += 1;
        }
        counts
    }
}

/// The worker's own main, in the clothes of a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_only_when_told() {
    let Ok(url) = std::env::var(MARK) else { return };
    let archive = Archive::connect(&url, &ArchiveOptions::default()).await.unwrap();
    match std::env::var("WORKER_BUILDS").unwrap().parse() {
        Ok(pause) => build(&archive, Duration::from_millis(pause)).await,
        Err(_) => consume(archive).await,
    }
}

async fn build(archive: &Archive, pause: Duration) {
    let groups = Groups::new(archive);
    let group = groups.open("g").await.unwrap();
    while groups.build_step(&group).await.unwrap() != BuildStep::Built {
        tokio::time::sleep(pause).await;
    }
}

async fn consume(archive: Archive) {
    let told = |name: &str| std::env::var(name).unwrap().parse::<i64>().unwrap();
    let (pause, slow, slow_for) = (told("WORKER_PAUSE"), told("WORKER_SLOW"), told("WORKER_SLOW_FOR"));
    let dies_of = told("WORKER_DIES_OF");
    let sink = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(std::env::var("WORKER_SINK").unwrap());
    let mut sink = sink.unwrap();
    let group = Groups::new(&archive).open("g").await.unwrap();
    let cfg = ArchiveConfig { ..quick() };
    let source = ArchiveSource::new(SourceId::new("archive"), archive, group, cfg);
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    while let Some(delivery) = alerts.next().await {
        let delivery = delivery.unwrap();
        let number = number(&delivery);
        let millis = if number == slow { slow_for } else { pause };
        tokio::time::sleep(Duration::from_millis(millis.unsigned_abs())).await;
        if number == dies_of {
            std::process::abort();
        }
        sink.write_all(format!("{number}\n").as_bytes()).unwrap();
        delivery.ack();
    }
    control.shutdown(Duration::from_secs(10)).await.unwrap();
}
