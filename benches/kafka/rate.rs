//! Rate and processor time of a live stream, each round beside one of the bare client that copies every message once.
//!
//! Both ends read the same topic from its beginning with the same settings and a fresh group; what is counted is from
//! the first message to the last. The bare client settles and commits nothing; the stream acknowledges every alert and
//! commits every second. A third client stands between them: it polls on a thread of its own, keeps what a replay gives
//! back (payload, key, headers, broker time) and hands batches over a channel, and does nothing else. What it takes more
//! than the bare one is what that shape costs without any meaning of settle or commit; it has no gate.

use std::time::{Duration, Instant};

use alertstream::record::SourceId;
use alertstream::source::kafka::KafkaSource;
use alertstream::source::kafka::client::PassThrough;
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::place::Start;
use alertstream::stream::{StreamConfig, open};
use bytes::Bytes;
use futures::StreamExt;
use rdkafka::Message;
use rdkafka::consumer::{Consumer, StreamConsumer};

use super::broker::{Broker, Fill, TOPIC};
use super::{Gates, hop, size};

/// What one round took.
pub(crate) struct Took {
    wall: Duration,
    cpu: Duration,
}

/// A size of message, and how much more processor time it may take.
struct Case {
    name: &'static str,
    fill: Fill,
    extra_micros: f64,
}

const CASES: [Case; 2] = [
    Case {
        name: "1 kB",
        fill: Fill {
            messages: 600_000,
            bytes_each: 1_000,
        },
        extra_micros: 0.3,
    },
    Case {
        name: "70 kB",
        fill: Fill {
            messages: 15_000,
            bytes_each: 70_000,
        },
        extra_micros: 1.0,
    },
];

/// The least ratio of the rates.
const RATIO: f64 = 0.95;

pub(crate) fn run(gates: &mut Gates) {
    for case in &CASES {
        let broker = Broker::start(case.fill, None);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (mut ratios, mut extras) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        // The first round of each warms up and is not counted.
        for round in 0..=size("ALERTSTREAM_BENCH_ROUNDS", 7) {
            let group = format!("round-{round}-{}", case.name.replace(' ', ""));
            let count = case.fill.messages;
            let bare = runtime.block_on(bare(&broker.bootstrap, &format!("{group}-bare"), count));
            let hop = runtime.block_on(hop::run(&broker.bootstrap, &format!("{group}-hop"), count));
            let ours = runtime.block_on(ours(&broker.bootstrap, &format!("{group}-ours"), count));
            let rate = |took: &Took| count as f64 / took.wall.as_secs_f64();
            let micros = |took: &Took| took.cpu.as_secs_f64() * 1e6 / count as f64;
            println!(
                "  {} round {round}: bare {:.0}/s, {:.2} us of processor a message; over a channel {:.0}/s, {:.2} us; \
                 ours {:.0}/s, {:.2} us",
                case.name,
                rate(&bare),
                micros(&bare),
                rate(&hop),
                micros(&hop),
                rate(&ours),
                micros(&ours)
            );
            if round > 0 {
                for (at, took) in [&hop, &ours].into_iter().enumerate() {
                    ratios[at].push(rate(took) / rate(&bare));
                    extras[at].push(micros(took) - micros(&bare));
                }
            }
        }
        let ([hop_ratio, ratio], [hop_extra, extra]) = (ratios.map(median), extras.map(median));
        println!(
            "{}: over a channel, nothing else: rate {hop_ratio:.3}, {hop_extra:.2} us more",
            case.name
        );
        let what = format!("{}: rate beside the bare client's", case.name);
        gates.judge(
            &what,
            format!("{ratio:.3}"),
            &format!("at least {RATIO}"),
            ratio >= RATIO,
        );
        let what = format!("{}: processor time a message, more than bare", case.name);
        gates.judge(
            &what,
            format!("{extra:.2} us"),
            &format!("at most {} us", case.extra_micros),
            extra <= case.extra_micros,
        );
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The settings of both ends; the waits suit the mock cluster.
pub(crate) fn live(bootstrap: &str) -> LiveConfig {
    let mut config = LiveConfig::new(bootstrap, &[TOPIC]);
    config.start = Start::Earliest;
    config.librdkafka = PassThrough::new([("fetch.wait.max.ms".to_owned(), "10".to_owned())]);
    config
}

async fn bare(bootstrap: &str, group: &str, count: usize) -> Took {
    let bytes_max = StreamConfig::default().budget.bytes_max();
    let mut config = live(bootstrap).clients().unwrap().consumer(group, bytes_max);
    let consumer: StreamConsumer = config.set("auto.offset.reset", "earliest").create().unwrap();
    consumer.subscribe(&[TOPIC]).unwrap();
    let mut clock = None;
    for _ in 0..count {
        let message = consumer.recv().await.unwrap();
        clock.get_or_insert_with(Clock::start);
        let copy = message.payload().map(Bytes::copy_from_slice);
        std::hint::black_box(copy);
    }
    clock.unwrap().stop()
}

async fn ours(bootstrap: &str, group: &str, count: usize) -> Took {
    let source = KafkaSource::new(SourceId::new("bench"), group, live(bootstrap)).unwrap();
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    let mut clock = None;
    for _ in 0..count {
        let delivery = alerts.next().await.unwrap().unwrap();
        clock.get_or_insert_with(Clock::start);
        std::hint::black_box(delivery.get());
        delivery.ack();
    }
    let took = clock.unwrap().stop();
    let stats = control.shutdown(Duration::from_secs(30)).await.unwrap();
    assert_eq!(stats.acked, count as u64);
    took
}

/// Wall and processor time of this process.
pub(crate) struct Clock {
    wall: Instant,
    cpu: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu: processor_time(),
        }
    }

    pub(crate) fn stop(self) -> Took {
        Took {
            wall: self.wall.elapsed(),
            cpu: processor_time() - self.cpu,
        }
    }
}

/// User and system time of all threads so far, those that ended among them.
#[allow(unsafe_code)]
fn processor_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure it is given; it was zeroed, which is a valid value of it.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let time = |at: libc::timeval| Duration::from_micros(at.tv_sec as u64 * 1_000_000 + at.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}
