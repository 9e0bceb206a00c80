//! A value tree that any of the three decoders can be read into, for comparison bit by bit.

use std::fmt;

use alertstream::decode::Value;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// One value, whatever decoded it; floats by their bits.
#[derive(Debug, Clone, PartialEq)]
pub enum Any {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(u32),
    Double(u64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Any>),
    Record(Vec<(String, Any)>),
}

impl Any {
    /// From this crate's decoder.
    pub fn ours(value: &Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Boolean(b) => Self::Boolean(*b),
            Value::Int(n) => Self::Integer(i64::from(*n)),
            Value::Long(n) => Self::Integer(*n),
            Value::Float(n) => Self::Float(n.to_bits()),
            Value::Double(n) => Self::Double(n.to_bits()),
            Value::String(text) => Self::Text((*text).to_owned()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Array(items) => Self::List(items.iter().map(|(_, v)| Self::ours(&v)).collect()),
            Value::Record(fields) => Self::Record(fields.iter().map(|(k, v)| (k.to_owned(), Self::ours(&v))).collect()),
            Value::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().map(|(k, v)| (k.to_owned(), Self::ours(&v))).collect();
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Record(entries)
            }
        }
    }

    /// From apache-avro's.
    pub fn apache(value: &apache_avro::types::Value) -> Self {
        use apache_avro::types::Value as V;
        match value {
            V::Null => Self::Null,
            V::Boolean(b) => Self::Boolean(*b),
            V::Int(n) => Self::Integer(i64::from(*n)),
            V::Long(n) | V::TimestampMillis(n) | V::TimestampMicros(n) => Self::Integer(*n),
            V::Float(n) => Self::Float(n.to_bits()),
            V::Double(n) => Self::Double(n.to_bits()),
            V::String(text) | V::Enum(_, text) => Self::Text(text.clone()),
            V::Bytes(bytes) | V::Fixed(_, bytes) => Self::Bytes(bytes.clone()),
            V::Array(items) => Self::List(items.iter().map(Self::apache).collect()),
            V::Record(fields) => Self::Record(fields.iter().map(|(k, v)| (k.clone(), Self::apache(v))).collect()),
            V::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().map(|(k, v)| (k.clone(), Self::apache(v))).collect();
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Record(entries)
            }
            V::Union(_, inner) => Self::apache(inner),
            other => panic!("a value of a logical type that no alert has: {other:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }
    fn visit_unit<E>(self) -> Result<Any, E> {
        Ok(Any::Null)
    }
    fn visit_none<E>(self) -> Result<Any, E> {
        Ok(Any::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Any, D::Error> {
        Any::deserialize(d)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Any, E> {
        Ok(Any::Boolean(v))
    }
    fn visit_i32<E>(self, v: i32) -> Result<Any, E> {
        Ok(Any::Integer(i64::from(v)))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Any, E> {
        Ok(Any::Integer(v))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Any, E> {
        Ok(Any::Integer(v as i64))
    }
    fn visit_f32<E>(self, v: f32) -> Result<Any, E> {
        Ok(Any::Float(v.to_bits()))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Any, E> {
        Ok(Any::Double(v.to_bits()))
    }
    fn visit_str<E>(self, v: &str) -> Result<Any, E> {
        Ok(Any::Text(v.to_owned()))
    }
    fn visit_bytes<E>(self, v: &[u8]) -> Result<Any, E> {
        Ok(Any::Bytes(v.to_vec()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Any, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Any::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Any, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = map.next_entry()? {
            fields.push(entry);
        }
        Ok(Any::Record(fields))
    }
}
