//! A few values of each flag, such that most select something but not everything, each with what it must select said a
//! second time and by hand: nothing here uses the query's parser, its tests of an alert or the sky's geometry.

use alertstream::header::AlertHeader;

/// What a flag must select.
#[derive(Clone, Copy)]
pub(crate) enum Oracle {
    /// Alerts of which this holds.
    Alert(fn(&AlertHeader) -> bool),
    /// Of each object the latest.
    Latest,
    /// The ranks r with r mod the first = the second.
    Every(usize, usize),
    /// So many.
    Limit(usize),
}

use Oracle::{Alert, Every, Latest, Limit};

/// Flag, value, oracle. The value of `moc` is what stands in the file.
pub(crate) const VALUES: &[(&str, &[(&str, Oracle)])] = &[
    (
        "jd",
        &[
            ("2458350.5..2458352.5", Alert(|a| jd(a, 2_458_350.5, 2_458_352.5))),
            ("..2458350.0", Alert(|a| jd(a, f64::MIN, 2_458_350.0))),
            ("2458353.25..", Alert(|a| jd(a, 2_458_353.25, f64::MAX))),
            ("2458349.5..2458349.500001", Alert(|a| a.jd == Some(2_458_349.5))),
        ],
    ),
    (
        "mjd",
        &[("58350.25..58351.75", Alert(|a| jd(a, 2_458_350.75, 2_458_352.25)))],
    ),
    (
        "time",
        &[
            (
                "2018-08-20T06:00:00Z..2018-08-22",
                Alert(|a| jd(a, 2_458_350.75, 2_458_352.5)),
            ),
            ("2018-08-19..", Alert(|a| jd(a, 2_458_349.5, f64::MAX))),
        ],
    ),
    (
        "night",
        &[
            ("2018-08-19", Alert(|a| jd(a, 2_458_349.5, 2_458_350.5))),
            ("2018-08-20..2018-08-21", Alert(|a| jd(a, 2_458_350.5, 2_458_352.5))),
            ("..2018-08-22", Alert(|a| jd(a, f64::MIN, 2_458_353.5))),
        ],
    ),
    (
        "cone",
        &[
            ("0,0,0.7", Alert(|a| cone(a, 0.0, 0.0, 0.7))),
            ("359.9,0.1,2deg", Alert(|a| cone(a, 359.9, 0.1, 2.0))),
            ("10,90,1", Alert(|a| cone(a, 10.0, 90.0, 1.0))),
            ("77,-89.9,20arcmin", Alert(|a| cone(a, 77.0, -89.9, 20.0 / 60.0))),
            ("45,0,10arcsec", Alert(|a| cone(a, 45.0, 0.0, 10.0 / 3600.0))),
            ("120,41.8,3", Alert(|a| cone(a, 120.0, 41.8, 3.0))),
            ("200,-30,60", Alert(|a| cone(a, 200.0, -30.0, 60.0))),
            ("20,10,120", Alert(|a| cone(a, 20.0, 10.0, 120.0))),
            ("1,2,180", Alert(|a| a.ra.is_some())),
        ],
    ),
    (
        "healpix",
        &[
            ("1:0,3,5", Alert(|a| pixel(a, 0, |p| [0, 3, 5].contains(&p)))),
            (
                "64:0,1,2,8191",
                Alert(|a| pixel(a, 6, |p| [0, 1, 2, 8191].contains(&p))),
            ),
            (
                "8:100,1:7,4:3",
                Alert(|a| pixel(a, 3, |p| p == 100) || pixel(a, 0, |p| p == 7) || pixel(a, 2, |p| p == 3)),
            ),
            (
                "2:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
                Alert(|a| pixel(a, 1, |p| p < 24)),
            ),
        ],
    ),
    (
        "moc",
        &[
            (
                "1/3-20 5/0-300",
                Alert(|a| pixel(a, 1, |p| (3..=20).contains(&p)) || pixel(a, 5, |p| p <= 300)),
            ),
            ("0/0-11", Alert(|a| a.ra.is_some())),
            (
                "9/2621440-2700000",
                Alert(|a| pixel(a, 9, |p| (2_621_440..=2_700_000).contains(&p))),
            ),
        ],
    ),
    (
        "object",
        &[
            ("OBJ001", Alert(|a| object(a, &["OBJ001"]))),
            (
                "OBJ001,OBJ002,OBJ003,OBJ399,absent",
                Alert(|a| object(a, &["OBJ001", "OBJ002", "OBJ003", "OBJ399"])),
            ),
            ("absent", Alert(|_| false)),
        ],
    ),
    (
        "candid",
        &[
            (
                "1000001,1000002,1004000,7",
                Alert(|a| [1_000_001, 1_000_002, 1_004_000].contains(&a.alert_id)),
            ),
            ("0", Alert(|a| a.alert_id == 0)),
        ],
    ),
    (
        "survey",
        &[
            ("ztf", Alert(|a| a.survey == "ztf")),
            ("rubin,winter", Alert(|a| a.survey != "ztf")),
        ],
    ),
    (
        "programid",
        &[
            ("1", Alert(|a| a.programid == 1)),
            ("2,3", Alert(|a| a.programid != 1)),
            ("9", Alert(|_| false)),
        ],
    ),
    (
        "band",
        &[
            ("g", Alert(|a| a.band.as_deref() == Some("g"))),
            ("r,J", Alert(|a| matches!(a.band.as_deref(), Some("r" | "J")))),
        ],
    ),
    (
        "where",
        &[
            (
                "magnitude < 18.0 && rb >= 0.65",
                Alert(|a| a.magnitude.is_some_and(|m| m < 18.0) && a.rb.is_some_and(|rb| rb >= 0.65)),
            ),
            ("!(drb > 0.5)", Alert(|a| a.drb.is_some_and(|drb| drb <= 0.5))),
            (
                "drb > rb || band == 'g' || ndethist in [1, 2]",
                Alert(|a| {
                    a.drb.zip(a.rb).is_some_and(|(drb, rb)| drb > rb)
                        || a.band.as_deref() == Some("g")
                        || matches!(a.ndethist, Some(1 | 2))
                }),
            ),
            (
                "!(band in ['g', 'r'] && magnitude > 19) && programid != 2",
                Alert(|a| {
                    let other_band = a.band.as_deref().is_some_and(|band| band != "g" && band != "r");
                    (other_band || a.magnitude.is_some_and(|m| m <= 19.0)) && a.programid != 2
                }),
            ),
            (
                "!(rb in [0.5, 0.25]) && (ndethist >= 3 || magnitude <= 15.5)",
                Alert(|a| {
                    a.rb.is_some_and(|rb| rb != 0.5 && rb != 0.25)
                        && (a.ndethist.is_some_and(|n| n >= 3) || a.magnitude.is_some_and(|m| m <= 15.5))
                }),
            ),
        ],
    ),
    ("latest_per_object", &[("true", Latest)]),
    ("every", &[("7", Every(7, 0)), ("3/2", Every(3, 2))]),
    ("limit", &[("1", Limit(1)), ("50", Limit(50))]),
];

