//! What `produce` sent, read by kcat: another client, byte for byte.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use alertstream::cli::embedded::mock_kafka::MockKafka;

use crate::common::fixtures;
use crate::support::{run, write_packets};

/// Says whether kcat is installed.
fn is_there() -> bool {
    let mut kcat = Command::new("kcat");
    let tried = kcat.arg("-V").stdout(Stdio::null()).stderr(Stdio::null());
    tried.status().is_ok_and(|status| status.success())
}

#[test]
fn kcat_reads_what_produce_sent_byte_for_byte() {
    if !is_there() {
        println!("skipped: kcat_reads_what_produce_sent_byte_for_byte (no kcat)");
        return;
    }
    let (broker, folder) = (MockKafka::start().unwrap(), tempfile::tempdir().unwrap());
    broker.create_topic("sent", 3).unwrap();
    write_packets(folder.path(), 0..50);
    let path = folder.path().to_str().unwrap();
    let args = ["produce", path, "--topic", "sent", "--brokers", broker.bootstrap()];
    assert_eq!(run(args.iter().chain(&["--json"])).exits(0).json()["sent"], 50);
    // Each message as its size (32 bits, big-endian) and its bytes.
    let read = Command::new("kcat")
        .args([
            "-C",
            "-q",
            "-e",
            "-b",
            broker.bootstrap(),
            "-t",
            "sent",
            "-o",
            "beginning",
        ])
        .args(["-f", "%R%s"])
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let mut rest = &read.stdout[..];
    let mut seen = BTreeSet::new();
    while let Some((size, more)) = rest.split_first_chunk::<4>() {
        let (packet, after) = more.split_at(u32::from_be_bytes(*size) as usize);
        seen.insert(packet.to_vec());
        rest = after;
    }
    assert!(rest.is_empty());
    assert_eq!(seen, (0..50).map(fixtures::ztf_packet).collect());
}
