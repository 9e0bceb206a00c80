//! What a configuration file may say.

use super::*;

const WHOLE: &str = r#"
[database]
url = "env:DATABASE_URL"
[night]
starts_at = "12:00"
[source.ztf]
mode = "archive"
group = "tde-search"
[source.ztf.live]
brokers = ["localhost:9092"]
topics = ["ztf_{night}_programid1"]
nights = 2
start = "committed"
end = "none"
[source.ztf.live.librdkafka]
"session.timeout.ms" = "30000"
[source.ztf.archive]
query = { night = "2018-08-19", programid = [1], where = "magnitude < 20.0" }
block_size = 500
[source.ztf.files]
paths = ["alerts/"]
[queue]
key = "source"
bytes_max = "128MiB"
limits = { ztf = 8 }
weights = { ztf = 3 }
[processor]
workers = 4
filter = "magnitude < 19.5 && rb >= 0.65"
retry = { tries = 5, first = "1s", most = "5m" }
[sink]
kind = "ndjson"
path = "-"
fields = ["object_id", "alert_id", "jd", "ra", "dec", "magnitude"]
"#;

#[test]
fn the_whole_file_is_read() {
    let config = Config::parse(WHOLE).unwrap();
    let ztf = &config.source["ztf"];
    assert_eq!(
        (ztf.mode, ztf.group.as_deref(), ztf.archive.block_size),
        (Mode::Archive, Some("tde-search"), Some(500))
    );
    assert_eq!(config.night.starts_at, NightStart::parse("12:00").unwrap());
    assert_eq!(config.sink.fields.unwrap().len(), 6);
}

#[test]
fn an_empty_file_means_the_defaults() {
    let config = Config::parse("").unwrap();
    assert!(config.source.is_empty() && config.sink.is_stdout());
}

#[test]
fn every_problem_is_reported_at_once_in_the_order_of_the_lines() {
    let text = "[databse]\n[night]\nstarts_at = \"25:00\"\n[source.a]\nmode = \"archve\"\n[source.b]\nmode = \"files\"\n\
                [source.b.archive]\nblock_size = 0\n[sink]\npath = \"\"\nfields = []\n";
    let problems = Config::parse(text).unwrap_err();
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 7, "{said:#?}");
    assert_eq!(said[0], "line 1: unknown key `databse`; did you mean `database`?");
    assert!(
        said[1].starts_with("line 3: `starts_at = \"25:00\"` is no time of day"),
        "{said:#?}"
    );
    assert!(
        said[2].starts_with("line 5: unknown value `archve`; did you mean `archive`?"),
        "{said:#?}"
    );
    assert!(said[3].contains("source `b` reads files"), "{said:#?}");
    assert!(said[4].starts_with("line 9: `block_size = 0`"), "{said:#?}");
}

/// Each line with `!` must have one problem on it, and no other line: gives the problems of a file without its marks.
#[track_caller]
fn is_wrong_where_marked(text: &str) -> Vec<String> {
    let marked: Vec<usize> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.ends_with(" #!"))
        .map(|(n, _)| n)
        .collect();
    let problems = Config::parse(text).unwrap_err();
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let lines: Vec<usize> = problems.iter().map(|problem| problem.line.expect("a line")).collect();
    assert_eq!(lines, marked, "{said:#?}");
    said
}

#[test]
fn one_round_tells_everything_on_the_lines_where_it_stands() {
    is_wrong_where_marked(
        r#"[database]
url = "mysql://h/d" #!
[nights] #!
starts_at = "00:00"
[source.ztf]
mode = "liv" #!
groop = "g" #!
[source.ztf.live]
brokers = "h:9092" #!
topics = [] #!
nights = 90 #!
start = "yesterday" #!
colour = "blue" #!
[source.ztf.live.librdkafka]
"enable.auto.commit" = true #!
"session.timeout.ms" = "soon" #!
"client.rack" = "env:ALERTSTREAM_NEVER_SET" #!
"client.id" = ["x"] #!
"ssl.ca.location" = "ca.pem" #!
[source.old.archive] #!
block_size = 0 #!
[source.old.archive.query]
nigth = "2018-08-19" #!
cone = "1,2" #!
band = "q" #!
[queue]
key = "surce" #!
bytes_max = 0 #!
limits = { ztf = 0, other = 3 } #!
weigths = { ztf = 1 } #!
[processor]
workers = 0 #!
filter = "magnitud < 19" #!
[processor.retry]
tries = 0 #!
first = "2s"
most = "1s" #!
[schemas]
registry = "http://h"
password = "env:ALERTSTREAM_NEVER_SET" #!
[sink]
kind = "csv" #!
path = "" #!
fields = [] #!
"#,
    );
}

