//! Simulated packets are valid for two decoders, realistic in size and story, and reproducible.

use std::collections::{BTreeMap, BTreeSet};

use apache_avro::types::Value as Avro;

use super::*;
use crate::decode::Decoder;

fn date() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 3, 14).unwrap()
}

fn settings(survey: Survey, alerts: u64) -> Settings {
    Settings {
        survey,
        ..Settings::night(date(), alerts)
    }
}

fn simulate(settings: Settings) -> Vec<SimulatedPacket> {
    Simulation::new(settings).unwrap().collect()
}

fn median(mut sizes: Vec<usize>) -> usize {
    sizes.sort_unstable();
    sizes[sizes.len() / 2]
}

#[test]
fn every_packet_decodes_to_what_was_simulated() {
    let decoder = Decoder::bundled();
    for survey in [Survey::Ztf, Survey::Rubin] {
        let packets = simulate(settings(survey, 300));
        assert_eq!(packets.len(), 300);
        let ids: BTreeSet<i64> = packets.iter().map(|packet| packet.alert_id).collect();
        assert_eq!(ids.len(), 300, "ids are unique");
        for packet in &packets {
            let decoded = decoder
                .decode(&packet.payload)
                .unwrap_or_else(|e| panic!("{survey:?}: {e}"));
            let header = decoded.header();
            assert_eq!(header.survey, survey.name());
            assert_eq!(header.alert_id, packet.alert_id);
            assert_eq!(header.object_id.as_deref(), Some(&*packet.object_id));
            assert_eq!(header.programid, packet.programid);
            assert!((header.jd.unwrap() - packet.jd).abs() < 2e-9);
            assert!(header.magnitude.is_some() && header.ra.is_some() && header.dec.is_some() && header.rb.is_some());
            assert!(header.band.is_some());
        }
        assert!(
            packets.windows(2).all(|pair| pair[0].jd <= pair[1].jd),
            "in order of time"
        );
    }
}

#[test]
fn every_bundled_version_can_be_asked_for() {
    let decoder = Decoder::bundled();
    let versions: [(Survey, &[&str]); 2] = [
        (Survey::Ztf, &["1.8", "3.0", "3.1", "3.2", "3.3", "4.01", "4.02"]),
        (
            Survey::Rubin,
            &["7.1", "7.2", "7.3", "7.4", "8.0", "9.0", "10.0", "11.0"],
        ),
    ];
    for (survey, versions) in versions {
        for version in versions {
            let schema = Some((*version).to_owned());
            for packet in simulate(Settings {
                schema,
                ..settings(survey, 4)
            }) {
                let decoded = decoder
                    .decode(&packet.payload)
                    .unwrap_or_else(|e| panic!("{survey:?} {version}: {e}"));
                assert_eq!(decoded.header().alert_id, packet.alert_id, "{version}");
            }
        }
    }
    let error = Simulation::new(Settings {
        schema: Some("5".into()),
        ..settings(Survey::Ztf, 1)
    })
    .err()
    .unwrap();
    assert!(error.to_string().contains("4.02"), "{error}");
}

#[test]
fn a_second_decoder_reads_the_same_record() {
    for packet in simulate(settings(Survey::Ztf, 20)) {
        let records: Vec<Avro> = apache_avro::Reader::new(&packet.payload[..])
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let [Avro::Record(fields)] = records.as_slice() else {
            panic!("one record")
        };
        let get = |name: &str| {
            fields
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value)
                .unwrap()
        };
        assert_eq!(get("candid"), &Avro::Long(packet.alert_id));
        assert_eq!(get("objectId"), &Avro::String(packet.object_id.to_string()));
        assert_eq!(get("schemavsn"), &Avro::String("4.02".into()));
    }
}

#[test]
fn sizes_are_those_of_the_surveys() {
    let size = |survey| {
        median(
            simulate(settings(survey, 200))
                .iter()
                .map(|packet| packet.payload.len())
                .collect(),
        )
    };
    let (ztf, rubin) = (size(Survey::Ztf), size(Survey::Rubin));
    assert!((60_000..=80_000).contains(&ztf), "ZTF median {ztf} bytes");
    assert!((137_000..=141_000).contains(&rubin), "Rubin median {rubin} bytes");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for survey in [Survey::Ztf, Survey::Rubin] {
        let bytes = |seed| -> Vec<Bytes> {
            simulate(Settings {
                seed,
                ..settings(survey, 50)
            })
            .into_iter()
            .map(|packet| packet.payload)
            .collect()
        };
        assert_eq!(bytes(7), bytes(7));
        assert!(bytes(7).iter().zip(bytes(8)).all(|(a, b)| *a != b));
    }
}

