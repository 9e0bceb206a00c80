//! The resident memory of a client while 1.4 GB are there to be read and its handler takes 50 ms an alert.
//!
//! The client is a process of its own, whose highest resident set the kernel tells. The whole burst is in the topic
//! before it starts; it handles a part of it (its memory does not grow after that: the budget is full from the first
//! second on), or all of it with `ALERTSTREAM_BENCH_SECONDS=0`.

use std::process::Command;
use std::time::Duration;

use alertstream::decode::Decoder;
use alertstream::decode::packet::Packet;
use alertstream::pipeline::{Input, Limits, Pipeline};
use alertstream::processor::{AlertProcessor, Context, HandleError, Handler, ProcessorConfig, QueueConfig};
use alertstream::record::SourceId;
use alertstream::simulate::{Settings, Simulation};
use alertstream::source::kafka::KafkaSource;
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::place::Start;
use alertstream::stream::{ByteBudget, StreamConfig};
use tokio_util::sync::CancellationToken;

use super::broker::{Broker, Fill, TOPIC};
use super::{Gates, size};

const BURST: usize = 1_400_000_000;
const BYTES_MAX: usize = 128 << 20;
const MEGABYTES_MOST: u64 = 400;

pub(crate) fn run(gates: &mut Gates) {
    let folder = tempfile::tempdir().unwrap();
    let night = "2026-03-14".parse().unwrap();
    let packet = Simulation::new(Settings::night(night, 1))
        .unwrap()
        .next()
        .unwrap()
        .payload;
    let path = folder.path().join("packet");
    std::fs::write(&path, &packet).unwrap();
    let fill = Fill {
        messages: BURST.div_ceil(packet.len()),
        bytes_each: packet.len(),
    };
    let broker = Broker::start(fill, Some(&path));
    let seconds = size("ALERTSTREAM_BENCH_SECONDS", 30).to_string();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["handle", &broker.bootstrap, TOPIC, &seconds])
        .output()
        .unwrap();
    let said = String::from_utf8(child.stdout).unwrap();
    assert!(
        child.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&child.stderr)
    );
    let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [kilobytes, handled] = numbers[..] else {
        panic!("two numbers: {said}")
    };
    println!(
        "  a burst of {} alerts of {} bytes, {handled} of them handled",
        fill.messages, fill.bytes_each
    );
    gates.judge(
        "peak of resident memory, bytes_max = 128MiB, 50 ms an alert",
        format!("{} MB", kilobytes * 1024 / 1_000_000),
        &format!("below {MEGABYTES_MOST} MB"),
        kilobytes * 1024 < MEGABYTES_MOST * 1_000_000,
    );
}

struct Slow;

impl Handler for Slow {
    async fn handle(&self, _alert: &Packet, _cx: &Context<'_>) -> Result<(), HandleError> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(())
    }
}

/// The client's process: handles alerts for so long (0: until nothing is left for 5 s), and prints the peak of its
/// resident memory in kB and how many alerts were done.
pub(crate) fn handle(bootstrap: &str, topic: &str, seconds: u64) {
    let mut config = LiveConfig::new(bootstrap, &[topic]);
    config.start = Start::Earliest;
    let source = KafkaSource::new(SourceId::new("burst"), "burst", config).unwrap();
    let caught_up = source.caught_up();
    let input = Input {
        source: Box::new(source),
        stream: StreamConfig {
            budget: ByteBudget::new(BYTES_MAX),
            ..StreamConfig::default()
        },
        at_rest: Some(Box::new(move || caught_up.is_so())),
    };
    let limits = Limits {
        until_idle: (seconds == 0).then_some(Duration::from_secs(5)),
        ..Limits::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(async {
        let processor = AlertProcessor::new(Slow, &ProcessorConfig::default());
        let pipeline = Pipeline::start(processor, &QueueConfig::default(), Decoder::bundled());
        let stop = CancellationToken::new();
        if seconds > 0 {
            let stop = stop.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                stop.cancel();
            });
        }
        pipeline.run(vec![input], &limits, stop).await
    });
    let done = ended.sources.values().map(|totals| totals.stream.acked).sum::<u64>();
    assert!(ended.failure.is_none(), "{:?}", ended.failure);
    println!("{} {done}", peak_kilobytes());
}

fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
