//! The reader: on a blocking thread, one file after the other into the intake.
//!
//! Invariants: a permit for the whole file is taken before it is read; every file ends in at least one delivery or
//! dead letter; it stops soon after the stream began to close. Must not commit.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;

use super::progress::FilesProgress;
use super::walk::Walk;
use super::{FILE_BYTES_MAX, Split, archive};
use crate::ack::Rejection;
use crate::record::{Lane, Position, RawAlert};
use crate::source::intake::{Intake, Permit};

/// The stream is closing: read nothing more.
pub(super) struct Closing;

/// A file whose lane is open and that could not be read.
struct Unread {
    lane: Lane,
    permit: Permit,
    error: io::Error,
}

pub(super) struct Reader {
    intake: Intake,
    handle: Handle,
    split: Split,
    progress: FilesProgress,
    /// How often each lane's name came so far, by its hash; 16 bytes a file.
    names: HashMap<u64, u32>,
}

impl Reader {
    pub(super) fn new(intake: Intake, handle: Handle, split: Split, progress: FilesProgress) -> Self {
        Self {
            intake,
            handle,
            split,
            progress,
            names: HashMap::new(),
        }
    }

    /// Reads everything, or until the stream closes.
    pub(super) fn read(mut self, paths: Vec<PathBuf>) {
        let end = EndOfInput(self.intake.clone());
        for (_, meta) in Walk::over(paths.clone()) {
            if self.intake.is_closing() {
                return;
            }
            self.progress.found(meta.map_or(0, |meta| meta.len()));
        }
        for (path, meta) in Walk::over(paths) {
            if self.file(&path, meta).is_err() {
                break;
            }
            self.progress.done();
        }
        drop(end);
    }

    fn file(&mut self, path: &Path, meta: Result<Metadata, io::Error>) -> Result<(), Closing> {
        let name = path.to_string_lossy().into_owned();
        let opened = meta.and_then(|meta| Ok((File::open(path)?, meta.len())));
        let (file, bytes) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.refuse(&name, "unreadable", &error.to_string()),
        };
        let file = Counting {
            inner: file,
            progress: self.progress.clone(),
        };
        match archive::Kind::of(path) {
            Some(kind) => archive::read(self, &name, kind, file),
            None => self.record_file(&name, file, bytes),
        }
    }

    fn record_file(&mut self, name: &str, from: impl Read, bytes: u64) -> Result<(), Closing> {
        if let Err(unread) = self.records_of(name, from, bytes)? {
            self.reject(
                unread.lane,
                unread.permit,
                Rejection::new("unreadable", format!("`{name}`: {}", unread.error)),
            );
        }
        Ok(())
    }

    /// Reads a member of an archive and delivers its records; the inner error means that the archive ends in it.
    pub(super) fn member(&mut self, name: &str, from: impl Read, bytes: u64) -> Result<io::Result<()>, Closing> {
        let Err(unread) = self.records_of(name, from, bytes)? else {
            return Ok(Ok(()));
        };
        // The archive's own dead letter tells of it.
        self.intake.seal(&unread.lane);
        let message = format!("in member `{name}`: {}", unread.error);
        Ok(Err(io::Error::new(unread.error.kind(), message)))
    }

    /// Reads a file of about `bytes` and delivers its records.
    fn records_of(&mut self, name: &str, from: impl Read, bytes: u64) -> Result<Result<(), Unread>, Closing> {
        if bytes > FILE_BYTES_MAX {
            let message = format!("it has {bytes} bytes, the most is {FILE_BYTES_MAX}");
            return self.refuse(name, "too_large", &message).map(Ok);
        }
        let lane = self.open(name);
        let permit = self.permit(&lane, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let mut payload = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0).min(1 << 20));
        // One byte above the bound tells that there is more.
        match from.take(FILE_BYTES_MAX + 1).read_to_end(&mut payload) {
            Ok(read) if read as u64 > FILE_BYTES_MAX => {
                let why = Rejection::new("too_large", format!("`{name}` has more than {FILE_BYTES_MAX} bytes"));
                self.reject(lane, permit, why);
                Ok(Ok(()))
            }
            Ok(_) => self.records(&lane, permit, Bytes::from(payload)).map(Ok),
            Err(error) => Ok(Err(Unread { lane, permit, error })),
        }
    }

    /// Makes a dead letter of what could not be read at all.
    pub(super) fn refuse(&mut self, name: &str, reason: &'static str, message: &str) -> Result<(), Closing> {
        let lane = self.open(name);
        let permit = self.permit(&lane, 0)?;
        self.reject(lane, permit, Rejection::new(reason, format!("`{name}`: {message}")));
        Ok(())
    }

    fn records(&self, lane: &Lane, permit: Permit, file: Bytes) -> Result<(), Closing> {
        match (self.split)(&file) {
            Ok(records) if records.len() > 1 => {
                // The file's permit goes before its records take theirs: together they could exceed the budget for ever.
                drop((permit, file));
                for (seq, payload) in (1..).zip(records) {
                    let permit = self.permit(lane, payload.len())?;
                    let raw = RawAlert {
                        reframed: true,
                        ..RawAlert::from_bytes(payload)
                    };
                    self.intake.deliver(
                        permit,
                        Position {
                            lane: lane.clone(),
                            seq,
                        },
                        raw,
                    );
                }
            }
            Ok(_) => self.intake.deliver(
                permit,
                Position {
                    lane: lane.clone(),
                    seq: 1,
                },
                RawAlert::from_bytes(file),
            ),
            Err(why) => self.intake.deliver_rejected(
                permit,
                Position {
                    lane: lane.clone(),
                    seq: 1,
                },
                RawAlert::from_bytes(file),
                why,
            ),
        }
        self.intake.seal(lane);
        Ok(())
    }

    fn reject(&self, lane: Lane, permit: Permit, why: Rejection) {
        let nothing = RawAlert::from_bytes(Bytes::new());
        self.intake.deliver_rejected(
            permit,
            Position {
                lane: lane.clone(),
                seq: 1,
            },
            nothing,
            why,
        );
        self.intake.seal(&lane);
    }

    /// Opens the lane of a name, under another one when the name came before.
    fn open(&mut self, name: &str) -> Lane {
        let times = self
            .names
            .entry(hash(name))
            .and_modify(|times| *times += 1)
            .or_insert(1);
        let name: Arc<str> = if *times == 1 {
            name.into()
        } else {
            format!("{name}~{times}").into()
        };
        let lane = Lane::File(name);
        self.intake.open_at(lane.clone(), 1);
        lane
    }

    fn permit(&self, lane: &Lane, bytes: usize) -> Result<Permit, Closing> {
        self.handle.block_on(self.intake.reserve(lane, bytes)).ok_or(Closing)
    }
}

fn hash(name: &str) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(name)
}

/// Says that the input ended, also when reading panics: the stream then ends with that error instead of waiting.
struct EndOfInput(Intake);

impl Drop for EndOfInput {
    fn drop(&mut self) {
        self.0.end_of_input();
    }
}

/// Counts the bytes that are read.
pub(super) struct Counting<R> {
    inner: R,
    progress: FilesProgress,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.progress.read(read as u64);
        Ok(read)
    }
}
