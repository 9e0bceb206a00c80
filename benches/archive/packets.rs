//! Packets of a real one's shape: a container header that all share (23 kB) and 48 kB of their own, which do not compress.

use alertstream::archive::ingest::Incoming;
use alertstream::header::AlertHeader;
use bytes::Bytes;

use super::rows::place;

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
    incoming(n, bytes.into())
}

fn incoming(n: usize, bytes: Bytes) -> Incoming {
    let (ra, dec) = place(n);
    let header = AlertHeader {
        survey: "ztf".into(),
        schema_version: Some("4.02".into()),
        object_id: Some(format!("ZTF18{:07}", n % 50_000)),
        alert_id: 595_147_630_015_010_000 + n as i64,
        jd: Some(2_458_349.5 + n as f64 * 1e-6),
        ra: Some(ra),
        dec: Some(dec),
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
        container_header_len: Some(HEADER),
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
