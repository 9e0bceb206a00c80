//! A private Postgres for the demo and the tests: started from the installed binaries, on a Unix socket of its own.
//!
//! Invariants: it listens on no port; its folder and its processes are gone after [`PrivatePostgres::stop`], after a
//! drop, and after this process died in any way, SIGKILL included: a small shell supervisor holds the other end of a
//! pipe and cleans up when the pipe closes. It is fast because nothing is flushed to the disk (`fsync = off`): it
//! survives a crash of the server, not of the machine, so it is never the home of data that matters.
//! Must not know of the archive.

mod docker;
mod find;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use docker::Container;
use find::{Installation, RunAs};

const SUPERVISE: &str = include_str!("postgres/supervise.sh");

/// The server's settings besides its folder. `full_page_writes` and `fsync` are off: see the head of this file.
const SETTINGS: &str = "\
listen_addresses = ''
fsync = off
full_page_writes = off
max_connections = 400
shared_buffers = 256MB
max_wal_size = 4GB
checkpoint_timeout = 30min
log_checkpoints = off
log_min_messages = warning
";

/// Why no private Postgres could be had.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum PrivatePostgresError {
    /// No binaries, nothing to install them with, no container engine.
    #[error(
        "no Postgres 14 or newer was found on this machine: install it (Debian: `apt-get install postgresql`), \
         start Docker, or name a database with `--database-url`"
    )]
    NotFound,
    /// Running as root, and no other user is there to run the server.
    #[error("Postgres refuses to run as root and neither the user `postgres` nor `nobody` exists: run as another user")]
    NoUser,
    /// A step of starting or stopping failed.
    #[error("the private Postgres could not {step}: {why}")]
    Failed {
        /// What was tried.
        step: &'static str,
        /// The end of the server's log, or the system's error.
        why: String,
    },
}

impl PrivatePostgresError {
    fn failed(step: &'static str, why: impl ToString) -> Self {
        Self::Failed {
            step,
            why: why.to_string(),
        }
    }
}

/// A running Postgres, private to this process unless it was given.
pub struct PrivatePostgres {
    url: String,
    kind: Kind,
}

enum Kind {
    Given,
    Supervised(Supervisor),
    Container(#[expect(dead_code, reason = "held for its drop")] Container),
}

impl PrivatePostgres {
    /// Starts a private server: from the installed binaries (newest version first), else after installing Debian's
    /// package where that is possible (it says so on stderr), else in a container.
    ///
    /// # Errors
    /// [`PrivatePostgresError`], with the end of the server's log where there is one.
    ///
    /// # Cancel safety
    /// Dropped half-way, what was started is stopped and removed.
    pub async fn start() -> Result<Self, PrivatePostgresError> {
        blocking(Self::start_blocking).await
    }

    /// Uses the given database (`DATABASE_URL`) if there is one, else starts a private server.
    ///
    /// # Errors
    /// As [`PrivatePostgres::start`].
    pub async fn start_unless_given(url: Option<String>) -> Result<Self, PrivatePostgresError> {
        match url {
            Some(url) => Ok(Self { url, kind: Kind::Given }),
            None => Self::start().await,
        }
    }

    /// Gives the URL of its default database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether the server was started here and ends with this process.
    pub fn is_private(&self) -> bool {
        !matches!(self.kind, Kind::Given)
    }

    /// Stops the server as a crash would (`immediate`: it recovers at the next start).
    ///
    /// # Errors
    /// When the server is not ours to stop, or does not stop.
    pub async fn stop_immediate(&self) -> Result<(), PrivatePostgresError> {
        self.order("immediate", "stop").await
    }

    /// Starts the server again after [`PrivatePostgres::stop_immediate`]; the URL stays the same.
    ///
    /// # Errors
    /// When the server is not ours to start, or does not start.
    pub async fn restart(&self) -> Result<(), PrivatePostgresError> {
        self.order("start", "start").await
    }

    /// Stops the server and removes its folder; a given one is left alone.
    pub async fn stop(self) {
        // A join error would mean that dropping panicked; the supervisor cleans up then too.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    async fn order(&self, command: &'static str, step: &'static str) -> Result<(), PrivatePostgresError> {
        let Kind::Supervised(supervisor) = &self.kind else {
            return Err(PrivatePostgresError::failed(step, "it was not started by this process"));
        };
        let supervisor = supervisor.clone();
        blocking(move || supervisor.order(command, step)).await
    }

    fn start_blocking() -> Result<Self, PrivatePostgresError> {
        let installation = match Installation::newest() {
            Some(found) => Some(found),
            None if find::install_debian_package() => Installation::newest(),
            None => None,
        };
        match installation {
            Some(installation) => Self::start_installed(&installation),
            None => {
                let container = Container::start()?.ok_or(PrivatePostgresError::NotFound)?;
                Ok(Self {
                    url: container.url().to_owned(),
                    kind: Kind::Container(container),
                })
            }
        }
    }

    fn start_installed(installation: &Installation) -> Result<Self, PrivatePostgresError> {
        let user = RunAs::find()?;
        let folder = make_folder(user).map_err(|e| PrivatePostgresError::failed("make its folder", e))?;
        let supervisor = Supervisor::start(installation, &folder, user)?;
        supervisor.order("init", "make its cluster")?;
        supervisor.order("start", "start")?;
        let url = format!("postgres://alertstream@localhost/postgres?host={}", folder.display());
        Ok(Self {
            url,
            kind: Kind::Supervised(supervisor),
        })
    }
}

/// Runs blocking work apart from the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PrivatePostgresError> + Send + 'static,
) -> Result<T, PrivatePostgresError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(PrivatePostgresError::failed("be reached", error)),
    }
}

