//! What is fuzzed: each target takes any bytes and panics when a promise of the decoder is broken.
//!
//! Invariants: a target is deterministic. The same functions run under libFuzzer (`fuzz_targets/`) and on a stable
//! compiler (`examples/fuzz_smoke.rs`).

use alertstream::decode::packet::Packet;
use alertstream::decode::{Arena, Decoder, Value, framing};
use bytes::Bytes;

use super::any::Any;

/// The names of the targets.
pub const TARGETS: [&str; 4] = ["framing", "datum", "schema", "differential"];

/// Runs a target; says whether the input was accepted.
pub fn run(target: &str, decoder: &Decoder, input: &[u8]) -> bool {
    match target {
        "framing" => framing(input),
        "datum" => datum(decoder, input),
        "schema" => schema(decoder, input),
        "differential" => differential(decoder, input),
        other => panic!("no target `{other}`; there are {TARGETS:?}"),
    }
}

/// Whatever is framed lies in the payload and covers it.
pub fn framing(input: &[u8]) -> bool {
    let Ok(framing::Framing::Container(container)) = framing::detect(input) else {
        return false;
    };
    let mut end = container.header_len + 16;
    assert!(end <= input.len());
    for block in container.blocks() {
        let Ok(block) = block else { return false };
        assert_eq!(block.at, end);
        end = block.bytes_at + block.bytes.len() + 16;
    }
    assert_eq!(end, input.len());
    true
}

/// A whole packet: what is accepted is the same for every way of reading, and is never a prefix of something accepted.
pub fn datum(decoder: &Decoder, input: &[u8]) -> bool {
    let payload = Bytes::copy_from_slice(input);
    let mut arena = Arena::new();
    let decoded = decoder.decode(&payload);
    assert_eq!(decoded.is_ok(), decoder.validate(&payload).is_ok());
    assert_eq!(decoded.is_ok(), decoder.decode_into(&payload, &mut arena).is_ok());
    let Ok(packet) = decoded else { return false };
    assert_eq!(
        packet.header(),
        &decoder.header(&payload).expect("a whole packet has its header")
    );
    packet.to_json();
    packet.light_curve();
    if let Some(ztf) = packet.ztf(&mut arena) {
        assert_eq!(ztf.previous().count(), rows(&packet, "prv_candidates"));
    }
    if let Some(rubin) = packet.rubin(&mut arena) {
        assert_eq!(rubin.previous().count(), rows(&packet, "prvDiaSources"));
    }
    let cut = payload.slice(..payload.len() - 1);
    assert!(
        decoder.decode(&cut).is_err(),
        "a packet without its last byte is no packet"
    );
    let parts = decoder.split(&payload).expect("a packet is a file of one record");
    assert_eq!(parts, [payload]);
    true
}

fn rows(packet: &Packet, path: &str) -> usize {
    match packet.get(path) {
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    }
}

/// Any text as writer schema of an empty and of a short datum.
pub fn schema(decoder: &Decoder, input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let mut read = false;
    for datum in [&[][..], &[0; 64]] {
        let payload = Bytes::from(super::generate::container(&text, datum));
        match decoder.decode(&payload) {
            Ok(packet) => drop(packet.to_json()),
            Err(error) if matches!(error.reason(), "bad_schema" | "too_deep" | "too_large") => continue,
            Err(_) => {}
        }
        read = true;
    }
    read
}

/// What is accepted, the two other decoders accept too, with the same values; what they refuse is refused.
///
/// They accept more: apache-avro turns some truncations into nulls, and both ignore what follows a record. A schema that
/// one of them does not read, and logical types, which they convert, are passed over.
pub fn differential(decoder: &Decoder, input: &[u8]) -> bool {
    let payload = Bytes::copy_from_slice(input);
    let Ok(packet) = decoder.decode(&payload) else {
        return false;
    };
    if packet.container_header_len().is_none() || holds(input, b"logicalType") || begins_with_nothing(input) {
        return true;
    }
    let ours = Any::ours(&packet.root());
    if let Ok(mut reader) = apache_avro::Reader::new(input) {
        let theirs = reader
            .next()
            .expect("one record")
            .expect("apache-avro reads what is accepted here");
        assert!(agree(&ours, &Any::apache(&theirs)), "apache-avro reads other values");
    }
    if let Ok(mut reader) = serde_avro_fast::object_container_file_encoding::Reader::from_slice(input) {
        let theirs = reader
            .deserialize_next::<Any>()
            .expect("serde_avro_fast reads what is accepted here")
            .expect("one record");
        assert!(agree(&ours, &theirs), "serde_avro_fast reads other values");
    }
    true
}

/// Whether the first container block has no records: apache-avro takes that for the end of the file.
fn begins_with_nothing(input: &[u8]) -> bool {
    let Ok(framing::Framing::Container(container)) = framing::detect(input) else {
        return false;
    };
    matches!(container.blocks().next(), Some(Ok(block)) if block.records == 0)
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// Whether two values are the same, floats by their bits. Entries are compared by key: serde tells no map from a record,
/// and of a key that comes twice in a map apache-avro keeps one.
fn agree(ours: &Any, theirs: &Any) -> bool {
    match (ours, theirs) {
        (Any::List(a), Any::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| agree(a, b)),
        (Any::Record(a), Any::Record(b)) => {
            let has = |list: &[(String, Any)], key: &str| list.iter().any(|(k, _)| k == key);
            a.iter().all(|(key, _)| has(b, key))
                && b.iter()
                    .all(|(key, theirs)| a.iter().any(|(k, ours)| k == key && agree(ours, theirs)))
        }
        _ => ours == theirs,
    }
}
