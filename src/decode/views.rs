//! Typed views of ZTF and Rubin packets over an arena: names are bound to slots once per schema.
//!
//! Invariants: a field that the packet's schema does not have, a null, NaN, an infinity and (for ZTF) -999 are all
//! `None` here; `Packet::get` tells absent from null. Integers may be wider and floats narrower than the method's type in
//! some version; both are converted without loss. Must not know framing.

use super::flat::{Flat, Place, Row, Rows};
use super::plan::Plan;
use super::schema::{Kind, NodeId};
use super::spelling::{bytes, flag, integer, number, text, ztf_number};

/// Defines a view of a record: methods by name, and the binding of the names to a schema.
macro_rules! view {
    ($(#[$doc:meta])* $view:ident, $places:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $view<'a> {
            row: Row<'a>,
            places: &'a $places,
        }

        #[derive(Debug, Default)]
        pub(crate) struct $places { $($field: Place,)* }

        impl $places {
            /// Finds the fields of the record at `record`.
            fn bind(plan: &Plan, record: Option<NodeId>) -> Self {
                Self { $($field: place(plan, record, $name),)* }
            }
        }

        impl<'a> $view<'a> {
            $($(#[$field_doc])* pub fn $field(&self) -> view!(@type $kind) { $kind(self.row.value(self.places.$field)) })*
        }
    };
    (@type number) => { Option<f64> };
    (@type ztf_number) => { Option<f64> };
    (@type integer) => { Option<i64> };
    (@type text) => { Option<&'a str> };
    (@type bytes) => { Option<&'a [u8]> };
    (@type flag) => { Option<bool> };
}

view! {
    /// ZTF's candidate: the detection that the alert is about.
    ZtfCandidate, ZtfCandidatePlaces {
        /// Julian date, UTC, days.
        jd: ztf_number = "jd",
        /// Filter: 1 g, 2 r, 3 i.
        fid: integer = "fid",
        /// Processing id.
        pid: integer = "pid",
        /// 5-sigma limiting magnitude of the difference image, mag.
        diffmaglim: ztf_number = "diffmaglim",
        /// 1 public, 2 partnership, 3 Caltech.
        programid: integer = "programid",
        /// Candidate id.
        candid: integer = "candid",
        /// Whether the difference is positive.
        isdiffpos: flag = "isdiffpos",
        /// Field.
        field: integer = "field",
        /// Right ascension, deg.
        ra: ztf_number = "ra",
        /// Declination, deg.
        dec: ztf_number = "dec",
        /// Magnitude of the PSF fit, mag.
        magpsf: ztf_number = "magpsf",
        /// Its 1-sigma error, mag.
        sigmapsf: ztf_number = "sigmapsf",
        /// Aperture magnitude, mag.
        magap: ztf_number = "magap",
        /// Its 1-sigma error, mag.
        sigmagap: ztf_number = "sigmagap",
        /// Distance to the nearest source of the reference, pixels.
        distnr: ztf_number = "distnr",
        /// Its magnitude, mag.
        magnr: ztf_number = "magnr",
        /// Width of the source, pixels.
        fwhm: ztf_number = "fwhm",
        /// Ratio of the axes.
        elong: ztf_number = "elong",
        /// Real-bogus score.
        rb: ztf_number = "rb",
        /// Deep-learning real-bogus score.
        drb: ztf_number = "drb",
        /// Distance to the nearest known solar-system object, arcsec.
        ssdistnr: ztf_number = "ssdistnr",
        /// Its name.
        ssnamenr: text = "ssnamenr",
        /// Star-galaxy score of the nearest PS1 source.
        sgscore1: ztf_number = "sgscore1",
        /// Distance to it, arcsec.
        distpsnr1: ztf_number = "distpsnr1",
        /// Earlier detections.
        ndethist: integer = "ndethist",
        /// Earlier visits.
        ncovhist: integer = "ncovhist",
        /// First detection, Julian date.
        jdstarthist: ztf_number = "jdstarthist",
        /// Last detection, Julian date.
        jdendhist: ztf_number = "jdendhist",
        /// Zero point, mag.
        magzpsci: ztf_number = "magzpsci",
        /// Exposure, s.
        exptime: ztf_number = "exptime",
    }
}

view! {
    /// An entry of ZTF's history: a detection, or an upper limit.
    ZtfPrevious, ZtfPreviousPlaces {
        /// Julian date, UTC, days.
        jd: ztf_number = "jd",
        /// Filter: 1 g, 2 r, 3 i.
        fid: integer = "fid",
        /// 1 public, 2 partnership, 3 Caltech.
        programid: integer = "programid",
        /// Candidate id; an upper limit has none.
        candid: integer = "candid",
        /// Whether the difference is positive.
        isdiffpos: flag = "isdiffpos",
        /// 5-sigma limiting magnitude, mag.
        diffmaglim: ztf_number = "diffmaglim",
        /// Right ascension, deg.
        ra: ztf_number = "ra",
        /// Declination, deg.
        dec: ztf_number = "dec",
        /// Magnitude of the PSF fit, mag.
        magpsf: ztf_number = "magpsf",
        /// Its 1-sigma error, mag.
        sigmapsf: ztf_number = "sigmapsf",
        /// Real-bogus score.
        rb: ztf_number = "rb",
    }
}

impl ZtfPrevious<'_> {
    /// Whether the entry is an upper limit: nothing was detected down to `diffmaglim`.
    pub fn is_upper_limit(&self) -> bool {
        self.candid().is_none()
    }
}

view! {
    /// An entry of ZTF's forced photometry (4.01 and later).
    ZtfForced, ZtfForcedPlaces {
        /// Julian date, UTC, days.
        jd: ztf_number = "jd",
        /// Filter: 1 g, 2 r, 3 i.
        fid: integer = "fid",
        /// 1 public, 2 partnership, 3 Caltech.
        programid: integer = "programid",
        /// 5-sigma limiting magnitude, mag.
        diffmaglim: ztf_number = "diffmaglim",
        /// Difference flux, DN.
        forcediffimflux: ztf_number = "forcediffimflux",
        /// Its 1-sigma error, DN.
        forcediffimfluxunc: ztf_number = "forcediffimfluxunc",
        /// Zero point, mag.
        magzpsci: ztf_number = "magzpsci",
        /// Processing status.
        procstatus: text = "procstatus",
    }
}

view! {
    /// Rubin's difference source: the detection of the alert, or an earlier one.
    RubinSource, RubinSourcePlaces {
        /// Id of the source.
        dia_source_id: integer = "diaSourceId",
        /// Visit.
        visit: integer = "visit",
        /// Detector.
        detector: integer = "detector",
        /// Id of the object; none or 0 when there is none.
        dia_object_id: integer = "diaObjectId",
        /// Id of the solar-system object; none or 0 when there is none.
        ss_object_id: integer = "ssObjectId",
        /// Middle of the exposure, modified Julian date, TAI, days.
        midpoint_mjd_tai: number = "midpointMjdTai",
        /// Right ascension, deg.
        ra: number = "ra",
        /// Declination, deg.
        dec: number = "dec",
        /// Difference flux of the PSF fit, nJy.
        psf_flux: number = "psfFlux",
        /// Its 1-sigma error, nJy.
        psf_flux_err: number = "psfFluxErr",
        /// Flux on the science image, nJy.
        science_flux: number = "scienceFlux",
        /// Its 1-sigma error, nJy.
        science_flux_err: number = "scienceFluxErr",
        /// Signal to noise.
        snr: number = "snr",
        /// Real-bogus score.
        reliability: number = "reliability",
        /// Passband.
        band: text = "band",
        /// Whether the source is extended, 0 to 1.
        extendedness: number = "extendedness",
        /// Whether the difference is negative.
        is_negative: flag = "isNegative",
        /// Whether the source is a dipole.
        is_dipole: flag = "isDipole",
    }
}

view! {
    /// An entry of Rubin's forced photometry.
    RubinForced, RubinForcedPlaces {
        /// Id.
        dia_forced_source_id: integer = "diaForcedSourceId",
        /// Middle of the exposure, modified Julian date, TAI, days.
        midpoint_mjd_tai: number = "midpointMjdTai",
        /// Difference flux, nJy.
        psf_flux: number = "psfFlux",
        /// Its 1-sigma error, nJy.
        psf_flux_err: number = "psfFluxErr",
        /// Passband.
        band: text = "band",
    }
}

view! {
    /// Rubin's object: what is known of the place.
    RubinObject, RubinObjectPlaces {
        /// Id.
        dia_object_id: integer = "diaObjectId",
        /// Right ascension, deg.
        ra: number = "ra",
        /// Declination, deg.
        dec: number = "dec",
        /// Number of its sources.
        n_dia_sources: integer = "nDiaSources",
        /// First source, modified Julian date, TAI, days.
        first_dia_source_mjd_tai: number = "firstDiaSourceMjdTai",
        /// Mean g flux, nJy.
        g_psf_flux_mean: number = "g_psfFluxMean",
        /// Mean r flux, nJy.
        r_psf_flux_mean: number = "r_psfFluxMean",
        /// Mean i flux, nJy.
        i_psf_flux_mean: number = "i_psfFluxMean",
    }
}

view! {
    /// Rubin's solar-system source: where the object was at the time.
    RubinSolarSystem, RubinSolarSystemPlaces {
        /// Id of the solar-system object.
        ss_object_id: integer = "ssObjectId",
        /// Its designation.
        designation: text = "designation",
        /// Distance to the Sun, au.
        helio_range: number = "helioRange",
        /// Distance to the observer, au.
        topo_range: number = "topoRange",
        /// Phase angle, deg.
        phase_angle: number = "phaseAngle",
    }
}

view! {
    /// What stands at the top of a packet of either survey.
    Top, TopPlaces {
        /// Name of the object (ZTF).
        object_id: text = "objectId",
        /// Candidate id (ZTF).
        candid: integer = "candid",
        /// Producer (ZTF).
        publisher: text = "publisher",
    }
}

/// A view of one of several kinds of cutout; FITS, gzipped for ZTF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cutout {
    /// The new image.
    Science,
    /// The reference image.
    Template,
    /// Their difference.
    Difference,
}

/// Where the parts of both surveys are in one schema.
#[derive(Debug)]
pub(crate) struct Places {
    top: TopPlaces,
    candidate: ZtfCandidatePlaces,
    previous: (Place, ZtfPreviousPlaces),
    forced: (Place, ZtfForcedPlaces),
    source: RubinSourcePlaces,
    earlier: (Place, RubinSourcePlaces),
    rubin_forced: (Place, RubinForcedPlaces),
    object: (Place, RubinObjectPlaces),
    solar_system: (Place, RubinSolarSystemPlaces),
    cutouts: [Place; 3],
}

impl Places {
    pub(crate) fn bind(plan: &Plan) -> Self {
        let at = |name: &str| plan.schema.find(name);
        let array = |name: &str| place(plan, Some(0), name);
        let item = |name: &str| match plan.schema.node(at(name)?)?.kind {
            Kind::Array(item) => Some(item),
            _ => None,
        };
        // A nullable record has a slot that says whether it is there.
        let presence = |name: &str| at(name).map(|node| (plan.spot(node).slot, node));
        let cutout = |name: &str| {
            let stamp = at(&format!("{name}.stampData"));
            stamp.or_else(|| at(name)).and_then(|node| leaf_place(plan, node))
        };
        Self {
            top: TopPlaces::bind(plan, Some(0)),
            candidate: ZtfCandidatePlaces::bind(plan, at("candidate")),
            previous: (
                array("prv_candidates"),
                ZtfPreviousPlaces::bind(plan, item("prv_candidates")),
            ),
            forced: (array("fp_hists"), ZtfForcedPlaces::bind(plan, item("fp_hists"))),
            source: RubinSourcePlaces::bind(plan, at("diaSource")),
            earlier: (
                array("prvDiaSources"),
                RubinSourcePlaces::bind(plan, item("prvDiaSources")),
            ),
            rubin_forced: (
                array("prvDiaForcedSources"),
                RubinForcedPlaces::bind(plan, item("prvDiaForcedSources")),
            ),
            object: (presence("diaObject"), RubinObjectPlaces::bind(plan, at("diaObject"))),
            solar_system: (presence("ssSource"), RubinSolarSystemPlaces::bind(plan, at("ssSource"))),
            cutouts: [
                cutout("cutoutScience"),
                cutout("cutoutTemplate"),
                cutout("cutoutDifference"),
            ],
        }
    }
}

/// Finds a field of a record and its slot in the record's row.
fn place(plan: &Plan, record: Option<NodeId>, name: &str) -> Place {
    leaf_place(plan, plan.schema.child(record?, name)?)
}

/// The slot of a node's bits: for a nullable enum, fixed, array or map it is the one after the slot that says which.
fn leaf_place(plan: &Plan, node: NodeId) -> Place {
    Some((plan.spot(node).slot + plan.own_slot(node), node))
}

/// A ZTF packet, decoded whole; made by [`Packet::ztf`](super::packet::Packet::ztf).
#[derive(Clone, Copy)]
pub struct ZtfAlert<'a>(Views<'a>);

/// A Rubin packet, decoded whole; made by [`Packet::rubin`](super::packet::Packet::rubin).
#[derive(Clone, Copy)]
pub struct RubinAlert<'a>(Views<'a>);

