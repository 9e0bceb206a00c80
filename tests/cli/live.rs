//! Live sources on the command line, against librdkafka's mock broker in the test's process.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use alertstream::cli::embedded::mock_kafka::{MockKafka, fast_settings};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;

use crate::common::{TestDb, fixtures};
use crate::registry::{self, Registry};
use crate::support::{command, finish, json_on, on, run, signal, write_packets};

pub(crate) const TOPIC: &str = "alerts";

/// A broker with a topic, and a configuration file that names it.
pub(crate) struct Scene {
    pub(crate) broker: MockKafka,
    folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn with(alerts: std::ops::Range<u64>, end: &str) -> Self {
        let (broker, folder) = (MockKafka::start().unwrap(), tempfile::tempdir().unwrap());
        broker.create_topic(TOPIC, 3).unwrap();
        let settings: String = fast_settings()
            .iter()
            .map(|(key, value)| format!("\"{key}\" = \"{value}\"\n"))
            .collect();
        let config = format!(
            "[source.ztf]\nmode = \"live\"\ngroup = \"g\"\n[source.ztf.live]\nbrokers = [\"{}\"]\n\
             topics = [\"{TOPIC}\"]\nstart = \"committed\"\nend = \"{end}\"\n[source.ztf.live.librdkafka]\n{settings}",
            broker.bootstrap()
        );
        fs::write(folder.path().join("config.toml"), config).unwrap();
        let scene = Self { broker, folder };
        scene.send(alerts.map(fixtures::ztf_packet));
        scene
    }

    pub(crate) fn send(&self, packets: impl Iterator<Item = Vec<u8>>) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.broker.bootstrap())
            .create()
            .unwrap();
        for packet in packets {
            producer
                .send(BaseRecord::<(), [u8]>::to(TOPIC).payload(&packet))
                .unwrap();
        }
        producer.flush(Duration::from_secs(30)).unwrap();
    }

    /// Sends to one partition.
    pub(crate) fn send_to(&self, partition: i32, packets: impl Iterator<Item = Vec<u8>>) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.broker.bootstrap())
            .create()
            .unwrap();
        for packet in packets {
            let record = BaseRecord::<(), [u8]>::to(TOPIC).partition(partition).payload(&packet);
            producer.send(record).unwrap();
        }
        producer.flush(Duration::from_secs(30)).unwrap();
    }

    pub(crate) fn config(&self) -> String {
        self.path("config.toml").to_str().unwrap().to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn summary(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path("summary")).unwrap()).unwrap()
    }
}

#[test]
fn a_bounded_live_run_ends_and_the_next_one_begins_where_it_ended() {
    let scene = Scene::with(0..20, "now");
    let (config, summary) = (scene.config(), scene.path("summary"));
    let args = ["run", "--config", &config, "--summary", summary.to_str().unwrap()];
    let said = run(args).exits(0);
    let lines = said.lines();
    assert_eq!(lines.len(), 20);
    assert!(
        lines
            .iter()
            .all(|line| line["position"].as_str().unwrap().starts_with("kafka:alerts/")),
        "{:?}",
        lines[0]
    );
    assert_eq!(scene.summary()["sources"]["ztf"]["acknowledged"], 20);

    scene.send((20..25).map(fixtures::ztf_packet));
    assert_eq!(run(args).exits(0).lines().len(), 5);
}

#[test]
fn a_tombstone_is_counted_and_passed_and_a_bad_packet_is_rejected() {
    let scene = Scene::with(0..3, "now");
    scene.send([Vec::new(), b"no packet".to_vec()].into_iter());
    let (config, summary) = (scene.config(), scene.path("summary"));
    let args = ["run", "--config", &config, "--summary", summary.to_str().unwrap()];
    assert_eq!(run(args).exits(0).lines().len(), 3);
    let first = scene.summary();
    assert_eq!(
        (&first["delivered"], &first["acknowledged"], &first["rejected"]),
        (&5.into(), &4.into(), &1.into())
    );
    assert_eq!(
        (&first["tombstones"], &first["sources"]["ztf"]["tombstones"]),
        (&1.into(), &1.into())
    );
    run(args).exits(0);
    assert_eq!(scene.summary()["delivered"], 0, "all of it was committed");
}

