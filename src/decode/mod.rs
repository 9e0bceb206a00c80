//! From bytes to packets: strict, borrowed, with a reason for every refusal.
//!
//! A packet decodes to the right values or is refused with the reason; nothing in between. The way: `framing` cuts the
//! payload, `schemas` finds the compiled writer schema, `plan` and `walk` validate the datum in one pass that also reads
//! the header (`bind`), and `Packet` gives values on demand (`value`).
//!
//! Invariants: the decoder never panics on any bytes, allocates no more than the payload's length, and is the only place
//! where packets are made. Must not know sources or queues.

mod bind;
mod deflate;
mod error;
pub mod framing;
mod json;
pub mod packet;
pub mod plan;
mod schema;
pub mod schemas;
mod split;
mod value;
mod walk;
mod wire;

#[cfg(test)]
pub(crate) mod tests_support;

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use crate::surveys::Mapping;
use bind::Binding;
use framing::{Codec, Container, Framing};
use packet::{Compiled, Packet, PacketFraming, Parts};
use plan::Plan;
use schemas::Cache;

pub(crate) use bind::{Pick, WANTED_MAX, Wanted};
pub use error::{DecodeError, Origin, Place};
pub(crate) use schema::Kind;
pub use value::{Iter, Value, View};

/// Largest datum that a deflate block may inflate to, bytes.
const INFLATED_MAX: usize = 16 << 20;
/// Largest payload, bytes: places in a datum are 32-bit.
const PAYLOAD_MAX: usize = 1 << 30;

thread_local! {
    /// What a deflate block inflates to, before its exact copy.
    static INFLATED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Decodes packets; cheap to clone, shared by all workers; caches compiled schemas.
#[derive(Clone)]
pub struct Decoder {
    shared: Arc<Shared>,
}

struct Shared {
    cache: Cache<Compiled>,
    mappings: Vec<Mapping>,
}

impl Decoder {
    /// A decoder with the bundled schemas and survey mappings.
    pub fn bundled() -> Self {
        Self::with_mappings(Vec::new())
    }

    /// A decoder with further mappings, which come before the bundled ones.
    pub fn with_mappings(mut mappings: Vec<Mapping>) -> Self {
        mappings.extend(crate::surveys::bundled());
        Self {
            shared: Arc::new(Shared {
                cache: Cache::new(),
                mappings,
            }),
        }
    }

    /// Frames, finds the schema, decodes the header and validates the whole packet.
    ///
    /// # Errors
    /// [`DecodeError`] with the reason; nothing half-right is ever returned.
    pub fn decode(&self, payload: &Bytes) -> Result<Packet, DecodeError> {
        let (compiled, datum, framing) = self.open(payload)?;
        let mut pick = Pick::whole(compiled.binding.wanted());
        compiled.plan.walk_all(&datum, &mut pick)?;
        let header = compiled.binding.read(&compiled.plan, &datum, &pick);
        Ok(Packet::new(Parts {
            payload: payload.clone(),
            datum,
            compiled,
            header,
            framing,
        }))
    }

    /// Reads the header alone: the rest of the packet may be damaged.
    ///
    /// # Errors
    /// [`DecodeError`] for what stands before the last field of the header.
    pub fn header(&self, payload: &Bytes) -> Result<crate::header::AlertHeader, DecodeError> {
        let (compiled, datum, _) = self.open(payload)?;
        compiled.binding.header(&compiled.plan, &datum)
    }

    /// Cuts a container file into one-record packets: one (the payload itself) when it holds one record, else each
    /// record with the file's header and sync marker. A file that is damaged anywhere is refused whole.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn split(&self, file: &Bytes) -> Result<Vec<Bytes>, DecodeError> {
        match framing::detect(file)? {
            Framing::Container(container) => split::split(self, file, &container),
            Framing::Confluent { .. } => Ok(vec![file.clone()]),
        }
    }

    /// Gives every schema that is bundled or was seen.
    pub(crate) fn schemas(&self) -> Vec<Arc<Compiled>> {
        for (id, text) in schemas::BUNDLED_IDS {
            let _ = self
                .shared
                .cache
                .by_id(id)
                .unwrap_or_else(|| self.shared.cache.keep_id(id, self.compile(text.as_bytes())));
        }
        let bundled = schemas::BUNDLED_TEXTS
            .iter()
            .filter_map(|text| self.compile(text.as_bytes()).ok())
            .map(Arc::new);
        bundled.chain(self.shared.cache.seen()).collect()
    }

    /// Gives the paths that the mappings name.
    pub(crate) fn mapped_paths(&self) -> Vec<String> {
        self.shared.mappings.iter().flat_map(Mapping::paths).collect()
    }

    /// Frames a payload and finds its schema; inflates the datum if it is compressed.
    fn open(&self, payload: &Bytes) -> Result<(Arc<Compiled>, Bytes, PacketFraming), DecodeError> {
        if payload.len() > PAYLOAD_MAX {
            return Err(DecodeError::too_large(
                Place::payload("payload", 0),
                format!("over {PAYLOAD_MAX} bytes"),
            ));
        }
        match framing::detect(payload)? {
            Framing::Container(container) => {
                let block = container.only_block()?;
                let compiled = self.by_text(container.schema)?;
                let framing = PacketFraming::Container {
                    header_len: container.header_len,
                };
                Ok((compiled, datum(payload, &container, &block)?, framing))
            }
            Framing::Confluent { id, datum } => Ok((
                self.by_id(id)?,
                payload.slice_ref(datum),
                PacketFraming::Confluent { id },
            )),
        }
    }

    fn by_text(&self, text: &[u8]) -> Result<Arc<Compiled>, DecodeError> {
        self.shared.cache.by_text(text, |text| self.compile(text))
    }

    fn by_id(&self, id: u32) -> Result<Arc<Compiled>, DecodeError> {
        if let Some(known) = self.shared.cache.by_id(id) {
            return known;
        }
        let bundled = schemas::BUNDLED_IDS.iter().find(|(known, _)| *known == id);
        let (_, text) = bundled.ok_or(DecodeError::UnknownSchema { id })?;
        self.shared.cache.keep_id(id, self.compile(text.as_bytes()))
    }

    fn compile(&self, text: &[u8]) -> Result<Compiled, DecodeError> {
        let plan = Plan::compile(text)?;
        if let [name, ..] = plan.schema.twice.as_slice() {
            let record = &plan.schema.name;
            tracing::warn!(
                record,
                field = name,
                "the writer schema has a field twice; the first one is read"
            );
        }
        let mapping = self.shared.mappings.iter().find(|m| m.matches(&plan.schema.name));
        let binding = mapping.map_or_else(|| Binding::unmapped(&plan), |m| Binding::new(&plan, m.clone()));
        Ok(Compiled { plan, binding })
    }
}

/// Gives the datum of a block: a part of the payload, or what it inflates to.
fn datum(payload: &Bytes, container: &Container<'_>, block: &framing::Block<'_>) -> Result<Bytes, DecodeError> {
    match container.codec {
        Codec::Null => Ok(payload.slice_ref(block.bytes)),
        Codec::Deflate => INFLATED.with_borrow_mut(|out| {
            deflate::inflate(block.bytes, block.bytes_at, INFLATED_MAX, out)?;
            Ok(Bytes::copy_from_slice(out))
        }),
    }
}
