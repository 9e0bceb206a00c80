//! Avro's binary encoding, the few types that packets need, and the two framings.
//!
//! By hand, though encoding is what a crate could do: the template walks the schema once per survey and writes a packet's
//! bytes in place, where a crate wants a tree of values per packet. The tests read every packet with apache-avro.

/// Appends a long (an int is written the same way).
pub(super) fn long(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

/// Appends bytes, or the bytes of a string.
pub(super) fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    long(out, value.len() as i64);
    out.extend_from_slice(value);
}

/// Gives what a container file has before its first sync marker: magic, codec null and the writer schema.
pub(super) fn container_header(schema: &str) -> Vec<u8> {
    let mut out = b"Obj\x01".to_vec();
    long(&mut out, 2);
    for (key, value) in [("avro.schema", schema), ("avro.codec", "null")] {
        bytes(&mut out, key.as_bytes());
        bytes(&mut out, value.as_bytes());
    }
    long(&mut out, 0);
    out
}

/// Appends a container file of one record.
pub(super) fn container(out: &mut Vec<u8>, header: &[u8], sync: [u8; 16], datum: &[u8]) {
    out.reserve(header.len() + datum.len() + 64);
    out.extend_from_slice(header);
    out.extend_from_slice(&sync);
    long(out, 1);
    bytes(out, datum);
    out.extend_from_slice(&sync);
}

/// Appends the Confluent wire format's header: a zero byte and the schema's id, big-endian.
pub(super) fn confluent_header(out: &mut Vec<u8>, id: u32) {
    out.push(0);
    out.extend_from_slice(&id.to_be_bytes());
}
