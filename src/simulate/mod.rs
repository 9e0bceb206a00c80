//! A simulated night: realistic packets, reproducible by seed, as fast as a copy of their bytes.
//!
//! How it works: a night is a schedule of exposures over fields of the sky, each field visited twice in two bands. A
//! field has objects with light curves and past visits, so an object that comes again tells the same story. A survey
//! (`ztf`, `rubin`) names values; `template` walks the writer schema and writes each field's value, so any schema
//! version can be asked for. Cutouts come from a small pool of stamps that is made once.
//! Invariants: the same settings give the same bytes, whatever was drawn before; a fault changes only its own packet.
//! Must not know of files, Kafka or time: the caller writes and paces.

mod encode;
mod faults;
mod field;
mod fits;
mod noise;
mod rubin;
mod template;
mod ztf;

use std::sync::Arc;

use bytes::Bytes;
use chrono::NaiveDate;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::query::NightStart;
pub use faults::{Fault, Faults};
use field::{Epoch, Field, Sky};

/// Alerts of one exposure, about.
const PER_EXPOSURE: u64 = 200;
/// Fields that are visited before the first of them is visited again.
const FIELDS_PER_BLOCK: u64 = 40;

/// A survey that can be simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Survey {
    /// Container files of one record, with cutouts as gzipped FITS and histories.
    #[default]
    Ztf,
    /// Confluent framing with the schema's id, cutouts as plain FITS.
    Rubin,
}

impl Survey {
    /// Gives the survey's name, as in an alert's header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ztf => "ztf",
            Self::Rubin => "rubin",
        }
    }
}

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The night's date.
    pub night: NaiveDate,
    /// When a night begins; every alert lies in the night of the date.
    pub night_starts_at: NightStart,
    /// How many packets.
    pub alerts: u64,
    /// Which survey's.
    pub survey: Survey,
    /// Decides everything that is random.
    pub seed: u64,
    /// The schema version, of the bundled ones; the newest when `None`.
    pub schema: Option<String>,
    /// What goes wrong, and how often.
    pub faults: Faults,
}

impl Settings {
    /// A faultless ZTF night.
    pub fn night(night: NaiveDate, alerts: u64) -> Self {
        Self {
            night,
            night_starts_at: NightStart::default(),
            alerts,
            survey: Survey::Ztf,
            seed: 1,
            schema: None,
            faults: Faults::default(),
        }
    }
}

/// Why a simulation was refused.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// A schema version that is not bundled.
    #[error("schema `{asked}` of {survey} is not bundled: choose one of {known}")]
    Schema {
        /// What was asked for.
        asked: String,
        /// Of which survey.
        survey: &'static str,
        /// What there is.
        known: String,
    },
    /// A bundled schema that cannot be read; a defect of this crate.
    #[error("the bundled schema cannot be used: {0}")]
    Bundled(String),
    /// Faults that cannot be.
    #[error("faults `{text}`: {why}")]
    Faults {
        /// As it was written.
        text: String,
        /// What is wrong.
        why: String,
    },
}

/// One simulated packet.
#[derive(Clone, Debug)]
pub struct SimulatedPacket {
    /// The packet's bytes, as a survey would send them.
    pub payload: Bytes,
    /// Its place in the simulation, from 0.
    pub sequence: u64,
    /// Its exposure, from 0: packets of one exposure leave a telescope together.
    pub exposure: u64,
    /// The object's name.
    pub object_id: Arc<str>,
    /// The alert's id.
    pub alert_id: i64,
    /// The alert's program.
    pub programid: i32,
    /// The time of the exposure, JD in UTC.
    pub jd: f64,
    /// What was done to it.
    pub fault: Option<Fault>,
}

/// One alert before it is encoded.
struct Shot<'a> {
    field: &'a Field,
    /// The object's place in the field.
    object: usize,
    /// The exposure.
    now: &'a Epoch,
    /// Earlier visits of the field, in order of time, also those of this night.
    before: &'a [Epoch],
}

