//! Fields of the sky: the visits they had, the objects in them, and what a visit measured of an object.
//!
//! A measurement is a function of object and visit alone, so what an alert says of itself is what later alerts of the
//! same object say of it in their history.

use chrono::{Datelike, Days, NaiveDate};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::Survey;
use super::noise::{Noise, scramble};

/// Radius of a field, deg (as a square's half side).
const HALF_SIDE: f64 = 3.4;

/// What a survey sees of the sky in one night.
pub(super) struct Sky {
    survey: Survey,
    night: NaiveDate,
    /// JD at which the night begins.
    begins: f64,
}

impl Sky {
    pub(super) fn of(survey: Survey, night: NaiveDate, begins: f64) -> Self {
        Self { survey, night, begins }
    }

    /// Names of the survey's bands.
    pub(super) fn bands(&self) -> &'static [&'static str] {
        match self.survey {
            Survey::Ztf => &["g", "r", "i"],
            Survey::Rubin => &["g", "r", "i", "z", "y", "u"],
        }
    }

    /// Declinations that the survey reaches, deg, and its usual limiting magnitude.
    fn reach(&self) -> (f64, f64, f64) {
        match self.survey {
            Survey::Ztf => (-28.0, 88.0, 20.6),
            Survey::Rubin => (-75.0, 10.0, 24.0),
        }
    }

    /// The time of a share of the observing hours (UTC hours of the site's night), inside the night of the date.
    fn jd(&self, share: f64) -> f64 {
        let (from, to) = match self.survey {
            Survey::Ztf => (2.5, 11.9),
            Survey::Rubin => (0.2, 9.8),
        };
        let begins_at = (self.begins + 0.5).fract() * 24.0;
        self.begins + (from + (to - from) * share - begins_at).rem_euclid(24.0) / 24.0
    }
}

/// One visit of a field.
pub(super) struct Epoch {
    /// JD in UTC.
    pub(super) jd: f64,
    /// The band's place in the survey's list.
    pub(super) band: usize,
    /// Its name.
    pub(super) band_name: &'static str,
    /// Limiting magnitude, mag.
    pub(super) limit: f64,
    /// Date and number: YYYYMMDD * 100000 + n.
    pub(super) visit: i64,
    /// The path of the difference image.
    pub(super) file: String,
    /// Full width of the point spread function at half maximum, pixels.
    pub(super) fwhm: f64,
    /// Zero point, mag.
    pub(super) zero_point: f64,
    /// Whether it belongs to the simulated night.
    tonight: bool,
}

/// What a visit measured of an object.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    /// mag
    pub(super) magnitude: f64,
    /// mag
    pub(super) sigma: f64,
    /// Whether it is above the limit.
    pub(super) detected: bool,
}

enum Curve {
    /// Rises and declines once: peak's jd, peak's mag, rise and decline in days per mag.
    Transient {
        peak: f64,
        brightest: f64,
        rise: f64,
        decline: f64,
    },
    /// Repeats: mean mag, amplitude, period in days.
    Periodic { mean: f64, amplitude: f64, period: f64 },
    /// A moving object: here this night only.
    Mover { magnitude: f64 },
}

/// One object.
pub(super) struct Object {
    /// Unique in the simulation.
    pub(super) number: u64,
    /// deg
    pub(super) ra: f64,
    /// deg
    pub(super) dec: f64,
    /// Where its noise comes from.
    pub(super) seed: u64,
    /// Readout channel, 0 to 63.
    pub(super) channel: i64,
    /// Real-bogus score that its detections scatter around.
    pub(super) score: f64,
    curve: Curve,
}

impl Object {
    /// Whether it belongs to the solar system.
    pub(super) fn moves(&self) -> bool {
        matches!(self.curve, Curve::Mover { .. })
    }

    fn magnitude(&self, jd: f64, band: usize, tonight: bool) -> f64 {
        let color = 0.25 * band as f64 * if self.seed & 1 == 0 { 1.0 } else { -0.6 };
        let magnitude = match self.curve {
            Curve::Transient {
                peak,
                brightest,
                rise,
                decline,
            } => {
                let days = jd - peak;
                brightest + if days < 0.0 { -days / rise } else { days / decline }
            }
            Curve::Periodic {
                mean,
                amplitude,
                period,
            } => mean + amplitude * (std::f64::consts::TAU * (jd / period).fract()).sin(),
            Curve::Mover { magnitude } if tonight => magnitude,
            Curve::Mover { .. } => 99.0,
        };
        magnitude + color
    }

    /// What a visit measured of it; every visit of the simulated night detects it.
    pub(super) fn measured(&self, epoch: &Epoch) -> Measure {
        let mut truth = self.magnitude(epoch.jd, epoch.band, epoch.tonight);
        if epoch.tonight {
            truth = truth.min(epoch.limit - 0.2);
        }
        let sigma = 0.01 + 0.17 * 10.0_f64.powf(0.4 * (truth - epoch.limit)).min(3.0);
        let scatter = Noise::at(self.seed, epoch.visit as u64).normal() * sigma;
        let magnitude = if epoch.tonight {
            (truth + scatter).min(epoch.limit - 0.02)
        } else {
            truth + scatter
        };
        Measure {
            magnitude,
            sigma,
            detected: magnitude < epoch.limit,
        }
    }
}

