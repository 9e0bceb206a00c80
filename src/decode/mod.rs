//! From bytes to packets: strict, with a reason for every refusal.

pub mod framing;
pub mod packet;
pub mod plan;
pub mod schemas;

use bytes::Bytes;
use packet::Packet;

/// Decodes packets; cheap to clone, shared by all workers; caches compiled schemas.
#[derive(Clone)]
pub struct Decoder {}

impl Decoder {
    /// A decoder with the bundled schemas and survey mappings.
    pub fn bundled() -> Self {
        todo!()
    }
    /// Frames, finds the schema, decodes the header and validates the whole packet.
    ///
    /// # Errors
    /// [`DecodeError`] with the reason; nothing half-right is ever returned.
    pub fn decode(&self, _payload: &Bytes) -> Result<Packet, DecodeError> {
        todo!()
    }
    /// Cuts a container file into one-record packets: one (the payload itself) when it holds one record, else each
    /// record with the file's header and sync marker. A file that is damaged anywhere is refused whole.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn split(&self, _file: &Bytes) -> Result<Vec<Bytes>, DecodeError> {
        todo!()
    }
}

/// Why a payload is no packet.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct DecodeError {
    reason: &'static str,
}

impl DecodeError {
    /// The reason class of the dead letter: `not_avro`, `truncated`, `empty`, `damaged`, `line_endings`, `unknown_schema`, ...
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}
