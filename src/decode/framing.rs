//! Strict framing, pure and on slices of the payload: container file, Confluent header, bare datum.
//!
//! Invariants: nothing is trusted before it is compared with what is there: sizes with what remains, every sync marker
//! with the header's; an error says which framing was seen and where it broke. Must not know schemas, codecs' insides
//! or datums.

use super::error::{DecodeError, Place};
use super::wire::{Cursor, Fault};

const MAGIC: &[u8; 4] = b"Obj\x01";
const HEADER_MAX: usize = 1 << 20;
const ENTRIES_MAX: i64 = 64;
/// What deflate makes of nothing.
const NOTHING_DEFLATED: &[u8] = &[0x03, 0x00];

/// How a payload is framed.
#[derive(Debug, Clone, Copy)]
pub enum Framing<'a> {
    /// An Avro container file, with its writer schema.
    Container(Container<'a>),
    /// The Confluent wire format: the id of a schema and a bare datum.
    Confluent {
        /// The registry's number of the schema.
        id: u32,
        /// The datum.
        datum: &'a [u8],
    },
}

/// The compression of a container's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// None.
    Null,
    /// Raw deflate (RFC 1951).
    Deflate,
}

/// The header of a container file.
#[derive(Debug, Clone, Copy)]
pub struct Container<'a> {
    file: &'a [u8],
    /// The writer schema, JSON, as it stands in the file.
    pub schema: &'a [u8],
    /// The compression.
    pub codec: Codec,
    /// Length of what stands before the first sync marker (magic and metadata map), bytes.
    pub header_len: usize,
    /// The sync marker.
    pub sync: [u8; 16],
}

/// One container block.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// How many records it declares; a block of none has no bytes of records either.
    pub records: u64,
    /// Its bytes, compressed as the codec says.
    pub bytes: &'a [u8],
    /// Offset of the block in the file, bytes.
    pub at: usize,
    /// Offset of its bytes in the file, bytes.
    pub bytes_at: usize,
}

/// Tells the framing of a payload and checks its header.
///
/// # Errors
/// [`DecodeError`] with the place in the header that is not right.
pub fn detect(payload: &[u8]) -> Result<Framing<'_>, DecodeError> {
    match payload {
        [] => Err(DecodeError::Empty),
        [b'O', b'b', b'j', 1, ..] => Ok(Framing::Container(container(payload)?)),
        [0, a, b, c, d, datum @ ..] => Ok(Framing::Confluent {
            id: u32::from_be_bytes([*a, *b, *c, *d]),
            datum,
        }),
        [0, ..] => Err(DecodeError::truncated(
            Place::payload("Confluent header", payload.len()),
            format!("5 bytes wanted, {} there", payload.len()),
        )),
        _ if MAGIC.starts_with(payload) => Err(DecodeError::truncated(
            Place::payload("container header", payload.len()),
            "the payload ends inside the magic",
        )),
        _ => Err(DecodeError::NotAvro {
            head: payload.iter().take(8).map(|b| format!("{b:02x}")).collect(),
        }),
    }
}

fn container(file: &[u8]) -> Result<Container<'_>, DecodeError> {
    let header = file.get(..HEADER_MAX.min(file.len())).unwrap_or_default();
    let mut cursor = Cursor::starting_at(header, MAGIC.len());
    let read = metadata(&mut cursor);
    let (schema, codec) = match read {
        Ok(found) => found,
        Err(Fault::Eof) if file.len() > HEADER_MAX => {
            return Err(DecodeError::too_large(
                header_at(&cursor),
                format!("the header is over {HEADER_MAX} bytes"),
            ));
        }
        Err(Fault::Steps) => {
            return Err(DecodeError::too_large(
                header_at(&cursor),
                format!("more than {ENTRIES_MAX} metadata entries"),
            ));
        }
        Err(fault) => return Err(header_fault(&cursor, fault)),
    };
    let header_len = cursor.at();
    let sync = Cursor::starting_at(file, header_len)
        .array()
        .map_err(|fault| header_fault(&cursor, fault))?;
    let schema = schema.ok_or_else(|| DecodeError::BadSchema("the container's header has no `avro.schema`".into()))?;
    let codec = match codec {
        None | Some(b"null" | b"") => Codec::Null,
        Some(b"deflate") => Codec::Deflate,
        Some(other) => return Err(DecodeError::UnknownCodec(String::from_utf8_lossy(other).into_owned())),
    };
    Ok(Container {
        file,
        schema,
        codec,
        header_len,
        sync,
    })
}

