//! Shared by the integration tests: a database per test, generated packets, the corpus' folder.
//!
//! Invariants: every database is dropped with its [`TestDb`]; a private server ends with the test process; nothing here
//! needs a port, a configuration or a network. Must not know of the area a test belongs to.

// Each test binary uses its own part of this file.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod fixtures;

use std::path::PathBuf;

use alertstream::archive::{Archive, ArchiveOptions};
use alertstream::cli::embedded::database::OwnDatabase;
use alertstream::cli::embedded::postgres::PrivatePostgres;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::sync::OnceCell;

/// The server of this test process: the one named by `ALERTSTREAM_TEST_DATABASE_URL` or `DATABASE_URL`, else a private
/// one. As a static it is never dropped: it ends when the process does, by the pipe to its supervisor.
static SERVER: OnceCell<PrivatePostgres> = OnceCell::const_new();

async fn server() -> &'static PrivatePostgres {
    SERVER
        .get_or_init(|| async {
            let given = ["ALERTSTREAM_TEST_DATABASE_URL", "DATABASE_URL"]
                .iter()
                .find_map(|name| std::env::var(name).ok());
            PrivatePostgres::start_unless_given(given.filter(|url| !url.is_empty()))
                .await
                .expect("a Postgres for the tests")
        })
        .await
}

/// A fresh database, dropped with this value.
pub struct TestDb(OwnDatabase);

impl TestDb {
    /// Makes a database with the archive's tables.
    pub async fn new() -> Self {
        let db = Self::empty().await;
        db.archive().await.migrate().await.expect("migrations");
        db
    }

    /// Makes a database without tables.
    pub async fn empty() -> Self {
        Self::on(server().await.url()).await
    }

    /// Makes a database without tables on the server at `admin_url` (for tests that crash a server of their own).
    pub async fn on(admin_url: &str) -> Self {
        let made = OwnDatabase::create(admin_url, "alertstream_test").await;
        Self(made.expect("a database"))
    }

    /// Gives its URL.
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// Opens the archive in it.
    pub async fn archive(&self) -> Archive {
        Archive::connect(self.url(), &ArchiveOptions::default())
            .await
            .expect("the archive")
    }

    /// Opens a pool of its own on it, for looking behind the archive's back.
    pub async fn pool(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(4)
            .connect(self.url())
            .await
            .expect("a pool")
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        // Drop is not async and the test's runtime is busy running it: a thread with a runtime of its own.
        std::thread::scope(|threads| {
            let dropping = threads.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                let _ = runtime.block_on(self.0.discard());
            });
            let _ = dropping.join();
        });
    }
}

/// Gives the corpus' folder, or says that the test `name` was skipped.
pub fn corpus(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("ALERTSTREAM_CORPUS").filter(|folder| !folder.is_empty());
    if folder.is_none() {
        println!("skipped: {name} (ALERTSTREAM_CORPUS is not set)");
    }
    folder.map(PathBuf::from)
}

/// Gives every file below a folder, sorted by path.
pub fn files_below(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path)
            } else {
                found.push(path)
            }
        }
    }
    found.sort();
    found
}
