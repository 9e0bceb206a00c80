//! What can go wrong between us and the archive, in words that name the host and what to do, never the password.

use crate::error::{BoxError, ErrorClass};

/// Why the archive could not do what was asked.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The database URL is none: refused before any service was touched.
    #[error("the database URL is not usable: {why}; write it as `postgres://USER@HOST:PORT/DATABASE`")]
    Url {
        /// What is wrong with it; never repeats the URL, which may hold a password.
        why: String,
    },
    /// The server does not answer.
    #[error("the database at `{place}` cannot be reached: {cause}; start it, or name another with `--database-url`")]
    Unreachable {
        /// Host, port and database.
        place: String,
        /// The system's error.
        cause: sqlx::Error,
    },
    /// The server answers, and does not let us in.
    #[error("the database at `{place}` refuses the connection: {cause}; check user, password and database name")]
    Refused {
        /// Host, port and database.
        place: String,
        /// The server's message.
        cause: sqlx::Error,
    },
    /// The server is older than what the archive needs.
    #[error("the server at `{place}` is Postgres {found}; the archive needs Postgres 14 or newer")]
    TooOld {
        /// Host, port and database.
        place: String,
        /// The server's version.
        found: String,
    },
    /// The tables are not there, or of an earlier version.
    #[error(
        "the database at `{place}` is at schema version {found}, this program needs {needed}: run `alertstream migrate`"
    )]
    NotMigrated {
        /// Host, port and database.
        place: String,
        /// The version found; 0 when there are no tables.
        found: i64,
        /// The version needed.
        needed: i64,
    },
    /// The tables are of a later version than this program knows.
    #[error(
        "the database at `{place}` is at schema version {found}, this program knows {known}: use a newer `alertstream`"
    )]
    NewerSchema {
        /// Host, port and database.
        place: String,
        /// The version found.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// The database was restored into another cluster, whose transaction ids are others.
    #[error(
        "the database at `{place}` was restored from another cluster: run `alertstream migrate` to bind it to this one"
    )]
    RestoredElsewhere {
        /// Host, port and database.
        place: String,
    },
    /// A migration failed.
    #[error("the database at `{place}` could not be migrated: {cause}")]
    Migration {
        /// Host, port and database.
        place: String,
        /// What happened.
        cause: BoxError,
    },
    /// The database refuses this one packet, whatever is tried.
    #[error("the packet cannot be archived: {cause}")]
    Unstorable {
        /// Why.
        cause: String,
    },
    /// Something stored is not what was written.
    #[error("the archive is damaged: {what}")]
    Damaged {
        /// What was found.
        what: String,
    },
    /// A statement failed.
    #[error("the archive's database failed: {0}")]
    Database(#[from] sqlx::Error),
}

impl ArchiveError {
    /// Says what the error means for a stream.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unreachable { .. } => ErrorClass::Transient,
            Self::Database(error) if is_transient(error) => ErrorClass::Transient,
            Self::Unstorable { .. } => ErrorClass::Poison,
            _ => ErrorClass::Fatal,
        }
    }

    /// Whether it was refused before any service was touched (the command line's exit code 2).
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Url { .. })
    }
}

/// Whether trying the statement again, maybe on another connection, may help.
pub fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => true,
        // What sqlx raises when the server went away in the middle of a message.
        sqlx::Error::Protocol(_) => true,
        // 08 connection, 25P03 idle in transaction, 40 rollback, 53 resources, 55P03 lock, 57 operator (shutdown, time-out).
        sqlx::Error::Database(e) => e.code().is_some_and(|code| {
            ["08", "25P03", "40", "53", "55P03", "57"]
                .iter()
                .any(|class| code.starts_with(class))
        }),
        _ => false,
    }
}

/// Whether the database refuses what a row holds: 22 data, 23 integrity, 54 a limit of the program.
pub(super) fn is_refusal_of_content(error: &sqlx::Error) -> bool {
    let is_one = |code: &str| ["22", "23", "54"].iter().any(|class| code.starts_with(class));
    matches!(error, sqlx::Error::Database(e) if e.code().is_some_and(|code| is_one(&code)))
}