#[derive(Clone, Copy)]
pub(crate) struct Views<'a> {
    pub(crate) flat: Flat<'a>,
    pub(crate) places: &'a Places,
}

impl<'a> Views<'a> {
    fn root(&self) -> Row<'a> {
        Row {
            flat: self.flat,
            base: 0,
        }
    }

    fn rows(&self, place: Place) -> Rows<'a> {
        self.root().rows(place)
    }

    fn cutout(&self, kind: Cutout) -> Option<&'a [u8]> {
        let [science, template, difference] = self.places.cutouts;
        let place = match kind {
            Cutout::Science => science,
            Cutout::Template => template,
            Cutout::Difference => difference,
        };
        bytes(self.root().value(place))
    }

    fn is_there(&self, place: Place) -> bool {
        place.is_some_and(|(slot, node)| {
            let nullable = self.flat.plan.schema.node(node).is_some_and(|n| n.null.is_some());
            !nullable || self.flat.arena.is_set(slot as usize)
        })
    }
}

impl<'a> ZtfAlert<'a> {
    pub(crate) fn new(views: Views<'a>) -> Self {
        Self(views)
    }

    /// The object's name.
    pub fn object_id(&self) -> Option<&'a str> {
        self.top().object_id()
    }

    /// The fields at the top of the packet.
    pub fn top(&self) -> Top<'a> {
        Top {
            row: self.0.root(),
            places: &self.0.places.top,
        }
    }

    /// The detection that the alert is about.
    pub fn candidate(&self) -> ZtfCandidate<'a> {
        ZtfCandidate {
            row: self.0.root(),
            places: &self.0.places.candidate,
        }
    }

    /// The history: detections and upper limits, in the packet's order.
    pub fn previous(&self) -> impl Iterator<Item = ZtfPrevious<'a>> + use<'a> {
        let (place, places) = &self.0.places.previous;
        self.0.rows(*place).map(move |row| ZtfPrevious { row, places })
    }

    /// The forced photometry; none before 4.01.
    pub fn forced(&self) -> impl Iterator<Item = ZtfForced<'a>> + use<'a> {
        let (place, places) = &self.0.places.forced;
        self.0.rows(*place).map(move |row| ZtfForced { row, places })
    }

    /// A cutout: gzipped FITS, in the payload.
    pub fn cutout(&self, kind: Cutout) -> Option<&'a [u8]> {
        self.0.cutout(kind)
    }
}

