//! `simulate`: what it writes, and what it refuses.

#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::path::Path;

use crate::support::run;

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                std::fs::read(path).unwrap(),
            )
        })
        .collect()
}

fn simulate(folder: &Path, more: &[&str]) -> crate::support::Said {
    let to = folder.to_str().unwrap();
    run([&["simulate", "--night", "2026-03-14", "--to", to, "--json"], more].concat())
}

#[test]
fn the_same_seed_writes_the_same_files() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    for (name, seed) in [("a", "5"), ("b", "5"), ("c", "6")] {
        let said = simulate(&at(name), &["--alerts", "25", "--seed", seed]).exits(0).json();
        let found = files(&at(name));
        let bytes: usize = found.values().map(Vec::len).sum();
        assert_eq!(said, serde_json::json!({ "written": 25, "bytes": bytes }));
        assert!(found.keys().all(|name| name.ends_with(".avro")) && found.len() == 25);
    }
    assert_eq!(files(&at("a")), files(&at("b")));
    assert_ne!(files(&at("a")), files(&at("c")));
}

#[test]
fn rubins_packets_have_the_confluent_header_of_the_schema_asked_for() {
    let scratch = tempfile::tempdir().unwrap();
    for (more, id) in [(vec![], 1100_u32), (vec!["--schema", "9.0"], 900)] {
        let folder = scratch.path().join(id.to_string());
        simulate(&folder, &[vec!["--alerts", "3", "--survey", "rubin"], more].concat()).exits(0);
        for (name, bytes) in files(&folder) {
            assert!(name.ends_with(".bin"));
            assert_eq!((bytes[0], u32::from_be_bytes(bytes[1..5].try_into().unwrap())), (0, id));
        }
    }
}

#[test]
fn faults_leave_the_number_of_packets() {
    let scratch = tempfile::tempdir().unwrap();
    let said = simulate(
        scratch.path(),
        &[
            "--alerts",
            "40",
            "--faults",
            "truncate=0.2,duplicate=0.2",
            "--burst",
            "1ms",
        ],
    );
    assert_eq!(said.exits(0).json()["written"], 40);
    assert_eq!(files(scratch.path()).len(), 40);
}

#[test]
fn what_cannot_be_simulated_is_refused_before_anything_is_written() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("never");
    for more in [
        vec![],
        vec!["--alerts", "0"],
        vec!["--alerts", "5", "--survey", "lsst"],
        vec!["--alerts", "5", "--schema", "5.0"],
        vec!["--alerts", "5", "--faults", "explode=1"],
        vec!["--alerts", "5", "--faults", "flip=2"],
        vec!["--alerts", "5", "--burst", "soon"],
    ] {
        simulate(&folder, &more).exits(2);
    }
    assert!(!folder.exists());
    run(["simulate", "--night", "2026-02-30", "--alerts", "5"]).exits(2);
    let file = scratch.path().join("file");
    std::fs::write(&file, "").unwrap();
    simulate(&file, &["--alerts", "5"]).exits(2);
}
