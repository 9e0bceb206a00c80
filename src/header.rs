//! The alert header: the few fields that routing, archiving and querying need, the same for every survey.
//!
//! Invariants: no float is NaN or infinite (such a value is `None`); times are UTC. Must not know how a survey names
//! its fields: that is data, in `schemas/` (see `surveys`).

use serde::Serialize;

/// What is known of an alert without its survey's schema; unknown is `None`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct AlertHeader {
    /// `ztf`, `rubin`, ...; for an unknown survey the record's namespace or name.
    pub survey: String,
    /// The schema version as the packet says it, e.g. `4.02`; for Rubin `major.minor`.
    pub schema_version: Option<String>,
    /// The object's name: `objectId`, or Rubin's diaObjectId (ssObjectId where that is null or 0) as text.
    pub object_id: Option<String>,
    /// `candid`, or Rubin's diaSourceId; 0 when unknown.
    pub alert_id: i64,
    /// Time of observation: Julian date in UTC, days.
    pub jd: Option<f64>,
    /// Right ascension, deg, ICRS.
    pub ra: Option<f64>,
    /// Declination, deg, ICRS.
    pub dec: Option<f64>,
    /// 1 public, 2 partnership, 3 Caltech; 1 where the survey has none.
    pub programid: i32,
    /// Passband: one of g r i z y u J, as the survey's mapping says.
    pub band: Option<String>,
    /// Magnitude of the detection, mag (`magpsf` for ZTF).
    pub magnitude: Option<f64>,
    /// Real-bogus score, 0 to 1.
    pub rb: Option<f64>,
    /// Deep-learning real-bogus score, 0 to 1.
    pub drb: Option<f64>,
    /// Number of earlier detections at this place.
    pub ndethist: Option<i64>,
}
