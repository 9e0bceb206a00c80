//! A writer schema, read from JSON into a tree of nodes with every named type expanded where it is used.
//!
//! Invariants: the tree is finite and small (at most [`DEPTH_MAX`] deep and [`NODES_MAX`] nodes): a type that contains
//! itself is refused. Read with the tolerance that real writers need: defaults are not looked at (many have the wrong
//! type), logical types are names only, a field name may come twice (the first wins). Must not know values or surveys.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::error::DecodeError;

/// How deeply a schema may nest.
pub(crate) const DEPTH_MAX: usize = 32;
/// How many fields and items a schema may have, all named types expanded.
pub(crate) const NODES_MAX: usize = 4096;
/// How long a schema's text may be, bytes.
pub(crate) const TEXT_MAX: usize = 1 << 20;

/// The place of a node in its schema.
pub(crate) type NodeId = u32;

/// One field, item or branch.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The node that holds this one; the root holds itself.
    pub(crate) parent: NodeId,
    /// The field's name; empty for items and branches.
    pub(crate) name: Box<str>,
    /// The field's further names.
    pub(crate) aliases: Box<[Box<str>]>,
    /// What it is.
    pub(crate) kind: Kind,
    /// The index of the null branch, for a union of null and this.
    pub(crate) null: Option<u8>,
    /// The logical type's name.
    pub(crate) logical: Option<Box<str>>,
}

/// What a node is; the children of records, unions, arrays and maps are nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(u32),
    Enum(Box<[Box<str>]>),
    Array(NodeId),
    Map(NodeId),
    Record(Box<[NodeId]>),
    Union(Box<[NodeId]>),
}

/// A schema's tree and what its root says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    /// All nodes; the root is the first.
    pub(crate) nodes: Vec<Node>,
    /// The root's full name, `namespace.name`; empty when the root is not a named type.
    pub(crate) name: String,
    /// The root's attribute `version`.
    pub(crate) version: Option<String>,
    /// Field names that came twice in their record, as paths.
    pub(crate) twice: Vec<String>,
}

