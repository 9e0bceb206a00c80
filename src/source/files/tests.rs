//! The files source on small trees and archives that are made here.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use tempfile::TempDir;

use super::*;
use crate::dead_letter::MemoryStore;
use crate::stream::{ByteBudget, StreamConfig, StreamStats, open};

/// What came out of a run: position and payload of each delivery, reason and message of each dead letter.
struct Came {
    alerts: Vec<(String, String)>,
    reframed: Vec<bool>,
    refused: Vec<(String, String, String)>,
    stats: StreamStats,
}

/// A "container" here is text with `|` between its records.
fn split() -> Split {
    Arc::new(|file| {
        let text = std::str::from_utf8(file).map_err(|error| Rejection::new("no_text", error.to_string()))?;
        Ok(text
            .split('|')
            .map(|record| Bytes::copy_from_slice(record.as_bytes()))
            .collect())
    })
}

async fn run(root: &Path, paths: &[&str], bytes_max: usize) -> Came {
    let store = MemoryStore::new();
    let paths = paths.iter().map(|path| root.join(path)).collect();
    let source = FilesSource::new(SourceId::new("files"), paths, split());
    let progress = source.progress();
    let cfg = StreamConfig {
        dead_letters: Arc::new(store.clone()),
        budget: ByteBudget::new(bytes_max),
        ..StreamConfig::default()
    };
    let (mut stream, control) = open(Box::new(source), cfg);
    let strip = |text: String| text.replace(&format!("{}/", root.display()), "");
    let (mut alerts, mut reframed) = (Vec::new(), Vec::new());
    while let Some(delivery) = stream.next().await {
        let delivery = delivery.unwrap();
        let payload = String::from_utf8_lossy(&delivery.raw().payload).into_owned();
        alerts.push((strip(delivery.position().to_string()), payload));
        reframed.push(delivery.raw().reframed);
        delivery.ack();
    }
    let stats = control.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(progress.files_done(), progress.files_total());
    assert_eq!(progress.bytes_done(), progress.bytes_total());
    let refused = store.letters().into_iter().map(|letter| {
        (
            strip(letter.position.to_string()),
            letter.why.reason.into_owned(),
            strip(letter.why.message),
        )
    });
    Came {
        alerts,
        reframed,
        refused: refused.collect(),
        stats,
    }
}

fn write(root: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn tar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(content).unwrap();
    gzip.finish().unwrap()
}

fn pair(position: &str, payload: &str) -> (String, String) {
    (position.to_owned(), payload.to_owned())
}

#[tokio::test]
async fn folders_are_read_in_sorted_order_whatever_the_names() {
    let root = TempDir::new().unwrap();
    for name in ["a/z.avro", "a/b/no_extension", "a/b/1.txt", "c"] {
        write(root.path(), name, name);
    }
    write(
        root.path(),
        "a/y.tgz",
        gzip(&tar_of(&[("m2", b"two"), ("dir/m1", b"one")])),
    );
    let came = run(root.path(), &["c", "a"], 1 << 20).await;
    let expected = [
        pair("file:c#1", "c"),
        pair("file:a/b/1.txt#1", "a/b/1.txt"),
        pair("file:a/b/no_extension#1", "a/b/no_extension"),
        pair("file:a/y.tgz!m2#1", "two"),
        pair("file:a/y.tgz!dir/m1#1", "one"),
        pair("file:a/z.avro#1", "a/z.avro"),
    ];
    assert_eq!(came.alerts, expected);
    assert!(came.refused.is_empty());
}

#[tokio::test]
async fn a_container_of_several_records_is_cut() {
    let root = TempDir::new().unwrap();
    write(root.path(), "many", "one|two|three");
    write(root.path(), "one", "one");
    let came = run(root.path(), &["many", "one"], 1 << 20).await;
    let positions: Vec<&str> = came.alerts.iter().map(|(position, _)| position.as_str()).collect();
    assert_eq!(positions, ["file:many#1", "file:many#2", "file:many#3", "file:one#1"]);
    assert_eq!(came.reframed, [true, true, true, false]);
}

#[tokio::test]
async fn an_empty_file_is_a_delivery_without_bytes() {
    let root = TempDir::new().unwrap();
    write(root.path(), "empty", "");
    let came = run(root.path(), &["empty"], 1 << 20).await;
    assert_eq!(came.alerts, [pair("file:empty#1", "")]);
}

#[tokio::test]
async fn what_cannot_be_read_is_a_dead_letter_and_the_rest_goes_on() {
    let root = TempDir::new().unwrap();
    write(root.path(), "d/good", "good");
    std::os::unix::fs::symlink("nowhere", root.path().join("d/dangling")).unwrap();
    std::os::unix::net::UnixListener::bind(root.path().join("d/socket")).unwrap();
    let came = run(root.path(), &["d", "missing"], 1 << 20).await;
    assert_eq!(came.alerts, [pair("file:d/good#1", "good")]);
    let refused: Vec<_> = came
        .refused
        .iter()
        .map(|(at, reason, _)| (at.as_str(), reason.as_str()))
        .collect();
    let expected = [
        ("file:d/dangling#1", "unreadable"),
        ("file:d/socket#1", "unreadable"),
        ("file:missing#1", "unreadable"),
    ];
    assert_eq!(refused, expected);
    assert_eq!((came.stats.delivered, came.stats.acked, came.stats.rejected), (4, 1, 3));
}

