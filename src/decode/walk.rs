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
    ///
    /// The cursor is a local in the loop, so that it lives in registers; it is written back where somebody looks at it.
    pub(crate) fn run(&mut self, from: usize, to: usize, slot: usize) -> Result<(), Fault> {
        let ops = self.ops.get(from..to).unwrap_or_default();
        let (mut at, mut slot) = (0, slot);
        let mut cursor = self.cursor;
        let done = loop {
            let Some(op) = ops.get(at) else { break Ok(()) };
            if TRACE {
                self.last = from + at;
            }
            at += 1;
            let read = match *op {
                Op::OptFloat { null, run } => {
                    let count = usize::from(run).min(ops.len() - at + 1);
                    if let Err(fault) = self.floats(&mut cursor, null, count, slot) {
                        break Err(fault);
                    }
                    (at, slot) = (at + count - 1, slot + count);
                    continue;
                }
                Op::OptDouble(null) => cursor.opt_double(null),
                Op::OptInt(null) => cursor.opt(null, |c| c.int().map(|n| u64::from(n as u32))),
                Op::OptLong(null) => cursor.opt(null, |c| c.long().map(|n| n as u64)),
                Op::OptBoolean(null) => cursor.opt(null, |c| c.boolean().map(u64::from)),
                Op::OptString(null) => cursor.opt(null, |c| c.text().map(span)),
                Op::OptBytes(null) => cursor.opt(null, |c| c.bytes().map(span)),
                Op::Null => Ok(None),
                Op::Float => cursor.array().map(|b| Some(u64::from(u32::from_le_bytes(b)))),
                Op::Double => cursor.array().map(|b| Some(u64::from_le_bytes(b))),
                Op::Int => cursor.int().map(|n| Some(u64::from(n as u32))),
                Op::Long => cursor.long().map(|n| Some(n as u64)),
                Op::Boolean => cursor.boolean().map(|b| Some(u64::from(b))),
                Op::String => cursor.text().map(|s| Some(span(s))),
                Op::Bytes => cursor.bytes().map(|s| Some(span(s))),
                Op::Fixed(size) => fixed(&mut cursor, size).map(Some),
                Op::Enum(symbols) => index(&mut cursor, symbols, Fault::Enum).map(Some),
                Op::Opt { .. } | Op::Array { .. } | Op::Map { .. } | Op::Union { .. } | Op::Branch { .. } => {
                    self.cursor = cursor;
                    let ran = self.compound(*op, from + at, slot);
                    cursor = self.cursor;
                    match ran {
                        Ok((ops, width)) => (at, slot) = (at + ops, slot + width),
                        Err(fault) => break Err(fault),
                    }
                    continue;
                }
            };
            if read == Ok(Some(NULL)) {
                self.sink.twin(slot);
            }
            let put = read.and_then(|bits| self.sink.put(slot, bits.unwrap_or(NULL)));
            if put.is_err() {
                break put;
            }
            slot += 1;
        };
        self.cursor = cursor;
        done
    }

    /// Reads floats that may be null, side by side.
    #[inline(always)]
    fn floats(&mut self, cursor: &mut Cursor<'a>, null: u8, count: usize, slot: usize) -> Result<(), Fault> {
        if TRACE {
            let first = self.last;
            for n in 0..count {
                self.last = first + n;
                cursor.opt_float(null)?;
            }
            return Ok(());
        }
        if let Some(places) = self.sink.window(slot, count) {
            for place in places {
                *place = cursor.opt_float(null)?.unwrap_or(NULL);
            }
            return Ok(());
        }
        for slot in slot..slot + count {
            self.sink.put(slot, cursor.opt_float(null)?.unwrap_or(NULL))?;
        }
        Ok(())
    }

    /// Runs an op that has a body; `body` is the first op of it. Gives how many ops and slots it took.
    fn compound(&mut self, op: Op, body: usize, slot: usize) -> Result<(usize, usize), Fault> {
        match op {
            Op::Opt { null, ops, width } => {
                let (ops, width) = (ops as usize, width as usize);
                if self.cursor.is_value(null)? {
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

#[inline]
fn fixed(cursor: &mut Cursor<'_>, size: u32) -> Result<u64, Fault> {
    let start = cursor.at();
    cursor.take(size as usize).map(|bytes| span((start, bytes)))
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
