//! The cache of compiled schemas: by the bytes of a container's schema, and by the registry's id.
//!
//! Invariants: bytes are compared whole before a compiled schema is used (last used first, then by checksum; a checksum
//! or a length alone proves nothing); an id means exactly one schema and never falls back to another; bounded; schemas
//! that cannot be used are remembered too. Must not know what a schema is compiled to, or where an unknown one is got.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::error::DecodeError;

/// Most schema text that is kept by bytes; past that everything is forgotten and learnt again.
const KEPT_MAX: usize = 16 << 20;
const ENTRIES_MAX: usize = 1024;

/// Compiled schemas of type `C`.
pub(crate) struct Cache<C> {
    last: RwLock<Option<Entry<C>>>,
    by_bytes: RwLock<ByBytes<C>>,
    by_id: RwLock<HashMap<u32, Compiled<C>>>,
}

type Compiled<C> = Result<Arc<C>, DecodeError>;

struct Entry<C> {
    text: Arc<[u8]>,
    compiled: Compiled<C>,
}

impl<C> Clone for Entry<C> {
    fn clone(&self) -> Self {
        Self {
            text: self.text.clone(),
            compiled: self.compiled.clone(),
        }
    }
}

struct ByBytes<C> {
    entries: HashMap<u32, Vec<Entry<C>>>,
    bytes: usize,
    count: usize,
}

impl<C> Cache<C> {
    pub(crate) fn new() -> Self {
        let by_bytes = ByBytes {
            entries: HashMap::new(),
            bytes: 0,
            count: 0,
        };
        Self {
            last: RwLock::new(None),
            by_bytes: RwLock::new(by_bytes),
            by_id: RwLock::new(HashMap::new()),
        }
    }

    /// Gives the compiled form of a schema's text.
    pub(crate) fn by_text(
        &self,
        text: &[u8],
        compile: impl FnOnce(&[u8]) -> Result<C, DecodeError>,
    ) -> Result<Arc<C>, DecodeError> {
        if let Some(last) = self.last.read().as_ref().filter(|last| *last.text == *text) {
            return last.compiled.clone();
        }
        let sum = crc32fast::hash(text);
        let found = self.by_bytes.read().find(sum, text);
        let entry = match found {
            Some(entry) => entry,
            None => {
                // Two threads may compile one schema at once; both results are right and the first is kept.
                let entry = Entry {
                    text: text.into(),
                    compiled: compile(text).map(Arc::new),
                };
                self.by_bytes.write().keep(sum, entry)
            }
        };
        let compiled = entry.compiled.clone();
        *self.last.write() = Some(entry);
        compiled
    }

    /// Gives the compiled form of an id, if it is known.
    pub(crate) fn by_id(&self, id: u32) -> Option<Result<Arc<C>, DecodeError>> {
        self.by_id.read().get(&id).cloned()
    }

    /// Keeps the compiled form of an id.
    pub(crate) fn keep_id(&self, id: u32, compiled: Result<C, DecodeError>) -> Result<Arc<C>, DecodeError> {
        let mut by_id = self.by_id.write();
        if by_id.len() >= ENTRIES_MAX {
            by_id.clear();
        }
        by_id.entry(id).or_insert_with(|| compiled.map(Arc::new)).clone()
    }

    /// Goes through every schema that was compiled well.
    pub(crate) fn seen(&self) -> Vec<Arc<C>> {
        let by_bytes = self.by_bytes.read();
        let texts = by_bytes
            .entries
            .values()
            .flatten()
            .filter_map(|e| e.compiled.clone().ok());
        texts
            .chain(self.by_id.read().values().filter_map(|c| c.clone().ok()))
            .collect()
    }
}

impl<C> ByBytes<C> {
    fn find(&self, sum: u32, text: &[u8]) -> Option<Entry<C>> {
        self.entries
            .get(&sum)?
            .iter()
            .find(|entry| *entry.text == *text)
            .cloned()
    }

    fn keep(&mut self, sum: u32, entry: Entry<C>) -> Entry<C> {
        if let Some(kept) = self.find(sum, &entry.text) {
            return kept;
        }
        if self.bytes + entry.text.len() > KEPT_MAX || self.count >= ENTRIES_MAX {
            self.entries.clear();
            (self.bytes, self.count) = (0, 0);
        }
        self.bytes += entry.text.len();
        self.count += 1;
        self.entries.entry(sum).or_default().push(entry.clone());
        entry
    }
}

/// The writer schemas that come with the crate for the Confluent framing: Rubin's, by id (major * 100 + minor).
pub(crate) const BUNDLED_IDS: [(u32, &str); 8] = [
    (701, include_str!("../../schemas/lsst/v7.1.json")),
    (702, include_str!("../../schemas/lsst/v7.2.json")),
    (703, include_str!("../../schemas/lsst/v7.3.json")),
    (704, include_str!("../../schemas/lsst/v7.4.json")),
    (800, include_str!("../../schemas/lsst/v8.0.json")),
    (900, include_str!("../../schemas/lsst/v9.0.json")),
    (1000, include_str!("../../schemas/lsst/v10.0.json")),
    (1100, include_str!("../../schemas/lsst/v11.0.json")),
];

/// Writer schemas of surveys whose packets bring their own: for the names that filters may use.
pub(crate) const BUNDLED_TEXTS: [&str; 10] = [
    include_str!("../../schemas/ztf/v1.8.json"),
    include_str!("../../schemas/ztf/v3.0.json"),
    include_str!("../../schemas/ztf/v3.1.json"),
    include_str!("../../schemas/ztf/v3.2.json"),
    include_str!("../../schemas/ztf/v3.3.json"),
    include_str!("../../schemas/ztf/v4.01.json"),
    include_str!("../../schemas/ztf/v4.02.json"),
    include_str!("../../schemas/winter/v0.1.json"),
    include_str!("../../schemas/pgir/v0.1.json"),
    include_str!("../../schemas/decam/v0.1.0.json"),
];
