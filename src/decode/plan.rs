//! The op program: a writer schema compiled once, walked once per packet.
//!
//! How it works: every leaf of the schema has a *slot*, a place of 64 bits in a flat row. The program is a list of ops in
//! the order of the datum; an op reads one value and puts its bits in the next slot. A union of null and a leaf is one
//! op. The body of a nullable record, of a union's branch, of an array or map follows its op, so that a node's ops are
//! one range and every node can be walked alone. A [`Sink`] decides what becomes of the slots: nothing (validation), the
//! wanted ones (header, filters), all of them with the rows of arrays (full views).
//!
//! Invariants: a walk ends: it takes at most 4 steps per byte plus 64 Ki, and an array is refused before its items are
//! touched when its items cannot fit into what remains. Must not know framing or surveys.

use super::error::{DecodeError, Place};
use super::schema::{Kind, NodeId, Schema};
use super::walk::Walker;
use super::wire::{Cursor, Fault};

/// The bits of a null slot; a value with these very bits is told apart by [`Sink::twin`].
pub(crate) const NULL: u64 = 0xfff8_a1e7_0000_0001;

/// One step of the program. `null` is the index of the null branch, times two: the byte on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(u32),
    Enum(u32),
    OptBoolean(u8),
    OptInt(u8),
    OptLong(u8),
    /// `run` is how many ops from this one on are the same: most of an alert are floats that may be null, side by side.
    OptFloat {
        null: u8,
        run: u16,
    },
    OptDouble(u8),
    OptBytes(u8),
    OptString(u8),
    /// Null or what the next `ops` ops read into `width` slots; its own slot says which.
    Opt {
        null: u8,
        ops: u32,
        width: u32,
    },
    /// Items read by the next `ops` ops, `width` slots each, at least `min` bytes each.
    Array {
        ops: u32,
        width: u32,
        min: u32,
    },
    /// As an array; each row begins with the slot of the key.
    Map {
        ops: u32,
        width: u32,
        min: u32,
    },
    /// One of the next `branches`, each a `Branch`; its own slot holds the index.
    Union {
        branches: u32,
        ops: u32,
        width: u32,
    },
    /// The head of a branch: what its body takes.
    Branch {
        ops: u32,
        width: u32,
    },
}

/// Receives what a walk reads.
pub(crate) trait Sink {
    /// Whether items of arrays and maps are wanted.
    const ROWS: bool;
    /// Whether slots that are not read must be made null.
    const CLEARS: bool;
    /// Takes the bits of one slot.
    fn put(&mut self, slot: usize, bits: u64) -> Result<(), Fault>;
    /// Takes note that a slot's bits, though equal to [`NULL`], are a value.
    fn twin(&mut self, slot: usize);
    /// Makes `width` slots null.
    fn clear(&mut self, slot: usize, width: usize) -> Result<(), Fault>;
    /// Gives `count` slots to write to directly, if the sink wants every one.
    fn window(&mut self, _slot: usize, _count: usize) -> Option<&mut [u64]> {
        None
    }
    /// Makes room for `count` more rows of the array in `slot`; gives the first slot of the first row.
    fn rows(&mut self, slot: usize, count: usize, width: usize) -> usize;
}

/// Wants nothing: the walk only validates.
pub(crate) struct Nothing;

impl Sink for Nothing {
    const ROWS: bool = false;
    const CLEARS: bool = false;
    #[inline(always)]
    fn put(&mut self, _slot: usize, _bits: u64) -> Result<(), Fault> {
        Ok(())
    }
    #[inline(always)]
    fn twin(&mut self, _slot: usize) {}
    #[inline(always)]
    fn clear(&mut self, _slot: usize, _width: usize) -> Result<(), Fault> {
        Ok(())
    }
    #[inline(always)]
    fn rows(&mut self, _slot: usize, _count: usize, _width: usize) -> usize {
        0
    }
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) schema: Schema,
    pub(crate) ops: Vec<Op>,
    /// The slots of one row of the root.
    pub(crate) width: usize,
    /// Per node: its ops and its slot (in its row).
    nodes: Vec<Spot>,
    /// Per op: the node it reads.
    op_nodes: Vec<NodeId>,
}

