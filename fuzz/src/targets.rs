//! What is fuzzed: each target takes any bytes and panics when a promise of the decoder is broken.
//!
//! Invariants: a target is deterministic. The same functions run under libFuzzer (`fuzz_targets/`) and on a stable
//! compiler (`examples/fuzz_smoke.rs`).

use alertstream::decode::packet::Packet;
use alertstream::decode::{Arena, Decoder, Value, framing};
use bytes::Bytes;

/// The names of the targets.
pub const TARGETS: [&str; 4] = ["framing", "datum", "schema", "differential"];

/// Runs a target.
pub fn run(target: &str, decoder: &Decoder, input: &[u8]) {
    match target {
        "framing" => framing(input),
        "datum" => datum(decoder, input),
        "schema" => schema(decoder, input),
        "differential" => differential(decoder, input),
        other => panic!("no target `{other}`; there are {TARGETS:?}"),
    }
}

/// Whatever is framed lies in the payload and covers it.
pub fn framing(input: &[u8]) {
    let Ok(framing::Framing::Container(container)) = framing::detect(input) else {
        return;
    };
    let mut end = container.header_len + 16;
    assert!(end <= input.len());
    for block in container.blocks() {
        let Ok(block) = block else { return };
        assert_eq!(block.at, end);
        end = block.bytes_at + block.bytes.len() + 16;
    }
    assert_eq!(end, input.len());
}

/// A whole packet: what is accepted is the same for every way of reading, and is never a prefix of something accepted.
pub fn datum(decoder: &Decoder, input: &[u8]) {
    let payload = Bytes::copy_from_slice(input);
    let mut arena = Arena::new();
    let decoded = decoder.decode(&payload);
    assert_eq!(decoded.is_ok(), decoder.validate(&payload).is_ok());
    assert_eq!(decoded.is_ok(), decoder.decode_into(&payload, &mut arena).is_ok());
    let Ok(packet) = decoded else { return };
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
}

fn rows(packet: &Packet, path: &str) -> usize {
    match packet.get(path) {
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    }
}

/// Any text as writer schema of an empty and of a short datum.
pub fn schema(decoder: &Decoder, input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for datum in [&[][..], &[0; 64]] {
        let payload = Bytes::from(super::generate::container(&text, datum));
        if let Ok(packet) = decoder.decode(&payload) {
            packet.to_json();
        }
    }
}

/// What is accepted, the two other decoders accept too, with the same values; what they refuse is refused.
///
/// They accept more: apache-avro turns some truncations into nulls, and both ignore what follows a record.
pub fn differential(decoder: &Decoder, input: &[u8]) {
    let payload = Bytes::copy_from_slice(input);
    let Ok(packet) = decoder.decode(&payload) else { return };
    if packet.container_header_len().is_none() {
        return;
    }
    if let Ok(mut reader) = apache_avro::Reader::new(input) {
        let theirs = reader
            .next()
            .expect("one record")
            .expect("apache-avro reads what is accepted here");
        assert!(same(&packet.root(), &theirs), "apache-avro reads other values");
    }
}

/// Whether two values are the same, floats by their bits.
pub fn same(ours: &Value<'_>, theirs: &apache_avro::types::Value) -> bool {
    use apache_avro::types::Value as V;
    match (ours, theirs) {
        (ours, V::Union(_, inner)) => same(ours, inner),
        (Value::Null, V::Null) => true,
        (Value::Boolean(a), V::Boolean(b)) => a == b,
        (Value::Int(a), V::Int(b)) => a == b,
        (Value::Long(a), V::Long(b)) => a == b,
        (Value::Float(a), V::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Double(a), V::Double(b)) => a.to_bits() == b.to_bits(),
        (Value::String(a), V::String(b) | V::Enum(_, b)) => a == b,
        (Value::Bytes(a), V::Bytes(b) | V::Fixed(_, b)) => a == b,
        (Value::Array(a), V::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((_, ours), theirs)| same(&ours, theirs))
        }
        (Value::Record(a), V::Record(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|((n, ours), (m, theirs))| n == m && same(&ours, theirs))
        }
        (Value::Map(a), V::Map(b)) => {
            a.iter().all(|(key, _)| b.contains_key(key))
                && b.iter()
                    .all(|(key, theirs)| a.iter().any(|(k, ours)| k == key && same(&ours, theirs)))
        }
        _ => false,
    }
}
