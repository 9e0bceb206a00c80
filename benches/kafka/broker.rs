//! The mock cluster in a process of its own, with one topic filled before anybody reads it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alertstream::cli::embedded::mock_kafka::{MockKafka, PARTITION_BYTES_MAX};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

/// The topic's name.
pub(crate) const TOPIC: &str = "burst";

/// What a topic holds.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) messages: usize,
    pub(crate) bytes_each: usize,
}

impl Fill {
    /// Enough that none loses its oldest messages.
    fn partitions(self) -> usize {
        let per_partition = PARTITION_BYTES_MAX as usize * 9 / 10 / (self.bytes_each + 100);
        self.messages.div_ceil(per_partition).max(8)
    }
}

/// A running broker; it ends with this value.
pub(crate) struct Broker {
    child: Child,
    pub(crate) bootstrap: String,
}

impl Broker {
    /// Starts the process and waits until its topic is full. The messages are the file's bytes, or zeros without one.
    pub(crate) fn start(fill: Fill, payload: Option<&std::path::Path>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["broker", &fill.messages.to_string(), &fill.bytes_each.to_string()]);
        command.args(payload);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program again");
        let mut bootstrap = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut bootstrap).expect("its address");
        let bootstrap = bootstrap.trim().to_owned();
        assert!(!bootstrap.is_empty(), "the broker started");
        Self { child, bootstrap }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The life of the process: start, fill, say where, wait until nobody needs it.
pub(crate) fn serve(arguments: &[&str]) {
    let fill = Fill {
        messages: arguments[0].parse().unwrap(),
        bytes_each: arguments[1].parse().unwrap(),
    };
    let payload = match arguments.get(2) {
        Some(path) => std::fs::read(path).unwrap(),
        None => vec![0; fill.bytes_each],
    };
    let mock = MockKafka::start().unwrap();
    mock.create_topic(TOPIC, i32::try_from(fill.partitions()).unwrap())
        .unwrap();
    produce(mock.bootstrap(), fill, &payload);
    println!("{}", mock.bootstrap());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn produce(bootstrap: &str, fill: Fill, payload: &[u8]) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("linger.ms", "20")
        .set("queue.buffering.max.kbytes", "65536")
        .create()
        .unwrap();
    for number in 0..fill.messages {
        let partition = i32::try_from(number % fill.partitions()).unwrap();
        let mut record = BaseRecord::<(), [u8]>::to(TOPIC).partition(partition).payload(payload);
        while let Err((error, back)) = producer.send(record) {
            assert!(matches!(
                error,
                KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)
            ));
            producer.poll(Duration::from_millis(5));
            record = back;
        }
    }
    producer.flush(Duration::from_secs(120)).unwrap();
}
