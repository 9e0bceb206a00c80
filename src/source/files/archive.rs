//! Archive files, `.tar`, `.tar.gz` and `.tgz`: streamed, member by member.
//!
//! Invariants: a damaged archive gives the members before the damage and one dead letter for itself; an archive of which
//! nothing proves the end counts as damaged: gzip's checksum does, and so does a tar's end mark, which not every writer
//! of gzipped ones adds. Must not hold more than one member.

use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tar::{Entry, EntryType};

use super::reader::{Closing, Reader};
use crate::units::counted;

/// A tar ends with at least one block of zeros.
const END_MARK: u64 = 512;

/// How an archive file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Tar,
    GzippedTar,
}

impl Kind {
    /// Tells by the name; `None` when it is no archive.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        if name.ends_with(".tar") {
            Some(Self::Tar)
        } else if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
            Some(Self::GzippedTar)
        } else {
            None
        }
    }
}

/// Delivers the members of an archive.
pub(super) fn read(reader: &mut Reader, name: &str, kind: Kind, file: impl Read) -> Result<(), Closing> {
    let file = BufReader::with_capacity(1 << 16, file);
    match kind {
        Kind::Tar => members(reader, name, file, END_MARK),
        Kind::GzippedTar => members(reader, name, MultiGzDecoder::new(file), 0),
    }
}

fn members(reader: &mut Reader, name: &str, from: impl Read, end_mark: u64) -> Result<(), Closing> {
    let mut tar = tar::Archive::new(Zeros {
        inner: from,
        trailing: 0,
    });
    let mut count = 0_u64;
    let mut damage = None;
    match tar.entries() {
        Err(error) => damage = Some(error),
        Ok(entries) => {
            for entry in entries {
                let given = match entry {
                    Ok(entry) => member(reader, name, entry)?,
                    Err(error) => Err(error),
                };
                if let Err(error) = given {
                    damage = Some(error);
                    break;
                }
                count += 1;
            }
        }
    }
    match damage.or_else(|| rest(tar.into_inner(), end_mark).err()) {
        None => Ok(()),
        Some(error) => {
            let message = format!("damaged after {}: {error}", counted(count, "member"));
            reader.refuse(name, "damaged_archive", &message)
        }
    }
}

/// Delivers one member; the inner error means that the archive ends in it.
fn member<R: Read>(reader: &mut Reader, archive: &str, mut entry: Entry<'_, R>) -> Result<io::Result<()>, Closing> {
    let name = format!("{archive}!{}", String::from_utf8_lossy(&entry.path_bytes()));
    let bytes = entry.size();
    match entry.header().entry_type() {
        EntryType::Directory => return Ok(Ok(())),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {}
        EntryType::Link | EntryType::Symlink => {
            return reader
                .refuse(&name, "unreadable", "a link inside an archive is not followed")
                .map(Ok);
        }
        other => {
            return reader
                .refuse(&name, "unreadable", &format!("a member of type `{other:?}` is no file"))
                .map(Ok);
        }
    }
    reader.member(
        &name,
        Whole {
            inner: &mut entry,
            left: bytes,
        },
        bytes,
    )
}

/// Reads an archive to its last byte, so that a gzip checksum is compared, and looks for the end mark.
fn rest(mut from: Zeros<impl Read>, end_mark: u64) -> io::Result<()> {
    io::copy(&mut from, &mut io::sink())?;
    if from.trailing < end_mark {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "its end mark is missing, so it may have been cut off",
        ));
    }
    Ok(())
}

/// Fails where its input ends too early; a member is never taken for whole when it is not.
struct Whole<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        if read == 0 && self.left > 0 && !into.is_empty() {
            let message = format!("the archive ends {} bytes before the member does", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

/// Counts the zero bytes at the end of what was read.
struct Zeros<R> {
    inner: R,
    trailing: u64,
}

impl<R: Read> Read for Zeros<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        let zeros = into.iter().take(read).rev().take_while(|byte| **byte == 0).count();
        self.trailing = if zeros == read {
            self.trailing + zeros as u64
        } else {
            zeros as u64
        };
        Ok(read)
    }
}