impl<'a> RubinAlert<'a> {
    pub(crate) fn new(views: Views<'a>) -> Self {
        Self(views)
    }

    /// The detection that the alert is about.
    pub fn source(&self) -> RubinSource<'a> {
        RubinSource {
            row: self.0.root(),
            places: &self.0.places.source,
        }
    }

    /// The earlier detections, in the packet's order.
    pub fn previous(&self) -> impl Iterator<Item = RubinSource<'a>> + use<'a> {
        let (place, places) = &self.0.places.earlier;
        self.0.rows(*place).map(move |row| RubinSource { row, places })
    }

    /// The forced photometry, in the packet's order.
    pub fn forced(&self) -> impl Iterator<Item = RubinForced<'a>> + use<'a> {
        let (place, places) = &self.0.places.rubin_forced;
        self.0.rows(*place).map(move |row| RubinForced { row, places })
    }

    /// The object, if the source belongs to one.
    pub fn object(&self) -> Option<RubinObject<'a>> {
        let (place, places) = &self.0.places.object;
        self.0.is_there(*place).then(|| RubinObject {
            row: self.0.root(),
            places,
        })
    }

    /// The solar-system object, if the source is one.
    pub fn solar_system(&self) -> Option<RubinSolarSystem<'a>> {
        let (place, places) = &self.0.places.solar_system;
        self.0.is_there(*place).then(|| RubinSolarSystem {
            row: self.0.root(),
            places,
        })
    }

    /// A cutout: FITS, in the payload.
    pub fn cutout(&self, kind: Cutout) -> Option<&'a [u8]> {
        self.0.cutout(kind)
    }
}
