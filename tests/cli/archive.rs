//! `ingest`, `count`, `export`, `dlq`: packets in, packets out, and what was refused.

use std::fs;

use serde_json::Value;

use crate::common::{TestDb, fixtures};
use crate::support::{json_on, keys, on, run, write_packets};

const INGEST: [&str; 8] = [
    "archived",
    "bytes",
    "dead_letters",
    "duplicates",
    "read",
    "reframed",
    "revisions",
    "seconds",
];

/// Checks the documented keys and the identity of the counts; gives (read, archived, duplicates, revisions, dead).
#[track_caller]
fn counts(said: &Value) -> [u64; 5] {
    for key in INGEST {
        assert!(keys(said).contains(&key), "no `{key}` in {said}");
    }
    let n = |key: &str| said[key].as_u64().unwrap();
    assert!(said["seconds"].is_f64());
    let counts = [
        n("read"),
        n("archived"),
        n("duplicates"),
        n("revisions"),
        n("dead_letters"),
    ];
    assert_eq!(counts[0], counts[1..].iter().sum::<u64>(), "{said}");
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_ingested_is_counted_and_exported_byte_for_byte() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let (alerts, out) = (folder.path().join("alerts"), folder.path().join("out"));
    fs::create_dir_all(alerts.join("deeper")).unwrap();
    write_packets(&alerts, 0..20);
    write_packets(&alerts.join("deeper"), 20..30);
    let path = alerts.to_str().unwrap();

    assert_eq!(
        counts(&json_on(&db, ["ingest", path]).exits(0).json()),
        [30, 30, 0, 0, 0]
    );
    assert_eq!(
        counts(&json_on(&db, ["ingest", path, "--batch", "7"]).exits(0).json()),
        [30, 0, 30, 0, 0]
    );
    assert_eq!(
        json_on(&db, ["count", "--all"]).exits(0).json(),
        serde_json::json!({"alerts": 30})
    );
    assert_eq!(
        json_on(&db, ["count", "--programid", "1"]).exits(0).json()["alerts"],
        10
    );
    assert_eq!(on(&db, ["count", "--all"]).exits(0).stdout, "30\n");

    let said = json_on(&db, ["export", "--all", "--to", out.to_str().unwrap()])
        .exits(0)
        .json();
    assert_eq!(keys(&said), ["alerts", "bytes"]);
    assert_eq!(said["alerts"], 30);
    for n in 0..30 {
        let alert = fixtures::Ztf::new(n);
        let name = format!("ztf_{}_{}.avro", alert.candid, alert.programid);
        assert_eq!(fs::read(out.join(&name)).unwrap(), alert.packet(), "{name}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 30, "nothing but packets");
}

#[tokio::test(flavor = "multi_thread")]
async fn tars_are_read_and_written() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let packets = fixtures::ztf_packets(6);
    let names: Vec<String> = (0..6).map(|n| format!("night/{n}.avro")).collect();
    let members = || names.iter().map(String::as_str).zip(packets.iter().map(Vec::as_slice));
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("a.tar"), fixtures::tar(members())).unwrap();
    fs::write(file("b.tar.gz"), fixtures::tar_gz(members())).unwrap();
    let said = json_on(&db, ["ingest", &file("a.tar"), &file("b.tar.gz")])
        .exits(0)
        .json();
    assert_eq!(counts(&said), [12, 6, 6, 0, 0]);

    let out = file("out.tar");
    json_on(&db, ["export", "--all", "--limit", "6", "--to", &out]).exits(2);
    json_on(&db, ["export", "--all", "--to", &out]).exits(0);
    let mut written: Vec<Vec<u8>> = tar::Archive::new(fs::File::open(&out).unwrap())
        .entries()
        .unwrap()
        .map(|entry| {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry.unwrap(), &mut bytes).unwrap();
            bytes
        })
        .collect();
    let mut packets = packets.clone();
    written.sort();
    packets.sort();
    assert!(written == packets);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_to_a_compressed_archive_is_refused_and_makes_nothing() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    for name in ["out.tar.gz", "out.TGZ", "out.zip", "out.tar.zst"] {
        let to = folder.path().join(name);
        let error = json_on(&db, ["export", "--all", "--to", to.to_str().unwrap()])
            .exits(2)
            .error();
        assert!(error["hint"].as_str().unwrap().contains(".tar"), "{error}");
        assert!(!to.exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_nothing_makes_an_empty_folder_and_an_empty_tar() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    for name in ["out", "out.tar"] {
        let to = folder.path().join(name);
        let said = json_on(&db, ["export", "--object", "nobody", "--to", to.to_str().unwrap()])
            .exits(0)
            .json();
        assert_eq!(said["alerts"], 0);
    }
    assert_eq!(fs::read_dir(folder.path().join("out")).unwrap().count(), 0);
    let tar = fs::File::open(folder.path().join("out.tar")).unwrap();
    assert_eq!(tar::Archive::new(tar).entries().unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_kept_and_exported_under_names_of_their_own() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let first = fixtures::Ztf::new(1);
    let second = fixtures::Ztf {
        stamp: vec![7; 99],
        ..first.clone()
    };
    for (name, alert) in [("a", &first), ("b", &second)] {
        fs::write(folder.path().join(name), alert.packet()).unwrap();
    }
    let said = json_on(&db, ["ingest", folder.path().to_str().unwrap(), "--batch", "1"])
        .exits(0)
        .json();
    assert_eq!(counts(&said), [2, 1, 0, 1, 0]);
    let out = tempfile::tempdir().unwrap();
    on(&db, ["export", "--all", "--to", out.path().to_str().unwrap()]).exits(0);
    let mut names: Vec<String> = fs::read_dir(out.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let stem = format!("ztf_{}_{}", first.candid, first.programid);
    assert_eq!(names, [format!("{stem}.avro"), format!("{stem}_r1.avro")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_several_records_is_reframed() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let alerts: Vec<_> = (0..4).map(fixtures::Ztf::new).collect();
    fs::write(folder.path().join("four"), fixtures::container(&alerts)).unwrap();
    let said = json_on(&db, ["ingest", folder.path().to_str().unwrap()])
        .exits(0)
        .json();
    assert_eq!(counts(&said), [4, 4, 0, 0, 0]);
    assert_eq!(said["reframed"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_container_of_several_records_is_refused_for_its_damage() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let alerts: Vec<_> = (0..4).map(fixtures::Ztf::new).collect();
    let mut file = fixtures::container(&alerts);
    let marker = file[file.len() - 16..].to_vec();
    let block = file.windows(16).position(|window| window == marker).unwrap() + 16;
    // After the count (1 byte) and the size: the length of the first record's first text, which becomes negative.
    let size = file[block + 1..].iter().position(|byte| *byte < 0x80).unwrap() + 1;
    file[block + 1 + size] = 1;
    fs::write(folder.path().join("four"), &file).unwrap();
    let said = json_on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    assert_eq!(counts(&said.json()), [1, 0, 0, 0, 1]);
    let letters = json_on(&db, ["dlq", "list"]).exits(0).lines();
    assert_eq!((letters.len(), letters[0]["reason"].as_str()), (1, Some("damaged")));
    assert_eq!(letters[0]["bytes"], file.len(), "the file is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_packet_is_named_and_kept_and_the_rest_goes_on() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..3);
    fs::write(folder.path().join("bad-empty"), b"").unwrap();
    fs::write(folder.path().join("bad-text"), fixtures::not_avro()).unwrap();
    fs::write(folder.path().join("bad-cut"), fixtures::truncated_packet(9)).unwrap();
    let path = folder.path().to_str().unwrap();

    let said = json_on(&db, ["ingest", path]).exits(0);
    assert_eq!(counts(&said.json()), [6, 3, 0, 0, 3]);
    for name in ["bad-empty", "bad-text", "bad-cut"] {
        assert!(said.stderr.contains(name), "{name} is not named: {}", said.stderr);
    }
    let again = json_on(&db, ["ingest", path, "--strict"]).exits(1);
    assert_eq!(counts(&again.json()), [6, 0, 3, 0, 3]);

    let letters = json_on(&db, ["dlq", "list"]).exits(0).lines();
    assert_eq!(letters.len(), 3, "ingested twice, kept once");
    let documented = [
        "at", "attempts", "bytes", "id", "message", "path", "position", "reason", "sha256", "source",
    ];
    for letter in &letters {
        for key in documented {
            assert!(keys(letter).contains(&key), "no `{key}` in {letter}");
        }
        assert!(letter["position"].as_str().unwrap().starts_with("file:"), "{letter}");
        assert!(letter["at"].as_str().unwrap().ends_with('Z'), "{letter}");
    }
    let mut reasons: Vec<&str> = letters
        .iter()
        .map(|letter| letter["reason"].as_str().unwrap())
        .collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["empty", "not_avro", "truncated"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_shown_exported_retried_and_dropped() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    fs::write(folder.path().join("bad"), fixtures::not_avro()).unwrap();
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    let id = json_on(&db, ["dlq", "list"]).exits(0).lines()[0]["id"].to_string();

    assert_eq!(json_on(&db, ["dlq", "show", &id]).exits(0).json()["reason"], "not_avro");
    let error = json_on(&db, ["dlq", "show", "999"]).exits(1).error();
    assert!(error["message"].as_str().unwrap().contains("`999`"));
    let out = tempfile::tempdir().unwrap();
    json_on(&db, ["dlq", "export", "--to", out.path().to_str().unwrap()]).exits(0);
    assert_eq!(
        fs::read(out.path().join(format!("{id}.bin"))).unwrap(),
        fixtures::not_avro()
    );

    let retried = json_on(&db, ["dlq", "retry"]).exits(0).json();
    assert_eq!((&retried["retried"], &retried["refused"]), (&1.into(), &1.into()));
    // What has become readable (here by hand) is archived and leaves the list.
    let packet = fixtures::ztf_packet(1);
    sqlx::query("UPDATE dead_letter SET payload = $1")
        .bind(&packet)
        .execute(&db.pool().await)
        .await
        .unwrap();
    assert_eq!(json_on(&db, ["dlq", "retry", &id]).exits(0).json()["archived"], 1);
    assert!(json_on(&db, ["dlq", "list"]).exits(0).stdout.is_empty());

    fs::write(folder.path().join("worse"), b"no").unwrap();
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    json_on(&db, ["dlq", "drop"]).exits(2);
    assert_eq!(json_on(&db, ["dlq", "drop", "--all"]).exits(0).json()["dropped"], 2);
    assert!(json_on(&db, ["dlq", "list"]).exits(0).stdout.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn old_nights_are_deleted_and_later_ones_kept() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    for (n, days) in [(0, 0.0), (1, 1.0), (2, 2.0)] {
        let alert = fixtures::Ztf {
            jd: fixtures::FIRST_JD + days,
            ..fixtures::Ztf::new(n)
        };
        fs::write(folder.path().join(n.to_string()), alert.packet()).unwrap();
    }
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    let said = json_on(&db, ["retention", "--before", "2018-08-20"]).exits(0).json();
    assert_eq!(said, serde_json::json!({"deleted": 1}));
    assert_eq!(
        json_on(&db, ["count", "--night", "2018-08-20..2018-08-21"])
            .exits(0)
            .json()["alerts"],
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_corpus_comes_out_as_it_went_in() {
    let name = "the_corpus_comes_out_as_it_went_in";
    let Some(corpus) = crate::common::corpus(name) else {
        return;
    };
    let db = TestDb::new().await;
    let sample = corpus.join("ztf/ztf_public_20180819_sample.tar.gz");
    let sample = sample.to_str().unwrap();
    assert_eq!(
        counts(&json_on(&db, ["ingest", sample]).exits(0).json()),
        [30, 30, 0, 0, 0]
    );
    assert_eq!(
        counts(&json_on(&db, ["ingest", sample]).exits(0).json()),
        [30, 0, 30, 0, 0]
    );
    assert_eq!(
        json_on(&db, ["count", "--night", "2018-08-19"]).exits(0).json()["alerts"],
        30
    );

    let broken = corpus.join("broken");
    let refused = json_on(&db, ["ingest", broken.to_str().unwrap()]).exits(0);
    assert_eq!(counts(&refused.json())[4], 2, "{refused:#?}");
    assert!(refused.stderr.contains("line_endings"));

    let folders = ["ztf", "lsst", "winter", "decam", "pgir"].map(|folder| corpus.join(folder));
    let mut args = vec!["ingest"];
    args.extend(folders.iter().map(|folder| folder.to_str().unwrap()));
    json_on(&db, args).exits(0);
    let out = tempfile::tempdir().unwrap();
    json_on(&db, ["export", "--all", "--to", out.path().to_str().unwrap()]).exits(0);
    let exported: std::collections::HashSet<Vec<u8>> = crate::common::files_below(out.path())
        .iter()
        .map(|file| fs::read(file).unwrap())
        .collect();
    for folder in &folders {
        for file in crate::common::files_below(folder) {
            let is_archive = file.to_str().unwrap().ends_with(".gz");
            assert!(
                is_archive || exported.contains(&fs::read(&file).unwrap()),
                "{}",
                file.display()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_for_a_person_is_on_stderr() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let packets = folder.path().to_str().unwrap();
    let said = run(["simulate", "--night", "2026-03-14", "--alerts", "2", "--to", packets]).exits(0);
    assert!(said.stdout.is_empty() && said.stderr.contains("2 packets"), "{said:#?}");
    let said = on(&db, ["ingest", packets]).exits(0);
    assert!(said.stdout.is_empty() && said.stderr.contains("archived"), "{said:#?}");
    assert_eq!(on(&db, ["count", "--all"]).exits(0).stdout, "2\n");
}
