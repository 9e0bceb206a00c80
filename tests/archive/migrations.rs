//! Migrating: safe to repeat, safe twice at once, clear when it was not done.

use alertstream::archive::ArchiveError;

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
