//! The interpreter of the op program: one loop over the ops, for every [`Sink`].
//!
//! Invariants: as in `plan`. On a fault the cursor stands where the value began. `TRACE` remembers the op in hand; it is
//! off in the hot path, and a walk that failed is repeated with it to name the field. Must not know what slots mean.

use super::plan::{NULL, Op, Sink};
use super::wire::{Cursor, Fault};

/// One walk over a datum.
pub(crate) struct Walker<'p, 'a, 's, S, const TRACE: bool> {
    ops: &'p [Op],
    pub(crate) cursor: Cursor<'a>,
    sink: &'s mut S,
    /// What is left of the budget.
    steps: u64,
    /// The op in hand, when tracing.
    pub(crate) last: usize,
}

const STEPS_PER_BYTE: u64 = 4;
const STEPS_FREE: u64 = 64 << 10;

impl<'p, 'a, 's, S: Sink, const TRACE: bool> Walker<'p, 'a, 's, S, TRACE> {
    pub(crate) fn new(ops: &'p [Op], cursor: Cursor<'a>, sink: &'s mut S) -> Self {
        let steps = (cursor.rest().len() as u64)
            .saturating_mul(STEPS_PER_BYTE)
            .saturating_add(STEPS_FREE);
        Self {
            ops,
            cursor,
            sink,
            steps,
            last: 0,
        }
    }

    /// Runs the ops `from..to`; the first reads into `slot`.
    pub(crate) fn run(&mut self, from: usize, to: usize, slot: usize) -> Result<(), Fault> {
        let ops = self.ops.get(from..to).unwrap_or_default();
        let (mut at, mut slot) = (0, slot);
        while let Some(op) = ops.get(at) {
            if TRACE {
                self.last = from + at;
            }
            at += 1;
            let cursor = &mut self.cursor;
            let bits = match *op {
                Op::OptFloat(null) if opt(cursor, null)? => u64::from(u32::from_le_bytes(cursor.array()?)),
                Op::OptDouble(null) if opt(cursor, null)? => self.wide(slot, u64::from_le_bytes)?,
                Op::OptInt(null) if opt(cursor, null)? => u64::from(cursor.int()? as u32),
                Op::OptString(null) if opt(cursor, null)? => span(cursor.text()?),
                Op::OptBoolean(null) if opt(cursor, null)? => u64::from(cursor.boolean()?),
                Op::OptLong(null) if opt(cursor, null)? => self.long(slot)?,
                Op::OptBytes(null) if opt(cursor, null)? => span(cursor.bytes()?),
                Op::OptFloat(_) | Op::OptDouble(_) | Op::OptInt(_) | Op::OptString(_) => NULL,
                Op::OptBoolean(_) | Op::OptLong(_) | Op::OptBytes(_) | Op::Null => NULL,
                Op::Float => u64::from(u32::from_le_bytes(cursor.array()?)),
                Op::Double => self.wide(slot, u64::from_le_bytes)?,
                Op::Int => u64::from(cursor.int()? as u32),
                Op::Long => self.long(slot)?,
                Op::Boolean => u64::from(cursor.boolean()?),
                Op::String => span(cursor.text()?),
                Op::Bytes => span(cursor.bytes()?),
                Op::Fixed(size) => {
                    let start = cursor.at();
                    span((start, cursor.take(size as usize)?))
                }
                Op::Enum(symbols) => index(cursor, symbols, Fault::Enum)?,
                Op::Opt { .. } | Op::Array { .. } | Op::Map { .. } | Op::Union { .. } | Op::Branch { .. } => {
                    let (ops, width) = self.compound(*op, from + at, slot)?;
                    at += ops;
                    slot += width;
                    continue;
                }
            };
            self.sink.put(slot, bits)?;
            slot += 1;
        }
        Ok(())
    }

    #[inline]
    fn wide(&mut self, slot: usize, bits: impl Fn([u8; 8]) -> u64) -> Result<u64, Fault> {
        let bits = bits(self.cursor.array()?);
        if bits == NULL {
            self.sink.twin(slot);
        }
        Ok(bits)
    }

    #[inline]
    fn long(&mut self, slot: usize) -> Result<u64, Fault> {
        let bits = self.cursor.long()? as u64;
        if bits == NULL {
            self.sink.twin(slot);
        }
        Ok(bits)
    }

    /// Runs an op that has a body; `body` is the first op of it. Gives how many ops and slots it took.
    fn compound(&mut self, op: Op, body: usize, slot: usize) -> Result<(usize, usize), Fault> {
        match op {
            Op::Opt { null, ops, width } => {
                let (ops, width) = (ops as usize, width as usize);
                if opt(&mut self.cursor, null)? {
                    self.sink.put(slot, 1)?;
                    self.run(body, body + ops, slot + 1)?;
                } else {
                    self.sink.put(slot, NULL)?;
                    self.sink.clear(slot + 1, width)?;
                }
                Ok((ops, width + 1))
            }
            Op::Array { ops, width, min } => self.items(
                Items {
                    body,
                    ops,
                    width,
                    min,
                    keys: false,
                },
                slot,
            ),
            Op::Map { ops, width, min } => self.items(
                Items {
                    body,
                    ops,
                    width,
                    min,
                    keys: true,
                },
                slot,
            ),
            Op::Union { branches, ops, width } => {
                let chosen = index(&mut self.cursor, branches, Fault::Union)?;
                self.sink.put(slot, chosen)?;
                self.branches(chosen, body, slot + 1)?;
                Ok((ops as usize, width as usize + 1))
            }
            // Only the op of a union stands before a branch, and it runs the branch itself.
            _ => Ok((0, 0)),
        }
    }

