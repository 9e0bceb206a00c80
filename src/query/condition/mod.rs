//! Comparisons of the indexed columns: what `--where` says, evaluated in memory with three-valued logic.
//!
//! How it works: the parser gives a tree in negation normal form (`!` is pushed into the comparisons, which under
//! three-valued logic changes no result), flattened, sorted and without doubles; so two ways to write the same
//! condition mostly give the same tree, and `Display` is its canonical text in the filter language's syntax.
//! Anything with an unknown value in it is undefined; undefined is not selected.
//! Must not know of SQL: `archive::sql` walks the tree.

mod parse;
mod token;

use std::fmt;

use super::error::QueryError;
use crate::header::AlertHeader;

/// A column that a condition can name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Column {
    /// Magnitude of the detection, mag.
    Magnitude,
    /// Real-bogus score.
    Rb,
    /// Deep-learning real-bogus score.
    Drb,
    /// Number of earlier detections.
    Ndethist,
    /// Program of the survey.
    Programid,
    /// Passband: the only column of text.
    Band,
}

impl Column {
    /// Every column.
    pub const ALL: [Self; 6] = [
        Self::Magnitude,
        Self::Rb,
        Self::Drb,
        Self::Ndethist,
        Self::Programid,
        Self::Band,
    ];

    /// Gives the column's name, in the header and in the archive alike.
    pub fn name(self) -> &'static str {
        match self {
            Self::Magnitude => "magnitude",
            Self::Rb => "rb",
            Self::Drb => "drb",
            Self::Ndethist => "ndethist",
            Self::Programid => "programid",
            Self::Band => "band",
        }
    }

    /// Gives the column's value in an alert; `None` when it is unknown.
    // Counts of detections are far below 2^53; SQL compares as float8 too.
    fn of(self, alert: &AlertHeader) -> Option<Operand> {
        let number = match self {
            Self::Magnitude => alert.magnitude,
            Self::Rb => alert.rb,
            Self::Drb => alert.drb,
            Self::Ndethist => alert.ndethist.map(|n| n as f64),
            Self::Programid => Some(f64::from(alert.programid)),
            Self::Band => return alert.band.clone().map(Operand::Text),
        };
        number.filter(|n| !n.is_nan()).map(Operand::Number)
    }
}

/// A comparison of two values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Op {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Op {
    /// Gives the operator as the filter language writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }

    /// Gives the operator that is true where this one is false.
    fn negated(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Lt => Self::Ge,
            Self::Le => Self::Gt,
            Self::Gt => Self::Le,
            Self::Ge => Self::Lt,
        }
    }

    /// Gives the operator for the two sides exchanged.
    fn flipped(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            same => same,
        }
    }

    fn holds(self, left: &Operand, right: &Operand) -> Option<bool> {
        let order = left.partial_cmp(right)?;
        Some(match self {
            Self::Eq => order.is_eq(),
            Self::Ne => order.is_ne(),
            Self::Lt => order.is_lt(),
            Self::Le => order.is_le(),
            Self::Gt => order.is_gt(),
            Self::Ge => order.is_ge(),
        })
    }
}

/// One side of a comparison.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
pub enum Operand {
    /// A column of the alert.
    Column(Column),
    /// A finite number.
    Number(f64),
    /// Text.
    Text(String),
}

/// A condition in normal form.
#[derive(Clone, PartialEq, Debug)]
pub enum Condition {
    /// A column against a literal or another column of its type.
    Compare {
        /// The left side.
        column: Column,
        /// The comparison.
        op: Op,
        /// The right side.
        with: Operand,
    },
    /// A column in a list of at least two literals.
    In {
        /// The left side.
        column: Column,
        /// True for `!(column in [..])`.
        negated: bool,
        /// Sorted, without doubles.
        list: Vec<Operand>,
    },
    /// All of at least two conditions.
    All(Vec<Condition>),
    /// Any of at least two conditions.
    Any(Vec<Condition>),
}

impl Condition {
    /// Reads a condition in the filter language's syntax.
    ///
    /// # Errors
    /// Whatever is not a comparison of the indexed columns joined by `&& || ! in` and parentheses, with the place.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        parse::condition(text).map_err(|why| QueryError::value("where", text, why))
    }

    /// Evaluates the condition over an alert; `None` is undefined.
    pub fn eval(&self, alert: &AlertHeader) -> Option<bool> {
        match self {
            Self::Compare { column, op, with } => {
                let right = match with {
                    Operand::Column(column) => column.of(alert)?,
                    literal => literal.clone(),
                };
                op.holds(&column.of(alert)?, &right)
            }
            Self::In { column, negated, list } => {
                let value = column.of(alert)?;
                Some(list.contains(&value) != *negated)
            }
            Self::All(parts) => kleene(parts.iter().map(|part| part.eval(alert)), false),
            Self::Any(parts) => kleene(parts.iter().map(|part| part.eval(alert)), true),
        }
    }

    /// Gives all (or any) of the parts, flattened, sorted and without doubles.
    fn joined(parts: Vec<Self>, join: fn(Vec<Self>) -> Self, split: fn(Self) -> Result<Vec<Self>, Self>) -> Self {
        let flat = parts
            .into_iter()
            .flat_map(|part| split(part).unwrap_or_else(|whole| vec![whole]));
        let mut parts: Vec<(String, Self)> = flat.map(|part| (part.to_string(), part)).collect();
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        parts.dedup_by(|a, b| a.0 == b.0);
        let mut parts: Vec<Self> = parts.into_iter().map(|(_, part)| part).collect();
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => join(parts.into_iter().chain(last).collect()),
        }
    }

    fn all(parts: Vec<Self>) -> Self {
        Self::joined(parts, Self::All, |part| match part {
            Self::All(parts) => Ok(parts),
            other => Err(other),
        })
    }

    fn any(parts: Vec<Self>) -> Self {
        Self::joined(parts, Self::Any, |part| match part {
            Self::Any(parts) => Ok(parts),
            other => Err(other),
        })
    }

    /// Gives the condition that is true where this one is false, and undefined where it is.
    fn negated(self) -> Self {
        match self {
            Self::Compare { column, op, with } => Self::Compare {
                column,
                op: op.negated(),
                with,
            },
            Self::In { column, negated, list } => Self::In {
                column,
                negated: !negated,
                list,
            },
            Self::All(parts) => Self::any(parts.into_iter().map(Self::negated).collect()),
            Self::Any(parts) => Self::all(parts.into_iter().map(Self::negated).collect()),
        }
    }
}

/// Kleene's `or` when `decisive` is true, his `and` when it is false: one decisive part decides, else one undefined does.
fn kleene(parts: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut result = Some(!decisive);
    for part in parts {
        match part {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => f.write_str(column.name()),
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { column, op, with } => write!(f, "{} {} {with}", column.name(), op.text()),
            Self::In { column, negated, list } => {
                let list: Vec<String> = list.iter().map(Operand::to_string).collect();
                let test = format!("{} in [{}]", column.name(), list.join(", "));
                if *negated {
                    write!(f, "!({test})")
                } else {
                    f.write_str(&test)
                }
            }
            Self::All(parts) => join(f, parts, " && "),
            Self::Any(parts) => join(f, parts, " || "),
        }
    }
}

/// Writes parts of a list, each list inside it in parentheses.
fn join(f: &mut fmt::Formatter<'_>, parts: &[Condition], by: &str) -> fmt::Result {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            f.write_str(by)?;
        }
        match part {
            Condition::All(_) | Condition::Any(_) => write!(f, "({part})")?,
            _ => write!(f, "{part}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
