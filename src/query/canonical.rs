//! The canonical form: equal queries, however they were written, give equal text and so an equal hash.
//!
//! It is itself a table of a query's parts, so one parser reads both what a person wrote and what a group stored.
//! Every time is a jd, every region HEALPix cells, lists are sorted, comparisons are in negation normal form.

use std::fmt;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::error::QueryError;
use super::text::QueryText;
use super::time::NightStart;
use super::{Query, Ranges};

impl Query {
    /// Gives the canonical form: equal queries give equal text.
    pub fn canonical(&self) -> Value {
        let parts: Map<String, Value> = self
            .parts()
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        Value::Object(parts)
    }

    /// Gives the SHA-256 of the canonical form's text.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.canonical().to_string().as_bytes()).into()
    }

    /// Reads a canonical form back, as a group stored it.
    ///
    /// # Errors
    /// What is no canonical form of a valid query.
    pub fn from_canonical(canonical: &Value) -> Result<Self, QueryError> {
        let text: QueryText = serde_json::from_value(canonical.clone())
            .map_err(|e| QueryError::value("query", canonical.to_string(), e.to_string()))?;
        Self::parse(&text, NightStart::default())
    }

    /// The parts in the order of their names: a map's order does not depend on how `serde_json` was built.
    fn parts(&self) -> Vec<(&'static str, Value)> {
        let parts = [
            ("band", self.bands.as_ref().map(|list| json!(list))),
            ("candid", self.alert_ids.as_ref().map(|list| json!(list))),
            (
                "cone",
                self.cone
                    .as_ref()
                    .map(|cone| json!([cone.ra(), cone.dec(), cone.radius()])),
            ),
            (
                "every",
                self.every.map(|every| json!(format!("{}/{}", every.n, every.k))),
            ),
            ("healpix", self.region.as_ref().map(|region| json!(pixels(region)))),
            ("jd", self.jd.map(|jd| json!(jd.written()))),
            ("latest_per_object", self.latest_per_object.then_some(json!(true))),
            ("limit", self.limit.map(|limit| json!(limit))),
            ("object", self.objects.as_ref().map(|list| json!(list))),
            ("programid", self.programids.as_ref().map(|list| json!(list))),
            ("survey", self.surveys.as_ref().map(|list| json!(list))),
            (
                "where",
                self.condition.as_ref().map(|condition| json!(condition.to_string())),
            ),
        ];
        let given: Vec<_> = parts
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        if given.is_empty() {
            vec![("all", json!(true))]
        } else {
            given
        }
    }
}

/// A region as `--healpix` takes it: `NSIDE:PIX,PIX`, once per NSIDE.
fn pixels(region: &Ranges) -> Vec<String> {
    let mut lists: Vec<(u8, String)> = Vec::new();
    for (order, pixel) in region.cells() {
        match lists.last_mut() {
            Some((last, list)) if *last == order => list.push_str(&format!(",{pixel}")),
            _ => lists.push((order, format!("{}:{pixel}", 1_u64 << order))),
        }
    }
    lists.into_iter().map(|(_, list)| list).collect()
}

impl fmt::Display for Query {
    /// Writes the query as flags of the command line, a long list shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.parts().into_iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}--{}", key.replace('_', "-"))?;
            match value {
                Value::Bool(_) => {}
                Value::String(text) if key == "where" => write!(f, " '{text}'")?,
                Value::String(text) => write!(f, " {text}")?,
                Value::Array(list) => write!(f, " {}", listed(&list))?,
                other => write!(f, " {other}")?,
            }
        }
        Ok(())
    }
}

/// Joins a list by commas; beyond 20 items only says how many there are.
fn listed(list: &[Value]) -> String {
    let text = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
    let mut joined: Vec<String> = list.iter().take(20).map(text).collect();
    if list.len() > joined.len() {
        joined.push(format!("..({} in all)", list.len()));
    }
    joined.join(",")
}