#[test]
fn objects_come_again_and_tell_the_same_story() {
    let decoder = Decoder::bundled();
    let packets = simulate(settings(Survey::Ztf, 400));
    let mut seen: BTreeMap<String, Vec<(i64, f64)>> = BTreeMap::new();
    let (mut again, mut limits, mut detections) = (0, 0, 0);
    for packet in &packets {
        let decoded = decoder.decode(&packet.payload).unwrap();
        let history = decoded.json("prv_candidates").unwrap();
        let history = history.as_array().unwrap();
        for (candid, magnitude) in seen.get(&*packet.object_id).into_iter().flatten() {
            let told = history
                .iter()
                .find(|entry| entry["candid"] == *candid)
                .expect("the earlier alert");
            assert_eq!(told["magpsf"].as_f64().unwrap(), *magnitude);
            again += 1;
        }
        limits += history
            .iter()
            .filter(|entry| entry["candid"].is_null() && entry["magpsf"].is_null())
            .count();
        detections += history.iter().filter(|entry| entry["magpsf"].is_number()).count();
        assert!(
            history
                .windows(2)
                .all(|pair| pair[0]["jd"].as_f64() <= pair[1]["jd"].as_f64())
        );
        assert!(history.iter().all(|entry| entry["jd"].as_f64().unwrap() < packet.jd));
        let now = decoded.header().magnitude.unwrap();
        seen.entry(packet.object_id.to_string())
            .or_default()
            .push((packet.alert_id, now));
    }
    assert!(again > 100, "{again} alerts of objects seen before");
    assert!(
        limits > 400 && detections > 1_000,
        "{limits} upper limits, {detections} detections"
    );
}

#[test]
fn every_alert_lies_in_the_night_of_the_date() {
    for survey in [Survey::Ztf, Survey::Rubin] {
        for starts_at in ["00:00", "12:00"] {
            let night_starts_at = NightStart::parse(starts_at).unwrap();
            let begins = night_starts_at.begins(date());
            for packet in simulate(Settings {
                night_starts_at,
                ..settings(survey, 30)
            }) {
                assert!(
                    packet.jd >= begins && packet.jd < begins + 1.0,
                    "{survey:?} {starts_at} {}",
                    packet.jd
                );
            }
        }
    }
}

#[test]
fn any_number_of_alerts_is_exactly_that_many() {
    for alerts in [0, 1, 2, 3, 399, 400, 401, 1_234] {
        let packets = simulate(settings(Survey::Ztf, alerts));
        assert_eq!(packets.len() as u64, alerts);
        assert!(
            packets
                .iter()
                .enumerate()
                .all(|(n, packet)| packet.sequence == n as u64)
        );
    }
}

#[test]
fn a_fault_changes_only_its_own_packet() {
    let decoder = Decoder::bundled();
    let faults = Faults::parse("truncate=0.1, flip=0.1,wrong-id=0.1,duplicate=0.1,schema-bump=0.1").unwrap();
    for survey in [Survey::Ztf, Survey::Rubin] {
        let healthy = simulate(settings(survey, 200));
        let faulty = simulate(Settings {
            faults: faults.clone(),
            ..settings(survey, 200)
        });
        let mut kinds = BTreeMap::new();
        for (n, (good, bad)) in healthy.iter().zip(&faulty).enumerate() {
            *kinds.entry(bad.fault.map_or("none", Fault::name)).or_insert(0) += 1;
            match bad.fault {
                None => assert_eq!(good.payload, bad.payload),
                Some(Fault::Truncate | Fault::WrongId) => assert!(decoder.decode(&bad.payload).is_err()),
                Some(Fault::Flip) => assert_ne!(good.payload, bad.payload),
                Some(Fault::Duplicate) if n > 0 => {
                    assert!(faulty[..n].iter().rev().any(|earlier| earlier.alert_id == bad.alert_id));
                }
                Some(Fault::SchemaBump) if survey == Survey::Rubin => assert!(decoder.decode(&bad.payload).is_err()),
                Some(Fault::SchemaBump) => {
                    let decoded = decoder.decode(&bad.payload).unwrap();
                    assert!(!decoded.schema_is_known());
                    assert_eq!(decoded.header().alert_id, good.alert_id);
                }
                Some(_) => {}
            }
        }
        assert_eq!(kinds.len(), 6, "{kinds:?}");
    }
}

#[test]
fn faults_that_cannot_be_are_refused() {
    for (text, says) in [
        ("truncate", "KIND=RATE"),
        ("explode=1", "none of truncate, flip"),
        ("flip=2", "from 0 to 1"),
        ("flip=x", "from 0 to 1"),
        ("flip=0.1,flip=0.2", "twice"),
        ("flip=0.6,truncate=0.6", "more than 1"),
    ] {
        let message = Faults::parse(text).unwrap_err().to_string();
        assert!(message.contains(says), "{text}: {message}");
    }
}

#[test]
fn stamps_are_whole_fits_files() {
    let mut file = Vec::new();
    let image = fits::Image::Float(63, fits::star(&mut noise::Noise::at(1, 2), 63, 200.0, 1e4, 2.0));
    fits::push_image(&mut file, None, &image);
    assert_eq!(file.len() % 2880, 0);
    assert_eq!(file.len(), 2880 + 17_280);
    assert!(file.starts_with(b"SIMPLE  =                    T"));
    assert_eq!(&file[80..110], b"BITPIX  =                  -32");
}
