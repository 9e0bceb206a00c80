//! `dlq`: the dead letters.

use std::path::{Path, PathBuf};

use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::Call;
use super::error::{CliError, CliResult, Exit};
use super::output::{self, Format};
use crate::archive::dead_letters::{DeadLetters, Dropped, StoredLetter};
use crate::archive::ingest::{ArchiveWriter, Incoming, Written};
use crate::decode::Decoder;
use crate::units::counted;

/// Shows and settles the dead letters: alerts that were refused or whose tries were used up.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream dlq list
  alertstream dlq show 17
  alertstream dlq export --to refused/ 17 18
  alertstream dlq retry                                   archive again what can be read by now
  alertstream dlq drop 17")]
pub(super) struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// Lists all dead letters.
    List,
    /// Shows one.
    Show {
        /// Its id, as `dlq list` shows it.
        id: i64,
    },
    /// Tries the packets again: what decodes by now is archived and leaves the list.
    Retry {
        /// Only these; all without.
        id: Vec<i64>,
    },
    /// Writes the bytes to files, `ID.avro` or `ID.bin`.
    Export {
        /// Only these; all without.
        id: Vec<i64>,
        /// The folder.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Removes dead letters for good.
    Drop {
        /// These.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Vec<i64>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
}

pub(super) async fn run(call: &Call, args: DlqArgs) -> CliResult {
    match args.command {
        DlqCommand::List => list(call).await,
        DlqCommand::Show { id } => show(call, id).await,
        DlqCommand::Retry { id } => retry(call, &id).await,
        DlqCommand::Export { id, to } => export(call, &id, &to).await,
        DlqCommand::Drop { id, all } => drop_letters(call, if all { &[] } else { &id }).await,
    }
}

async fn list(call: &Call) -> CliResult {
    let letters = call.archive().await?.dead_letters();
    let mut rows = Vec::new();
    let mut after = 0;
    loop {
        let page = letters.page(after).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        match call.format {
            Format::Json => page
                .iter()
                .try_for_each(|letter| output::result(call.format, letter, text))?,
            Format::Text => rows.extend(page.iter().map(row)),
        }
    }
    if call.format == Format::Text {
        let head = ["id", "at", "reason", "bytes", "attempts", "position", "message"];
        output::stdout(&output::table(&head, &rows))?;
    }
    Ok(Exit::Finished)
}

fn row(letter: &StoredLetter) -> Vec<String> {
    vec![
        letter.id.to_string(),
        letter.at.to_rfc3339_opts(SecondsFormat::Secs, true),
        letter.reason.clone(),
        letter.bytes.to_string(),
        letter.attempts.to_string(),
        letter.position.clone(),
        letter.message.clone(),
    ]
}

async fn show(call: &Call, id: i64) -> CliResult {
    let letter = call
        .archive()
        .await?
        .dead_letters()
        .show(id)
        .await?
        .ok_or_else(|| unknown(id))?;
    output::result(call.format, &letter, text)?;
    Ok(Exit::Finished)
}

fn text(letter: &StoredLetter) -> String {
    output::aligned(&[
        ("id", letter.id.to_string()),
        ("at", letter.at.to_rfc3339_opts(SecondsFormat::Secs, true)),
        ("source", letter.source.clone()),
        ("position", letter.position.clone()),
        ("path", letter.path.clone().unwrap_or_else(|| "none".into())),
        ("reason", letter.reason.clone()),
        ("message", letter.message.clone()),
        ("attempts", letter.attempts.to_string()),
        ("bytes", letter.bytes.to_string()),
        ("sha256", letter.sha256.clone()),
    ])
}

fn unknown(id: i64) -> CliError {
    CliError::failed("dead_letter", format!("there is no dead letter `{id}`")).hint("see `alertstream dlq list`")
}

/// Gives the letters of these numbers, or all; each must be there.
async fn chosen(letters: &DeadLetters, ids: &[i64]) -> CliResult<Vec<i64>> {
    if !ids.is_empty() {
        for id in ids {
            letters.show(*id).await?.ok_or_else(|| unknown(*id))?;
        }
        return Ok(ids.to_vec());
    }
    let mut all: Vec<i64> = Vec::new();
    loop {
        let page = letters.page(all.last().copied().unwrap_or(0)).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page.iter().map(|letter| letter.id));
    }
}

#[derive(Serialize)]
struct Retried {
    retried: u64,
    archived: u64,
    duplicates: u64,
    refused: u64,
}

/// Archives what decodes by now; a letter leaves the list after its packet is in the archive.
async fn retry(call: &Call, ids: &[i64]) -> CliResult {
    let archive = call.archive().await?;
    let letters = archive.dead_letters();
    let (decoder, writer) = (Decoder::bundled(), ArchiveWriter::new(&archive, 1));
    let mut done = Retried {
        retried: 0,
        archived: 0,
        duplicates: 0,
        refused: 0,
    };
    for id in chosen(&letters, ids).await? {
        let Some(raw) = letters.packet(id).await? else { continue };
        done.retried += 1;
        let packet = match decoder.decode(&raw.payload) {
            Ok(packet) => packet,
            Err(error) => {
                output::say(format!("dead letter {id}: still refused: {error}"));
                done.refused += 1;
                continue;
            }
        };
        let incoming = Incoming {
            origin: raw.origin.clone(),
            reframed: raw.reframed,
            ..Incoming::from(&packet)
        };
        for written in writer.write(vec![incoming]).await {
            match written.map_err(|error| CliError::failed("database", error))? {
                Written::Duplicate => done.duplicates += 1,
                _ => done.archived += 1,
            }
        }
        letters.drop_letter(id).await?;
    }
    output::result(call.format, &done, |done| {
        let Retried {
            retried,
            archived,
            duplicates,
            refused,
        } = done;
        format!("{retried} tried again: {archived} archived, {duplicates} already there, {refused} still refused\n")
    })?;
    Ok(Exit::Finished)
}

#[derive(Serialize)]
struct ExportedLetters {
    alerts: u64,
    bytes: u64,
}

async fn export(call: &Call, ids: &[i64], to: &Path) -> CliResult {
    let letters = call.archive().await?.dead_letters();
    let ids = chosen(&letters, ids).await?;
    let fail = |error: std::io::Error| CliError::failed("output", format!("`{}`: {error}", to.display()));
    std::fs::create_dir_all(to).map_err(fail)?;
    let mut done = ExportedLetters { alerts: 0, bytes: 0 };
    for id in ids {
        let Some(raw) = letters.packet(id).await? else { continue };
        let extension = if raw.payload.starts_with(b"Obj\x01") {
            "avro"
        } else {
            "bin"
        };
        std::fs::write(to.join(format!("{id}.{extension}")), &raw.payload).map_err(fail)?;
        done.alerts += 1;
        done.bytes += raw.payload.len() as u64;
    }
    output::result(call.format, &done, |done| {
        format!(
            "{} written to {} ({})\n",
            counted(done.alerts, "dead letter"),
            to.display(),
            output::bytes(done.bytes)
        )
    })?;
    Ok(Exit::Finished)
}

#[derive(Serialize)]
struct DroppedLetters {
    dropped: u64,
}

async fn drop_letters(call: &Call, ids: &[i64]) -> CliResult {
    let letters = call.archive().await?.dead_letters();
    let mut done = DroppedLetters { dropped: 0 };
    for id in chosen(&letters, ids).await? {
        done.dropped += u64::from(letters.drop_letter(id).await? == Dropped::Done);
    }
    output::result(call.format, &done, |done| {
        format!("{} dropped\n", counted(done.dropped, "dead letter"))
    })?;
    Ok(Exit::Finished)
}
