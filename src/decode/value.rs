//! Values of a packet's fields by path: absent, null and a value are three different things.
//!
//! Invariants: views borrow from the payload and decode when asked; the bytes were validated before, so that a read
//! cannot fail. Must not know framing or surveys.

use super::path::steps;
use super::plan::{NULL, Nothing, Plan};
use super::schema::{Kind, NodeId};
use super::wire::Cursor;

/// One value of a packet; text and bytes point into the payload.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Null.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A 32-bit integer.
    Int(i32),
    /// A 64-bit integer.
    Long(i64),
    /// A 32-bit float.
    Float(f32),
    /// A 64-bit float.
    Double(f64),
    /// Text; also the symbol of an enum.
    String(&'a str),
    /// Bytes; also a fixed.
    Bytes(&'a [u8]),
    /// A record.
    Record(View<'a>),
    /// An array.
    Array(View<'a>),
    /// A map.
    Map(View<'a>),
}

/// A record, array or map in a packet, not decoded until asked.
#[derive(Clone, Copy)]
pub struct View<'a> {
    plan: &'a Plan,
    datum: &'a [u8],
    node: NodeId,
    at: usize,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("path", &self.plan.schema.path(self.node))
            .field("at", &self.at)
            .finish()
    }
}

impl<'a> Value<'a> {
    /// Gives a number as 64-bit float; `None` for anything else, NaN and infinities.
    pub fn as_f64(&self) -> Option<f64> {
        let number = match self {
            Self::Int(n) => f64::from(*n),
            Self::Long(n) => *n as f64,
            Self::Float(n) => f64::from(*n),
            Self::Double(n) => *n,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    /// Gives an integer.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(i64::from(*n)),
            Self::Long(n) => Some(*n),
            _ => None,
        }
    }

    /// Gives a text.
    pub fn as_str(&self) -> Option<&'a str> {
        if let Self::String(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// Gives bytes.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self {
            Some(bytes)
        } else {
            None
        }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Gives it as JSON: 32-bit floats widened, NaN and infinities null, bytes in base64.
    pub fn to_json(&self) -> serde_json::Value {
        super::json::value(self)
    }
}

impl<'a> View<'a> {
    /// The whole packet as a record.
    pub(crate) fn root(plan: &'a Plan, datum: &'a [u8]) -> Value<'a> {
        read(plan, datum, 0, &mut Cursor::new(datum))
    }

    /// Finds a field by dotted path; `None` when the schema has no such path. The items of an array are `NAME[0]` or
    /// `NAME.0`, those of a map `NAME.KEY` or `NAME["KEY"]`; one that is not there is null.
    pub fn get(&self, path: &str) -> Option<Value<'a>> {
        let mut found = Found::Value(Value::Record(*self));
        if matches!(self.kind(), Some(Kind::Array(_))) {
            found = Found::Value(Value::Array(*self));
        }
        if matches!(self.kind(), Some(Kind::Map(_))) {
            found = Found::Value(Value::Map(*self));
        }
        steps(path)
            .try_fold(found, |found, name| found.step(self.plan, name))
            .map(Found::value)
    }

    /// Goes through a record's fields, an array's items (without a name) or a map's entries.
    pub fn iter(&self) -> Iter<'a> {
        let cursor = Cursor::starting_at(self.datum, self.at);
        let rest = match self.kind() {
            Some(Kind::Record(children)) => Rest::Fields(children),
            Some(Kind::Array(item)) => Rest::Items {
                item: *item,
                left: 0,
                keys: false,
            },
            Some(Kind::Map(item)) => Rest::Items {
                item: *item,
                left: 0,
                keys: true,
            },
            _ => Rest::Fields(&[]),
        };
        Iter {
            plan: self.plan,
            datum: self.datum,
            cursor,
            rest,
        }
    }

    /// Gives the number of items of an array or entries of a map, of fields of a record.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    fn kind(&self) -> Option<&'a Kind> {
        self.plan.schema.node(self.node).map(|n| &n.kind)
    }
}

/// What a path has led to so far: a value, or null at a node of the schema.
enum Found<'a> {
    Value(Value<'a>),
    Null(NodeId),
}

impl<'a> Found<'a> {
    fn value(self) -> Value<'a> {
        match self {
            Self::Value(value) => value,
            Self::Null(_) => Value::Null,
        }
    }

    fn step(self, plan: &'a Plan, name: &str) -> Option<Self> {
        let view = match self {
            Self::Null(node) => return below(plan, node, name).map(Self::Null),
            Self::Value(Value::Record(view) | Value::Array(view) | Value::Map(view)) => view,
            Self::Value(_) => return None,
        };
        let null = |node| Some(Self::Null(node));
        match view.kind()? {
            Kind::Record(_) => {
                let child = plan.schema.child(view.node, name)?;
                let mut cursor = Cursor::starting_at(view.datum, view.at);
                let own = u32::from(plan.schema.node(view.node)?.null.is_some());
                let skip = (plan.spot(view.node).ops.0 + own, plan.spot(child).ops.0);
                plan.walk_ops(skip, &mut cursor, &mut Nothing).ok()?;
                match read(plan, view.datum, child, &mut cursor) {
                    Value::Null => null(child),
                    value => Some(Self::Value(value)),
                }
            }
            Kind::Array(item) => {
                let index: usize = name.parse().ok()?;
                view.iter()
                    .nth(index)
                    .map_or_else(|| null(*item), |(_, value)| Some(Self::Value(value)))
            }
            Kind::Map(item) => {
                let found = view.iter().find(|(key, _)| *key == name);
                found.map_or_else(|| null(*item), |(_, value)| Some(Self::Value(value)))
            }
            _ => None,
        }
    }
}

