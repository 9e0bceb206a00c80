//! Where a command writes: results to stdout, everything else to stderr.
//!
//! Invariants: under `--json` stdout holds one JSON object a line and nothing else; a reader that went away ends a
//! listing quietly. Must not know any command.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::error::{CliError, CliResult};

/// Whether the person asked for errors alone (`--quiet`): one setting of the process, made before anything is written.
static QUIET: AtomicBool = AtomicBool::new(false);

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Aligned text for a person.
    Text,
    /// One JSON object a line.
    Json,
}

/// Writes one result: the JSON object, or the text that `text` makes of it.
///
/// # Errors
/// stdout cannot be written.
pub(super) fn result<T: Serialize>(format: Format, value: &T, text: impl FnOnce(&T) -> String) -> CliResult<()> {
    match format {
        Format::Json => {
            let line = serde_json::to_string(value).map_err(|e| CliError::failed("internal", e))?;
            stdout(&(line + "\n"))
        }
        Format::Text => stdout(&text(value)),
    }
}

/// Writes what a command did: the JSON object to stdout, or the text that `text` makes of it to stderr.
///
/// # Errors
/// stdout cannot be written.
pub(super) fn summary<T: Serialize>(format: Format, value: &T, text: impl FnOnce(&T) -> String) -> CliResult<()> {
    match format {
        Format::Json => result(format, value, text),
        Format::Text => {
            if !QUIET.load(Ordering::Relaxed) {
                complain(&text(value));
            }
            Ok(())
        }
    }
}

/// Writes text to stdout at once.
///
/// # Errors
/// stdout cannot be written; a reader that went away is none.
pub(super) fn stdout(text: &str) -> CliResult<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::failed("output", format!("stdout cannot be written: {error}"))),
    }
}

/// From now on says only what went wrong.
pub(super) fn keep_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Writes a line to stderr unless all is to be quiet; what cannot be written there is lost.
pub(super) fn say(line: impl std::fmt::Display) {
    if !QUIET.load(Ordering::Relaxed) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}

/// Writes text to stderr at once; what cannot be written there is lost.
pub(super) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Tells whether a person watches stderr.
pub(super) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Tells whether a person watches stdout.
pub(super) fn is_stdout_watched() -> bool {
    io::stdout().is_terminal()
}

/// Writes `name  value` lines, the values aligned.
pub(super) fn aligned(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter()
        .map(|(name, value)| format!("{name:width$}  {value}\n"))
        .collect()
}

/// Writes a table with a head; columns are as wide as their widest cell, the last one is not padded.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, width) in cells.zip(&widths) {
            text.push_str(cell);
            text.push_str(&" ".repeat(width - cell.chars().count() + 2));
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// Writes a count of bytes for a person, e.g. `2.1 MB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if unit == "B" {
        format!("{count} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let text = table(&["name", "state"], &[vec!["a-long-name".into(), "ready".into()]]);
        assert_eq!(text, "name         state\na-long-name  ready\n");
    }

    #[test]
    fn byte_counts_are_short() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(2_147_000), "2.1 MB");
    }
}
