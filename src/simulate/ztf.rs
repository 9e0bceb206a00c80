//! ZTF packets: a container file of one record with its writer schema, gzipped stamps, history and forced photometry.

mod want;

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::encode::{container, container_header};
use super::field::{Epoch, Measure};
use super::fits::{Image, Stamps, gzip, push_image, star};
use super::noise::Noise;
use super::template::{Names, Template, Value};
use super::{Encoder, Shot, SimulateError, Survey};
use want::{Part, Slot, Want, upper_limit_has, want};

const SCHEMAS: [(&str, &str); 7] = [
    ("1.8", include_str!("../../schemas/ztf/v1.8.json")),
    ("3.0", include_str!("../../schemas/ztf/v3.0.json")),
    ("3.1", include_str!("../../schemas/ztf/v3.1.json")),
    ("3.2", include_str!("../../schemas/ztf/v3.2.json")),
    ("3.3", include_str!("../../schemas/ztf/v3.3.json")),
    ("4.01", include_str!("../../schemas/ztf/v4.01.json")),
    ("4.02", include_str!("../../schemas/ztf/v4.02.json")),
];

/// Side of a stamp, pixels.
const SIDE: usize = 63;

/// What a shot says, measured once.
#[derive(Default)]
struct Said {
    object_id: String,
    file: String,
    mover: bool,
    ra: f64,
    dec: f64,
    score: f64,
    channel: i64,
    field: i64,
    programid: i64,
    /// Past visits, then this one.
    points: Vec<Point>,
    stamps: [Vec<u8>; 3],
}

struct Point {
    jd: f64,
    fid: i64,
    limit: f64,
    file: String,
    fwhm: f64,
    zero_point: f64,
    candid: i64,
    measure: Measure,
}

/// What is written: values for the template.
struct Packet {
    version: &'static str,
    said: Said,
}

impl Names for Packet {
    type Slot = Slot;

    fn slot(record: &str, field: &str) -> Slot {
        let part = match record {
            "alert" => Part::Top,
            "candidate" => Part::Candidate,
            "prv_candidate" => Part::History,
            "fp_hist" => Part::Forced,
            _ => Part::Cutout,
        };
        Slot {
            part,
            want: want(part, field),
        }
    }

    fn value(&self, slot: Slot, at: usize) -> Value<'_> {
        let said = &self.said;
        let point = match slot.part {
            Part::History | Part::Forced => said.points.get(at),
            _ => said.points.last(),
        };
        let Some(point) = point else { return Value::Null };
        if slot.part == Part::History && !point.measure.detected && !upper_limit_has(slot.want) {
            return Value::Null;
        }
        match slot.want {
            Want::Version => Value::Text(self.version),
            Want::Fixed(text) => Value::Text(text),
            Want::Candidate => Value::Record(0),
            Want::History | Want::Forced if said.points.len() < 2 => Value::Null,
            Want::History | Want::Forced => Value::Many(said.points.len() - 1),
            Want::Cutout(which) => Value::Record(which),
            Want::CutoutFile => Value::Text(&said.file),
            Want::CutoutBytes => said.stamps.get(at).map_or(Value::Null, |stamp| Value::Bytes(stamp)),
            Want::Whole(low, high) => Value::Noise(low as f64, high as f64),
            Want::Between(low, high) => Value::Noise(low, high),
            want => self.of_point(want, point, slot.part),
        }
    }
}

