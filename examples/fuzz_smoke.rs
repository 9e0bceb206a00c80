//! Runs a fuzz target on a stable compiler, over damaged generated packets:
//! `cargo run --release --example fuzz_smoke -- --seconds 60 datum` (or `framing`, `schema`, `differential`; no name: all).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

use std::path::Path;
use std::time::{Duration, Instant};

use alertstream::decode::Decoder;

#[path = "../fuzz/src/any.rs"]
mod any;
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
    let after = |flag: &str| args.iter().skip_while(|a| *a != flag).nth(1);
    let number = |flag: &str| after(flag).map(|v| v.parse().expect("a number"));
    let within = Duration::from_secs(number("--seconds").unwrap_or(10));
    let seed = number("--seed").unwrap_or(1);
    let named = args
        .iter()
        .find(|a| targets::TARGETS.contains(&a.as_str()))
        .map(String::as_str);
    for target in targets::TARGETS.into_iter().filter(|t| named.is_none_or(|n| n == *t)) {
        if let Some(folder) = after("--seeds") {
            write_seeds(target, &Path::new(folder).join(target));
            continue;
        }
        let (inputs, accepted) = smoke(target, seed, within);
        println!("{target}: {inputs} inputs, {accepted} accepted, no promise broken");
    }
}

/// Writes undamaged inputs for a fuzzer that damages them itself.
fn write_seeds(target: &str, folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    let schemas = schemas();
    for n in 0..100 {
        let bytes = input(target, &schemas, &mut Dice::new(n));
        std::fs::write(folder.join(format!("seed-{n}")), bytes).expect("a file");
    }
}

type Schemas = [(u32, &'static str, serde_json::Value); 4];

fn schemas() -> Schemas {
    SCHEMAS.map(|(id, text)| (id, text, serde_json::from_str(text).expect("a schema")))
}

/// Makes an undamaged input.
fn input(target: &str, schemas: &Schemas, dice: &mut Dice) -> Vec<u8> {
    let (id, text, schema) = &schemas[dice.below(schemas.len())];
    let datum = generate::datum(schema, dice, 64);
    match (target, *id) {
        ("schema", _) => text.as_bytes().to_vec(),
        (_, 0) => generate::container(text, &datum),
        (_, id) if dice.below(2) == 0 => generate::confluent(id, &datum),
        _ => generate::container(text, &datum),
    }
}

/// Runs one target for a time; gives how many inputs it saw, and how many of them were accepted.
fn smoke(target: &str, seed: u64, within: Duration) -> (u64, u64) {
    let (decoder, schemas) = (Decoder::bundled(), schemas());
    let start = Instant::now();
    let (mut inputs, mut accepted) = (0, 0);
    for n in 0.. {
        let mut dice = Dice::new(seed.wrapping_add(n));
        let mut bytes = input(target, &schemas, &mut dice);
        (0..dice.below(4)).for_each(|_| generate::mutate(&mut bytes, &mut dice));
        inputs += 1;
        accepted += u64::from(targets::run(target, &decoder, &bytes));
        if n % 64 == 0 && start.elapsed() > within {
            break;
        }
    }
    (inputs, accepted)
}
