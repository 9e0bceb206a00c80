//! From names to numbered slots, with a check of what can be combined.
//!
//! Invariants: afterwards every name in the expression is a slot's number or bound by a macro of the expression itself.
//! Must not know packets.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::common::types::CelDouble;

use super::names::{HEADER, Names, Type};
use super::{FilterError, matches};
use crate::decode::WANTED_MAX;
use crate::nearest::nearest;

/// Where the value of a slot comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// A field of the header, by its place in [`HEADER`].
    Header(usize),
    /// A field of the packet, by its path.
    Path(Box<str>),
    /// Whether a name has a value: `has(NAME)`.
    Has(Box<Source>),
}

/// Functions of the language that make sense on an alert, with what they give.
const FUNCTIONS: [(&str, Type); 15] = [
    ("size", Type::Int),
    ("contains", Type::Bool),
    ("startsWith", Type::Bool),
    ("endsWith", Type::Bool),
    ("matches", Type::Bool),
    ("double", Type::Double),
    ("int", Type::Int),
    ("uint", Type::Int),
    ("string", Type::Text),
    ("bytes", Type::Bytes),
    ("bool", Type::Bool),
    ("type", Type::Any),
    ("dyn", Type::Any),
    ("min", Type::Any),
    ("max", Type::Any),
];

/// Gives the sources of an expression and puts their numbers in place of the names.
pub(super) fn rewrite(expression: &mut IdedExpr, names: &Names) -> Result<Vec<Source>, FilterError> {
    let mut rewriter = Rewriter {
        names,
        sources: Vec::new(),
        bound: Vec::new(),
    };
    let kind = rewriter.expr(expression)?;
    if !matches!(kind, Type::Bool | Type::Any) {
        return Err(types(format!(
            "is {}, not true or false; compare it with something",
            word(kind)
        )));
    }
    let names = rewriter.sources.len();
    if names > WANTED_MAX {
        return Err(FilterError::TooManyNames {
            names,
            most: WANTED_MAX,
        });
    }
    Ok(rewriter.sources)
}

/// The name of a slot in the rewritten expression.
pub(super) fn slot_name(slot: usize) -> String {
    format!("slot{slot}")
}

/// The slot of a name in the rewritten expression.
pub(super) fn slot_of(name: &str) -> Option<usize> {
    name.strip_prefix("slot")?.parse().ok()
}

fn types(cause: String) -> FilterError {
    FilterError::Types { cause }
}

struct Rewriter<'n> {
    names: &'n Names,
    sources: Vec<Source>,
    /// Variables of macros (`exists`, `all`), innermost last.
    bound: Vec<String>,
}

impl Rewriter<'_> {
    fn expr(&mut self, expr: &mut IdedExpr) -> Result<Type, FilterError> {
        match &mut expr.expr {
            Expr::Literal(literal) => Ok(literal_type(literal)),
            Expr::Ident(_) | Expr::Select(_) => self.name(expr),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                list.elements.iter_mut().try_for_each(|e| self.expr(e).map(drop))?;
                Ok(Type::List)
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    self.entry(&mut entry.expr)?;
                }
                Ok(Type::Any)
            }
            Expr::Struct(object) => {
                for entry in &mut object.entries {
                    self.entry(&mut entry.expr)?;
                }
                Ok(Type::Any)
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Unspecified => Ok(Type::Any),
        }
    }

    fn entry(&mut self, entry: &mut EntryExpr) -> Result<(), FilterError> {
        match entry {
            EntryExpr::StructField(field) => self.expr(&mut field.value).map(drop),
            EntryExpr::MapEntry(entry) => {
                self.expr(&mut entry.key)?;
                self.expr(&mut entry.value).map(drop)
            }
        }
    }

    fn comprehension(&mut self, macro_call: &mut ComprehensionExpr) -> Result<Type, FilterError> {
        self.expr(&mut macro_call.iter_range)?;
        let before = self.bound.len();
        self.bound.push(macro_call.iter_var.clone());
        self.bound.extend(macro_call.iter_var2.clone());
        self.bound.push(macro_call.accu_var.clone());
        for part in [
            &mut macro_call.accu_init,
            &mut macro_call.loop_cond,
            &mut macro_call.loop_step,
            &mut macro_call.result,
        ] {
            self.expr(part)?;
        }
        self.bound.truncate(before);
        Ok(Type::Any)
    }

    /// Puts a slot in place of a name: an identifier, or a path of selections that begins with one.
    fn name(&mut self, expr: &mut IdedExpr) -> Result<Type, FilterError> {
        let (path, test) = match path_of(&expr.expr) {
            Some(found) => found,
            // A selection from something computed: its fields are known only when it is evaluated.
            None => {
                if let Expr::Select(select) = &mut expr.expr {
                    self.expr(&mut select.operand)?;
                }
                return Ok(Type::Any);
            }
        };
        let root = path.split('.').next().unwrap_or_default();
        if self.bound.iter().any(|bound| bound == root) {
            return Ok(Type::Any);
        }
        let kind = match self.names.get(&path) {
            Some(kind) => kind,
            None if self.names.is_in_a_map(&path) => Type::Any,
            None => {
                return Err(FilterError::UnknownName {
                    nearest: self.names.nearest(&path),
                    name: path,
                });
            }
        };
        let source = match HEADER.iter().position(|(name, _)| *name == path) {
            Some(field) => Source::Header(field),
            None => Source::Path(path.into()),
        };
        let source = if test { Source::Has(Box::new(source)) } else { source };
        let slot = self.sources.iter().position(|s| *s == source).unwrap_or_else(|| {
            self.sources.push(source);
            self.sources.len() - 1
        });
        expr.expr = Expr::Ident(slot_name(slot));
        Ok(if test { Type::Bool } else { kind })
    }

    fn call(&mut self, call: &mut CallExpr) -> Result<Type, FilterError> {
        let target = call.target.as_mut().map(|target| self.expr(target)).transpose()?;
        let kinds = call
            .args
            .iter_mut()
            .map(|arg| self.expr(arg))
            .collect::<Result<Vec<_>, _>>()?;
        let name = call.func_name.as_str();
        match (name, kinds.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, kinds) => {
                let wrong = kinds.iter().find(|kind| !matches!(kind, Type::Bool | Type::Any));
                wrong.map_or(Ok(Type::Bool), |kind| {
                    Err(types(format!(
                        "uses {} as true or false; compare it with something",
                        word(*kind)
                    )))
                })
            }
            (
                operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS,
                [a, b],
            ) => comparable(*a, *b).map(|()| Type::Bool),
            (
                operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO,
                [a, b],
            ) => arithmetic(call, *a, *b),
            (operators::IN | operators::NOT_STRICTLY_FALSE, _) => Ok(Type::Bool),
            (operators::NEGATE, [kind]) => Ok(*kind),
            (operators::CONDITIONAL, [_, kind, _]) => Ok(*kind),
            (operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT, _) => Ok(Type::Any),
            ("matches", _) => pattern(call),
            _ => function(name, target),
        }
    }
}

