//! Log lines on stderr. Must not know any command.

use tracing_subscriber::EnvFilter;

use super::error::{CliError, CliResult};
use super::{Globals, LogFormat};

/// Starts logging: warnings and errors, more with `-v`, less with `-q`; `RUST_LOG` overrides.
///
/// What sqlx says of its pool comes with `-v` only: a command that fails for it tells it as its own error.
pub(super) fn start(globals: &Globals) -> CliResult<()> {
    let level = match (globals.quiet, globals.verbose) {
        (true, _) => "error,sqlx=off",
        (false, 0) => "warn,sqlx=error",
        (false, 1) => "info,sqlx=warn",
        (false, 2) => "debug,sqlx=info",
        (false, _) => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match globals.log_format {
        LogFormat::Text => lines.with_ansi(super::output::is_watched()).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    started.map_err(|e| CliError::failed("internal", format!("logging cannot be started: {e}")))
}
