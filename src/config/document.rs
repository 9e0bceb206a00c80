//! Reading a TOML document so that every problem is found at once, each with its line.
//!
//! How it works: serde stops at the first error, so the entry at fault is taken out of the parsed document and it is
//! read again, until nothing is wrong; for a missing entry that is required a value stands in, so that the table around it
//! is read too. Each round removes an entry or adds one of a fixed list, which bounds the rounds. Must not know what the
//! document means.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::nearest::nearest;

/// One thing that is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its line, from 1; `None` when something is missing.
    pub line: Option<usize>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// What a document says.
pub(super) struct Read<T> {
    /// The value; with problems it is what the rest of the document says, if that can be read at all.
    pub(super) value: Option<T>,
    /// What is wrong with it.
    pub(super) problems: Vec<Problem>,
    /// Paths of the entries that were taken out or stood in for: what lacks them is not at fault.
    pub(super) removed: Vec<Vec<String>>,
}

/// A required entry's name, and the value (in TOML) that stands in where it is missing.
pub(super) type StandIn = (&'static str, &'static str);

/// Where no entry of the document is.
const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

/// Reads a document.
pub(super) fn read<T: DeserializeOwned>(text: &str, stand_ins: &[StandIn]) -> Read<T> {
    let (mut root, syntax) = DeTable::parse_recoverable(text);
    let mut problems: Vec<Problem> = syntax.iter().map(|error| problem(text, &[], error)).collect();
    let mut removed: Vec<Vec<String>> = Vec::new();
    let mut stood_in: Vec<Vec<String>> = Vec::new();
    let mut value = None;
    while value.is_none() && syntax.is_empty() {
        let error = match T::deserialize(Deserializer::from(root.clone())) {
            Ok(read) => {
                value = Some(read);
                break;
            }
            Err(error) => error,
        };
        let path = error
            .span()
            .map(|span| path_to(root.get_ref(), &span))
            .unwrap_or_default();
        let missing = missing(error.message());
        let absent: Vec<String> = path.iter().cloned().chain(missing.map(str::to_owned)).collect();
        // A wrong entry that was taken out is then missing, which is no problem of its own.
        if missing.is_none() || !removed.contains(&absent) {
            problems.push(problem(text, &path, &error));
        }
        let stand_in = stand_ins.iter().find(|(name, _)| Some(*name) == missing);
        // Each stands in once: that bounds the rounds.
        if let Some(stand_in) = stand_in.filter(|_| !stood_in.contains(&absent))
            && insert(root.get_mut(), &path, stand_in)
        {
            removed.push(absent.clone());
            stood_in.push(absent);
            continue;
        }
        if error.span().and_then(|span| remove(root.get_mut(), &span)).is_none() {
            break;
        }
        // Nor is what a misspelt name was meant to be.
        if let Some((_, valid)) = misspelt(error.message()) {
            let above = path.get(..path.len().saturating_sub(1)).unwrap_or_default();
            removed.push(above.iter().cloned().chain([valid.to_owned()]).collect());
        }
        removed.push(path);
    }
    Read {
        value,
        problems,
        removed,
    }
}

/// Finds the line (from 1) of the entry at a dotted path, or of the nearest table above it.
pub(super) fn line_of(text: &str, path: &[&str]) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut found = None;
    for name in path {
        let Some((key, value)) = table.get_key_value(*name) else {
            break;
        };
        found = Some(line_at(text, key.span().start));
        let Some(below) = value.get_ref().as_table() else { break };
        table = below;
    }
    found
}

fn problem(text: &str, path: &[String], error: &toml::de::Error) -> Problem {
    let message = error.message();
    Problem {
        line: error.span().map(|span| line_at(text, span.start)),
        message: improve(message).unwrap_or_else(|| explain(path, &message.trim_end().replace('\n', ", "))),
    }
}

/// Gives the name of the entry that serde misses.
fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.trim_end().strip_suffix('`')
}

/// Says what serde says of the entry at a path in the words of the file.
fn explain(path: &[String], message: &str) -> String {
    let (Some(name), key) = (path.last(), path.join(".")) else {
        return message.to_owned();
    };
    if let Some(field) = missing(message) {
        return format!("[{key}] has no `{field}`; add it");
    }
    let mismatch = ["invalid type: ", "invalid value: "]
        .iter()
        .find_map(|kind| message.strip_prefix(kind)?.split_once(", expected "));
    match mismatch {
        Some((found, expected)) => format!("`{key}`: expected {}, found {}", wanted(expected), given(found)),
        None if message.contains(&format!("`{name}")) => message.to_owned(),
        None => format!("`{key}`: {message}"),
    }
}

/// What serde expected, in the words of the file.
fn wanted(expected: &str) -> String {
    let known = match expected {
        "u64" | "usize" => "a whole number, 0 or more",
        "u32" => "a whole number from 0 to 4294967295",
        "u16" => "a whole number from 0 to 65535",
        "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "text in quotes",
        "a boolean" => "`true` or `false`",
        "a sequence" => "a list, as `[\"..\"]`",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    known.to_owned()
}

/// What serde found, in the words of the file.
fn given(found: &str) -> String {
    match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => match found.split_once(['`', '"']) {
            Some(("string ", value)) => format!("text `\"{value}`"),
            Some((_, value)) => format!("`{value}"),
            None => found.to_owned(),
        },
    }
}

