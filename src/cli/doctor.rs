//! `doctor`: tries everything that the configuration names, and says in words what is right and what is not.
//!
//! Invariants: nothing is changed; a check that fails does not keep the others from being made. Must not know how the
//! things it tries work.

use std::path::Path;

use clap::Args;
use futures::StreamExt;
use serde::Serialize;

use super::Call;
use super::brokers::off;
use super::error::{CliError, CliResult, Exit};
use super::names::{self, Checked, Uses};
use super::output;
use crate::archive::groups::Groups;
use crate::archive::{Archive, ArchiveOptions};
use crate::config::{Config, Mode, SourceConfig};
use crate::decode::Decoder;
use crate::query::{NightStart, Query, QueryText};
use crate::simulate::{Settings, Simulation};
use crate::sink::SinkConfig;
use crate::units::counted;

mod live;

/// Checks everything that the configuration names, and decodes one alert.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alertstream doctor
  alertstream doctor --config alertstream.toml --json")]
pub(super) struct DoctorArgs {}

#[derive(Serialize)]
struct Examined {
    checks: Vec<Check>,
}

/// One thing that was tried.
#[derive(Serialize)]
struct Check {
    name: String,
    ok: bool,
    detail: String,
}

impl Check {
    fn of(name: impl Into<String>, tried: Result<String, impl std::fmt::Display>) -> Self {
        match tried {
            Ok(detail) => Self {
                name: name.into(),
                ok: true,
                detail,
            },
            Err(error) => Self {
                name: name.into(),
                ok: false,
                detail: error.to_string(),
            },
        }
    }
}

pub(super) async fn run(call: &Call) -> CliResult {
    let config = call.config();
    let url = call.database_url_if_named()?;
    let decoder = config.decoder().map_err(|error| CliError::refused("config", error))?;
    let mut checks = Vec::new();
    let archive = database(url.as_deref(), &mut checks).await;
    for (name, source) in &config.source {
        if let (Mode::Live, Some(live)) = (source.mode, &source.live) {
            let live = live::Live {
                name: name.clone(),
                group: source.group.clone().unwrap_or_default(),
                config: live.clone(),
                nights: config.night.starts_at.into(),
                decoder: decoder.clone(),
            };
            checks.extend(off(move || live.checks()).await);
            continue;
        }
        checks.push(Check::of(
            format!("source {name}"),
            check_source(name, source, archive.as_ref()).await,
        ));
    }
    let asked = decoder.clone();
    if let Some(answered) = off(move || asked.check_registry()).await {
        checks.push(Check::of(
            "schema registry",
            answered.map(|url| format!("`{url}` answers")),
        ));
    }
    checks.push(Check::of("sink", sink(&config.sink)));
    if config.processor.filter.is_some() || config.sink.fields.is_some() {
        checks.push(Check::of("names", names(&config, archive.as_ref(), &decoder).await));
    }
    checks.push(Check::of("decoding", decode_one(archive.as_ref(), &decoder).await));
    let failed = checks.iter().filter(|check| !check.ok).count();
    output::result(call.format, &Examined { checks }, |examined| {
        let word = |ok| if ok { "ok" } else { "FAILED" };
        let row = |check: &Check| vec![word(check.ok).into(), check.name.clone(), check.detail.clone()];
        output::table(
            &["", "check", "detail"],
            &examined.checks.iter().map(row).collect::<Vec<_>>(),
        )
    })?;
    match failed {
        0 => Ok(Exit::Finished),
        _ => Err(
            CliError::failed("doctor", format!("{} failed", counted(failed, "check"))).hint("see their details above"),
        ),
    }
}

/// Connects and looks at the tables; gives the archive when both are right.
async fn database(url: Option<&str>, checks: &mut Vec<Check>) -> Option<Archive> {
    let Some(url) = url else {
        let detail = "none is named: only files and live sources can be read, and dead letters are only logged";
        checks.push(Check {
            name: "database".into(),
            ok: true,
            detail: detail.into(),
        });
        return None;
    };
    let archive = match Archive::connect(url, &ArchiveOptions::default()).await {
        Ok(archive) => archive,
        Err(error) => {
            checks.push(Check::of("database", Err::<String, _>(error)));
            return None;
        }
    };
    checks.push(Check::of(
        "database",
        Ok::<_, String>(format!("{} answers", archive.place())),
    ));
    let migrated = archive
        .check_migrated()
        .await
        .map(|()| "the tables are those of this program".to_owned());
    let usable = migrated.is_ok();
    checks.push(Check::of("tables", migrated));
    usable.then_some(archive)
}

