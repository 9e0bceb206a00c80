//! The command line: one file per command. Hidden from the documentation; `main` and the tests use it.
//!
//! Invariants: flags, files and queries are checked completely before any service is touched; results go to stdout,
//! everything else to stderr; every failure is one [`error::CliError`]. Must not hold any of the product's logic.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::archive::{Archive, ArchiveOptions};
use crate::config::Config;
use crate::secret::Secret;

mod brokers;
mod count;
mod demo;
mod dlq;
mod doctor;
pub mod embedded;
pub mod error;
mod export;
mod group;
mod ingest;
pub mod inspect;
mod lag;
mod logging;
mod migrate;
mod named;
mod names;
mod output;
mod produce;
mod progress;
mod query_args;
mod retention;
mod run;
mod seek;
mod signals;
mod simulate;
mod sources;
mod values;

use error::{CliError, CliResult, Exit};
use output::Format;

/// Replays and processes astronomical alerts: a live Kafka topic and a Postgres archive behind one processor.
#[derive(Debug, Parser)]
#[command(name = "alertstream", version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  alertstream demo                                  see it work: nothing to install or configure
  alertstream migrate                               make the tables in DATABASE_URL
  alertstream ingest alerts/ night.tar.gz           archive packets, byte for byte
  alertstream run --group tde --night 2018-08-19    replay a night; a second run shares the work

Exit codes:
  0 finished, 1 failed, 2 refused before any service was touched, 3 a commit could not be
  confirmed, 130 second signal";

/// Options of every command.
#[derive(Debug, Args)]
struct Globals {
    /// The configuration file (TOML).
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    config: Option<PathBuf>,
    /// The archive's Postgres: postgres://USER@HOST/DATABASE.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DATABASE_URL",
        hide_env_values = true
    )]
    #[arg(help_heading = "Global options")]
    database_url: Option<String>,
    /// Say more; twice says everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Global options")]
    verbose: u8,
    /// Say only errors.
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Global options"
    )]
    quiet: bool,
    /// How log lines are written on stderr.
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
    #[arg(help_heading = "Global options")]
    log_format: LogFormat,
    /// Print results as JSON, one object a line; errors as one object on stderr.
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Migrate(migrate::MigrateArgs),
    Ingest(ingest::IngestArgs),
    Count(count::CountArgs),
    Export(export::ExportArgs),
    Group(group::GroupArgs),
    Run(Box<run::RunArgs>),
    Produce(produce::ProduceArgs),
    Simulate(simulate::SimulateArgs),
    Inspect(inspect::InspectArgs),
    Dlq(dlq::DlqArgs),
    Seek(seek::SeekArgs),
    Lag(lag::LagArgs),
    Doctor(doctor::DoctorArgs),
    Retention(retention::RetentionArgs),
}

/// What every command gets: the global options and the checked configuration file.
struct Call {
    format: Format,
    database_url: Option<String>,
    config: Option<Config>,
}

impl Call {
    fn new(globals: &Globals) -> CliResult<Self> {
        let config = match &globals.config {
            Some(path) if globals.database_url.is_some() => Some(Config::load_beside_a_url(path)),
            Some(path) => Some(Config::load(path)),
            None => None,
        };
        let config = config.transpose().map_err(|e| CliError::refused("config", e))?;
        let format = if globals.json { Format::Json } else { Format::Text };
        Ok(Self {
            format,
            database_url: globals.database_url.clone(),
            config,
        })
    }

    /// Gives the configuration, or the defaults.
    fn config(&self) -> Config {
        self.config.clone().unwrap_or_default()
    }

    /// Gives the database's URL: the flag's, the environment's, the file's.
    fn database_url(&self) -> CliResult<String> {
        self.database_url_if_named()?.ok_or_else(|| {
            CliError::refused("usage", "no database is named")
                .hint("give `--database-url postgres://USER@HOST/DATABASE`, set DATABASE_URL, or write [database] url")
        })
    }

    fn database_url_if_named(&self) -> CliResult<Option<String>> {
        let by_file = || self.config.as_ref().and_then(|config| config.database.url.clone());
        let by_flag = self
            .database_url
            .as_ref()
            .filter(|url| !url.is_empty())
            .map(|url| Secret::new(url.as_str()));
        let Some(secret) = by_flag.or_else(by_file) else {
            return Ok(None);
        };
        let url = secret.reveal().map_err(|e| CliError::refused("config", e))?;
        Archive::check_url(&url)?;
        Ok(Some(url))
    }

    /// Connects to the archive and checks its tables.
    async fn archive(&self) -> CliResult<Archive> {
        open_archive(&self.database_url()?).await
    }
}

/// Connects to the archive and checks its tables.
async fn open_archive(url: &str) -> CliResult<Archive> {
    let archive = Archive::connect(url, &ArchiveOptions::default()).await?;
    archive.check_migrated().await?;
    Ok(archive)
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    let exit = match run(&args) {
        Ok(exit) => exit,
        Err(error) => {
            output::complain(&if json { error.json() } else { error.text() });
            error.exit()
        }
    };
    ExitCode::from(exit.code())
}

fn run(args: &[OsString]) -> CliResult {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    output::keep_quiet(cli.globals.quiet);
    logging::start(&cli.globals)?;
    let call = Call::new(&cli.globals)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::failed("internal", format!("the runtime cannot be started: {e}")))?;
    let result = runtime.block_on(dispatch(cli.command, &call));
    // A thread blocked in a write to a pipe that nobody reads must not keep the process.
    runtime.shutdown_background();
    result
}

async fn dispatch(command: Command, call: &Call) -> CliResult {
    match command {
        Command::Count(args) => count::run(call, &args).await,
        Command::Doctor(_) => doctor::run(call).await,
        Command::Export(args) => export::run(call, &args).await,
        Command::Demo(args) => demo::run(call, &args).await,
        Command::Dlq(args) => dlq::run(call, args).await,
        Command::Ingest(args) => ingest::run(call, &args).await,
        Command::Retention(args) => retention::run(call, &args).await,
        Command::Run(args) => run::run(call, &args).await,
        Command::Group(args) => group::run(call, args).await,
        Command::Inspect(args) => inspect::run(call, &args),
        Command::Migrate(_) => migrate::run(call).await,
        Command::Simulate(args) => simulate::run(call, args).await,
        Command::Produce(args) => produce::run(call, args).await,
        Command::Lag(args) => lag::run(call, args).await,
        Command::Seek(args) => seek::run(call, args).await,
    }
}

/// Prints help and version; makes one message and one hint of everything else.
fn usage(error: &clap::Error) -> CliResult {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        output::stdout(&error.to_string())?;
        return Ok(Exit::Finished);
    }
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Err(CliError::refused("usage", "no command is given").hint(format!("choose one\n\n{text}")));
    }
    let mut parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
    let message = parts.next().unwrap_or("wrong usage").trim_start_matches("error: ");
    let tips: Vec<&str> = parts.filter(|part| !part.starts_with("For more")).collect();
    // clap's usage repeats what is given, also by the environment: DATABASE_URL is not asked for.
    let hint = tips
        .join("; ")
        .replace("tip: ", "")
        .replace("Usage: ", "usage: ")
        .replace(" --database-url <URL>", "")
        .replace('\n', " ");
    let refused = CliError::refused("usage", message.replace('\n', " "));
    Err(if hint.is_empty() { refused } else { refused.hint(hint) })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