impl Packet {
    /// Values that follow from the object and one of its points.
    fn of_point<'a>(&'a self, want: Want, point: &'a Point, part: Part) -> Value<'a> {
        let said = &self.said;
        let flux = 10.0_f64.powf((point.zero_point - point.measure.magnitude) / 2.5);
        let flux = if point.measure.detected {
            flux
        } else {
            20.0 * (point.jd.fract() - 0.5)
        };
        let detections = said.points.iter().filter(|p| p.measure.detected);
        match want {
            Want::ObjectId => Value::Text(&said.object_id),
            Want::Candid => Value::Int(point.candid),
            Want::Jd => Value::Real(point.jd),
            Want::Fid => Value::Int(point.fid),
            Want::Pid => Value::Int(point.candid / 1_000_000),
            Want::Limit => Value::Real(point.limit),
            Want::File => Value::Text(&point.file),
            Want::Program => Value::Int(said.programid),
            Want::Positive => Value::Text(if point.candid % 8 == 0 { "f" } else { "t" }),
            Want::Ra => Value::Real(said.ra + jitter(point.candid, 0)),
            Want::Dec => Value::Real(said.dec + jitter(point.candid, 1)),
            Want::Magnitude => Value::Real(point.measure.magnitude),
            Want::Sigma => Value::Real(point.measure.sigma),
            Want::Aperture => Value::Real(point.measure.magnitude + 0.06),
            Want::Flux => Value::Real(flux),
            Want::FluxError => Value::Real(flux.abs() * point.measure.sigma + 12.0),
            Want::ZeroPoint => Value::Real(point.zero_point),
            Want::Fwhm => Value::Real(point.fwhm),
            Want::Score => Value::Real((said.score + jitter(point.candid, 2) * 800.0).clamp(0.0, 1.0)),
            Want::DeepScore if said.score > 0.5 => Value::Real(1.0 - (1.0 - said.score).powi(3)),
            Want::DeepScore => Value::Real(said.score.powi(3)),
            Want::Detections => Value::Int(detections.count() as i64),
            Want::Coverage => Value::Int(said.points.len() as i64 * 11),
            Want::FirstJd => detections.map(|p| p.jd).next().map_or(Value::Null, Value::Real),
            Want::LastJd => Value::Real(point.jd),
            Want::Channel => Value::Int(said.channel),
            Want::Field => Value::Int(said.field),
            Want::MoverDistance => Value::Real(if said.mover { 0.8 } else { -999.0 }),
            Want::MoverMagnitude => Value::Real(if said.mover {
                point.measure.magnitude - 0.1
            } else {
                -999.0
            }),
            Want::MoverName if said.mover => Value::Text("2015XY12"),
            Want::MoverName if part == Part::History => Value::Null,
            Want::MoverName => Value::Text("null"),
            _ => Value::Null,
        }
    }
}

/// A tenth of an arcsec or so, deg, the same for the same detection.
fn jitter(candid: i64, which: u64) -> f64 {
    Noise::at(candid as u64, which).normal() * 3e-5
}

/// Writes ZTF packets of one schema version.
pub(super) struct Ztf {
    header: Vec<u8>,
    bumped_header: Vec<u8>,
    template: Template<Packet>,
    bumped: Template<Packet>,
    stamps: Stamps,
    packet: Packet,
    datum: Vec<u8>,
}

impl Ztf {
    pub(super) fn new(version: Option<&str>, seed: u64) -> Result<Self, SimulateError> {
        let (version, schema) = super::bundled(&SCHEMAS, Survey::Ztf, version)?;
        let failed = SimulateError::Bundled;
        let mut schema: Json = serde_json::from_str(schema).map_err(|e| failed(e.to_string()))?;
        let template = Template::compile(&schema).map_err(failed)?;
        let mut newer = schema.clone();
        super::add_field(
            &mut newer,
            json!({ "name": "simulated_future_field", "type": ["null", "double"] }),
        );
        let bumped = Template::compile(&newer).map_err(failed)?;
        document(&mut schema, version);
        document(&mut newer, version);
        Ok(Self {
            header: container_header(&schema.to_string()),
            bumped_header: container_header(&newer.to_string()),
            template,
            bumped,
            stamps: Stamps::new(seed, stamps),
            packet: Packet {
                version,
                said: Said::default(),
            },
            datum: Vec::new(),
        })
    }

    fn say(&mut self, shot: &Shot<'_>) {
        let Some(object) = shot.field.objects.get(shot.object) else {
            return;
        };
        let said = &mut self.packet.said;
        said.object_id.clear();
        said.object_id.push_str(&object_name(object.number, shot.now));
        said.points.clear();
        said.points
            .extend(shot.before.iter().chain([shot.now]).map(|epoch| Point {
                jd: epoch.jd,
                fid: epoch.band as i64 + 1,
                limit: epoch.limit,
                file: epoch.file.clone(),
                fwhm: epoch.fwhm,
                zero_point: epoch.zero_point,
                candid: candid(epoch, object.channel, shot.object),
                measure: object.measured(epoch),
            }));
        (said.ra, said.dec, said.score) = (object.ra, object.dec, object.score);
        (said.channel, said.field, said.programid) = (object.channel, shot.field.number, shot.field.programid.into());
        said.mover = object.moves();
        let candid = candid(shot.now, object.channel, shot.object);
        said.file.clear();
        // Writing to a string does not fail.
        let _ = write!(said.file, "candid{candid}_pid{}_targ_sci.fits.gz", candid / 1_000_000);
        if let Some(stamps) = self.stamps.of(object.measured(shot.now).magnitude, object.seed) {
            for (to, from) in said.stamps.iter_mut().zip(stamps) {
                to.clear();
                to.extend_from_slice(from);
            }
        }
    }

