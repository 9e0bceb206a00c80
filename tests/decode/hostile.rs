//! Hand-made hostile packets, each refused with its own reason, in bounded memory.
//!
//! Time is bounded by construction: the memory that a refusal may take is checked with a counting allocator, and a loop
//! over 10^9 of anything would not end within the test's time.

use alertstream::decode::{DecodeError, Decoder};
use bytes::Bytes;

use crate::allocations::{largest_growth, untouched};
use crate::generate::{SYNC, confluent, container, header, put_block, put_bytes, put_long};

const MEMORY_MAX: usize = 64 << 20;

/// Refuses a packet and gives the error.
fn refuse(bytes: Vec<u8>) -> DecodeError {
    let payload = Bytes::from(bytes);
    let decoder = Decoder::bundled();
    let (grown, error) = largest_growth(|| decoder.decode(&payload).expect_err("hostile"));
    assert!(grown <= MEMORY_MAX, "{grown} bytes for `{error}`");
    assert!(untouched(), "the counter is on");
    error
}

/// Refuses a datum of a record with one field `x`.
fn field(kind: &str, datum: &[u8]) -> DecodeError {
    refuse(container(&schema(kind), datum))
}

fn schema(kind: &str) -> String {
    format!(r#"{{"type":"record","name":"r","fields":[{{"name":"x","type":{kind}}}]}}"#)
}

fn longs(values: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|v| put_long(&mut out, *v));
    out
}

#[track_caller]
fn is(error: &DecodeError, reason: &str, words: &str) {
    assert_eq!(error.reason(), reason, "{error}");
    assert!(error.to_string().contains(words), "`{error}` says `{words}`");
}

const ARRAY: &str = r#"{"type":"array","items":"long"}"#;

