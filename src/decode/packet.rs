//! A decoded packet: owned, cheap to clone; views are made from it on demand.
//!
//! Invariants: the whole datum was validated against its writer schema, and the header read, before a packet exists; the
//! bytes are those that were received. Must not know where packets come from.

use std::sync::Arc;

use bytes::Bytes;

use crate::header::AlertHeader;
use crate::surveys::Point;

use super::bind::{Binding, Pick, Wanted};
use super::flat::{Arena, Flat};
use super::plan::Plan;
use super::value::{Value, View};
use super::views::{Places, RubinAlert, Views, ZtfAlert};
use super::wire::Cursor;

/// A writer schema, ready: its program and its mapping to the header.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) plan: Plan,
    pub(crate) binding: Binding,
    pub(crate) places: Places,
}

/// One alert: its bytes, its compiled schema, its header; validated whole.
#[derive(Clone)]
pub struct Packet {
    inner: Arc<Inner>,
}

struct Inner {
    payload: Bytes,
    /// The datum: a part of the payload, or what its block inflated to.
    datum: Bytes,
    compiled: Arc<Compiled>,
    header: AlertHeader,
    framing: PacketFraming,
}

/// How a packet was framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketFraming {
    /// A container file.
    Container {
        /// Length of what stands before the first sync marker, bytes.
        header_len: usize,
    },
    /// The Confluent wire format.
    Confluent {
        /// The registry's number of the schema.
        id: u32,
    },
}

/// What the decoder found; [`Packet::new`] makes it one alert.
pub(crate) struct Parts {
    pub(crate) payload: Bytes,
    pub(crate) datum: Bytes,
    pub(crate) compiled: Arc<Compiled>,
    pub(crate) header: AlertHeader,
    pub(crate) framing: PacketFraming,
}

impl Packet {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            payload,
            datum,
            compiled,
            header,
            framing,
        } = parts;
        Self {
            inner: Arc::new(Inner {
                payload,
                datum,
                compiled,
                header,
                framing,
            }),
        }
    }

    /// Gives the header.
    pub fn header(&self) -> &AlertHeader {
        &self.inner.header
    }

    /// Gives the bytes as they were received.
    pub fn bytes(&self) -> &Bytes {
        &self.inner.payload
    }

    /// Gives the framing.
    pub fn framing(&self) -> PacketFraming {
        self.inner.framing
    }

    /// Gives the length of what stands before the first sync marker of a container (magic and metadata map), bytes;
    /// `None` for the Confluent framing.
    pub fn container_header_len(&self) -> Option<usize> {
        match self.inner.framing {
            PacketFraming::Container { header_len } => Some(header_len),
            PacketFraming::Confluent { .. } => None,
        }
    }

    /// Gives the full name of the packet's record, e.g. `ztf.alert`.
    pub fn schema_name(&self) -> &str {
        &self.inner.compiled.plan.schema.name
    }

    /// Whether the mapping knows this survey and this version of its schema.
    pub fn schema_is_known(&self) -> bool {
        let mapping = self.inner.compiled.binding.mapping();
        !mapping.records.is_empty() && mapping.knows(self.header().schema_version.as_deref())
    }

    /// Gives the field at a dotted path; `None` when the schema has no such path, [`Value::Null`] when it is null there
    /// or on the way. The items of an array are `prv_candidates[0].jd`.
    pub fn get(&self, path: &str) -> Option<Value<'_>> {
        match self.root() {
            Value::Record(view) | Value::Array(view) | Value::Map(view) => view.get(path),
            _ => None,
        }
    }

    /// Gives the whole packet as a record.
    pub fn root(&self) -> Value<'_> {
        View::root(&self.inner.compiled.plan, &self.inner.datum)
    }

    /// The field at a dotted path as JSON (32-bit floats widened, NaN and infinities null, bytes in base64); `None` when
    /// the schema has no such path.
    pub fn json(&self, path: &str) -> Option<serde_json::Value> {
        self.get(path).map(|value| value.to_json())
    }

    /// Gives the name of the logical type of the field at a path, e.g. `timestamp-millis`.
    pub fn logical_type(&self, path: &str) -> Option<&str> {
        let schema = &self.inner.compiled.plan.schema;
        schema.node(schema.find(path)?)?.logical.as_deref()
    }

    /// The whole packet as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        self.root().to_json()
    }

    /// Decodes the whole packet into an arena and gives ZTF's view of it; `None` for another survey.
    pub fn ztf<'a>(&'a self, arena: &'a mut Arena) -> Option<ZtfAlert<'a>> {
        (self.header().survey == "ztf").then(|| ZtfAlert::new(self.views(arena)))
    }

    /// Decodes the whole packet into an arena and gives Rubin's view of it; `None` for another survey.
    pub fn rubin<'a>(&'a self, arena: &'a mut Arena) -> Option<RubinAlert<'a>> {
        (self.header().survey == "rubin").then(|| RubinAlert::new(self.views(arena)))
    }

    fn views<'a>(&'a self, arena: &'a mut Arena) -> Views<'a> {
        let compiled = &self.inner.compiled;
        // The datum was validated when the packet was made, so that the walk cannot fail.
        let _ = arena.fill(&compiled.plan, &self.inner.datum);
        let flat = Flat {
            arena,
            plan: &compiled.plan,
            datum: &self.inner.datum,
        };
        Views {
            flat,
            places: &compiled.places,
        }
    }

    /// Gives the light curve in the packet, by time; empty for a survey whose mapping has none. The second is its unit.
    pub fn light_curve(&self) -> (Vec<Point>, String) {
        let mapping = self.inner.compiled.binding.mapping();
        let Some(curve) = &mapping.curve else {
            return (Vec::new(), String::new());
        };
        let mut points: Vec<Point> = Vec::new();
        for part in &curve.parts {
            match self.get(part) {
                Some(Value::Record(entry)) => points.extend(super::curve::point(&entry, curve, mapping)),
                Some(Value::Array(entries)) => {
                    points.extend(entries.iter().filter_map(|(_, entry)| match entry {
                        Value::Record(entry) => super::curve::point(&entry, curve, mapping),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
        points.sort_by(|a, b| a.jd.total_cmp(&b.jd));
        (points, curve.unit.clone().unwrap_or_else(|| "mag".into()))
    }

    pub(crate) fn compiled(&self) -> &Arc<Compiled> {
        &self.inner.compiled
    }

    /// Reads some leaves in one walk.
    pub(crate) fn pick<'w>(&self, wanted: &'w Wanted) -> Pick<'w> {
        let mut pick = Pick::first(wanted);
        if !wanted.slots.is_empty() {
            // The datum was validated when the packet was made.
            let _ = self
                .inner
                .compiled
                .plan
                .walk_one(&mut Cursor::new(&self.inner.datum), &mut pick);
        }
        pick
    }

    /// Gives one of the leaves that [`Packet::pick`] read.
    pub(crate) fn picked(&self, pick: &Pick<'_>, place: usize) -> Value<'_> {
        pick.value(place, &self.inner.compiled.plan, &self.inner.datum)
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let header = self.header();
        f.debug_struct("Packet")
            .field("survey", &header.survey)
            .field("alert_id", &header.alert_id)
            .field("bytes", &self.bytes().len())
            .finish()
    }
}