    fn write(&mut self, shot: &Shot<'_>, newer: Newer, out: &mut Vec<u8>) {
        self.say(shot);
        let object = shot.field.objects.get(shot.object).map_or(0, |object| object.seed);
        let mut noise = Noise::at(object, shot.now.visit as u64);
        self.datum.clear();
        let (template, header) = match newer {
            Newer::No => (&self.template, &self.header),
            Newer::Yes => (&self.bumped, &self.bumped_header),
        };
        template.encode(&self.packet, &mut noise, &mut self.datum);
        let mut sync = [0; 16];
        let (left, right) = sync.split_at_mut(8);
        left.copy_from_slice(&noise.bits().to_le_bytes());
        right.copy_from_slice(&noise.bits().to_le_bytes());
        container(out, header, sync, &self.datum);
    }
}

/// Which of the two schemas.
#[derive(Clone, Copy)]
enum Newer {
    No,
    Yes,
}

impl Encoder for Ztf {
    fn encode(&mut self, shot: &Shot<'_>, out: &mut Vec<u8>) {
        self.write(shot, Newer::No, out);
    }

    fn encode_bumped(&mut self, shot: &Shot<'_>, out: &mut Vec<u8>) {
        let version = std::mem::replace(&mut self.packet.version, "9.99");
        self.write(shot, Newer::Yes, out);
        self.packet.version = version;
    }

    fn names(&self, shot: &Shot<'_>) -> (String, i64) {
        let object = shot.field.objects.get(shot.object);
        object.map_or_else(Default::default, |object| {
            (
                object_name(object.number, shot.now),
                candid(shot.now, object.channel, shot.object),
            )
        })
    }

    fn id_byte(&self) -> usize {
        // The version after the magic `Obj`.
        3
    }
}

/// `ZTF`, the year, seven letters.
fn object_name(number: u64, now: &Epoch) -> String {
    let mut name = format!("ZTF{:02}", now.visit / 1_000_000_000 % 100);
    let mut left = number;
    let mut letters = [b'a'; 7];
    for letter in letters.iter_mut().rev() {
        *letter = b'a' + (left % 26) as u8;
        left /= 26;
    }
    name.extend(letters.map(char::from));
    name
}

/// Microdays since 2017, readout channel and the detection's number in it, as ZTF composes its ids.
fn candid(epoch: &Epoch, channel: i64, object: usize) -> i64 {
    let micro = ((epoch.jd - 2_457_754.5) * 1e6) as i64;
    let (ccd, quadrant) = (1 + channel / 4, 1 + channel % 4);
    micro * 1_000_000_000 + ccd * 10_000_000 + quadrant * 1_000_000 + 15_0000 + object as i64 % 10_000
}

/// Gives every field a documentation, as ZTF's own schema has: it makes a third of a packet.
fn document(schema: &mut Json, version: &str) {
    match schema {
        Json::Array(branches) => branches.iter_mut().for_each(|branch| document(branch, version)),
        Json::Object(map) => {
            for key in ["type", "items", "fields"] {
                if let Some(inner) = map.get_mut(key) {
                    document(inner, version);
                }
            }
            if let (Some(Json::String(name)), false) = (map.get("name"), map.contains_key("fields")) {
                let text =
                    format!("{name}: simulated; meaning and unit are those of schema {version}, which says more");
                map.insert("doc".into(), text.into());
            }
        }
        _ => {}
    }
}

/// Science, template and difference.
fn stamps(noise: &mut Noise, magnitude: f64) -> [Vec<u8>; 3] {
    let flux = 10.0_f64.powf((26.2 - magnitude) / 2.5);
    let fwhm = noise.between(1.8, 3.0);
    [(220.0, flux + 900.0), (180.0, 900.0), (0.0, flux)].map(|(sky, flux)| {
        let mut file = Vec::new();
        push_image(&mut file, None, &Image::Float(SIDE, star(noise, SIDE, sky, flux, fwhm)));
        gzip(&file)
    })
}
