//! What a run did: its counts, in all and of each source.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::error::{CliError, CliResult};
use crate::cli::output::{self, Format};
use crate::pipeline::{Ended, Selected, Selector, SourceTotals};

/// The summary of a run.
#[derive(Serialize)]
pub(super) struct Summary {
    #[serde(flatten)]
    total: Counts,
    /// Each source's counts.
    sources: BTreeMap<String, Counts>,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Counts {
    delivered: u64,
    acknowledged: u64,
    released: u64,
    rejected: u64,
    redelivered: u64,
    selected: u64,
    undefined: u64,
    /// Empty payloads from Kafka; they are among the acknowledged.
    tombstones: u64,
    interrupted: bool,
    seconds: f64,
}

impl Summary {
    /// Puts together what the pipeline and the handler counted.
    pub(super) fn of(ended: &Ended, selector: &Selector) -> Self {
        let timed = Counts {
            interrupted: ended.interrupted,
            seconds: ended.took.as_secs_f64(),
            ..Counts::default()
        };
        let mut summary = Self {
            total: timed,
            sources: BTreeMap::new(),
        };
        for (id, totals) in &ended.sources {
            let mut counts = timed;
            counts.add(totals, selector.counts(id));
            summary.total.add(totals, selector.counts(id));
            summary.sources.insert(id.to_string(), counts);
        }
        summary
    }

    fn text(&self) -> String {
        let row = |name: &str, counts: &Counts| {
            let Counts {
                delivered,
                acknowledged,
                released,
                rejected,
                redelivered,
                selected,
                undefined,
                tombstones,
                ..
            } = *counts;
            let numbers = [
                delivered,
                acknowledged,
                released,
                rejected,
                redelivered,
                selected,
                undefined,
                tombstones,
            ];
            std::iter::once(name.to_owned())
                .chain(numbers.map(|n| n.to_string()))
                .collect::<Vec<_>>()
        };
        let mut rows: Vec<_> = self.sources.iter().map(|(name, counts)| row(name, counts)).collect();
        if rows.len() > 1 {
            rows.push(row("all", &self.total));
        }
        const HEAD: [&str; 9] = [
            "source",
            "delivered",
            "acknowledged",
            "released",
            "rejected",
            "redelivered",
            "selected",
            "undefined",
            "tombstones",
        ];
        let how = if self.total.interrupted {
            "interrupted after"
        } else {
            "took"
        };
        format!("{}{how} {:.1} s\n", output::table(&HEAD, &rows), self.total.seconds)
    }
}

impl Counts {
    fn add(&mut self, totals: &SourceTotals, chosen: Selected) {
        let stream = &totals.stream;
        self.delivered += stream.delivered;
        self.acknowledged += stream.acked;
        self.released += stream.released;
        self.rejected += stream.rejected;
        self.redelivered += stream.redelivered;
        self.selected += chosen.selected;
        self.undefined += chosen.undefined;
        self.tombstones += totals.tombstones;
    }
}

/// The file that a summary goes to, open since before the run.
pub(super) struct SummaryFile {
    path: PathBuf,
    file: File,
}

impl SummaryFile {
    /// Makes the file, or empties it.
    pub(super) fn create(path: &Path) -> CliResult<Self> {
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        let path = path.to_owned();
        Ok(Self { path, file })
    }

    fn write(mut self, summary: &Summary) -> CliResult<()> {
        let text = serde_json::to_string(summary).map_err(|error| unwritable(&self.path, &error))? + "\n";
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| unwritable(&self.path, &error))
    }
}

fn unwritable(path: &Path, why: &dyn Display) -> CliError {
    CliError::failed(
        "output",
        format!("summary `{}` cannot be written: {why}", path.display()),
    )
    .hint("give `--summary` a file that can be made, in a folder that exists")
}

/// Tells the summary: on stdout as JSON or on stderr as text, and to the file.
pub(super) fn tell(format: Format, file: Option<SummaryFile>, summary: &Summary) -> CliResult<()> {
    let told = output::summary(format, summary, Summary::text);
    file.map_or(Ok(()), |file| file.write(summary)).and(told)
}
