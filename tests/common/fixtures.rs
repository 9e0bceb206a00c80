//! Generated packets: small, valid, ZTF-like Avro containers, and broken ones.
//!
//! Invariants: the same call gives the same bytes; nothing is taken from a real packet. The schema is a cut of ZTF's
//! public one: the names that the header needs, a short history and one cutout.

use std::io::Write;
use std::sync::OnceLock;

use apache_avro::types::{Record, Value};
use apache_avro::{Codec, Schema, Writer};

/// JD of the first generated alert, days; the n-th is n seconds later.
pub const FIRST_JD: f64 = 2_458_349.75;

const SCHEMA: &str = r#"{"type":"record","name":"alert","namespace":"ztf","fields":[
 {"name":"schemavsn","type":"string"},{"name":"publisher","type":"string"},
 {"name":"objectId","type":"string"},{"name":"candid","type":"long"},
 {"name":"candidate","type":{"type":"record","name":"candidate","namespace":"ztf.alert","fields":[
  {"name":"jd","type":"double"},{"name":"fid","type":"int"},{"name":"pid","type":"long"},
  {"name":"programid","type":"int"},{"name":"candid","type":["long","null"]},{"name":"isdiffpos","type":"string"},
  {"name":"ra","type":"double"},{"name":"dec","type":"double"},{"name":"magpsf","type":"float"},
  {"name":"sigmapsf","type":"float"},{"name":"rb","type":["float","null"]},{"name":"ndethist","type":"int"},
  {"name":"drb","type":["null","float"],"default":null}]}},
 {"name":"prv_candidates","type":["null",{"type":"array","items":{"type":"record","name":"prv_candidate","namespace":"ztf.alert","fields":[
  {"name":"jd","type":"double"},{"name":"magpsf","type":["null","float"],"default":null}]}}],"default":null},
 {"name":"cutoutScience","type":["null",{"type":"record","name":"cutout","namespace":"ztf.alert","fields":[
  {"name":"fileName","type":"string"},{"name":"stampData","type":"bytes"}]}],"default":null}]}"#;

/// What a generated alert says.
#[derive(Clone, Debug, PartialEq)]
pub struct Ztf {
    pub candid: i64,
    pub object_id: String,
    pub jd: f64,
    pub ra: f64,
    pub dec: f64,
    pub programid: i32,
    /// 1 g, 2 r, 3 i.
    pub fid: i32,
    pub magpsf: f32,
    pub rb: Option<f32>,
    pub drb: Option<f32>,
    pub ndethist: i32,
    pub schemavsn: String,
    /// Bytes of the cutout: sets the packet's size, and what differs between revisions.
    pub stamp: Vec<u8>,
}

impl Ztf {
    /// The n-th alert: ids, times and places all different, 7 objects, programid 1 to 3.
    pub fn new(n: u64) -> Self {
        let angle = n as f64 * 0.618_033_988_749_895;
        Self {
            candid: 595_147_630_015_010_000 + n as i64,
            object_id: format!("ZTF18test{:03}", n % 7),
            jd: FIRST_JD + n as f64 / 86_400.0,
            ra: angle.fract() * 360.0,
            dec: ((n as f64 * 0.414_213_562).fract() * 2.0 - 1.0).asin().to_degrees(),
            programid: 1 + (n % 3) as i32,
            fid: 1 + (n % 3) as i32,
            magpsf: 17.0 + (n % 50) as f32 / 10.0,
            rb: Some(0.5 + (n % 5) as f32 / 10.0),
            drb: (!n.is_multiple_of(4)).then_some(0.9),
            ndethist: (n % 30) as i32,
            schemavsn: "3.3".into(),
            stamp: (0..600u64)
                .map(|i| (n.wrapping_mul(31).wrapping_add(i * i * 7) % 251) as u8)
                .collect(),
        }
    }

    /// The packet: a container file of this one record.
    pub fn packet(&self) -> Vec<u8> {
        container(std::slice::from_ref(self))
    }
}

