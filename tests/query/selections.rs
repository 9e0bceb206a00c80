//! Every flag, and every pair of flags, selects in Postgres exactly what it selects in memory.

use alertstream::archive::groups::{BuildStep, Groups};
use alertstream::archive::sql;
use alertstream::query::{NightStart, Query, QueryError, QueryText};
use sqlx::{PgPool, Postgres, QueryBuilder};

use crate::alerts::{generate, select, select_by_hand, store};
use crate::common::TestDb;
use crate::values::{Oracle, VALUES};

/// Small, so that a build has more blocks than steps and a last one that is not full.
const BLOCK: u32 = 70;

fn parse(parts: &[(&str, &str)]) -> Result<Query, QueryError> {
    let mut text = QueryText::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    for (key, value) in parts {
        if *key == "moc" {
            std::fs::write(file.path(), value).unwrap();
            text.set(key, file.path().to_str().unwrap())?;
        } else {
            text.set(key, *value)?;
        }
    }
    Query::parse(&text.with_files()?, NightStart::default())
}

/// The blocks of a new group of the query, in order; the group is gone after it.
async fn built(groups: &Groups, query: &Query) -> Vec<Vec<i64>> {
    let group = groups.join_or_create("g", Some(query), BLOCK).await.unwrap();
    while groups.build_step(&group).await.unwrap() != BuildStep::Built {}
    let blocks = sqlx::query_scalar("SELECT ids FROM claim_block WHERE group_id = $1 ORDER BY block_seq")
        .bind(group.id)
        .fetch_all(groups.pool())
        .await
        .unwrap();
    groups.delete("g").await.unwrap();
    blocks
}

async fn selected(pool: &PgPool, query: &Query) -> Vec<i64> {
    let mut statement = QueryBuilder::<Postgres>::new("");
    sql::push_selection(&mut statement, query);
    let rows: Vec<(i64, f64)> = statement
        .build_query_as()
        .persistent(false)
        .fetch_all(pool)
        .await
        .expect("a selection");
    let mut count = QueryBuilder::<Postgres>::new("");
    sql::push_count(&mut count, query);
    let counted: i64 = count
        .build_query_scalar()
        .persistent(false)
        .fetch_one(pool)
        .await
        .expect("a count");
    assert_eq!(counted, rows.len() as i64, "count of {query}");
    rows.into_iter().map(|(id, _)| id).collect()
}

/// Every flag alone and with each other one: counted, selected as an export does, and built as a group does.
#[tokio::test]
async fn every_flag_and_pair_of_flags_selects_what_brute_force_selects() {
    let db = TestDb::new().await;
    let pool = db.pool().await;
    let groups = Groups::new(&db.archive().await);
    let alerts = generate(1, 5_000);
    let ids = store(&pool, &alerts).await;
    let flags = |most| {
        VALUES.iter().flat_map(move |(key, values)| {
            let taken = values.iter().take(most);
            taken.map(move |(value, oracle)| (*key, *value, *oracle))
        })
    };
    let singles = flags(usize::MAX).map(|flag| vec![flag]);
    // Three values of each are enough for the pairs.
    let pairs = flags(3).flat_map(|a| flags(3).filter(move |b| a.0 < b.0).map(move |b| vec![a, b]));
    let (mut tried, mut nothing) = (0, 0);
    for flags in singles.chain(pairs) {
        let parts: Vec<(&str, &str)> = flags.iter().map(|(key, value, _)| (*key, *value)).collect();
        let oracles: Vec<Oracle> = flags.iter().map(|(_, _, oracle)| *oracle).collect();
        let expected = select_by_hand(&oracles, &alerts, &ids);
        let query = match parse(&parts) {
            Err(QueryError::Disjoint { .. }) => {
                assert!(expected.is_empty(), "{parts:?} have something in common");
                continue;
            }
            parsed => parsed.unwrap_or_else(|e| panic!("{parts:?}: {e}")),
        };
        assert_eq!(selected(&pool, &query).await, expected, "{query}");
        let blocks = built(&groups, &query).await;
        assert_eq!(blocks.concat(), expected, "group of {query}");
        let full = blocks.iter().rev().skip(1).all(|block| block.len() == BLOCK as usize);
        assert!(full, "only the last block may be short: {query}");
        tried += 1;
        nothing += usize::from(expected.is_empty());
    }
    assert!(
        tried > 550 && nothing < tried / 2,
        "{tried} queries, {nothing} of them selected nothing"
    );
}