type Metadata<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Reads the metadata map: blocks of entries, each with a count, and a byte size where the count is negative.
fn metadata<'a>(cursor: &mut Cursor<'a>) -> Result<Metadata<'a>, Fault> {
    let (mut schema, mut codec) = (None, None);
    let mut entries = 0i64;
    loop {
        let count = cursor.long()?;
        if count == 0 {
            return Ok((schema, codec));
        }
        let size = if count < 0 { Some(cursor.long()?) } else { None };
        let start = cursor.at();
        entries = entries.saturating_add(count.checked_abs().ok_or(Fault::Steps)?);
        if entries > ENTRIES_MAX {
            return Err(Fault::Steps);
        }
        for _ in 0..count.abs() {
            let (_, key) = cursor.text()?;
            let (_, value) = cursor.bytes()?;
            match key {
                b"avro.schema" => schema = schema.or(Some(value)),
                b"avro.codec" => codec = codec.or(Some(value)),
                _ => {}
            }
        }
        if size.is_some_and(|size| usize::try_from(size) != Ok(cursor.at() - start)) {
            return Err(Fault::BlockSize);
        }
    }
}

fn header_at(cursor: &Cursor<'_>) -> Place {
    Place::payload("container header", cursor.at())
}

fn header_fault(cursor: &Cursor<'_>, fault: Fault) -> DecodeError {
    let place = header_at(cursor);
    match fault {
        Fault::Eof => DecodeError::truncated(place, "the payload ends inside the header"),
        Fault::Varint => DecodeError::damaged(place, "a number of more than 64 bits"),
        Fault::Utf8 => DecodeError::damaged(place, "a metadata key is not UTF-8"),
        Fault::Negative => DecodeError::damaged(place, "a negative length"),
        Fault::BlockSize => DecodeError::damaged(place, "a metadata block whose byte size is wrong"),
        _ => DecodeError::damaged(place, "unreadable metadata"),
    }
}

impl<'a> Container<'a> {
    /// Gives the header with its sync marker: what every block follows.
    pub fn header(&self) -> &'a [u8] {
        self.file.get(..self.header_len + self.sync.len()).unwrap_or_default()
    }

    /// Goes through the blocks; an error is the last item.
    pub fn blocks(&self) -> Blocks<'a> {
        Blocks {
            container: *self,
            at: self.header_len + self.sync.len(),
        }
    }

    /// Reads the one block of an alert packet: one record, the sync marker, nothing after it but blocks without records.
    ///
    /// # Errors
    /// [`DecodeError::SeveralRecords`], [`DecodeError::NoRecord`], or what is wrong with the block or after it.
    pub fn only_block(&self) -> Result<Block<'a>, DecodeError> {
        let mut blocks = self.blocks();
        let (mut only, mut records, mut end) = (None, 0_u64, blocks.at);
        while let Some(block) = blocks.next() {
            let block = match block {
                Ok(block) => block,
                // What follows a record is another block only if it is whole; anything else does not belong here.
                Err(_) if records > 0 => return Err(self.left_over(end)),
                Err(error) => return Err(error),
            };
            (records, end) = (records.saturating_add(block.records), blocks.at);
            if block.records > 0 {
                only = only.or(Some(block));
            }
        }
        match only {
            None => Err(DecodeError::NoRecord),
            Some(only) if records == 1 => Ok(only),
            Some(_) => Err(DecodeError::SeveralRecords { records }),
        }
    }

    fn left_over(&self, end: usize) -> DecodeError {
        let left = self.file.len() - end;
        DecodeError::trailing(
            Place::payload("container", end),
            format!("{left} bytes after the last sync marker"),
        )
    }
}

