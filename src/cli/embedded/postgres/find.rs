//! Finds the Postgres that is installed, and a user to run it as; installs Debian's package where that is possible.
//!
//! Invariants: only versions of at least [`OLDEST`] are taken; nothing is installed unless we are root on Debian.
//! Must not know how the server is run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::PrivatePostgresError;

/// The oldest major version that the archive works with.
const OLDEST: u32 = 14;

/// The binaries of one installed Postgres.
#[derive(Debug)]
pub(super) struct Installation {
    version: u32,
    /// The folder of `initdb`, `pg_ctl` and `postgres`.
    pub(super) bin: PathBuf,
}

impl Installation {
    /// Gives the newest installed version that is new enough.
    pub(super) fn newest() -> Option<Self> {
        candidate_folders()
            .into_iter()
            .filter_map(Self::in_folder)
            .max_by_key(|found| found.version)
    }

    fn in_folder(bin: PathBuf) -> Option<Self> {
        if !["initdb", "pg_ctl", "postgres"]
            .iter()
            .all(|name| bin.join(name).is_file())
        {
            return None;
        }
        let output = Command::new(bin.join("postgres")).arg("--version").output().ok()?;
        let version = major_version(&String::from_utf8_lossy(&output.stdout))?;
        (version >= OLDEST).then_some(Self { version, bin })
    }
}

/// Folders in which packagers put the server's binaries, beside those of `PATH`.
fn candidate_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    folders.push("/usr/local/pgsql/bin".into());
    let parents = ["/usr/lib/postgresql", "/usr", "/opt/homebrew/opt", "/usr/local/opt"];
    for entry in parents
        .iter()
        .filter_map(|parent| fs::read_dir(parent).ok())
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = entry.path().starts_with("/usr/lib/postgresql")
            || name.starts_with("pgsql-")
            || name.starts_with("postgresql@");
        if is_ours {
            folders.push(entry.path().join("bin"));
        }
    }
    folders
}

/// Reads the major version of a line like `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn major_version(line: &str) -> Option<u32> {
    let number = line.split_once("(PostgreSQL)")?.1.trim_start();
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The user to run the server as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunAs {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl RunAs {
    /// Gives the user to change to, or `None` where we are not root and run it ourselves.
    pub(super) fn find() -> Result<Option<Self>, PrivatePostgresError> {
        if !we_are_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let found = ["postgres", "nobody"].iter().find_map(|name| user_named(&users, name));
        found.map(Some).ok_or(PrivatePostgresError::NoUser)
    }
}

fn user_named(users: &str, name: &str) -> Option<RunAs> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(RunAs {
        uid: fields.next()?.parse().ok()?,
        gid: fields.next()?.parse().ok()?,
    })
}

/// Whether this process runs as root: its own entry under `/proc` belongs to its effective user.
fn we_are_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

/// Installs Debian's package, without the server that it would start; says so on stderr. False where it cannot.
pub(super) fn install_debian_package() -> bool {
    if !we_are_root() || !Path::new("/usr/bin/apt-get").is_file() {
        return false;
    }
    eprintln!("no Postgres is installed: installing Debian's package `postgresql` for the private server");
    let settings = Path::new("/etc/postgresql-common/createcluster.conf");
    if !settings.exists() {
        // Without this the package makes and starts a cluster that nobody asked for.
        let written = fs::create_dir_all("/etc/postgresql-common")
            .and_then(|()| fs::write(settings, "create_main_cluster = false\n"));
        if written.is_err() {
            return false;
        }
    }
    apt_get(&["update"])
        && apt_get(&[
            "install",
            "-y",
            "--no-install-recommends",
            "-o",
            "Dpkg::Options::=--force-confold",
            "postgresql",
        ])
}

fn apt_get(arguments: &[&str]) -> bool {
    let mut command = Command::new("/usr/bin/apt-get");
    command
        .arg("-qq")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_postgres_prints() {
        assert_eq!(
            major_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"),
            Some(15)
        );
        assert_eq!(major_version("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major_version("something else"), None);
    }

    #[test]
    fn users_are_found_by_their_whole_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\npostgres2:x:9:9::/:/bin/sh\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(user_named(users, "postgres"), Some(RunAs { uid: 101, gid: 104 }));
        assert_eq!(user_named(users, "nobody"), None);
    }
}
