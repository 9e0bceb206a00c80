//! The values of a filter's slots for one packet.
//!
//! Invariants: null, absent, NaN and infinite values do not resolve. Leaves are read in one walk; arrays and records only
//! when the expression asks for them. Must not know the expression.

use std::collections::HashMap;
use std::sync::Arc;

use cel::common::types::{CelBool, CelBytes, CelDouble, CelInt, CelString};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::objects::{Key, Map};

use super::rewrite::{Source, slot_of};
use crate::decode::packet::Packet;
use crate::decode::plan::Plan;
use crate::decode::{Pick, Value, Wanted};
use crate::header::AlertHeader;

/// Where the sources of a filter are in the packets of one schema.
#[derive(Debug)]
pub(super) struct Places {
    wanted: Wanted,
    /// Per source: its place in `wanted`, if it is a leaf there.
    leaves: Vec<Option<usize>>,
}

impl Places {
    pub(super) fn new(plan: &Plan, sources: &[Source]) -> Self {
        let mut wanted = Wanted::default();
        let nodes: Vec<_> = sources
            .iter()
            .map(|s| path(s).and_then(|path| wanted.add(plan, path)))
            .collect();
        let leaves = nodes
            .into_iter()
            .map(|node| node.and_then(|node| wanted.index(node)))
            .collect();
        Self { wanted, leaves }
    }
}

fn path(source: &Source) -> Option<&str> {
    match source {
        Source::Header(_) => None,
        Source::Path(path) => Some(path),
        Source::Has(inner) => path(inner),
    }
}

/// The values for one packet.
pub(super) struct Fields<'p> {
    packet: &'p Packet,
    sources: &'p [Source],
    places: &'p Places,
    pick: Pick<'p>,
}

impl<'p> Fields<'p> {
    pub(super) fn read(packet: &'p Packet, sources: &'p [Source], places: &'p Places) -> Self {
        Self {
            packet,
            sources,
            places,
            pick: packet.pick(&places.wanted),
        }
    }

    /// Gives the value of a source; `None` when it has none.
    fn value(&self, source: &Source, slot: usize) -> Option<Known<'_>> {
        let value = match source {
            Source::Header(field) => return header(self.packet.header(), *field),
            Source::Has(inner) => return Some(Known::Bool(self.value(inner, slot).is_some())),
            Source::Path(path) => match self.places.leaves.get(slot).copied().flatten() {
                Some(place) => self.packet.picked(&self.pick, place),
                None => self.packet.get(path)?,
            },
        };
        known(value)
    }
}

impl VariableResolver for Fields<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let slot = slot_of(variable)?;
        let value = self.value(self.sources.get(slot)?, slot)?;
        Some(match value {
            Known::Bool(b) => CowVal::owned(CelBool::from(b)),
            Known::Int(n) => CowVal::owned(CelInt::from(n)),
            Known::Double(n) => CowVal::owned(CelDouble::from(n)),
            Known::Text(text) => CowVal::owned(CelString::from(text)),
            Known::Bytes(bytes) => CowVal::owned(CelBytes::from(bytes)),
            Known::Tree(value) => return tree(&value)?.try_into().ok().map(CowVal::Owned),
        })
    }
}

/// A value that is one.
enum Known<'a> {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Tree(Value<'a>),
}

fn known(value: Value<'_>) -> Option<Known<'_>> {
    Some(match value {
        Value::Null => return None,
        Value::Boolean(b) => Known::Bool(b),
        Value::Int(n) => Known::Int(i64::from(n)),
        Value::Long(n) => Known::Int(n),
        Value::Float(_) | Value::Double(_) => Known::Double(value.as_f64()?),
        Value::String(text) => Known::Text(text),
        Value::Bytes(bytes) => Known::Bytes(bytes),
        Value::Record(_) | Value::Array(_) | Value::Map(_) => Known::Tree(value),
    })
}

fn header(header: &AlertHeader, field: usize) -> Option<Known<'_>> {
    match field {
        0 => Some(Known::Text(&header.survey)),
        1 => header.schema_version.as_deref().map(Known::Text),
        2 => header.object_id.as_deref().map(Known::Text),
        3 => Some(Known::Int(header.alert_id)),
        4 => header.jd.map(Known::Double),
        5 => header.ra.map(Known::Double),
        6 => header.dec.map(Known::Double),
        7 => Some(Known::Int(i64::from(header.programid))),
        8 => header.band.as_deref().map(Known::Text),
        9 => header.magnitude.map(Known::Double),
        10 => header.rb.map(Known::Double),
        11 => header.drb.map(Known::Double),
        12 => header.ndethist.map(Known::Int),
        _ => None,
    }
}

/// Makes a tree for the macros; what is null or NaN is left out of records, so that a comparison with it is undefined.
fn tree(value: &Value<'_>) -> Option<cel::Value> {
    Some(match known(*value)? {
        Known::Bool(b) => cel::Value::Bool(b),
        Known::Int(n) => cel::Value::Int(n),
        Known::Double(n) => cel::Value::Float(n),
        Known::Text(text) => cel::Value::from(text),
        Known::Bytes(bytes) => cel::Value::from(bytes.to_vec()),
        Known::Tree(Value::Array(items)) => {
            let items = items
                .iter()
                .map(|(_, item)| tree(&item).unwrap_or(cel::Value::Null))
                .collect();
            cel::Value::List(Arc::new(items))
        }
        Known::Tree(Value::Record(fields) | Value::Map(fields)) => {
            let mut map = HashMap::new();
            for (name, field) in fields.iter() {
                if let Some(field) = tree(&field) {
                    map.entry(Key::from(name.to_owned())).or_insert(field);
                }
            }
            cel::Value::Map(Map { map: Arc::new(map) })
        }
        Known::Tree(_) => return None,
    })
}
