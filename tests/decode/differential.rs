//! Every value of every corpus file equals those of two independent decoders.

use alertstream::decode::Decoder;

use crate::any::Any;
use crate::corpus::{self, File};

/// The file as a container file: a Confluent packet gets the header of the corpus' container of the same version.
fn container(file: &File, all: &[File]) -> Vec<u8> {
    if !file.name.ends_with(".bin") {
        return file.bytes.to_vec();
    }
    let donor = all.iter().find(|f| f.name.contains("ocf_v9.0")).unwrap();
    let header_len = Decoder::bundled()
        .decode(&donor.bytes)
        .unwrap()
        .container_header_len()
        .unwrap();
    let head = &donor.bytes[..header_len + 16];
    let datum = &file.bytes[5..];
    let mut bytes = head.to_vec();
    bytes.extend(zigzag(1));
    bytes.extend(zigzag(datum.len() as i64));
    bytes.extend(datum);
    bytes.extend(&head[header_len..]);
    bytes
}

fn zigzag(n: i64) -> Vec<u8> {
    let (mut rest, mut out) = ((n << 1) as u64, Vec::new());
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

#[test]
fn every_value_equals_apache_avros() {
    let files = corpus::good("every_value_equals_apache_avros");
    let decoder = Decoder::bundled();
    for file in &files {
        let packet = decoder
            .decode(&file.bytes)
            .unwrap_or_else(|e| panic!("{}: {e}", file.name));
        assert_eq!(packet.bytes(), &file.bytes, "{}", file.name);
        let container = container(file, &files);
        // apache-avro refuses WINTER's schema, which has a field twice; serde_avro_fast reads it.
        let mut reader = match apache_avro::Reader::new(&container[..]) {
            Ok(reader) => reader,
            Err(error) => {
                assert!(file.name.starts_with("winter"), "{}: {error}", file.name);
                continue;
            }
        };
        let theirs = reader.next().unwrap().unwrap();
        assert_eq!(Any::ours(&packet.root()), Any::apache(&theirs), "{}", file.name);
    }
}

#[test]
fn every_value_equals_serde_avro_fasts() {
    let files = corpus::good("every_value_equals_serde_avro_fasts");
    let decoder = Decoder::bundled();
    for file in &files {
        let packet = decoder
            .decode(&file.bytes)
            .unwrap_or_else(|e| panic!("{}: {e}", file.name));
        let container = container(file, &files);
        let mut reader = serde_avro_fast::object_container_file_encoding::Reader::from_slice(&container)
            .unwrap_or_else(|e| panic!("{}: {e}", file.name));
        let theirs = reader.deserialize_next::<Any>().unwrap().unwrap();
        assert_eq!(Any::ours(&packet.root()), theirs, "{}", file.name);
    }
}

#[test]
fn broken_files_are_refused_as_line_ending_damage() {
    for file in corpus::broken("broken_files_are_refused_as_line_ending_damage") {
        let error = Decoder::bundled().decode(&file.bytes).unwrap_err();
        assert_eq!(error.reason(), "line_endings", "{}: {error}", file.name);
    }
}

#[test]
fn every_header_has_its_place_time_and_names() {
    let decoder = Decoder::bundled();
    for file in corpus::good("every_header_has_its_place_time_and_names") {
        let packet = decoder.decode(&file.bytes).unwrap();
        let header = packet.header();
        assert!(packet.schema_is_known(), "{}: {header:?}", file.name);
        assert_eq!(decoder.header(&file.bytes).unwrap(), *header, "{}", file.name);
        let expected = match file.name.split('/').next().unwrap() {
            "lsst" => "rubin",
            folder => folder,
        };
        assert_eq!(header.survey, expected);
        println!("{} {header:?}", file.name);
        if !file.name.contains("ocf_") && header.survey != "winter" {
            assert!(
                header.object_id.is_some() && header.alert_id != 0,
                "{}: {header:?}",
                file.name
            );
            assert!(
                header.jd.is_some_and(|jd| (2_458_000.0..2_462_000.0).contains(&jd)),
                "{}: {header:?}",
                file.name
            );
            assert!(
                header.ra.is_some() && header.dec.is_some() && header.band.is_some(),
                "{}: {header:?}",
                file.name
            );
        }
    }
}