    fn branches(&mut self, chosen: u64, first: usize, slot: usize) -> Result<(), Fault> {
        let (mut at, mut slot, mut n) = (first, slot, 0);
        while let Some(Op::Branch { ops, width }) = self.ops.get(at).filter(|_| n <= chosen || S::CLEARS) {
            let (ops, width) = (*ops as usize, *width as usize);
            if n == chosen {
                self.run(at + 1, at + 1 + ops, slot)?;
            } else {
                self.sink.clear(slot, width)?;
            }
            at += 1 + ops;
            slot += width;
            n += 1;
        }
        Ok(())
    }

    /// Reads the blocks of an array or map.
    fn items(&mut self, items: Items, slot: usize) -> Result<(usize, usize), Fault> {
        let Items {
            body,
            ops,
            width,
            min,
            keys,
        } = items;
        let (ops, width) = (ops as usize, width as usize);
        self.sink.put(slot, 0)?;
        loop {
            let start = self.cursor;
            let (count, size) = self.block_head()?;
            if count == 0 {
                return Ok((ops, 1));
            }
            let rest = self.cursor.rest().len() as u64;
            if count.saturating_mul(u64::from(min)) > rest || size.is_some_and(|size| size > rest) {
                self.cursor = start;
                return Err(Fault::Eof);
            }
            let cost = count.saturating_mul(width as u64 + 1).saturating_add(4);
            self.steps = self
                .steps
                .checked_sub(cost)
                .ok_or(Fault::Steps)
                .inspect_err(|_| self.cursor = start)?;
            let end = size.map(|size| self.cursor.at() as u64 + size);
            if S::ROWS {
                let first = self.sink.rows(slot, count as usize, width);
                (0..count as usize).try_for_each(|n| self.row(body, ops, first + n * width, keys))?;
            } else {
                self.skip_rows(body, ops, count, keys)?;
            }
            if end.is_some_and(|end| end != self.cursor.at() as u64) {
                self.cursor = start;
                return Err(Fault::BlockSize);
            }
        }
    }

    /// Reads a count, and the byte size that follows a negative one.
    fn block_head(&mut self) -> Result<(u64, Option<u64>), Fault> {
        let count = self.cursor.long()?;
        if count >= 0 {
            return Ok((count as u64, None));
        }
        let before = self.cursor;
        let size = u64::try_from(self.cursor.long()?).map_err(|_| Fault::Negative);
        Ok((count.unsigned_abs(), Some(size.inspect_err(|_| self.cursor = before)?)))
    }

    fn row(&mut self, body: usize, ops: usize, slot: usize, keys: bool) -> Result<(), Fault> {
        let mut slot = slot;
        if keys {
            self.sink.put(slot, span(self.cursor.text()?))?;
            slot += 1;
        }
        self.run(body, body + ops, slot)
    }

    /// Validates rows that the sink does not want.
    fn skip_rows(&mut self, body: usize, ops: usize, count: u64, keys: bool) -> Result<(), Fault> {
        let mut nothing = super::plan::Nothing;
        let mut inner = Walker::<_, TRACE> {
            ops: self.ops,
            cursor: self.cursor,
            sink: &mut nothing,
            steps: self.steps,
            last: self.last,
        };
        let walked = (0..count).try_for_each(|_| inner.row(body, ops, 0, keys));
        (self.cursor, self.steps, self.last) = (inner.cursor, inner.steps, inner.last);
        walked
    }
}

/// What an array or map is made of.
struct Items {
    body: usize,
    ops: u32,
    width: u32,
    min: u32,
    keys: bool,
}

/// Reads the index of a union of null and another; tells whether it is the other. `null` is null's byte on the wire.
#[inline]
fn opt(cursor: &mut Cursor<'_>, null: u8) -> Result<bool, Fault> {
    let before = *cursor;
    match cursor.long()? {
        0 => Ok(null != 0),
        1 => Ok(null == 0),
        _ => {
            *cursor = before;
            Err(Fault::Union)
        }
    }
}

#[inline]
fn index(cursor: &mut Cursor<'_>, len: u32, fault: Fault) -> Result<u64, Fault> {
    let before = *cursor;
    let index = cursor.long()?;
    if (0..i64::from(len)).contains(&index) {
        return Ok(index as u64);
    }
    *cursor = before;
    Err(fault)
}

/// Packs a place in the datum into a slot; a datum is shorter than 4 GiB.
#[inline]
fn span((at, bytes): (usize, &[u8])) -> u64 {
    (at as u64) << 32 | bytes.len() as u64
}