#[test]
fn an_endless_live_run_ends_by_idleness_or_by_a_signal_with_its_commit_confirmed() {
    let scene = Scene::with(0..10, "none");
    let config = scene.config();
    let said = run(["run", "--config", &config, "--until-idle", "1"]).exits(0);
    assert_eq!(said.lines().len(), 10);

    scene.send((10..14).map(fixtures::ztf_packet));
    let mut child = command()
        .args(["run", "--config", &config])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for _ in 0..4 {
        lines.next().unwrap().unwrap();
    }
    signal(child.id(), "TERM");
    assert_eq!(lines.count(), 0);
    assert!(finish(child).exits(0).stderr.contains("interrupted"));
    assert!(
        run(["run", "--config", &config, "--until-idle", "1"])
            .exits(0)
            .stdout
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_ingested_live_keeps_its_origin() {
    let scene = Scene::with(0..12, "now");
    let db = TestDb::new().await;
    let config = scene.config();
    let said = json_on(&db, ["ingest", "--config", &config, "--source", "ztf"])
        .exits(0)
        .json();
    assert_eq!((&said["read"], &said["archived"]), (&12.into(), &12.into()));
    let again = json_on(&db, ["ingest", "--config", &config, "--source", "ztf"])
        .exits(0)
        .json();
    assert_eq!(
        again["read"], 0,
        "its offsets were committed after the archive's transaction"
    );
    scene.send([Vec::new(), b"no packet".to_vec()].into_iter());
    let odd = json_on(&db, ["ingest", "--config", &config, "--source", "ztf"])
        .exits(0)
        .json();
    assert_eq!(
        (&odd["read"], &odd["dead_letters"], &odd["tombstones"]),
        (&1.into(), &1.into(), &1.into())
    );
    let letter = &json_on(&db, ["dlq", "list"]).exits(0).lines()[0];
    assert_eq!(letter["reason"], "not_avro");
    assert!(
        letter["position"].as_str().unwrap().starts_with("kafka:alerts/"),
        "{letter}"
    );
    let topics: Vec<(String, i64)> = sqlx::query_as("SELECT kafka_topic, count(*) FROM alert GROUP BY 1")
        .fetch_all(&db.pool().await)
        .await
        .unwrap();
    assert_eq!(topics, [(TOPIC.to_owned(), 12)]);
}

/// Where a group is in each partition of the topic.
fn committed(config: &str) -> Vec<Value> {
    let lines = run([
        "lag", "g", "--config", config, "--source", "ztf", "--over", "0", "--json",
    ]);
    let lines = lines.exits(0).lines();
    lines.iter().map(|line| line["committed"].clone()).collect()
}

#[test]
fn seek_and_lag_know_the_topics_of_a_regular_expression_and_of_nights_that_are_there() {
    let scene = Scene::with(0..9, "now");
    let config = scene.config();
    let text = fs::read_to_string(&config).unwrap();
    let reads = |topics: &str| fs::write(&config, text.replace("[\"alerts\"]", topics)).unwrap();
    let asks = |args: &[&str]| run(args.iter().chain(&["--config", &config, "--source", "ztf", "--json"]));
    for topics in ["[\"^aler.*\"]", "[\"alerts\", \"late_{night}\"]"] {
        reads(topics);
        let lag = asks(&["lag", "newcomer", "--over", "0"]).exits(0).lines();
        let behind: u64 = lag.iter().map(|line| line["lag"].as_u64().unwrap()).sum();
        assert_eq!((lag.len(), behind), (3, 9), "{topics}");
        assert_eq!(
            asks(&["seek", "g", "--to", "latest"]).exits(0).lines().len(),
            3,
            "{topics}"
        );
    }
    for (topics, named) in [("[\"^other.*\"]", "`^other.*`"), ("[\"late_{night}\"]", "`nights`")] {
        reads(topics);
        for args in [&["lag", "g", "--over", "0"][..], &["seek", "g", "--to", "earliest"]] {
            let said = asks(args).exits(1).error();
            assert!(said["message"].as_str().unwrap().contains(named), "{said}");
        }
    }
}

#[test]
fn a_seek_to_offsets_moves_only_the_partitions_it_names() {
    let scene = Scene::with(0..30, "now");
    let config = scene.config();
    let seek = |to: &str| {
        run([
            "seek", "g", "--to", to, "--config", &config, "--source", "ztf", "--json",
        ])
    };
    assert_eq!(seek("latest").exits(0).lines().len(), 3);
    let before = committed(&config);
    for (to, named) in [
        ("kafka:alerts/0/0,kafka:alerts/9/0", "`kafka:alerts/9`"),
        ("kafka:alerts/0/0,kafka:nowhere/0/0", "`nowhere`"),
    ] {
        let said = seek(to).exits(1).error();
        assert!(said["message"].as_str().unwrap().contains(named), "{said}");
        assert_eq!(committed(&config), before, "nothing moved");
    }
    assert_eq!(seek("kafka:alerts/1/0").exits(0).lines().len(), 1);
    assert_eq!(
        committed(&config),
        [before[0].clone(), 0.into(), before[2].clone()],
        "the others stayed"
    );
}

#[test]
fn a_group_whose_side_is_not_named_is_told_of_both() {
    let scene = Scene::with(0..0, "now");
    let config = scene.config();
    for args in [&["lag", "g"][..], &["seek", "g", "--to", "earliest"]] {
        let said = run(args.iter().chain(&["--config", &config, "--json"]))
            .exits(2)
            .error();
        let hint = said["hint"].as_str().unwrap();
        assert!(
            hint.contains("`--source ztf`") && hint.contains("DATABASE_URL"),
            "{said}"
        );
    }
}

#[test]
fn a_bounded_read_of_topics_that_are_not_there_says_so() {
    let scene = Scene::with(0..0, "now");
    let text = fs::read_to_string(scene.config()).unwrap();
    fs::write(scene.config(), text.replace("[\"alerts\"]", "[\"alertz\"]")).unwrap();
    let said = run(["run", "--config", &scene.config()]).exits(0);
    assert!(
        said.stderr.contains("alertz") && said.stderr.contains("finds nothing"),
        "{said:#?}"
    );
}

#[test]
fn the_lag_of_nothing_is_an_error_that_names_it() {
    let scene = Scene::with(0..1, "now");
    let lag = |args: &[&str]| {
        let base = [
            "lag",
            "nobody",
            "--brokers",
            scene.broker.bootstrap(),
            "--over",
            "0",
            "--json",
        ];
        let said = run(base.iter().chain(args)).exits(1).error();
        said["message"].as_str().unwrap().to_owned()
    };
    assert!(lag(&["--topics", "nowhere"]).contains("`nowhere`"));
    assert!(lag(&[]).contains("`nobody`"));
}

#[test]
fn a_missing_topic_is_named_with_what_creates_it() {
    let (scene, folder) = (Scene::with(0..0, "now"), tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..1);
    let unknown = rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    scene.broker.topic_error("nowhere", unknown).unwrap();
    let (path, brokers) = (folder.path().to_str().unwrap(), scene.broker.bootstrap());
    for args in [
        vec!["produce", path, "--topic", "nowhere"],
        vec![
            "simulate",
            "--night",
            "2026-03-14",
            "--alerts",
            "1",
            "--to",
            "kafka:nowhere",
        ],
    ] {
        let said = run(args.iter().chain(&["--brokers", brokers, "--json"]))
            .exits(1)
            .error();
        assert_eq!(said["message"], "the topic `nowhere` does not exist");
        assert!(said["hint"].as_str().unwrap().contains("--partitions"), "{said}");
    }
}

#[test]
fn a_key_that_the_schema_does_not_have_is_named_and_nothing_is_sent() {
    let (scene, folder) = (Scene::with(0..0, "now"), tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..1);
    let (path, brokers) = (folder.path().to_str().unwrap(), scene.broker.bootstrap());
    let produce = |key: &str| {
        let args = [
            "produce",
            path,
            "--topic",
            TOPIC,
            "--brokers",
            brokers,
            "--key",
            key,
            "--json",
        ];
        run(args)
    };
    let said = produce("candidate.nope").exits(1).error();
    assert!(said["message"].as_str().unwrap().contains("candidate.nope"), "{said}");
    let config = scene.config();
    assert!(run(["run", "--config", &config]).exits(0).stdout.is_empty());
    assert_eq!(produce("objectId").exits(0).json()["sent"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_source_with_a_live_table_is_ingested_from_it() {
    let scene = Scene::with(0..4, "now");
    let text = fs::read_to_string(scene.config()).unwrap();
    fs::write(scene.config(), text.replace("mode = \"live\"", "mode = \"archive\"")).unwrap();
    let db = TestDb::new().await;
    let said = json_on(&db, ["ingest", "--config", &scene.config(), "--source", "ztf"]);
    assert_eq!(said.exits(0).json()["archived"], 4);
    fs::write(scene.config(), "[source.ztf]\nmode = \"archive\"\n").unwrap();
    on(&db, ["ingest", "--config", &scene.config(), "--source", "ztf"]).exits(2);
}

fn scene_with_a_registry_that_is_down() -> (Scene, Registry) {
    let scene = Scene::with(0..0, "none");
    let server = Registry::start(&[503]);
    let text = fs::read_to_string(scene.config()).unwrap();
    let cache = scene.path("cache");
    let schemas = format!(
        "[schemas]\nregistry = \"{}\"\ncache = \"{}\"\n",
        server.url,
        cache.display()
    );
    fs::write(scene.config(), text + &schemas).unwrap();
    (scene, server)
}

#[test]
fn a_run_that_ends_while_alerts_wait_for_a_schema_is_exit_1_and_names_it() {
    let (scene, server) = scene_with_a_registry_that_is_down();
    scene.send_to(0, std::iter::once(registry::packet(1)));
    scene.send_to(1, (0..3).map(fixtures::ztf_packet));
    let config = scene.config();
    let args = ["run", "--config", &config, "--until-idle", "1"];
    let said = run(args).exits(1);
    assert_eq!(said.lines().len(), 3, "the others were worked on: {said:#?}");
    assert!(said.stderr.contains("1 alert waits for a schema"), "{said:#?}");
    server.answer(200);
    assert_eq!(run(args).exits(0).lines().len(), 1);
}

#[test]
fn an_unknown_schema_makes_its_partition_wait_while_the_registry_is_down_and_the_next_run_goes_on() {
    let (scene, server) = scene_with_a_registry_that_is_down();
    let unknown = (1..=3).map(registry::packet);
    let known = (0..5).map(fixtures::ztf_packet);
    scene.send_to(0, unknown.chain(known.clone()));
    scene.send_to(1, known.clone());
    scene.send_to(2, known);

    let config = scene.config();
    let start = || {
        let mut command = command();
        command.args(["run", "--config", &config]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = start();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut first: Vec<Value> = lines
        .by_ref()
        .take(10)
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    // The schema is there before the run ends: the same run goes on with the partition that waited.
    server.answer(200);
    first.extend(
        lines
            .by_ref()
            .take(8)
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap()),
    );
    let partition = |line: &Value| line["position"].as_str().unwrap().split('/').nth(1).unwrap().to_owned();
    assert!(first[..10].iter().all(|line| partition(line) != "0"), "{first:#?}");
    assert!(first[10..].iter().all(|line| partition(line) == "0"), "{first:#?}");
    signal(child.id(), "TERM");
    assert_eq!(lines.count(), 0);
    finish(child).exits(0);

    // Down again, after a restart: the disk cache has the schema, so nothing waits and nothing is asked.
    let asked = server.asked();
    server.answer(503);
    scene.send_to(0, [registry::packet(9)].into_iter());
    let lines = run(["run", "--config", &config, "--until-idle", "2"]).exits(0).lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(server.asked(), asked);
}
