//! What is refused before any service is touched (exit 2), and how errors look.

use std::io::Write;

use crate::support::{Said, command, finish, run};

/// A database that nobody listens on: whoever touches it exits with 1, not with 2.
const NOBODY: &str = "postgres://nobody@127.0.0.1:1/nothing";

#[track_caller]
fn refused(args: &[&str]) -> Said {
    let args: Vec<&str> = args
        .iter()
        .copied()
        .chain(["--json", "--database-url", NOBODY])
        .collect();
    let said = run(&args).exits(2);
    assert!(said.stdout.is_empty(), "{said:#?}");
    said
}

#[track_caller]
fn refused_naming(args: &[&str], value: &str) {
    let error = refused(args).error();
    let text = error["message"].as_str().unwrap();
    assert!(text.contains(value), "`{value}` is not named in: {text}");
}

#[test]
fn help_mentions_every_command_and_the_exit_codes() {
    let said = run(["--help"]).exits(0);
    for word in [
        "migrate",
        "--config",
        "--database-url",
        "--json",
        "--log-format",
        "130 second signal",
    ] {
        assert!(said.stdout.contains(word), "{word}: {}", said.stdout);
    }
}

#[test]
fn what_is_wrong_with_a_query_is_refused_naming_the_value() {
    let queries: [(&[&str], &str); 12] = [
        (&[], "no query"),
        (&["--every", "0"], "`0`"),
        (&["--every", "3/3"], "3/3"),
        (&["--limit", "0"], "limit"),
        (&["--band", "q"], "q"),
        (&["--cone", "10,20"], "10,20"),
        (&["--cone", "400,20,1"], "400"),
        (&["--jd", "5..1"], "5..1"),
        (&["--object", ""], "object"),
        (&["--where", "zp < 1"], "zp"),
        (&["--all", "--programid", "1"], "--all"),
        (&["--candid", "@/no/such/file"], "/no/such/file"),
    ];
    for (query, named) in queries {
        let args: Vec<&str> = ["group", "create", "g"].iter().chain(query).copied().collect();
        refused_naming(&args, named);
    }
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    refused_naming(&["group", "create", "g", "--all", "--block-size", "0"], "0");
    refused_naming(&["group", "create", "a/b", "--all"], "a/b");
}

#[test]
fn a_run_that_cannot_be_meant_is_refused() {
    refused_naming(&["run", "--group", "g", "--all"], "stdout"); // the sink and the summary
    let sink = ["--sink-path", "/dev/null"];
    let runs: [(&[&str], &str); 12] = [
        (&["run", "--all"], "no group"),
        (&["run", "--group", "g", "--workers", "0"], "0"),
        (&["run", "--group", "g", "--max-alerts", "0"], "0"),
        (&["run", "--group", "g", "--block-size", "0"], "0"),
        (&["run", "--group", "g", "--until-idle", "-1"], "-1"),
        (&["run", "--group", "g", "--filter", "magnitud < 19"], "`magnitude`"),
        (&["run", "--group", "g", "--filter", "magnitude <"], "magnitude <"),
        (&["run", "--group", "g", "--source", "nobody"], "`nobody`"),
        (&["run", "--group", "a/b"], "a/b"),
        (&["run", "--group", "g", "--from", "files"], "--group"),
        (&["run", "--group", "g", "--from-start"], "--from-start"),
        (&["run", "--group", "g", "--every", "0", "--all"], "every"),
    ];
    for (args, named) in runs {
        let args: Vec<&str> = args.iter().chain(&sink).copied().collect();
        refused_naming(&args, named);
    }
}

#[test]
fn paths_that_are_not_there_are_refused() {
    refused_naming(&["ingest", "/no/such/folder"], "/no/such/folder");
    refused_naming(&["ingest"], "PATH");
    refused_naming(&["ingest", ".", "--batch", "0"], "0");
    refused_naming(&["ingest", "--source", "nobody"], "`nobody`");
    refused_naming(&["ingest", ".", "--survey", "rubn"], "rubn");
    refused_naming(&["export", "--all", "--to", "/no/such/folder/out"], "/no/such/folder");
    refused_naming(&["retention", "--before", "yesterday"], "yesterday");
}

#[test]
fn a_run_over_files_without_paths_is_refused_naming_what_is_missing() {
    let sink = ["--sink-path", "/dev/null"];
    refused_naming(&[&["run", "--from", "files"], &sink[..]].concat(), "`paths`");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "[source.ztf]\nmode = \"archive\"\ngroup = \"g\"").unwrap();
    let config = file.path().to_str().unwrap();
    let args = [&["run", "--from", "files", "--config", config], &sink[..]].concat();
    refused_naming(&args, "`ztf`");
}