/// Where a node is in the program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spot {
    /// First op and the one after the last.
    pub(crate) ops: (u32, u32),
    /// First slot, counted from the beginning of its row.
    pub(crate) slot: u32,
    /// How many arrays and maps hold it.
    pub(crate) rows_deep: u32,
}

impl Plan {
    /// Reads and compiles a writer schema.
    pub(crate) fn compile(text: &[u8]) -> Result<Self, DecodeError> {
        let schema = Schema::parse(text)?;
        let root = schema.node(0).filter(|root| root.null.is_none());
        if !matches!(root.map(|root| &root.kind), Some(Kind::Record(_))) {
            return Err(DecodeError::BadSchema("its root is not a record".into()));
        }
        let nodes = vec![Spot::default(); schema.nodes.len()];
        let mut compiler = Compiler {
            schema: &schema,
            ops: Vec::new(),
            op_nodes: Vec::new(),
            nodes,
        };
        let (width, _) = compiler.node(0, 0, 0);
        let Compiler {
            mut ops,
            op_nodes,
            nodes,
            ..
        } = compiler;
        count_runs(&mut ops);
        Ok(Self {
            schema,
            ops,
            width: width as usize,
            nodes,
            op_nodes,
        })
    }

    /// Gives 1 for a node that has a slot of its own, which says whether it is null, before the slot of its value.
    pub(crate) fn own_slot(&self, node: NodeId) -> u32 {
        let first = self.ops.get(self.spot(node).ops.0 as usize);
        u32::from(matches!(first, Some(Op::Opt { .. })))
    }

    /// Gives the width of the rows of an array whose item is `item`, slots.
    pub(crate) fn width_of(&self, item: NodeId) -> usize {
        let (from, _) = self.spot(item).ops;
        match from.checked_sub(1).and_then(|at| self.ops.get(at as usize)) {
            Some(Op::Array { width, .. } | Op::Map { width, .. }) => *width as usize,
            _ => 0,
        }
    }

    pub(crate) fn spot(&self, node: NodeId) -> Spot {
        self.nodes.get(node as usize).copied().unwrap_or_default()
    }

    /// Gives the path and the type of every field outside of arrays and maps, of the arrays too.
    pub(crate) fn names(&self) -> impl Iterator<Item = (String, &Kind)> {
        let fields = self.schema.nodes.iter().enumerate().skip(1);
        fields.filter_map(|(id, node)| {
            let id = id as NodeId;
            let named = self.spot(id).rows_deep == 0 && !node.name.is_empty();
            named.then(|| (self.schema.path(id), &node.kind))
        })
    }

    /// Walks a whole datum: every byte must belong to it.
    pub(crate) fn walk_all<S: Sink>(&self, datum: &[u8], sink: &mut S) -> Result<(), DecodeError> {
        let mut cursor = Cursor::new(datum);
        self.walk_one(&mut cursor, sink)?;
        match cursor.rest() {
            [] => Ok(()),
            left => Err(DecodeError::trailing(
                Place::datum("", cursor.at()),
                format!("{} bytes of the block are left over", left.len()),
            )),
        }
    }

    /// Walks one datum of a block that may hold more.
    pub(crate) fn walk_one<S: Sink>(&self, cursor: &mut Cursor<'_>, sink: &mut S) -> Result<(), DecodeError> {
        let start = *cursor;
        let mut walker = Walker::<_, false>::new(&self.ops, start, sink);
        match walker.run(0, self.ops.len(), 0) {
            Ok(()) | Err(Fault::Stop) => {
                *cursor = walker.cursor;
                Ok(())
            }
            Err(_) => Err(self.explain(start)),
        }
    }