#[test]
fn what_is_required_and_missing_hides_nothing_else() {
    let said = is_wrong_where_marked(
        r#"[source.a] #!
group = "" #!
[source.b]
mode = "live"
[source.b.live] #!
topics = ["^night_[0-9"] #!
[source.b.live.librdkafka]
security.protocol = "SSL" #!
[processor]
workers = "x" #!
"#,
    );
    assert!(said[0].contains("[source.a] has no `mode`"), "{said:#?}");
    assert!(said[2].contains("[source.b.live] has no `brokers`"), "{said:#?}");
    assert!(said[4].contains("in quotes"), "{said:#?}");
}

#[test]
fn what_a_misspelt_key_was_meant_to_be_is_not_missing() {
    let said = is_wrong_where_marked(
        r#"[source.a]
mod = "live" #!
[source.a.live]
broker = ["h:1"] #!
topics = ["t"]
nights = 0 #!
[source.b]
mode = "live"
[source.b.life] #!
brokers = ["h:1"]
"#,
    );
    assert!(said[1].contains("did you mean `brokers`?"), "{said:#?}");
}

#[test]
fn a_reference_to_a_url_is_told_beside_other_problems_unless_another_url_is_given() {
    let text = "[database]\nurl = \"env:ALERTSTREAM_NEVER_SET\"\n[processor]\nworkers = 0\n";
    let lines = |problems: Vec<Problem>| problems.into_iter().map(|problem| problem.line).collect::<Vec<_>>();
    assert_eq!(lines(Config::parse(text).unwrap_err()), [Some(2), Some(4)]);
    assert_eq!(lines(Config::parse_with(text, Urls::Given).unwrap_err()), [Some(4)]);
    assert!(Config::parse("[database]\nurl = \"env:ALERTSTREAM_NEVER_SET\"\n").is_ok());
}

#[test]
fn queries_and_live_tables_are_checked_with_the_rest() {
    let text = "[source.a]\nmode = \"live\"\n[source.a.archive]\nquery = { cone = \"1,2\" }\n[source.b]\nmode = \"live\"\n\
                [source.b.live]\nbrokers = [\"h:9092\"]\ntopics = []\n";
    let problems = Config::parse(text).unwrap_err();
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(said[0].starts_with("line 1: source `a` is live"), "{said:#?}");
    assert!(said[1].starts_with("line 4: `cone` does not take `1,2`"), "{said:#?}");
    assert!(said[2].starts_with("line 9: no topic"), "{said:#?}");
}

#[test]
fn nothing_of_the_queue_and_the_processor_can_be_zero_or_of_nobody() {
    let text = "[source.ztf]\nmode = \"archive\"\n[queue]\nlimits = { zft = 1 }\n[processor]\nworkers = 0\n";
    let problems = Config::parse(text).unwrap_err();
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:#?}");
    assert_eq!(
        said[0],
        "line 4: `limits.zft`: there is no source `zft`; did you mean `ztf`?"
    );
    assert!(said[1].starts_with("line 6: `workers = 0`"), "{said:#?}");
}

#[test]
fn the_file_takes_as_many_workers_as_the_flag() {
    let with = |workers: u32| Config::parse(&format!("[processor]\nworkers = {workers}\n"));
    assert!(with(4096).is_ok());
    let said = with(4097).unwrap_err()[0].to_string();
    assert_eq!(said, "line 2: `workers = 4097`: give at most 4096");
}

#[test]
fn a_field_that_no_alert_has_is_refused_with_the_nearest() {
    let live = "[source.s]\nmode = \"live\"\n[source.s.live]\nbrokers = [\"b\"]\ntopics = [\"t\"]\n";
    let with = |fields: &str| Config::parse(&format!("[sink]\nkind = \"ndjson\"\nfields = [{fields}]\n{live}"));
    for fine in [
        "object_id",
        "ndethist",
        "position",
        "candidate.distpsnr1",
        "diaSource.snr",
        "prv_candidates",
    ] {
        assert!(with(&format!("\"{fine}\"")).is_ok(), "{fine}");
    }
    for (wrong, near) in [
        ("magnitud", "magnitude"),
        ("candidate.distpsnr9", "candidate.distpsnr"),
        ("posision", "position"),
    ] {
        let said = with(&format!("\"jd\", \"{wrong}\"")).unwrap_err()[0].to_string();
        assert!(
            said.starts_with("line 3: `fields`") && said.contains(&format!("did you mean `{near}")),
            "{said}"
        );
    }
}

