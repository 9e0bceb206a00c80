//! Rubin packets: the Confluent header with the schema's id, then the bare datum with plain FITS stamps.

use serde_json::{Value as Json, json};

use super::encode::confluent_header;
use super::field::{Epoch, Measure, Object};
use super::fits::{Image, Stamps, psf, push_image, star};
use super::noise::Noise;
use super::template::{Names, Template, Value};
use super::{Encoder, Shot, SimulateError, Survey};

const SCHEMAS: [(&str, &str); 8] = [
    ("7.1", include_str!("../../schemas/lsst/v7.1.json")),
    ("7.2", include_str!("../../schemas/lsst/v7.2.json")),
    ("7.3", include_str!("../../schemas/lsst/v7.3.json")),
    ("7.4", include_str!("../../schemas/lsst/v7.4.json")),
    ("8.0", include_str!("../../schemas/lsst/v8.0.json")),
    ("9.0", include_str!("../../schemas/lsst/v9.0.json")),
    ("10.0", include_str!("../../schemas/lsst/v10.0.json")),
    ("11.0", include_str!("../../schemas/lsst/v11.0.json")),
];

/// Side of a stamp, pixels.
const SIDE: usize = 30;
/// Sides of the point spread functions of science, template and difference, pixels.
const PSF_SIDES: [usize; 3] = [41, 77, 41];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Top,
    Source,
    Forced,
    Object,
}

#[derive(Clone, Copy)]
struct Slot {
    part: Part,
    want: Want,
}

#[derive(Clone, Copy)]
enum Want {
    Source,
    Sources,
    ForcedSources,
    Object,
    Null,
    Cutout(usize),
    SourceId,
    Visit,
    Detector,
    ObjectId,
    MoverId,
    Mjd,
    Processed,
    FirstMjd,
    Ra,
    Dec,
    Flux,
    FluxError,
    Template,
    Snr,
    Score,
    Band,
    Flag,
    Count,
    Between(f64, f64),
}

struct Point {
    mjd: f64,
    band: &'static str,
    visit: i64,
    source_id: i64,
    measure: Measure,
}

#[derive(Default)]
struct Packet {
    object_id: i64,
    mover: bool,
    detector: i64,
    ra: f64,
    dec: f64,
    score: f64,
    /// Visits that detected it, then this one.
    points: Vec<Point>,
    /// How many of them, from the end, are of this night and so in the history.
    history: usize,
    stamps: [Vec<u8>; 3],
}

impl Names for Packet {
    type Slot = Slot;

    fn slot(record: &str, field: &str) -> Slot {
        let part = match record {
            "alert" => Part::Top,
            "diaSource" => Part::Source,
            "diaForcedSource" => Part::Forced,
            _ => Part::Object,
        };
        Slot {
            part,
            want: want(part, field),
        }
    }

    fn value(&self, slot: Slot, at: usize) -> Value<'_> {
        // The history's n-th source is asked for with place n, the alert's own with the largest (see `Want::Source`).
        let current = self.points.len().saturating_sub(1);
        let first = current - self.history.min(current);
        let place = match slot.part {
            Part::Forced => first + at,
            Part::Source if at != usize::MAX => first + at,
            _ => current,
        };
        let Some(point) = self.points.get(place) else {
            return Value::Null;
        };
        let flux = 10.0_f64.powf((31.4 - point.measure.magnitude) / 2.5);
        match slot.want {
            Want::Source => Value::Record(usize::MAX),
            Want::Sources | Want::ForcedSources if self.history == 0 => Value::Null,
            Want::Sources | Want::ForcedSources => Value::Many(self.history),
            Want::Object if self.mover => Value::Null,
            Want::Object => Value::Record(0),
            Want::Null => Value::Null,
            Want::Cutout(which) => self.stamps.get(which).map_or(Value::Null, |stamp| Value::Bytes(stamp)),
            Want::SourceId => Value::Int(point.source_id),
            Want::Visit => Value::Int(point.visit),
            Want::Detector => Value::Int(self.detector),
            Want::ObjectId if self.mover => Value::Null,
            Want::MoverId if !self.mover => Value::Null,
            Want::ObjectId | Want::MoverId => Value::Int(self.object_id),
            Want::Mjd => Value::Real(point.mjd),
            Want::Processed => Value::Real(point.mjd + 60.0 / 86_400.0),
            Want::FirstMjd => self.points.first().map_or(Value::Null, |point| Value::Real(point.mjd)),
            Want::Ra => Value::Real(self.ra + jitter(point.source_id, 0)),
            Want::Dec => Value::Real(self.dec + jitter(point.source_id, 1)),
            Want::Flux => Value::Real(flux),
            Want::FluxError => Value::Real(flux * point.measure.sigma + 30.0),
            Want::Template => Value::Real(flux * 3.0),
            Want::Snr => Value::Real(1.0 / point.measure.sigma),
            Want::Score => Value::Real((self.score + jitter(point.source_id, 2) * 1e3).clamp(0.0, 1.0)),
            Want::Band => Value::Text(point.band),
            Want::Flag => Value::Flag(false),
            Want::Count => Value::Int(self.points.len() as i64),
            Want::Between(low, high) => Value::Noise(low, high),
        }
    }
}

