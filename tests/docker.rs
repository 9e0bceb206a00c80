//! The files of `docker/`, parsed: what a compose run needs is there, and the parts agree with each other.
//!
//! Starts nothing, so it runs where there is no container engine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a failed test is a panic

use std::path::Path;

use alertstream::config::{Config, Mode};
use yaml_rust2::{Yaml, YamlLoader};

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn compose() -> Yaml {
    let mut documents = YamlLoader::load_from_str(&read("compose.yaml")).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn keys(table: &Yaml) -> Vec<&str> {
    let table = table.as_hash().expect("a table");
    table.keys().map(|key| key.as_str().unwrap()).collect()
}

fn words(list: &Yaml) -> Vec<&str> {
    let list = list.as_vec().expect("a list");
    list.iter().map(|word| word.as_str().unwrap()).collect()
}

/// What follows an instruction of the Dockerfile, in order.
fn instructions<'a>(dockerfile: &'a str, name: &str) -> Vec<&'a str> {
    dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .collect()
}

#[test]
fn every_service_has_an_image_and_waits_for_what_it_needs() {
    let compose = compose();
    let services = &compose["services"];
    assert_eq!(
        keys(services),
        ["kafka", "postgres", "migrate", "alertstream", "simulator"]
    );
    for name in keys(services) {
        assert!(services[name]["image"].as_str().is_some(), "{name} has an image");
    }
    for (who, whom, until) in [
        ("migrate", "postgres", "service_healthy"),
        ("alertstream", "kafka", "service_healthy"),
        ("alertstream", "migrate", "service_completed_successfully"),
        ("simulator", "kafka", "service_healthy"),
    ] {
        let condition = &services[who]["depends_on"][whom]["condition"];
        assert_eq!(condition.as_str(), Some(until), "{who} waits for {whom}");
        if until == "service_healthy" {
            assert!(
                services[whom]["healthcheck"]["test"].as_vec().is_some(),
                "{whom} has a check"
            );
        }
    }
    assert_eq!(words(&services["simulator"]["profiles"]), ["simulator"]);
}

#[test]
fn what_the_services_write_is_on_a_named_volume() {
    let compose = compose();
    let (services, volumes) = (&compose["services"], keys(&compose["volumes"]));
    let postgres = "/var/lib/postgresql/data"; // the image's own place
    let kafka = services["kafka"]["environment"]["KAFKA_LOG_DIRS"].as_str().unwrap();
    for (name, folder) in [("kafka", kafka), ("postgres", postgres)] {
        assert!(volumes.contains(&name), "{name} is declared");
        let mounted = words(&services[name]["volumes"]);
        assert!(
            mounted.contains(&format!("{name}:{folder}").as_str()),
            "{name}: {mounted:?}"
        );
    }
}

#[test]
fn brokers_and_database_are_open_to_this_machine_only() {
    let compose = compose();
    for name in ["kafka", "postgres"] {
        for port in words(&compose["services"][name]["ports"]) {
            assert!(port.starts_with("127.0.0.1:"), "{name}: {port}");
        }
    }
}

#[test]
fn the_tools_configuration_reads_the_topic_that_the_simulator_writes() {
    let compose = compose();
    let (tool, simulator) = (&compose["services"]["alertstream"], &compose["services"]["simulator"]);
    let (command, written) = (words(&tool["command"]), words(&simulator["command"]));
    let after = |list: &[&str], flag: &str| {
        let at = list.iter().position(|word| *word == flag).unwrap();
        list[at + 1].to_owned()
    };
    let mount = format!("./alertstream.toml:{}:ro", after(&command, "--config"));
    assert!(words(&tool["volumes"]).contains(&mount.as_str()));
    assert!(
        !tool["environment"]["DATABASE_URL"].is_badvalue(),
        "the file refers to it"
    );

    let config = Config::parse(&read("alertstream.toml")).unwrap();
    let source = &config.source[after(&command, "--source").as_str()];
    let live = source.live.as_ref().unwrap();
    assert_eq!(source.mode, Mode::Live);
    assert_eq!(live.brokers, [after(&written, "--brokers")]);
    assert_eq!(
        vec![after(&written, "--to")],
        live.topics.iter().map(|t| format!("kafka:{t}")).collect::<Vec<_>>()
    );
}

#[test]
fn the_image_is_built_in_stages_and_runs_without_rights() {
    let dockerfile = read("Dockerfile");
    let stages = instructions(&dockerfile, "FROM");
    assert_eq!(stages.len(), 2, "{stages:?}");
    assert!(stages[0].ends_with(" AS build"));
    assert!(!stages[1].starts_with("rust"), "the compiler stays behind");
    let copies = instructions(&dockerfile, "COPY");
    assert!(copies.last().unwrap().starts_with("--from=build "), "{copies:?}");
    let [user] = instructions(&dockerfile, "USER")[..] else {
        panic!("one USER");
    };
    let id: u32 = user.split(':').next().unwrap().parse().unwrap();
    assert_ne!(id, 0, "not root");
    assert!(dockerfile.find("\nUSER").unwrap() < dockerfile.find("\nENTRYPOINT").unwrap());
    assert_eq!(instructions(&dockerfile, "ENTRYPOINT"), [r#"["alertstream"]"#]);
    assert_eq!(instructions(&dockerfile, "STOPSIGNAL"), ["SIGTERM"]);
}