/// Takes one step of a path in the schema alone.
fn below(plan: &Plan, node: NodeId, name: &str) -> Option<NodeId> {
    match plan.schema.node(node)?.kind {
        Kind::Array(item) => name.parse::<usize>().ok().map(|_| item),
        Kind::Map(item) => Some(item),
        _ => plan.schema.child(node, name),
    }
}

/// Reads one value; of a record, array or map only its place, and the cursor stays at its beginning.
pub(crate) fn read<'a>(plan: &'a Plan, datum: &'a [u8], node: NodeId, cursor: &mut Cursor<'a>) -> Value<'a> {
    read_body(plan, datum, node, cursor).unwrap_or(Value::Null)
}

fn read_body<'a>(plan: &'a Plan, datum: &'a [u8], id: NodeId, cursor: &mut Cursor<'a>) -> Option<Value<'a>> {
    let node = plan.schema.node(id)?;
    if let Some(null) = node.null
        && cursor.long().ok()? == i64::from(null)
    {
        return Some(Value::Null);
    }
    let view = View {
        plan,
        datum,
        node: id,
        at: cursor.at(),
    };
    Some(match &node.kind {
        Kind::Null => Value::Null,
        Kind::Boolean => Value::Boolean(cursor.boolean().ok()?),
        Kind::Int => Value::Int(cursor.int().ok()?),
        Kind::Long => Value::Long(cursor.long().ok()?),
        Kind::Float => Value::Float(f32::from_le_bytes(cursor.array().ok()?)),
        Kind::Double => Value::Double(f64::from_le_bytes(cursor.array().ok()?)),
        Kind::Bytes => Value::Bytes(cursor.bytes().ok()?.1),
        Kind::String => Value::String(std::str::from_utf8(cursor.bytes().ok()?.1).ok()?),
        Kind::Fixed(size) => Value::Bytes(cursor.take(*size as usize).ok()?),
        Kind::Enum(symbols) => Value::String(symbols.get(cursor.long().ok()? as usize)?),
        Kind::Record(_) => Value::Record(view),
        Kind::Array(_) => Value::Array(view),
        Kind::Map(_) => Value::Map(view),
        Kind::Union(branches) => {
            let branch = *branches.get(cursor.long().ok()? as usize)?;
            return read_body(plan, datum, branch, cursor);
        }
    })
}

/// Reads the value of a leaf from the bits of its slot; `twin` tells a value from null where the bits are the same.
pub(crate) fn leaf<'a>(kind: &'a Kind, bits: u64, twin: bool, datum: &'a [u8]) -> Value<'a> {
    if bits == NULL && !twin {
        return Value::Null;
    }
    let span = || {
        datum
            .get((bits >> 32) as usize..)
            .and_then(|d| d.get(..bits as u32 as usize))
            .unwrap_or_default()
    };
    match kind {
        Kind::Boolean => Value::Boolean(bits == 1),
        Kind::Int => Value::Int(bits as u32 as i32),
        Kind::Long => Value::Long(bits as i64),
        Kind::Float => Value::Float(f32::from_bits(bits as u32)),
        Kind::Double => Value::Double(f64::from_bits(bits)),
        Kind::Bytes | Kind::Fixed(_) => Value::Bytes(span()),
        Kind::String => std::str::from_utf8(span()).map_or(Value::Null, Value::String),
        Kind::Enum(symbols) => symbols.get(bits as usize).map_or(Value::Null, |s| Value::String(s)),
        Kind::Null | Kind::Array(_) | Kind::Map(_) | Kind::Record(_) | Kind::Union(_) => Value::Null,
    }
}

/// The values in a record, array or map, with the field's name or the map's key; made by [`View::iter`].
pub struct Iter<'a> {
    plan: &'a Plan,
    datum: &'a [u8],
    cursor: Cursor<'a>,
    rest: Rest<'a>,
}

enum Rest<'a> {
    Fields(&'a [NodeId]),
    Items { item: NodeId, left: u64, keys: bool },
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (node, name) = match &mut self.rest {
            Rest::Fields(children) => {
                let (first, rest) = children.split_first()?;
                *children = rest;
                (*first, &*self.plan.schema.node(*first)?.name)
            }
            Rest::Items { item, left, keys } => {
                if *left == 0 {
                    let count = self.cursor.long().ok()?;
                    if count < 0 {
                        self.cursor.long().ok()?;
                    }
                    *left = count.unsigned_abs();
                }
                if *left == 0 {
                    self.rest = Rest::Fields(&[]);
                    return None;
                }
                *left -= 1;
                let key = if *keys {
                    std::str::from_utf8(self.cursor.bytes().ok()?.1).ok()?
                } else {
                    ""
                };
                (*item, key)
            }
        };
        let mut ahead = self.cursor;
        let value = read(self.plan, self.datum, node, &mut ahead);
        self.plan
            .walk_ops(self.plan.spot(node).ops, &mut self.cursor, &mut Nothing)
            .ok()?;
        Some((name, value))
    }
}
