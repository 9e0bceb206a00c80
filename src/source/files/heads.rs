//! The heads of files: enough of each to tell its writer schema, for names that are looked for before a run.
//!
//! Invariants: a bounded number of files and bytes of each; what cannot be read is passed over, since the run itself
//! tells of it. Must not know what a head says.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::archive::Kind;
use super::walk::Walk;

/// The most files and members that are looked at.
const FILES_MAX: usize = 1000;
/// What is read of each: a container's longest header with its sync marker.
const HEAD_MAX: u64 = (1 << 20) + 16;

/// Gives the heads of the first files below these paths, and of the members of their tars.
pub fn heads(paths: Vec<PathBuf>, mut each: impl FnMut(&[u8])) {
    let mut left = FILES_MAX;
    let mut one = |from: &mut dyn Read| {
        let mut head = Vec::new();
        if from.take(HEAD_MAX).read_to_end(&mut head).is_ok() {
            each(&head);
        }
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    for (path, meta) in Walk::over(paths) {
        if meta.is_ok_and(|meta| meta.is_file()) && file(&path, &mut one).is_break() {
            return;
        }
    }
}

fn file(path: &Path, one: &mut impl FnMut(&mut dyn Read) -> ControlFlow<()>) -> ControlFlow<()> {
    let Ok(mut file) = File::open(path) else {
        return ControlFlow::Continue(());
    };
    match Kind::of(path) {
        None => one(&mut file),
        Some(Kind::Tar) => members(BufReader::new(file), one),
        Some(Kind::GzippedTar) => members(MultiGzDecoder::new(BufReader::new(file)), one),
    }
}

fn members(from: impl Read, one: &mut impl FnMut(&mut dyn Read) -> ControlFlow<()>) -> ControlFlow<()> {
    let mut tar = tar::Archive::new(from);
    let entries: io::Result<_> = tar.entries();
    let files = entries.into_iter().flatten().map_while(Result::ok);
    for mut member in files.filter(|member| member.header().entry_type().is_file()) {
        one(&mut member)?;
    }
    ControlFlow::Continue(())
}
