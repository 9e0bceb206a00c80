//! `doctor` over a live source: every step to the newest alert, and the first one that is wrong.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::Duration;

use alertstream::cli::embedded::mock_kafka::MockKafka;
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::writer::TopicWriter;

use crate::common::fixtures;
use crate::support::run;

const SOON: Duration = Duration::from_secs(30);

#[test]
fn doctor_looks_at_a_live_source_down_to_an_alert() {
    let mock = MockKafka::start().unwrap();
    mock.create_topic("night", 2).unwrap();
    let mut config = tempfile::NamedTempFile::new().unwrap();
    writeln!(
        config,
        "[source.z]\nmode = \"live\"\ngroup = \"g\"\n[source.z.live]\nbrokers = [\"{}\"]\ntopics = [\"night\", \"late_{{night}}\"]",
        mock.bootstrap()
    )
    .unwrap();
    let live = LiveConfig::new(mock.bootstrap(), &["night"]);
    let writer = TopicWriter::connect(&live.clients().unwrap(), "night", SOON).unwrap();
    writer.send(None, &fixtures::ztf_packet(3)).unwrap();
    writer.finish(SOON).unwrap();

    let file = config.path().to_str().unwrap().to_owned();
    let checks = |said: serde_json::Value| {
        let checks = said["checks"].as_array().unwrap().clone();
        checks
            .into_iter()
            .filter(|check| check["name"].as_str().unwrap().starts_with("source z"))
    };
    let words = |check: &serde_json::Value, key: &str| check[key].as_str().unwrap().to_owned();
    let fine: Vec<_> = checks(run(["doctor", "--json", "--config", &file]).exits(0).json()).collect();
    let names: Vec<String> = fine.iter().map(|check| words(check, "name")).collect();
    let whole = ["addresses", "brokers", "topics", "group", "alert"].map(|what| format!("source z {what}"));
    assert_eq!(names, whole);
    assert!(
        words(&fine[2], "detail").contains("1 with 2 partitions; 3 nightly ones"),
        "{fine:?}"
    );
    let alert = fixtures::Ztf::new(3).candid.to_string();
    assert!(words(&fine[4], "detail").contains(&alert), "{fine:?}");

    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"night\",", "\"nigth\",")).unwrap();
    let said = run(["doctor", "--json", "--config", &file]).exits(1);
    assert!(said.stderr.contains("1 check failed"), "{}", said.stderr);
    let ill: Vec<_> = checks(said.json()).collect();
    assert!(
        words(ill.last().unwrap(), "detail").contains("no topic `nigth`"),
        "{ill:?}"
    );

    std::fs::write(&file, text.replace("\"night\",", "\"^ni.*t\",")).unwrap();
    let matched: Vec<_> = checks(run(["doctor", "--json", "--config", &file]).exits(0).json()).collect();
    assert!(words(&matched[4], "detail").contains(&alert), "{matched:?}");
    std::fs::write(&file, text.replace("\"night\",", "\"^day.*\",")).unwrap();
    let ill: Vec<_> = checks(run(["doctor", "--json", "--config", &file]).exits(1).json()).collect();
    assert!(
        words(ill.last().unwrap(), "detail").contains("no topic matches `^day.*`"),
        "{ill:?}"
    );

    std::fs::write(&file, text.replace(mock.bootstrap(), "no-such-host.invalid:9092")).unwrap();
    let ill: Vec<_> = checks(run(["doctor", "--json", "--config", &file]).exits(1).json()).collect();
    assert_eq!(ill.len(), 1);
    assert!(
        words(&ill[0], "detail").contains("`no-such-host.invalid:9092`"),
        "{ill:?}"
    );
}

/// Answers every request with this status; gives its address.
fn registry(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn doctor_asks_the_schema_registry_where_one_is_named() {
    let check = |url: &str| {
        let mut config = tempfile::NamedTempFile::new().unwrap();
        writeln!(config, "[schemas]\nregistry = \"{url}\"").unwrap();
        let said = run(["doctor", "--json", "--config", config.path().to_str().unwrap()]).json();
        let checks = said["checks"].as_array().unwrap().clone();
        let found = checks.into_iter().find(|check| check["name"] == "schema registry");
        found.expect("the check")
    };
    // That it has no schema 1 is an answer.
    let there = registry("404 Not Found");
    assert_eq!(
        (&check(&there)["ok"], &check(&there)["detail"]),
        (&true.into(), &format!("`{there}` answers").into())
    );
    let closed = registry("401 Unauthorized");
    let refused = check(&closed);
    assert!(
        refused["ok"] == false && refused["detail"].as_str().unwrap().contains(&closed),
        "{refused}"
    );
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(check(&format!("http://{nobody}"))["ok"], false);
}
