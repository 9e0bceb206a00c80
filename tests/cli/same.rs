//! The same processor over the same night from files, from the archive and live: the same alerts are selected.
//!
//! Real processes throughout: `simulate`, `ingest`, `produce` and three times `run`, with one configuration file whose
//! source only changes where it reads. On the mock cluster, and on a real broker where one is named.

use std::fs;
use std::path::{Path, PathBuf};

use alertstream::cli::embedded::mock_kafka::{MockKafka, partitions_for};
use serde_json::Value;

use crate::common::TestDb;
use crate::support::{json_on, on, run};

const ALERTS: u64 = 5_000;

/// A folder with the night, and one configuration that reads it in three ways.
struct Night {
    folder: tempfile::TempDir,
    bytes: u64,
}

impl Night {
    fn simulated() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("night");
        let count = ALERTS.to_string();
        let args = [
            "simulate",
            "--night",
            "2026-03-14",
            "--alerts",
            &count,
            "--json",
            "--to",
        ];
        let said = run(args.iter().copied().chain([to.to_str().unwrap()])).exits(0).json();
        assert_eq!(said["written"], ALERTS);
        Self {
            folder,
            bytes: said["bytes"].as_u64().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn packets(&self) -> String {
        self.path("night").to_str().unwrap().to_owned()
    }

    /// Writes the configuration; gives its path.
    fn configure(&self, brokers: &str, topic: &str) -> String {
        let text = format!(
            "[source.night]\nmode = \"files\"\ngroup = \"{topic}\"\n\
             [source.night.live]\nbrokers = [\"{brokers}\"]\ntopics = [\"{topic}\"]\nend = \"now\"\n\
             [source.night.archive]\nquery = {{ all = true }}\n\
             [source.night.files]\npaths = [\"{}\"]\n\
             [processor]\nfilter = \"magnitude < 19.5 && (band == 'g' || candidate.distpsnr1 > 2.0)\"\n",
            self.packets()
        );
        let path = self.path("config.toml");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs the processor; gives its sorted lines without where each alert was read.
    fn selected(&self, db: &TestDb, config: &str, from: &str, name: &str) -> Vec<String> {
        let sink = self.path(name);
        let args = ["run", "--config", config, "--from", from, "--sink-path"];
        let said = json_on(db, args.iter().copied().chain([sink.to_str().unwrap()]))
            .exits(0)
            .json();
        assert_eq!(
            (&said["delivered"], &said["acknowledged"]),
            (&ALERTS.into(), &ALERTS.into()),
            "{from}"
        );
        lines_without_place(&sink)
    }
}

fn lines_without_place(sink: &Path) -> Vec<String> {
    let text = fs::read_to_string(sink).unwrap();
    let without = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        for key in ["source", "position"] {
            line.as_object_mut().unwrap().remove(key).expect("it is told");
        }
        line.to_string()
    };
    let mut lines: Vec<String> = text.lines().map(without).collect();
    lines.sort_unstable();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn files_archive_and_live_select_the_same_alerts() {
    let (night, db) = (Night::simulated(), TestDb::new().await);
    on(&db, ["migrate"]).exits(0);
    assert_eq!(
        json_on(&db, ["ingest", &night.packets()]).exits(0).json()["archived"],
        ALERTS
    );

    let mock = MockKafka::start().unwrap();
    let topic = format!("night-{}", std::process::id());
    // The mock keeps 5 MiB a partition, and keys do not fill partitions evenly.
    mock.create_topic(&topic, partitions_for(2 * night.bytes)).unwrap();
    let produce = |brokers: &str, more: &[&str]| {
        let packets = night.packets();
        let args = [
            "produce",
            &packets,
            "--topic",
            &topic,
            "--brokers",
            brokers,
            "--key",
            "objectId",
            "--json",
        ];
        assert_eq!(run(args.iter().chain(more)).exits(0).json()["sent"], ALERTS);
    };
    produce(mock.bootstrap(), &[]);
    let config = night.configure(mock.bootstrap(), &topic);
    let from_files = night.selected(&db, &config, "files", "files");
    let some = from_files.len() as u64;
    assert!(
        some > ALERTS / 20 && some < ALERTS * 19 / 20,
        "the filter decides: {some}"
    );
    assert_eq!(night.selected(&db, &config, "archive", "archive"), from_files);
    assert_eq!(night.selected(&db, &config, "live", "mock"), from_files);

    match std::env::var("KAFKA_BOOTSTRAP_SERVERS") {
        Ok(real) => {
            produce(&real, &["--partitions", "8"]);
            let config = night.configure(&real, &topic);
            assert_eq!(night.selected(&db, &config, "live", "real"), from_files);
        }
        Err(_) => println!("skipped: files_archive_and_live_select_the_same_alerts on a real broker (no broker)"),
    }
}
