//! Values as JSON: 32-bit floats widened to 64 bits, NaN and infinities null, bytes in base64, enums as text.
//!
//! Invariants: of two fields with one name the first is written. Must not know paths, plans or surveys.

use serde_json::{Map, Number, Value as Json};

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

/// Encodes bytes in base64 (RFC 4648, padded).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .chain(std::iter::repeat(&0))
            .take(3)
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for n in 0..4 {
            let sextet = (word >> (18 - 6 * n)) as usize & 63;
            let letter = ALPHABET.get(sextet).map_or('=', |b| char::from(*b));
            text.push(if n <= chunk.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads_as_the_standard_says() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
