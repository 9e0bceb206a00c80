//! A database of one's own on a given server: made, used, dropped. Demo, tests and benchmarks work in one, so that what
//! else the server holds is never touched.
//! Must not know of the archive.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// A database that was made for one purpose. [`OwnDatabase::discard`] drops it; a crash leaves it behind under its name.
pub struct OwnDatabase {
    url: String,
    name: String,
    server: String,
}

impl OwnDatabase {
    /// Makes an empty database on the server of a URL, named by `prefix` and a random part.
    ///
    /// # Errors
    /// The server's: the role may not be allowed to create databases.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn create(server: &str, prefix: &str) -> sqlx::Result<Self> {
        let name = format!("{prefix}_{}", uuid::Uuid::new_v4().simple());
        // A name of our own making: letters, digits and underscores.
        execute(server, format!("CREATE DATABASE {name}")).await?;
        Ok(Self {
            url: with_database(server, &name),
            name,
            server: server.to_owned(),
        })
    }

    /// Gives its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Gives its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drops it, with all connections that are still in it.
    ///
    /// # Errors
    /// The server's.
    ///
    /// # Cancel safety
    /// Run it to completion.
    pub async fn discard(&self) -> sqlx::Result<()> {
        execute(
            &self.server,
            format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        )
        .await
    }
}

async fn execute(url: &str, statement: String) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}

/// Gives the URL with another database name.
fn with_database(url: &str, name: &str) -> String {
    let (base, parameters) = match url.split_once('?') {
        Some((base, parameters)) => (base, format!("?{parameters}")),
        None => (url, String::new()),
    };
    let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
    let authority = rest.split('/').next().unwrap_or_default();
    format!("{scheme}://{authority}/{name}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_database_changes() {
        for (url, other) in [
            ("postgres://u:p@h:5432/a", "postgres://u:p@h:5432/b"),
            ("postgres://h", "postgres://h/b"),
            (
                "postgresql:///a?host=/run/pg&user=u",
                "postgresql:///b?host=/run/pg&user=u",
            ),
        ] {
            assert_eq!(with_database(url, "b"), other);
        }
    }
}
