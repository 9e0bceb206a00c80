//! The walk over files and folders: depth first, each folder in the order of its names.
//!
//! Invariants: every file comes once, or the reason why not; below one given path a folder is entered once, by
//! whatever links it is reached, so that cycles of links end. It holds the listings of the folders on the way down and
//! 16 bytes for each folder entered. Must not open files.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::vec;

/// Deeper folders are refused.
const DEPTH_MAX: usize = 100;

/// A file, or what is wrong with it.
pub(super) type Found = (PathBuf, Result<Metadata, io::Error>);

/// Walks paths in the given order.
pub(super) struct Walk {
    /// What is still to come, the deepest folder last.
    folders: Vec<vec::IntoIter<PathBuf>>,
    /// The folders entered below the path that was given last: device and inode.
    entered: HashSet<(u64, u64)>,
}

impl Walk {
    pub(super) fn over(paths: Vec<PathBuf>) -> Self {
        Self {
            folders: vec![paths.into_iter()],
            entered: HashSet::new(),
        }
    }

    fn visit(&mut self, path: PathBuf) -> Option<Found> {
        let meta = match fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) => return Some((path, Err(error))),
        };
        if !meta.is_dir() {
            // What a person names may be a pipe; in a folder nothing but files is meant.
            let readable = meta.is_file() || self.folders.len() == 1;
            let found = if readable {
                Ok(meta)
            } else {
                Err(io::Error::other("neither a file nor a folder"))
            };
            return Some((path, found));
        }
        if self.folders.len() == 1 {
            // A path that is given twice is read twice.
            self.entered.clear();
        }
        if self.folders.len() > DEPTH_MAX {
            let error = io::Error::other(format!("more than {DEPTH_MAX} folders deep"));
            return Some((path, Err(error)));
        }
        if !self.entered.insert((meta.dev(), meta.ino())) {
            return None;
        }
        match names(&path) {
            Ok(names) => {
                self.folders.push(names);
                None
            }
            Err(error) => Some((path, Err(error))),
        }
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            match self.folders.last_mut()?.next() {
                Some(path) => {
                    if let Some(found) = self.visit(path) {
                        return Some(found);
                    }
                }
                None => {
                    self.folders.pop();
                }
            }
        }
    }
}

fn names(folder: &PathBuf) -> io::Result<vec::IntoIter<PathBuf>> {
    let mut names = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names.into_iter())
}
