//! The names that a filter may use: the header's fields, and the fields of every schema that is known.
//!
//! Invariants: a name of the header hides an equal one of the packet. Must not know expressions.

use std::collections::{BTreeMap, BTreeSet};

use crate::decode::packet::Packet;
use crate::decode::path::steps;
use crate::decode::{Decoder, Kind};
use crate::nearest::nearest_path;

/// What kind of value a name has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A whole number.
    Int,
    /// A float.
    Double,
    /// Text.
    Text,
    /// True or false.
    Bool,
    /// Bytes.
    Bytes,
    /// An array.
    List,
    /// Not the same in every schema, or a record.
    Any,
}

/// The header's fields, in the order of [`AlertHeader`](crate::header::AlertHeader).
pub(super) const HEADER: [(&str, Type); 13] = [
    ("survey", Type::Text),
    ("schema_version", Type::Text),
    ("object_id", Type::Text),
    ("alert_id", Type::Int),
    ("jd", Type::Double),
    ("ra", Type::Double),
    ("dec", Type::Double),
    ("programid", Type::Int),
    ("band", Type::Text),
    ("magnitude", Type::Double),
    ("rb", Type::Double),
    ("drb", Type::Double),
    ("ndethist", Type::Int),
];

/// The names that a filter may use.
#[derive(Debug, Clone)]
pub struct Names {
    known: BTreeMap<String, Type>,
    /// Those of `known` that are maps in some schema: any key may stand below.
    maps: BTreeSet<String>,
}

impl Names {
    /// The header's fields and those of all bundled schemas.
    pub fn bundled() -> Self {
        Self::of(&Decoder::bundled())
    }

    /// The header's fields, and those of all schemas that a decoder brings or has seen.
    pub fn of(decoder: &Decoder) -> Self {
        let mut names = Self {
            known: BTreeMap::new(),
            maps: BTreeSet::new(),
        };
        for compiled in decoder.schemas() {
            names.add_plan(&compiled.plan);
        }
        for path in decoder.mapped_paths() {
            names.known.entry(path).or_insert(Type::Any);
        }
        names
            .known
            .extend(HEADER.iter().map(|(name, kind)| ((*name).to_owned(), *kind)));
        names
    }

    /// Adds the fields of a packet's schema.
    pub fn add(&mut self, packet: &Packet) {
        self.add_plan(&packet.compiled().plan);
        self.known
            .extend(HEADER.iter().map(|(name, kind)| ((*name).to_owned(), *kind)));
    }

    fn add_plan(&mut self, plan: &crate::decode::plan::Plan) {
        for (path, kind) in plan.names() {
            if matches!(kind, Kind::Map(_)) {
                self.maps.insert(path.clone());
            }
            let kind = type_of(kind);
            self.known
                .entry(path)
                .and_modify(|known| *known = merge(*known, kind))
                .or_insert(kind);
        }
    }

    /// Gives the type of a name.
    pub fn get(&self, name: &str) -> Option<Type> {
        self.known.get(name).copied()
    }

    /// Says whether a dotted path leads to a key of a map.
    pub(super) fn is_in_a_map(&self, path: &str) -> bool {
        let mut above = path.match_indices('.').filter_map(|(at, _)| path.get(..at));
        above.any(|above| self.maps.contains(above))
    }

    /// Says whether a path may lead to a value, in any of its spellings: to a name, or into an array or a map.
    pub(crate) fn knows(&self, path: &str) -> bool {
        let mut above = String::new();
        for step in steps(path) {
            if self.maps.contains(&above) || self.get(&above) == Some(Type::List) {
                return true;
            }
            if !above.is_empty() {
                above.push('.');
            }
            above.push_str(step);
        }
        self.get(&above).is_some()
    }

    /// Finds the valid name most like `name`: whole, or by its last part.
    pub fn nearest(&self, name: &str) -> Option<String> {
        self.nearest_or(name, &[])
    }

    /// The same, where the names of `others` count too.
    pub(crate) fn nearest_or(&self, name: &str, others: &[&str]) -> Option<String> {
        let all = self.known.keys().map(String::as_str).chain(others.iter().copied());
        nearest_path(name, all).map(str::to_owned)
    }
}

fn type_of(kind: &Kind) -> Type {
    match kind {
        Kind::Boolean => Type::Bool,
        Kind::Int | Kind::Long => Type::Int,
        Kind::Float | Kind::Double => Type::Double,
        Kind::Bytes | Kind::Fixed(_) => Type::Bytes,
        Kind::String | Kind::Enum(_) => Type::Text,
        Kind::Array(_) => Type::List,
        Kind::Null | Kind::Map(_) | Kind::Record(_) | Kind::Union(_) => Type::Any,
    }
}

fn merge(a: Type, b: Type) -> Type {
    match (a, b) {
        _ if a == b => a,
        (Type::Int, Type::Double) | (Type::Double, Type::Int) => Type::Double,
        _ => Type::Any,
    }
}
