//! What real writers do is read: odd defaults, names twice, names without namespace, files of several records.

use alertstream::decode::{Arena, Decoder, DecoderConfig, Value};
use alertstream::surveys::Mapping;
use bytes::Bytes;
use serde_json::json;

use crate::generate::{SYNC, container, header, put_block, put_bytes, put_long};

fn packet(schema: &serde_json::Value, datum: &[u8]) -> alertstream::decode::packet::Packet {
    Decoder::bundled()
        .decode(&container(&schema.to_string(), datum).into())
        .unwrap()
}

#[test]
fn defaults_of_the_wrong_type_are_not_looked_at() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": ["float", "null"], "default": null},
        {"name": "b", "type": "int", "default": null},
        {"name": "c", "type": "boolean", "default": "maybe"}]});
    let packet = packet(&schema, &[2, 4, 1]);
    assert_eq!(packet.to_json(), json!({"a": null, "b": 2, "c": true}));
}

#[test]
fn of_two_fields_with_one_name_the_first_is_read() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": "int"}, {"name": "a", "type": "string"}, {"name": "b", "type": "int"}]});
    let packet = packet(&schema, &[2, 2, b'x', 4]);
    assert_eq!(packet.json("a"), Some(json!(1)));
    assert_eq!(packet.to_json(), json!({"a": 1, "b": 2}));
}

#[test]
fn absent_null_and_a_value_are_three_things() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "n", "type": ["null", "int"]},
        {"name": "o", "type": ["null", {"type": "record", "name": "o", "fields": [{"name": "i", "type": "int"}]}]},
        {"name": "l", "type": {"type": "array", "items": {"type": "record", "name": "e", "fields": [
            {"name": "i", "type": ["int", "null"]}]}}}]});
    let packet = packet(&schema, &[0, 0, 4, 0, 14, 2, 0]);
    assert!(packet.get("x").is_none() && packet.get("n.x").is_none() && packet.get("o.x").is_none());
    assert!(packet.get("l[0].x").is_none() && packet.get("l.i").is_none());
    assert!(packet.get("n").unwrap().is_null() && packet.get("o.i").unwrap().is_null());
    assert!(packet.get("l[1].i").unwrap().is_null() && packet.get("l[2].i").unwrap().is_null());
    assert_eq!(packet.get("l[0].i").unwrap().as_i64(), Some(7));
}

#[test]
fn names_are_found_with_and_without_namespace() {
    let inner = json!({"type": "record", "name": "inner", "fields": [{"name": "i", "type": "int"}]});
    for name in ["inner", "a.b.inner"] {
        let schema = json!({"type": "record", "name": "r", "namespace": "a.b", "fields": [
            {"name": "x", "type": inner}, {"name": "y", "type": name}]});
        assert_eq!(
            packet(&schema, &[2, 4]).to_json(),
            json!({"x": {"i": 1}, "y": {"i": 2}})
        );
    }
    let schema = json!({"type": "record", "name": "a.b.r", "fields": [
        {"name": "x", "type": inner}, {"name": "y", "type": "inner"}]});
    assert_eq!(packet(&schema, &[2, 4]).header().survey, "a.b");
}

#[test]
fn types_in_braces_and_unknown_logical_types_are_read() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": {"type": {"type": "int"}}},
        {"name": "b", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "c", "type": ["null", {"type": "int", "logicalType": "phase-of-the-moon"}]},
        {"name": "d", "type": {"type": ["null", "int"]}}]});
    let packet = packet(&schema, &[2, 4, 2, 6, 2, 8]);
    assert_eq!(packet.to_json(), json!({"a": 1, "b": 2, "c": 3, "d": 4}));
    assert_eq!(packet.logical_type("b"), Some("timestamp-millis"));
}

#[test]
fn unions_maps_enums_and_fixed_are_read() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "u", "type": ["null", "int", "string"]},
        {"name": "m", "type": {"type": "map", "values": "float"}},
        {"name": "e", "type": ["null", {"type": "enum", "name": "e", "symbols": ["A", "B"]}]},
        {"name": "f", "type": {"type": "fixed", "name": "f", "size": 3}}]});
    let mut datum = vec![4, 2, b'x', 2, 2, b'k'];
    datum.extend(0.1f32.to_le_bytes());
    datum.extend([0, 2, 2, 1, 2, 3]);
    let packet = packet(&schema, &datum);
    let wide = f64::from(0.1f32);
    assert_eq!(
        packet.to_json(),
        json!({"u": "x", "m": {"k": wide}, "e": "B", "f": "AQID"})
    );
    assert_eq!(packet.json("m.k"), Some(json!(wide)));
    assert!(packet.get("m.other").unwrap().is_null());
}

