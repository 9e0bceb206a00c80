//! Packets for unit tests, from a schema and a datum.

use bytes::Bytes;

use super::wire::put_long;

const SYNC: [u8; 16] = *b"sync-of-the-test";

/// Frames a datum as a container file of one record.
pub(crate) fn packet_of(schema: &str, datum: &[u8]) -> Bytes {
    let mut bytes = b"Obj\x01".to_vec();
    put_long(&mut bytes, 1);
    for part in [b"avro.schema".as_slice(), schema.as_bytes()] {
        put_long(&mut bytes, part.len() as i64);
        bytes.extend(part);
    }
    put_long(&mut bytes, 0);
    bytes.extend(SYNC);
    put_long(&mut bytes, 1);
    put_long(&mut bytes, datum.len() as i64);
    bytes.extend(datum);
    bytes.extend(SYNC);
    bytes.into()
}
