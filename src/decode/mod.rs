//! From bytes to packets: strict, borrowed, with a reason for every refusal.
//!
//! A packet decodes to the right values or is refused with the reason; nothing in between. The way: `framing` cuts the
//! payload, `schemas` finds the compiled writer schema, `plan` and `walk` validate the datum in one pass that also reads
//! the header (`bind`), and `Packet` gives values on demand (`value`).
//!
//! Invariants: the decoder never panics on any bytes, allocates no more than the payload's length, and is the only place
//! where packets are made. Must not know sources or queues.

mod base64;
mod bind;
mod curve;
mod deflate;
mod error;
mod flat;
pub mod framing;
mod json;
pub mod packet;
pub(crate) mod path;
pub mod plan;
mod registry;
mod schema;
pub mod schemas;
mod spelling;
mod split;
mod value;
pub mod views;
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
use registry::{Next, Registry};
use schemas::Cache;

pub(crate) use bind::{Pick, WANTED_MAX, Wanted};
pub use error::{DecodeError, Origin, Place};
pub use flat::Arena;
pub use registry::SchemasConfig;
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
    registry: Option<Registry>,
}

/// What a decoder is made of, besides what is bundled.
#[derive(Debug, Clone, Default)]
pub struct DecoderConfig {
    /// Mappings of further surveys; they come before the bundled ones.
    pub mappings: Vec<Mapping>,
    /// Where schemas come from that are not bundled.
    pub schemas: SchemasConfig,
}

impl Decoder {
    /// A decoder with the bundled schemas and survey mappings.
    pub fn bundled() -> Self {
        Self::from_parts(Vec::new(), None)
    }

    /// A decoder with further mappings and a schema registry.
    ///
    /// # Errors
    /// A secret of the registry cannot be read.
    pub fn new(config: DecoderConfig) -> Result<Self, crate::secret::SecretError> {
        Ok(Self::from_parts(config.mappings, Registry::new(&config.schemas)?))
    }