#[test]
fn values_with_the_bits_of_null_are_values() {
    let twin = 0xfff8_a1e7_0000_0001_u64;
    let schema = json!({"type": "record", "name": "alert", "namespace": "ztf", "fields": [
        {"name": "candid", "type": ["null", "long"]}, {"name": "prv_candidates", "type": {"type": "array", "items":
            {"type": "record", "name": "p", "fields": [{"name": "candid", "type": ["null", "long"]}]}}}]});
    let mut datum = vec![2];
    put_long(&mut datum, twin as i64);
    datum.extend([2, 2]);
    put_long(&mut datum, twin as i64);
    datum.push(0);
    let packet = packet(&schema, &datum);
    assert_eq!(packet.header().alert_id, twin as i64);
    let mut arena = Arena::new();
    let ztf = packet.ztf(&mut arena).unwrap();
    assert_eq!(ztf.top().candid(), Some(twin as i64));
    assert_eq!(ztf.previous().next().unwrap().candid(), Some(twin as i64));
}

#[test]
fn a_surveys_own_mapping_fills_the_header() {
    let mapping = "survey = 'kite'\nrecords = ['kite.*']\n[fields]\nobject_id = ['name', 'number']\nmjd = 'when'\n\
        ra = 'place.ra'\nband = 'colour'\n[bands]\n7 = 'z'\n";
    let schema = json!({"type": "record", "name": "kite.alert", "fields": [
        {"name": "name", "type": ["null", "string"]}, {"name": "number", "type": "long"}, {"name": "when", "type": "double"},
        {"name": "place", "type": {"type": "record", "name": "p", "fields": [{"name": "ra", "type": "float"}]}},
        {"name": "colour", "type": "int"}, {"name": "candid", "type": "long"}]});
    let mut datum = vec![0, 14];
    datum.extend(50_000.25f64.to_le_bytes());
    datum.extend(f32::INFINITY.to_le_bytes());
    datum.extend([14, 10]);
    let payload = Bytes::from(container(&schema.to_string(), &datum));
    let unmapped = Decoder::bundled().decode(&payload).unwrap();
    assert_eq!(
        (unmapped.header().survey.as_str(), unmapped.header().alert_id),
        ("kite", 5)
    );
    assert!(!unmapped.schema_is_known());
    let config = DecoderConfig {
        mappings: vec![Mapping::from_toml(mapping).unwrap()],
        ..Default::default()
    };
    let packet = Decoder::new(config).unwrap().decode(&payload).unwrap();
    let header = packet.header();
    assert_eq!(header.object_id.as_deref(), Some("7"));
    assert_eq!((header.jd, header.ra, header.programid), (Some(2_450_000.75), None, 1));
    assert_eq!(header.band.as_deref(), Some("z"));
    assert!(packet.schema_is_known());
}

#[test]
fn a_file_of_several_records_is_cut_into_packets() {
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"s","type":"string"}]}"#;
    for codec in [None, Some("deflate")] {
        let pack = |bytes: &[u8]| match codec {
            None => bytes.to_vec(),
            Some(_) => {
                use std::io::Write;
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
        };
        let mut file = header(schema, codec);
        put_block(&mut file, 2, &pack(b"\x02a\x04bb"));
        put_block(&mut file, 1, &pack(b"\x06ccc"));
        let file = Bytes::from(file);
        let decoder = Decoder::bundled();
        let packets = decoder.split(&file).unwrap();
        let texts: Vec<_> = packets
            .iter()
            .map(|p| decoder.decode(p).unwrap().json("s").unwrap())
            .collect();
        assert_eq!(texts, [json!("a"), json!("bb"), json!("ccc")]);
        for packet in &packets {
            assert!(packet.starts_with(&header(schema, codec)) && packet.ends_with(&SYNC));
        }
        // Damage to the last block refuses the file whole.
        for cut in 1..20 {
            assert!(decoder.split(&file.slice(..file.len() - cut)).is_err());
        }
        let one = decoder.split(&packets[0]).unwrap();
        assert_eq!(one, [packets[0].clone()]);
    }
}