/// Makes the folder of the cluster and its socket. The path is short because a socket's may have at most 107 bytes.
fn make_folder(user: Option<RunAs>) -> io::Result<PathBuf> {
    let parent = Some(std::env::temp_dir())
        .filter(|dir| dir.as_os_str().len() <= 60)
        .unwrap_or_else(|| "/tmp".into());
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let folder = parent.join(format!(
        "alertstream-{}-{}",
        std::process::id(),
        unique.get(..8).unwrap_or_default()
    ));
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    fs::write(
        folder.join("settings"),
        format!("{SETTINGS}unix_socket_directories = '{}'\n", folder.display()),
    )?;
    if let Some(user) = user {
        std::os::unix::fs::chown(folder.join("settings"), Some(user.uid), Some(user.gid))?;
        std::os::unix::fs::chown(&folder, Some(user.uid), Some(user.gid))?;
    }
    Ok(folder)
}

/// The shell that owns the server's processes and folder.
#[derive(Clone)]
struct Supervisor(std::sync::Arc<parking_lot::Mutex<Running>>);

struct Running {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Supervisor {
    fn start(installation: &Installation, folder: &Path, user: Option<RunAs>) -> Result<Self, PrivatePostgresError> {
        let spawned = supervise(installation, folder, user).spawn().and_then(|mut child| {
            match (child.stdin.take(), child.stdout.take()) {
                (Some(orders), Some(answers)) => Ok((child, orders, answers)),
                _ => Err(io::Error::other("no pipe to the supervisor")),
            }
        });
        match spawned {
            Ok((child, orders, answers)) => Ok(Self(std::sync::Arc::new(parking_lot::Mutex::new(Running {
                child,
                orders: Some(orders),
                answers: BufReader::new(answers),
                folder: folder.to_owned(),
            })))),
            Err(error) => {
                // Nothing runs in it yet, and nobody else would remove it.
                let _ = fs::remove_dir_all(folder);
                Err(PrivatePostgresError::failed("start its supervisor", error))
            }
        }
    }

    fn order(&self, command: &str, step: &'static str) -> Result<(), PrivatePostgresError> {
        let mut running = self.0.lock();
        let answer = running
            .ask(command)
            .map_err(|e| PrivatePostgresError::failed(step, e))?;
        match answer.trim() {
            "ok" => Ok(()),
            _ => Err(PrivatePostgresError::failed(step, log_end(&running.folder))),
        }
    }
}

fn supervise(installation: &Installation, folder: &Path, user: Option<RunAs>) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SUPERVISE, "alertstream-postgres"])
        .arg(&installation.bin)
        .arg(folder);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir(folder);
    // A group of its own: Ctrl-C at the terminal must not end it before its clean-up.
    command.process_group(0);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

impl Running {
    fn ask(&mut self, command: &str) -> io::Result<String> {
        let orders = self
            .orders
            .as_mut()
            .ok_or_else(|| io::Error::other("its supervisor has ended"))?;
        writeln!(orders, "{command}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.orders = None;
        // Bounded: the supervisor stops the server within 60 s or gives up, then ends.
        let _ = self.child.wait();
    }
}

/// Gives the last lines of the server's log.
fn log_end(folder: &Path) -> String {
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let from = lines.len().saturating_sub(5);
    lines.get(from..).unwrap_or_default().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_left_after_stop() {
        let server = PrivatePostgres::start().await.unwrap();
        let folder = PathBuf::from(server.url().rsplit_once("host=").unwrap().1);
        assert!(folder.join("data/postmaster.pid").exists());
        server.stop().await;
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn a_crash_and_a_restart_keep_the_rows() {
        let server = PrivatePostgres::start().await.unwrap();
        let pool = sqlx::PgPool::connect(server.url()).await.unwrap();
        sqlx::query("CREATE TABLE t AS SELECT 7 AS n")
            .execute(&pool)
            .await
            .unwrap();
        server.stop_immediate().await.unwrap();
        server.restart().await.unwrap();
        let pool = sqlx::PgPool::connect(server.url()).await.unwrap();
        let n: i32 = sqlx::query_scalar("SELECT n FROM t").fetch_one(&pool).await.unwrap();
        assert_eq!(n, 7);
    }

    #[test]
    fn a_death_of_ours_while_it_answers_leaves_nothing() {
        let (installation, user) = (Installation::newest().unwrap(), RunAs::find().unwrap());
        let folder = make_folder(user).unwrap();
        let mut supervisor = supervise(&installation, &folder, user).spawn().unwrap();
        // As SIGKILL does it: both ends are gone before the cluster is made, so each answer finds a broken pipe.
        drop(supervisor.stdout.take());
        supervisor.stdin.take().unwrap().write_all(b"init\nstart\n").unwrap();
        assert!(supervisor.wait().unwrap().success());
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn a_given_server_is_left_alone() {
        let given = PrivatePostgres::start_unless_given(Some("postgres://elsewhere/x".into()))
            .await
            .unwrap();
        assert!(!given.is_private());
        assert!(given.stop_immediate().await.is_err());
        given.stop().await;
    }
}