/// Gives an unknown key and the one that was probably meant.
fn misspelt(message: &str) -> Option<(&str, &str)> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let wrong = quoted.next()?;
    Some((wrong, nearest(wrong, quoted)?))
}

/// Makes of serde's list of what was expected the one name that was probably meant.
fn improve(message: &str) -> Option<String> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let kind = ["unknown field", "unknown variant"]
        .into_iter()
        .find(|kind| message.starts_with(kind))?;
    let wrong = quoted.next()?;
    let what = if kind == "unknown field" { "key" } else { "value" };
    let valid: Vec<&str> = quoted.collect();
    Some(match nearest(wrong, valid.iter().copied()) {
        Some(name) => format!("unknown {what} `{wrong}`; did you mean `{name}`?"),
        None if valid.is_empty() => format!("unknown {what} `{wrong}`; take it out"),
        None => format!("unknown {what} `{wrong}`; it is one of `{}`", valid.join("`, `")),
    })
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// Removes the innermost entry that covers `span`; gives its name.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let mut covering = entry_at(table, span);
    if let Some(name) = &covering {
        table.remove(name.as_str());
        return covering;
    }
    for (key, value) in table.iter_mut() {
        if let Some(name) = remove_below(value.get_mut(), span) {
            return Some(name);
        }
        if covers(&key.span(), span) || covers(&value.span(), span) {
            covering = Some(key.get_ref().to_string());
        }
    }
    covering.inspect(|name| drop(table.remove(name.as_str())))
}

/// Puts a value into the table at a path, where it has none of this name.
fn insert(root: &mut DeTable<'_>, path: &[String], (name, value): &StandIn) -> bool {
    let mut table = root;
    for part in path {
        match table.get_mut(part.as_str()).map(Spanned::get_mut) {
            Some(DeValue::Table(below)) => table = below,
            _ => return false,
        }
    }
    let Ok(value) = DeValue::parse(value) else {
        return false;
    };
    let name = Spanned::new(NOWHERE, Cow::Borrowed(*name));
    table.insert(name, Spanned::new(NOWHERE, value.into_inner())).is_none()
}

fn remove_below(value: &mut DeValue<'_>, span: &Range<usize>) -> Option<String> {
    match value {
        DeValue::Table(table) => remove(table, span),
        DeValue::Array(items) => items.iter_mut().find_map(|item| remove_below(item.get_mut(), span)),
        _ => None,
    }
}

/// The path of the innermost entry that covers `span`.
fn path_to(table: &DeTable<'_>, span: &Range<usize>) -> Vec<String> {
    let mut covering: Vec<String> = entry_at(table, span).into_iter().collect();
    if !covering.is_empty() {
        return covering;
    }
    for (key, value) in table {
        let below = path_below(value.get_ref(), span);
        if !below.is_empty() || covers(&key.span(), span) || covers(&value.span(), span) {
            covering = std::iter::once(key.get_ref().to_string())
                .chain(below.clone())
                .collect();
        }
        if !below.is_empty() {
            break;
        }
    }
    covering
}

/// The entry that stands exactly at `span`. A table that only headers of others name stands inside of these.
fn entry_at(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let found = table
        .iter()
        .find(|(key, value)| key.span() == *span || value.span() == *span);
    found.map(|(key, _)| key.get_ref().to_string())
}

fn path_below(value: &DeValue<'_>, span: &Range<usize>) -> Vec<String> {
    match value {
        DeValue::Table(table) => path_to(table, span),
        DeValue::Array(items) => items
            .iter()
            .map(|item| path_below(item.get_ref(), span))
            .find(|path| !path.is_empty())
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn covers(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Outer {
        workers: u32,
        inner: BTreeMap<String, Inner>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Inner {
        block_size: u32,
    }

    #[test]
    fn every_problem_is_found_with_its_line() {
        let text =
            "workrs = 1\nworkers = \"x\"\n[inner.a]\nblok_size = 3\nblock_size = 9\n[inner.b]\nblock_size = -1\n";
        let Read {
            value, mut problems, ..
        } = read::<Outer>(text, &[]);
        problems.sort_by_key(|problem| problem.line);
        let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [Some(1), Some(2), Some(4), Some(7)], "{problems:?}");
        assert_eq!(problems[0].message, "unknown key `workrs`; did you mean `workers`?");
        assert_eq!(
            problems[1].message,
            "`workers`: expected a whole number from 0 to 4294967295, found text `\"x\"`"
        );
        assert_eq!(
            problems[3].message,
            "`inner.b.block_size`: expected a whole number from 0 to 4294967295, found `-1`"
        );
        assert_eq!(
            problems[2].message,
            "unknown key `blok_size`; did you mean `block_size`?"
        );
        assert_eq!(value.unwrap().inner["a"].block_size, 9);
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        let Read { value, problems, .. } = read::<Outer>("workers = 1\nworkers 2\n", &[]);
        assert!(value.is_none());
        assert_eq!(problems[0].line, Some(2));
    }

    #[test]
    fn the_line_of_a_path_is_that_of_the_nearest_entry() {
        let text = "workers = 1\n\n[inner.a]\nblock_size = 3\n";
        assert_eq!(line_of(text, &["inner", "a", "block_size"]), Some(4));
        assert_eq!(line_of(text, &["inner", "a", "absent"]), Some(3));
        assert_eq!(line_of(text, &["absent"]), None);
    }
}