#[tokio::test]
async fn all_is_everything_and_stands_alone() {
    let db = TestDb::new().await;
    let pool = db.pool().await;
    let groups = Groups::new(&db.archive().await);
    let alerts = generate(1, 500);
    let ids = store(&pool, &alerts).await;
    let everything = select_by_hand(&[], &alerts, &ids);
    assert_eq!(everything.len(), 500);
    let all = parse(&[("all", "true")]).unwrap();
    assert_eq!(selected(&pool, &all).await, everything);
    assert_eq!(built(&groups, &all).await.concat(), everything);
    for (key, values) in VALUES {
        assert!(
            parse(&[("all", "true"), (key, values[0].0)]).is_err(),
            "--all beside --{key}"
        );
    }
    let named: std::collections::BTreeSet<&str> = VALUES.iter().map(|(key, _)| *key).chain(["all"]).collect();
    assert!(
        named.into_iter().eq(alertstream::query::KEYS),
        "a flag without a value here"
    );
}

#[tokio::test]
async fn the_same_query_over_the_same_archive_gives_the_same_blocks() {
    let db = TestDb::new().await;
    let pool = db.pool().await;
    let groups = Groups::new(&db.archive().await);
    store(&pool, &generate(5, 3_000)).await;
    for parts in [
        vec![("all", "true")],
        vec![("night", "2018-08-20..2018-08-21"), ("where", "magnitude < 19")],
        vec![("cone", "359.9,0.1,2deg")],
        vec![("latest_per_object", "true"), ("every", "3/1")],
        vec![("survey", "ztf"), ("limit", "1000")],
    ] {
        let query = parse(&parts).unwrap();
        let first = built(&groups, &query).await;
        assert!(first.len() > 1, "{query}");
        // What the planner knows must not matter.
        sqlx::query("ANALYZE alert").execute(&pool).await.unwrap();
        assert_eq!(built(&groups, &query).await, first, "{query}");
    }
}

#[tokio::test]
async fn slices_partition_the_set() {
    let db = TestDb::new().await;
    let pool = db.pool().await;
    let alerts = generate(2, 500);
    store(&pool, &alerts).await;
    let mut together = Vec::new();
    for k in 0..7 {
        let slice = parse(&[("every", &format!("7/{k}")), ("survey", "ztf")]).unwrap();
        together.extend(selected(&pool, &slice).await);
    }
    let mut whole = selected(&pool, &parse(&[("survey", "ztf")]).unwrap()).await;
    together.sort_unstable();
    whole.sort_unstable();
    assert_eq!(together, whole);
}

#[tokio::test]
async fn a_region_finer_than_its_cover_is_tested_exactly() {
    let db = TestDb::new().await;
    let pool = db.pool().await;
    let alerts = generate(3, 2_000);
    let ids = store(&pool, &alerts).await;
    // Every other pixel of order 5: 6,144 ranges, far more than are compared one by one.
    let pixels: Vec<String> = (0..12 * 1024).step_by(2).map(|pixel: u32| pixel.to_string()).collect();
    let region = format!("32:{}", pixels.join(","));
    for parts in [
        vec![("healpix", region.as_str())],
        vec![("healpix", region.as_str()), ("cone", "10,20,80")],
    ] {
        let query = parse(&parts).unwrap();
        let expected = select(&query, &alerts, &ids);
        assert!(!expected.is_empty() && expected.len() < 1_500);
        assert_eq!(selected(&pool, &query).await, expected);
    }
}

#[tokio::test]
async fn latest_per_object_ignores_what_the_snapshot_does_not_see() {
    let db = TestDb::new().await;
    let pool = db.pool().await;
    let mut alerts = generate(4, 2);
    for (n, alert) in alerts.iter_mut().enumerate() {
        (alert.survey, alert.object_id, alert.jd) = ("ztf".into(), Some("A".into()), Some(2_458_350.0 + n as f64));
    }
    let first = store(&pool, &alerts[..1]).await;
    let as_of: String = sqlx::query_scalar("SELECT pg_current_snapshot()::text")
        .fetch_one(&pool)
        .await
        .unwrap();
    let second = store(&pool, &alerts[1..]).await;
    let query = parse(&[("latest_per_object", "true")]).unwrap();
    assert_eq!(selected(&pool, &query).await, second);
    let mut statement = QueryBuilder::<Postgres>::new("SELECT a.id FROM alert a WHERE a.id = ");
    statement.push_bind(first[0]).push(" AND ");
    sql::push_predicates(&mut statement, &query);
    sql::push_latest(&mut statement, &query, Some(&as_of));
    let seen: Vec<i64> = statement.build_query_scalar().fetch_all(&pool).await.unwrap();
    assert_eq!(seen, first);
}
