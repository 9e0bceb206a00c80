//! The archive handle: connecting, the session's settings, and what every part of the archive shares.
//!
//! How it works: a packet is stored as container header (once for all packets that share it) and body; [`ingest`] takes
//! it apart, [`read`] puts it together again, byte for byte. Queries become SQL in [`sql`] and nowhere else.
//!
//! Invariants: no statement runs in a future that a caller can drop (see [`to_completion`]); every session has bounded
//! waits, so that no lost peer holds a lock for long. Must not know of streams, queues or handlers (but `ingest`, which
//! is one).

mod container_headers;
mod copy;
pub mod dead_letters;
pub mod error;
mod export;
pub mod groups;
mod handler;
pub mod ingest;
mod migrate;
mod origin;
mod read;
mod retention;
mod row;
pub mod sql;
mod store;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool};

use crate::payloads::Payloads;

pub use error::ArchiveError;
pub use export::{Export, Exported};
pub use read::{Fetch, Fetched};

/// How long the first connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Memory of packets that were let go kept for the next ones, bytes.
const KEPT_BYTES: usize = 32 << 20;
/// Every session's settings: a peer that is gone is noticed, and nothing waits without a bound.
const SESSION: [(&str, &str); 6] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "20s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("statement_timeout", "60s"),
];

/// How to connect.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// The most connections of the handle's own pool.
    pub connections: u32,
    /// The name that the server shows for our sessions.
    pub application: String,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            connections: 4,
            application: "alertstream".into(),
        }
    }
}

/// A handle on the archive; cheap to clone.
#[derive(Clone)]
pub struct Archive {
    pool: PgPool,
    connect: Arc<PgConnectOptions>,
    container_headers: Arc<container_headers::ContainerHeaders>,
    payloads: Arc<Payloads>,
    place: Arc<str>,
}

impl Archive {
    /// Connects, without looking at the tables: see [`Archive::check_migrated`].
    ///
    /// # Errors
    /// [`ArchiveError`]: `Url` before anything was touched, then `Unreachable`, `Refused`, `TooOld`.
    ///
    /// # Cancel safety
    /// Nothing was changed.
    pub async fn connect(url: &str, options: &ArchiveOptions) -> Result<Self, ArchiveError> {
        let connect = connect_options(url, &options.application)?;
        let place: Arc<str> = place_of(&connect).into();
        // Not by the pool, which would try again for a long time where nobody listens.
        let first = tokio::time::timeout(CONNECT_WITHIN, PgConnection::connect_with(&connect)).await;
        let first = match first {
            Ok(Ok(connection)) => connection,
            Ok(Err(cause)) => return Err(connect_error(&place, cause)),
            Err(_) => {
                return Err(connect_error(
                    &place,
                    std::io::Error::from(std::io::ErrorKind::TimedOut).into(),
                ));
            }
        };
        check_version(&place, &first)?;
        drop(first.close().await);
        let connect = Arc::new(connect);
        let pool = pool_of(&connect, options.connections);
        Ok(Self {
            pool,
            connect,
            container_headers: Arc::default(),
            payloads: Payloads::keeping(KEPT_BYTES),
            place,
        })
    }

    /// Checks a database URL without touching the server.
    ///
    /// # Errors
    /// [`ArchiveError::Url`].
    pub fn check_url(url: &str) -> Result<(), ArchiveError> {
        connect_options(url, "alertstream").map(drop)
    }

    /// Gives the handle's own pool. Statements on it must not run in a future that may be dropped.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Makes another pool on the same database, of at most `connections`, that connects when first used.
    pub fn private_pool(&self, connections: u32) -> PgPool {
        pool_of(&self.connect, connections)
    }

    /// Opens one connection that no pool recycles, with the session settings of all.
    ///
    /// # Errors
    /// As [`Archive::connect`].
    pub async fn dedicated_connection(&self) -> Result<PgConnection, ArchiveError> {
        PgConnection::connect_with(&self.connect)
            .await
            .map_err(|cause| connect_error(&self.place, cause))
    }

    /// Opens a connection without a time limit on its statements, for work as long as the archive is large.
    async fn unhurried_connection(&self) -> Result<PgConnection, ArchiveError> {
        PgConnection::connect_with(&unhurried(&self.connect))
            .await
            .map_err(|cause| connect_error(&self.place, cause))
    }

    /// Gives a handle on the same archive with a pool of its own, of at most `connections`.
    pub fn apart(&self, connections: u32) -> Self {
        Self {
            pool: self.private_pool(connections),
            ..self.clone()
        }
    }

    /// Gives the newest container headers (at most 256), each with an empty sync marker: the writer schemas of the
    /// archived packets that bring their own.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// Nothing was changed; the statement runs to its end.
    pub async fn newest_container_headers(&self) -> Result<Vec<Vec<u8>>, ArchiveError> {
        let (headers, pool) = (self.container_headers.clone(), self.pool.clone());
        let mut newest = to_completion(async move { headers.newest(&pool).await }).await?;
        newest.iter_mut().for_each(|header| header.extend([0; 16]));
        Ok(newest)
    }

