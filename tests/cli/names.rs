//! Names in filters and in the sink's `fields`: those of any schema that the archive or the files have seen.

use std::fs;
use std::path::Path;

use apache_avro::types::Value as Avro;
use apache_avro::{Schema, Writer};

use crate::common::TestDb;
use crate::support::{json_on, on, run};

/// Writes packets of a survey that no mapping and no bundled schema knows: `kite.alert` with `wind.speed` 0, 1, 2.
fn write_kites(folder: &Path) {
    let schema = r#"{"type":"record","name":"alert","namespace":"kite","fields":[{"name":"candid","type":"long"},
        {"name":"name","type":"string"},
        {"name":"wind","type":{"type":"record","name":"wind","fields":[{"name":"speed","type":["null","double"]}]}}]}"#;
    let schema = Schema::parse_str(schema).unwrap();
    for n in 0..3_i64 {
        let speed = Avro::Union(1, Box::new(Avro::Double(n as f64)));
        let record = Avro::Record(vec![
            ("candid".into(), Avro::Long(100 + n)),
            ("name".into(), Avro::String(format!("K{n}"))),
            ("wind".into(), Avro::Record(vec![("speed".into(), speed)])),
        ]);
        let mut writer = Writer::new(&schema, Vec::new()).unwrap();
        writer.append_value(record).unwrap();
        fs::write(folder.join(format!("{n}.avro")), writer.into_inner().unwrap()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_may_name_what_only_an_archived_schema_has() {
    let (db, folder) = (TestDb::new().await, tempfile::tempdir().unwrap());
    write_kites(folder.path());
    on(&db, ["migrate"]).exits(0);
    let filter = |filter: &'static str| ["run", "--group", "g", "--all", "--filter", filter];
    let said = on(&db, filter("wind.speed > 0.5")).exits(2);
    assert!(
        said.stderr.contains("`wind.speed`"),
        "nothing has it yet: {}",
        said.stderr
    );
    on(&db, ["ingest", folder.path().to_str().unwrap()]).exits(0);

    let said = on(&db, filter("wind.sped > 0.5")).exits(2);
    assert!(said.stderr.contains("the nearest is `wind.speed`"), "{}", said.stderr);
    json_on(&db, ["group", "show", "g"]).exits(1); // no group was made by what was refused
    let lines = on(&db, filter("wind.speed > 0.5 && name.matches('^K[01]$')"))
        .exits(0)
        .lines();
    let ids: Vec<_> = lines.iter().map(|line| line["alert_id"].clone()).collect();
    assert_eq!(ids, [101]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_and_a_filter_may_name_what_only_the_files_have() {
    let folder = tempfile::tempdir().unwrap();
    let packets = folder.path().join("packets");
    fs::create_dir(&packets).unwrap();
    write_kites(&packets);
    let config = folder.path().join("config.toml");
    let write = |fields: &str| {
        let text = format!(
            "[source.k]\nmode = \"files\"\n[source.k.files]\npaths = [\"{}\"]\n[processor]\nfilter = \"wind.speed > 0.5\"\n\
             [sink]\nfields = [{fields}]\n",
            packets.display()
        );
        fs::write(&config, text).unwrap();
        ["--config".to_owned(), config.to_str().unwrap().to_owned()]
    };
    let flags = write("\"wind.speed\", \"name\"");
    let said = run(["run".to_owned()].iter().chain(&flags)).exits(0);
    assert_eq!(
        said.stdout,
        "{\"wind.speed\":1.0,\"name\":\"K1\"}\n{\"wind.speed\":2.0,\"name\":\"K2\"}\n"
    );
    let checked = run(["doctor".to_owned(), "--json".to_owned()].iter().chain(&flags)).exits(0);
    let checks = checked.json()["checks"].as_array().unwrap().clone();
    assert!(
        checks
            .iter()
            .any(|check| check["name"] == "names" && check["ok"] == true)
    );

    let flags = write("\"wind.sped\"");
    let said = run(["run".to_owned()].iter().chain(&flags)).exits(2);
    assert!(said.stderr.contains("did you mean `wind.speed`"), "{}", said.stderr);
}

#[test]
fn a_name_that_nothing_reachable_knows_is_refused_whatever_the_database_does() {
    let base = ["run", "--group", "g", "--all", "--filter", "magnitud < 19.0"];
    let said = run(base).exits(2);
    assert!(said.stderr.contains("the nearest is `magnitude`"), "{}", said.stderr);
    let off = ["--database-url", "postgres://nobody@127.0.0.1:1/none"];
    let said = run(base.iter().chain(&off)).exits(2);
    assert!(
        said.stderr.contains("`magnitude`") && said.stderr.contains("could not be looked at"),
        "{}",
        said.stderr
    );
}
