//! The main job at full size: a simulated night, archived, then re-run by 1, 2, 5 and 16 `run` processes, once left
//! alone (each alert comes out exactly once) and once killed at random and started again until the group is exhausted
//! (each alert comes out, and none is a dead letter). Exits 1 where that is not so.
//!
//! `cargo bench --bench soak`; the number of alerts is `ALERTSTREAM_BENCH_ALERTS` (default 100000: about 8 GB of
//! packets, and twice that with the archive), the seed of the kills `ALERTSTREAM_BENCH_SEED`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use alertstream::archive::groups::{GroupState, GroupStatus, Groups};
use alertstream::archive::{Archive, ArchiveOptions};
use alertstream::cli::embedded::postgres::PrivatePostgres;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What came out of the sinks of one group's runs.
#[derive(Default)]
struct Came {
    lines: usize,
    torn: usize,
    distinct: HashSet<i64>,
}

impl Came {
    fn read(&mut self, path: &Path) {
        let Ok(file) = File::open(path) else {
            return;
        };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            let id = serde_json::from_str::<serde_json::Value>(&line)
                .ok()
                .and_then(|line| line["alert_id"].as_i64());
            match id {
                Some(id) => {
                    self.lines += 1;
                    self.distinct.insert(id);
                }
                None => self.torn += 1,
            }
        }
    }
}

/// Everything the runs of this benchmark share.
struct Soak {
    url: String,
    folder: PathBuf,
    groups: Groups,
    alerts: usize,
    lost: bool,
}

impl Soak {
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_alertstream"));
        command
            .args(["--quiet", "--database-url", &self.url])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Runs a step to its end and says how long it took.
    fn step(&self, what: &str, arguments: &[&str]) {
        let start = Instant::now();
        let status = self.command().args(arguments).status().expect("the program starts");
        assert!(status.success(), "{what}: {status}");
        println!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    }

    fn sink(&self, group: &str, place: usize) -> PathBuf {
        self.folder.join(format!("{group}-{place}.ndjson"))
    }

    fn start(&self, group: &str, place: usize) -> Child {
        self.command()
            .args([
                "run",
                "--group",
                group,
                "--all",
                "--block-size",
                "500",
                "--workers",
                "2",
            ])
            .arg("--sink-path")
            .arg(self.sink(group, place))
            .spawn()
            .expect("the program starts")
    }

    async fn status(&self, group: &str) -> Option<GroupStatus> {
        self.groups.show(group).await.ok()
    }

    /// Re-runs the night by `processes`; `random` chooses who is killed, and when.
    async fn replay(&mut self, processes: usize, mut random: Option<StdRng>) {
        let kind = if random.is_some() { "killed" } else { "alone" };
        let group = format!("{kind}-{processes}");
        let start = Instant::now();
        let mut running: Vec<Child> = (0..processes).map(|place| self.start(&group, place)).collect();
        let mut kills = 0;
        let end = loop {
            match self.status(&group).await {
                Some(status) if status.state == GroupState::Exhausted => break status,
                _ => {}
            }
            let wait = random.as_mut().map_or(100, |random| random.random_range(100..900));
            tokio::time::sleep(Duration::from_millis(wait)).await;
            let Some(random) = &mut random else {
                continue;
            };
            let victim = random.random_range(0..processes);
            if running[victim].try_wait().expect("its state").is_none() {
                running[victim].kill().expect("a signal");
                kills += 1;
            }
            running[victim].wait().expect("its end");
            running[victim] = self.start(&group, victim);
        };
        let seconds = start.elapsed().as_secs_f64();
        for child in &mut running {
            child.wait().expect("its end");
        }
        let mut came = Came::default();
        for place in 0..processes {
            came.read(&self.sink(&group, place));
        }
        let complete = came.distinct.len() == self.alerts
            && end.alerts.dead == 0
            && came.torn <= kills
            && (kills > 0 || came.lines == self.alerts);
        self.lost |= !complete;
        println!(
            "{processes:>2} processes, {kills:>3} kills: {} lines, {} of {} alerts, {} torn lines, {} dead letters, {seconds:.1} s: {}",
            came.lines,
            came.distinct.len(),
            self.alerts,
            came.torn,
            end.alerts.dead,
            if complete { "complete" } else { "MISSED" }
        );
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

#[tokio::main]
async fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("a benchmark: run it by `cargo bench --bench soak`");
        return;
    }
    let alerts = number("ALERTSTREAM_BENCH_ALERTS", 100_000) as usize;
    let seed = number("ALERTSTREAM_BENCH_SEED", 20_260_314);
    let scratch = tempfile::tempdir().expect("a folder");
    let server = PrivatePostgres::start().await.expect("a private Postgres");
    let archive = Archive::connect(server.url(), &ArchiveOptions::default())
        .await
        .expect("it");
    archive.migrate().await.expect("its tables");
    let mut soak = Soak {
        url: server.url().to_owned(),
        folder: scratch.path().to_owned(),
        groups: Groups::new(&archive),
        alerts,
        lost: false,
    };
    let night = scratch.path().join("night");
    let packets = night.to_str().expect("text").to_owned();
    soak.step(
        &format!("simulate {alerts} alerts"),
        &[
            "simulate",
            "--night",
            "2026-03-14",
            "--alerts",
            &alerts.to_string(),
            "--to",
            &packets,
        ],
    );
    soak.step("ingest them", &["ingest", &packets]);
    std::fs::remove_dir_all(&night).expect("the folder goes");
    for processes in [1, 2, 5, 16] {
        soak.replay(processes, None).await;
        soak.replay(processes, Some(StdRng::seed_from_u64(seed + processes as u64)))
            .await;
    }
    let lost = soak.lost;
    drop(soak);
    drop(archive);
    server.stop().await;
    drop(scratch);
    if lost {
        std::process::exit(1);
    }
}
