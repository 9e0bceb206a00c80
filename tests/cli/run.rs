//! `run`: what is delivered, written, summed up, and how it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use alertstream::cli::embedded::postgres::PrivatePostgres;
use serde_json::Value;

use crate::common::{TestDb, fixtures};
use crate::support::{Said, command, finish, json_on, keys, on, run, signal, write_packets};

const SUMMARY: [&str; 11] = [
    "acknowledged",
    "delivered",
    "interrupted",
    "redelivered",
    "rejected",
    "released",
    "seconds",
    "selected",
    "sources",
    "tombstones",
    "undefined",
];

/// A database with alerts, and a folder for what runs write.
struct Scene {
    db: TestDb,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn with(alerts: u64) -> Self {
        Self::of(TestDb::new().await, alerts)
    }

    fn of(db: TestDb, alerts: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let packets = folder.path().join("packets");
        on(&db, ["migrate"]).exits(0);
        fs::create_dir(&packets).unwrap();
        write_packets(&packets, 0..alerts);
        on(&db, ["ingest", packets.to_str().unwrap()]).exits(0);
        Self { db, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Starts a run of the group `g` over everything, appending to a file, with a summary on stdout.
    fn start(&self, sink: &str, more: &[&str]) -> Child {
        command()
            .args([
                "run",
                "--group",
                "g",
                "--all",
                "--json",
                "--database-url",
                self.db.url(),
                "--sink-path",
            ])
            .arg(self.path(sink))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self, sink: &str, more: &[&str]) -> Said {
        finish(self.start(sink, more))
    }
}

/// Reads what was written: how often each alert.
fn written(path: &Path) -> BTreeMap<i64, u64> {
    let mut seen = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        if let Ok(line) = serde_json::from_str::<Value>(line) {
            *seen.entry(line["alert_id"].as_i64().unwrap()).or_insert(0) += 1;
        }
    }
    seen
}

fn ids(numbers: std::ops::Range<u64>) -> BTreeSet<i64> {
    numbers.map(|n| fixtures::Ztf::new(n).candid).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_writes_every_alert_once_in_order_and_sums_up() {
    let scene = Scene::with(30).await;
    let said = scene
        .run(
            "out",
            &[
                "--workers",
                "1",
                "--block-size",
                "7",
                "--summary",
                &scene.text("summary"),
            ],
        )
        .exits(0);
    let summary = said.json();
    assert_eq!(keys(&summary), SUMMARY);
    assert_eq!(
        keys(&summary["sources"]["archive"]),
        SUMMARY.iter().filter(|k| **k != "sources").copied().collect::<Vec<_>>()
    );
    for key in ["delivered", "acknowledged", "selected"] {
        assert_eq!(summary[key], 30, "{key}");
        assert_eq!(summary["sources"]["archive"][key], 30, "{key}");
    }
    assert_eq!(
        (&summary["interrupted"], &summary["released"]),
        (&false.into(), &0.into())
    );
    let from_file: Value = serde_json::from_str(&fs::read_to_string(scene.path("summary")).unwrap()).unwrap();
    assert_eq!(from_file, summary);

    let lines: Vec<Value> = fs::read_to_string(scene.path("out"))
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let times: Vec<f64> = lines.iter().map(|line| line["jd"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times.len() == 30);
    let documented = [
        "alert_id",
        "attempt",
        "band",
        "dec",
        "jd",
        "magnitude",
        "object_id",
        "position",
        "programid",
        "ra",
        "source",
        "survey",
    ];
    assert_eq!(keys(&lines[0]), documented);
    assert_eq!(lines[0]["position"], "archive:g/0/0");
    assert_eq!(lines[7]["position"], "archive:g/1/0");
    assert_eq!(
        lines[0]["magnitude"].as_f64().unwrap(),
        f64::from(fixtures::Ztf::new(0).magpsf)
    );

    let again = scene.run("out", &[]).exits(0).json();
    assert_eq!(again["delivered"], 0, "the group is exhausted");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sink_is_stdout_without_a_configuration_and_the_summary_is_on_stderr() {
    let scene = Scene::with(3).await;
    let said = on(&scene.db, ["run", "--group", "g", "--all"]).exits(0);
    assert_eq!(said.lines().len(), 3);
    assert!(
        said.stderr.contains("delivered") && said.stderr.contains("archive"),
        "{}",
        said.stderr
    );
    json_on(&scene.db, ["run", "--group", "g", "--all"]).exits(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_matches_nothing_ends_at_once() {
    let scene = Scene::with(2).await;
    let said = on(&scene.db, ["run", "--group", "none", "--object", "nobody"]).exits(0);
    assert!(said.stdout.is_empty());
    assert_eq!(
        json_on(&scene.db, ["group", "show", "none"]).exits(0).json()["state"],
        "ready"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn max_alerts_delivers_exactly_that_many_and_the_next_run_the_rest() {
    let scene = Scene::with(25).await;
    let first = scene
        .run("out", &["--max-alerts", "10", "--block-size", "4"])
        .exits(0)
        .json();
    assert_eq!((&first["delivered"], &first["acknowledged"]), (&10.into(), &10.into()));
    assert_eq!(written(&scene.path("out")).len(), 10);
    let rest = scene.run("out", &[]).exits(0).json();
    assert_eq!(rest["delivered"], 15);
    let all = written(&scene.path("out"));
    assert!(
        all.keys().copied().eq(ids(0..25)) && all.values().all(|times| *times == 1),
        "{all:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_share_a_group_without_overlap() {
    let scene = Scene::with(200).await;
    let runs = [
        scene.start("a", &["--block-size", "5"]),
        scene.start("b", &["--block-size", "5"]),
    ];
    let delivered: u64 = runs
        .into_iter()
        .map(|run| finish(run).exits(0).json()["delivered"].as_u64().unwrap())
        .sum();
    assert_eq!(delivered, 200);
    let (a, b) = (written(&scene.path("a")), written(&scene.path("b")));
    let both: BTreeSet<i64> = a.keys().chain(b.keys()).copied().collect();
    assert_eq!((a.len() + b.len(), both), (200, ids(0..200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_killed_is_finished_by_the_next_and_loses_nothing() {
    let scene = Scene::with(300).await;
    // Its sink is a pipe: when 50 lines came out of it, it is in the middle.
    let mut killed = command()
        .args([
            "run",
            "--group",
            "g",
            "--all",
            "--block-size",
            "50",
            "--workers",
            "1",
            "--database-url",
            scene.db.url(),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(killed.stdout.take().unwrap()).lines();
    let mut seen: Vec<String> = lines.by_ref().take(50).map(Result::unwrap).collect();
    signal(killed.id(), "KILL");
    killed.wait().unwrap();
    seen.extend(lines.map_while(Result::ok));
    fs::write(scene.path("out"), seen.join("\n")).unwrap();

    let said = scene.run("out", &[]).exits(0).json();
    assert!(
        said["delivered"].as_u64().unwrap() < 300 || seen.len() <= 100,
        "what was committed is not repeated"
    );
    let all = written(&scene.path("out"));
    assert!(all.keys().copied().eq(ids(0..300)), "{} of 300", all.len());
    let group = json_on(&scene.db, ["group", "show", "g"]).exits(0).json();
    assert_eq!(
        (&group["state"], &group["alerts"]["acknowledged"]),
        (&"exhausted".into(), &300.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_run_with_its_work_committed() {
    let scene = Scene::with(300).await;
    for name in ["INT", "TERM"] {
        let group = format!("g-{name}");
        // The reader stops after 20 lines, so the run is in the middle when the signal comes.
        let mut child = command()
            .args([
                "run",
                "--group",
                &group,
                "--all",
                "--workers",
                "1",
                "--summary",
                &scene.text(name),
            ])
            .args(["--database-url", scene.db.url()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..20 {
            lines.next().unwrap().unwrap();
        }
        signal(child.id(), name);
        let rest = lines.map_while(Result::ok).count();
        let said = finish(child).exits(0);
        let summary: Value = serde_json::from_str(&fs::read_to_string(scene.path(name)).unwrap()).unwrap();
        assert!(summary["interrupted"] == true || rest == 280, "{summary} {said:#?}");
        let shown = json_on(&scene.db, ["group", "show", &group]).exits(0).json();
        assert_eq!(
            shown["alerts"]["acknowledged"], summary["acknowledged"],
            "what was done is committed"
        );
        assert_eq!(shown["alerts"]["in_progress"], 0, "the rest was given back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_at_once_with_130() {
    let scene = Scene::with(2000).await;
    // Nobody reads its stdout: once the pipe is full, the run cannot finish what it has begun.
    let mut child = command()
        .args(["run", "--group", "g", "--all", "--database-url", scene.db.url()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_it_waits(&scene).await;
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    signal(child.id(), "INT");
    assert!(said.any(|line| line.unwrap().contains("a second signal ends at once")));
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_cannot_be_confirmed_is_exit_3() {
    let server = PrivatePostgres::start().await.unwrap();
    let db = TestDb::on(server.url()).await;
    let scene = Scene::of(db, 2000);
    // Nobody reads its stdout: it is in the middle of its work when the server goes.
    let mut child = command()
        .args(["run", "--group", "g", "--all", "--database-url", scene.db.url()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    server.stop_immediate().await.unwrap();
    signal(child.id(), "INT");
    // Now what was begun is finished, but cannot be committed.
    lines.for_each(drop);
    let said = finish(child).exits(3);
    assert!(said.stderr.contains("delivered again"), "{}", said.stderr);
    server.restart().await.unwrap();
    let summary = scene.run("out", &[]).exits(0).json();
    assert!(summary["delivered"].as_u64().unwrap() > 0, "{summary}");
}

/// Waits until a run has joined the group.
async fn wait_until_it_waits(scene: &Scene) {
    let pool = scene.db.pool().await;
    loop {
        let joined: i64 = sqlx::query_scalar("SELECT count(*) FROM consumer")
            .fetch_one(&pool)
            .await
            .unwrap();
        if joined > 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn until_idle_ends_a_run_that_waits_for_a_paused_group() {
    let scene = Scene::with(5).await;
    json_on(&scene.db, ["group", "create", "g", "--all"]).exits(0);
    json_on(&scene.db, ["group", "pause", "g"]).exits(0);
    let summary = scene.run("out", &["--until-idle", "0.5"]).exits(0).json();
    assert_eq!(
        (&summary["delivered"], &summary["interrupted"]),
        (&0.into(), &false.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_deleted_under_a_run_is_a_failure_that_says_so() {
    let scene = Scene::with(5).await;
    json_on(&scene.db, ["group", "create", "g", "--all"]).exits(0);
    json_on(&scene.db, ["group", "pause", "g"]).exits(0);
    let child = scene.start("out", &[]);
    wait_until_it_waits(&scene).await;
    json_on(&scene.db, ["group", "delete", "g"]).exits(0);
    let said = finish(child).exits(1);
    assert!(said.stderr.contains("deleted"), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_selects_and_counts_what_it_cannot_decide() {
    let scene = Scene::with(40).await;
    // drb is null in every fourth alert, 0.9 in the others.
    let summary = scene
        .run("out", &["--filter", "drb > 0.5 && candidate.rb >= 0.6"])
        .exits(0)
        .json();
    let expected: BTreeSet<i64> = (0..40)
        .map(fixtures::Ztf::new)
        .filter(|alert| alert.drb.is_some() && alert.rb.is_some_and(|rb| f64::from(rb) >= 0.6))
        .map(|alert| alert.candid)
        .collect();
    assert!(written(&scene.path("out")).keys().copied().eq(expected.iter().copied()));
    assert_eq!(summary["selected"], expected.len());
    assert_eq!(summary["acknowledged"], 40);
    assert!(summary["undefined"].as_u64().unwrap() > 0, "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_over_files_need_no_database_and_a_configuration_names_them() {
    let folder = tempfile::tempdir().unwrap();
    write_packets(folder.path(), 0..4);
    let mut config = tempfile::NamedTempFile::new().unwrap();
    let path = folder.path().display();
    writeln!(
        config,
        "[source.night]\nmode = \"files\"\n[source.night.files]\npaths = [\"{path}\"]"
    )
    .unwrap();
    writeln!(
        config,
        "[sink]\nfields = [\"object_id\", \"candidate.fid\", \"diaSource.snr\"]"
    )
    .unwrap();
    let said = run(["run", "--config", config.path().to_str().unwrap()]).exits(0);
    assert_eq!(said.stdout.lines().count(), 4);
    assert!(
        said.stdout
            .starts_with("{\"object_id\":\"ZTF18test000\",\"candidate.fid\":1,\"diaSource.snr\":null}\n"),
        "{}",
        said.stdout
    );
    let refused = run(["run", "--config", config.path().to_str().unwrap(), "--source", "nigt"]).exits(2);
    assert!(refused.stderr.contains("`night`"), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_bound_to_another_query_and_an_unknown_group_are_failures() {
    let scene = Scene::with(1).await;
    on(&scene.db, ["run", "--group", "nobody"]).exits(1);
    on(&scene.db, ["run", "--group", "g", "--all"]).exits(0);
    let said = on(&scene.db, ["run", "--group", "g", "--programid", "1"]).exits(1);
    assert!(said.stderr.contains("programid"), "{}", said.stderr);
    on(&scene.db, ["run", "--group", "g"]).exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_cannot_be_written_is_a_failure() {
    let scene = Scene::with(1).await;
    let said = scene.run("no/such/folder/out", &[]).exits(1);
    assert_eq!(said.error()["class"], "sink");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_ends_the_run_without_losing_an_alert() {
    let scene = Scene::with(2000).await;
    let mut child = command()
        .args(["run", "--group", "g", "--all", "--database-url", scene.db.url()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(BufReader::new(child.stdout.take().unwrap()).lines().next());
    let said = finish(child).exits(1);
    assert!(said.stderr.contains("reader went away"), "{}", said.stderr);
    scene.run("out", &[]).exits(0);
    let shown = json_on(&scene.db, ["group", "show", "g"]).exits(0).json();
    assert_eq!(
        (&shown["alerts"]["acknowledged"], &shown["alerts"]["dead"]),
        (&2000.into(), &0.into())
    );
}