async fn check_source(name: &str, source: &SourceConfig, archive: Option<&Archive>) -> Result<String, String> {
    match source.mode {
        Mode::Files => {
            let missing = source.files.paths.iter().find(|path| !path.exists());
            missing.map_or_else(
                || Ok(format!("{}, all there", counted(source.files.paths.len(), "path"))),
                |path| Err(format!("`{}` does not exist", path.display())),
            )
        }
        Mode::Archive => group(source.group.as_deref(), source.archive.query.is_some(), archive).await,
        Mode::Live => Err(format!("there is no [source.{name}.live]")),
    }
}

async fn group(name: Option<&str>, has_query: bool, archive: Option<&Archive>) -> Result<String, String> {
    let Some(name) = name else {
        return Err("no `group` is named".into());
    };
    let Some(archive) = archive else {
        return Err("the archive cannot be read, see above".into());
    };
    match Groups::new(archive).show(name).await {
        Ok(status) => {
            let state = format!("{:?}", status.state).to_lowercase();
            Ok(format!(
                "group `{name}` is {state}: {}",
                counted(status.alerts.total, "alert")
            ))
        }
        Err(_) if has_query => Ok(format!("group `{name}` is not there yet: the first run creates it")),
        Err(error) => Err(error.to_string()),
    }
}

fn sink(sink: &SinkConfig) -> Result<String, String> {
    if sink.is_stdout() {
        return Ok("stdout".into());
    }
    let path = Path::new(&sink.path);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match (path.is_dir(), folder.is_dir()) {
        (true, _) => Err(format!("`{}` is a folder", path.display())),
        (false, false) => Err(format!("its folder `{}` does not exist", folder.display())),
        (false, true) => Ok(format!("appends to `{}`", path.display())),
    }
}

/// Looks for the names of the filter and of the sink's fields in every schema that can be seen from here.
async fn names(config: &Config, archive: Option<&Archive>, decoder: &Decoder) -> Result<String, String> {
    let uses = Uses {
        filter: config.processor.filter.as_deref(),
        sink: &config.sink,
    };
    let told = |error: CliError| error.message().to_owned();
    if let Checked::Unknown(_) = uses.check(decoder).map_err(told)? {
        let files = config.source.values().filter(|source| source.mode == Mode::Files);
        names::of_files(files.flat_map(|source| source.files.paths.clone()).collect(), decoder).await;
        if let Some(archive) = archive {
            names::of_archive(archive, decoder).await.map_err(told)?;
        }
        uses.check_again(decoder).map_err(told)?;
    }
    Ok("every field that the filter and the sink name is in a schema".into())
}

/// Decodes an alert of the archive, or, without one, a simulated one.
async fn decode_one(archive: Option<&Archive>, decoder: &Decoder) -> Result<String, String> {
    let archived = match archive {
        Some(archive) => archive
            .export(&first()?)
            .next()
            .await
            .transpose()
            .map_err(|error| error.to_string())?,
        None => None,
    };
    let (payload, which) = match archived {
        Some(exported) => (exported.raw.payload, "of the archive"),
        None => (simulated()?, "simulated (the archive has none)"),
    };
    let packet = decoder
        .decode(&payload)
        .map_err(|error| format!("an alert {which}: {error}"))?;
    let header = packet.header();
    let object = header.object_id.as_deref().unwrap_or("unknown");
    Ok(format!(
        "alert {} of object {object}, {}, {which}",
        header.alert_id, header.survey
    ))
}

fn first() -> Result<Query, String> {
    let text = QueryText::new().with("limit", "1").map_err(|error| error.to_string())?;
    Query::parse(&text, NightStart::default()).map_err(|error| error.to_string())
}

fn simulated() -> Result<bytes::Bytes, String> {
    let night = chrono::Utc::now().date_naive();
    let mut simulation = Simulation::new(Settings::night(night, 1)).map_err(|error| error.to_string())?;
    simulation
        .next()
        .map(|packet| packet.payload)
        .ok_or_else(|| "nothing was simulated".into())
}
