//! Mappings from a survey's fields to the alert header, as data: those in `schemas/surveys/` and the user's own.
//!
//! Invariants: a mapping names paths only; whether a schema has them is looked up when the schema is compiled, so one
//! mapping serves every version of a survey. Must not know bytes.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// How the packets of one survey fill the alert header.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// The survey's name in the header.
    #[serde(default)]
    pub survey: String,
    /// Full names of the packets' record (`ztf.alert`); `*` stands for any text.
    #[serde(default)]
    pub records: Vec<String>,
    /// Versions of the schema that the mapping was checked with; empty: any.
    #[serde(default)]
    pub versions: Vec<String>,
    /// Path of the field that holds the schema's version.
    pub version: Option<String>,
    /// Values that mean "no value".
    #[serde(default)]
    pub none: Vec<f64>,
    /// The band of every packet, for a survey of one band.
    pub band: Option<String>,
    /// The paths.
    pub fields: Fields,
    /// The band's name for each value of its field.
    #[serde(default)]
    pub bands: BTreeMap<String, String>,
    /// Where the light curve is.
    pub curve: Option<Curve>,
}

/// Where a packet has the measurements of its light curve.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Curve {
    /// The records and arrays of records that hold the measurements.
    pub parts: Vec<String>,
    /// The unit of `value`: `mag` (the default; smaller is brighter) or another.
    pub unit: Option<String>,
    /// Field of the time: Julian date, UTC, days.
    pub jd: Option<String>,
    /// Field of the time: modified Julian date, UTC, days.
    pub mjd: Option<String>,
    /// Field of the time: modified Julian date, TAI, days.
    pub mjd_tai: Option<String>,
    /// Field of the measurement.
    pub value: String,
    /// Field of its 1-sigma error.
    pub error: Option<String>,
    /// Field of the limit, for an entry without a measurement.
    pub limit: Option<String>,
    /// Field of the passband.
    pub band: Option<String>,
}

/// One entry of a light curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Julian date, UTC, days.
    pub jd: f64,
    /// The measurement, or the limit.
    pub value: f64,
    /// Its 1-sigma error.
    pub error: Option<f64>,
    /// Whether it is an upper limit on the brightness.
    pub is_limit: bool,
    /// The passband, as the mapping names it.
    pub band: Option<String>,
}

/// The paths of the header's fields; of several, the first with a value counts.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fields {
    /// The object's name; a number 0 is no value.
    pub object_id: Paths,
    /// The alert's number.
    pub alert_id: Paths,
    /// Julian date, UTC, days.
    pub jd: Paths,
    /// Modified Julian date, UTC, days.
    pub mjd: Paths,
    /// Modified Julian date, TAI, days.
    pub mjd_tai: Paths,
    /// Right ascension, deg.
    pub ra: Paths,
    /// Declination, deg.
    pub dec: Paths,
    /// Access: 1 public, 2 partnership, 3 Caltech.
    pub programid: Paths,
    /// The passband, translated by `bands`.
    pub band: Paths,
    /// Magnitude, mag.
    pub magnitude: Paths,
    /// Flux, nJy; made a magnitude in the AB system where it is positive.
    pub flux_njy: Paths,
    /// Real-bogus score.
    pub rb: Paths,
    /// Deep-learning real-bogus score.
    pub drb: Paths,
    /// Number of earlier detections.
    pub ndethist: Paths,
}

/// One path or several.
#[derive(Debug, Clone, PartialEq)]
pub enum Paths {
    /// One.
    One(String),
    /// Several; the first with a value counts.
    Many(Vec<String>),
}

impl Default for Paths {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Paths;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field's path in quotes, or a list of them")
            }
            fn visit_str<E>(self, path: &str) -> Result<Paths, E> {
                Ok(Paths::One(path.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Paths, A::Error> {
                let mut paths = Vec::new();
                while let Some(path) = list.next_element()? {
                    paths.push(path);
                }
                Ok(Paths::Many(paths))
            }
        }
        from.deserialize_any(OneOrMany)
    }
}

impl Paths {
    /// Gives the paths in order.
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        }
    }
}

impl Mapping {
    /// Reads a mapping from TOML.
    ///
    /// # Errors
    /// The parser's, which names the line.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Gives all paths that it names.
    pub fn paths(&self) -> Vec<String> {
        let f = &self.fields;
        let lists = [
            &f.object_id,
            &f.alert_id,
            &f.jd,
            &f.mjd,
            &f.mjd_tai,
            &f.ra,
            &f.dec,
            &f.programid,
            &f.band,
            &f.magnitude,
            &f.flux_njy,
            &f.rb,
            &f.drb,
            &f.ndethist,
        ];
        lists.iter().flat_map(|paths| paths.as_slice()).cloned().collect()
    }

    /// Whether the mapping is for packets whose record has this full name.
    pub fn matches(&self, record: &str) -> bool {
        self.records.iter().any(|pattern| matches(pattern, record))
    }

    /// Whether the mapping was checked with this version of the schema.
    pub fn knows(&self, version: Option<&str>) -> bool {
        self.versions.is_empty() || version.is_some_and(|v| self.versions.iter().any(|known| known == v))
    }

    /// Translates a band; a value that the table does not have is no band.
    pub fn band_of(&self, value: &str) -> Option<&str> {
        self.bands.get(value).map(String::as_str)
    }
}

/// Matches text to a pattern in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(head) else {
        return false;
    };
    (0..=rest.len())
        .filter_map(|at| rest.get(at..))
        .any(|rest| matches(tail, rest))
}

/// Gives the mappings that come with the crate: ZTF, Rubin, WINTER, PGIR, DECam.
pub fn bundled() -> Vec<Mapping> {
    const TEXTS: [&str; 5] = [
        include_str!("../schemas/surveys/ztf.toml"),
        include_str!("../schemas/surveys/rubin.toml"),
        include_str!("../schemas/surveys/winter.toml"),
        include_str!("../schemas/surveys/pgir.toml"),
        include_str!("../schemas/surveys/decam.toml"),
    ];
    #[expect(
        clippy::expect_used,
        reason = "the files are part of the crate, and a test reads each"
    )]
    TEXTS
        .iter()
        .map(|text| Mapping::from_toml(text).expect("bundled mapping"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_mapping_is_read_and_found_by_its_record() {
        let found: Vec<_> = [
            "ztf.alert",
            "lsst.v9_0.alert",
            "winter.alert",
            "pgir.alert",
            "desirt.alert",
        ]
        .iter()
        .map(|record| bundled().into_iter().find(|m| m.matches(record)).map(|m| m.survey))
        .collect();
        let names = ["ztf", "rubin", "winter", "pgir", "decam"].map(|n| Some(n.to_owned()));
        assert_eq!(found, names);
    }

    #[test]
    fn a_star_stands_for_any_text_and_nothing_else_does() {
        assert!(matches("lsst.v*.alert", "lsst.v11_0.alert"));
        assert!(!matches("lsst.v*.alert", "lsst.v11_0.alerts"));
        assert!(!matches("ztf.alert", "ztf.alert.candidate"));
    }
}
