//! A survey's mapping bound to one compiled schema: which slots fill the header, and how.
//!
//! Invariants: the header's fields are read in one walk that stops after the last of them; a value that the mapping calls
//! "no value", NaN and infinities become `None`. Must not know framing or schemas' origin.

use crate::header::AlertHeader;
use crate::surveys::{Mapping, Paths};

use super::plan::{Plan, Sink};
use super::schema::{Kind, NodeId};
use super::value::{Value, leaf};
use super::wire::{Cursor, Fault};

/// Julian date of MJD 0.
pub(crate) const MJD_ZERO: f64 = 2_400_000.5;

/// A schema with its mapping.
#[derive(Debug)]
pub(crate) struct Binding {
    mapping: Mapping,
    /// The schema's version, where the schema says it.
    version: Option<String>,
    wanted: Wanted,
    /// Per field of the header: where its values are in the result of a walk, first choice first.
    places: [Vec<usize>; FIELDS],
}

/// What the header is made of.
#[derive(Clone, Copy)]
enum Field {
    ObjectId,
    AlertId,
    Jd,
    Mjd,
    MjdTai,
    Ra,
    Dec,
    Programid,
    Band,
    Magnitude,
    FluxNjy,
    Rb,
    Drb,
    Ndethist,
    SchemaVersion,
}

const FIELDS: usize = Field::SchemaVersion as usize + 1;

/// Leaves outside of arrays that one walk is to read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Slot and node, by slot.
    pub(crate) slots: Vec<(u32, NodeId)>,
}

impl Wanted {
    /// Adds the leaf at a path; `None` when the schema has no leaf there.
    pub(crate) fn add(&mut self, plan: &Plan, path: &str) -> Option<NodeId> {
        let node = plan.schema.find(path)?;
        let spot = plan.spot(node);
        let compound = matches!(
            plan.schema.node(node)?.kind,
            Kind::Record(_) | Kind::Array(_) | Kind::Map(_) | Kind::Union(_) | Kind::Null
        );
        if compound || spot.rows_deep > 0 {
            return None;
        }
        // A nullable enum or fixed has a slot of its own before the one of its value.
        let entry = (spot.slot + plan.own_slot(node), node);
        if let Err(at) = self.slots.binary_search(&entry) {
            if self.slots.len() >= WANTED_MAX {
                return None;
            }
            self.slots.insert(at, entry);
        }
        Some(node)
    }

    /// Gives the place of a node's bits in the result of a walk.
    pub(crate) fn index(&self, node: NodeId) -> Option<usize> {
        self.slots.iter().position(|(_, n)| *n == node)
    }
}

/// Most fields that one walk picks out.
pub(crate) const WANTED_MAX: usize = 64;

/// Takes the wanted slots and stops after the last, unless the walk is to validate the rest.
pub(crate) struct Pick<'w> {
    wanted: &'w [(u32, NodeId)],
    next: usize,
    bits: [u64; WANTED_MAX],
    twins: u64,
    whole: bool,
}

impl<'w> Pick<'w> {
    /// Stops after the last wanted slot.
    pub(crate) fn first(wanted: &'w Wanted) -> Self {
        Self {
            wanted: &wanted.slots,
            next: 0,
            bits: [super::plan::NULL; WANTED_MAX],
            twins: 0,
            whole: false,
        }
    }

    /// Goes on to the end, so that the whole datum is validated.
    pub(crate) fn whole(wanted: &'w Wanted) -> Self {
        Self {
            whole: true,
            ..Self::first(wanted)
        }
    }

    /// Gives the value at a place of [`Wanted`].
    pub(crate) fn value<'v>(&self, index: usize, plan: &'v Plan, datum: &'v [u8]) -> Value<'v> {
        let node = self.wanted.get(index).and_then(|(_, node)| plan.schema.node(*node));
        let twin = self.twins >> index & 1 == 1;
        match (node, self.bits.get(index)) {
            (Some(node), Some(bits)) => leaf(&node.kind, *bits, twin, datum),
            _ => Value::Null,
        }
    }
}

