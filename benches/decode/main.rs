//! What decoding costs, and the gates of the specification as ratios of one run.
//!
//! `cargo bench --bench decode` measures a simulated ZTF 4.02 packet, and the corpus' one if `ALERTSTREAM_CORPUS` is set;
//! against fastavro too where `python3` (or `PYTHON`) has it. Ends with 1 if a gate is missed. Each figure is the median
//! of many short rounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

mod attacks;
mod counting;
mod rivals;
mod steps;

#[path = "../../fuzz/src/generate.rs"]
#[allow(dead_code, reason = "shared with the fuzz targets")]
mod generate;
#[path = "../../fuzz/src/hostile.rs"]
#[allow(dead_code, reason = "shared with the fuzz targets")]
mod hostile;

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use alertstream::decode::{Arena, Decoder};
use alertstream::simulate::{Settings, Simulation};
use bytes::Bytes;

use counting::Cost;

/// The packets that are measured, with their names.
fn packets() -> Vec<(String, Bytes)> {
    let night = chrono::NaiveDate::from_ymd_opt(2026, 3, 14).expect("a night");
    let simulation = Simulation::new(Settings::night(night, 200)).expect("a simulation");
    let alike = simulation
        .map(|packet| packet.payload)
        .find(|payload| (68_000..76_000).contains(&payload.len()));
    let mut packets = vec![("simulated ztf 4.02".to_owned(), alike.expect("a packet of 72 kB"))];
    if let Some(corpus) = std::env::var_os("ALERTSTREAM_CORPUS") {
        let path = Path::new(&corpus).join("ztf/v4.02/2695378462115010012.avro");
        if let Ok(bytes) = std::fs::read(&path) {
            packets.push(("ztf 4.02 of the corpus".into(), bytes.into()));
        }
    }
    packets
}

/// One gate: a ratio or count that must be at most or at least something.
struct Gate {
    text: &'static str,
    value: f64,
    met: bool,
}

fn at_most(text: &'static str, value: f64, most: f64) -> Gate {
    Gate {
        text,
        value,
        met: value <= most,
    }
}

fn at_least(text: &'static str, value: f64, least: f64) -> Gate {
    Gate {
        text,
        value,
        met: value >= least,
    }
}

fn main() {
    let packets = packets();
    let mut missed = 0;
    for (name, payload) in &packets {
        println!(
            "\n{name}, {} bytes; one core, warm; median of 101 rounds",
            payload.len()
        );
        for gate in gates(payload) {
            let word = if gate.met { "met   " } else { "MISSED" };
            println!("{word} {:60} {:8.2}", gate.text, gate.value);
            missed += usize::from(!gate.met);
        }
    }
    let payloads: Vec<Bytes> = packets.into_iter().map(|(_, payload)| payload).collect();
    missed += usize::from(!attacks::tell(&payloads));
    for payload in &payloads {
        steps::tell(&Decoder::bundled(), payload);
    }
    if missed > 0 {
        println!("\n{missed} gates missed");
        std::process::exit(1);
    }
}

fn gates(payload: &Bytes) -> Vec<Gate> {
    let decoder = Decoder::bundled();
    let mut arena = Arena::new();
    let mut copy = vec![0u8; payload.len()];
    let memcpy = Cost::of(|| black_box(&mut copy).copy_from_slice(black_box(payload))).told("memcpy of the message");
    let validate = Cost::of(|| decoder.validate(black_box(payload)).expect("a packet"))
        .told("validate: skip walk, framing, key check");
    let full = Cost::of(|| decoder.decode_into(black_box(payload), &mut arena).expect("a packet"))
        .told("full flat decode, framing, key check");
    let header = Cost::of(|| drop(black_box(decoder.header(black_box(payload)).expect("a packet"))))
        .told("header alone, framing, key check");
    Cost::of(|| drop(black_box(decoder.decode(black_box(payload)).expect("a packet"))))
        .told("decode: header, validation, owned packet");
    let fast = rivals::serde_avro_fast(payload).told("serde_avro_fast, cached schema, borrowed");
    let apache = rivals::apache(payload);
    apache.value.told("apache-avro, cached schema, to Value");
    let value = apache.value_path.told("apache-avro, cached schema, to Value to struct");
    apache.direct.told("apache-avro, cached schema, owned struct");
    let full_seconds = full.seconds;
    let mut gates = vec![
        at_most(
            "full flat decode / memcpy, at most 3",
            full_seconds / memcpy.seconds,
            3.0,
        ),
        at_least(
            "serde_avro_fast / full flat decode, at least 4",
            fast.seconds / full_seconds,
            4.0,
        ),
        at_least(
            "apache-avro through Value / full flat decode, at least 25",
            value.seconds / full_seconds,
            25.0,
        ),
        at_most(
            "allocations an alert, full flat decode and validation, 0",
            (full.allocations + validate.allocations) as f64,
            0.0,
        ),
    ];
    if let Some((cached, reader)) = fastavro(payload) {
        gates.push(at_least(
            "fastavro cached / full flat decode, at least 80",
            cached / full_seconds,
            80.0,
        ));
        gates.push(at_least(
            "fastavro container reader / header, at least 100",
            reader / header.seconds,
            100.0,
        ));
    }
    gates
}

/// What fastavro takes for the same packet, s: with a cached schema, and its container reader.
fn fastavro(payload: &Bytes) -> Option<(f64, f64)> {
    let packet = Path::new(env!("CARGO_TARGET_TMPDIR")).join("decode-bench.avro");
    std::fs::write(&packet, payload).ok()?;
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/fastavro.py");
    let said = Command::new(python).arg(script).arg(&packet).output().ok();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let figures = said.as_deref().unwrap_or("skipped: there is no python3\n");
    print!("{figures}");
    let us = |row: &str| -> Option<f64> {
        let line = figures.lines().find(|line| line.starts_with(row))?;
        line.trim_end_matches(" us").rsplit(' ').next()?.parse().ok()
    };
    Some((us("cached")? * 1e-6, us("container")? * 1e-6))
}