#[tokio::test]
async fn cycles_of_links_end_and_each_file_comes_once() {
    let root = TempDir::new().unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, root.path().join(name)).unwrap();
    write(root.path(), "loop/x", "x");
    link(".", "loop/self");
    link(".", "loop/again");
    write(root.path(), "pair/a/in_a", "a");
    write(root.path(), "pair/b/in_b", "b");
    link("../b", "pair/a/to_b");
    link("../a", "pair/b/to_a");
    let came = run(root.path(), &["loop", "pair"], 1 << 20).await;
    let expected = [
        pair("file:loop/x#1", "x"),
        pair("file:pair/a/in_a#1", "a"),
        pair("file:pair/a/to_b/in_b#1", "b"),
    ];
    assert_eq!(came.alerts, expected);
    assert!(came.refused.is_empty(), "{:?}", came.refused);
}

#[tokio::test]
async fn a_damaged_archive_gives_what_stands_before_the_damage_and_one_dead_letter() {
    let root = TempDir::new().unwrap();
    let long = "x".repeat(3000);
    let tar = tar_of(&[("one", b"1"), ("two", long.as_bytes())]);
    write(root.path(), "cut_in_member.tar", &tar[..512 + 512 + 512 + 1000]);
    write(root.path(), "cut_after_member.tar", &tar[..512 + 512]);
    write(root.path(), "empty.tar", "");
    let mut flipped = tar.clone();
    flipped[512 + 512 + 3] ^= 1; // in the second member's header
    write(root.path(), "header.tar", flipped);
    let zipped = gzip(&tar);
    write(root.path(), "cut.tar.gz", &zipped[..zipped.len() - 30]);
    let mut sum = zipped.clone();
    let at = sum.len() - 6;
    sum[at] ^= 1; // in the checksum
    write(root.path(), "sum.tgz", sum);
    write(root.path(), "text.tar.gz", "no gzip at all");
    for (name, whole) in [
        ("cut_in_member.tar", 1),
        ("cut_after_member.tar", 1),
        ("empty.tar", 0),
        ("header.tar", 1),
        ("cut.tar.gz", 1),
        ("sum.tgz", 2),
        ("text.tar.gz", 0),
    ] {
        let came = run(root.path(), &[name], 1 << 20).await;
        assert!(
            came.alerts.len() == whole || (name == "cut.tar.gz" && came.alerts.len() <= 2),
            "{name}: {:?}",
            came.alerts.len()
        );
        assert_eq!(came.refused.len(), 1, "{name}: {:?}", came.refused);
        let (position, reason, message) = &came.refused[0];
        assert_eq!(
            (position.as_str(), reason.as_str()),
            (&*format!("file:{name}#1"), "damaged_archive"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_cut_is_a_dead_letter_with_the_reason_of_the_cut() {
    let root = TempDir::new().unwrap();
    write(root.path(), "bad", b"a|b\xff|c");
    write(root.path(), "good", b"a|b");
    let came = run(root.path(), &["bad", "good"], 1 << 20).await;
    assert_eq!(came.alerts, [pair("file:good#1", "a"), pair("file:good#2", "b")]);
    let (position, reason, _) = &came.refused[0];
    assert_eq!(
        (came.refused.len(), position.as_str(), reason.as_str()),
        (1, "file:bad#1", "no_text")
    );
}

#[tokio::test]
async fn an_archive_inside_an_archive_is_a_member_as_any_other() {
    let root = TempDir::new().unwrap();
    let inner = tar_of(&[("deep", b"x")]);
    write(root.path(), "outer.tar", tar_of(&[("inner.tar", &inner)]));
    let came = run(root.path(), &["outer.tar"], 1 << 20).await;
    assert_eq!(came.alerts.len(), 1);
    assert_eq!(came.alerts[0].0, "file:outer.tar!inner.tar#1");
}

#[tokio::test]
async fn the_same_path_twice_is_read_twice() {
    let root = TempDir::new().unwrap();
    write(root.path(), "a", "a");
    write(root.path(), "t.tar", tar_of(&[("m", b"1"), ("m", b"2")]));
    let came = run(root.path(), &["a", "a", "t.tar"], 1 << 20).await;
    let positions: Vec<&str> = came.alerts.iter().map(|(position, _)| position.as_str()).collect();
    assert_eq!(
        positions,
        ["file:a#1", "file:a~2#1", "file:t.tar!m#1", "file:t.tar!m~2#1"]
    );
}

#[tokio::test]
async fn files_above_the_budget_and_many_records_get_through() {
    let root = TempDir::new().unwrap();
    write(root.path(), "large", "x".repeat(100_000));
    let records = vec!["y".repeat(900); 50].join("|");
    write(root.path(), "many", records);
    let came = run(root.path(), &["large", "many"], 2000).await;
    assert_eq!(came.alerts.len(), 51);
}

#[tokio::test]
async fn shutdown_ends_the_reading() {
    let root = TempDir::new().unwrap();
    for n in 0..50 {
        write(root.path(), &format!("f{n:02}"), "x".repeat(600));
    }
    let source = FilesSource::new(SourceId::new("files"), vec![root.path().into()], split());
    let cfg = StreamConfig {
        budget: ByteBudget::new(3000),
        ..StreamConfig::default()
    };
    let (mut stream, control) = open(Box::new(source), cfg);
    let first = stream.next().await.unwrap().unwrap();
    first.ack();
    let stats = control.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((stats.delivered, stats.acked, stats.open), (1, 1, 0));
}
