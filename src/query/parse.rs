//! From text to a checked query: one small function per flag, each refusing with the flag, the value and what to do.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::condition::Condition;
use super::error::QueryError;
use super::text::QueryText;
use super::time::{self, JdRange, NightStart};
use super::{BANDS, Every, Query};
use crate::sky::{Cone, Ranges};

impl Query {
    /// Checks what a person wrote. Files it names must have been read by [`QueryText::with_files`] before.
    ///
    /// # Errors
    /// The first flag that is wrong: a bound, a list, a region, a name, `--all` beside others, or no flag at all.
    pub fn parse(text: &QueryText, night_starts_at: NightStart) -> Result<Self, QueryError> {
        if text.is_empty() {
            return Err(QueryError::Missing);
        }
        if text.get("all").is_some() {
            return match text.parts().find(|(key, _)| *key != "all") {
                Some((beside, _)) => Err(QueryError::AllBesideOthers { beside }),
                None => Ok(Self::all()),
            };
        }
        Ok(Self {
            jd: instants(text, night_starts_at)?,
            cone: text.get("cone").map(cone).transpose()?,
            region: region(text)?,
            objects: text.get("object").map(|list| words("object", list)).transpose()?,
            alert_ids: text.get("candid").map(|list| integers("candid", list)).transpose()?,
            surveys: text.get("survey").map(|list| words("survey", list)).transpose()?,
            programids: text
                .get("programid")
                .map(|list| integers("programid", list))
                .transpose()?,
            bands: text.get("band").map(bands).transpose()?,
            condition: text.get("where").map(Condition::parse).transpose()?,
            latest_per_object: text.get("latest_per_object").is_some(),
            every: text.get("every").map(every).transpose()?,
            limit: text.get("limit").map(limit).transpose()?,
        })
    }
}

impl Query {
    /// Gives everything that is wrong with what a person wrote, not only the first; reads the files that it names.
    pub fn problems(text: &QueryText, night_starts_at: NightStart) -> Vec<QueryError> {
        let (mut left, mut problems) = (text.clone(), Vec::new());
        // Each round takes a part out.
        while let Err(error) = left
            .clone()
            .with_files()
            .and_then(|text| Self::parse(&text, night_starts_at))
        {
            // Without its wrong parts nothing may be left, which is no problem of its own.
            if problems.is_empty() || !matches!(error, QueryError::Missing) {
                let out = error.part().is_some_and(|part| left.take_out(part));
                problems.push(error);
                if out {
                    continue;
                }
            }
            break;
        }
        problems
    }
}

/// What jd, mjd, time and night have in common.
fn instants(text: &QueryText, starts_at: NightStart) -> Result<Option<JdRange>, QueryError> {
    let ranges = [
        ("jd", text.get("jd").map(time::jd)),
        ("mjd", text.get("mjd").map(time::mjd)),
        ("time", text.get("time").map(time::time)),
        ("night", text.get("night").map(|night| time::night(night, starts_at))),
    ];
    let mut common: Option<JdRange> = None;
    for (flag, range) in ranges {
        let Some(range) = range.transpose()? else { continue };
        common = Some(match common {
            None => range,
            Some(so_far) => so_far.intersection(&range).ok_or(QueryError::Disjoint { flag })?,
        });
    }
    Ok(common)
}

fn cone(text: &str) -> Result<Cone, QueryError> {
    let refuse = |why: String| QueryError::value("cone", text, why);
    let form = || refuse("write `RA,DEC,RADIUS` in degrees; the radius may say `10arcsec`, `5arcmin` or `2deg`".into());
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let [ra, dec, radius] = parts.as_slice() else {
        return Err(form());
    };
    let units = [("arcsec", 3600.0), ("arcmin", 60.0), ("deg", 1.0)];
    let in_unit = units
        .iter()
        .find_map(|(unit, per_deg)| Some((radius.strip_suffix(unit)?.trim_end(), *per_deg)));
    let (radius, per_deg) = in_unit.unwrap_or((radius, 1.0));
    let number = |text: &str| text.parse::<f64>().map_err(|_| form());
    Cone::new(number(ra)?, number(dec)?, number(radius)? / per_deg).map_err(|e| refuse(e.to_string()))
}

