//! A private Postgres in a container, where no binaries are installed but an engine runs.
//!
//! Invariants: the port is chosen by the engine and published on the loopback address only; the container is removed
//! when the pipe to its supervisor closes, however this process ended. Must not know of installed binaries.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::PrivatePostgresError;

/// Runs the container, prints `ADDRESS:PORT` once the server answers, and removes it when its input ends.
const SUPERVISE: &str = r#"
trap '' INT TERM HUP PIPE
id=$(docker run -d --rm -e POSTGRES_HOST_AUTH_METHOD=trust -p 127.0.0.1::5432 "$1" -c fsync=off -c max_connections=400 -c shared_buffers=256MB) || exit 1
tries=0
until docker exec "$id" pg_isready -q -h 127.0.0.1 -U postgres; do
  tries=$((tries + 1))
  if [ $tries -gt 300 ]; then docker kill "$id" >/dev/null; exit 1; fi
  sleep 0.2
done
docker port "$id" 5432/tcp
cat >/dev/null
docker kill "$id" >/dev/null
"#;

/// The image: Postgres' own, small.
const IMAGE: &str = "postgres:17-alpine";

/// A running container and the shell that removes it.
pub(super) struct Container {
    url: String,
    supervisor: Child,
    input: Option<ChildStdin>,
}

impl Container {
    /// Starts a container; `None` when no engine runs here.
    pub(super) fn start() -> Result<Option<Self>, PrivatePostgresError> {
        let quiet = || Stdio::null();
        let engine = Command::new("docker")
            .arg("info")
            .stdin(quiet())
            .stdout(quiet())
            .stderr(quiet())
            .status();
        if !engine.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        eprintln!("no Postgres is installed: starting `{IMAGE}` in a container");
        let failed = |why: String| PrivatePostgresError::failed("start in a container", why);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SUPERVISE, "alertstream-postgres", IMAGE]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut supervisor = command.spawn().map_err(|e| failed(e.to_string()))?;
        let input = supervisor.stdin.take();
        let mut address = String::new();
        if let Some(output) = supervisor.stdout.take() {
            BufReader::new(output)
                .read_line(&mut address)
                .map_err(|e| failed(e.to_string()))?;
        }
        if address.trim().is_empty() {
            let _ = supervisor.wait();
            return Err(failed(format!(
                "`docker run {IMAGE}` did not come up; see its message above"
            )));
        }
        let url = format!("postgres://postgres@{}/postgres", address.trim());
        Ok(Some(Self { url, supervisor, input }))
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.supervisor.wait();
    }
}
