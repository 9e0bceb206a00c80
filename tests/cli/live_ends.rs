//! How a run over a live topic ends in the middle of its work: a second signal, a broker that is gone, and another
//! member that was killed.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use crate::common::fixtures;
use crate::live::Scene;
use crate::support::{command, finish, run, signal};

/// A packet whose line fits into no pipe: whoever writes it waits for a reader.
fn large(n: u64) -> Vec<u8> {
    let mut alert = fixtures::Ztf::new(n);
    alert.stamp = vec![7; 300_000];
    alert.packet()
}

/// A scene of six such packets, and a run over them that waits in the middle of its first line: nothing is settled.
fn stuck() -> (Scene, Child, ChildStdout) {
    stuck_until("none")
}

fn stuck_until(end: &str) -> (Scene, Child, ChildStdout) {
    let scene = Scene::with(0..0, end);
    let text = fs::read_to_string(scene.config()).unwrap();
    let sink = "[sink]\nkind = \"ndjson\"\nfields = [\"alert_id\", \"cutoutScience.stampData\"]\n";
    fs::write(scene.config(), text + sink).unwrap();
    (0..3).for_each(|p| scene.send_to(p, (0..2).map(|n| large(2 * u64::try_from(p).unwrap() + n))));
    let mut child = command()
        .args(["run", "--config", &scene.config()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = child.stdout.take().unwrap();
    lines.read_exact(&mut [0]).unwrap();
    (scene, child, lines)
}

#[test]
fn a_second_signal_over_a_live_topic_ends_at_once_with_130() {
    let (scene, mut child, lines) = stuck();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    signal(child.id(), "INT");
    assert!(said.any(|line| line.unwrap().contains("a second signal ends at once")));
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(lines);
    let again = run(["run", "--config", &scene.config(), "--until-idle", "1"]).exits(0);
    assert_eq!(again.lines().len(), 6, "nothing was committed");
}

#[test]
fn a_worker_that_does_not_end_is_told_with_how_long_it_was_waited_for() {
    let (_scene, mut child, lines) = stuck();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    signal(child.id(), "TERM");
    let told = said
        .find(|line| line.contains("did not end in time"))
        .expect("a warning");
    assert!(told.contains("waited=") && !told.contains("waited=0"), "{told}");
    drop(lines);
    assert_eq!(said.filter(|line| line.contains("panicked")).count(), 0);
    child.wait().unwrap();
}

#[test]
fn a_live_commit_that_cannot_be_confirmed_is_exit_3_and_comes_again() {
    let (scene, child, mut lines) = stuck();
    scene.broker.down().unwrap();
    signal(child.id(), "TERM");
    // Now what was begun is finished, but cannot be committed.
    let reader = std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()).unwrap());
    let said = finish(child).exits(3);
    assert!(said.stderr.contains("delivered again"), "{}", said.stderr);
    assert!(reader.join().unwrap() > 300_000, "lines were written");
    scene.broker.up().unwrap();
    let again = run(["run", "--config", &scene.config(), "--until-idle", "1"]).exits(0);
    assert_eq!(again.lines().len(), 6);
}

/// Starts a member beside one that is stuck, kills that one as soon as the new one has read something, and gives the
/// lines of the new one.
fn outlives(end: &str, more: &[&str]) -> Vec<String> {
    let (scene, mut killed, _lines) = stuck_until(end);
    let mut child = command()
        .args(["run", "--config", &scene.config()])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut read = vec![lines.next().unwrap().unwrap()];
    killed.kill().unwrap();
    killed.wait().unwrap();
    read.extend(lines.map(|line| line.unwrap()));
    finish(child).exits(0);
    read.sort();
    read.dedup();
    read
}

#[test]
fn idleness_does_not_count_while_the_partitions_of_a_killed_member_are_unread() {
    assert_eq!(outlives("none", &["--until-idle", "1"]).len(), 6);
}
