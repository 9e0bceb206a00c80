//! Migrating: safe to repeat, safe twice at once, clear when it was not done.

use alertstream::archive::groups::{BuildStep, Groups};
use alertstream::archive::ingest::ArchiveWriter;
use alertstream::archive::{Archive, ArchiveError, ArchiveOptions};
use alertstream::query::Query;
use sqlx::AssertSqlSafe;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use super::ingest::batch;
use crate::common::TestDb;

#[tokio::test]
async fn migrating_twice_at_once_and_again_is_migrating_once() {
    let db = TestDb::empty().await;
    let archive = db.archive().await;
    let error = archive.check_migrated().await.unwrap_err();
    assert!(matches!(error, ArchiveError::NotMigrated { .. }));
    assert!(error.to_string().contains("run `alertstream migrate`"), "{error}");
    let (first, second) = tokio::join!(archive.migrate(), archive.migrate());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.1, second.1);
    assert!(first.1 > 0);
    assert_eq!(archive.migrate().await.unwrap(), (first.1, first.1));
    archive.check_migrated().await.unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let db = TestDb::new().await;
    let pool = db.pool().await;
    sqlx::query(
        "UPDATE _sqlx_migrations SET version = 9999 WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
    )
    .execute(&pool)
    .await
    .unwrap();
    let archive = db.archive().await;
    assert!(matches!(
        archive.check_migrated().await,
        Err(ArchiveError::NewerSchema { found: 9999, .. })
    ));
    assert!(matches!(
        archive.migrate().await,
        Err(ArchiveError::NewerSchema { found: 9999, .. })
    ));
}

#[tokio::test]
async fn a_restore_into_another_cluster_is_noticed_and_bound_by_migrating() {
    let db = TestDb::new().await;
    let (archive, pool) = (db.archive().await, db.pool().await);
    ArchiveWriter::new(&archive, 1).write(batch(0..10)).await;
    let groups = Groups::new(&archive);
    groups
        .join_or_create("unfinished", Some(&Query::all()), 5)
        .await
        .unwrap();
    // As if from a cluster whose transaction ids are far ahead of ours.
    for statement in [
        "UPDATE alert SET ingest_xid = '4611686018427387904'",
        "UPDATE consumer_group SET as_of = '4611686018427387900:4611686018427387905:4611686018427387902'",
        "UPDATE cluster_binding SET system_identifier = system_identifier + 1",
    ] {
        sqlx::query(statement).execute(&pool).await.unwrap();
    }
    assert!(matches!(
        archive.check_migrated().await,
        Err(ArchiveError::RestoredElsewhere { .. })
    ));
    let (from, to) = archive.migrate().await.unwrap();
    assert_eq!(from, to);
    archive.check_migrated().await.unwrap();
    for name in ["unfinished", "new"] {
        let group = groups.join_or_create(name, Some(&Query::all()), 5).await.unwrap();
        while groups.build_step(&group).await.unwrap() != BuildStep::Built {}
        assert_eq!(groups.show(name).await.unwrap().alerts.total, 10, "{name}");
    }
}

#[tokio::test]
async fn a_plain_role_that_owns_its_database_can_migrate_and_ingest() {
    let db = TestDb::empty().await;
    let pool = db.pool().await;
    let role = format!("plain_{}", uuid::Uuid::new_v4().simple());
    let name: String = sqlx::query_scalar("SELECT current_database()")
        .fetch_one(&pool)
        .await
        .unwrap();
    for statement in [
        format!("CREATE ROLE {role} LOGIN PASSWORD 'plain'"),
        format!("ALTER DATABASE {name} OWNER TO {role}"),
        format!("ALTER SCHEMA public OWNER TO {role}"),
    ] {
        sqlx::query(AssertSqlSafe(statement)).execute(&pool).await.unwrap();
    }
    let options: PgConnectOptions = db.url().parse().unwrap();
    let url = options.username(&role).password("plain").to_url_lossy().to_string();
    // A socket is a parameter, not a host, in the URLs that people write.
    let url = match db.url().split_once('?') {
        Some((_, parameters)) => format!("postgres://{role}:plain@localhost/{name}?{parameters}"),
        None => url,
    };
    let archive = Archive::connect(&url, &ArchiveOptions::default()).await.unwrap();
    archive.migrate().await.unwrap();
    archive.check_migrated().await.unwrap();
    let written = ArchiveWriter::new(&archive, 1).write(batch(0..3)).await;
    assert!(written.iter().all(Result::is_ok));
    sqlx::query(AssertSqlSafe(format!("ALTER DATABASE {name} OWNER TO CURRENT_USER")))
        .execute(&pool)
        .await
        .unwrap();
    for statement in ["REASSIGN OWNED BY", "DROP OWNED BY", "DROP ROLE"] {
        let to = if statement.starts_with("REASSIGN") {
            " TO CURRENT_USER"
        } else {
            ""
        };
        sqlx::query(AssertSqlSafe(format!("{statement} {role}{to}")))
            .execute(&pool)
            .await
            .unwrap();
    }
}
