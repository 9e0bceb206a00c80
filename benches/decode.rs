//! What decoding costs, and the gates of the specification as ratios of one run.
//!
//! `cargo bench --bench decode` measures one ZTF 4.02 packet: the corpus' one if `ALERTSTREAM_CORPUS` is set, else a
//! generated one of the same size. Ends with 1 if a gate is missed. Each figure is the median of many short rounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use alertstream::decode::{Arena, Decoder};
use alertstream::filter::{Filter, Names};
use bytes::Bytes;
use serde::Deserialize;

#[path = "../fuzz/src/generate.rs"]
#[allow(dead_code, reason = "shared with the fuzz targets")]
mod generate;

const SCHEMA: &str = include_str!("../schemas/ztf/v4.02.json");

/// Gives the median time of one call, s.
fn time(mut run: impl FnMut()) -> f64 {
    let warm = Instant::now();
    let mut calls = 0u32;
    while warm.elapsed() < Duration::from_millis(100) {
        run();
        calls += 1;
    }
    let per_round = (calls / 50).max(1);
    let mut rounds: Vec<f64> = (0..101)
        .map(|_| {
            let start = Instant::now();
            (0..per_round).for_each(|_| run());
            start.elapsed().as_secs_f64() / f64::from(per_round)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// The packet that is measured, with its name.
fn packet() -> (String, Bytes) {
    if let Some(corpus) = std::env::var_os("ALERTSTREAM_CORPUS") {
        let path = std::path::Path::new(&corpus).join("ztf/v4.02/2695378462115010012.avro");
        if let Ok(bytes) = std::fs::read(&path) {
            return ("ztf 4.02 of the corpus".into(), bytes.into());
        }
    }
    // A header as long as real ones, whose fields have documentation, and cutouts of 14 kB.
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).expect("the bundled schema");
    let mut padded = schema.clone();
    padded["doc"] = "x".repeat(25_500_usize.saturating_sub(SCHEMA.len())).into();
    let datum = (1..).map(|seed| generate::datum(&schema, &mut generate::Dice::new(seed), 13_000));
    let datum = datum
        .into_iter()
        .find(|d| (40_000..52_000).contains(&d.len()))
        .expect("a datum of that size");
    (
        "generated ztf 4.02".into(),
        generate::container(&padded.to_string(), &datum).into(),
    )
}

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

/// One gate: a ratio that must be at most or at least something.
struct Gate {
    text: &'static str,
    ratio: f64,
    met: bool,
}

fn at_most(text: &'static str, ratio: f64, most: f64) -> Gate {
    Gate {
        text,
        ratio,
        met: ratio <= most,
    }
}

fn at_least(text: &'static str, ratio: f64, least: f64) -> Gate {
    Gate {
        text,
        ratio,
        met: ratio >= least,
    }
}

fn main() {
    let (name, payload) = packet();
    println!("{name}, {} bytes; one core, warm; median of 101 rounds", payload.len());
    let decoder = Decoder::bundled();
    let mut arena = Arena::new();
    let row = |name: &str, seconds: f64| println!("{name:44} {:9.3} us", seconds * 1e6);

    let mut copy = vec![0u8; payload.len()];
    let memcpy = time(|| black_box(&mut copy).copy_from_slice(black_box(&payload)));
    row("memcpy of the message", memcpy);
    let validate = time(|| decoder.validate(black_box(&payload)).expect("a packet"));
    row("validate (skip walk), framing, key check", validate);
    let full = time(|| decoder.decode_into(black_box(&payload), &mut arena).expect("a packet"));
    row("full flat decode, framing, key check", full);
    let header = time(|| drop(black_box(decoder.header(black_box(&payload)).expect("a packet"))));
    row("header alone, framing, key check", header);
    let decode = time(|| drop(black_box(decoder.decode(black_box(&payload)).expect("a packet"))));
    row("decode: header and validation, owned packet", decode);

    let fast = serde_avro_fast(&payload);
    row("serde_avro_fast, cached schema, borrowed", fast);
    let (value, direct) = apache(&payload);
    row("apache-avro, cached schema, to Value", value);
    row("apache-avro, cached schema, owned struct", direct);

    let gates = [
        at_most("full flat decode / memcpy, at most 3", full / memcpy, 3.0),
        at_least("serde_avro_fast / full flat decode, at least 4", fast / full, 4.0),
        at_least("apache-avro Value / full flat decode, at least 25", value / full, 25.0),
    ];
    println!();
    for gate in &gates {
        println!(
            "{} {:52} {:7.2}",
            if gate.met { "met   " } else { "MISSED" },
            gate.text,
            gate.ratio
        );
    }
    println!(
        "against fastavro: benches/fastavro.py prints its figures; gates: cached / full >= 80, reader / header >= 100"
    );
    filters(&decoder, &payload, memcpy);
    if gates.iter().any(|gate| !gate.met) {
        std::process::exit(1);
    }
}

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

fn serde_avro_fast(payload: &Bytes) -> f64 {
    let schema: serde_avro_fast::Schema = schema_text(payload).parse().expect("a schema");
    let datum = datum(payload);
    serde_avro_fast::from_datum_slice::<Alert<&str, &[u8]>>(datum, &schema).expect("serde_avro_fast reads the packet");
    time(|| {
        drop(black_box(serde_avro_fast::from_datum_slice::<Alert<&str, &[u8]>>(
            black_box(datum),
            &schema,
        )))
    })
}

fn apache(payload: &Bytes) -> (f64, f64) {
    let schema = apache_avro::Schema::parse_str(schema_text(payload)).expect("a schema");
    let datum = datum(payload);
    let reader = apache_avro::reader::datum::GenericDatumReader::builder(&schema)
        .build()
        .expect("a reader");
    let value = time(|| drop(black_box(reader.read_value(&mut black_box(datum)).expect("a value"))));
    let read = || reader.read_deser::<Alert<String, Owned>>(&mut black_box(datum));
    if let Err(error) = read() {
        let text: String = error.to_string().chars().take(120).collect();
        println!("apache-avro does not read the packet into a struct: {text}");
        return (value, f64::NAN);
    }
    (value, time(|| drop(black_box(read()))))
}

/// A filter on three header fields over 10,000 packets in memory.
fn filters(decoder: &Decoder, payload: &Bytes, memcpy: f64) {
    let filter =
        Filter::compile("magnitude < 19.5 && rb >= 0.65 && ndethist > 1", &Names::bundled()).expect("a filter");
    let deep = Filter::compile(
        "candidate.distpsnr1 > 1.0 && candidate.fwhm < 3.0 && candidate.scorr > 5.0",
        &Names::bundled(),
    )
    .expect("a filter");
    // Copies at their own places, so that the caches do not help more than they would.
    let packets: Vec<Bytes> = (0..10_000).map(|_| Bytes::copy_from_slice(payload)).collect();
    let start = Instant::now();
    let decoded: Vec<_> = packets.iter().map(|p| decoder.decode(p).expect("a packet")).collect();
    let decode = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let selected = decoded
        .iter()
        .filter(|p| filter.select(p) == alertstream::filter::Selection::Selected)
        .count();
    let select = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let also = decoded
        .iter()
        .filter(|p| deep.select(p) == alertstream::filter::Selection::Selected)
        .count();
    let fields = start.elapsed().as_secs_f64();
    let total = decode + select;
    println!("\n10,000 packets in memory, one core, filter `{}`:", filter.text());
    println!(
        "  {:.0} alerts/s; decode {:.0} %, filter {:.0} %; {selected} selected",
        1e4 / total,
        1e2 * decode / total,
        1e2 * select / total
    );
    println!(
        "  decode {:.2} us, filter {:.2} us an alert (warm memcpy {:.2} us)",
        decode * 1e2,
        select * 1e2,
        memcpy * 1e6
    );
    println!(
        "  filter on three fields of the packet: {:.2} us an alert; {also} selected",
        fields * 1e2
    );
}
