//! The live source beside the bare client, in one run, and its memory under a burst.
//!
//! `cargo bench --bench kafka [-- SECTION...]` with sections `rate` and `memory`. The broker is librdkafka's mock
//! cluster in a process of its own (this program again), so that the client's processor time is that of the client
//! alone. Gates that are missed are printed MISSED and the run ends with exit code 1. `ALERTSTREAM_BENCH_ROUNDS` sets
//! the rounds of `rate` (default 7), `ALERTSTREAM_BENCH_SECONDS` how long `memory` handles alerts of its burst (default
//! 30; 0 is to the end). Ratios hold; absolutes depend on the machine and its load.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod broker;
mod hop;
mod memory;
mod rate;

use std::process::ExitCode;

/// Whether every gate so far was kept.
#[derive(Default)]
struct Gates {
    missed: usize,
}

impl Gates {
    /// Prints a figure beside its gate.
    fn judge(&mut self, what: &str, measured: String, gate: &str, kept: bool) {
        self.missed += usize::from(!kept);
        let verdict = if kept { "" } else { "MISSED" };
        println!("{what:<52} {measured:>22}   ({gate}) {verdict}");
    }
}

fn size(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // What this program starts of itself.
    match words.as_slice() {
        ["broker", rest @ ..] => {
            broker::serve(rest);
            return ExitCode::SUCCESS;
        }
        ["handle", bootstrap, topic, seconds] => {
            memory::handle(bootstrap, topic, seconds.parse().unwrap());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    if !words.contains(&"--bench") {
        println!("a benchmark: run it by `cargo bench --bench kafka`");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&&str> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let wants = |section: &str| wanted.is_empty() || wanted.iter().any(|word| **word == section);
    let mut gates = Gates::default();
    if wants("rate") {
        rate::run(&mut gates);
    }
    if wants("memory") {
        memory::run(&mut gates);
    }
    if gates.missed > 0 {
        println!("{} gates MISSED", gates.missed);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
