//! From words to a condition: recursive descent with the filter language's precedence, comparison over `&&` over `||`.
//!
//! Invariant: depth and length are bounded, so no text exhausts the stack.

use super::token::{Token, tokens};
use super::{Column, Condition, Op, Operand};
use crate::nearest::nearest;
use crate::query::BANDS;

/// Longest condition, characters.
const LENGTH_MAX: usize = 20_000;
/// Deepest nesting of parentheses and `!`.
const DEPTH_MAX: usize = 50;

/// What this language is, for errors.
const FORM: &str = "a condition compares magnitude, rb, drb, ndethist, programid or band, as `magnitude < 19.5 && band in [\"g\", \"r\"]`";

/// Reads a condition; the error says what is wrong, where, and what to write.
pub(super) fn condition(text: &str) -> Result<Condition, String> {
    if text.trim().is_empty() {
        return Err(format!("it is empty; {FORM}"));
    }
    if text.len() > LENGTH_MAX {
        return Err(format!("it is longer than {LENGTH_MAX} characters"));
    }
    let tokens = tokens(text)?;
    let mut words = Words {
        tokens,
        next: 0,
        depth: 0,
    };
    let condition = words.any()?;
    match words.tokens.get(words.next) {
        None => Ok(condition),
        Some(_) => Err(words.unexpected("`&&`, `||` or the end")),
    }
}

struct Words {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

impl Words {
    fn any(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.all()?];
        while self.take("||") {
            parts.push(self.all()?);
        }
        Ok(Condition::any(parts))
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.unary()?];
        while self.take("&&") {
            parts.push(self.unary()?);
        }
        Ok(Condition::all(parts))
    }

    /// A comparison, a condition in parentheses, or either under `!`.
    fn unary(&mut self) -> Result<Condition, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        let condition = if self.take("!") {
            if matches!(self.peek(), Some(Token::Sign("!" | "("))) {
                self.unary()?.negated()
            } else {
                return Err(self.unexpected("a condition in parentheses, as in `!(rb < 0.5)`,"));
            }
        } else if self.take("(") {
            let inside = self.any()?;
            self.expect(")")?;
            inside
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Condition, String> {
        let left = self.operand()?;
        if self.peek() == Some(&Token::Name("in".into())) {
            self.next += 1;
            return self.membership(left);
        }
        const OPS: [Op; 6] = [Op::Eq, Op::Ne, Op::Le, Op::Ge, Op::Lt, Op::Gt];
        let Some(op) = OPS.into_iter().find(|op| self.take(op.text())) else {
            return Err(self.unexpected("a comparison (`== != < <= > >= in`)"));
        };
        let right = self.operand()?;
        if OPS.iter().any(|op| self.peek() == Some(&Token::Sign(op.text()))) {
            return Err(self.unexpected("`&&`: comparisons do not chain, write `a < b && b < c`;"));
        }
        compare(left, op, right)
    }

    fn membership(&mut self, left: Operand) -> Result<Condition, String> {
        let Operand::Column(column) = left else {
            return Err(format!("`{left} in ..` must begin with a column"));
        };
        self.expect("[")?;
        let mut list = vec![self.operand()?];
        while self.take(",") {
            list.push(self.operand()?);
        }
        self.expect("]")?;
        for item in &list {
            if matches!(item, Operand::Column(_)) {
                return Err(format!("a list holds numbers or text, not `{item}`"));
            }
            check(column, Op::Eq, item)?;
        }
        // Numbers are finite and a list is of one type, so every two compare.
        list.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        list.dedup();
        match list.pop() {
            Some(with) if list.is_empty() => Ok(Condition::Compare {
                column,
                op: Op::Eq,
                with,
            }),
            last => Ok(Condition::In {
                column,
                negated: false,
                list: list.into_iter().chain(last).collect(),
            }),
        }
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let negative = self.take("-");
        let operand = match self.peek() {
            Some(Token::Number(number)) => Operand::Number(if negative { 0.0 - *number } else { *number }),
            Some(Token::Text(text)) if !negative => Operand::Text(text.clone()),
            Some(Token::Name(name)) if !negative => Operand::Column(column(name)?),
            _ => return Err(self.unexpected("a column, a number or text in quotes")),
        };
        self.next += 1;
        Ok(operand)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn take(&mut self, sign: &'static str) -> bool {
        let there = self.peek() == Some(&Token::Sign(sign));
        self.next += usize::from(there);
        there
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        if self.take(sign) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{sign}`")))
        }
    }

    fn unexpected(&self, wanted: &str) -> String {
        let found = match self.tokens.get(self.next) {
            None => "the end".to_owned(),
            Some((at, Token::Name(word))) => format!("`{word}` at character {at}"),
            Some((at, Token::Number(number))) => format!("`{number}` at character {at}"),
            Some((at, Token::Text(text))) => format!("`\"{text}\"` at character {at}"),
            Some((at, Token::Sign(sign))) => format!("`{sign}` at character {at}"),
        };
        format!("expected {wanted} but found {found}; {FORM}")
    }
}

fn column(name: &str) -> Result<Column, String> {
    if let Some(column) = Column::ALL.into_iter().find(|column| column.name() == name) {
        return Ok(column);
    }
    if name == "null" {
        return Err("a comparison with null is always undefined and would select nothing".into());
    }
    let nearest = nearest(name, Column::ALL.into_iter().map(Column::name))
        .map(|known| format!(" (did you mean `{known}`?)"))
        .unwrap_or_default();
    Err(format!(
        "`{name}` is no indexed column{nearest}; {FORM}; `run --filter` takes any field of the packet"
    ))
}

/// Makes a comparison with a column on its left side.
fn compare(left: Operand, op: Op, right: Operand) -> Result<Condition, String> {
    let (column, op, with) = match (left, right) {
        (Operand::Column(a), Operand::Column(b)) if b < a => (b, op.flipped(), Operand::Column(a)),
        (Operand::Column(column), with) => (column, op, with),
        (with, Operand::Column(column)) => (column, op.flipped(), with),
        (left, right) => return Err(format!("`{left} {} {right}` compares no column; {FORM}", op.text())),
    };
    check(column, op, &with)?;
    Ok(Condition::Compare { column, op, with })
}

/// Refuses what cannot be compared, and bands that do not exist.
fn check(column: Column, op: Op, with: &Operand) -> Result<(), String> {
    let name = column.name();
    match (column, with) {
        (Column::Band, _) if !matches!(op, Op::Eq | Op::Ne) => {
            Err("`band` has no order: use `==`, `!=` or `in`".into())
        }
        (Column::Band, Operand::Text(band)) if BANDS.contains(&band.as_str()) => Ok(()),
        (Column::Band, Operand::Text(band)) => {
            Err(format!("there is no band `{band}`: bands are {}", BANDS.join(", ")))
        }
        (Column::Band, other) | (_, other @ (Operand::Text(_) | Operand::Column(Column::Band))) => Err(format!(
            "`{name}` cannot be compared with `{other}`: band is text, the other columns are numbers"
        )),
        (_, Operand::Column(other)) if *other == column => Err(format!("`{name}` is compared with itself")),
        _ => Ok(()),
    }
}
