//! A decoded packet: owned, cheap to clone; views are made from it on demand.

use bytes::Bytes;

use crate::header::AlertHeader;

/// One alert: its bytes, its compiled schema, its header; validated whole.
#[derive(Clone)]
pub struct Packet {}

impl Packet {
    /// Gives the header.
    pub fn header(&self) -> &AlertHeader {
        todo!()
    }
    /// Gives the bytes as they were received.
    pub fn bytes(&self) -> &Bytes {
        todo!()
    }
    /// Gives the length of what stands before the first sync marker of a container (magic and metadata map), bytes;
    /// `None` for the Confluent framing.
    pub fn container_header_len(&self) -> Option<usize> {
        todo!()
    }
    /// Whether the mapping knows this survey and this version of its schema.
    pub fn schema_is_known(&self) -> bool {
        todo!()
    }
    /// The field at a dotted path as JSON (32-bit floats widened, NaN and infinities null); `None` when the schema
    /// has no such path.
    pub fn json(&self, _path: &str) -> Option<serde_json::Value> {
        todo!()
    }
}