    /// Walks the ops `from..to`, whose first slot counts as 0.
    pub(crate) fn walk_ops<S: Sink>(
        &self,
        (from, to): (u32, u32),
        cursor: &mut Cursor<'_>,
        sink: &mut S,
    ) -> Result<(), Fault> {
        let mut walker = Walker::<_, false>::new(&self.ops, *cursor, sink);
        let walked = walker.run(from as usize, to as usize, 0);
        *cursor = walker.cursor;
        walked
    }

    /// Repeats a walk that failed and names the place.
    #[cold]
    fn explain(&self, start: Cursor<'_>) -> DecodeError {
        let mut nothing = Nothing;
        let mut walker = Walker::<_, true>::new(&self.ops, start, &mut nothing);
        let fault = walker.run(0, self.ops.len(), 0).err().unwrap_or(Fault::Stop);
        self.error(fault, walker.cursor, walker.last)
    }

    /// Makes the error of a fault of the op `op`.
    fn error(&self, fault: Fault, cursor: Cursor<'_>, op: usize) -> DecodeError {
        let node = self.op_nodes.get(op).copied().unwrap_or_default();
        let place = Place::datum(self.schema.path(node), cursor.at());
        let read = || {
            Cursor::new(cursor.rest())
                .long()
                .map_or_else(|_| "?".into(), |n| n.to_string())
        };
        match fault {
            Fault::Eof => {
                let left = cursor.rest().len();
                DecodeError::truncated(place, format!("it needs more than the {left} bytes that are left"))
            }
            Fault::Varint => DecodeError::damaged(place, "a number of more than 64 bits"),
            Fault::IntRange => DecodeError::damaged(place, format!("`{}` is no 32-bit int", read())),
            Fault::Utf8 => DecodeError::damaged(place, "text that is not UTF-8"),
            Fault::Union => DecodeError::damaged(place, format!("union index `{}` does not exist", read())),
            Fault::Boolean => {
                let byte = cursor.rest().first().copied().unwrap_or_default();
                DecodeError::damaged(place, format!("`{byte}` is no boolean"))
            }
            Fault::Enum => DecodeError::damaged(place, format!("enum index `{}` does not exist", read())),
            Fault::Negative => DecodeError::damaged(place, format!("length `{}` is negative", read())),
            Fault::BlockSize => DecodeError::damaged(place, "a block of items whose byte size is wrong"),
            Fault::Steps => DecodeError::too_large(place, "more items than a packet of this length can mean"),
            Fault::Stop => DecodeError::damaged(place, "stopped early"),
        }
    }
}

/// Tells each op how many like it follow. A walk of a part of the program stops a run at the part's end.
fn count_runs(ops: &mut [Op]) {
    let mut after: Option<(u8, u16)> = None;
    for op in ops.iter_mut().rev() {
        after = match op {
            Op::OptFloat { null, run } => {
                *run = after
                    .filter(|(n, _)| n == null)
                    .map_or(1, |(_, run)| run.saturating_add(1));
                Some((*null, *run))
            }
            _ => None,
        };
    }
}

struct Compiler<'s> {
    schema: &'s Schema,
    ops: Vec<Op>,
    op_nodes: Vec<NodeId>,
    nodes: Vec<Spot>,
}

