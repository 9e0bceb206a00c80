//! Every flag, and every pair of flags, selects in Postgres exactly what it selects in memory.

use alertstream::archive::sql;
use alertstream::query::{NightStart, Query, QueryError, QueryText};
use sqlx::{PgPool, Postgres, QueryBuilder};

use crate::alerts::{generate, select, store};
use crate::common::TestDb;

/// A few values of each flag, such that most select something but not everything.
const VALUES: &[(&str, &[&str])] = &[
    (
        "jd",
        &[
            "2458350.5..2458352.5",
            "..2458350.0",
            "2458353.25..",
            "2458349.5..2458349.500001",
        ],
    ),
    ("mjd", &["58350.25..58351.75"]),
    ("time", &["2018-08-20T06:00:00Z..2018-08-22", "2018-08-19.."]),
    ("night", &["2018-08-19", "2018-08-20..2018-08-21", "..2018-08-22"]),
    (
        "cone",
        &[
            "0,0,0.7",
            "359.9,0.1,2deg",
            "10,90,1",
            "77,-89.9,20arcmin",
            "45,0,10arcsec",
            "120,41.8,3",
            "200,-30,60",
            "20,10,120",
            "1,2,180",
        ],
    ),
    (
        "healpix",
        &[
            "1:0,3,5",
            "64:0,1,2,8191",
            "8:100,1:7,4:3",
            "2:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23",
        ],
    ),
    ("object", &["OBJ001", "OBJ001,OBJ002,OBJ003,OBJ399,absent", "absent"]),
    ("candid", &["1000001,1000002,1004000,7", "0"]),
    ("survey", &["ztf", "rubin,winter"]),
    ("programid", &["1", "2,3", "9"]),
    ("band", &["g", "r,J"]),
    (
        "where",
        &[
            "magnitude < 18.0 && rb >= 0.65",
            "!(drb > 0.5)",
            "drb > rb || band == 'g' || ndethist in [1, 2]",
            "!(band in ['g', 'r'] && magnitude > 19) && programid != 2",
            "!(rb in [0.5, 0.25]) && (ndethist >= 3 || magnitude <= 15.5)",
        ],
    ),
    ("latest_per_object", &["true"]),
    ("every", &["7", "3/2"]),
    ("limit", &["1", "50"]),
];

fn parse(parts: &[(&str, &str)]) -> Result<Query, QueryError> {
    let mut text = QueryText::new();
    for (key, value) in parts {
        text.set(key, *value)?;
    }
    Query::parse(&text, NightStart::default())
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

#[tokio::test]
async fn every_flag_and_pair_of_flags_selects_what_brute_force_selects() {
    let db = TestDb::new().await;
    let pool = db.pool().await;
    let alerts = generate(1, 5_000);
    let ids = store(&pool, &alerts).await;
    let flags = |most| {
        VALUES
            .iter()
            .flat_map(move |(key, values)| values.iter().take(most).map(|value| (*key, *value)))
    };
    let singles = flags(usize::MAX).map(|flag| vec![flag]);
    // Three values of each are enough for the pairs.
    let pairs = flags(3).flat_map(|a| flags(3).filter(move |b| a.0 < b.0).map(move |b| vec![a, b]));
    let (mut tried, mut nothing) = (0, 0);
    for parts in singles.chain(pairs) {
        let query = match parse(&parts) {
            Err(QueryError::Disjoint { .. }) => continue,
            parsed => parsed.unwrap_or_else(|e| panic!("{parts:?}: {e}")),
        };
        let expected = select(&query, &alerts, &ids);
        assert_eq!(selected(&pool, &query).await, expected, "{query}");
        tried += 1;
        nothing += usize::from(expected.is_empty());
    }
    assert!(
        tried > 500 && nothing < tried / 2,
        "{tried} queries, {nothing} of them selected nothing"
    );
    let all = selected(&pool, &Query::all()).await;
    assert_eq!(all, select(&Query::all(), &alerts, &ids));
    assert_eq!(all.len(), 5_000);
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