/// What healpix and moc have in common.
fn region(text: &QueryText) -> Result<Option<Ranges>, QueryError> {
    let pixels = text.get("healpix").map(healpix).transpose()?;
    let cover = match (text.get("moc"), &text.cover) {
        (None, _) => None,
        (Some(path), None) => return Err(QueryError::value("moc", path, "its file was not read")),
        (Some(_), Some(cover)) if cover.is_empty() => return Err(QueryError::Empty { flag: "moc" }),
        (Some(_), Some(cover)) => Some(cover.clone()),
    };
    match (pixels, cover) {
        (Some(pixels), Some(cover)) => {
            let both = pixels.intersection(&cover);
            if both.is_empty() {
                Err(QueryError::Disjoint { flag: "moc" })
            } else {
                Ok(Some(both))
            }
        }
        (pixels, cover) => Ok(pixels.or(cover)),
    }
}

/// Reads `NSIDE:PIX,PIX,..`, also several of them joined by commas.
fn healpix(text: &str) -> Result<Ranges, QueryError> {
    let refuse = |why: String| QueryError::value("healpix", text, why);
    let mut order = None;
    let mut ranges = Vec::new();
    for word in items("healpix", text)? {
        let pixel = match word.split_once(':') {
            Some((nside, pixel)) => {
                let nside: u64 = nside.trim().parse().unwrap_or(0);
                if !nside.is_power_of_two() || nside > 1 << crate::sky::ORDER {
                    return Err(refuse("NSIDE must be a power of two, 1 to 536870912".into()));
                }
                order = u8::try_from(nside.ilog2()).ok();
                pixel.trim()
            }
            None => word,
        };
        let order = order.ok_or_else(|| refuse("write `NSIDE:PIX,PIX,..` (nested), as `64:1234,1235`".into()))?;
        let pixel = pixel
            .parse()
            .map_err(|_| refuse(format!("`{pixel}` is no pixel number")))?;
        ranges.extend(
            Ranges::pixel(order, pixel)
                .map_err(|e| refuse(e.to_string()))?
                .as_slice()
                .iter()
                .cloned(),
        );
    }
    Ok(Ranges::from_unsorted(ranges))
}

fn bands(text: &str) -> Result<BTreeSet<String>, QueryError> {
    let bands = words("band", text)?;
    match bands.iter().find(|band| !BANDS.contains(&band.as_str())) {
        Some(unknown) => Err(QueryError::value(
            "band",
            unknown.as_str(),
            format!("bands are {}", BANDS.join(", ")),
        )),
        None => Ok(bands),
    }
}

fn every(text: &str) -> Result<Every, QueryError> {
    let refuse = |why: &str| QueryError::value("every", text, why);
    let (n, k) = text.split_once('/').unwrap_or((text, "0"));
    let number = |text: &str| {
        text.trim()
            .parse::<u64>()
            .map_err(|_| refuse("write `N` or `N/K` with whole numbers"))
    };
    let every = Every {
        n: number(n)?,
        k: number(k)?,
    };
    // Ranks are 64-bit signed integers in the archive.
    if every.n == 0 || i64::try_from(every.n).is_err() {
        return Err(refuse("N must be at least 1 (and below 2^63)"));
    }
    if every.k >= every.n {
        return Err(refuse("K must be below N: ranks r with r mod N = K are selected"));
    }
    Ok(every)
}

fn limit(text: &str) -> Result<u64, QueryError> {
    match text.trim().parse::<u64>() {
        Ok(limit) if limit > 0 && i64::try_from(limit).is_ok() => Ok(limit),
        _ => Err(QueryError::value(
            "limit",
            text,
            "write a whole number, at least 1; leave the flag out for no limit",
        )),
    }
}

fn words(flag: &'static str, text: &str) -> Result<BTreeSet<String>, QueryError> {
    let items = items(flag, text)?;
    // Postgres holds no NUL in text.
    if items.iter().any(|item| item.contains(char::is_control)) {
        return Err(QueryError::value(
            flag,
            text,
            "an item holds a control character: remove it",
        ));
    }
    Ok(items.into_iter().map(str::to_owned).collect())
}

fn integers<T: FromStr + Ord>(flag: &'static str, text: &str) -> Result<BTreeSet<T>, QueryError> {
    let number = |word: &str| {
        word.parse()
            .map_err(|_| QueryError::value(flag, word, "write whole numbers in range, separated by commas"))
    };
    items(flag, text)?.into_iter().map(number).collect()
}

/// Splits a list at its commas; a list without items, or an item without text, is refused.
fn items<'a>(flag: &'static str, text: &'a str) -> Result<Vec<&'a str>, QueryError> {
    if text.trim().is_empty() {
        return Err(QueryError::Empty { flag });
    }
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    if items.iter().any(|item| item.is_empty()) {
        return Err(QueryError::value(
            flag,
            text,
            "an item of the list is empty: remove the stray comma",
        ));
    }
    Ok(items)
}