/// A survey's way to write a shot.
trait Encoder: Send {
    fn encode(&mut self, shot: &Shot<'_>, out: &mut Vec<u8>);
    /// The same packet of a schema nobody knows yet.
    fn encode_bumped(&mut self, shot: &Shot<'_>, out: &mut Vec<u8>);
    /// (object id, alert id).
    fn names(&self, shot: &Shot<'_>) -> (String, i64);
    /// The place of the byte that names the format or the schema.
    fn id_byte(&self) -> usize;
}

/// The packets of a night, in order of time.
pub struct Simulation {
    settings: Settings,
    encoder: Box<dyn Encoder>,
    faults: ChaCha8Rng,
    /// Fields of the current block, with the visits they had.
    block: Vec<Field>,
    block_number: Option<u64>,
    sequence: u64,
    exposure: u64,
    in_exposure: u64,
    last: Option<SimulatedPacket>,
    scratch: Vec<u8>,
}

impl Simulation {
    /// Prepares a night.
    ///
    /// # Errors
    /// A schema version that is not bundled.
    pub fn new(settings: Settings) -> Result<Self, SimulateError> {
        let schema = settings.schema.as_deref();
        let encoder: Box<dyn Encoder> = match settings.survey {
            Survey::Ztf => Box::new(ztf::Ztf::new(schema, settings.seed)?),
            Survey::Rubin => Box::new(rubin::Rubin::new(schema, settings.seed)?),
        };
        Ok(Self {
            faults: stream(settings.seed, u64::MAX),
            settings,
            encoder,
            block: Vec::new(),
            block_number: None,
            sequence: 0,
            exposure: 0,
            in_exposure: 0,
            last: None,
            scratch: Vec::new(),
        })
    }

    /// Number of exposures: an even number, each field twice.
    fn exposures(&self) -> u64 {
        2 * self.settings.alerts.div_ceil(2 * PER_EXPOSURE).max(1)
    }

    /// Alerts of an exposure: all together are exactly those asked for.
    fn alerts_of(&self, exposure: u64) -> u64 {
        let (share, rest) = (
            self.settings.alerts / self.exposures(),
            self.settings.alerts % self.exposures(),
        );
        share + u64::from(exposure < rest)
    }

    /// The block, field and pass (0 or 1) of an exposure.
    fn visit(&self, exposure: u64) -> (u64, usize, u64) {
        let block = exposure / (2 * FIELDS_PER_BLOCK);
        let fields = self.fields_of(block);
        let place = exposure - block * 2 * FIELDS_PER_BLOCK;
        // Below FIELDS_PER_BLOCK, so it fits.
        (block, (place % fields) as usize, place / fields)
    }

    fn fields_of(&self, block: u64) -> u64 {
        (self.exposures() / 2 - block * FIELDS_PER_BLOCK).min(FIELDS_PER_BLOCK)
    }

    fn sky(&self) -> Sky {
        let night = self.settings.night;
        Sky::of(self.settings.survey, night, self.settings.night_starts_at.begins(night))
    }

    /// Makes the fields of a block when an exposure is the first of it.
    fn enter(&mut self, block: u64) {
        if self.block_number == Some(block) {
            return;
        }
        let mut rng = stream(self.settings.seed, block + 1);
        let sky = self.sky();
        let objects = self.alerts_of(0) * 5 / 4 + 1;
        let first = self.settings.seed.wrapping_mul(0x9E37_79B9) % 5_000_000_000;
        self.block = (0..self.fields_of(block))
            .map(|n| {
                let number = block * FIELDS_PER_BLOCK + n;
                Field::new(&mut rng, &sky, number, (first + number * (objects + 1), objects))
            })
            .collect();
        self.block_number = Some(block);
    }

    /// Opens an exposure: the field's next visit.
    fn begin(&mut self, exposure: u64) {
        let (block, field, pass) = self.visit(exposure);
        self.enter(block);
        let mut rng = stream(self.settings.seed, (1 << 40) + exposure);
        let share = (exposure as f64 + rng.random_range(0.0..0.8)) / self.exposures() as f64;
        let sky = self.sky();
        if let Some(field) = self.block.get_mut(field) {
            field.visit(&sky, exposure, pass, share, rng.random());
        }
    }

    fn encode(&mut self, exposure: u64, in_exposure: u64, fault: Option<Fault>) -> Option<SimulatedPacket> {
        let (_, field, _) = self.visit(exposure);
        let field = self.block.get(field)?;
        let (now, before) = field.visits.split_last()?;
        let shot = Shot {
            field,
            object: field.pick(in_exposure),
            now,
            before,
        };
        self.scratch.clear();
        if fault == Some(Fault::SchemaBump) {
            self.encoder.encode_bumped(&shot, &mut self.scratch);
        } else {
            self.encoder.encode(&shot, &mut self.scratch);
        }
        let (object_id, alert_id) = self.encoder.names(&shot);
        Some(SimulatedPacket {
            payload: Bytes::copy_from_slice(&self.scratch),
            sequence: self.sequence,
            exposure,
            object_id: object_id.into(),
            alert_id,
            programid: field.programid,
            jd: now.jd,
            fault,
        })
    }
}

impl Iterator for Simulation {
    type Item = SimulatedPacket;

    fn next(&mut self) -> Option<SimulatedPacket> {
        if self.sequence >= self.settings.alerts {
            return None;
        }
        while self.in_exposure >= self.alerts_of(self.exposure) {
            self.exposure += 1;
            self.in_exposure = 0;
        }
        if self.in_exposure == 0 {
            self.begin(self.exposure);
        }
        let fault = self.settings.faults.draw(&mut self.faults);
        let mut packet = match (fault, &self.last) {
            (Some(Fault::Duplicate), Some(last)) => SimulatedPacket {
                sequence: self.sequence,
                fault,
                ..last.clone()
            },
            _ => self.encode(self.exposure, self.in_exposure, fault)?,
        };
        if fault != Some(Fault::Duplicate) {
            self.last = Some(packet.clone());
        }
        if let Some(fault) = fault {
            packet.payload = fault.applied(packet.payload, self.encoder.id_byte(), &mut self.faults);
        }
        self.sequence += 1;
        self.in_exposure += 1;
        Some(packet)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.settings.alerts - self.sequence).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

/// Finds a bundled schema by version; the newest is the last.
fn bundled(
    schemas: &'static [(&'static str, &'static str)],
    survey: Survey,
    version: Option<&str>,
) -> Result<(&'static str, &'static str), SimulateError> {
    let found = match version {
        None => schemas.last(),
        Some(asked) => schemas.iter().find(|(known, _)| *known == asked),
    };
    found.copied().ok_or_else(|| SimulateError::Schema {
        asked: version.unwrap_or_default().to_owned(),
        survey: survey.name(),
        known: schemas.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", "),
    })
}

/// Adds a field at the end of a schema's record.
fn add_field(schema: &mut serde_json::Value, field: serde_json::Value) {
    if let Some(fields) = schema.get_mut("fields").and_then(serde_json::Value::as_array_mut) {
        fields.push(field);
    }
}

/// An independent stream of random numbers of a seed.
fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

#[cfg(test)]
mod tests;
