//! Everything at once on a real broker: two consumers as processes, one of them killed, the broker restarted, a
//! rebalance every second, completions out of order; and what must hold meanwhile.
//!
//! The broker is one of its own (`docker/kafka.sh` with another `KAFKA_RUN`), because it is restarted. The chaos lasts
//! `ALERTSTREAM_CHAOS_SECONDS` (20 unless set; `make bench` takes a minute).

mod holds;
mod watch;
mod worker;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use tokio::time::Instant;

use crate::broker::{Broker, SOON, fresh};
use watch::{Watch, violations};
use worker::Worker;

pub(crate) const PARTITIONS: i32 = 8;

fn seconds() -> u64 {
    let set = std::env::var("ALERTSTREAM_CHAOS_SECONDS").ok();
    set.map_or(20, |text| text.parse().expect("a number of seconds"))
}

/// A broker that only this test uses; stopped, with its data removed, when dropped.
struct Own {
    script: String,
    run: tempfile::TempDir,
    broker: Broker,
}

impl Own {
    fn start() -> Option<Self> {
        let script = std::env::var("KAFKA_SCRIPT").ok()?;
        let run = tempfile::tempdir().unwrap();
        let said = kafka_sh(&script, run.path(), "start");
        let bootstrap = said
            .lines()
            .find_map(|line| line.strip_prefix("KAFKA_BOOTSTRAP_SERVERS="));
        let bootstrap = bootstrap.expect("its address").to_owned();
        Some(Self {
            script,
            run,
            broker: Broker { bootstrap, mock: None },
        })
    }

    fn restart(&self) {
        kafka_sh(&self.script, self.run.path(), "restart");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        kafka_sh(&self.script, self.run.path(), "stop");
    }
}

fn kafka_sh(script: &str, run: &Path, what: &str) -> String {
    let log = run.join("said");
    let done = Command::new("bash")
        .args([script, what])
        .env("KAFKA_RUN", run.join("broker"))
        .stdout(std::fs::File::create(&log).unwrap())
        .status()
        .unwrap();
    assert!(done.success(), "kafka.sh {what}");
    std::fs::read_to_string(log).unwrap()
}

/// Sends numbers to every partition in turn until the time is over; gives how many there are of each.
async fn produce(producer: FutureProducer, topic: String, until: Instant) -> Vec<i64> {
    let mut sent = Vec::new();
    let mut each = vec![0; PARTITIONS as usize];
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    while Instant::now() < until {
        pace.tick().await;
        for partition in 0..PARTITIONS {
            let number = &mut each[partition as usize];
            let payload = format!("{partition}:{number}");
            let record = FutureRecord::<str, str>::to(&topic)
                .partition(partition)
                .payload(&payload);
            sent.push(producer.send_result(record).map_err(|(error, _)| error).unwrap());
            *number += 1;
        }
    }
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
    each
}

/// Joins the group and leaves it, once a second: each makes a rebalance. What it is given it neither handles nor commits.
fn come_and_go(broker: &Broker, topic: &str, group: &str, until: Instant) {
    let clients = broker.config(&[topic]).clients().unwrap();
    while Instant::now() < until {
        let next = Instant::now() + Duration::from_secs(1);
        let member: BaseConsumer = clients.consumer(group, 1 << 20).create().unwrap();
        member.subscribe(&[topic]).unwrap();
        while Instant::now() < next - Duration::from_millis(400) {
            let _ = member.poll(Duration::from_millis(20));
        }
        member.unsubscribe();
        drop(member);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos_loses_nothing_passes_nothing_and_repeats_only_what_was_in_flight() {
    let Some(own) = Own::start() else {
        println!(
            "skipped: chaos_loses_nothing_passes_nothing_and_repeats_only_what_was_in_flight (no broker of its own: KAFKA_SCRIPT)"
        );
        return;
    };
    let broker = &own.broker;
    let (topic, group) = (broker.topic(PARTITIONS).await, fresh("chaos"));
    let logs = tempfile::tempdir().unwrap();
    let start = |name: &str| Worker::start(&broker.bootstrap, &topic, &group, &logs.path().join(name));
    let (mut killed, other) = (start("first"), start("second"));

    let lasts = Duration::from_secs(seconds());
    let (began, until) = (Instant::now(), Instant::now() + lasts);
    let watch = Watch::start(broker, &topic, &group, logs.path());
    let producing = tokio::spawn(produce(broker.producer(), topic.clone(), until));
    let third = std::thread::scope(|scope| {
        scope.spawn(|| come_and_go(broker, &topic, &group, until));
        std::thread::sleep(lasts / 4);
        killed.kill();
        let third = start("third");
        std::thread::sleep((began + lasts / 2).saturating_duration_since(Instant::now()));
        own.restart();
        third
    });
    let each = producing.await.unwrap();

    let everything = async {
        while watch.last() != each {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let done = tokio::time::timeout(SOON * 2, everything).await;
    assert!(done.is_ok(), "committed {:?} of {each:?}", watch.last());
    assert!(third.end() && other.end(), "both end well");
    let seen = watch.end();
    assert_eq!(broker.committed(&group, &topic, PARTITIONS), each);
    assert_eq!(violations(&seen, &each), Vec::<String>::new());
    println!(
        "{} alerts, {} handled more than once, {} looks at the commits, {} s of chaos",
        each.iter().sum::<i64>(),
        seen.repeated(),
        seen.looks,
        lasts.as_secs()
    );
    let ends = holds::ends(seen.holds);
    println!(
        "{} partitions given back with a commit, {} alerts of them in flight; {} cut off, {} alerts of them in flight or \
         not committed; {} given again",
        ends.committed, ends.in_flight, ends.cut, ends.uncommitted, ends.again
    );
    assert_eq!(ends.faults, Vec::<String>::new());
    assert!(ends.cut > 0 && ends.committed > 0, "both kinds of ends were there");
}