impl Schema {
    /// Reads a schema.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, DecodeError> {
        if text.len() > TEXT_MAX {
            return Err(DecodeError::BadSchema(format!(
                "`{}` bytes, at most {TEXT_MAX} are read",
                text.len()
            )));
        }
        let json: Value = serde_json::from_slice(text).map_err(|error| match error.to_string() {
            text if text.contains("recursion limit") => DecodeError::TooDeep("its JSON nests over 128 deep".into()),
            text => DecodeError::BadSchema(format!("not JSON: {text}")),
        })?;
        let mut parser = Parser {
            nodes: Vec::new(),
            types: HashMap::new(),
            open: Vec::new(),
            twice: Vec::new(),
            text_left: TEXT_MAX,
        };
        parser.node(
            Slot {
                parent: 0,
                name: "",
                aliases: Box::default(),
            },
            &json,
            "",
            0,
        )?;
        let version = json.get("version").and_then(|v| match v {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        let name = json.as_object().and_then(|o| full_name(o, "")).unwrap_or_default();
        Ok(Self {
            nodes: parser.nodes,
            name,
            version,
            twice: parser.twice,
        })
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    /// Finds the child of a record by name or alias; the first of equal names wins. In a union, the first branch that
    /// has one.
    pub(crate) fn child(&self, holder: NodeId, name: &str) -> Option<NodeId> {
        let children = match &self.node(holder)?.kind {
            Kind::Record(children) => children,
            Kind::Union(branches) => return branches.iter().find_map(|b| self.child(*b, name)),
            _ => return None,
        };
        let named = |id: &&NodeId| self.node(**id).is_some_and(|n| &*n.name == name);
        let aliased = |id: &&NodeId| self.node(**id).is_some_and(|n| n.aliases.iter().any(|a| &**a == name));
        children
            .iter()
            .find(named)
            .or_else(|| children.iter().find(aliased))
            .copied()
    }

    /// Finds a node by dotted path of field names.
    pub(crate) fn find(&self, path: &str) -> Option<NodeId> {
        path.split('.').try_fold(0, |at, name| self.child(at, name))
    }

    /// Gives a node's path: field names with dots, `[]` for the items of an array or map.
    pub(crate) fn path(&self, id: NodeId) -> String {
        let mut parts = Vec::new();
        let mut at = id;
        while let Some(node) = self.node(at).filter(|_| at != 0) {
            let parent = self.node(node.parent);
            match parent.map(|p| &p.kind) {
                Some(Kind::Array(_) | Kind::Map(_)) => parts.push("[]"),
                Some(Kind::Union(_)) => {}
                _ => parts.push(&*node.name),
            }
            at = node.parent;
        }
        parts.reverse();
        parts.join(".").replace(".[]", "[]")
    }
}

struct Parser<'j> {
    nodes: Vec<Node>,
    /// Named types by full name: their definition and the namespace it stands in.
    types: HashMap<String, (&'j Map<String, Value>, String)>,
    /// The records being expanded, outermost first.
    open: Vec<String>,
    twice: Vec<String>,
    text_left: usize,
}

/// What a name costs besides its text, bytes.
const ENTRY: usize = 16;

/// What the holder of a node says of it.
struct Slot<'a> {
    parent: NodeId,
    name: &'a str,
    aliases: Box<[Box<str>]>,
}

impl<'j> Parser<'j> {
    fn node(&mut self, slot: Slot<'_>, json: &'j Value, space: &str, depth: usize) -> Result<NodeId, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::TooDeep(format!(
                "more than {DEPTH_MAX} types nested at field `{}`",
                slot.name
            )));
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(DecodeError::BadSchema(format!("more than {NODES_MAX} fields")));
        }
        let (json, null) = strip_null(bare(json));
        let json = bare(json);
        let id = self.nodes.len() as NodeId;
        let Slot { parent, name, aliases } = slot;
        self.spend(name.len() + aliases.iter().map(|a| a.len() + ENTRY).sum::<usize>())?;
        self.nodes.push(Node {
            parent,
            name: name.into(),
            aliases,
            kind: Kind::Null,
            null,
            logical: None,
        });
        let kind = match json {
            Value::String(name) => self.named(id, name, space, depth)?,
            Value::Array(branches) => self.union(id, branches, space, depth)?,
            Value::Object(object) => self.object(id, object, space, depth)?,
            other => return Err(self.bad(id, format!("`{other}` is no type"))),
        };
        if let Some(node) = self.nodes.get_mut(id as usize) {
            node.kind = kind;
        }
        Ok(id)
    }

    fn bad(&self, id: NodeId, cause: impl std::fmt::Display) -> DecodeError {
        let name = self.nodes.get(id as usize).map(|n| &*n.name).unwrap_or_default();
        let text = if name.is_empty() {
            cause.to_string()
        } else {
            format!("field `{name}`: {cause}")
        };
        DecodeError::BadSchema(text.chars().take(200).collect())
    }

    /// Counts the text that the tree copies out of the schema: a long name in a type used often adds up.
    fn spend(&mut self, bytes: usize) -> Result<(), DecodeError> {
        self.text_left = self.text_left.checked_sub(bytes).ok_or_else(|| {
            DecodeError::BadSchema(format!(
                "its names take more than {} bytes, all types expanded",
                TEXT_MAX
            ))
        })?;
        Ok(())
    }

    fn named(&mut self, id: NodeId, name: &str, space: &str, depth: usize) -> Result<Kind, DecodeError> {
        if let Some(kind) = primitive(name) {
            return Ok(kind);
        }
        let qualified = if name.contains('.') || space.is_empty() {
            name.to_owned()
        } else {
            format!("{space}.{name}")
        };
        // A writer that leaves the namespace out means the bare name.
        let found = [qualified.as_str(), name]
            .into_iter()
            .find_map(|n| self.types.get(n).cloned());
        let (definition, space) = found.ok_or_else(|| self.bad(id, format!("unknown type `{name}`")))?;
        self.object(id, definition, &space, depth)
    }

    fn union(&mut self, id: NodeId, branches: &'j [Value], space: &str, depth: usize) -> Result<Kind, DecodeError> {
        if branches.is_empty() {
            return Err(self.bad(id, "a union without branches"));
        }
        let mut children = Vec::with_capacity(branches.len());
        for branch in branches {
            if branch.is_array() {
                return Err(self.bad(id, "a union directly in a union"));
            }
            let slot = Slot {
                parent: id,
                name: "",
                aliases: Box::default(),
            };
            children.push(self.node(slot, branch, space, depth + 1)?);
        }
        Ok(Kind::Union(children.into()))
    }

    fn object(
        &mut self,
        id: NodeId,
        object: &'j Map<String, Value>,
        space: &str,
        depth: usize,
    ) -> Result<Kind, DecodeError> {
        if let (Some(node), Some(Value::String(name))) = (self.nodes.get_mut(id as usize), object.get("logicalType")) {
            node.logical = Some(name.as_str().into());
        }
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            _ => return Err(self.bad(id, "a type without `type`")),
        };
        match kind {
            "record" | "error" => self.record(id, object, space, depth),
            "enum" => {
                self.define(object, space);
                self.symbols(id, object)
            }
            "fixed" => {
                self.define(object, space);
                let size = object.get("size").and_then(Value::as_u64);
                let size = size.ok_or_else(|| self.bad(id, "a fixed without `size`"))?;
                u32::try_from(size)
                    .map(Kind::Fixed)
                    .map_err(|_| self.bad(id, format!("a fixed of `{size}` bytes")))
            }
            "array" | "map" => {
                let item = object.get(if kind == "array" { "items" } else { "values" });
                let item = item.ok_or_else(|| self.bad(id, format!("a {kind} without a type of its items")))?;
                let child = self.node(
                    Slot {
                        parent: id,
                        name: "",
                        aliases: Box::default(),
                    },
                    item,
                    space,
                    depth + 1,
                )?;
                Ok(if kind == "array" {
                    Kind::Array(child)
                } else {
                    Kind::Map(child)
                })
            }
            name => self.named(id, name, space, depth + 1),
        }
    }

    /// Remembers a named type, under its full name.
    fn define(&mut self, object: &'j Map<String, Value>, space: &str) -> Option<String> {
        let name = full_name(object, space)?;
        self.types
            .entry(name.clone())
            .or_insert_with(|| (object, space.to_owned()));
        Some(name)
    }

    fn symbols(&mut self, id: NodeId, object: &Map<String, Value>) -> Result<Kind, DecodeError> {
        let symbols = object.get("symbols").and_then(Value::as_array);
        let symbols = symbols.ok_or_else(|| self.bad(id, "an enum without `symbols`"))?;
        self.spend(symbols.iter().map(|s| s.as_str().map_or(0, str::len) + ENTRY).sum())?;
        let texts: Option<Box<[Box<str>]>> = symbols.iter().map(|s| s.as_str().map(Into::into)).collect();
        texts
            .map(Kind::Enum)
            .ok_or_else(|| self.bad(id, "an enum symbol that is no text"))
    }

    fn record(
        &mut self,
        id: NodeId,
        object: &'j Map<String, Value>,
        space: &str,
        depth: usize,
    ) -> Result<Kind, DecodeError> {
        let name = self
            .define(object, space)
            .ok_or_else(|| self.bad(id, "a record without `name`"))?;
        if self.open.contains(&name) {
            return Err(DecodeError::TooDeep(format!("record `{name}` contains itself")));
        }
        let inner_space = name
            .rsplit_once('.')
            .map(|(space, _)| space.to_owned())
            .unwrap_or_default();
        self.open.push(name);
        let fields = object.get("fields").and_then(Value::as_array);
        let fields = fields.ok_or_else(|| self.bad(id, "a record without `fields`"))?;
        let mut children: Vec<NodeId> = Vec::with_capacity(fields.len().min(NODES_MAX));
        let mut names = HashSet::new();
        for field in fields {
            let named = field.get("name").and_then(Value::as_str);
            let (Some(name), Some(kind)) = (named, field.get("type")) else {
                return Err(self.bad(id, "a field without `name` or `type`"));
            };
            let texts = field
                .get("aliases")
                .and_then(Value::as_array)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let aliases = texts.iter().filter_map(Value::as_str).map(Into::into).collect();
            let child = self.node(
                Slot {
                    parent: id,
                    name,
                    aliases,
                },
                kind,
                &inner_space,
                depth + 1,
            )?;
            if !names.insert(name) {
                self.twice.push(name.chars().take(80).collect());
            }
            children.push(child);
        }
        self.open.pop();
        Ok(Kind::Record(children.into()))
    }
}