/// One field.
pub(super) struct Field {
    /// The survey's number of it.
    pub(super) number: i64,
    /// 1 public, 2 partnership, 3 Caltech.
    pub(super) programid: i32,
    /// What there is to see.
    pub(super) objects: Vec<Object>,
    /// In order of time.
    pub(super) visits: Vec<Epoch>,
    bands: [usize; 2],
    first: usize,
}

impl Field {
    /// Makes a field with `names.1` objects, numbered from `names.0`.
    pub(super) fn new(rng: &mut ChaCha8Rng, sky: &Sky, number: u64, names: (u64, u64)) -> Self {
        let (south, north, limit) = sky.reach();
        let sines = south.to_radians().sin()..north.to_radians().sin();
        let centre = (
            rng.random_range(0.0..360.0),
            rng.random_range(sines).asin().to_degrees(),
        );
        let share = rng.random_range(0.0..1.0);
        let pairs = [[0, 1], [1, 0], [1, 2], [2, 1]];
        let mut field = Self {
            number: 200 + (number % 1_700) as i64,
            programid: if sky.survey == Survey::Rubin || share < 0.7 {
                1
            } else {
                2 + i32::from(share > 0.95)
            },
            objects: (0..names.1)
                .map(|n| object(rng, sky, names.0 + n, centre, limit))
                .collect(),
            visits: Vec::new(),
            bands: pairs.get(rng.random_range(0..pairs.len())).copied().unwrap_or_default(),
            first: 0,
        };
        let past: usize = rng.random_range(9..22);
        for n in (1..=past).rev() {
            let days = (n * 30 / past).clamp(1, 30) as u64;
            let band = field.bands.get(n % 2).copied().unwrap_or_default();
            let jd = sky.jd(rng.random_range(0.0..1.0)) - days as f64;
            let date = sky.night.checked_sub_days(Days::new(days)).unwrap_or(sky.night);
            let epoch = field.epoch(sky, (jd, date, band), (number * 31 + n as u64) % 100_000, rng.random());
            field.visits.push(epoch);
        }
        field.visits.sort_by(|a, b| a.jd.total_cmp(&b.jd));
        field
    }

    /// Adds a visit of the simulated night.
    pub(super) fn visit(&mut self, sky: &Sky, exposure: u64, pass: u64, share: f64, random: u64) {
        let band = self.bands.get(pass as usize % 2).copied().unwrap_or_default();
        let mut epoch = self.epoch(sky, (sky.jd(share), sky.night, band), exposure, random);
        epoch.tonight = true;
        self.visits.push(epoch);
        self.first = (random % self.objects.len().max(1) as u64) as usize;
    }

    /// The object of the n-th alert of the latest visit.
    pub(super) fn pick(&self, n: u64) -> usize {
        (self.first + n as usize) % self.objects.len().max(1)
    }

    fn epoch(&self, sky: &Sky, when: (f64, NaiveDate, usize), number: u64, random: u64) -> Epoch {
        let (jd, date, band) = when;
        let band_name = sky.bands().get(band).copied().unwrap_or("r");
        let mut noise = Noise::at(random, number);
        let of_day = ((jd + 0.5).fract() * 1e6) as u64;
        let day = format!("{:04}{:02}{:02}", date.year(), date.month(), date.day());
        let file = format!(
            "/ztf/archive/sci/{}/{:02}{:02}/{of_day:06}/ztf_{day}{of_day:06}_{:06}_z{band_name}_c{:02}_o_q{}_scimrefdiffimg.fits.fz",
            date.year(),
            date.month(),
            date.day(),
            self.number,
            1 + random % 16,
            1 + random % 4,
        );
        Epoch {
            jd,
            band,
            band_name,
            limit: sky.reach().2 + noise.between(-0.6, 0.4),
            visit: day.parse::<i64>().unwrap_or_default() * 100_000 + (number % 100_000) as i64,
            file,
            fwhm: noise.between(1.6, 3.2),
            zero_point: 26.2 + noise.between(-0.2, 0.2),
            tonight: false,
        }
    }
}

fn object(rng: &mut ChaCha8Rng, sky: &Sky, number: u64, centre: (f64, f64), limit: f64) -> Object {
    let dec = (centre.1 + rng.random_range(-HALF_SIDE..HALF_SIDE)).clamp(-89.9, 89.9);
    let east = rng.random_range(-HALF_SIDE..HALF_SIDE) / dec.to_radians().cos();
    let kind = rng.random_range(0.0..1.0);
    let curve = if kind < 0.25 {
        Curve::Transient {
            peak: sky.begins + rng.random_range(-20.0..15.0),
            brightest: limit - rng.random_range(0.8..5.0),
            rise: rng.random_range(3.0..8.0),
            decline: rng.random_range(10.0..25.0),
        }
    } else if kind < 0.88 {
        Curve::Periodic {
            mean: limit - rng.random_range(0.3..5.5),
            amplitude: rng.random_range(0.05..0.9),
            period: 10.0_f64.powf(rng.random_range(-1.0..2.0)),
        }
    } else {
        Curve::Mover {
            magnitude: limit - rng.random_range(0.3..4.0),
        }
    };
    let bogus = rng.random_bool(0.15);
    Object {
        number,
        ra: (centre.0 + east).rem_euclid(360.0),
        dec,
        seed: scramble(rng.random::<u64>() ^ number),
        channel: rng.random_range(0..64),
        score: if bogus {
            rng.random_range(0.05..0.5)
        } else {
            rng.random_range(0.6..0.97)
        },
        curve,
    }
}
