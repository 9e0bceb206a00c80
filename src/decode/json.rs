//! Values as JSON: 32-bit floats widened to 64 bits, NaN and infinities null, bytes in base64, enums as text.
//!
//! Invariants: of two fields with one name the first is written. Must not know paths, plans or surveys.

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

fn float(n: f64) -> Json {
    Number::from_f64(n).map_or(Json::Null, Json::Number)
}