#[test]
fn a_value_of_a_wrong_kind_is_told_with_its_key_and_what_is_expected() {
    let cases = [
        (
            "[processor]\nworkers = \"four\"\n",
            "line 2: `processor.workers`: expected a whole number, 0 or more, found text `\"four\"`",
        ),
        (
            "[processor]\nretry = { first = 3 }\n",
            "line 2: `processor.retry.first`: expected a duration in quotes, such as `500ms`, `1s` or `5m`, found `3`",
        ),
        (
            "[processor]\ntime_limit = \"soon\"\n",
            "line 2: `processor.time_limit`: `soon` is no duration: write e.g. `500ms`, `1s` or `5m`",
        ),
        (
            "[queue]\nbytes_max = true\n",
            "line 2: `queue.bytes_max`: expected a size such as `128MiB`, or a number of bytes, found `true`",
        ),
        (
            "[source.a]\nmode = \"live\"\n[source.a.live]\nbrokers = \"h:9092\"\ntopics = [\"t\"]\n",
            "line 4: `source.a.live.brokers`: expected a list, as `[\"..\"]`, found text `\"h:9092\"`",
        ),
        (
            "[source.a]\ngroup = \"g\"\n",
            "line 1: [source.a] has no `mode`; add it",
        ),
        (
            "[survey.kite.fields]\njd = 5\n",
            "line 2: `survey.kite.fields.jd`: expected a field's path in quotes, or a list of them, found `5`",
        ),
        ("processor = 3\n", "line 1: `processor`: expected a table, found `3`"),
        (
            "[source.a]\nmode = \"archive\"\narchive = { query = { band = { a = 1 } } }\n",
            "line 3: `source.a.archive.query.band`: expected text in quotes, a number, `true`, `false`, or a list of them, \
             found a table",
        ),
    ];
    for (text, expected) in cases {
        let said: Vec<String> = Config::parse(text)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(said, [expected], "{text}");
    }
}

#[test]
fn a_date_needs_no_quotes_in_a_query() {
    let text = "[source.a]\nmode = \"archive\"\n[source.a.archive]\nquery = { night = 2018-08-19 }\n";
    let query = Config::parse(text).unwrap().source["a"].archive.query.clone().unwrap();
    assert_eq!(query.get("night"), Some("2018-08-19"));
}

#[test]
fn a_password_is_never_shown() {
    let text = "[database]\nurl = \"mysql://user:hunter2@host/db\"\n";
    let problems = Config::parse(text).unwrap_err();
    assert!(
        problems[0]
            .to_string()
            .starts_with("line 2: the database URL is not usable: its scheme is `mysql`")
    );
    assert!(!format!("{problems:?}").contains("hunter2"));
    let fine = Config::parse("[database]\nurl = \"postgres://user:hunter2@host/db\"\n").unwrap();
    assert!(!format!("{fine:?}").contains("hunter2"));
}

#[test]
fn a_survey_of_the_users_own_gives_the_header_its_fields() {
    let text = "[schemas]\nregistry = \"http://localhost:8081\"\n[survey.kite]\nrecords = [\"kite.alert\"]\n\
        [survey.kite.fields]\nobject_id = \"name\"\njd = [\"when\", \"then\"]\n";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.survey["kite"].fields.jd.as_slice(), ["when", "then"]);
    assert!(config.decoder().is_ok());
    assert!(Config::parse("[survey.kite.fields]\nobject = \"name\"\n").is_err());
}

#[test]
fn a_name_that_an_archived_schema_may_have_is_left_to_the_run_unless_something_else_is_wrong() {
    let with = |more: &str| Config::parse(&format!("[processor]\nfilter = \"wind.speed > 3.0\"\n{more}"));
    let live = "[source.s]\nmode = \"live\"\n[source.s.live]\nbrokers = [\"b\"]\ntopics = [\"t\"]\n";
    assert!(with("").is_ok());
    assert!(with("[source.s]\nmode = \"archive\"\n").is_ok());
    let said = with(live).unwrap_err();
    assert!(said[0].to_string().contains("`wind.speed`"), "{said:?}");
    let said = with("workers = 0\n").unwrap_err();
    assert_eq!(said.len(), 2, "{said:?}");
    let types = Config::parse("[processor]\nfilter = \"magnitude && true\"\nworkers = 0\n").unwrap_err();
    assert_eq!(types.len(), 2, "each once: {types:?}");
}
