//! Where results go: the ndjson sink, and the handler that filters and writes.
//!
//! Invariants: a line is written whole, in one write, and flushed before its alert is acknowledged; a start that finds
//! the file without a final line break writes one first, so a kill leaves at most one torn line, on which no
//! acknowledged alert depends. Must not know of streams, sources or the pool's inside.
//!
//! How it works: one named thread owns the file and does all writing, because a pipe whose reader pauses would
//! otherwise block the async threads, and with them the heartbeats of held blocks. Handlers hand it finished lines
//! over a bounded channel and wait for the answer. The thread ends when the last handle is dropped.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::decode::packet::Packet;
use crate::filter::Names;
use crate::record::{Position, SourceId};

/// Lines that may wait for the writing thread; each belongs to a worker, which waits for its answer.
const WAITING_LINES: usize = 1024;

/// The fields of a line unless `fields` says otherwise.
pub const DEFAULT_FIELDS: [&str; 12] = [
    "survey",
    "object_id",
    "alert_id",
    "jd",
    "ra",
    "dec",
    "programid",
    "band",
    "magnitude",
    "source",
    "position",
    "attempt",
];

/// The fields of a line that are the delivery's, not the alert's.
const OF_DELIVERY: [&str; 3] = ["source", "position", "attempt"];

/// `[sink]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SinkConfig {
    /// What kind of sink.
    pub kind: SinkKind,
    /// The file; `-` is stdout.
    pub path: String,
    /// Header fields, or any field of the packet by its path; [`DEFAULT_FIELDS`] when not given.
    pub fields: Option<Vec<String>>,
}

/// The kinds of sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SinkKind {
    /// One JSON object a line.
    Ndjson,
    /// Nothing is written.
    None,
}

impl Default for SinkConfig {
    fn default() -> Self {
        Self {
            kind: SinkKind::Ndjson,
            path: "-".into(),
            fields: None,
        }
    }
}

impl SinkConfig {
    /// Whether the sink writes to stdout.
    pub fn is_stdout(&self) -> bool {
        self.kind == SinkKind::Ndjson && self.path == "-"
    }

    /// Gives every problem of the table: its key and a sentence.
    pub fn validate(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if self.path.is_empty() {
            let said = "`path` cannot be empty; name a file, or `-` for stdout";
            problems.push(("path", said.into()));
        }
        match &self.fields {
            Some(fields) if fields.is_empty() => {
                let said = "`fields` is an empty list; name fields, or take it out for the usual ones";
                problems.push(("fields", said.into()));
            }
            Some(fields) if fields.iter().any(String::is_empty) => {
                problems.push(("fields", "`fields` holds an empty name; name a field".into()));
            }
            _ => {}
        }
        problems
    }

    /// Gives a problem for each of `fields` that no alert can have, with the nearest name.
    pub fn unknown_fields(&self, names: &Names) -> Vec<String> {
        let known = |name: &str| OF_DELIVERY.contains(&name) || names.knows(name);
        let unknown = self.fields.iter().flatten();
        unknown
            .filter(|name| !name.is_empty() && !known(name))
            .map(|name| {
                let hint = names.nearest_or(name, &OF_DELIVERY).map_or(
                    "name a field of the header, or of the packet by its path".into(),
                    |close| format!("did you mean `{close}`?"),
                );
                format!("`fields`: no alert has a `{name}`; {hint}")
            })
            .collect()
    }
}

/// Why a sink cannot be used.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The file cannot be opened for appending.
    #[error("sink `{path}` cannot be written: {cause}")]
    Open {
        /// The path.
        path: String,
        /// What happened.
        cause: io::Error,
    },
    /// A line could not be written.
    #[error("sink `{path}`: a line could not be written: {cause}")]
    Write {
        /// The path.
        path: String,
        /// What happened.
        cause: io::Error,
    },
    /// The reader of the pipe went away.
    #[error("sink `{path}`: its reader went away")]
    ReaderGone {
        /// The path.
        path: String,
    },
}

/// Where the alert of a line came from.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The source's name.
    pub source: &'a SourceId,
    /// Where the alert stands.
    pub position: &'a Position,
    /// The delivery's number in its epoch, from 1.
    pub attempt: u32,
}

/// Where selected alerts go; shared by all workers.
#[derive(Debug)]
pub enum Sink {
    /// One JSON object a line.
    Ndjson(Ndjson),
    /// Nothing is written.
    None,
}

