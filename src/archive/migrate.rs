//! Migrations: forward only, embedded, safe twice at once; and the binding to a cluster's transaction ids.
//!
//! Invariants: `alert.ingest_xid` and `consumer_group.as_of` are transaction ids of the cluster named in
//! `cluster_binding`. After a restore into another cluster they mean nothing: migrating makes every restored alert
//! older than any snapshot (so visible to all) and gives unfinished groups a snapshot of the new cluster.

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Acquire, PgConnection};

use super::{Archive, ArchiveError, to_completion};

static MIGRATIONS: Migrator = sqlx::migrate!();

const APPLIED: &str = "SELECT COALESCE(max(version), 0) FROM _sqlx_migrations WHERE success";
const HAS_MIGRATIONS: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
const LOCK_BINDING: &str =
    "SELECT b.system_identifier = c.system_identifier FROM cluster_binding b, pg_control_system() c FOR UPDATE OF b";
const BOUND_HERE: &str =
    "SELECT b.system_identifier = c.system_identifier FROM cluster_binding b, pg_control_system() c";
const REBIND: [&str; 3] = [
    // 3 is the first ordinary transaction id: below every snapshot's horizon.
    "UPDATE alert SET ingest_xid = '3' WHERE ingest_xid <> '3'",
    "UPDATE consumer_group g SET as_of = pg_current_snapshot() FROM group_build b WHERE b.group_id = g.group_id AND NOT b.built",
    "UPDATE cluster_binding SET system_identifier = (SELECT system_identifier FROM pg_control_system())",
];

impl Archive {
    /// Applies the migrations that are missing and gives the schema version before and after.
    ///
    /// # Errors
    /// [`ArchiveError::NewerSchema`], [`ArchiveError::Migration`].
    ///
    /// # Cancel safety
    /// The work goes on to its end.
    pub async fn migrate(&self) -> Result<(i64, i64), ArchiveError> {
        let archive = self.clone();
        to_completion(async move {
            // An index on a filled table takes as long as it takes.
            let pool = super::pool_of(&super::unhurried(&archive.connect), 2);
            let mut connection = pool.acquire().await?;
            let from = applied(&mut connection).await?;
            if from > newest() {
                return Err(archive.newer_schema(from));
            }
            MIGRATIONS
                .run(&pool)
                .await
                .map_err(|error| archive.migration_error(error))?;
            bind_to_cluster(&mut connection).await?;
            let to = applied(&mut connection).await?;
            drop(connection);
            pool.close().await;
            Ok((from, to))
        })
        .await
    }

    /// Checks that the tables are those of this program, in this cluster.
    ///
    /// # Errors
    /// [`ArchiveError`]: `NotMigrated`, `NewerSchema`, `RestoredElsewhere`.
    ///
    /// # Cancel safety
    /// Nothing was changed.
    pub async fn check_migrated(&self) -> Result<(), ArchiveError> {
        let archive = self.clone();
        to_completion(async move {
            let mut connection = archive.pool.acquire().await?;
            let found = applied(&mut connection).await?;
            let place = archive.place().to_owned();
            if found < newest() {
                return Err(ArchiveError::NotMigrated {
                    place,
                    found,
                    needed: newest(),
                });
            }
            if found > newest() {
                return Err(archive.newer_schema(found));
            }
            match sqlx::query_scalar(BOUND_HERE).fetch_optional(&mut *connection).await? {
                Some(true) => Ok(()),
                _ => Err(ArchiveError::RestoredElsewhere { place }),
            }
        })
        .await
    }

    fn newer_schema(&self, found: i64) -> ArchiveError {
        ArchiveError::NewerSchema {
            place: self.place().to_owned(),
            found,
            known: newest(),
        }
    }

    fn migration_error(&self, error: MigrateError) -> ArchiveError {
        match error {
            MigrateError::VersionMissing(found) => self.newer_schema(found),
            other => ArchiveError::Migration {
                place: self.place().to_owned(),
                cause: other.into(),
            },
        }
    }
}

fn newest() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

async fn applied(connection: &mut PgConnection) -> Result<i64, ArchiveError> {
    if !sqlx::query_scalar::<_, bool>(HAS_MIGRATIONS)
        .fetch_one(&mut *connection)
        .await?
    {
        return Ok(0);
    }
    Ok(sqlx::query_scalar(APPLIED).fetch_one(connection).await?)
}

async fn bind_to_cluster(connection: &mut PgConnection) -> Result<(), ArchiveError> {
    let mut transaction = connection.begin().await?;
    let bound_here: Option<bool> = sqlx::query_scalar(LOCK_BINDING)
        .fetch_optional(&mut *transaction)
        .await?;
    if bound_here == Some(false) {
        for statement in REBIND {
            sqlx::query(statement).execute(&mut *transaction).await?;
        }
    }
    transaction.commit().await?;
    Ok(())
}