#[test]
fn a_summary_that_cannot_be_written_fails_before_any_service_is_touched() {
    let args = [
        "run",
        "--group",
        "g",
        "--sink-path",
        "/dev/null",
        "--database-url",
        NOBODY,
    ];
    let said = run(args.iter().chain(&["--json", "--summary", "/no/such/folder/s.json"])).exits(1);
    let message = said.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("/no/such/folder/s.json"), "{message}");
}

#[test]
fn the_runs_own_failure_wins_over_the_summarys_and_is_told_once() {
    let args = ["run", "--from", "files", "--config"];
    let folder = tempfile::tempdir().unwrap();
    crate::support::write_packets(folder.path(), 0..3);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let paths = folder.path().display();
    writeln!(
        file,
        "[source.f]\nmode = \"files\"\n[source.f.files]\npaths = [\"{paths}\"]"
    )
    .unwrap();
    let config = file.path().to_str().unwrap();
    // Nothing can be written to either: the disk of both is full.
    let full = ["--sink-path", "/dev/full", "--summary", "/dev/full"];
    let said = run(args.iter().chain(&[config]).chain(&full)).exits(1);
    let text = &said.stderr;
    assert!(text.contains("error: ") && text.contains("sink `/dev/full`"), "{text}");
    // Several workers fail, and stderr holds one object.
    let said = run(args.iter().chain(&[config]).chain(&full).chain(&["--json"])).exits(1);
    assert_eq!(said.error()["class"], "processor");
}

#[test]
fn a_position_that_is_none_is_told_what_a_group_can_be_moved_to() {
    for wrong in ["yesterday", "committed"] {
        let said = refused(&["seek", "g", "--to", wrong]).error().to_string();
        let list = said.split("write ").nth(1).unwrap();
        for word in ["`earliest`", "`night:YYYY-MM-DD`", "`archive:GROUP/BLOCK`"] {
            assert!(list.contains(word), "{word}: {said}");
        }
        assert!(!list.contains("committed"), "{said}");
    }
}

#[test]
fn an_unknown_flag_is_a_json_error_under_json() {
    let error = refused(&["migrate", "--bogus"]).error();
    assert_eq!(error["class"], "usage");
    assert!(error["message"].as_str().unwrap().contains("--bogus"));
}

#[test]
fn a_hint_is_there_or_is_not_and_never_asks_for_the_database() {
    let error = refused(&["run", "--workers", "0"]).error();
    assert!(error["hint"].is_null(), "{error}");
    let said = run(["run", "--workers", "0"]).exits(2);
    assert!(!said.stderr.contains("hint:"), "{}", said.stderr);
    let error = refused(&["ingest"]).error();
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("<PATH>") && !hint.contains("--database-url"), "{hint}");
}

#[test]
fn a_filter_may_begin_with_a_minus() {
    refused_naming(
        &[
            "run",
            "--group",
            "g",
            "--sink-path",
            "/dev/null",
            "--filter",
            "-magnitud > -19",
        ],
        "`magnitud`",
    );
}

#[test]
fn no_command_is_refused() {
    assert!(run::<&str>([]).exits(2).stderr.contains("Usage: alertstream"));
}

#[test]
fn a_url_of_another_scheme_is_refused_without_showing_the_password() {
    let said = run(["migrate", "--database-url", "mysql://user:hunter2@host/db"]).exits(2);
    assert!(
        said.stderr.contains("`mysql`") && !said.stderr.contains("hunter2"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_database_that_is_not_named_is_refused() {
    assert!(run(["migrate"]).exits(2).stderr.contains("--database-url"));
}

#[test]
fn a_database_that_nobody_listens_on_is_a_failure() {
    let said = run(["migrate", "--json", "--database-url", NOBODY]).exits(1);
    assert_eq!(said.error()["class"], "unreachable");
}

#[test]
fn every_problem_of_a_configuration_is_told_at_once_with_its_line() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "[databse]\n[night]\nstarts_at = \"99\"\n[sink]\nkind = \"ndjsn\"").unwrap();
    let said = finish(
        command()
            .args(["migrate", "--config"])
            .arg(file.path())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    )
    .exits(2);
    for word in ["line 1: ", "`database`", "line 3: ", "line 5: ", "`ndjson`"] {
        assert!(said.stderr.contains(word), "{word}: {}", said.stderr);
    }
}
