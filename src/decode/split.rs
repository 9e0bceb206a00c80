//! Cutting a container file of several records into packets of one record each.
//!
//! Invariants: each packet has the file's header and sync marker, byte for byte; a file that is damaged anywhere gives no
//! packet at all. Must not know what is in a record.

use bytes::Bytes;

use super::error::DecodeError;
use super::framing::{Block, Codec, Container};
use super::plan::Nothing;
use super::wire::{Cursor, put_long};
use super::{Decoder, INFLATED_MAX, Place, deflate};

pub(super) fn split(decoder: &Decoder, file: &Bytes, container: &Container<'_>) -> Result<Vec<Bytes>, DecodeError> {
    let blocks: Vec<Block<'_>> = container.blocks().collect::<Result<_, _>>()?;
    match blocks
        .iter()
        .fold(0_u64, |sum, block| sum.saturating_add(block.records))
    {
        0 => return Err(DecodeError::NoRecord),
        1 => return Ok(vec![file.clone()]),
        _ => {}
    }
    let compiled = decoder.by_text(container.schema)?;
    let mut packets = Vec::new();
    let mut inflated = Vec::new();
    for block in blocks.iter().filter(|block| block.records > 0) {
        let bytes = match container.codec {
            Codec::Null => block.bytes,
            Codec::Deflate => {
                deflate::inflate(block.bytes, block.bytes_at, INFLATED_MAX, &mut inflated)?;
                inflated.as_slice()
            }
        };
        let mut cursor = Cursor::new(bytes);
        for _ in 0..block.records {
            let start = cursor.at();
            compiled.plan.walk_one(&mut cursor, &mut Nothing)?;
            let datum = bytes.get(start..cursor.at()).unwrap_or_default();
            if datum.is_empty() {
                let cause = "a record without bytes cannot be one of several";
                return Err(DecodeError::damaged(Place::payload("container block", block.at), cause));
            }
            packets.push(packet(container, datum));
        }
        if !cursor.rest().is_empty() {
            let cause = format!("{} bytes of the block are left over", cursor.rest().len());
            return Err(DecodeError::trailing(
                Place::payload("container block", block.bytes_at + cursor.at()),
                cause,
            ));
        }
    }
    Ok(packets)
}

/// Frames one datum with the file's header and sync marker.
fn packet(container: &Container<'_>, datum: &[u8]) -> Bytes {
    let packed;
    let block = match container.codec {
        Codec::Null => datum,
        Codec::Deflate => {
            packed = deflate::deflate(datum);
            packed.as_slice()
        }
    };
    let header = container.header();
    let mut bytes = Vec::with_capacity(header.len() + block.len() + 32);
    bytes.extend_from_slice(header);
    put_long(&mut bytes, 1);
    put_long(&mut bytes, block.len() as i64);
    bytes.extend_from_slice(block);
    bytes.extend_from_slice(&container.sync);
    bytes.into()
}