/// A pattern that is written out is checked here; a computed one that is no pattern makes the filter undefined.
fn pattern(call: &mut CallExpr) -> Result<Type, FilterError> {
    if let Some(Expr::Literal(LiteralValue::String(pattern))) = call.args.last().map(|arg| &arg.expr) {
        matches::compile(pattern.inner())
            .map_err(|cause| types(format!("has the pattern `{}`: {cause}", pattern.inner())))?;
    }
    call.func_name = matches::NAME.into();
    Ok(Type::Bool)
}

fn function(name: &str, _target: Option<Type>) -> Result<Type, FilterError> {
    if let Some((_, kind)) = FUNCTIONS.iter().find(|(known, _)| *known == name) {
        return Ok(*kind);
    }
    Err(FilterError::UnknownFunction {
        name: name.to_owned(),
        nearest: nearest(name, FUNCTIONS.iter().map(|(known, _)| *known)).map(str::to_owned),
    })
}

fn comparable(a: Type, b: Type) -> Result<(), FilterError> {
    let number = |kind| matches!(kind, Type::Int | Type::Double);
    if a == Type::Any || b == Type::Any || a == b || number(a) && number(b) {
        return Ok(());
    }
    Err(types(format!(
        "compares {} with {}, which is never true",
        word(a),
        word(b)
    )))
}

/// CEL does no arithmetic of an int with a float; a whole literal beside a float is meant as a float.
fn arithmetic(call: &mut CallExpr, a: Type, b: Type) -> Result<Type, FilterError> {
    let [left, right] = call.args.as_mut_slice() else {
        return Ok(Type::Any);
    };
    let literal = match (a, b) {
        (Type::Int, Type::Double) => left,
        (Type::Double, Type::Int) => right,
        (Type::Any, _) | (_, Type::Any) => return Ok(Type::Any),
        _ if a == b => return Ok(a),
        _ => return Err(types(format!("computes with {} and {}", word(a), word(b)))),
    };
    match &literal.expr {
        Expr::Literal(LiteralValue::Int(n)) => {
            literal.expr = Expr::Literal(LiteralValue::Double(CelDouble::from(*n.inner() as f64)));
            Ok(Type::Double)
        }
        _ => Err(types(
            "computes with a whole number and a float; write `double(...)` around the former".into(),
        )),
    }
}

fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) | LiteralValue::UInt(_) => Type::Int,
        LiteralValue::Null => Type::Any,
        LiteralValue::String(_) => Type::Text,
    }
}

/// Gives the path that an expression spells, and whether it is the one of `has(PATH)`.
fn path_of(expr: &Expr) -> Option<(String, bool)> {
    match expr {
        Expr::Ident(name) => Some((name.clone(), false)),
        Expr::Select(select) => match path_of(&select.operand.expr)? {
            (path, false) => Some((format!("{path}.{}", select.field), select.test)),
            (_, true) => None,
        },
        _ => None,
    }
}

fn word(kind: Type) -> &'static str {
    match kind {
        Type::Int | Type::Double => "a number",
        Type::Text => "text",
        Type::Bool => "true or false",
        Type::Bytes => "bytes",
        Type::List => "a list",
        Type::Any => "something",
    }
}
