//! Hostile packets, made by hand: each is to be refused with its own reason, within 50 ms and 64 MiB.
//!
//! Invariants: none of them is larger than a few megabytes; what is declared in them is not there. Knows nothing of the
//! decoder but the names of its reasons.

#![allow(clippy::too_many_lines, reason = "they are tables")]

use super::generate::{SYNC, confluent, container, header, put_block, put_bytes, put_long};

/// One packet, and how it is to be refused.
pub struct Hostile {
    /// What it is.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The reason class.
    pub reason: &'static str,
    /// A part of the message.
    pub words: &'static str,
}

const ARRAY: &str = r#"{"type":"array","items":"long"}"#;
const MAP: &str = r#"{"type":"map","values":"int"}"#;
const ENUM: &str = r#"{"type":"enum","name":"e","symbols":["A","B"]}"#;

/// The schema of a record with one field `x`.
pub fn schema(kind: &str) -> String {
    format!(r#"{{"type":"record","name":"r","fields":[{{"name":"x","type":{kind}}}]}}"#)
}

/// Numbers as a writer puts them.
pub fn longs(values: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|v| put_long(&mut out, *v));
    out
}

/// A container of one record with one field `x`.
pub fn field(kind: &str, datum: &[u8]) -> Vec<u8> {
    container(&schema(kind), datum)
}

/// All of them.
pub fn all() -> Vec<Hostile> {
    [lengths(), schemas(), values(), blocks(), headers(), bombs()]
        .into_iter()
        .flatten()
        .map(|(name, bytes, reason, words)| Hostile {
            name,
            bytes,
            reason,
            words,
        })
        .collect()
}

