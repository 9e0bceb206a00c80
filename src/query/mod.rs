//! The query algebra: parse, validate, canonical form, hash. No SQL.

use serde::{Deserialize, Serialize};

/// A query as a person writes it: the flags of the command line and the keys of the TOML table, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueryText {}

/// A checked query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {}

impl Query {
    /// The canonical form: equal queries give equal text.
    pub fn canonical(&self) -> serde_json::Value {
        todo!()
    }
    /// SHA-256 of the canonical form.
    pub fn hash(&self) -> [u8; 32] {
        todo!()
    }
}
