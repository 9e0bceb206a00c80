//! Random packets that a writer could have made: any datum of a schema, framed as a container file or a Confluent message.
//!
//! Invariants: the same seed gives the same bytes. Knows nothing of the decoder: it is what the decoder is tested with.

use serde_json::Value;

/// A small generator of random numbers (xorshift64*), so that a seed means the same everywhere.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Makes a generator.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Gives a random number.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Gives a random number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n.max(1) as u64) as usize
    }
}

/// Appends a zig-zag varint.
pub fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a length and bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, bytes.len() as i64);
    out.extend(bytes);
}

/// Makes a random datum of a schema; `cutout` is the length of its byte fields.
pub fn datum(schema: &Value, dice: &mut Dice, cutout: usize) -> Vec<u8> {
    let mut named = std::collections::HashMap::new();
    let mut out = Vec::new();
    value(schema, dice, cutout, &mut named, &mut out);
    out
}

type Named<'s> = std::collections::HashMap<String, &'s Value>;

fn value<'s>(schema: &'s Value, dice: &mut Dice, cutout: usize, named: &mut Named<'s>, out: &mut Vec<u8>) {
    match schema {
        Value::Array(branches) => {
            let chosen = dice.below(branches.len());
            put_long(out, chosen as i64);
            value(&branches[chosen], dice, cutout, named, out);
            // A branch that was not taken may define a type that is used later.
            branches.iter().for_each(|branch| define(branch, named));
        }
        Value::String(name) => primitive(name, dice, cutout, named, out),
        Value::Object(object) => match object["type"].as_str() {
            Some("record") => {
                define(schema, named);
                for field in object["fields"].as_array().unwrap() {
                    value(&field["type"], dice, cutout, named, out);
                }
            }
            Some("array") => {
                // One, two or no blocks; a negative count carries its byte size.
                for _ in 0..dice.below(3) {
                    let count = 1 + dice.below(4);
                    let mut items = Vec::new();
                    (0..count).for_each(|_| value(&object["items"], dice, cutout, named, &mut items));
                    if dice.below(2) == 0 {
                        put_long(out, count as i64);
                    } else {
                        put_long(out, -(count as i64));
                        put_long(out, items.len() as i64);
                    }
                    out.extend(items);
                }
                define(&object["items"], named);
                put_long(out, 0);
            }
            Some("fixed") => (0..object["size"].as_u64().unwrap()).for_each(|_| out.push(dice.roll() as u8)),
            Some("enum") => put_long(out, dice.below(object["symbols"].as_array().unwrap().len()) as i64),
            Some("map") => put_long(out, 0),
            Some(name) => primitive(name, dice, cutout, named, out),
            None => value(&object["type"], dice, cutout, named, out),
        },
        _ => {}
    }
}

fn primitive(name: &str, dice: &mut Dice, cutout: usize, named: &mut Named<'_>, out: &mut Vec<u8>) {
    match name {
        "null" => {}
        "boolean" => out.push(dice.below(2) as u8),
        "int" => put_long(out, i64::from(dice.roll() as i32 >> dice.below(32))),
        "long" => put_long(out, dice.roll() as i64 >> dice.below(64)),
        "float" => out.extend(((dice.roll() as i32) as f32 / 1e6).to_le_bytes()),
        "double" => out.extend(((dice.roll() as i64) as f64 / 1e12).to_le_bytes()),
        "string" => put_bytes(out, &b"ZTF18abcdefgh, or some longer text"[..dice.below(34)]),
        "bytes" => {
            let bytes: Vec<u8> = (0..cutout).map(|_| dice.roll() as u8).collect();
            put_bytes(out, &bytes);
        }
        name => {
            let definition = named.get(name).or_else(|| named.get(name.rsplit('.').next().unwrap()));
            let definition = *definition.unwrap_or_else(|| panic!("the schema defines `{name}`"));
            let mut inner: Named<'_> = named.clone();
            value(definition, dice, cutout, &mut inner, out);
        }
    }
}

fn define<'s>(schema: &'s Value, named: &mut Named<'s>) {
    match schema {
        Value::Array(branches) => branches.iter().for_each(|branch| define(branch, named)),
        Value::Object(object) => {
            if let Some(name) = object.get("name").and_then(Value::as_str) {
                named.insert(name.to_owned(), schema);
                named.insert(name.rsplit('.').next().unwrap().to_owned(), schema);
            }
            if let Some(items) = object.get("items") {
                define(items, named);
            }
        }
        _ => {}
    }
}

/// The sync marker of every generated container.
pub const SYNC: [u8; 16] = *b"0123456789abcdef";

/// Makes the header of a container file.
pub fn header(schema: &str, codec: Option<&str>) -> Vec<u8> {
    let mut bytes = b"Obj\x01".to_vec();
    put_long(&mut bytes, 1 + i64::from(codec.is_some()));
    if let Some(codec) = codec {
        put_bytes(&mut bytes, b"avro.codec");
        put_bytes(&mut bytes, codec.as_bytes());
    }
    put_bytes(&mut bytes, b"avro.schema");
    put_bytes(&mut bytes, schema.as_bytes());
    put_long(&mut bytes, 0);
    bytes.extend(SYNC);
    bytes
}

/// Appends a container block.
pub fn put_block(out: &mut Vec<u8>, records: i64, block: &[u8]) {
    put_long(out, records);
    put_bytes(out, block);
    out.extend(SYNC);
}

/// Frames a datum as a container file of one record.
pub fn container(schema: &str, datum: &[u8]) -> Vec<u8> {
    let mut bytes = header(schema, Some("null"));
    put_block(&mut bytes, 1, datum);
    bytes
}

/// Frames a datum as a Confluent message.
pub fn confluent(id: u32, datum: &[u8]) -> Vec<u8> {
    [&[0], id.to_be_bytes().as_slice(), datum].concat()
}

/// Damages bytes: a cut, flipped bits, an extreme varint, a stretch copied or left out.
pub fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    if bytes.is_empty() {
        return;
    }
    let at = dice.below(bytes.len());
    match dice.below(7) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << dice.below(8),
        2 => bytes[at] = [0x00, 0x01, 0x02, 0x7f, 0x80, 0xff][dice.below(6)],
        3 => {
            let long = [i64::MAX, i64::MIN, -1, 1 << 31, 1 << 40, 400_000_000][dice.below(6)];
            let mut varint = Vec::new();
            put_long(&mut varint, long);
            let end = (at + varint.len()).min(bytes.len());
            bytes.splice(at..end, varint);
        }
        4 => {
            let end = (at + dice.below(64)).min(bytes.len());
            bytes.drain(at..end);
        }
        5 => {
            let end = (at + dice.below(64)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        _ => bytes.extend([dice.roll() as u8; 3]),
    }
}
