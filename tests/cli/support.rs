//! Runs the program and reads what it said.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::TestDb;

/// No run of a test takes longer; a hang becomes a failure with the output so far.
const AT_MOST: Duration = Duration::from_secs(120);

/// What a finished run said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Checks the exit code, and that nothing looks like a crash.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for word in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!self.stderr.contains(word), "{self:#?}");
        }
        self
    }

    /// Reads stdout as one JSON object.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON on stdout ({e}): {self:#?}"))
    }

    /// Reads stdout as one JSON object a line.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
            .collect()
    }

    /// Reads the error object on stderr.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let line: Value = serde_json::from_str(self.stderr.trim()).unwrap_or_else(|e| panic!("{e}: {self:#?}"));
        let keys: Vec<&str> = line["error"]
            .as_object()
            .expect("an error")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys, ["class", "hint", "message"]);
        line["error"].clone()
    }
}

/// The program with no service named.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alertstream"));
    command
        .env_remove("DATABASE_URL")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// Runs the program without a database.
pub(crate) fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Said {
    wait(command().args(args))
}

/// Runs the program on a database, with `--json`.
pub(crate) fn json_on<A: AsRef<OsStr>>(db: &TestDb, args: impl IntoIterator<Item = A>) -> Said {
    wait(command().args(args).args(["--json", "--database-url", db.url()]))
}

/// Runs the program on a database.
pub(crate) fn on<A: AsRef<OsStr>>(db: &TestDb, args: impl IntoIterator<Item = A>) -> Said {
    wait(command().args(args).args(["--database-url", db.url()]))
}

fn wait(command: &mut Command) -> Said {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    finish(child)
}

/// Waits for a started program; one that takes too long is killed and fails the test by its missing code.
pub(crate) fn finish(child: Child) -> Said {
    let pid = child.id();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if waiting.recv_timeout(AT_MOST) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            signal(pid, "KILL");
        }
    });
    let output = child.wait_with_output().expect("its output");
    drop(done);
    watch.join().expect("the watch");
    Said::of(output)
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
}

/// Writes generated packets `from..to` as files into a folder.
pub(crate) fn write_packets(folder: &Path, numbers: std::ops::Range<u64>) {
    for n in numbers {
        std::fs::write(
            folder.join(format!("{n:06}.avro")),
            crate::common::fixtures::ztf_packet(n),
        )
        .expect("a file");
    }
}

/// Gives the names of an object's keys, sorted.
pub(crate) fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}
