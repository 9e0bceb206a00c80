//! The names that a filter and the sink's `fields` may use: checked against the schemas that are known without asking
//! anybody, and where a name is in none of them against those that the sources have seen.
//!
//! Invariants: what no schema can make right (syntax, types) is refused before anything is touched; only heads are
//! read, of a bounded number of packets. Must not know how a filter is evaluated.

use std::path::PathBuf;

use super::error::{CliError, CliResult};
use crate::archive::Archive;
use crate::decode::Decoder;
use crate::filter::{Filter, FilterError, Names};
use crate::sink::SinkConfig;
use crate::source::files;

/// What uses names.
pub(super) struct Uses<'a> {
    /// The filter's text.
    pub(super) filter: Option<&'a str>,
    /// The sink.
    pub(super) sink: &'a SinkConfig,
}

/// What came of a check.
pub(super) enum Checked {
    /// Every name is known; the filter, if there is one.
    Fine(Option<Filter>),
    /// A name is in no schema seen so far; the error, if it is in no other either.
    Unknown(CliError),
}

impl Uses<'_> {
    /// Checks against the schemas that the decoder brings or has seen.
    ///
    /// # Errors
    /// What is wrong whatever the schemas are.
    pub(super) fn check(&self, decoder: &Decoder) -> CliResult<Checked> {
        if self.filter.is_none() && self.sink.fields.is_none() {
            return Ok(Checked::Fine(None));
        }
        let names = Names::of(decoder);
        let filter = match self.filter.map(|text| Filter::compile(text, &names)).transpose() {
            Ok(filter) => filter,
            Err(error @ FilterError::UnknownName { .. }) => {
                return Ok(Checked::Unknown(CliError::refused("filter", error)));
            }
            Err(error) => return Err(CliError::refused("filter", error)),
        };
        match self.sink.unknown_fields(&names).into_iter().next() {
            Some(unknown) => Ok(Checked::Unknown(CliError::refused("sink", unknown))),
            None => Ok(Checked::Fine(filter)),
        }
    }

    /// Checks again, after the decoder has seen more.
    pub(super) fn check_again(&self, decoder: &Decoder) -> CliResult<Option<Filter>> {
        match self.check(decoder)? {
            Checked::Fine(filter) => Ok(filter),
            Checked::Unknown(error) => Err(error),
        }
    }
}

/// Shows the decoder the writer schemas of an archive.
pub(super) async fn of_archive(archive: &Archive, decoder: &Decoder) -> CliResult<()> {
    for head in archive.newest_container_headers().await? {
        decoder.see(&head);
    }
    Ok(())
}

/// Shows the decoder the writer schemas of files, folders and tars.
pub(super) async fn of_files(paths: Vec<PathBuf>, decoder: &Decoder) {
    let decoder = decoder.clone();
    let reading = tokio::task::spawn_blocking(move || files::heads(paths, |head| decoder.see(head)));
    if let Err(panic) = reading.await {
        std::panic::resume_unwind(panic.into_panic());
    }
}
