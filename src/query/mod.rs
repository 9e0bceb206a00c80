//! The query algebra: parse, validate, canonical form, hash, and the in-memory test of one alert. No SQL.
//!
//! A [`QueryText`] is what a person wrote; [`Query::parse`] checks it. Predicates are ANDed; then latest per object
//! (largest jd, then id); then every n-th by rank in (jd, id) order; then the limit. A comparison with what is unknown
//! is undefined and selects nothing.
//! Invariants: a query is never empty by accident (no empty list, region or interval), its lists are sorted and without
//! doubles, its numbers are finite. Must not know of SQL, files (but [`QueryText::with_files`]) or the archive.

mod canonical;
mod condition;
mod error;
mod files;
mod parse;
mod text;
mod time;

use std::collections::BTreeSet;

pub use condition::{Column, Condition, Op, Operand};
pub use error::QueryError;
pub use text::{KEYS, QueryText};
pub use time::{JdRange, NightStart};

use crate::header::AlertHeader;
use crate::sky::{self, Cone, Ranges};

/// The passbands that a survey's mapping can give.
pub const BANDS: [&str; 7] = ["g", "r", "i", "z", "y", "u", "J"];

/// A slice of a selection: the ranks r, from 0 in (jd, id) order, with r mod `n` = `k`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Every {
    /// One of how many; at least 1.
    pub n: u64,
    /// Which of them, below `n`.
    pub k: u64,
}

impl Every {
    /// Says whether the slice holds a rank.
    pub fn holds(&self, rank: u64) -> bool {
        rank % self.n.max(1) == self.k
    }
}

/// A checked query. Every alert when no part restricts it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Query {
    jd: Option<JdRange>,
    cone: Option<Cone>,
    region: Option<Ranges>,
    objects: Option<BTreeSet<String>>,
    alert_ids: Option<BTreeSet<i64>>,
    surveys: Option<BTreeSet<String>>,
    programids: Option<BTreeSet<i32>>,
    bands: Option<BTreeSet<String>>,
    condition: Option<Condition>,
    latest_per_object: bool,
    every: Option<Every>,
    limit: Option<u64>,
}

impl Query {
    /// Gives the query that selects every alert.
    pub fn all() -> Self {
        Self::default()
    }

    /// Says whether an alert satisfies every predicate (latest per object, every n-th and the limit are about sets).
    pub fn matches(&self, alert: &AlertHeader) -> bool {
        fn listed<T: Ord>(list: Option<&BTreeSet<T>>, value: impl FnOnce(&BTreeSet<T>) -> bool) -> bool {
            list.is_none_or(value)
        }
        let jd = self
            .jd
            .as_ref()
            .is_none_or(|range| alert.jd.is_some_and(|jd| range.contains(jd)));
        jd && listed(self.alert_ids.as_ref(), |ids| ids.contains(&alert.alert_id))
            && listed(self.programids.as_ref(), |ids| ids.contains(&alert.programid))
            && listed(self.surveys.as_ref(), |names| names.contains(&alert.survey))
            && listed(self.objects.as_ref(), |ids| {
                alert.object_id.as_ref().is_some_and(|id| ids.contains(id))
            })
            && listed(self.bands.as_ref(), |bands| {
                alert.band.as_ref().is_some_and(|band| bands.contains(band))
            })
            && self
                .condition
                .as_ref()
                .is_none_or(|condition| condition.eval(alert) == Some(true))
            && self.place_matches(alert)
    }

    fn place_matches(&self, alert: &AlertHeader) -> bool {
        if self.cone.is_none() && self.region.is_none() {
            return true;
        }
        let (Some(ra), Some(dec)) = (alert.ra, alert.dec) else {
            return false;
        };
        let Some(cell) = sky::hash(ra, dec) else { return false };
        self.region.as_ref().is_none_or(|region| region.contains(cell))
            && self.cone.as_ref().is_none_or(|cone| cone.contains(ra, dec))
    }

    /// Gives the interval of time.
    pub fn jd(&self) -> Option<JdRange> {
        self.jd
    }

    /// Gives the cone.
    pub fn cone(&self) -> Option<&Cone> {
        self.cone.as_ref()
    }

    /// Gives the region of HEALPix pixels and multi-order map together.
    pub fn region(&self) -> Option<&Ranges> {
        self.region.as_ref()
    }

    /// Gives the object ids.
    pub fn objects(&self) -> Option<&BTreeSet<String>> {
        self.objects.as_ref()
    }

    /// Gives the alert ids.
    pub fn alert_ids(&self) -> Option<&BTreeSet<i64>> {
        self.alert_ids.as_ref()
    }

    /// Gives the surveys.
    pub fn surveys(&self) -> Option<&BTreeSet<String>> {
        self.surveys.as_ref()
    }

    /// Gives the programids.
    pub fn programids(&self) -> Option<&BTreeSet<i32>> {
        self.programids.as_ref()
    }

    /// Gives the passbands.
    pub fn bands(&self) -> Option<&BTreeSet<String>> {
        self.bands.as_ref()
    }

    /// Gives the comparisons of `--where`.
    pub fn condition(&self) -> Option<&Condition> {
        self.condition.as_ref()
    }

    /// Says whether only each object's latest alert is selected.
    pub fn latest_per_object(&self) -> bool {
        self.latest_per_object
    }

    /// Gives the slice by rank.
    pub fn every(&self) -> Option<Every> {
        self.every
    }

    /// Gives the largest number of alerts.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }
}

#[cfg(test)]
mod tests;
