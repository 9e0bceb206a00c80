//! Why a payload is no packet: one error with a stable reason class, the place (byte offset, field path) and the cause.
//!
//! Invariants: [`DecodeError::reason`] is a name that scripts and dead letters rely on; the text says where and why.
//! Must not know how a packet is decoded.

use super::packet::PacketFraming;
use crate::ack::Rejection;
use crate::error::ErrorClass;

/// Why a payload was refused.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There are no bytes: a tombstone on Kafka, an empty file elsewhere.
    #[error("the payload is empty")]
    Empty,
    /// Neither a container file nor the Confluent framing.
    #[error("not an alert packet: it begins with `{head}`, neither `Obj\\x01` (container) nor 0x00 (Confluent)")]
    NotAvro {
        /// The first bytes, in hexadecimal.
        head: String,
    },
    /// The payload ends before the packet does.
    #[error("truncated {place}: {cause}")]
    Truncated {
        /// Where.
        place: Place,
        /// What was wanted and what was there.
        cause: String,
    },
    /// A byte has a value that no writer produces.
    #[error("damaged {place}: {cause}")]
    Damaged {
        /// Where.
        place: Place,
        /// What was read.
        cause: String,
    },
    /// Bytes were lost or added by a line-ending conversion of a binary file.
    #[error(
        "damaged by line-ending conversion: the container block at byte {at} is {cause}; transfer the file in binary mode"
    )]
    LineEndings {
        /// Offset of the container block, bytes.
        at: usize,
        /// How the lengths differ.
        cause: String,
    },
    /// The container names a codec that this decoder does not read.
    #[error("unknown codec `{0}` in the container's header; `null` and `deflate` are read")]
    UnknownCodec(String),
    /// The Confluent framing names a schema that nothing here knows.
    #[error("unknown schema id `{id}`: it is not bundled, and no schema registry is configured")]
    UnknownSchema {
        /// The registry's number of the schema.
        id: u32,
    },
    /// The schema is not known yet, but a registry may know it: wait with [`Decoder::resolve`](super::Decoder::resolve).
    #[error("schema id `{id}` is not here yet: it is being asked of the registry")]
    SchemaPending {
        /// The registry's number of the schema.
        id: u32,
    },
    /// The writer schema cannot be used.
    #[error("bad writer schema: {0}")]
    BadSchema(String),
    /// The packet ends before the payload does.
    #[error("trailing bytes {place}: {cause}")]
    TrailingBytes {
        /// Where the packet ends.
        place: Place,
        /// How much is left over.
        cause: String,
    },
    /// A limit of the decoder was passed.
    #[error("too large {place}: {cause}")]
    TooLarge {
        /// Where.
        place: Place,
        /// Which limit.
        cause: String,
    },
    /// The schema nests too deeply.
    #[error("writer schema too deep: {0}")]
    TooDeep(String),
    /// A container of several records where one packet was wanted.
    #[error("the container holds {records} records, one was wanted: read it as a file")]
    SeveralRecords {
        /// How many.
        records: u64,
    },
    /// A container without a record.
    #[error("the container holds no record")]
    NoRecord,
}

impl DecodeError {
    /// Gives the reason class of the dead letter, a stable name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NotAvro { .. } => "not_avro",
            Self::Truncated { .. } => "truncated",
            Self::Damaged { .. } => "damaged",
            Self::LineEndings { .. } => "line_endings",
            Self::UnknownCodec(_) => "unknown_codec",
            Self::UnknownSchema { .. } => "unknown_schema",
            Self::SchemaPending { .. } => "schema_pending",
            Self::BadSchema(_) => "bad_schema",
            Self::TrailingBytes { .. } => "trailing_bytes",
            Self::TooLarge { .. } => "too_large",
            Self::TooDeep(_) => "too_deep",
            Self::SeveralRecords { .. } => "several_records",
            Self::NoRecord => "no_record",
        }
    }

    /// Gives what the error means for the stream: only a schema that may still arrive is worth waiting for.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SchemaPending { .. } => ErrorClass::Transient,
            _ => ErrorClass::Poison,
        }
    }

    /// Says how the payload was framed, where the place is in the datum.
    pub(crate) fn in_framing(mut self, framing: PacketFraming) -> Self {
        if let Self::Truncated { place, cause }
        | Self::Damaged { place, cause }
        | Self::TrailingBytes { place, cause }
        | Self::TooLarge { place, cause } = &mut self
            && place.from == Origin::Datum
        {
            cause.push_str(&match framing {
                PacketFraming::Container { .. } => " (framing: container)".to_owned(),
                PacketFraming::Confluent { id } => format!(" (framing: Confluent, schema id {id})"),
            });
        }
        self
    }

    pub(crate) fn truncated(place: Place, cause: impl Into<String>) -> Self {
        Self::Truncated {
            place,
            cause: cause.into(),
        }
    }

    pub(crate) fn damaged(place: Place, cause: impl Into<String>) -> Self {
        Self::Damaged {
            place,
            cause: cause.into(),
        }
    }

    pub(crate) fn trailing(place: Place, cause: impl Into<String>) -> Self {
        Self::TrailingBytes {
            place,
            cause: cause.into(),
        }
    }

    pub(crate) fn too_large(place: Place, cause: impl Into<String>) -> Self {
        Self::TooLarge {
            place,
            cause: cause.into(),
        }
    }
}

impl From<DecodeError> for Rejection {
    fn from(error: DecodeError) -> Self {
        Self::new(error.reason(), error.to_string())
    }
}

/// A place in a packet: a part of the framing or a field, and the byte offset in that part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The field's path, or the part of the framing.
    pub part: String,
    /// Offset from the beginning of the payload (container framing) or of the datum (`in datum`), bytes.
    pub at: usize,
    /// Which of the two the offset counts from.
    pub from: Origin,
}

/// What a byte offset counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The first byte of the payload.
    Payload,
    /// The first byte of the datum (inflated, where the codec is deflate).
    Datum,
}

impl Place {
    pub(crate) fn payload(part: impl Into<String>, at: usize) -> Self {
        Self {
            part: part.into(),
            at,
            from: Origin::Payload,
        }
    }

    pub(crate) fn datum(part: impl Into<String>, at: usize) -> Self {
        Self {
            part: part.into(),
            at,
            from: Origin::Datum,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.from {
            Origin::Payload => write!(f, "in the {} at byte {}", self.part, self.at),
            Origin::Datum if self.part.is_empty() => write!(f, "at byte {} of the datum", self.at),
            Origin::Datum => write!(f, "in field `{}` at byte {} of the datum", self.part, self.at),
        }
    }
}