/// Takes a type out of braces of its own: `{"type": {"type": ...}}`, `{"type": [...]}`.
fn bare(mut json: &Value) -> &Value {
    while let Some(inner @ (Value::Object(_) | Value::Array(_))) = json.as_object().and_then(|o| o.get("type")) {
        json = inner;
    }
    json
}

/// Takes `null` out of a union of null and one other type; gives the other and the index of the null branch.
fn strip_null(json: &Value) -> (&Value, Option<u8>) {
    match json {
        Value::Array(branches) => match branches.as_slice() {
            [null, other] if is_null(null) && !is_null(other) && !other.is_array() => (other, Some(0)),
            [other, null] if is_null(null) && !is_null(other) && !other.is_array() => (other, Some(1)),
            _ => (json, None),
        },
        _ => (json, None),
    }
}

fn is_null(json: &Value) -> bool {
    matches!(json, Value::String(s) if s == "null") || json.get("type").is_some_and(|t| t == "null")
}

fn primitive(name: &str) -> Option<Kind> {
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "long" => Kind::Long,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
}

/// Gives a named type's full name: dotted as it is, else after its own namespace or the one around it.
fn full_name(object: &Map<String, Value>, space: &str) -> Option<String> {
    let name = object.get("name")?.as_str()?;
    if name.contains('.') {
        return Some(name.to_owned());
    }
    let space = object.get("namespace").and_then(Value::as_str).unwrap_or(space);
    Some(if space.is_empty() {
        name.to_owned()
    } else {
        format!("{space}.{name}")
    })
}