fn jd(alert: &AlertHeader, from: f64, to: f64) -> bool {
    alert.jd.is_some_and(|jd| from <= jd && jd < to)
}

fn object(alert: &AlertHeader, of: &[&str]) -> bool {
    alert.object_id.as_deref().is_some_and(|id| of.contains(&id))
}

/// The angle between two places by their unit vectors.
fn cone(alert: &AlertHeader, ra: f64, dec: f64, radius: f64) -> bool {
    let unit = |ra: f64, dec: f64| {
        let (ra, dec) = (ra.to_radians(), dec.to_radians());
        [dec.cos() * ra.cos(), dec.cos() * ra.sin(), dec.sin()]
    };
    let Some((at_ra, at_dec)) = alert.ra.zip(alert.dec) else {
        return false;
    };
    let (a, b) = (unit(ra, dec), unit(at_ra, at_dec));
    let cross = [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ];
    let sine = cross.iter().map(|x| x * x).sum::<f64>().sqrt();
    let cosine: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
    sine.atan2(cosine).to_degrees() <= radius
}

/// Asks for the pixel of this order that the alert is in.
fn pixel(alert: &AlertHeader, order: u8, is: fn(u64) -> bool) -> bool {
    let place = alert.ra.zip(alert.dec);
    place.is_some_and(|(ra, dec)| is(cdshealpix::nested::hash(order, ra.to_radians(), dec.to_radians())))
}
