//! An alert as a row: what of a packet goes into which column.
//!
//! Invariants: container header + body is the packet, compared before it is stored; no float is NaN or infinite but `jd`,
//! whose unknown is `-Infinity`; no text holds a NUL or is longer than an index entry may be. Columns exist only to be
//! queried: what does not fit one is null there, the packet is whole all the same. Must not know how rows are written.

use std::cmp::Ordering;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::origin::OriginColumns;
use crate::decode::packet::Packet;
use crate::header::AlertHeader;
use crate::record::KafkaOrigin;
use crate::sky;

/// The longest text of a column, bytes: an index entry may have 2,700.
const TEXT_MAX: usize = 500;

/// A decoded packet on its way into the archive.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Its header, for the columns.
    pub header: AlertHeader,
    /// Its bytes.
    pub bytes: Bytes,
    /// Where its container header ends; `None` for another framing.
    pub container_header_len: Option<usize>,
    /// Whether survey and schema version are known to the mapping.
    pub schema_is_known: bool,
    /// Where it came from on Kafka.
    pub origin: Option<KafkaOrigin>,
    /// Cut out of a container file of several records.
    pub reframed: bool,
}

impl From<&Packet> for Incoming {
    /// Takes what the packet says of itself; origin and `reframed` are its delivery's to say.
    fn from(packet: &Packet) -> Self {
        Self {
            header: packet.header().clone(),
            bytes: packet.bytes().clone(),
            container_header_len: packet.container_header_len(),
            schema_is_known: packet.schema_is_known(),
            origin: None,
            reframed: false,
        }
    }
}

/// A row of `alert`, but for what the database gives (number and transaction) and for its container header and revision.
#[derive(Debug)]
pub(super) struct AlertRow {
    pub(super) survey: String,
    pub(super) alert_id: i64,
    pub(super) programid: i32,
    pub(super) sha256: [u8; 32],
    pub(super) object_id: Option<String>,
    pub(super) jd: f64,
    pub(super) ra: Option<f64>,
    pub(super) dec: Option<f64>,
    pub(super) hpx: Option<i64>,
    pub(super) band: Option<String>,
    pub(super) magnitude: Option<f64>,
    pub(super) rb: Option<f64>,
    pub(super) drb: Option<f64>,
    pub(super) ndethist: Option<i64>,
    pub(super) schema_version: Option<String>,
    pub(super) bytes: i32,
    pub(super) reframed: bool,
    pub(super) origin: OriginColumns,
    /// The packet's container header; empty where it has none.
    pub(super) container: Bytes,
    /// What follows it.
    pub(super) body: Bytes,
    /// Set once the container header is stored.
    pub(super) container_header: Option<i64>,
    /// Set by the writer: 0 the first, n the n-th other packet of this id, `None` where the id is unknown.
    pub(super) revision: Option<i32>,
}

impl AlertRow {
    /// Makes the row of a packet; `None` when it is longer than a column can hold (1 GiB), which no packet is.
    pub(super) fn new(incoming: &Incoming) -> Option<Self> {
        let header = &incoming.header;
        let packet = &incoming.bytes;
        let split = incoming
            .container_header_len
            .filter(|end| *end <= packet.len())
            .unwrap_or(0);
        let (ra, dec) = (finite(header.ra), finite(header.dec));
        Some(Self {
            survey: text(&header.survey).unwrap_or_else(|| "unknown".to_owned()),
            alert_id: header.alert_id,
            programid: header.programid,
            sha256: Sha256::digest(packet).into(),
            object_id: header.object_id.as_deref().and_then(text),
            jd: finite(header.jd).unwrap_or(f64::NEG_INFINITY),
            ra,
            dec,
            hpx: ra.zip(dec).and_then(|(ra, dec)| sky::hash(ra, dec)),
            band: header.band.as_deref().and_then(text),
            magnitude: finite(header.magnitude),
            rb: finite(header.rb),
            drb: finite(header.drb),
            ndethist: header.ndethist,
            schema_version: header.schema_version.as_deref().and_then(text),
            bytes: i32::try_from(packet.len()).ok().filter(|length| *length < 1 << 30)?,
            reframed: incoming.reframed,
            origin: incoming.origin.as_ref().map(OriginColumns::from).unwrap_or_default(),
            container: packet.slice(..split),
            body: packet.slice(split..),
            container_header: None,
            revision: (header.alert_id != 0).then_some(0),
        })
    }

    /// Stores the packet whole: for when its container header could not be stored apart.
    pub(super) fn store_whole(&mut self, packet: &Bytes) {
        self.container = Bytes::new();
        self.body = packet.clone();
        self.container_header = None;
    }

    /// Orders rows by the key that all writers lock in, so that they never deadlock.
    pub(super) fn by_key(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }

    pub(super) fn key(&self) -> (&str, i64, i32, &[u8; 32]) {
        (&self.survey, self.alert_id, self.programid, &self.sha256)
    }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// Gives the text if a column can hold and index it.
fn text(value: &str) -> Option<String> {
    (value.len() <= TEXT_MAX && !value.contains('\0')).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(header: AlertHeader) -> Incoming {
        let bytes = Bytes::from_static(b"headerbody");
        Incoming {
            header,
            bytes,
            container_header_len: Some(6),
            schema_is_known: true,
            origin: None,
            reframed: false,
        }
    }

    #[test]
    fn what_a_column_cannot_hold_is_null_there() {
        let nan = Some(f64::NAN);
        let row = AlertRow::new(&incoming(AlertHeader {
            survey: "z\0".into(),
            object_id: Some("x".repeat(TEXT_MAX + 1)),
            jd: Some(f64::INFINITY),
            ra: nan,
            dec: Some(1.0),
            magnitude: nan,
            ..AlertHeader::default()
        }))
        .unwrap();
        assert_eq!(
            (row.survey.as_str(), row.object_id, row.jd),
            ("unknown", None, f64::NEG_INFINITY)
        );
        assert_eq!((row.ra, row.hpx, row.magnitude, row.revision), (None, None, None, None));
    }

    #[test]
    fn header_and_body_are_the_packet() {
        let row = AlertRow::new(&incoming(AlertHeader {
            alert_id: 7,
            ..AlertHeader::default()
        }))
        .unwrap();
        assert_eq!(
            (&row.container[..], &row.body[..], row.bytes, row.revision),
            (&b"header"[..], &b"body"[..], 10, Some(0))
        );
    }
}
