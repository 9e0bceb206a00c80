//! The function `matches`: a text against a regular expression, compiled once per thread and not once per alert.
//!
//! Invariants: time is linear in the text, and a pattern's program is bounded; a thread keeps at most [`KEPT`] patterns.
//! Must not know packets.

use std::cell::RefCell;

use cel::common::types::{CelBool, CelString};
use cel::{Env, ExecutionError};
use regex::{Regex, RegexBuilder};

/// The name under which the expression calls it; the language's own compiles its pattern at every call.
pub(super) const NAME: &str = "matchesPattern";

const KEPT: usize = 32;
const PROGRAM_MAX: usize = 1 << 20;

thread_local! {
    static COMPILED: RefCell<Vec<(String, Regex)>> = const { RefCell::new(Vec::new()) };
}

/// Compiles a pattern.
///
/// # Errors
/// What is wrong with it, in one line.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(pattern).size_limit(PROGRAM_MAX).build();
    compiled.map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        last.trim_start_matches("error: ").to_owned()
    })
}

/// Adds the function to an environment.
pub(super) fn add(env: &mut Env) -> Result<(), cel::DeclarationError> {
    cel::add_overload!(env, fn is_match: (CelString, CelString) -> Result<CelBool>, name = NAME, id = "text_matches_pattern")?;
    cel::add_member_overload!(env, fn is_match: (CelString, CelString) -> Result<CelBool>, name = NAME)
}

fn is_match(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    COMPILED.with_borrow_mut(|compiled| {
        let (text, pattern) = (text.inner(), pattern.inner());
        if let Some((_, known)) = compiled.iter().find(|(known, _)| known == pattern) {
            return Ok(CelBool::from(known.is_match(text)));
        }
        let regex = compile(pattern).map_err(|message| ExecutionError::FunctionError {
            function: "matches".into(),
            message,
        })?;
        let answer = regex.is_match(text);
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        compiled.push((pattern.to_owned(), regex));
        Ok(CelBool::from(answer))
    })
}
