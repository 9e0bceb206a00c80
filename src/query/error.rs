//! Why a query was refused: one enum, each error naming the flag, the value and what to do.

use std::path::PathBuf;

use crate::nearest::nearest;

/// A refused query. Nothing was touched: on the command line this is exit code 2.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// A value that its flag does not take.
    #[error("`--{flag}` does not take `{value}`: {why}")]
    Value {
        /// The flag's name, without dashes.
        flag: &'static str,
        /// The value as it was written.
        value: String,
        /// What is wrong and what to write instead.
        why: String,
    },
    /// A list or region without anything in it.
    #[error("`--{flag}` is empty: name at least one, or leave the flag out")]
    Empty {
        /// The flag's name, without dashes.
        flag: &'static str,
    },
    /// Two flags that have nothing in common.
    #[error("`--{flag}` has nothing in common with the flags beside it: no alert can match; widen or drop one")]
    Disjoint {
        /// The flag whose value left nothing.
        flag: &'static str,
    },
    /// A name that is no flag of a query.
    #[error("`{key}` is no part of a query: {}", meant(key))]
    UnknownKey {
        /// The name as it was written.
        key: String,
    },
    /// No flag at all.
    #[error("no query was given: say which alerts (e.g. `--night 2018-08-19`), or `--all` for every alert")]
    Missing,
    /// `--all` beside other flags.
    #[error("`--all` stands alone, but `--{beside}` is beside it: drop one of the two")]
    AllBesideOthers {
        /// Another flag that was given.
        beside: &'static str,
    },
    /// A file named by `--moc` or `--candid @FILE` that cannot be read or is not what it should be.
    #[error("`--{flag}`: file `{}`: {why}", path.display())]
    File {
        /// The flag's name, without dashes.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
}

impl QueryError {
    /// Writes the error for a person who wrote a table of a file, not flags: a part is named as its key.
    pub fn in_a_table(&self) -> String {
        let text = self.to_string();
        let mut parts = text.split("`--");
        let mut said = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (flag, rest) = part.split_at(part.find(['`', ' ']).unwrap_or(part.len()));
            said.push('`');
            said.push_str(&flag.replace('-', "_"));
            // What a flag is given after a blank, a key is given in quotes.
            match rest.strip_prefix(' ').and_then(|rest| rest.split_once('`')) {
                Some((value, rest)) => said.push_str(&format!(" = \"{value}\"`{rest}")),
                None if flag == "all" => said.push_str(&format!(" = true{rest}")),
                None => said.push_str(rest),
            }
        }
        said
    }

    /// Gives the part of the query that is at fault, if it is one.
    pub fn part(&self) -> Option<&str> {
        match self {
            Self::Value { flag, .. } | Self::Empty { flag } | Self::Disjoint { flag } | Self::File { flag, .. } => {
                Some(flag)
            }
            Self::UnknownKey { key } => Some(key),
            Self::Missing | Self::AllBesideOthers { .. } => None,
        }
    }

    /// Makes the error of a value that its flag does not take.
    pub(crate) fn value(flag: &'static str, value: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Value {
            flag,
            value: shortened(value.into()),
            why: why.into(),
        }
    }
}

/// Keeps a message readable when the value is a long list.
fn shortened(value: String) -> String {
    match value.char_indices().nth(200) {
        Some((cut, _)) => format!("{}..", value.get(..cut).unwrap_or_default()),
        None => value,
    }
}

fn meant(key: &str) -> String {
    match nearest(key, super::text::KEYS) {
        Some(known) => format!("the nearest valid name is `{known}`"),
        None => format!("valid names are {}", super::text::KEYS.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_of_keys_and_a_command_line_of_flags() {
        let wrong = QueryError::value("jd", "x", "write Julian dates, as `1..2`");
        assert_eq!(
            wrong.to_string(),
            "`--jd` does not take `x`: write Julian dates, as `1..2`"
        );
        assert_eq!(
            wrong.in_a_table(),
            "`jd` does not take `x`: write Julian dates, as `1..2`"
        );
        let missing = QueryError::Missing.in_a_table();
        assert_eq!(
            missing,
            "no query was given: say which alerts (e.g. `night = \"2018-08-19\"`), or `all = true` for every alert"
        );
        let beside = QueryError::AllBesideOthers {
            beside: "latest_per_object",
        }
        .in_a_table();
        assert!(
            beside.starts_with("`all = true` stands alone, but `latest_per_object` is beside it"),
            "{beside}"
        );
    }
}