/// The packet of the n-th alert.
pub fn ztf_packet(n: u64) -> Vec<u8> {
    Ztf::new(n).packet()
}

/// The packets of the first `count` alerts.
pub fn ztf_packets(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(ztf_packet).collect()
}

/// A container file that holds all these records in one container block.
pub fn container(alerts: &[Ztf]) -> Vec<u8> {
    static PARSED: OnceLock<Schema> = OnceLock::new();
    let schema = PARSED.get_or_init(|| Schema::parse_str(SCHEMA).expect("the fixture's schema"));
    let marker: [u8; 16] = std::array::from_fn(|i| {
        (alerts.first().map_or(0, |a| a.candid) as u8)
            .wrapping_mul(17)
            .wrapping_add(i as u8)
    });
    let mut writer = Writer::builder()
        .schema(schema)
        .writer(Vec::new())
        .codec(Codec::Null)
        .block_size(1 << 30)
        .marker(marker)
        .build()
        .expect("a writer");
    for alert in alerts {
        writer
            .append_value(record(schema, alert))
            .expect("the record fits its schema");
    }
    writer.into_inner().expect("a container")
}

fn record(schema: &Schema, alert: &Ztf) -> Value {
    let float = |index: u32, value: Option<f32>, null: u32| match value {
        Some(value) => Value::Union(index, Box::new(Value::Float(value))),
        None => Value::Union(null, Box::new(Value::Null)),
    };
    let text = |value: &str| Value::String(value.to_owned());
    let candidate = vec![
        ("jd", Value::Double(alert.jd)),
        ("fid", Value::Int(alert.fid)),
        ("pid", Value::Long(alert.candid / 1000)),
        ("programid", Value::Int(alert.programid)),
        ("candid", Value::Union(0, Box::new(Value::Long(alert.candid)))),
        ("isdiffpos", text("t")),
        ("ra", Value::Double(alert.ra)),
        ("dec", Value::Double(alert.dec)),
        ("magpsf", Value::Float(alert.magpsf)),
        ("sigmapsf", Value::Float(0.1)),
        ("rb", float(0, alert.rb, 1)),
        ("ndethist", Value::Int(alert.ndethist)),
        ("drb", float(1, alert.drb, 0)),
    ];
    let history = (1..=3).map(|i| {
        let magpsf = if i == 2 {
            float(1, None, 0)
        } else {
            float(1, Some(alert.magpsf + 0.1 * i as f32), 0)
        };
        fields(vec![("jd", Value::Double(alert.jd - f64::from(i))), ("magpsf", magpsf)])
    });
    let cutout = fields(vec![
        ("fileName", text("stamp.fits.gz")),
        ("stampData", Value::Bytes(alert.stamp.clone())),
    ]);
    let mut record = Record::new(schema).expect("a record schema");
    record.put("schemavsn", alert.schemavsn.as_str());
    record.put("publisher", "fixture");
    record.put("objectId", alert.object_id.as_str());
    record.put("candid", alert.candid);
    record.put("candidate", fields(candidate));
    record.put(
        "prv_candidates",
        Value::Union(1, Box::new(Value::Array(history.collect()))),
    );
    record.put("cutoutScience", Value::Union(1, Box::new(cutout)));
    record.into()
}

fn fields(fields: Vec<(&str, Value)>) -> Value {
    Value::Record(
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// A packet cut short.
pub fn truncated_packet(n: u64) -> Vec<u8> {
    let mut packet = ztf_packet(n);
    packet.truncate(packet.len() - 100);
    packet
}

/// Bytes that are no packet.
pub fn not_avro() -> Vec<u8> {
    b"this is not an alert packet\n".to_vec()
}

/// A tar of these members, uncompressed.
pub fn tar<'a>(members: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append_data(&mut header, name, bytes).expect("a member");
    }
    builder.into_inner().expect("a tar")
}

/// The same, gzipped.
pub fn tar_gz<'a>(members: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&tar(members)).expect("in memory");
    encoder.finish().expect("in memory")
}
