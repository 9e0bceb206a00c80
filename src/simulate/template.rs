//! A writer schema compiled to a list of fields that know which value they want.
//!
//! A survey says at compile time which of its values a field gets (`Names::slot`) and at run time what that value is
//! (`Names::value`); the template takes care of types, unions and order. A value that does not fit its field's type is
//! written as that type's zero, so that any schema version gives a valid datum.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::encode::{bytes, long};
use super::noise::Noise;

/// A value of a field.
pub(super) enum Value<'a> {
    Null,
    Flag(bool),
    Int(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// A record; its fields are asked for with this place.
    Record(usize),
    /// An array of so many items; the fields of the n-th are asked for with place n.
    Many(usize),
    /// Whatever: noise between two bounds.
    Noise(f64, f64),
}

/// A survey's values by name.
pub(super) trait Names {
    /// What a field was found to want.
    type Slot: Copy;
    /// Finds what a field of a record wants; records are named without namespace.
    fn slot(record: &str, field: &str) -> Self::Slot;
    /// Gives the value of a slot; `at` is the place in the innermost array, or what `Value::Record` said.
    fn value(&self, slot: Self::Slot, at: usize) -> Value<'_>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Null,
    Flag,
    Int,
    Float,
    Double,
    Text,
    Bytes,
    Record(usize),
    Array(usize),
}

#[derive(Clone, Copy)]
struct Field<S> {
    kind: Kind,
    /// The places of null and of the value in a union.
    union: Option<(i64, i64)>,
    slot: S,
}

/// A compiled schema.
pub(super) struct Template<N: Names> {
    records: Vec<Vec<Field<N::Slot>>>,
    /// The types of arrays' items.
    items: Vec<Kind>,
    root: usize,
}

impl<N: Names> Template<N> {
    /// Compiles a schema.
    pub(super) fn compile(schema: &Json) -> Result<Self, String> {
        let mut compiler = Compiler::<N> {
            records: Vec::new(),
            items: Vec::new(),
            named: HashMap::new(),
        };
        match compiler.kind(schema, "")? {
            Kind::Record(root) => Ok(Self {
                records: compiler.records,
                items: compiler.items,
                root,
            }),
            _ => Err("it is no record".into()),
        }
    }

    /// Appends a datum.
    pub(super) fn encode(&self, names: &N, noise: &mut Noise, out: &mut Vec<u8>) {
        self.record(self.root, 0, names, noise, out);
    }

    fn record(&self, record: usize, at: usize, names: &N, noise: &mut Noise, out: &mut Vec<u8>) {
        for field in self.records.get(record).map(Vec::as_slice).unwrap_or_default() {
            let value = names.value(field.slot, at);
            if let Some((null, some)) = field.union {
                if matches!(value, Value::Null) {
                    long(out, null);
                    continue;
                }
                long(out, some);
            }
            self.write(field.kind, &value, names, noise, out);
        }
    }

    fn write(&self, kind: Kind, value: &Value<'_>, names: &N, noise: &mut Noise, out: &mut Vec<u8>) {
        let real = |noise: &mut Noise| match value {
            Value::Real(real) => *real,
            Value::Int(int) => *int as f64,
            Value::Noise(low, high) => noise.between(*low, *high),
            _ => 0.0,
        };
        match kind {
            Kind::Null => {}
            Kind::Flag => out.push(u8::from(matches!(value, Value::Flag(true)))),
            Kind::Int => match value {
                Value::Int(int) => long(out, *int),
                _ => long(out, real(noise) as i64),
            },
            Kind::Float => out.extend_from_slice(&(real(noise) as f32).to_le_bytes()),
            Kind::Double => out.extend_from_slice(&real(noise).to_le_bytes()),
            Kind::Text => match value {
                Value::Text(text) => bytes(out, text.as_bytes()),
                _ => bytes(out, b""),
            },
            Kind::Bytes => match value {
                Value::Bytes(value) => bytes(out, value),
                _ => bytes(out, b""),
            },
            Kind::Record(record) => {
                let at = if let Value::Record(at) = value { *at } else { 0 };
                self.record(record, at, names, noise, out);
            }
            Kind::Array(array) => {
                let count = if let Value::Many(count) = value { *count } else { 0 };
                if count > 0 {
                    long(out, count as i64);
                }
                for at in 0..count {
                    if let Some(Kind::Record(record)) = self.items.get(array) {
                        self.record(*record, at, names, noise, out);
                    }
                }
                long(out, 0);
            }
        }
    }
}

