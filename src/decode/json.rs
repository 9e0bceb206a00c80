//! Values as JSON, and as whatever serde writes: 32-bit floats widened to 64 bits, NaN and infinities null, bytes in base64, enums as text.
//!
//! Invariants: of two fields with one name the first is written. Must not know paths, plans or surveys.

use std::collections::HashSet;

use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value as Json};

use super::base64::base64;
use super::value::Value;

/// Gives a value as JSON.
pub(crate) fn value(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(b) => Json::Bool(*b),
        Value::Int(n) => Json::from(*n),
        Value::Long(n) => Json::from(*n),
        Value::Float(n) => float(f64::from(*n)),
        Value::Double(n) => float(*n),
        Value::String(text) => Json::from(*text),
        Value::Bytes(bytes) => Json::from(base64(bytes)),
        Value::Array(items) => items.iter().map(|(_, item)| item.to_json()).collect(),
        Value::Record(fields) | Value::Map(fields) => {
            let mut object = Map::new();
            for (name, field) in fields.iter() {
                if !object.contains_key(name) {
                    object.insert(name.to_owned(), field.to_json());
                }
            }
            Json::Object(object)
        }
    }
}

/// As [`value`] makes JSON of it; a format that has bytes gets bytes.
impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Boolean(b) => serializer.serialize_bool(*b),
            Value::Int(n) => serializer.serialize_i32(*n),
            Value::Long(n) => serializer.serialize_i64(*n),
            Value::Float(_) | Value::Double(_) => match self.as_f64() {
                Some(n) => serializer.serialize_f64(n),
                None => serializer.serialize_unit(),
            },
            Value::String(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) if serializer.is_human_readable() => serializer.serialize_str(&base64(bytes)),
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Value::Array(items) => serializer.collect_seq(items.iter().map(|(_, item)| item)),
            Value::Record(fields) | Value::Map(fields) => {
                let mut written = HashSet::new();
                let first = fields.iter().filter(|(name, _)| written.insert(*name));
                let first: Vec<_> = first.collect();
                serializer.collect_map(first)
            }
        }
    }
}

fn float(n: f64) -> Json {
    Number::from_f64(n).map_or(Json::Null, Json::Number)
}