    /// Names host, port and database for a person, without user and password.
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// Runs database work to its end even when the caller's future is dropped: a statement dropped half-way can leave its
/// connection inside a transaction (`Pool::begin` of sqlx 0.9.0 is not cancel-safe on Postgres).
///
/// # Errors
/// What the work returned.
///
/// # Cancel safety
/// The work goes on.
pub async fn to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, ArchiveError>> + Send + 'static,
) -> Result<T, ArchiveError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down.
        Err(_) => Err(ArchiveError::Database(sqlx::Error::WorkerCrashed)),
    }
}

fn connect_options(url: &str, application: &str) -> Result<PgConnectOptions, ArchiveError> {
    let refused = |why: &str| ArchiveError::Url { why: why.to_owned() };
    match url.split_once("://") {
        Some(("postgres" | "postgresql", "")) => return Err(refused("it names no host and no database")),
        Some(("postgres" | "postgresql", _)) => {}
        Some((scheme, _)) => return Err(refused(&format!("its scheme is `{scheme}`, not `postgres`"))),
        None => return Err(refused("it has no scheme")),
    }
    // The parser's own message could repeat a part of the password.
    let parsed: PgConnectOptions = without_empty_host(url)
        .parse()
        .map_err(|_| refused("host, port, database or a parameter is malformed"))?;
    Ok(parsed
        .application_name(application)
        .options(SESSION)
        .disable_statement_logging())
}

/// Rewrites `postgres://USER:PASSWORD@/DATABASE`, as libpq takes it for a Unix socket, into what the parser takes: the
/// user and the password as parameters, since a URL with a user must have a host for it.
pub(crate) fn without_empty_host(url: &str) -> Cow<'_, str> {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        Some((scheme, authority.strip_suffix('@')?, tail))
    });
    let Some((scheme, who, tail)) = parts else {
        return Cow::Borrowed(url);
    };
    // Both places are percent-encoded; what only a parameter gives a meaning to is encoded besides.
    let value = |text: &str| text.replace('&', "%26").replace('+', "%2B");
    let (user, password) = who.split_once(':').unwrap_or((who, ""));
    let mark = if tail.contains('?') { '&' } else { '?' };
    let mut rewritten = format!("{scheme}://{tail}{mark}user={}", value(user));
    if !password.is_empty() {
        rewritten.push_str("&password=");
        rewritten.push_str(&value(password));
    }
    Cow::Owned(rewritten)
}

fn pool_of(connect: &PgConnectOptions, connections: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections)
        .connect_lazy_with(connect.clone())
}

fn unhurried(connect: &PgConnectOptions) -> PgConnectOptions {
    connect
        .clone()
        .options([("statement_timeout", "0"), ("idle_in_transaction_session_timeout", "0")])
}

fn place_of(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or(options.get_username());
    match options.get_socket() {
        Some(folder) => format!("{}/{database}", folder.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}

fn connect_error(place: &str, cause: sqlx::Error) -> ArchiveError {
    let place = place.to_owned();
    match &cause {
        // 28 authorization, 3D no such database; the rest (starting up, too many clients) may pass.
        sqlx::Error::Database(e)
            if e.code()
                .is_some_and(|code| code.starts_with("28") || code.starts_with("3D")) =>
        {
            ArchiveError::Refused { place, cause }
        }
        _ => ArchiveError::Unreachable { place, cause },
    }
}

fn check_version(place: &str, connection: &PgConnection) -> Result<(), ArchiveError> {
    match connection.server_version_num() {
        Some(version) if version < 140_000 => Err(ArchiveError::TooOld {
            place: place.to_owned(),
            found: (version / 10_000).to_string(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_refused_before_anything_is_touched_and_never_repeated() {
        for url in [
            "mysql://u:secret@h/d",
            "u:secret@h",
            "postgres://u:secret@h:99999/d",
            "",
        ] {
            let error = Archive::check_url(url).unwrap_err();
            assert!(error.is_usage());
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        Archive::check_url("postgres://u:secret@h:5432/d?sslmode=disable").unwrap();
    }

    #[test]
    fn a_url_of_a_socket_may_name_a_user_and_no_host() {
        for url in [
            "postgres://me@/sky?host=/run/pg",
            "postgres://me:a+b%20c@/sky?host=/run/pg",
        ] {
            let options = connect_options(url, "test").unwrap();
            assert_eq!(options.get_username(), "me");
            assert_eq!(place_of(&options), "/run/pg/sky");
        }
        assert_eq!(
            connect_options("postgresql://me@/sky", "test").unwrap().get_username(),
            "me"
        );
    }

    #[tokio::test]
    async fn an_unreachable_server_is_named_without_the_password() {
        let url = "postgres://u:secret@localhost/d?host=/nonexistent";
        let error = Archive::connect(url, &ArchiveOptions::default()).await.err().unwrap();
        let text = error.to_string();
        assert!(
            text.contains("/nonexistent/d") && text.contains("--database-url") && !text.contains("secret"),
            "{text}"
        );
    }
}
