//! The rivals on the same packet: serde_avro_fast borrowed, apache-avro through its value tree and direct.

use std::hint::black_box;

use bytes::Bytes;
use serde::Deserialize;

use crate::counting::Cost;

/// The same fields for the rivals: everything, with text and bytes borrowed or owned.
#[derive(Deserialize)]
#[serde(rename = "alert")]
#[allow(dead_code, reason = "read by serde only")]
struct Alert<S, B> {
    #[serde(rename = "objectId")]
    object_id: S,
    candid: i64,
    candidate: Candidate<S>,
    prv_candidates: Option<Vec<Previous>>,
    fp_hists: Option<Vec<Forced>>,
    #[serde(rename = "cutoutScience")]
    science: Option<Stamp<S, B>>,
    #[serde(rename = "cutoutTemplate")]
    template: Option<Stamp<S, B>>,
    #[serde(rename = "cutoutDifference")]
    difference: Option<Stamp<S, B>>,
}

#[derive(Deserialize)]
#[serde(rename = "cutout")]
#[allow(dead_code, reason = "read by serde only")]
struct Stamp<S, B> {
    #[serde(rename = "fileName")]
    file_name: S,
    #[serde(rename = "stampData")]
    stamp: B,
}

/// Bytes of one's own: a plain vector is a sequence to serde.
struct Owned(#[allow(dead_code, reason = "read by serde only")] Vec<u8>);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl serde::de::Visitor<'_> for Bytes {
            type Value = Owned;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Owned, E> {
                Ok(Owned(bytes.to_vec()))
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Owned, E> {
                Ok(Owned(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

macro_rules! record {
    ($record:literal, $name:ident $(<$text:ident>)? { $($field:ident: $kind:ty,)* }) => {
        #[derive(Deserialize)]
        #[serde(rename = $record)]
        #[allow(dead_code, reason = "read by serde only")]
        struct $name $(<$text>)? { $($field: $kind,)* }
    };
}

type F = Option<f32>;
type I = Option<i32>;

record!("candidate", Candidate<S> {
    jd: f64, fid: i32, pid: i64, diffmaglim: F, pdiffimfilename: Option<S>, programpi: Option<S>,
    programid: i32, candid: i64, isdiffpos: S, nid: I, rcid: I, field: I, xpos: F, ypos: F, ra: f64, dec: f64,
    magpsf: f32, sigmapsf: f32, chipsf: F, magap: F, sigmagap: F, distnr: F, magnr: F, sigmagnr: F, chinr: F,
    sharpnr: F, sky: F, fwhm: F, classtar: F, mindtoedge: F, seeratio: F, aimage: F, bimage: F, elong: F, nneg: I,
    nbad: I, rb: F, ssdistnr: F, ssmagnr: F, ssnamenr: Option<S>, sumrat: F, magapbig: F, sigmagapbig: F,
    ranr: f64, decnr: f64, sgmag1: F, srmag1: F, simag1: F, szmag1: F, sgscore1: F, distpsnr1: F, ndethist: i32,
    ncovhist: i32, jdstarthist: Option<f64>, jdendhist: Option<f64>, scorr: Option<f64>, tooflag: I,
    objectidps1: Option<i64>, sgmag2: F, srmag2: F, sgscore2: F, distpsnr2: F, sgmag3: F, sgscore3: F, distpsnr3: F,
    nmtchps: i32, rfid: i64, jdstartref: f64, jdendref: f64, nframesref: i32, rbversion: S, dsnrms: F, ssnrms: F,
    dsdiff: F, magzpsci: F, magzpsciunc: F, magzpscirms: F, nmatches: i32, clrcoeff: F, clrcounc: F, zpclrcov: F,
    zpmed: F, clrmed: F, clrrms: F, neargaia: F, neargaiabright: F, maggaia: F, maggaiabright: F, exptime: F, drb: F,
    drbversion: S,
});

record!("prv_candidate", Previous {
    jd: f64, fid: i32, pid: i64, diffmaglim: F, programid: i32, candid: Option<i64>, nid: I, rcid: I, field: I, xpos: F,
    ypos: F, ra: Option<f64>, dec: Option<f64>, magpsf: F, sigmapsf: F, chipsf: F, magap: F, sigmagap: F, distnr: F,
    magnr: F, sigmagnr: F, chinr: F, sharpnr: F, sky: F, fwhm: F, classtar: F, mindtoedge: F, seeratio: F, aimage: F,
    bimage: F, elong: F, nneg: I, nbad: I, rb: F, ssdistnr: F, ssmagnr: F, sumrat: F, magapbig: F, sigmagapbig: F,
    ranr: Option<f64>, decnr: Option<f64>, scorr: Option<f64>, magzpsci: F, magzpsciunc: F, magzpscirms: F, clrcoeff: F,
    clrcounc: F,
});

record!(
    "fp_hist",
    Forced {
        field: I,
        rcid: I,
        fid: i32,
        pid: i64,
        rfid: i64,
        jd: f64,
        programid: i32,
        diffmaglim: F,
        forcediffimflux: F,
        forcediffimfluxunc: F,
    }
);

/// The datum of a container of one record.
fn datum(payload: &Bytes) -> &[u8] {
    let alertstream::decode::framing::Framing::Container(container) =
        alertstream::decode::framing::detect(payload).expect("framed")
    else {
        panic!("a container");
    };
    container.only_block().expect("one block").bytes
}

fn schema_text(payload: &Bytes) -> &str {
    let alertstream::decode::framing::Framing::Container(container) =
        alertstream::decode::framing::detect(payload).expect("framed")
    else {
        panic!("a container");
    };
    std::str::from_utf8(container.schema).expect("text")
}

/// serde_avro_fast with a cached schema, text and bytes borrowed.
pub fn serde_avro_fast(payload: &Bytes) -> Cost {
    let schema: serde_avro_fast::Schema = schema_text(payload).parse().expect("a schema");
    let datum = datum(payload);
    serde_avro_fast::from_datum_slice::<Alert<&str, &[u8]>>(datum, &schema).expect("serde_avro_fast reads the packet");
    Cost::of(|| {
        drop(black_box(serde_avro_fast::from_datum_slice::<Alert<&str, &[u8]>>(
            black_box(datum),
            &schema,
        )))
    })
}

/// What apache-avro costs, with a cached schema.
pub struct Apache {
    /// To its value tree alone.
    pub value: Cost,
    /// To the value tree and from it into a struct: its value path.
    pub value_path: Cost,
    /// Into a struct directly.
    pub direct: Cost,
}

/// apache-avro on the same packet, each way checked once before it is measured.
pub fn apache(payload: &Bytes) -> Apache {
    let schema = apache_avro::Schema::parse_str(schema_text(payload)).expect("a schema");
    let datum = datum(payload);
    let reader = apache_avro::reader::datum::GenericDatumReader::builder(&schema)
        .build()
        .expect("a reader");
    let value = || reader.read_value(&mut black_box(datum)).expect("a value");
    let path = || apache_avro::from_value::<Alert<String, Owned>>(&value()).expect("a struct of the value");
    let direct = || {
        let read = reader.read_deser::<Alert<String, Owned>>(&mut black_box(datum));
        read.expect("a struct")
    };
    Apache {
        value: Cost::of(|| drop(black_box(value()))),
        value_path: Cost::of(|| drop(black_box(path()))),
        direct: Cost::of(|| drop(black_box(direct()))),
    }
}
