//! `inspect`: one packet for a person, or for a program with `--json`.
//!
//! Invariants: works on any packet that decodes, whatever its survey; a path that the schema does not have is an error.
//! Must not know how packets are decoded.

mod cutouts;
mod plot;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::error::{CliError, CliResult, Exit};
use super::{Call, output};
use crate::decode::packet::{Packet, PacketFraming};
use crate::decode::{DecodeError, Decoder};
use crate::header::AlertHeader;

/// Shows one packet: header, schema version, framing, light curve, cutouts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream inspect 2695378462115010012.avro
  alertstream inspect alert.avro --field candidate.distpsnr1 --field 'prv_candidates[0].jd' --json
  alertstream inspect alert.bin --cutouts pictures/")]
pub(super) struct InspectArgs {
    /// The packet: a container file or a Confluent message.
    file: PathBuf,
    /// Show the value of this field of the packet; repeatable.
    #[arg(long = "field", value_name = "PATH")]
    fields: Vec<String>,
    /// Write the cutouts to this folder as PNGs.
    #[arg(long, value_name = "DIR")]
    cutouts: Option<PathBuf>,
}

/// What is shown of a packet.
#[derive(Debug, Serialize)]
pub struct Inspection {
    #[serde(flatten)]
    header: AlertHeader,
    /// The schema's version, or its record's name where it has none.
    schema: String,
    /// The full name of the packet's record.
    schema_name: String,
    /// `container` or `confluent`.
    framing: &'static str,
    /// Of the file, hexadecimal.
    sha256: String,
    bytes: usize,
    fields: serde_json::Map<String, serde_json::Value>,
    /// The cutouts that were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cutouts: Vec<PathBuf>,
}

pub(super) fn run(call: &Call, args: &InspectArgs) -> CliResult {
    if !args.file.exists() {
        return Err(CliError::refused(
            "path",
            format!("`{}` does not exist", args.file.display()),
        ));
    }
    let decoder = call.config().decoder().map_err(|e| CliError::refused("config", e))?;
    let packet = read(&decoder, &args.file)?;
    let inspection = inspect(&packet, &args.fields, args.cutouts.as_deref())?;
    output::result(call.format, &inspection, |inspection| text(&packet, inspection))?;
    Ok(Exit::Finished)
}

fn read(decoder: &Decoder, path: &Path) -> CliResult<Packet> {
    let file = std::fs::read(path)
        .map_err(|cause| CliError::failed("path", format!("`{}` cannot be read: {cause}", path.display())))?
        .into();
    let refused = |error: DecodeError| CliError::failed(error.reason(), format!("`{}`: {error}", path.display()));
    let records = decoder.split(&file).map_err(refused)?;
    if records.len() > 1 {
        output::say(format_args!(
            "{} holds {} records; this is the first",
            path.display(),
            records.len()
        ));
    }
    decoder.decode(records.first().unwrap_or(&file)).map_err(refused)
}

/// Gathers what is shown of a packet, and writes its cutouts if a folder is given.
///
/// # Errors
/// A field that the schema does not have; a folder that cannot be written.
pub fn inspect(packet: &Packet, fields: &[String], cutouts: Option<&Path>) -> CliResult<Inspection> {
    let mut values = serde_json::Map::new();
    for path in fields {
        let value = packet.json(path).ok_or_else(|| {
            CliError::failed("field", format!("the packet's schema has no field `{path}`"))
                .hint(format!("its record is `{}`", packet.schema_name()))
        })?;
        values.insert(path.clone(), value);
    }
    let header = packet.header().clone();
    let written = cutouts
        .map(|folder| cutouts::write(packet, folder))
        .transpose()?
        .unwrap_or_default();
    Ok(Inspection {
        schema: header
            .schema_version
            .clone()
            .unwrap_or_else(|| packet.schema_name().to_owned()),
        schema_name: packet.schema_name().to_owned(),
        framing: match packet.framing() {
            PacketFraming::Container { .. } => "container",
            PacketFraming::Confluent { .. } => "confluent",
        },
        sha256: Sha256::digest(packet.bytes())
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect(),
        bytes: packet.bytes().len(),
        fields: values,
        cutouts: written,
        header,
    })
}

/// Writes an inspection for a person.
fn text(packet: &Packet, inspection: &Inspection) -> String {
    let header = &inspection.header;
    let number = |n: Option<f64>, unit: &str| n.map_or_else(|| "-".to_owned(), |n| format!("{n}{unit}"));
    let word = |t: &Option<String>| t.clone().unwrap_or_else(|| "-".into());
    let known = if packet.schema_is_known() {
        ""
    } else {
        " (not known to any mapping)"
    };
    let framing = match packet.framing() {
        PacketFraming::Confluent { id } => format!("confluent, schema id {id}"),
        PacketFraming::Container { header_len } => format!("container, header of {header_len} bytes"),
    };
    let jd = header
        .jd
        .map_or_else(|| "-".into(), |jd| format!("{jd} ({})", plot::utc(jd)));
    let mut rows = vec![
        ("survey", header.survey.clone()),
        ("object", word(&header.object_id)),
        ("alert", header.alert_id.to_string()),
        ("jd", jd),
        ("ra", number(header.ra, " deg")),
        ("dec", number(header.dec, " deg")),
        ("programid", header.programid.to_string()),
        ("band", word(&header.band)),
        ("magnitude", number(header.magnitude, " mag")),
        ("rb", number(header.rb, "")),
        ("drb", number(header.drb, "")),
        (
            "ndethist",
            header.ndethist.map_or_else(|| "-".into(), |n| n.to_string()),
        ),
        (
            "schema",
            format!("{} {}{known}", inspection.schema_name, inspection.schema),
        ),
        ("framing", framing),
        ("bytes", inspection.bytes.to_string()),
        ("sha256", inspection.sha256.clone()),
    ];
    let fields = inspection.fields.iter();
    let fields: Vec<_> = fields
        .map(|(path, value)| (path.as_str(), shown(packet, path, value)))
        .collect();
    rows.extend(fields);
    let mut text = output::aligned(&rows);
    let (points, unit) = packet.light_curve();
    if !points.is_empty() {
        text.push('\n');
        text.push_str(&plot::plot(&points, &unit));
    }
    for path in &inspection.cutouts {
        text.push_str(&format!("wrote {}\n", path.display()));
    }
    text
}

/// A value, with the name of its logical type if it has one.
fn shown(packet: &Packet, path: &str, value: &serde_json::Value) -> String {
    match packet.logical_type(path) {
        Some(name) => format!("{value} ({name})"),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