type Row = (&'static str, Vec<u8>, &'static str, &'static str);

/// Lengths and counts of what is not there.
fn lengths() -> Vec<Row> {
    let mut text = longs(&[400_000_000]);
    text.extend(b"0123456789");
    let empty = r#"{"type":"array","items":{"type":"record","name":"e","fields":[]}}"#;
    let nulls = r#"{"type":"array","items":"null"}"#;
    let nested = r#"{"type":"array","items":{"type":"array","items":{"type":"array","items":"null"}}}"#;
    let deep_nulls: Vec<i64> = [vec![60], [1, 20_000, 0, 0].repeat(60), vec![0]].concat();
    vec![
        (
            "a string of 400 MB with 10 bytes there",
            field(r#""string""#, &text),
            "truncated",
            "`x`",
        ),
        (
            "bytes of 400 MB with 10 bytes there",
            field(r#""bytes""#, &text),
            "truncated",
            "`x`",
        ),
        (
            "a string as long as a number can say",
            field(r#""string""#, &longs(&[i64::MAX])),
            "truncated",
            "`x`",
        ),
        (
            "an array of 60 million longs",
            field(ARRAY, &longs(&[60_000_000, 1, 2])),
            "truncated",
            "`x`",
        ),
        (
            "an array of 9e8 nulls",
            field(nulls, &longs(&[900_000_000, 0])),
            "too_large",
            "`x`",
        ),
        (
            "an array of 2^40 empty records",
            field(empty, &longs(&[1 << 40, 0])),
            "too_large",
            "`x`",
        ),
        (
            "an array of 2^63 - 1 nulls",
            field(nulls, &longs(&[i64::MAX, 0])),
            "too_large",
            "`x`",
        ),
        (
            "many blocks of nulls",
            field(nulls, &[60_000; 200].map(|n| longs(&[n])).concat()),
            "too_large",
            "`x`",
        ),
        (
            "arrays of arrays of nulls",
            field(nested, &longs(&deep_nulls)),
            "too_large",
            "`x",
        ),
        (
            "a count of 2^40",
            field(ARRAY, &longs(&[1 << 40, 5])),
            "truncated",
            "`x`",
        ),
        ("a map of 2^40", field(MAP, &longs(&[1 << 40, 5])), "truncated", "`x`"),
        (
            "a count of -2^63",
            field(ARRAY, &longs(&[i64::MIN, 2, 5, 6, 0])),
            "truncated",
            "`x`",
        ),
        (
            "a block of items of 2^62 bytes",
            field(ARRAY, &longs(&[-2, 1 << 62, 5, 6, 0])),
            "truncated",
            "`x`",
        ),
        (
            "a negative length",
            field(r#""bytes""#, &longs(&[-1])),
            "damaged",
            "`-1` is negative",
        ),
        (
            "the most negative length",
            field(r#""string""#, &longs(&[i64::MIN])),
            "damaged",
            "is negative",
        ),
        (
            "a negative count with a wrong byte size",
            field(ARRAY, &longs(&[-2, 3, 5, 6, 0])),
            "damaged",
            "byte size",
        ),
        (
            "a negative count with a negative byte size",
            field(ARRAY, &longs(&[-2, -3, 5, 6, 0])),
            "damaged",
            "`-3`",
        ),
        (
            "a map block with a wrong byte size",
            field(MAP, &longs(&[-1, 7, 0, 1, 0])),
            "truncated",
            "`x`",
        ),
        (
            "an array without its end",
            field(ARRAY, &longs(&[2, 5, 6])),
            "truncated",
            "`x[]`",
        ),
    ]
}

/// Schemas that are too much.
fn schemas() -> Vec<Row> {
    let deep = |levels: usize| {
        let open = r#"{"type":"array","items":"#.repeat(levels);
        format!("{open}\"int\"{}", "}".repeat(levels))
    };
    let branches: String = (0..5000)
        .map(|n| format!(r#"{{"type":"fixed","name":"f{n}","size":1}},"#))
        .collect();
    let name = "n".repeat(4000);
    let inner = format!(r#"{{"type":"record","name":"e","fields":[{{"name":"{name}","type":"int"}}]}}"#);
    let uses: String = (0..1000).map(|n| format!(r#",{{"name":"u{n}","type":"e"}}"#)).collect();
    let names = format!(r#"{{"type":"record","name":"r","fields":[{{"name":"x","type":{inner}}}{uses}]}}"#);
    vec![
        (
            "a fixed of 2^40 bytes",
            field(r#"{"type":"fixed","name":"f","size":1099511627776}"#, &[0; 16]),
            "bad_schema",
            "fixed",
        ),
        (
            "a fixed of 2^32 - 1 bytes",
            field(r#"{"type":"fixed","name":"f","size":4294967295}"#, &[0; 16]),
            "truncated",
            "`x`",
        ),
        (
            "a fixed of -1 bytes",
            field(r#"{"type":"fixed","name":"f","size":-1}"#, &[0; 16]),
            "bad_schema",
            "fixed",
        ),
        (
            "a record in itself",
            field(r#""r""#, &[0; 16]),
            "too_deep",
            "contains itself",
        ),
        (
            "a record in itself or null",
            field(r#"["null","r"]"#, &[2; 200_000]),
            "too_deep",
            "contains itself",
        ),
        (
            "a record in an array in itself",
            field(r#"{"type":"array","items":"r"}"#, &[2; 200_000]),
            "too_deep",
            "contains itself",
        ),
        ("a nesting of 40", field(&deep(40), &[0; 16]), "too_deep", "32"),
        ("a nesting of 400", field(&deep(400), &[0; 16]), "too_deep", "128"),
        (
            "a nesting of 200,000",
            field(&deep(200_000), &[0; 16]),
            "too_large",
            "header",
        ),
        (
            "10^9 fields of null",
            field(&nulls(9), &[0; 16]),
            "bad_schema",
            "4096 fields",
        ),
        (
            "a union of 5000 branches",
            field(&format!("[{branches}\"null\"]"), &longs(&[4000, 0])),
            "bad_schema",
            "4096 fields",
        ),
        (
            "a long name used often",
            container(&names, &[0; 2000]),
            "bad_schema",
            "names",
        ),
        (
            "a type that is not defined",
            field(r#""nowhere""#, &[0; 16]),
            "bad_schema",
            "`nowhere`",
        ),
        (
            "a union in a union",
            field(r#"["null",["int","string"]]"#, &[0; 16]),
            "bad_schema",
            "union",
        ),
        (
            "a root that is no record",
            container(r#""string""#, &[0]),
            "bad_schema",
            "not a record",
        ),
        (
            "a schema that is no JSON",
            container("{\"type\":", &[0]),
            "bad_schema",
            "JSON",
        ),
        ("a schema of no bytes", container("", &[0]), "bad_schema", "JSON"),
    ]
}

/// `levels` records, each with ten fields of the one before; null at the bottom.
fn nulls(levels: usize) -> String {
    let mut kind = String::from(r#""null""#);
    for level in 0..levels {
        let mut fields = format!(r#"{{"name":"f0","type":{kind}}}"#);
        let name = match level {
            0 => r#""null""#.to_owned(),
            _ => format!(r#""n{}""#, level - 1),
        };
        (1..10).for_each(|n| fields.push_str(&format!(r#",{{"name":"f{n}","type":{name}}}"#)));
        kind = format!(r#"{{"type":"record","name":"n{level}","fields":[{fields}]}}"#);
    }
    kind
}

/// Values that no writer writes.
fn values() -> Vec<Row> {
    let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    let many = r#"["null","int","string"]"#;
    vec![
        (
            "union index -1",
            field(r#"["null","int"]"#, &longs(&[-1, 0])),
            "damaged",
            "union index `-1`",
        ),
        (
            "union index 9",
            field(r#"["null","int"]"#, &longs(&[9, 0])),
            "damaged",
            "union index `9`",
        ),
        (
            "union index -1 of three",
            field(many, &longs(&[-1, 0])),
            "damaged",
            "union index `-1`",
        ),
        (
            "union index 2^62 of three",
            field(many, &longs(&[1 << 62, 0])),
            "damaged",
            "union index",
        ),
        (
            "union index 9 before an array",
            field(&format!(r#"["null",{ARRAY}]"#), &longs(&[9, 0])),
            "damaged",
            "union index `9`",
        ),
        ("boolean 2", field(r#""boolean""#, &[2]), "damaged", "`2` is no boolean"),
        (
            "boolean 255 or null",
            field(r#"["null","boolean"]"#, &[2, 255]),
            "damaged",
            "`255` is no boolean",
        ),
        (
            "a number of 11 bytes",
            field(r#""long""#, &[0xff; 11]),
            "damaged",
            "64 bits",
        ),
        ("a number of 65 bits", field(r#""long""#, &over), "damaged", "64 bits"),
        ("a count of 65 bits", field(ARRAY, &over), "damaged", "64 bits"),
        (
            "an int of 33 bits",
            field(r#""int""#, &longs(&[1 << 31])),
            "damaged",
            "`2147483648`",
        ),
        (
            "a negative int of 33 bits",
            field(r#""int""#, &longs(&[-(1 << 31) - 1])),
            "damaged",
            "`-2147483649`",
        ),
        (
            "enum index 2 of two",
            field(ENUM, &longs(&[2])),
            "damaged",
            "enum index `2`",
        ),
        (
            "enum index -1",
            field(ENUM, &longs(&[-1])),
            "damaged",
            "enum index `-1`",
        ),
        (
            "text that is not UTF-8",
            field(r#""string""#, &[4, 0xc3, 0x28]),
            "damaged",
            "UTF-8",
        ),
        (
            "half a character",
            field(r#""string""#, &[4, 0xe6, 0x98]),
            "damaged",
            "UTF-8",
        ),
        (
            "text or null that is not UTF-8",
            field(r#"["null","string"]"#, &[2, 2, 0xff]),
            "damaged",
            "UTF-8",
        ),
        (
            "a map key that is not UTF-8",
            field(MAP, &[2, 2, 0xff, 2, 0]),
            "damaged",
            "UTF-8",
        ),
        ("half a float", field(r#""float""#, &[0, 0]), "truncated", "`x`"),
        (
            "half a double or null",
            field(r#"["double","null"]"#, &[0, 0, 0, 0, 0]),
            "truncated",
            "`x`",
        ),
        (
            "trailing bytes in the block",
            field(r#""int""#, &[2, 0]),
            "trailing_bytes",
            "1 bytes of the block",
        ),
        ("an empty datum", confluent(900, &[]), "truncated", "diaSourceId"),
        ("an unknown id", confluent(5, &[0; 8]), "unknown_schema", "`5`"),
    ]
}

/// Container blocks.
fn blocks() -> Vec<Row> {
    let whole = field(r#""string""#, b"\x14abcdefghij");
    let cut = |bytes: usize| whole[..whole.len() - bytes].to_vec();
    let declared = |count: i64, size: i64| {
        let mut bytes = header(&schema(r#""int""#), None);
        bytes.extend(longs(&[count, size]));
        bytes.extend(SYNC);
        bytes
    };
    let mut far = header(&schema(ARRAY), None);
    far.extend(longs(&[1, 400_000_000]));
    far.extend([0; 64]);
    let mut after = field(r#""int""#, &[2]);
    after.push(7);
    let mut other_sync = field(r#""int""#, &[2]);
    *other_sync.last_mut().unwrap() ^= 1;
    let mut several = header(&schema(r#""int""#), None);
    put_block(&mut several, 2, &[2, 4]);
    put_block(&mut several, 1, &[6]);
    let mut none = header(&schema(r#""int""#), None);
    put_block(&mut none, 0, &[2]);
    vec![
        ("a block of 400 MB", far, "truncated", "container block"),
        (
            "a block of 2^63 - 1 bytes",
            declared(1, i64::MAX),
            "truncated",
            "container block",
        ),
        ("a block without its end", cut(20), "truncated", "container block"),
        ("no final sync marker", cut(16), "truncated", "container block"),
        ("half a sync marker", cut(8), "truncated", "container block"),
        ("a sync marker but for one byte", cut(1), "truncated", "container block"),
        ("another sync marker", other_sync, "damaged", "sync marker"),
        (
            "trailing bytes after the block",
            after,
            "trailing_bytes",
            "after the last sync marker",
        ),
        ("a negative block size", declared(1, -5), "damaged", "`-5` bytes"),
        (
            "a negative number of records",
            declared(-1, 5),
            "damaged",
            "`-1` records",
        ),
        ("a block of no records alone", declared(0, 0), "no_record", "no record"),
        ("a block of no records with bytes", none, "damaged", "`0` records"),
        ("no block", header(&schema(r#""int""#), None), "no_record", "no record"),
        ("three records", several, "several_records", "3 records"),
    ]
}

/// Headers.
fn headers() -> Vec<Row> {
    let codec = |name: &str| {
        let mut bytes = header(&schema(r#""int""#), Some(name));
        put_block(&mut bytes, 1, &[2]);
        bytes
    };
    let metadata = |parts: &[i64]| [b"Obj\x01".to_vec(), longs(parts)].concat();
    let mut wrong_size = metadata(&[-1, 3]);
    put_bytes(&mut wrong_size, b"avro.schema");
    put_bytes(&mut wrong_size, b"\"int\"");
    let mut key = metadata(&[1]);
    put_bytes(&mut key, &[0xff, 0xfe]);
    put_bytes(&mut key, b"x");
    let mut no_schema = metadata(&[1]);
    put_bytes(&mut no_schema, b"avro.codec");
    put_bytes(&mut no_schema, b"null");
    no_schema.push(0);
    no_schema.extend(SYNC);
    vec![
        (
            "65 metadata entries",
            metadata(&[65]),
            "too_large",
            "64 metadata entries",
        ),
        (
            "2^63 metadata entries",
            metadata(&[i64::MIN, 8]),
            "too_large",
            "64 metadata entries",
        ),
        (
            "a header of 2 MiB",
            header(&" ".repeat(2 << 20), None),
            "too_large",
            "header is over",
        ),
        (
            "a metadata value of 2^62 bytes",
            metadata(&[1, 0, 1 << 62]),
            "truncated",
            "header",
        ),
        (
            "a metadata block of a wrong size",
            wrong_size,
            "damaged",
            "byte size is wrong",
        ),
        ("a metadata key that is not UTF-8", key, "damaged", "UTF-8"),
        ("no schema", no_schema, "bad_schema", "avro.schema"),
        ("codec snappy", codec("snappy"), "unknown_codec", "`snappy`"),
        ("codec zstandard", codec("zstandard"), "unknown_codec", "`zstandard`"),
        ("codec xz", codec("xz"), "unknown_codec", "`xz`"),
        ("codec bzip2", codec("bzip2"), "unknown_codec", "`bzip2`"),
        (
            "a FITS file",
            b"SIMPLE  =                    T".to_vec(),
            "not_avro",
            "53494d50",
        ),
        ("nothing", Vec::new(), "empty", "empty"),
        ("half a magic", b"Ob".to_vec(), "truncated", "magic"),
        (
            "half a Confluent header",
            vec![0, 0, 3],
            "truncated",
            "Confluent header",
        ),
    ]
}

/// Deflate bombs, and blocks that are no deflate.
fn bombs() -> Vec<Row> {
    let packed = |block: &[u8]| {
        let mut bytes = header(&schema(r#""bytes""#), Some("deflate"));
        put_block(&mut bytes, 1, block);
        bytes
    };
    let small = bomb(1);
    vec![
        (
            "a deflate bomb of 1 GiB",
            packed(&bomb(1 << 10)),
            "too_large",
            "inflates to more than",
        ),
        (
            "a deflate bomb of 8 GiB",
            packed(&bomb(8 << 10)),
            "too_large",
            "inflates to more than",
        ),
        // The same stream, small enough, is read: it is the size that is refused.
        (
            "a deflated mebibyte of zeros",
            packed(&small),
            "trailing_bytes",
            "of the block",
        ),
        (
            "half a deflate stream",
            packed(&small[..small.len() / 2]),
            "truncated",
            "compressed",
        ),
        ("no deflate stream", packed(&[0xff; 64]), "damaged", "deflate"),
        (
            "bytes after a deflate stream",
            packed(&[small, vec![1]].concat()),
            "trailing_bytes",
            "compressed bytes",
        ),
    ]
}

/// A deflate stream of `mebibytes` of zeros: one flushed stretch of a mebibyte, repeated.
fn bomb(mebibytes: usize) -> Vec<u8> {
    let mut stretch = Vec::with_capacity(1 << 16);
    let mut compressor = flate2::Compress::new(flate2::Compression::best(), false);
    compressor
        .compress_vec(&vec![0; 1 << 20], &mut stretch, flate2::FlushCompress::Sync)
        .unwrap();
    assert_eq!(compressor.total_in(), 1 << 20);
    // An empty last block ends the stream.
    [stretch.repeat(mebibytes), vec![3, 0]].concat()
}