    fn from_parts(mut mappings: Vec<Mapping>, registry: Option<Registry>) -> Self {
        mappings.extend(crate::surveys::bundled());
        Self {
            shared: Arc::new(Shared {
                cache: Cache::new(),
                mappings,
                registry,
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
        let walked = compiled.plan.walk_all(&datum, &mut pick);
        walked.map_err(|error| error.in_framing(framing))?;
        let header = compiled.binding.read(&compiled.plan, &datum, &pick);
        Ok(Packet::new(Parts {
            payload: payload.clone(),
            datum,
            compiled,
            header,
            framing,
        }))
    }

    /// Decodes the whole packet into an arena: strict framing, every check, every value; the first half of a typed view.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_into(&self, payload: &Bytes, arena: &mut Arena) -> Result<(), DecodeError> {
        let (compiled, datum, framing) = self.open(payload)?;
        let filled = arena.fill(&compiled.plan, &datum).and_then(|read| {
            if read == datum.len() {
                Ok(())
            } else {
                compiled.plan.walk_all(&datum, &mut plan::Nothing)
            }
        });
        filled.map_err(|error| error.in_framing(framing))
    }

    /// Checks a whole packet without keeping anything of it.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn validate(&self, payload: &Bytes) -> Result<(), DecodeError> {
        let (compiled, datum, framing) = self.open(payload)?;
        let walked = compiled.plan.walk_all(&datum, &mut plan::Nothing);
        walked.map_err(|error| error.in_framing(framing))
    }

    /// Reads the header alone: the rest of the packet may be damaged.
    ///
    /// # Errors
    /// [`DecodeError`] for what stands before the last field of the header.
    pub fn header(&self, payload: &Bytes) -> Result<crate::header::AlertHeader, DecodeError> {
        let (compiled, datum, framing) = self.open(payload)?;
        let header = compiled.binding.header(&compiled.plan, &datum);
        header.map_err(|error| error.in_framing(framing))
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

    /// Takes note of the writer schema that a payload begins with, if it can be used: its fields are names that filters
    /// may use. The payload may end anywhere behind its framing's header.
    pub fn see(&self, head: &[u8]) {
        let _ = match framing::detect(head) {
            Ok(Framing::Container(container)) => self.by_text(container.schema).map(drop),
            Ok(Framing::Confluent { id, .. }) => self.by_id(id).map(drop),
            Err(error) => Err(error),
        };
    }

    /// Gives every schema that is bundled or was seen, by this process or, in the registry's disk cache, by an earlier one.
    pub(crate) fn schemas(&self) -> Vec<Arc<Compiled>> {
        for (id, text) in schemas::BUNDLED_IDS {
            let _ = self
                .shared
                .cache
                .by_id(id)
                .unwrap_or_else(|| self.shared.cache.keep_id(id, self.compile(text.as_bytes())));
        }
        for id in self.shared.registry.iter().flat_map(Registry::ids_on_disk) {
            let _ = self.by_id(id);
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
        self.shared
            .cache
            .by_text(text, |text| self.compile(text).inspect(warn_of_doubles))
    }

    fn by_id(&self, id: u32) -> Result<Arc<Compiled>, DecodeError> {
        if let Some(known) = self.shared.cache.by_id(id) {
            return known;
        }
        if let Some((_, text)) = schemas::BUNDLED_IDS.iter().find(|(known, _)| *known == id) {
            return self.shared.cache.keep_id(id, self.compile(text.as_bytes()));
        }
        let registry = self.shared.registry.as_ref().ok_or(DecodeError::UnknownSchema { id })?;
        let text = registry.on_disk(id).ok_or(DecodeError::SchemaPending { id })?;
        self.shared.cache.keep_id(id, self.compile(&text))
    }

    /// Waits until the schema of an id is here: after [`DecodeError::SchemaPending`], decode again when this returns.
    ///
    /// Waits for as long as the registry is down or does not know the id, and asks it again with back-off; whoever must
    /// not wait that long drops the future. Returns at once when no registry is configured. Runs on a tokio runtime.
    ///
    /// # Cancel safety
    /// Only the waiting stops: a fetch under way goes on to its own timeout (10 s) and its result is kept.
    pub async fn resolve(&self, id: u32) {
        loop {
            let Some(registry) = &self.shared.registry else { return };
            // Made before the state is looked at, so that a fetch which ends in between is not missed.
            let changed = registry.changed();
            if !matches!(self.by_id(id), Err(DecodeError::SchemaPending { .. })) {
                return;
            }
            match registry.turn(id, tokio::time::Instant::now()) {
                Next::Wait => changed.await,
                Next::Sleep(at) => tokio::time::sleep_until(at).await,
                Next::Fetch => {
                    let decoder = self.clone();
                    // The closure ends the turn itself: a caller that is dropped leaves nobody waiting for ever.
                    let fetched = tokio::task::spawn_blocking(move || decoder.fetch(id)).await;
                    if fetched.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Asks the schema registry whether it answers, and gives its address; `None` without one. Blocks for at most 10 s.
    ///
    /// # Errors
    /// It cannot be reached, or refuses the credentials.
    pub fn check_registry(&self) -> Option<Result<String, crate::error::BoxError>> {
        let registry = self.shared.registry.as_ref()?;
        Some(registry.check().map(str::to_owned).map_err(Into::into))
    }

    fn fetch(&self, id: u32) {
        let Some(registry) = &self.shared.registry else { return };
        // Another turn may have ended between the look and this one.
        if !matches!(self.by_id(id), Err(DecodeError::SchemaPending { .. })) {
            return registry.done(id, Ok(()), tokio::time::Instant::now());
        }
        let fetched = registry.fetch(id);
        let ended = fetched.as_ref().map(|_| ());
        if let Ok(text) = &fetched {
            let _ = self.shared.cache.keep_id(id, self.compile(text));
        }
        registry.done(id, ended, tokio::time::Instant::now());
    }

    fn compile(&self, text: &[u8]) -> Result<Compiled, DecodeError> {
        let plan = Plan::compile(text)?;
        let mapping = self.shared.mappings.iter().find(|m| m.matches(&plan.schema.name));
        let binding = mapping.map_or_else(|| Binding::unmapped(&plan), |m| Binding::new(&plan, m.clone()));
        let places = views::Places::bind(&plan);
        Ok(Compiled { plan, binding, places })
    }
}

/// Once per schema: the cache keeps what was compiled.
fn warn_of_doubles(compiled: &Compiled) {
    if let [field, ..] = compiled.plan.schema.twice.as_slice() {
        let record = &compiled.plan.schema.name;
        tracing::warn!(
            record,
            field,
            "the writer schema has a field twice; the first one is read"
        );
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