impl Sink for Pick<'_> {
    const ROWS: bool = false;
    const CLEARS: bool = true;

    #[inline]
    fn put(&mut self, slot: usize, bits: u64) -> Result<(), Fault> {
        match self.wanted.get(self.next) {
            Some((wanted, _)) if *wanted as usize == slot => {
                if let Some(place) = self.bits.get_mut(self.next) {
                    *place = bits;
                }
                self.next += 1;
                if self.next == self.wanted.len() && !self.whole {
                    Err(Fault::Stop)
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    fn twin(&mut self, slot: usize) {
        if self
            .wanted
            .get(self.next)
            .is_some_and(|(wanted, _)| *wanted as usize == slot)
        {
            self.twins |= 1 << self.next;
        }
    }

    fn clear(&mut self, slot: usize, width: usize) -> Result<(), Fault> {
        while let Some((wanted, _)) = self.wanted.get(self.next).filter(|(w, _)| (*w as usize) < slot + width) {
            self.put(*wanted as usize, super::plan::NULL)?;
        }
        Ok(())
    }

    fn rows(&mut self, _slot: usize, _count: usize, _width: usize) -> usize {
        0
    }
}

impl Binding {
    pub(crate) fn new(plan: &Plan, mapping: Mapping) -> Self {
        let f = &mapping.fields;
        let version_path = Paths::Many(mapping.version.iter().cloned().collect());
        // In the order of `Field`.
        let paths: [&Paths; FIELDS] = [
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
            &version_path,
        ];
        let mut wanted = Wanted::default();
        let nodes = paths.map(|paths| -> Vec<NodeId> {
            paths
                .as_slice()
                .iter()
                .filter_map(|path| wanted.add(plan, path))
                .collect()
        });
        let places = nodes.map(|nodes| nodes.into_iter().filter_map(|node| wanted.index(node)).collect());
        let version = plan
            .schema
            .version
            .clone()
            .or_else(|| version_in_name(&plan.schema.name));
        Self {
            mapping,
            version,
            wanted,
            places,
        }
    }

    fn at(&self, field: Field) -> &[usize] {
        self.places.get(field as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Binds a schema that no mapping is for: its own name as survey, a top-level `candid` as alert id.
    pub(crate) fn unmapped(plan: &Plan) -> Self {
        let name = &plan.schema.name;
        let survey = name.rsplit_once('.').map_or(name.as_str(), |(space, _)| space);
        let fields = crate::surveys::Fields {
            alert_id: Paths::One("candid".into()),
            ..Default::default()
        };
        let mapping = Mapping {
            survey: survey.to_owned(),
            records: Vec::new(),
            versions: Vec::new(),
            version: None,
            none: Vec::new(),
            band: None,
            fields,
            bands: Default::default(),
            curve: None,
        };
        let mut binding = Self::new(plan, mapping);
        let is_long = |n: &NodeId| plan.schema.node(*n).is_some_and(|n| n.kind == Kind::Long);
        let has_candid = plan.schema.find("candid").as_ref().is_some_and(is_long);
        if let Some(places) = binding.places.get_mut(Field::AlertId as usize).filter(|_| !has_candid) {
            places.clear();
        }
        binding
    }

    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Walks up to the last field of the header.
    pub(crate) fn header(&self, plan: &Plan, datum: &[u8]) -> Result<AlertHeader, super::DecodeError> {
        let mut pick = Pick::first(&self.wanted);
        plan.walk_one(&mut Cursor::new(datum), &mut pick)?;
        Ok(self.read(plan, datum, &pick))
    }

    /// Makes the header of what a walk picked out.
    pub(crate) fn read(&self, plan: &Plan, datum: &[u8], pick: &Pick<'_>) -> AlertHeader {
        let fields = Picked {
            pick,
            plan,
            datum,
            none: &self.mapping.none,
        };
        let number = |field| fields.number(self.at(field));
        let mjd = number(Field::Mjd).map(|mjd| mjd + MJD_ZERO);
        let jd = number(Field::Jd)
            .or(mjd)
            .or_else(|| number(Field::MjdTai).map(jd_of_mjd_tai));
        let flux = number(Field::FluxNjy).filter(|flux| *flux > 0.0);
        let band = fields
            .text(self.at(Field::Band))
            .and_then(|text| self.mapping.band_of(&text).map(str::to_owned));
        AlertHeader {
            survey: self.mapping.survey.clone(),
            schema_version: fields
                .text(self.at(Field::SchemaVersion))
                .or_else(|| self.version.clone()),
            object_id: fields.name(self.at(Field::ObjectId)),
            alert_id: fields.integer(self.at(Field::AlertId)).unwrap_or(0),
            jd,
            ra: number(Field::Ra),
            dec: number(Field::Dec),
            programid: fields
                .integer(self.at(Field::Programid))
                .and_then(|n| i32::try_from(n).ok())
                .unwrap_or(1),
            band: band.or_else(|| self.mapping.band.clone()),
            magnitude: number(Field::Magnitude).or(flux.map(|flux| 31.4 - 2.5 * flux.log10())),
            rb: number(Field::Rb),
            drb: number(Field::Drb),
            ndethist: fields
                .integer(self.at(Field::Ndethist))
                .filter(|n| !self.is_none(*n as f64)),
        }
    }

    fn is_none(&self, number: f64) -> bool {
        self.mapping.none.contains(&number)
    }
}

/// The values of one walk.
struct Picked<'p> {
    pick: &'p Pick<'p>,
    plan: &'p Plan,
    datum: &'p [u8],
    none: &'p [f64],
}

impl<'p> Picked<'p> {
    fn values(&self, places: &'p [usize]) -> impl Iterator<Item = Value<'p>> {
        places
            .iter()
            .map(|place| self.pick.value(*place, self.plan, self.datum))
    }

    fn number(&self, places: &'p [usize]) -> Option<f64> {
        self.values(places)
            .find_map(|v| v.as_f64())
            .filter(|n| !self.none.contains(n))
    }

    fn integer(&self, places: &'p [usize]) -> Option<i64> {
        self.values(places).find_map(|v| v.as_i64())
    }

    /// Gives a text; a number is written in decimal.
    fn text(&self, places: &'p [usize]) -> Option<String> {
        self.values(places).find_map(|value| match value {
            Value::String(text) => Some(text.to_owned()),
            value => value.as_i64().map(|n| n.to_string()),
        })
    }

    /// Gives an object's name; a number 0 and an empty text are none.
    fn name(&self, places: &'p [usize]) -> Option<String> {
        self.values(places).find_map(|value| match value {
            Value::String(text) => Some(text).filter(|t| !t.is_empty()).map(str::to_owned),
            value => value.as_i64().filter(|n| *n != 0).map(|n| n.to_string()),
        })
    }
}

/// Gives the version in a record's name: `lsst.v9_0.alert` is 9.0.
pub(crate) fn version_in_name(name: &str) -> Option<String> {
    name.split('.').find_map(|part| {
        let (major, minor) = part.strip_prefix('v')?.split_once('_')?;
        let number = |s: &str| s.parse::<u32>().ok();
        Some(format!("{}.{}", number(major)?, number(minor)?))
    })
}

/// Converts a modified Julian date in TAI to a Julian date in UTC, by the table of leap seconds.
pub(crate) fn jd_of_mjd_tai(mjd: f64) -> f64 {
    // Leap seconds begin in 1972; a date of another millennium is damage that the header reports as it is.
    let leap = if (41_317.0..1e6).contains(&mjd) {
        hifitime::Epoch::from_mjd_tai(mjd).leap_seconds_iers()
    } else {
        0
    };
    mjd - f64::from(leap) / 86_400.0 + MJD_ZERO
}
