//! How the views read a field, whatever its spelling in some version: no value in any spelling is `None`.
//!
//! Must not know which field it is.

use super::value::Value;

/// Values that ZTF writes for "no value".
const ZTF_NONE: [f64; 2] = [-999.0, -99999.0];

pub(super) fn number(value: Value<'_>) -> Option<f64> {
    value.as_f64()
}

pub(super) fn ztf_number(value: Value<'_>) -> Option<f64> {
    value.as_f64().filter(|n| !ZTF_NONE.contains(n))
}

pub(super) fn integer(value: Value<'_>) -> Option<i64> {
    value.as_i64()
}

pub(super) fn text(value: Value<'_>) -> Option<&str> {
    value.as_str()
}

pub(super) fn bytes(value: Value<'_>) -> Option<&[u8]> {
    value.as_bytes()
}

/// Reads a flag in any of its spellings: a boolean, `t`, `f`, `1`, `0`.
pub(super) fn flag(value: Value<'_>) -> Option<bool> {
    match value {
        Value::Boolean(b) => Some(b),
        Value::String("t" | "1" | "true") | Value::Int(1) | Value::Long(1) => Some(true),
        Value::String("f" | "0" | "false") | Value::Int(0) | Value::Long(0) => Some(false),
        _ => None,
    }
}
