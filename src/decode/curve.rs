//! One entry of a light curve, read by the survey's mapping.
//!
//! Invariants: an entry without time, or with neither measurement nor limit, is none. Must not know how it is shown.

use crate::surveys::{Curve, Mapping, Point};

use super::bind::{MJD_ZERO, jd_of_mjd_tai};
use super::value::View;

/// Reads one entry.
pub(super) fn point(entry: &View<'_>, curve: &Curve, mapping: &Mapping) -> Option<Point> {
    let number = |field: &str| entry.get(field)?.as_f64().filter(|n| !mapping.none.contains(n));
    let named = |field: &Option<String>| field.as_deref().and_then(number);
    let mjd = || named(&curve.mjd).map(|mjd| mjd + MJD_ZERO);
    let jd = named(&curve.jd)
        .or_else(mjd)
        .or_else(|| named(&curve.mjd_tai).map(jd_of_mjd_tai))?;
    let band = curve.band.as_deref().and_then(|field| entry.get(field));
    let band = band.and_then(|value| {
        value
            .as_str()
            .map(str::to_owned)
            .or(value.as_i64().map(|n| n.to_string()))
    });
    let band = band
        .and_then(|text| mapping.band_of(&text).map(str::to_owned))
        .or_else(|| mapping.band.clone());
    let (value, is_limit) = match number(&curve.value) {
        Some(value) => (value, false),
        None => (named(&curve.limit)?, true),
    };
    let error = named(&curve.error).filter(|_| !is_limit);
    Some(Point {
        jd,
        value,
        error,
        is_limit,
        band,
    })
}
