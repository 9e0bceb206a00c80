//! Packets of a real one's shape: a container header that all share (23 kB) and 48 kB of their own, which do not compress.

use alertstream::archive::ingest::Incoming;
use alertstream::header::AlertHeader;
use bytes::Bytes;

/// Bytes of the shared container header.
pub(crate) const HEADER: usize = 23_000;
/// Bytes that differ from packet to packet.
pub(crate) const BODY: usize = 48_000;

/// The n-th packet.
pub(crate) fn packet(n: usize) -> Incoming {
    let mut bytes = Vec::with_capacity(HEADER + BODY);
    bytes.extend_from_slice(b"Obj\x01");
    bytes.resize(HEADER, b'{');
    fill(&mut bytes, HEADER + BODY, n as u64);
    incoming(n, bytes.into(), Some(HEADER))
}

/// The n-th alert with a packet of a few bytes, for what only touches the columns.
pub(crate) fn small(n: usize) -> Incoming {
    incoming(n, Bytes::copy_from_slice(&(n as u64).to_be_bytes()), None)
}

fn incoming(n: usize, bytes: Bytes, container_header_len: Option<usize>) -> Incoming {
    let turn = (n as f64 * 0.618_033_988_749_895).fract();
    let height = (n as f64 * 0.754_877_666_246_693).fract() * 2.0 - 1.0;
    let header = AlertHeader {
        survey: "ztf".into(),
        schema_version: Some("4.02".into()),
        object_id: Some(format!("ZTF18{:07}", n % 50_000)),
        alert_id: 595_147_630_015_010_000 + n as i64,
        jd: Some(2_458_349.5 + n as f64 * 1e-6),
        ra: Some(turn * 360.0),
        dec: Some(height.asin().to_degrees()),
        programid: 1,
        band: Some("r".into()),
        magnitude: Some(18.5),
        rb: Some(0.8),
        drb: Some(0.9),
        ndethist: Some(4),
    };
    Incoming {
        header,
        bytes,
        container_header_len,
        schema_is_known: true,
        origin: None,
        reframed: false,
    }
}

/// Appends pseudo-random bytes (xorshift) up to a length.
fn fill(bytes: &mut Vec<u8>, length: usize, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
}
