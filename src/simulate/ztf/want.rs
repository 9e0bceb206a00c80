//! What a field of a ZTF packet wants, by its name and where it stands.
//!
//! Must not know how a value is made: `ztf` does.

/// Where in a packet a field stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Top,
    Candidate,
    History,
    Forced,
    Cutout,
}

/// A field: its part and what is known of its value.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) part: Part,
    pub(super) want: Want,
}

#[derive(Clone, Copy)]
pub(super) enum Want {
    Version,
    Fixed(&'static str),
    ObjectId,
    Candid,
    Candidate,
    History,
    Forced,
    Cutout(usize),
    CutoutFile,
    CutoutBytes,
    Jd,
    Fid,
    Pid,
    Limit,
    File,
    Program,
    Positive,
    Ra,
    Dec,
    Magnitude,
    Sigma,
    Aperture,
    Flux,
    FluxError,
    ZeroPoint,
    Fwhm,
    Score,
    DeepScore,
    Detections,
    Coverage,
    FirstJd,
    LastJd,
    Channel,
    Field,
    MoverDistance,
    MoverMagnitude,
    MoverName,
    Whole(i64, i64),
    Between(f64, f64),
}

/// Values that are noise, by name: (name, low, high); the others are 0 to 1.
const RANGES: [(&str, f64, f64); 38] = [
    ("xpos", 1.0, 3072.0),
    ("ypos", 1.0, 3080.0),
    ("chipsf", 0.5, 9.0),
    ("sigmagap", 0.02, 0.3),
    ("distnr", 0.0, 6.0),
    ("magnr", 15.0, 22.0),
    ("sigmagnr", 0.01, 0.2),
    ("sky", -3.0, 3.0),
    ("mindtoedge", 10.0, 1500.0),
    ("seeratio", 0.6, 3.0),
    ("aimage", 0.4, 1.5),
    ("bimage", 0.4, 1.5),
    ("elong", 1.0, 2.0),
    ("sgmag1", 14.0, 22.0),
    ("srmag1", 14.0, 22.0),
    ("simag1", 14.0, 22.0),
    ("szmag1", 14.0, 22.0),
    ("distpsnr1", 0.0, 15.0),
    ("sgmag2", 14.0, 22.0),
    ("srmag2", 14.0, 22.0),
    ("distpsnr2", 1.0, 25.0),
    ("sgmag3", 14.0, 22.0),
    ("srmag3", 14.0, 22.0),
    ("distpsnr3", 2.0, 30.0),
    ("jdstartref", 2_458_150.0, 2_458_250.0),
    ("jdendref", 2_458_250.0, 2_458_345.0),
    ("dsnrms", 1.0, 20.0),
    ("ssnrms", 1.0, 40.0),
    ("magzpsciunc", 1e-6, 2e-5),
    ("magzpscirms", 0.02, 0.06),
    ("clrcounc", 1e-6, 2e-5),
    ("neargaia", 0.0, 60.0),
    ("neargaiabright", 5.0, 90.0),
    ("maggaia", 12.0, 21.0),
    ("maggaiabright", 9.0, 14.0),
    ("scisigpix", 5.0, 15.0),
    ("scibckgnd", 100.0, 400.0),
    ("scorr", 5.0, 80.0),
];

/// Whole numbers that are noise, by name.
const WHOLE: [(&str, i64, i64); 11] = [
    ("tblid", 0, 4000),
    ("nid", 590, 3000),
    ("nneg", 0, 12),
    ("nbad", 0, 2),
    ("tooflag", 0, 1),
    ("objectidps1", 100_000_000_000_000_000, 190_000_000_000_000_000),
    ("objectidps2", 100_000_000_000_000_000, 190_000_000_000_000_000),
    ("objectidps3", 100_000_000_000_000_000, 190_000_000_000_000_000),
    ("rfid", 386_120_000, 386_130_000),
    ("nframesref", 15, 40),
    ("nmatches", 200, 2500),
];

/// Finds what a field of a part wants.
pub(super) fn want(part: Part, field: &str) -> Want {
    match (part, field) {
        (Part::Top, "schemavsn") => Want::Version,
        (Part::Top, "publisher") => Want::Fixed("ZTF (www.ztf.caltech.edu)"),
        (Part::Top, "candidate") => Want::Candidate,
        (Part::Top, "prv_candidates") => Want::History,
        (Part::Top, "fp_hists") => Want::Forced,
        (Part::Top, "cutoutScience") => Want::Cutout(0),
        (Part::Top, "cutoutTemplate") => Want::Cutout(1),
        (Part::Top, "cutoutDifference") => Want::Cutout(2),
        (_, "fileName") => Want::CutoutFile,
        (_, "stampData") => Want::CutoutBytes,
        (_, "objectId") => Want::ObjectId,
        (_, "candid") => Want::Candid,
        (_, "jd") => Want::Jd,
        (_, "fid") => Want::Fid,
        (_, "pid") => Want::Pid,
        (_, "diffmaglim") => Want::Limit,
        (_, "pdiffimfilename") => Want::File,
        (_, "programpi") => Want::Fixed("Kulkarni"),
        (_, "programid") => Want::Program,
        (_, "isdiffpos") => Want::Positive,
        (_, "ra" | "ranr") => Want::Ra,
        (_, "dec" | "decnr") => Want::Dec,
        (_, "magpsf") => Want::Magnitude,
        (_, "sigmapsf") => Want::Sigma,
        (_, "magap" | "magapbig" | "magfromlim") => Want::Aperture,
        (_, "forcediffimflux") => Want::Flux,
        (_, "forcediffimfluxunc") => Want::FluxError,
        (_, "magzpsci") => Want::ZeroPoint,
        (_, "fwhm" | "sciinpseeing") => Want::Fwhm,
        (_, "rb") => Want::Score,
        (_, "drb") => Want::DeepScore,
        (_, "ndethist") => Want::Detections,
        (_, "ncovhist" | "nmtchps") => Want::Coverage,
        (_, "jdstarthist") => Want::FirstJd,
        (_, "jdendhist") => Want::LastJd,
        (_, "rcid") => Want::Channel,
        (_, "field") => Want::Field,
        (_, "ssdistnr") => Want::MoverDistance,
        (_, "ssmagnr") => Want::MoverMagnitude,
        (_, "ssnamenr") => Want::MoverName,
        (_, "rbversion") => Want::Fixed("t17_f5_c3"),
        (_, "drbversion") => Want::Fixed("d6_m7"),
        (_, "procstatus") => Want::Fixed("0"),
        (_, "exptime") => Want::Between(30.0, 30.0),
        (_, name) => {
            let whole = WHOLE.iter().find(|(known, ..)| *known == name);
            let real = RANGES.iter().find(|(known, ..)| *known == name);
            match (whole, real) {
                (Some((_, low, high)), _) => Want::Whole(*low, *high),
                (_, Some((_, low, high))) => Want::Between(*low, *high),
                _ => Want::Between(0.0, 1.0),
            }
        }
    }
}

/// What the history says of a visit that saw nothing.
pub(super) fn upper_limit_has(want: Want) -> bool {
    use Want::*;
    matches!(
        want,
        Jd | Fid | Pid | Limit | File | Program | Field | Channel | Fixed(_) | ZeroPoint | Whole(590, _)
    )
}
