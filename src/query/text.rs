//! What a person writes: the flags of the command line and the keys of a TOML table, as text, not yet checked.
//!
//! One form for both, so that both are parsed by the same code: a map from a flag's name to its text. A list is its
//! items joined by commas. Invariant: every name is one of [`KEYS`]. Must not know what a value means.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::error::QueryError;
use crate::sky::Ranges;

/// Every name of a query's parts: a flag's name with `_` for `-`.
pub const KEYS: [&str; 17] = [
    "all",
    "band",
    "candid",
    "cone",
    "every",
    "healpix",
    "jd",
    "latest_per_object",
    "limit",
    "mjd",
    "moc",
    "night",
    "object",
    "programid",
    "survey",
    "time",
    "where",
];

/// How the crate `toml` names the one entry of a date or time.
const TOML_DATE: &str = "$__toml_private_datetime";

/// The parts that take no value.
const BARE: [&str; 2] = ["all", "latest_per_object"];

/// A query as a person writes it; `Query::parse` checks it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryText {
    values: BTreeMap<&'static str, String>,
    /// What the file named by `moc` covers, once it was read.
    pub(super) cover: Option<Ranges>,
}

impl QueryText {
    /// Makes a text without any part.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets one part by its flag's name (`-` and `_` are the same); a bare flag takes `true` or `false`.
    ///
    /// # Errors
    /// A name that is no part of a query; a bare flag with another value.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<(), QueryError> {
        let key = known(name)?;
        let value = value.into();
        if BARE.contains(&key) {
            match value.as_str() {
                "true" => {}
                "false" => {
                    self.values.remove(key);
                    return Ok(());
                }
                _ => return Err(QueryError::value(key, value, "it takes no value (in a file: `true`)")),
            }
        }
        self.values.insert(key, value);
        Ok(())
    }

    /// Gives the text with one more part.
    ///
    /// # Errors
    /// As [`QueryText::set`].
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Result<Self, QueryError> {
        self.set(name, value)?;
        Ok(self)
    }

    /// Takes one part out; says whether it was there.
    pub(super) fn take_out(&mut self, name: &str) -> bool {
        self.values.remove(name).is_some()
    }

    /// Gives one part as it was written.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Says whether no part was written: no query at all.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Gives every part that was written, by name.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

impl Serialize for QueryText {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.values.len()))?;
        for (key, value) in self.parts() {
            if BARE.contains(&key) {
                map.serialize_entry(key, &true)?;
            } else {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for QueryText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = QueryText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of a query's parts")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<QueryText, A::Error> {
                let mut text = QueryText::new();
                // Each is checked where it stands, so that an error has its line.
                while let Some(Part(part)) = map.next_key()? {
                    map.next_value_seed(Setting { text: &mut text, part })?;
                }
                Ok(text)
            }
        }
        d.deserialize_map(Table)
    }
}

/// The name of a part.
struct Part(&'static str);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        known(&String::deserialize(d)?).map(Self).map_err(de::Error::custom)
    }
}

/// A part that is set to the value that comes.
struct Setting<'t> {
    text: &'t mut QueryText,
    part: &'static str,
}

impl<'de> DeserializeSeed<'de> for Setting<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        let Written(value) = Written::deserialize(d)?;
        self.text.set(self.part, value).map_err(de::Error::custom)
    }
}

/// Gives the part of this name (`-` and `_` are the same).
fn known(name: &str) -> Result<&'static str, QueryError> {
    let plain = name.replace('-', "_");
    let found = KEYS.iter().find(|known| **known == plain);
    found
        .copied()
        .ok_or_else(|| QueryError::UnknownKey { key: name.to_owned() })
}

/// A value of a table: text, a number, `true` or `false`, or a list of them, as the text of the flag.
struct Written(String);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Written;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes, a number, `true`, `false`, or a list of them")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Written, E> {
                Ok(Written(v.to_string()))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Written, E> {
                Ok(Written(v.to_string()))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Written, E> {
                Ok(Written(v.to_string()))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Written, E> {
                Ok(Written(format!("{v:?}")))
            }
            fn visit_str<E>(self, v: &str) -> Result<Written, E> {
                Ok(Written(v.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Written, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element::<Written>()? {
                    items.push(item.0);
                }
                Ok(Written(items.join(",")))
            }
            /// A date or time without quotes comes as a table of one entry.
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
                match map.next_entry::<String, String>() {
                    Ok(Some((name, text))) if name == TOML_DATE => Ok(Written(text)),
                    _ => Err(de::Error::invalid_type(de::Unexpected::Map, &self)),
                }
            }
        }
        d.deserialize_any(Any)
    }
}
