//! `group`: its keys, its states, its exit codes.

use crate::common::TestDb;
use crate::support::{json_on, keys, on, write_packets};

const SHOW: [&str; 14] = [
    "alerts",
    "block_size",
    "blocks",
    "created_at",
    "eta_seconds",
    "generation",
    "members",
    "name",
    "query",
    "query_hash",
    "rate_per_second",
    "reason",
    "state",
    "total_final",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_group_has_the_documented_keys_from_create_to_delete() {
    let db = TestDb::new().await;
    let made = json_on(&db, ["group", "create", "g", "--all", "--block-size", "7"])
        .exits(0)
        .json();
    assert_eq!(keys(&made), SHOW);
    assert_eq!(
        (&made["state"], &made["block_size"], &made["total_final"]),
        (&"building".into(), &7.into(), &false.into())
    );
    assert_eq!(made["alerts"]["total"], 0);
    let built = json_on(&db, ["group", "create", "g", "--all", "--wait"])
        .exits(0)
        .json();
    assert_eq!(
        (&built["state"], &built["total_final"]),
        (&"ready".into(), &true.into())
    );
    assert_eq!(
        keys(&built["alerts"]),
        ["acknowledged", "dead", "in_progress", "missing", "remaining", "total"]
    );
    assert_eq!(keys(&built["blocks"]), ["claimed", "done", "free", "total"]);
    let hash = built["query_hash"].as_str().unwrap();
    assert!(
        hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{hash}"
    );

    for (verb, state) in [
        ("pause", "paused"),
        ("resume", "ready"),
        ("rewind", "building"),
        ("delete", "deleted"),
    ] {
        let said = json_on(&db, ["group", verb, "g"]).exits(0).json();
        assert_eq!(keys(&said), ["name", "state"]);
        assert_eq!((&said["name"], &said["state"]), (&"g".into(), &state.into()));
    }
    assert!(json_on(&db, ["group", "list"]).exits(0).stdout.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_listed_one_a_line() {
    let db = TestDb::new().await;
    for name in ["a", "b"] {
        on(&db, ["group", "create", name, "--night", "2018-08-19"]).exits(0);
    }
    let lines = json_on(&db, ["group", "list"]).exits(0).lines();
    assert_eq!(
        lines
            .iter()
            .map(|line| line["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    let text = on(&db, ["group", "list"]).exits(0).stdout;
    assert!(text.contains("in progress") && text.contains("remaining"), "{text}");
    assert!(text.starts_with("name") && text.lines().count() == 3, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_bound_to_another_query_is_a_failure_that_shows_both() {
    let db = TestDb::new().await;
    on(&db, ["group", "create", "g", "--programid", "1"]).exits(0);
    let error = json_on(&db, ["group", "create", "g", "--programid", "2"])
        .exits(1)
        .error();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("[1]") && message.contains("[2]"), "{message}");
    on(&db, ["group", "create", "g", "--programid", "1,1"]).exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_group_is_a_failure() {
    let db = TestDb::new().await;
    for verb in ["show", "rewind", "pause", "resume", "delete"] {
        let error = json_on(&db, ["group", verb, "nobody"]).exits(1).error();
        assert!(error["message"].as_str().unwrap().contains("`nobody`"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_tables_is_a_failure_that_says_migrate() {
    let db = TestDb::empty().await;
    let error = json_on(&db, ["group", "list"]).exits(1).error();
    assert!(error["hint"].as_str().unwrap().contains("alertstream migrate"));
    let done = json_on(&db, ["migrate"]).exits(0).json();
    assert_eq!(keys(&done), ["from", "to"]);
    assert_eq!(done["from"], 0);
    let again = json_on(&db, ["migrate"]).exits(0).json();
    assert_eq!(again["from"], again["to"]);
    json_on(&db, ["group", "list"]).exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lag_of_a_group_is_unknown_until_it_is_built() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..9);
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    on(&db, ["group", "create", "g", "--all", "--block-size", "3"]).exits(0);
    assert!(json_on(&db, ["lag", "g"]).exits(0).json()["lag"].is_null());
    assert!(on(&db, ["lag", "g"]).exits(0).stdout.contains("still building"));
    on(&db, ["group", "create", "g", "--all", "--block-size", "3", "--wait"]).exits(0);
    assert_eq!(json_on(&db, ["lag", "g"]).exits(0).json()["lag"], 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_moved_to_a_block_that_it_has() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..9);
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    on(&db, ["group", "create", "g", "--all", "--block-size", "3", "--wait"]).exits(0);
    let beyond = |block: &str| {
        let said = json_on(&db, ["seek", "g", "--to", block]).exits(1).error();
        assert!(
            said["message"].as_str().unwrap().contains("nothing was changed"),
            "{said}"
        );
        assert_eq!(said["hint"], "it has 3 blocks: 0 to 2");
    };
    beyond("archive:g/4");
    beyond("archive:g/3");
    for refused in ["archive:h/1", "archive:g", "archive:g/1/2", "archive:g/-1", "latest"] {
        json_on(&db, ["seek", "g", "--to", refused]).exits(2);
    }
    let moved = json_on(&db, ["seek", "g", "--to", "archive:g/2/0"]).exits(0).json();
    assert_eq!((&moved["lane"], &moved["offset"]), (&"archive:g".into(), &2.into()));
    // A group that was moved is built again: what it has is known only then.
    beyond("archive:g/3");
    let shown = json_on(&db, ["group", "show", "g"]).exits(0).json();
    assert_eq!(
        (&shown["alerts"]["remaining"], &shown["blocks"]["done"]),
        (&3.into(), &2.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_group_cannot_be_resumed_and_says_why() {
    let db = TestDb::new().await;
    on(&db, ["group", "create", "g", "--all"]).exits(0);
    sqlx::query("UPDATE consumer_group SET halted = 'failed', reason = 'the disk is full'")
        .execute(&db.pool().await)
        .await
        .unwrap();
    for verb in ["pause", "resume"] {
        let error = json_on(&db, ["group", verb, "g"]).exits(1).error();
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("the disk is full") && message.contains("rewind"),
            "{message}"
        );
    }
    assert_eq!(json_on(&db, ["group", "show", "g"]).exits(0).json()["state"], "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lag_of_a_group_lists_the_blocks_that_are_claimed() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    write_packets(folder.path(), 0..9);
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);
    for group in ["g", "h"] {
        on(&db, ["group", "create", group, "--all", "--block-size", "3", "--wait"]).exits(0);
    }
    let claim = "UPDATE claim_block SET state = 1, owner = 7, lease = gen_random_uuid(), lease_until = now() + interval '1 h',
        settled = 2, done = '\\x03' WHERE block_seq = 1 AND group_id = (SELECT group_id FROM consumer_group WHERE name = 'g')";
    sqlx::query(claim).execute(&db.pool().await).await.unwrap();
    let lines = json_on(&db, ["lag", "g"]).exits(0).lines();
    let lanes: Vec<[&serde_json::Value; 4]> = lines
        .iter()
        .map(|line| [&line["lane"], &line["committed"], &line["high"], &line["lag"]])
        .collect();
    assert_eq!(
        serde_json::json!(lanes),
        serde_json::json!([["archive:g", 0, 3, 7], ["archive:g/1", 2, 3, 1]])
    );
    let every = json_on(&db, ["lag"]).exits(0).lines();
    let lanes: Vec<&str> = every.iter().map(|line| line["lane"].as_str().unwrap()).collect();
    assert_eq!(lanes, ["archive:g", "archive:g/1", "archive:h"]);
    let text = on(&db, ["lag", "g"]).exits(0).stdout;
    assert!(text.contains("total lag 7"), "{text}");
}