/// The blocks of a container file; made by [`Container::blocks`].
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    container: Container<'a>,
    at: usize,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let file = self.container.file;
        if self.at >= file.len() {
            return None;
        }
        let read = self.block();
        self.at = match &read {
            Ok(block) => block.bytes_at + block.bytes.len() + self.container.sync.len(),
            Err(_) => file.len(),
        };
        Some(read)
    }
}

impl<'a> Blocks<'a> {
    fn block(&self) -> Result<Block<'a>, DecodeError> {
        let at = self.at;
        let mut cursor = Cursor::starting_at(self.container.file, at);
        let place = |at| Place::payload("container block", at);
        let mut number = || {
            let before = cursor.at();
            cursor.long().map_err(|fault| match fault {
                Fault::Eof => DecodeError::truncated(place(before), "the payload ends inside the block's head"),
                _ => DecodeError::damaged(place(before), "a number of more than 64 bits"),
            })
        };
        let (count, size) = (number()?, number()?);
        let records = u64::try_from(count)
            .map_err(|_| DecodeError::damaged(place(at), format!("the block declares `{count}` records")))?;
        let bytes_at = cursor.at();
        let size = usize::try_from(size)
            .map_err(|_| DecodeError::damaged(place(at), format!("the block declares a size of `{size}` bytes")))?;
        let bytes = cursor.take(size).map_err(|_| self.short(at, bytes_at, size))?;
        match cursor.take(16) {
            Ok(_) if records == 0 && !self.is_nothing(bytes) => {
                let cause = format!("the block declares `0` records in {size} bytes");
                Err(DecodeError::damaged(place(at), cause))
            }
            Ok(marker) if *marker == self.container.sync => Ok(Block {
                records,
                bytes,
                at,
                bytes_at,
            }),
            Ok(_) => Err(self.wrong_sync(at, bytes_at, size)),
            Err(_) => Err(self.short(at, bytes_at, size)),
        }
    }

    /// Whether these are the bytes of a block without records.
    fn is_nothing(&self, bytes: &[u8]) -> bool {
        bytes.is_empty() || (self.container.codec == Codec::Deflate && bytes == NOTHING_DEFLATED)
    }

    /// The block and its sync marker need more bytes than there are.
    fn short(&self, at: usize, bytes_at: usize, size: usize) -> DecodeError {
        let there = self.container.file.get(bytes_at..).unwrap_or_default();
        let missing = size.saturating_add(16).saturating_sub(there.len());
        if let Some(body) = there.strip_suffix(&self.container.sync) {
            // The marker stands at the very end, so nothing was cut off: the bytes are missing inside. A conversion of
            // CR-LF to LF drops one byte per pair and leaves no pair.
            let (pairs, feeds) = line_ends(body);
            if pairs == 0 && missing <= feeds {
                let cause = format!("short by {missing} bytes, and no CR-LF is left in it");
                return DecodeError::LineEndings { at, cause };
            }
        }
        DecodeError::truncated(
            Place::payload("container block", bytes_at),
            format!("{size} bytes and a sync marker declared, {} bytes there", there.len()),
        )
    }

    /// Something else stands where the sync marker should be.
    fn wrong_sync(&self, at: usize, bytes_at: usize, size: usize) -> DecodeError {
        let there = self.container.file.get(bytes_at..).unwrap_or_default();
        if let Some(body) = there.strip_suffix(&self.container.sync) {
            let (pairs, feeds) = line_ends(body);
            if pairs > 0 && pairs == feeds && body.len() == size + pairs {
                let cause = format!("long by {pairs} bytes, as many as it has CR-LF");
                return DecodeError::LineEndings { at, cause };
            }
        }
        let cause = "the sync marker after the block is not the header's";
        DecodeError::damaged(Place::payload("container", bytes_at + size), cause)
    }
}

/// Counts CR-LF pairs and line feeds.
fn line_ends(bytes: &[u8]) -> (usize, usize) {
    let pairs = bytes.windows(2).filter(|w| *w == b"\r\n").count();
    (pairs, bytes.iter().filter(|b| **b == b'\n').count())
}
