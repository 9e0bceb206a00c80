//! The flat result of a full decode: every value of a packet in one reused arena of 64-bit slots.
//!
//! How it works: the root's row begins at slot 0. The slot of an array or map leads to a chain of chunks, one per block on
//! the wire; a chunk has a head of three slots (how many rows, where the next chunk is, where the last one is) and then its
//! rows. Text and bytes stay in the payload: their slots hold place and length.
//!
//! Invariants: an arena that has grown to the largest packet allocates no more. Must not know surveys.

use super::plan::{NULL, Plan, Sink};
use super::schema::{Kind, NodeId};
use super::value::{Value, leaf};
use super::wire::{Cursor, Fault};

/// Slots at the head of a chunk of rows.
const HEAD: usize = 3;

/// The memory of full views; make one per worker and use it for every packet.
#[derive(Debug, Default)]
pub struct Arena {
    slots: Vec<u64>,
    /// Slots whose bits are those of null and are a value all the same; hardly ever any.
    twins: Vec<usize>,
}

impl Arena {
    /// Makes an empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes a datum; gives how many bytes it took.
    pub(crate) fn fill(&mut self, plan: &Plan, datum: &[u8]) -> Result<usize, super::DecodeError> {
        self.slots.clear();
        self.twins.clear();
        self.slots.resize(plan.width, NULL);
        let mut cursor = Cursor::new(datum);
        plan.walk_one(&mut cursor, self)?;
        Ok(cursor.at())
    }

    /// Whether a slot holds anything but null.
    pub(crate) fn is_set(&self, slot: usize) -> bool {
        self.get(slot) != NULL
    }

    fn get(&self, slot: usize) -> u64 {
        self.slots.get(slot).copied().unwrap_or(NULL)
    }

    fn set(&mut self, slot: usize, bits: u64) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = bits;
        }
    }
}

impl Sink for Arena {
    const ROWS: bool = true;
    const CLEARS: bool = true;

    #[inline(always)]
    fn put(&mut self, slot: usize, bits: u64) -> Result<(), Fault> {
        self.set(slot, bits);
        Ok(())
    }

    #[inline(always)]
    fn window(&mut self, slot: usize, count: usize) -> Option<&mut [u64]> {
        self.slots.get_mut(slot..slot + count)
    }

    #[cold]
    fn twin(&mut self, slot: usize) {
        self.twins.push(slot);
    }

    fn clear(&mut self, slot: usize, width: usize) -> Result<(), Fault> {
        if let Some(slots) = self.slots.get_mut(slot..slot + width) {
            slots.fill(NULL);
        }
        Ok(())
    }

    fn rows(&mut self, slot: usize, count: usize, width: usize) -> usize {
        let chunk = self.slots.len();
        self.slots.resize(chunk + HEAD + count * width, 0);
        self.set(chunk, count as u64);
        let before = self.get(slot);
        let (first, total) = (before >> 32, before & u64::from(u32::MAX));
        if total == 0 {
            self.set(chunk + 2, chunk as u64);
            self.set(slot, (chunk as u64) << 32 | count as u64);
        } else {
            let last = self.get(first as usize + 2);
            self.set(last as usize + 1, chunk as u64);
            self.set(first as usize + 2, chunk as u64);
            self.set(slot, first << 32 | (total + count as u64));
        }
        chunk + HEAD
    }
}

/// One packet, decoded whole.
#[derive(Clone, Copy)]
pub(crate) struct Flat<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) plan: &'a Plan,
    pub(crate) datum: &'a [u8],
}

/// One row: of the root, or of an array.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) flat: Flat<'a>,
    pub(crate) base: usize,
}

/// Where a leaf is in its row; `None` where the schema does not have it.
pub(crate) type Place = Option<(u32, NodeId)>;

impl<'a> Row<'a> {
    /// Gives the value of a leaf.
    pub(crate) fn value(&self, place: Place) -> Value<'a> {
        let Some((slot, node)) = place else { return Value::Null };
        let slot = self.base + slot as usize;
        let bits = self.flat.arena.get(slot);
        let Some(node) = self.flat.plan.schema.node(node) else {
            return Value::Null;
        };
        leaf(
            &node.kind,
            bits,
            bits == NULL && self.flat.arena.twins.contains(&slot),
            self.flat.datum,
        )
    }

    /// Goes through the rows of an array.
    pub(crate) fn rows(&self, place: Place) -> Rows<'a> {
        let mut rows = Rows {
            flat: self.flat,
            next: 0,
            left: 0,
            at: 0,
            width: 0,
        };
        let Some((slot, node)) = place else { return rows };
        let Some(Kind::Array(item)) = self.flat.plan.schema.node(node).map(|n| &n.kind) else {
            return rows;
        };
        let bits = self.flat.arena.get(self.base + slot as usize);
        if bits != NULL && bits as u32 != 0 {
            rows.width = self.flat.plan.width_of(*item);
            rows.next = (bits >> 32) as usize;
        }
        rows
    }
}

/// The rows of an array.
#[derive(Clone)]
pub(crate) struct Rows<'a> {
    flat: Flat<'a>,
    /// The next chunk; 0 when there is none, since the root's row stands there.
    next: usize,
    left: u64,
    at: usize,
    width: usize,
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        while self.left == 0 {
            if self.next == 0 {
                return None;
            }
            self.left = self.flat.arena.get(self.next);
            self.at = self.next + HEAD;
            self.next = self.flat.arena.get(self.next + 1) as usize;
        }
        self.left -= 1;
        let row = Row {
            flat: self.flat,
            base: self.at,
        };
        self.at += self.width;
        Some(row)
    }
}
