//! Filters: expressions of the Common Expression Language over the header and the packet.
//!
//! How it works: the expression is parsed once, every name becomes a numbered slot (`rewrite`), and per writer schema the
//! slots become places of one early-stopping walk, so that a filter on three fields decodes three fields. A name whose
//! value is null, absent, NaN or infinite does not resolve; CEL's own rules for errors in `&&`, `||`, `!` and `? :` then
//! are three-valued logic, and an error that reaches the top means undefined: not selected, and counted.
//!
//! Invariants: a name that no schema has is refused at compile time. Must not know streams, queues or SQL.

mod fields;
mod matches;
mod names;
mod rewrite;

use std::sync::Arc;

use cel::common::types::CelBool;
use cel::{Context, Env, Value};
use parking_lot::RwLock;

use crate::decode::packet::{Compiled, Packet};
use fields::{Fields, Places};
use rewrite::Source;

pub use names::{Names, Type};

/// A compiled filter; shared by all workers.
pub struct Filter {
    text: String,
    expression: cel::IdedExpr,
    sources: Vec<Source>,
    env: Arc<Env>,
    /// The places of the sources per writer schema; bounded by [`SCHEMAS_MAX`].
    places: RwLock<Vec<(Arc<Compiled>, Arc<Places>)>>,
}

const SCHEMAS_MAX: usize = 64;

/// What a filter says of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// The expression is true.
    Selected,
    /// The expression is false.
    NotSelected,
    /// The expression has no truth value: something in it is null, absent or NaN. Not selected, and counted.
    Undefined,
}

/// Why a filter was refused.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The text is no CEL expression.
    #[error("the filter `{text}` cannot be read: {cause}")]
    Syntax {
        /// The filter.
        text: String,
        /// What the parser says.
        cause: String,
    },
    /// No schema has a field of this name.
    #[error("the filter names `{name}`, which no schema has{}", hint(.nearest.as_deref()))]
    UnknownName {
        /// The name.
        name: String,
        /// The valid name that is most like it.
        nearest: Option<String>,
    },
    /// No function has this name.
    #[error("the filter calls `{name}`, which is no function{}", hint(.nearest.as_deref()))]
    UnknownFunction {
        /// The name.
        name: String,
        /// The valid name that is most like it.
        nearest: Option<String>,
    },
    /// Two things are combined that can never be.
    #[error("the filter {cause}")]
    Types {
        /// Which two, and what to write instead.
        cause: String,
    },
    /// The filter names more fields than one walk reads.
    #[error("the filter names `{names}` fields, at most {most} can be read; split it")]
    TooManyNames {
        /// How many it names.
        names: usize,
        /// How many it may name.
        most: usize,
    },
}

fn hint(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; the nearest is `{name}`"))
}

impl Filter {
    /// Compiles a filter; every name in it must be one of `names`.
    ///
    /// # Errors
    /// [`FilterError`], which says what to change.
    ///
    /// # Examples
    /// ```
    /// use alertstream::filter::{Filter, Names};
    /// let filter = Filter::compile("magnitude < 19.5 && candidate.distpsnr1 > 2.0", &Names::bundled())?;
    /// assert!(Filter::compile("magnitud < 19.5", &Names::bundled()).is_err());
    /// # Ok::<(), alertstream::filter::FilterError>(())
    /// ```
    pub fn compile(text: &str, names: &Names) -> Result<Self, FilterError> {
        let parsed = cel::parser::Parser::new().parse(text);
        let mut expression = parsed.map_err(|errors| FilterError::Syntax {
            text: text.to_owned(),
            cause: first_line(&errors.to_string()),
        })?;
        let sources = rewrite::rewrite(&mut expression, names)?;
        let mut env = Env::stdlib();
        matches::add(&mut env).map_err(|error| FilterError::Syntax {
            text: text.to_owned(),
            cause: error.to_string(),
        })?;
        let env = Arc::new(env);
        Ok(Self {
            text: text.to_owned(),
            expression,
            sources,
            env,
            places: RwLock::new(Vec::new()),
        })
    }

    /// Gives the filter as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates the filter for a packet.
    pub fn select(&self, packet: &Packet) -> Selection {
        let places = self.places(packet.compiled());
        let fields = Fields::read(packet, &self.sources, &places);
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.set_variable_resolver(&fields);
        let result = Value::resolve_val(&self.expression, &context);
        match result
            .ok()
            .as_ref()
            .and_then(|value| value.downcast_ref::<CelBool>())
            .map(|b| *b.inner())
        {
            Some(true) => Selection::Selected,
            Some(false) => Selection::NotSelected,
            None => Selection::Undefined,
        }
    }

    fn places(&self, compiled: &Arc<Compiled>) -> Arc<Places> {
        let known = |list: &[(Arc<Compiled>, Arc<Places>)]| {
            list.iter()
                .find(|(schema, _)| Arc::ptr_eq(schema, compiled))
                .map(|(_, places)| Arc::clone(places))
        };
        if let Some(places) = known(&self.places.read()) {
            return places;
        }
        let places = Arc::new(Places::new(&compiled.plan, &self.sources));
        let mut list = self.places.write();
        if list.len() >= SCHEMAS_MAX {
            list.clear();
        }
        list.push((Arc::clone(compiled), Arc::clone(&places)));
        places
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Filter").field(&self.text).finish()
    }
}

/// The parser repeats the source under its message; the message is enough.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("ERROR: ").replace("<input>:", "at ").to_owned()
}

#[cfg(test)]
mod tests;
