//! A value that may be secret: a literal, or a reference to where it stands (`env:NAME`, `file:PATH`).
//!
//! Invariants: neither `Debug` nor an error ever shows the value, only the reference; a reference is read when it is
//! used, never when the configuration is. Must not know what the value is for.

use std::fmt;

use serde::Deserialize;

/// A secret, or where it is to be read.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Makes a secret from the text of the configuration: a literal, `env:NAME` or `file:PATH`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Gives the literal, if it is one and no reference.
    pub fn literal(&self) -> Option<&str> {
        (self.reference().is_none()).then_some(self.0.as_str())
    }

    /// Reads the value. A file's last line break is not part of it.
    ///
    /// # Errors
    /// The variable is not set, or the file cannot be read; the error names the reference.
    pub fn reveal(&self) -> Result<String, SecretError> {
        if let Some(name) = self.0.strip_prefix("env:") {
            return std::env::var(name).map_err(|_| SecretError::NotSet { name: name.to_owned() });
        }
        if let Some(path) = self.0.strip_prefix("file:") {
            let text = std::fs::read_to_string(path).map_err(|cause| SecretError::Unreadable {
                path: path.to_owned(),
                cause,
            })?;
            return Ok(text.trim_end_matches(['\n', '\r']).to_owned());
        }
        Ok(self.0.clone())
    }

    fn reference(&self) -> Option<&str> {
        (self.0.starts_with("env:") || self.0.starts_with("file:")).then_some(self.0.as_str())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.reference().unwrap_or("***"))
    }
}

/// Why a secret cannot be read.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The environment variable is not set.
    #[error("`env:{name}`: the environment variable `{name}` is not set; set it, or name another in the configuration")]
    NotSet {
        /// The variable.
        name: String,
    },
    /// The file cannot be read.
    #[error("`file:{path}`: {cause}; give the path of a readable file")]
    Unreadable {
        /// The path.
        path: String,
        /// What happened.
        cause: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_reference_and_never_the_value() {
        assert_eq!(format!("{:?}", Secret::new("postgres://u:pass@h/d")), "Secret(***)");
        assert_eq!(
            format!("{:?}", Secret::new("env:DATABASE_URL")),
            "Secret(env:DATABASE_URL)"
        );
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Secret::new("env:ALERTSTREAM_NEVER_SET").reveal().unwrap_err();
        assert!(error.to_string().contains("`ALERTSTREAM_NEVER_SET` is not set"));
    }

    #[test]
    fn a_file_is_read_without_its_last_line_break() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        assert_eq!(
            Secret::new(format!("file:{}", file.path().display())).reveal().unwrap(),
            "s3cret"
        );
    }
}
