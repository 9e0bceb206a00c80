//! How a command fails: the exit code, and one message that names the value and says what to do.
//!
//! Invariants: a message is one sentence in lower case, the hint another; neither ever holds a secret or a backtrace.
//! Every exit code of the program is an [`Exit`]. Must not know which command failed.

use std::fmt::Display;

use serde::Serialize;

use crate::archive::ArchiveError;
use crate::archive::groups::GroupError;
use crate::pipeline::PipelineError;

/// The program's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: finished, also with dead letters, and after one signal with the commit confirmed.
    Finished,
    /// 1: failed; a service unreachable, a failed group, every `--strict` case.
    Failed,
    /// 2: refused before any service was touched.
    Refused,
    /// 3: finished, but a commit could not be confirmed: those alerts will be delivered again.
    Unconfirmed,
    /// 130: a second signal.
    SecondSignal,
}

impl Exit {
    /// Gives the number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Failed => 1,
            Self::Refused => 2,
            Self::Unconfirmed => 3,
            Self::SecondSignal => 130,
        }
    }
}

/// Why a command did not finish.
#[derive(Clone, Debug)]
pub struct CliError {
    exit: Exit,
    class: &'static str,
    message: String,
    hint: Option<String>,
}

/// What a command gives.
pub type CliResult<T = Exit> = Result<T, CliError>;

impl CliError {
    /// Refuses the command line or the configuration (exit 2); `class` is `usage`, `config`, `query` or `path`.
    pub fn refused(class: &'static str, message: impl Display) -> Self {
        Self {
            exit: Exit::Refused,
            class,
            message: message.to_string(),
            hint: None,
        }
    }

    /// Says that the command failed (exit 1).
    pub fn failed(class: &'static str, message: impl Display) -> Self {
        Self {
            exit: Exit::Failed,
            class,
            message: message.to_string(),
            hint: None,
        }
    }

    /// Says that the last commit could not be confirmed (exit 3).
    pub fn unconfirmed(message: impl Display) -> Self {
        Self {
            exit: Exit::Unconfirmed,
            class: "unconfirmed",
            message: message.to_string(),
            hint: None,
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Gives the message without its hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Gives the exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Writes the error for a person: the message, then the hint on its own line.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("error: {}\n  hint: {hint}\n", self.message),
            None => format!("error: {}\n", self.message),
        }
    }

    /// Writes the error for a program: one line of JSON.
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            error: Body<'a>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            class: &'a str,
            message: &'a str,
            hint: Option<&'a str>,
        }
        let body = Body {
            class: self.class,
            message: &self.message,
            hint: self.hint.as_deref(),
        };
        match serde_json::to_string(&Line { error: body }) {
            Ok(line) => line + "\n",
            Err(_) => String::from("{\"error\":{\"class\":\"internal\",\"message\":\"unprintable\",\"hint\":null}}\n"),
        }
    }
}

impl From<ArchiveError> for CliError {
    fn from(error: ArchiveError) -> Self {
        match &error {
            usage if usage.is_usage() => Self::refused("usage", usage),
            ArchiveError::Unreachable { .. } => Self::failed("unreachable", error),
            ArchiveError::NotMigrated { .. } | ArchiveError::RestoredElsewhere { .. } => {
                // Its last clause says what to do: that is the hint.
                let text = error.to_string();
                match text.rsplit_once(": ") {
                    Some((message, hint)) => Self::failed("not_migrated", message).hint(hint),
                    None => Self::failed("not_migrated", text),
                }
            }
            _ => Self::failed("database", error),
        }
    }
}

impl From<GroupError> for CliError {
    fn from(error: GroupError) -> Self {
        match &error {
            GroupError::BadName { .. } => Self::refused("usage", error),
            GroupError::Database(_) => Self::failed("database", error),
            _ => Self::failed("group", error),
        }
    }
}

impl From<PipelineError> for CliError {
    fn from(error: PipelineError) -> Self {
        match &error {
            lost if lost.is_unconfirmed() => {
                Self::unconfirmed(lost).hint("what was not confirmed is delivered again: start it once more")
            }
            PipelineError::SchemasMissing { .. } => Self::failed("schema", error)
                .hint("see that the registry answers (`alertstream doctor`) and has them, and start it once more"),
            PipelineError::Source(_) => Self::failed("source", error),
            _ => Self::failed("processor", error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_said_once() {
        let place = "localhost:5432/alerts".to_owned();
        let error = ArchiveError::NotMigrated {
            place,
            found: 0,
            needed: 5,
        };
        let text = CliError::from(error).text();
        assert_eq!(text.matches("alertstream migrate").count(), 1, "{text}");
        assert!(text.ends_with("\n  hint: run `alertstream migrate`\n"), "{text}");
    }

    #[test]
    fn json_has_class_message_and_hint() {
        let error = CliError::refused("usage", "`--every 0`").hint("give 1 or more");
        let line: serde_json::Value = serde_json::from_str(&error.json()).unwrap();
        assert_eq!(line["error"]["class"], "usage");
        assert_eq!(line["error"]["message"], "`--every 0`");
        assert_eq!(line["error"]["hint"], "give 1 or more");
        assert_eq!(error.exit().code(), 2);
    }
}