fn want(part: Part, field: &str) -> Want {
    match (part, field) {
        (Part::Top, "diaSource") => Want::Source,
        (Part::Top, "prvDiaSources") => Want::Sources,
        (Part::Top, "prvDiaForcedSources") => Want::ForcedSources,
        (Part::Top, "diaObject") => Want::Object,
        (Part::Top, "cutoutScience") => Want::Cutout(0),
        (Part::Top, "cutoutTemplate") => Want::Cutout(1),
        (Part::Top, "cutoutDifference") => Want::Cutout(2),
        (_, "diaSourceId" | "alertId" | "diaForcedSourceId") => Want::SourceId,
        (_, "visit" | "ccdVisitId") => Want::Visit,
        (_, "detector") => Want::Detector,
        (_, "diaObjectId") => Want::ObjectId,
        (_, "ssObjectId") => Want::MoverId,
        (_, "midpointMjdTai" | "lastDiaSourceMjdTai") => Want::Mjd,
        (_, "timeProcessedMjdTai" | "time_processed") => Want::Processed,
        (_, "firstDiaSourceMjdTai" | "validityStartMjdTai") => Want::FirstMjd,
        (_, "ra") => Want::Ra,
        (_, "dec") => Want::Dec,
        (_, "psfFlux" | "apFlux" | "scienceFlux" | "trailFlux") => Want::Flux,
        (_, "psfFluxErr" | "apFluxErr" | "scienceFluxErr" | "trailFluxErr") => Want::FluxError,
        (_, "templateFlux") => Want::Template,
        (_, "snr") => Want::Snr,
        (_, "reliability") => Want::Score,
        (_, "band" | "filterName") => Want::Band,
        (_, "nDiaSources") => Want::Count,
        (_, "x" | "y") => Want::Between(20.0, 4000.0),
        (_, "raErr" | "decErr") => Want::Between(1e-6, 4e-5),
        (Part::Top, _) | (_, "parentDiaSourceId" | "timeWithdrawnMjdTai") => Want::Null,
        (Part::Source, name) if name.contains("lag") || name.starts_with("is") || name.contains("glint") => Want::Flag,
        (Part::Source, name) if name.starts_with("dipole") || name.starts_with("trail") => Want::Null,
        (Part::Source | Part::Forced, _) => Want::Between(0.0, 50.0),
        (Part::Object, _) => Want::Between(0.0, 1000.0),
    }
}

/// A hundredth of an arcsec or so, deg, the same for the same detection.
fn jitter(source: i64, which: u64) -> f64 {
    Noise::at(source as u64, which).normal() * 3e-6
}

/// Writes Rubin packets of one schema version.
pub(super) struct Rubin {
    id: u32,
    template: Template<Packet>,
    bumped: Template<Packet>,
    stamps: Stamps,
    packet: Packet,
}

impl Rubin {
    pub(super) fn new(version: Option<&str>, seed: u64) -> Result<Self, SimulateError> {
        let (version, schema) = super::bundled(&SCHEMAS, Survey::Rubin, version)?;
        let failed = SimulateError::Bundled;
        let schema: Json = serde_json::from_str(schema).map_err(|e| failed(e.to_string()))?;
        let mut newer = schema.clone();
        super::add_field(
            &mut newer,
            json!({ "name": "simulatedFutureField", "type": ["null", "double"] }),
        );
        let parts = version
            .split_once('.')
            .and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
        let (major, minor) = parts.ok_or_else(|| failed(format!("version {version}")))?;
        Ok(Self {
            id: major * 100 + minor,
            template: Template::compile(&schema).map_err(failed)?,
            bumped: Template::compile(&newer).map_err(failed)?,
            stamps: Stamps::new(seed, stamps),
            packet: Packet::default(),
        })
    }

