//! The 30 real alerts of a night: what a scientist would ask of them.

use std::io::Read;

use alertstream::archive::sql;
use alertstream::decode::Decoder;
use alertstream::header::AlertHeader;
use alertstream::query::{NightStart, Query, QueryText};
use sqlx::{PgPool, Postgres, QueryBuilder};

use crate::alerts::{select, store};
use crate::common::{TestDb, corpus};

fn sample(folder: &std::path::Path) -> Vec<AlertHeader> {
    let file = std::fs::File::open(folder.join("ztf/ztf_public_20180819_sample.tar.gz")).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let decoder = Decoder::bundled();
    let mut headers = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.header().entry_type().is_file() {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            headers.push(decoder.decode(&bytes.into()).unwrap().header().clone());
        }
    }
    headers
}

async fn count(pool: &PgPool, alerts: &[AlertHeader], ids: &[i64], key: &str, value: &str) -> i64 {
    let text = QueryText::new().with(key, value).unwrap();
    let query = Query::parse(&text, NightStart::default()).unwrap();
    let mut statement = QueryBuilder::<Postgres>::new("");
    sql::push_count(&mut statement, &query);
    let counted: i64 = statement
        .build_query_scalar()
        .persistent(false)
        .fetch_one(pool)
        .await
        .unwrap();
    assert_eq!(counted, select(&query, alerts, ids).len() as i64, "{query}");
    counted
}

#[tokio::test]
async fn the_sample_night_answers_as_documented() {
    let Some(folder) = corpus("the_sample_night_answers_as_documented") else {
        return;
    };
    let db = TestDb::new().await;
    let pool = db.pool().await;
    let alerts = sample(&folder);
    let ids = store(&pool, &alerts).await;
    let ask = async |key: &str, value: &str| count(&pool, &alerts, &ids, key, value).await;
    assert_eq!(alerts.len(), 30);
    let jd = |alert: &AlertHeader| alert.jd.unwrap();
    let (first, last) = (
        alerts.iter().map(jd).fold(f64::MAX, f64::min),
        alerts.iter().map(jd).fold(0.0, f64::max),
    );
    assert_eq!(ask("jd", &format!("{first:?}..{last:?}")).await, 29);
    assert_eq!(ask("jd", &format!("{first:?}..")).await, 30);
    assert_eq!(ask("night", "2018-08-19").await, 30);
    assert_eq!(ask("night", "2018-08-20").await, 0);
    assert_eq!(ask("cone", "0,0,1").await, 0);
    let (ra, dec) = (alerts[0].ra.unwrap(), alerts[0].dec.unwrap());
    assert!(ask("cone", &format!("{ra:?},{dec:?},2")).await >= 1);
    assert_eq!(ask("cone", &format!("{ra:?},{dec:?},1arcsec")).await, 1);
    assert_eq!(ask("object", alerts[3].object_id.as_deref().unwrap()).await, 1);
    assert_eq!(ask("survey", "ztf").await, 30);
}
