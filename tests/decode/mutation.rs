//! Damaged packets: no panic, every truncation refused, every promise of the fuzz targets kept.

use alertstream::decode::Decoder;
use bytes::Bytes;

use crate::corpus;
use crate::generate::{self, Dice};
use crate::targets;

fn generated(seed: u64) -> Vec<Bytes> {
    let mut dice = Dice::new(seed);
    let texts = [
        (0, include_str!("../../schemas/ztf/v1.8.json")),
        (0, include_str!("../../schemas/ztf/v4.02.json")),
        (0, include_str!("../../schemas/winter/v0.1.json")),
        (900, include_str!("../../schemas/lsst/v9.0.json")),
    ];
    let packet = |(id, text): (u32, &str)| {
        let datum = generate::datum(&serde_json::from_str(text).unwrap(), &mut dice, 100);
        Bytes::from(if id == 0 {
            generate::container(text, &datum)
        } else {
            generate::confluent(id, &datum)
        })
    };
    texts.map(packet).into()
}

#[test]
fn every_truncation_is_refused() {
    let decoder = Decoder::bundled();
    for packet in generated(1) {
        assert!(decoder.decode(&packet).is_ok());
        for cut in 0..packet.len() {
            let error = decoder.decode(&packet.slice(..cut)).unwrap_err();
            assert!(
                matches!(error.reason(), "truncated" | "empty" | "no_record"),
                "cut at {cut}: {error}"
            );
        }
    }
}

#[test]
fn every_truncation_of_a_real_packet_is_refused() {
    let decoder = Decoder::bundled();
    for file in corpus::good("every_truncation_of_a_real_packet_is_refused") {
        // Every length of the part behind the schema, at a stride that is no divisor of anything.
        for cut in (0..file.bytes.len()).rev().step_by(499) {
            let error = decoder.decode(&file.bytes.slice(..cut)).unwrap_err();
            assert!(
                matches!(error.reason(), "truncated" | "empty" | "no_record"),
                "{} at {cut}: {error}",
                file.name
            );
        }
    }
}

#[test]
fn damaged_packets_break_no_promise() {
    let decoder = Decoder::bundled();
    let mut dice = Dice::new(2);
    for seed in 0..40 {
        for packet in generated(seed) {
            for _ in 0..4 {
                let mut bytes = packet.to_vec();
                (0..=dice.below(3)).for_each(|_| generate::mutate(&mut bytes, &mut dice));
                targets::framing(&bytes);
                targets::datum(&decoder, &bytes);
                targets::differential(&decoder, &bytes);
            }
        }
    }
}

#[test]
fn damaged_real_packets_break_no_promise() {
    let decoder = Decoder::bundled();
    let mut dice = Dice::new(3);
    for file in corpus::good("damaged_real_packets_break_no_promise") {
        for _ in 0..5 {
            let mut bytes = file.bytes.to_vec();
            generate::mutate(&mut bytes, &mut dice);
            targets::framing(&bytes);
            targets::datum(&decoder, &bytes);
        }
    }
}

#[test]
fn damaged_schemas_break_no_promise() {
    let decoder = Decoder::bundled();
    let mut dice = Dice::new(4);
    for _ in 0..300 {
        let mut text = include_bytes!("../../schemas/decam/v0.1.0.json").to_vec();
        (0..=dice.below(3)).for_each(|_| generate::mutate(&mut text, &mut dice));
        targets::schema(&decoder, &text);
    }
}
