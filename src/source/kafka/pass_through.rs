//! The pass-through table `[source.NAME.live.librdkafka]`: settings as they are written, and the secrets they refer to.
//!
//! Invariant: no value is ever in a `Debug` or an error. Must not know what a setting means.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::error::LiveError;
use super::security;

/// The pass-through table `[source.NAME.live.librdkafka]`. Values may be text, numbers or booleans, and `env:NAME` or
/// `file:PATH` for secrets. Its `Debug` shows the keys only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PassThrough(BTreeMap<String, String>);

impl PassThrough {
    /// Makes a table of pairs.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// Gives what cannot work together.
    pub(super) fn conflicts(&self) -> Vec<LiveError> {
        let value = |key: &str| self.0.get(key).and_then(|value| resolve(key, value).ok());
        security::conflicts(&self.0, value)
    }

    /// Gives every setting as it is written.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }

    /// Sets one more.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }
}

impl fmt::Debug for PassThrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<'de> Deserialize<'de> for PassThrough {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = BTreeMap::<String, Scalar>::deserialize(deserializer)?;
        Ok(Self(table.into_iter().map(|(key, Scalar(text))| (key, text)).collect()))
    }
}

/// A setting's value as text. An error of its own has the value's line.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text)),
            toml::Value::Integer(number) => Ok(Self(number.to_string())),
            toml::Value::Boolean(yes) => Ok(Self(yes.to_string())),
            // `a.b = 1` without quotes around the name is a table `a`.
            toml::Value::Table(_) => Err(D::Error::custom(
                "is a table; write names with dots in quotes, `\"a.b\" = 1`",
            )),
            _ => Err(D::Error::custom("must be text, a number, true or false")),
        }
    }
}

/// Gives the value of a setting, or what it refers to.
pub(super) fn resolve(key: &str, value: &str) -> Result<String, LiveError> {
    let missing = |what: String| LiveError::Reference {
        key: key.to_owned(),
        what,
    };
    if let Some(name) = value.strip_prefix("env:") {
        return std::env::var(name)
            .map_err(|_| missing(format!("the environment variable `{name}`, which is not set")));
    }
    if let Some(path) = value.strip_prefix("file:") {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| missing(format!("the file `{path}`, which cannot be read ({error})")))?;
        return Ok(text.trim_end_matches(['\n', '\r']).to_owned());
    }
    Ok(value.to_owned())
}