#[test]
fn a_schema_whose_root_is_not_a_record_is_refused() {
    let record = r#"{"type":"record","name":"r","fields":[]}"#;
    let union = format!(r#"["null",{record}]"#);
    for schema in [r#""string""#, r#"{"type":"array","items":"string"}"#, union.as_str()] {
        let mut file = header(schema, None);
        put_block(&mut file, 1, b"\x02a");
        let error = Decoder::bundled().decode(&file.into()).unwrap_err();
        assert_eq!(error.reason(), "bad_schema", "{schema}");
        assert!(error.to_string().contains("not a record"), "{error}");
    }
}

/// The Avro specification lets a writer end a block whenever it likes, also before its first record.
#[test]
fn blocks_without_records_are_passed_over() {
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"s","type":"string"}]}"#;
    for codec in [None, Some("deflate")] {
        let record: &[u8] = if codec.is_some() {
            &[0x63, 0x4a, 0x04, 0x00]
        } else {
            b"\x02a"
        };
        let nothing: &[u8] = if codec.is_some() { &[0x03, 0x00] } else { b"" };
        let file = |blocks: &[(i64, &[u8])]| {
            let mut file = header(schema, codec);
            blocks
                .iter()
                .for_each(|(count, bytes)| put_block(&mut file, *count, bytes));
            bytes::Bytes::from(file)
        };
        let decoder = Decoder::bundled();
        for blocks in [
            &[(0, nothing), (1, record)][..],
            &[(1, record), (0, nothing)],
            &[(0, b""), (0, nothing), (1, record), (0, b"")],
        ] {
            let packet = file(blocks);
            let decoded = decoder.decode(&packet).unwrap();
            assert!(matches!(decoded.get("s"), Some(Value::String("a"))));
            assert_eq!(decoder.split(&packet).unwrap(), [packet]);
        }
        let two = file(&[(1, record), (0, nothing), (1, record)]);
        assert_eq!(decoder.split(&two).unwrap().len(), 2);
        assert_eq!(decoder.decode(&two).unwrap_err().reason(), "several_records");
        assert_eq!(
            decoder.decode(&file(&[(0, nothing)])).unwrap_err().reason(),
            "no_record"
        );
        assert_eq!(decoder.decode(&file(&[(0, record)])).unwrap_err().reason(), "damaged");
    }
}

#[test]
fn a_block_that_declares_more_or_fewer_records_is_refused_whole() {
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"s","type":"string"}]}"#;
    for (count, reason) in [(3, "truncated"), (1 << 40, "truncated")] {
        let mut file = header(schema, None);
        put_block(&mut file, count, b"\x02a\x04bb");
        assert_eq!(Decoder::bundled().split(&file.into()).unwrap_err().reason(), reason);
    }
    let mut file = header(schema, None);
    put_block(&mut file, 2, b"\x02a\x04bb\x00");
    assert_eq!(
        Decoder::bundled().split(&file.into()).unwrap_err().reason(),
        "trailing_bytes"
    );
}

#[test]
fn a_deflated_packet_has_the_values_of_the_plain_one() {
    use std::io::Write;
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"s","type":"bytes"}]}"#;
    let mut datum = Vec::new();
    put_bytes(&mut datum, &[7; 300_000]);
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&datum).unwrap();
    let mut file = header(schema, Some("deflate"));
    put_block(&mut file, 1, &encoder.finish().unwrap());
    let packet = Decoder::bundled().decode(&file.into()).unwrap();
    assert!(matches!(packet.get("s"), Some(Value::Bytes(bytes)) if bytes == [7; 300_000]));
}

#[test]
fn serde_writes_what_json_holds() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "b", "type": "bytes"}, {"name": "f", "type": "float"}, {"name": "n", "type": ["null", "double"]},
        {"name": "a", "type": {"type": "array", "items": ["null", "int", "string"]}},
        {"name": "m", "type": {"type": "map", "values": "boolean"}}, {"name": "b", "type": "long"}]});
    let mut datum = vec![4, 1, 2];
    datum.extend(0.1f32.to_le_bytes());
    datum.push(2);
    datum.extend(f64::NAN.to_le_bytes());
    datum.extend([6, 0, 2, 8, 4, 2, b'x', 0, 2, 2, b'k', 1, 0, 14]);
    let packet = packet(&schema, &datum);
    let value = packet.root();
    assert_eq!(serde_json::to_value(value).unwrap(), packet.to_json());
    let text = serde_json::to_string(&value).unwrap();
    assert_eq!(
        text,
        r#"{"b":"AQI=","f":0.10000000149011612,"n":null,"a":[null,4,"x"],"m":{"k":true}}"#
    );
}

#[test]
fn an_error_in_the_datum_says_which_framing_was_seen() {
    let decoder = Decoder::bundled();
    let said = |payload: Vec<u8>| decoder.decode(&payload.into()).unwrap_err().to_string();
    assert!(said(crate::generate::confluent(900, &[2])).ends_with("(framing: Confluent, schema id 900)"));
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"x","type":"double"}]}"#;
    assert!(said(container(schema, &[2])).ends_with("(framing: container)"));
}