impl Compiler<'_> {
    /// Compiles a node whose first slot is `slot`; gives how many slots and at least how many bytes it takes.
    fn node(&mut self, id: NodeId, slot: u32, rows_deep: u32) -> (u32, u32) {
        let Some(node) = self.schema.node(id) else {
            return (0, 0);
        };
        let from = self.ops.len();
        let (width, min) = match node.null {
            None => self.body(id, slot, rows_deep),
            Some(index) => self.nullable(id, index * 2, slot, rows_deep),
        };
        let ops = (from as u32, self.ops.len() as u32);
        if let Some(spot) = self.nodes.get_mut(id as usize) {
            *spot = Spot { ops, slot, rows_deep };
        }
        (width, min)
    }

    fn push(&mut self, id: NodeId, op: Op) -> usize {
        self.ops.push(op);
        self.op_nodes.push(id);
        self.ops.len() - 1
    }

    fn set(&mut self, at: usize, op: impl FnOnce(u32) -> Op) {
        let body = (self.ops.len() - at - 1) as u32;
        if let Some(place) = self.ops.get_mut(at) {
            *place = op(body);
        }
    }

    fn nullable(&mut self, id: NodeId, null: u8, slot: u32, rows_deep: u32) -> (u32, u32) {
        let fused = match self.schema.node(id).map(|n| &n.kind) {
            Some(Kind::Boolean) => Op::OptBoolean(null),
            Some(Kind::Int) => Op::OptInt(null),
            Some(Kind::Long) => Op::OptLong(null),
            Some(Kind::Float) => Op::OptFloat { null, run: 1 },
            Some(Kind::Double) => Op::OptDouble(null),
            Some(Kind::Bytes) => Op::OptBytes(null),
            Some(Kind::String) => Op::OptString(null),
            _ => {
                let at = self.push(id, Op::Null);
                let (width, _) = self.body(id, slot + 1, rows_deep);
                self.set(at, |ops| Op::Opt { null, ops, width });
                return (width + 1, 1);
            }
        };
        self.push(id, fused);
        (1, 1)
    }

    fn body(&mut self, id: NodeId, slot: u32, rows_deep: u32) -> (u32, u32) {
        let Some(node) = self.schema.node(id) else {
            return (0, 0);
        };
        let (op, min) = match &node.kind {
            Kind::Null => (Op::Null, 0),
            Kind::Boolean => (Op::Boolean, 1),
            Kind::Int => (Op::Int, 1),
            Kind::Long => (Op::Long, 1),
            Kind::Float => (Op::Float, 4),
            Kind::Double => (Op::Double, 8),
            Kind::Bytes => (Op::Bytes, 1),
            Kind::String => (Op::String, 1),
            Kind::Fixed(size) => (Op::Fixed(*size), *size),
            Kind::Enum(symbols) => (Op::Enum(symbols.len() as u32), 1),
            Kind::Array(item) => return self.items(id, *item, 0, rows_deep),
            Kind::Map(item) => return self.items(id, *item, 1, rows_deep),
            Kind::Record(children) => {
                let (mut width, mut min) = (0, 0u32);
                for child in children {
                    let (w, m) = self.node(*child, slot + width, rows_deep);
                    width += w;
                    min = min.saturating_add(m);
                }
                return (width, min);
            }
            Kind::Union(branches) => return self.union(id, branches, slot, rows_deep),
        };
        self.push(id, op);
        (1, min)
    }

    /// Compiles an array (`keys` = 0) or map (`keys` = 1).
    fn items(&mut self, id: NodeId, item: NodeId, keys: u32, rows_deep: u32) -> (u32, u32) {
        let at = self.push(id, Op::Null);
        let (width, min) = self.node(item, keys, rows_deep + 1);
        let (width, min) = (width + keys, min.saturating_add(keys));
        self.set(at, |ops| {
            if keys == 0 {
                Op::Array { ops, width, min }
            } else {
                Op::Map { ops, width, min }
            }
        });
        (1, 1)
    }

    fn union(&mut self, id: NodeId, branches: &[NodeId], slot: u32, rows_deep: u32) -> (u32, u32) {
        let at = self.push(id, Op::Null);
        let mut width = 0;
        for branch in branches {
            let head = self.push(id, Op::Null);
            let (w, _) = self.node(*branch, slot + 1 + width, rows_deep);
            self.set(head, |ops| Op::Branch { ops, width: w });
            width += w;
        }
        self.set(at, |ops| Op::Union {
            branches: branches.len() as u32,
            ops,
            width,
        });
        (width + 1, 1)
    }
}