#[test]
fn a_string_of_400_mb_with_10_bytes_is_truncated() {
    let mut datum = longs(&[400_000_000]);
    datum.extend(b"0123456789");
    is(&field(r#""string""#, &datum), "truncated", "`x`");
}

#[test]
fn an_array_of_60_million_longs_that_are_not_there_is_truncated() {
    is(&field(ARRAY, &longs(&[60_000_000, 1, 2])), "truncated", "`x`");
}

#[test]
fn an_array_of_900_million_nulls_is_too_large() {
    is(
        &field(r#"{"type":"array","items":"null"}"#, &longs(&[900_000_000, 0])),
        "too_large",
        "`x`",
    );
    is(
        &field(
            r#"{"type":"array","items":{"type":"record","name":"e","fields":[]}}"#,
            &longs(&[1 << 40, 0]),
        ),
        "too_large",
        "`x`",
    );
}

#[test]
fn a_fixed_of_a_tebibyte_is_refused_with_its_schema() {
    is(
        &field(r#"{"type":"fixed","name":"f","size":1099511627776}"#, &[0; 16]),
        "bad_schema",
        "fixed",
    );
    is(
        &field(r#"{"type":"fixed","name":"f","size":4294967295}"#, &[0; 16]),
        "truncated",
        "`x`",
    );
}

#[test]
fn a_record_that_contains_itself_is_too_deep() {
    is(&field(r#""r""#, &[0; 16]), "too_deep", "contains itself");
    is(&field(r#"["null","r"]"#, &[2; 200_000]), "too_deep", "contains itself");
}

#[test]
fn a_schema_of_depth_200_000_is_too_deep() {
    let deep = format!(
        "{}\"int\"{}",
        r#"{"type":"array","items":"#.repeat(200_000),
        "}".repeat(200_000)
    );
    let error = field(&deep, &[0; 16]);
    assert!(
        matches!(error.reason(), "too_large" | "bad_schema" | "too_deep"),
        "{error}"
    );
    let deep = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(40), "}".repeat(40));
    is(&field(&deep, &[0; 16]), "too_deep", "32");
    let deep = format!(
        "{}\"int\"{}",
        r#"{"type":"array","items":"#.repeat(400),
        "}".repeat(400)
    );
    is(&field(&deep, &[0; 16]), "too_deep", "128");
}

#[test]
fn a_billion_null_fields_are_refused_with_their_schema() {
    // Nine records, each with ten fields of the one before.
    let mut kind = String::from(r#""null""#);
    for level in 0..9 {
        let mut fields = format!(r#"{{"name":"f0","type":{kind}}}"#);
        let name = if level == 0 {
            r#""null""#.to_owned()
        } else {
            format!(r#""n{}""#, level - 1)
        };
        (1..10).for_each(|n| fields.push_str(&format!(r#",{{"name":"f{n}","type":{name}}}"#)));
        kind = format!(r#"{{"type":"record","name":"n{level}","fields":[{fields}]}}"#);
    }
    is(&field(&kind, &[0; 16]), "bad_schema", "4096 fields");
}

#[test]
fn long_names_used_often_are_refused_with_their_schema() {
    let name = "n".repeat(4000);
    let inner = format!(r#"{{"type":"record","name":"e","fields":[{{"name":"{name}","type":"int"}}]}}"#);
    let uses: String = (0..1000).map(|n| format!(r#",{{"name":"u{n}","type":"e"}}"#)).collect();
    let schema = format!(r#"{{"type":"record","name":"r","fields":[{{"name":"x","type":{inner}}}{uses}]}}"#);
    is(&refuse(container(&schema, &[0; 2000])), "bad_schema", "names");
}

/// A deflate stream of `mebibytes` of zeros: one flushed stretch of a mebibyte, repeated.
fn bomb(mebibytes: usize) -> Vec<u8> {
    let zeros = vec![0; 1 << 20];
    let mut stretch = Vec::with_capacity(1 << 16);
    let mut compressor = flate2::Compress::new(flate2::Compression::best(), false);
    compressor
        .compress_vec(&zeros, &mut stretch, flate2::FlushCompress::Sync)
        .unwrap();
    assert_eq!(compressor.total_in(), 1 << 20);
    // An empty last block ends the stream.
    [stretch.repeat(mebibytes), vec![3, 0]].concat()
}

#[test]
fn deflate_bombs_are_refused_at_the_cap() {
    let schema = schema(r#""bytes""#);
    for mebibytes in [1 << 10, 8 << 10] {
        let mut bytes = header(&schema, Some("deflate"));
        put_block(&mut bytes, 1, &bomb(mebibytes));
        is(&refuse(bytes), "too_large", "inflates to more than");
    }
    // The same stream, small enough, is read: it is the size that is refused.
    let mut bytes = header(&schema, Some("deflate"));
    put_block(&mut bytes, 1, &bomb(1));
    is(&refuse(bytes), "trailing_bytes", "of the block");
}

#[test]
fn a_declared_block_of_400_mb_is_truncated() {
    let mut bytes = header(&schema(ARRAY), None);
    bytes.extend(longs(&[1, 400_000_000]));
    bytes.extend([0; 64]);
    is(&refuse(bytes), "truncated", "container block");
}

#[test]
fn trailing_bytes_are_refused_in_the_block_and_after_it() {
    is(
        &refuse(container(&schema(r#""int""#), &[2, 0])),
        "trailing_bytes",
        "1 bytes of the block",
    );
    let mut bytes = container(&schema(r#""int""#), &[2]);
    bytes.push(7);
    is(&refuse(bytes), "trailing_bytes", "after the last sync marker");
    is(&refuse(confluent(900, &[])), "truncated", "diaSourceId");
}

#[test]
fn a_truncated_block_no_final_sync_and_half_a_sync_are_truncated() {
    let whole = container(&schema(r#""string""#), b"\x14abcdefghij");
    for cut in [20, 16, 8, 1] {
        is(
            &refuse(whole[..whole.len() - cut].to_vec()),
            "truncated",
            "container block",
        );
    }
}

#[test]
fn another_sync_marker_is_damage() {
    let mut bytes = container(&schema(r#""int""#), &[2]);
    *bytes.last_mut().unwrap() ^= 1;
    is(&refuse(bytes), "damaged", "sync marker");
}

#[test]
fn union_indices_that_do_not_exist_are_damage() {
    for kind in [
        r#"["null","int"]"#,
        r#"["null","int","string"]"#,
        r#"["null",{"type":"array","items":"int"}]"#,
    ] {
        is(&field(kind, &longs(&[-1, 0])), "damaged", "union index `-1`");
        is(&field(kind, &longs(&[9, 0])), "damaged", "union index `9`");
    }
}

#[test]
fn a_boolean_of_2_is_damage() {
    is(&field(r#""boolean""#, &[2]), "damaged", "`2` is no boolean");
    is(
        &field(r#"["null","boolean"]"#, &[2, 255]),
        "damaged",
        "`255` is no boolean",
    );
}

#[test]
fn a_varint_over_64_bits_is_damage() {
    is(&field(r#""long""#, &[0xff; 11]), "damaged", "64 bits");
    is(
        &field(
            r#""long""#,
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        ),
        "damaged",
        "64 bits",
    );
}

#[test]
fn an_int_over_32_bits_is_damage() {
    is(&field(r#""int""#, &longs(&[1 << 31])), "damaged", "`2147483648`");
    is(
        &field(r#""int""#, &longs(&[-(1 << 31) - 1])),
        "damaged",
        "`-2147483649`",
    );
}

#[test]
fn a_negative_count_with_a_wrong_byte_size_is_damage() {
    is(&field(ARRAY, &longs(&[-2, 3, 5, 6, 0])), "damaged", "byte size");
    is(&field(ARRAY, &longs(&[-2, -3, 5, 6, 0])), "damaged", "`-3`");
    is(&field(ARRAY, &longs(&[i64::MIN, 2, 5, 6, 0])), "truncated", "`x`");
    assert!(
        Decoder::bundled()
            .decode(&container(&schema(ARRAY), &longs(&[-2, 2, 5, 6, 0])).into())
            .is_ok()
    );
}

#[test]
fn a_count_of_2_to_the_40_is_truncated() {
    is(&field(ARRAY, &longs(&[1 << 40, 5])), "truncated", "`x`");
    is(
        &field(r#"{"type":"map","values":"int"}"#, &longs(&[1 << 40, 5])),
        "truncated",
        "`x`",
    );
}

#[test]
fn negative_sizes_and_counts_of_a_container_block_are_damage() {
    for (count, size, words) in [(1, -5, "`-5` bytes"), (-1, 5, "`-1` records"), (0, 0, "`0` records")] {
        let mut bytes = header(&schema(r#""int""#), None);
        bytes.extend(longs(&[count, size]));
        bytes.extend(SYNC);
        is(&refuse(bytes), "damaged", words);
    }
}

#[test]
fn an_unknown_codec_is_named() {
    let mut bytes = header(&schema(r#""int""#), Some("zstandard"));
    put_block(&mut bytes, 1, &[2]);
    is(&refuse(bytes), "unknown_codec", "`zstandard`");
}

#[test]
fn text_that_is_not_utf8_is_damage() {
    is(&field(r#""string""#, &[4, 0xc3, 0x28]), "damaged", "UTF-8");
    is(&field(r#"["null","string"]"#, &[2, 2, 0xff]), "damaged", "UTF-8");
}

#[test]
fn lengths_and_enums_out_of_range_are_damage() {
    is(&field(r#""bytes""#, &longs(&[-1])), "damaged", "`-1` is negative");
    let kind = r#"{"type":"enum","name":"e","symbols":["A","B"]}"#;
    is(&field(kind, &longs(&[2])), "damaged", "enum index `2`");
    is(&field(kind, &longs(&[-1])), "damaged", "enum index `-1`");
}

#[test]
fn containers_of_none_or_several_records_are_no_packet() {
    is(&refuse(header(&schema(r#""int""#), None)), "no_record", "no record");
    let mut bytes = header(&schema(r#""int""#), None);
    put_block(&mut bytes, 2, &[2, 4]);
    put_block(&mut bytes, 1, &[6]);
    is(&refuse(bytes), "several_records", "3 records");
}

#[test]
fn headers_beyond_their_limits_are_refused() {
    let mut bytes = b"Obj\x01".to_vec();
    put_long(&mut bytes, 65);
    is(&refuse(bytes), "too_large", "64 metadata entries");
    is(
        &refuse(header(&" ".repeat(2 << 20), None)),
        "too_large",
        "header is over",
    );
    let mut bytes = b"Obj\x01".to_vec();
    put_long(&mut bytes, -1);
    put_long(&mut bytes, 3);
    put_bytes(&mut bytes, b"avro.schema");
    put_bytes(&mut bytes, b"\"int\"");
    is(&refuse(bytes), "damaged", "byte size is wrong");
}

#[test]
fn what_is_no_avro_is_named() {
    is(
        &refuse(b"SIMPLE  =                    T".to_vec()),
        "not_avro",
        "53494d50",
    );
    is(&refuse(Vec::new()), "empty", "empty");
    is(&refuse(b"Ob".to_vec()), "truncated", "magic");
    is(&refuse(vec![0, 0, 3]), "truncated", "Confluent header");
    is(&refuse(confluent(5, &[0; 8])), "unknown_schema", "`5`");
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
    is(&refuse(short), "line_endings", "short by 2 bytes");
    let unix = text(b"text\nand\nmore");
    let whole = container(&schema(r#""bytes""#), &unix);
    let start = whole.len() - 16 - unix.len();
    let added: Vec<u8> = String::from_utf8_lossy(&unix).replace('\n', "\r\n").into_bytes();
    let long = [&whole[..start], &added, &SYNC].concat();
    is(&refuse(long), "line_endings", "long by 2 bytes");
    is(
        &refuse(container(&schema(r#""bytes""#), &datum)[..start + 9].to_vec()),
        "truncated",
        "container block",
    );
}