impl Sink {
    /// Opens the sink.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(config: &SinkConfig) -> Result<Self, SinkError> {
        match config.kind {
            SinkKind::None => Ok(Self::None),
            SinkKind::Ndjson => Ndjson::open(config).map(Self::Ndjson),
        }
    }

    /// Writes an alert and flushes it.
    ///
    /// # Errors
    /// The line could not be written whole.
    ///
    /// # Cancel safety
    /// Dropped half-way, the line may still be written.
    pub async fn write(&self, alert: &Packet, place: &Place<'_>) -> Result<(), SinkError> {
        match self {
            Self::Ndjson(sink) => sink.append(sink.line(alert, place)).await,
            Self::None => Ok(()),
        }
    }
}

/// The ndjson sink.
#[derive(Debug)]
pub struct Ndjson {
    path: String,
    fields: Vec<String>,
    lines: mpsc::Sender<Line>,
}

struct Line {
    bytes: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl Ndjson {
    fn open(config: &SinkConfig) -> Result<Self, SinkError> {
        let path = config.path.clone();
        let fail = |cause| SinkError::Open {
            path: path.clone(),
            cause,
        };
        let out: Box<dyn Write + Send> = match config.path.as_str() {
            "-" => Box::new(io::stdout()),
            file => Box::new(append_to(Path::new(file)).map_err(fail)?),
        };
        let (lines, waiting) = mpsc::channel(WAITING_LINES);
        std::thread::Builder::new()
            .name("sink".into())
            .spawn(move || write_lines(out, waiting))
            .map_err(fail)?;
        let fields = match &config.fields {
            Some(fields) => fields.clone(),
            None => DEFAULT_FIELDS.map(str::to_owned).to_vec(),
        };
        Ok(Self { path, fields, lines })
    }

    fn line(&self, alert: &Packet, place: &Place<'_>) -> Vec<u8> {
        let mut line = String::from("{");
        for name in &self.fields {
            let comma = if line.len() > 1 { "," } else { "" };
            let (name, value) = (Value::from(name.as_str()), field(name, alert, place));
            // Writing to a String cannot fail.
            let _ = write!(line, "{comma}{name}:{value}");
        }
        line.push_str("}\n");
        line.into_bytes()
    }

    async fn append(&self, bytes: Vec<u8>) -> Result<(), SinkError> {
        let (written, answer) = oneshot::channel();
        // The thread outlives every handle, so both ends are there unless it panicked.
        let gone = || io::Error::other("the writing thread ended");
        let result = match self.lines.send(Line { bytes, written }).await {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(gone()),
        };
        result.map_err(|cause| match cause.kind() {
            io::ErrorKind::BrokenPipe => SinkError::ReaderGone {
                path: self.path.clone(),
            },
            _ => SinkError::Write {
                path: self.path.clone(),
                cause,
            },
        })
    }
}

/// Opens a file for appending and ends a torn last line.
fn append_to(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if file.metadata()?.is_file() && !ends_with_line_break(path)? {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn ends_with_line_break(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// After a failed write the line may be torn: the next one starts on a line of its own.
fn write_lines(mut out: Box<dyn Write + Send>, mut lines: mpsc::Receiver<Line>) {
    let mut torn = false;
    while let Some(Line { mut bytes, written }) = lines.blocking_recv() {
        if torn {
            bytes.insert(0, b'\n');
        }
        let result = out.write_all(&bytes).and_then(|()| out.flush());
        torn = result.is_err();
        // The worker may have given up waiting; its alert is then not acknowledged.
        let _ = written.send(result);
    }
}

/// What a name means in a line: a field of the delivery, of the header, or of the packet by its path.
fn field(name: &str, alert: &Packet, place: &Place<'_>) -> Value {
    let header = alert.header();
    match name {
        "survey" => header.survey.clone().into(),
        "schema_version" => header.schema_version.clone().into(),
        "object_id" => header.object_id.clone().into(),
        "alert_id" => header.alert_id.into(),
        "jd" => header.jd.into(),
        "ra" => header.ra.into(),
        "dec" => header.dec.into(),
        "programid" => header.programid.into(),
        "band" => header.band.clone().into(),
        "magnitude" => header.magnitude.into(),
        "rb" => header.rb.into(),
        "drb" => header.drb.into(),
        "ndethist" => header.ndethist.into(),
        "source" => place.source.as_str().into(),
        "position" => place.position.to_string().into(),
        "attempt" => place.attempt.into(),
        path => alert.json(path).unwrap_or(Value::Null),
    }
}

#[cfg(test)]
mod tests;
