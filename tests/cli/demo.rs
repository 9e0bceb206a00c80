//! `demo` and `doctor`: what a person tries first.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::common::TestDb;
use crate::support::{command, json_on, keys, run, signal, write_packets};

#[test]
fn the_demo_selects_the_same_alerts_live_and_replayed() {
    let said = run(["demo", "--alerts", "60", "--workers", "3", "--json"])
        .exits(0)
        .json();
    for key in ["replay", "live", "same"] {
        assert!(keys(&said).contains(&key), "no `{key}` in {said}");
    }
    for run in ["replay", "live"] {
        assert_eq!(keys(&said[run]), ["delivered", "seconds", "selected"]);
        assert_eq!(said[run]["delivered"], 60);
    }
    let selected = said["replay"]["selected"].as_u64().unwrap();
    assert!(selected > 0 && selected < 60, "the filter selects some: {said}");
    assert_eq!(
        (&said["same"], &said["live"]["selected"]),
        (&true.into(), &selected.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_uses_a_given_server_and_leaves_no_database_on_it() {
    let db = TestDb::empty().await;
    let said = run(["demo", "--alerts", "8", "--database-url", db.url()]).exits(0);
    let mine = said
        .stderr
        .split_whitespace()
        .find(|word| word.starts_with("alertstream_demo_"))
        .unwrap();
    let left: Vec<String> = sqlx::query_scalar("SELECT datname::text FROM pg_database")
        .fetch_all(&db.pool().await)
        .await
        .unwrap();
    assert!(!left.iter().any(|name| name == mine), "{left:?}");
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        .fetch_one(&db.pool().await)
        .await
        .unwrap();
    assert_eq!(tables, 0, "the given database is not touched");
}

#[test]
fn the_demo_keeps_its_files_when_asked() {
    let said = run(["demo", "--alerts", "8", "--keep"]).exits(0);
    assert!(said.stdout.contains("all three selected the same"), "{}", said.stdout);
    let folder = said
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("their lines are in "))
        .unwrap();
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 3);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_what_is_right_and_what_is_not() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..1);
    let mut config = tempfile::NamedTempFile::new().unwrap();
    let path = folder.path().display();
    writeln!(
        config,
        "[source.a]\nmode = \"archive\"\ngroup = \"g\"\n[source.a.archive]\nquery = {{ all = true }}"
    )
    .unwrap();
    writeln!(
        config,
        "[source.b]\nmode = \"files\"\n[source.b.files]\npaths = [\"{path}\"]"
    )
    .unwrap();
    let file = config.path().to_str().unwrap().to_owned();

    let checks = |said: serde_json::Value| said["checks"].as_array().unwrap().clone();
    let fine = checks(json_on(&db, ["doctor", "--config", &file]).exits(0).json());
    let names: Vec<&str> = fine.iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["database", "tables", "source a", "source b", "sink", "decoding"]
    );
    assert!(
        fine.iter()
            .all(|check| keys(check) == ["detail", "name", "ok"] && check["ok"] == true),
        "{fine:?}"
    );

    writeln!(
        config,
        "[source.c]\nmode = \"files\"\n[source.c.files]\npaths = [\"/no/such\"]"
    )
    .unwrap();
    let ill = json_on(&db, ["doctor", "--config", &file]).exits(1);
    let bad: Vec<_> = checks(ill.json())
        .into_iter()
        .filter(|check| check["ok"] == false)
        .collect();
    assert_eq!(bad.len(), 1);
    assert!(bad[0]["detail"].as_str().unwrap().contains("/no/such"), "{bad:?}");
}

#[test]
fn the_demo_leaves_nothing_behind_after_a_signal() {
    let mut child = command()
        .args(["demo", "--alerts", "3000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(
        said.any(|line| line.unwrap().starts_with("ingesting")),
        "it came to its middle"
    );
    signal(pid, "INT");
    assert!(said.any(|line| line.unwrap().contains("nothing is left running")));
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mine = format!("alertstream-{pid}-");
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap();
    let left: Vec<_> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(&mine))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
