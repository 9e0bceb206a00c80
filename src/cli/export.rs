//! `export`: the matched packets as files, byte for byte as they were received.
//!
//! Invariant: under a final name stands a whole packet, or a whole tar. Must not know how packets are stored.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use futures::StreamExt;
use serde::Serialize;
use tokio::sync::mpsc;

use super::Call;
use super::error::{CliError, CliResult, Exit};
use super::output;
use super::progress::Progress;
use super::query_args::QueryArgs;
use super::signals::Signals;
use crate::archive::{Archive, Exported};
use crate::query::Query;
use crate::units::counted;

/// Packets between the archive and the writing thread.
const WAITING_PACKETS: usize = 16;

/// Writes the matched packets as they were received: SURVEY_ALERTID_PROGRAMID[_rN].avro, or .bin for Confluent packets.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream export --night 2018-08-19 --to night/
  alertstream export --object ZTF18abcdefg --to object.tar")]
pub(super) struct ExportArgs {
    /// A folder (made if it is missing), or a file that ends in .tar.
    #[arg(long, value_name = "DIR|FILE.tar")]
    to: PathBuf,
    #[command(flatten)]
    query: QueryArgs,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Written {
    alerts: u64,
    bytes: u64,
}

pub(super) async fn run(call: &Call, args: &ExportArgs) -> CliResult {
    let query = args.query.query(call.config().night.starts_at)?;
    let parent = args.to.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.exists()) {
        return Err(CliError::refused("path", format!("`{}` does not exist", parent.display())).hint("make it first"));
    }
    if let Some(packed) = packed(&args.to).filter(|_| !args.to.is_dir()) {
        return Err(CliError::refused(
            "usage",
            format!("`--to {}`: a `{packed}` is not written", args.to.display()),
        )
        .hint("give a file that ends in .tar and compress it afterwards, or a folder"));
    }
    call.database_url()?;
    let archive = call.archive().await?;
    let target = Target::open(&args.to).map_err(|error| failed(&args.to, &error))?;
    let written = copy(&archive, &query, target, &args.to).await?;
    output::result(call.format, &written, |written| {
        format!(
            "{} written to {} ({})\n",
            counted(written.alerts, "alert"),
            args.to.display(),
            output::bytes(written.bytes)
        )
    })?;
    Ok(Exit::Finished)
}

/// Gives the ending of a compressed or other archive, which would become the name of a folder.
fn packed(to: &Path) -> Option<&'static str> {
    const PACKED: [&str; 11] = [
        ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst", ".zip", ".gz", ".7z",
    ];
    let name = to.file_name()?.to_str()?.to_ascii_lowercase();
    PACKED.into_iter().find(|ending| name.ends_with(ending))
}

/// Copies packet by packet; the writing is done on a thread of its own.
async fn copy(archive: &Archive, query: &Query, mut target: Target, to: &Path) -> CliResult<Written> {
    let signals = Signals::watch()?;
    let stop = signals.first();
    let progress = Progress::counting("exporting", "alerts");
    let (packets, mut waiting) = mpsc::channel::<Exported>(WAITING_PACKETS);
    let writing = tokio::task::spawn_blocking(move || {
        while let Some(packet) = waiting.blocking_recv() {
            target.write(&packet)?;
        }
        Ok(target)
    });
    let mut written = Written::default();
    let mut selected = archive.export(query);
    while let Some(packet) = selected.next().await {
        let packet = packet?;
        if stop.is_cancelled() {
            break;
        }
        written.alerts += 1;
        written.bytes += packet.raw.payload.len() as u64;
        progress.advance(1);
        if packets.send(packet).await.is_err() {
            break;
        }
    }
    drop(packets);
    let target: io::Result<Target> = writing.await.map_err(|error| CliError::failed("internal", error))?;
    let target = target.map_err(|error| failed(to, &error))?;
    if stop.is_cancelled() {
        return Err(CliError::failed("interrupted", "the export was interrupted").hint("start it again"));
    }
    target.finish().map_err(|error| failed(to, &error))?;
    Ok(written)
}

fn failed(to: &Path, error: &io::Error) -> CliError {
    CliError::failed("output", format!("`{}` cannot be written: {error}", to.display()))
}

/// Where the files go.
enum Target {
    Folder(PathBuf),
    Tar(Tar),
}

/// A tar under a name of its own until it is whole.
struct Tar {
    builder: tar::Builder<BufWriter<File>>,
    part: Part,
    path: PathBuf,
}

/// A file that is removed unless it was given its final name.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Target {
    fn open(to: &Path) -> io::Result<Self> {
        if to.extension().is_none_or(|extension| extension != "tar") || to.is_dir() {
            fs::create_dir_all(to)?;
            return Ok(Self::Folder(to.to_owned()));
        }
        let part = Part(part_of(to));
        let builder = tar::Builder::new(BufWriter::new(File::create(&part.0)?));
        Ok(Self::Tar(Tar {
            builder,
            part,
            path: to.to_owned(),
        }))
    }

    fn write(&mut self, packet: &Exported) -> io::Result<()> {
        let payload = &packet.raw.payload;
        match self {
            Self::Folder(folder) => {
                let path = folder.join(packet.file_name());
                let part = Part(part_of(&path));
                fs::write(&part.0, payload)?;
                fs::rename(&part.0, &path)
            }
            Self::Tar(tar) => {
                let mut head = tar::Header::new_gnu();
                head.set_size(payload.len() as u64);
                head.set_mode(0o644);
                tar.builder.append_data(&mut head, packet.file_name(), payload.as_ref())
            }
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Folder(_) => Ok(()),
            Self::Tar(Tar { builder, part, path }) => {
                builder.into_inner()?.flush()?;
                fs::rename(&part.0, path)
            }
        }
    }
}

fn part_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.part"))
}
