//! Runs a fuzz target on a stable compiler, over damaged generated packets:
//! `cargo run --release --example fuzz_smoke -- --seconds 60 datum` (or `framing`, `schema`, `differential`; no name: all).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

use std::time::{Duration, Instant};

use alertstream::decode::Decoder;

#[path = "../fuzz/src/generate.rs"]
mod generate;
#[path = "../fuzz/src/targets.rs"]
mod targets;

use generate::Dice;

const SCHEMAS: [(u32, &str); 4] = [
    (0, include_str!("../schemas/ztf/v4.02.json")),
    (0, include_str!("../schemas/winter/v0.1.json")),
    (900, include_str!("../schemas/lsst/v9.0.json")),
    (
        0,
        r#"{"type":"record","name":"odd","fields":[{"name":"m","type":{"type":"map","values":"int"}},
        {"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},{"name":"candid","type":"long"},
        {"name":"u","type":["null","int",{"type":"array","items":"string"},{"type":"fixed","name":"F","size":5}]}]}"#,
    ),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| {
        args.iter()
            .skip_while(|a| *a != flag)
            .nth(1)
            .map(|v| v.parse().expect("a number"))
    };
    let within = Duration::from_secs(after("--seconds").unwrap_or(10));
    let seed = after("--seed").unwrap_or(1);
    let named = args
        .iter()
        .find(|a| targets::TARGETS.contains(&a.as_str()))
        .map(String::as_str);
    for target in targets::TARGETS.into_iter().filter(|t| named.is_none_or(|n| n == *t)) {
        let (inputs, accepted) = smoke(target, seed, within);
        println!("{target}: {inputs} inputs, {accepted} packets accepted, no promise broken");
    }
}

/// Runs one target for a time; gives how many inputs it saw, and how many of them were packets.
fn smoke(target: &str, seed: u64, within: Duration) -> (u64, u64) {
    let decoder = Decoder::bundled();
    let schemas = SCHEMAS.map(|(id, text)| (id, text, serde_json::from_str(text).expect("a schema")));
    let start = Instant::now();
    let (mut inputs, mut accepted) = (0, 0);
    for n in 0.. {
        let mut dice = Dice::new(seed.wrapping_add(n));
        let (id, text, schema) = &schemas[dice.below(schemas.len())];
        let datum = generate::datum(schema, &mut dice, 64);
        let mut bytes = match (target, *id) {
            ("schema", _) => text.as_bytes().to_vec(),
            (_, 0) => generate::container(text, &datum),
            (_, id) if dice.below(2) == 0 => generate::confluent(id, &datum),
            _ => generate::container(text, &datum),
        };
        (0..dice.below(4)).for_each(|_| generate::mutate(&mut bytes, &mut dice));
        targets::run(target, &decoder, &bytes);
        inputs += 1;
        accepted += u64::from(decoder.decode(&bytes.into()).is_ok());
        if n % 64 == 0 && start.elapsed() > within {
            break;
        }
    }
    (inputs, accepted)
}
