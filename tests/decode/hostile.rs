//! Hand-made hostile packets, each refused with its own reason, in bounded memory; and odd ones that are read.
//!
//! Time is measured by `cargo bench --bench decode`; here it is bounded by construction: the memory that a refusal may
//! take is checked with a counting allocator, and a loop over 10^9 of anything would not end within the test's time.

use alertstream::decode::{DecodeError, Decoder};
use bytes::Bytes;
use serde_json::json;

use crate::allocations::untouched;
use crate::counting::largest_growth;
use crate::generate::{SYNC, container, put_bytes};
use crate::hostile_files::{self, field, longs, schema};

const MEMORY_MAX: usize = 64 << 20;

/// Refuses a packet and gives the error.
fn refuse(name: &str, bytes: Vec<u8>) -> DecodeError {
    let payload = Bytes::from(bytes);
    let decoder = Decoder::bundled();
    let (grown, decoded) = largest_growth(|| decoder.decode(&payload));
    let error = decoded.expect_err(name);
    assert!(grown <= MEMORY_MAX, "{name}: {grown} bytes for `{error}`");
    assert!(untouched(), "the counter is on");
    error
}

#[track_caller]
fn is(error: &DecodeError, reason: &str, words: &str) {
    assert_eq!(error.reason(), reason, "{error}");
    assert!(error.to_string().contains(words), "`{error}` says `{words}`");
}

#[test]
fn every_hostile_packet_is_refused_with_its_own_reason_in_64_mib() {
    let all = hostile_files::all();
    assert!(all.len() >= 90, "{}", all.len());
    for hostile in all {
        let error = refuse(hostile.name, hostile.bytes);
        assert_eq!(error.reason(), hostile.reason, "{}: {error}", hostile.name);
        assert!(
            error.to_string().contains(hostile.words),
            "{}: `{error}` says `{}`",
            hostile.name,
            hostile.words
        );
    }
}

#[test]
fn a_hostile_file_gives_no_packet_when_it_is_cut_either() {
    // A file of several records is good where it is whole, and so is one whose only record is bad in itself alone.
    for hostile in hostile_files::all() {
        let file = Bytes::from(hostile.bytes);
        let decoder = Decoder::bundled();
        let (grown, parts) = largest_growth(|| decoder.split(&file));
        assert!(grown <= MEMORY_MAX, "{}: {grown} bytes", hostile.name);
        let packets = parts.into_iter().flatten().filter(|part| decoder.decode(part).is_ok());
        let several = hostile.reason == "several_records";
        assert_eq!(packets.count() > 0, several, "{}", hostile.name);
    }
}

#[test]
fn what_is_odd_and_means_one_thing_is_read() {
    let x = |kind: &str, datum: &[u8]| {
        let packet = Decoder::bundled().decode(&field(kind, datum).into()).unwrap();
        packet.json("x").unwrap()
    };
    // Numbers of more bytes than they need.
    assert_eq!(x(r#""long""#, &[0x82, 0x80, 0x00]), json!(1));
    assert_eq!(x(r#"["null","int"]"#, &[0x82, 0x00, 0x84, 0x80, 0x00]), json!(2));
    assert_eq!(
        x(
            r#""int""#,
            &[0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]
        ),
        json!(1)
    );
    // Blocks with their byte size, and several blocks.
    let array = r#"{"type":"array","items":"long"}"#;
    assert_eq!(x(array, &longs(&[-2, 2, 5, 6, 1, 7, 0])), json!([5, 6, 7]));
    // Floats that JSON does not have.
    for float in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(x(r#""float""#, &float.to_le_bytes()), json!(null));
        assert_eq!(
            x(
                r#"["null","double"]"#,
                &[&[2], &f64::from(float).to_le_bytes()[..]].concat()
            ),
            json!(null)
        );
    }
    // A union of many branches, by its last one.
    let branches: String = (0..1500)
        .map(|n| format!(r#"{{"type":"fixed","name":"f{n}","size":1}},"#))
        .collect();
    assert_eq!(
        x(
            &format!("[{branches}\"string\"]"),
            &[&longs(&[1500, 1])[..], b"z"].concat()
        ),
        json!("z")
    );
    // As deep as is read.
    let deep = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(30), "}".repeat(30));
    assert_eq!(x(&deep, &[0]), json!([]));
}

#[test]
fn line_ending_damage_is_named_in_both_directions() {
    let text = |text: &[u8]| {
        let mut datum = Vec::new();
        put_bytes(&mut datum, text);
        datum
    };
    let datum = text(b"text\r\nand\r\nmore, and a last line feed\n");
    let whole = container(&schema(r#""bytes""#), &datum);
    let start = whole.len() - 16 - datum.len();
    let body = &whole[start..whole.len() - 16];
    let dropped: Vec<u8> = String::from_utf8_lossy(body).replace("\r\n", "\n").into_bytes();
    let short = [&whole[..start], &dropped, &SYNC].concat();
    is(&refuse("line endings", short), "line_endings", "short by 2 bytes");
    let unix = text(b"text\nand\nmore");
    let whole = container(&schema(r#""bytes""#), &unix);
    let start = whole.len() - 16 - unix.len();
    let added: Vec<u8> = String::from_utf8_lossy(&unix).replace('\n', "\r\n").into_bytes();
    let long = [&whole[..start], &added, &SYNC].concat();
    is(&refuse("line endings", long), "line_endings", "long by 2 bytes");
    is(
        &refuse(
            "line endings",
            container(&schema(r#""bytes""#), &datum)[..start + 9].to_vec(),
        ),
        "truncated",
        "container block",
    );
}