    fn say(&mut self, shot: &Shot<'_>) {
        let Some(object) = shot.field.objects.get(shot.object) else {
            return;
        };
        let packet = &mut self.packet;
        packet.object_id = object_id(object);
        packet.mover = object.moves();
        (packet.ra, packet.dec, packet.score) = (object.ra, object.dec, object.score);
        packet.detector = object.channel * 189 / 64;
        packet.points.clear();
        for epoch in shot.before.iter().chain([shot.now]) {
            let measure = object.measured(epoch);
            if measure.detected {
                packet.points.push(Point {
                    mjd: mjd_tai(epoch.jd),
                    band: epoch.band_name,
                    visit: epoch.visit,
                    source_id: source_id(epoch, shot.object),
                    measure,
                });
            }
        }
        let tonight = shot.now.visit / 100_000;
        packet.history = packet
            .points
            .iter()
            .filter(|point| point.visit / 100_000 == tonight)
            .count()
            .saturating_sub(1);
        if let Some(stamps) = self.stamps.of(object.measured(shot.now).magnitude - 3.0, object.seed) {
            for (to, from) in packet.stamps.iter_mut().zip(stamps) {
                to.clear();
                to.extend_from_slice(from);
            }
        }
    }
}

impl Encoder for Rubin {
    fn encode(&mut self, shot: &Shot<'_>, out: &mut Vec<u8>) {
        self.say(shot);
        confluent_header(out, self.id);
        self.template.encode(&self.packet, &mut noise(shot), out);
    }

    fn encode_bumped(&mut self, shot: &Shot<'_>, out: &mut Vec<u8>) {
        self.say(shot);
        confluent_header(out, 9_900);
        self.bumped.encode(&self.packet, &mut noise(shot), out);
    }

    fn names(&self, shot: &Shot<'_>) -> (String, i64) {
        let object = shot.field.objects.get(shot.object).map_or(0, object_id);
        (object.to_string(), source_id(shot.now, shot.object))
    }

    fn id_byte(&self) -> usize {
        // The last byte of the schema's id.
        4
    }
}

fn noise(shot: &Shot<'_>) -> Noise {
    let seed = shot.field.objects.get(shot.object).map_or(0, |object| object.seed);
    Noise::at(seed, shot.now.visit as u64)
}

fn object_id(object: &Object) -> i64 {
    169_000_000_000_000_000 + object.number as i64
}

fn source_id(epoch: &Epoch, object: usize) -> i64 {
    epoch.visit * 100_000 + object as i64 % 100_000
}

/// Takes a JD in UTC to an MJD in TAI, with leap seconds.
fn mjd_tai(jd: f64) -> f64 {
    hifitime::Epoch::from_jde_utc(jd).to_mjd_tai_days()
}

/// Science, template and difference: image, its uncertainty, its point spread function.
fn stamps(noise: &mut Noise, magnitude: f64) -> [Vec<u8>; 3] {
    let flux = 10.0_f64.powf((26.2 - magnitude) / 2.5);
    let fwhm = noise.between(3.0, 5.0);
    let kinds = [(900.0, flux + 900.0), (700.0, 900.0), (0.0, flux)];
    let mut files = kinds.iter().zip(PSF_SIDES).map(|((sky, flux), psf_side)| {
        let mut file = Vec::new();
        push_image(
            &mut file,
            None,
            &Image::Float(SIDE, star(noise, SIDE, *sky, *flux, fwhm)),
        );
        push_image(
            &mut file,
            Some("UNCERT"),
            &Image::Float(SIDE, star(noise, SIDE, 30.0, 0.0, fwhm)),
        );
        push_image(
            &mut file,
            Some("PSFIMAGE"),
            &Image::Double(psf_side, psf(psf_side, fwhm)),
        );
        file
    });
    std::array::from_fn(|_| files.next().unwrap_or_default())
}