struct Compiler<N: Names> {
    records: Vec<Vec<Field<N::Slot>>>,
    items: Vec<Kind>,
    named: HashMap<String, usize>,
}

impl<N: Names> Compiler<N> {
    fn kind(&mut self, schema: &Json, namespace: &str) -> Result<Kind, String> {
        match schema {
            Json::String(name) => self.named_kind(name, namespace),
            Json::Object(map) => match map.get("type") {
                Some(Json::String(kind)) if kind == "record" => self.record(schema, namespace),
                Some(Json::String(kind)) if kind == "array" => {
                    let items = map.get("items").ok_or("an array without items")?;
                    let items = self.kind(items, namespace)?;
                    if !matches!(items, Kind::Record(_)) {
                        return Err("an array of something else than records".into());
                    }
                    self.items.push(items);
                    Ok(Kind::Array(self.items.len() - 1))
                }
                Some(kind) => self.kind(kind, namespace),
                None => Err("a type without `type`".into()),
            },
            _ => Err("a union inside a union".into()),
        }
    }

    fn named_kind(&self, name: &str, namespace: &str) -> Result<Kind, String> {
        Ok(match name {
            "null" => Kind::Null,
            "boolean" => Kind::Flag,
            "int" | "long" => Kind::Int,
            "float" => Kind::Float,
            "double" => Kind::Double,
            "string" => Kind::Text,
            "bytes" => Kind::Bytes,
            _ => {
                let full = full_name(name, namespace);
                Kind::Record(*self.named.get(&full).ok_or_else(|| format!("unknown type `{name}`"))?)
            }
        })
    }

    fn record(&mut self, schema: &Json, namespace: &str) -> Result<Kind, String> {
        let text = |key: &str| schema.get(key).and_then(Json::as_str);
        let name = text("name").ok_or("a record without name")?;
        let full = full_name(name, text("namespace").unwrap_or(namespace));
        let (namespace, short) = full.rsplit_once('.').unwrap_or(("", &full));
        // Its number is known before its fields, as later fields of other records may name it.
        let number = self.records.len();
        self.records.push(Vec::new());
        let mut fields = Vec::new();
        for field in schema
            .get("fields")
            .and_then(Json::as_array)
            .ok_or("a record without fields")?
        {
            let name = field.get("name").and_then(Json::as_str).ok_or("a field without name")?;
            let kind = field.get("type").ok_or("a field without type")?;
            let slot = N::slot(short, name);
            fields.push(self.field(kind, namespace, slot)?);
        }
        if let Some(record) = self.records.get_mut(number) {
            *record = fields;
        }
        self.named.insert(full.clone(), number);
        Ok(Kind::Record(number))
    }

    fn field(&mut self, schema: &Json, namespace: &str, slot: N::Slot) -> Result<Field<N::Slot>, String> {
        let Json::Array(branches) = schema else {
            return Ok(Field {
                kind: self.kind(schema, namespace)?,
                union: None,
                slot,
            });
        };
        let null = branches.iter().position(|branch| branch == "null");
        let some = branches.iter().position(|branch| branch != "null");
        match (null, some, branches.get(some.unwrap_or_default())) {
            (Some(null), Some(some), Some(branch)) => {
                let kind = self.kind(branch, namespace)?;
                Ok(Field {
                    kind,
                    union: Some((null as i64, some as i64)),
                    slot,
                })
            }
            _ => Err("a union without null".into()),
        }
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}
