//! Many alerts with packets of a few bytes, for what only touches the columns: copied in without indexes, which are made
//! after it.

use alertstream::archive::Archive;
use alertstream::sky;
use bytes::{BufMut, BytesMut};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use super::copy::copy_in;

const COPY: &str = "COPY alert (jd, ra, dec, hpx, alert_id, magnitude, rb, programid, bytes, revision, survey, object_id, \
    band, sha256, body) FROM STDIN (FORMAT binary)";
const COLUMNS: i16 = 15;
const CONNECTIONS: usize = 2;
const INDEXES: &str =
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'alert' AND indexname <> 'alert_pkey'";

/// Fills the archive's empty table with `count` alerts over the whole sky, 1e-5 days apart.
pub(crate) async fn fill(archive: &Archive, count: usize) {
    let pool = archive.private_pool(CONNECTIONS as u32);
    let indexes: Vec<(String, String)> = sqlx::query_as(INDEXES).fetch_all(&pool).await.expect("its indexes");
    for (name, _) in &indexes {
        execute(&pool, format!("DROP INDEX {name}")).await;
    }
    let mut copies = tokio::task::JoinSet::new();
    for part in 0..CONNECTIONS {
        let pool = pool.clone();
        let share = count.div_ceil(CONNECTIONS);
        copies.spawn(async move { copy(&pool, part * share..count.min((part + 1) * share)).await });
    }
    copies.join_all().await;
    let mut connection = archive.dedicated_connection().await.expect("a connection");
    for statement in ["SET statement_timeout = 0", "SET maintenance_work_mem = '512MB'"] {
        sqlx::query(statement)
            .execute(&mut connection)
            .await
            .expect("a setting");
    }
    let mut statements: Vec<String> = indexes.into_iter().map(|(_, definition)| definition).collect();
    statements.push("VACUUM ANALYZE alert".into());
    for statement in statements {
        sqlx::query(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await
            .expect("an index");
    }
    warm(&mut connection).await;
}

/// What is measured is a warm table: it fits the server's memory.
async fn warm(connection: &mut PgConnection) {
    for statement in [
        "CREATE EXTENSION IF NOT EXISTS pg_prewarm",
        "SELECT pg_prewarm('alert')",
        "SELECT pg_prewarm('alert_by_place')",
    ] {
        if let Err(error) = sqlx::query(statement).execute(&mut *connection).await {
            eprintln!("the table is not warm: {error}");
        }
    }
}

async fn execute(pool: &PgPool, statement: String) {
    sqlx::query(AssertSqlSafe(statement))
        .execute(pool)
        .await
        .expect("a statement");
}

async fn copy(pool: &PgPool, numbers: std::ops::Range<usize>) {
    let mut connection = pool.acquire().await.expect("a connection");
    sqlx::query("SET statement_timeout = 0")
        .execute(&mut *connection)
        .await
        .expect("a setting");
    copy_in(&mut connection, COPY, numbers, put_row).await;
}

fn put_row(out: &mut BytesMut, n: usize) {
    out.put_i16(COLUMNS);
    let mut put = |field: &[u8]| {
        out.put_i32(field.len() as i32);
        out.put_slice(field);
    };
    let (ra, dec) = place(n);
    put(&(2_458_349.5 + n as f64 * 1e-5).to_be_bytes());
    put(&ra.to_be_bytes());
    put(&dec.to_be_bytes());
    put(&sky::hash(ra, dec).expect("a place").to_be_bytes());
    put(&(595_147_630_015_010_000 + n as i64).to_be_bytes());
    put(&(15.0 + (n % 70) as f64 / 10.0).to_be_bytes());
    put(&((n % 100) as f64 / 100.0).to_be_bytes());
    put(&(1 + (n % 3) as i32).to_be_bytes());
    put(&8_i32.to_be_bytes());
    put(&0_i32.to_be_bytes());
    put(b"ztf");
    put(format!("ZTF18{:07}", n % 500_000).as_bytes());
    put([b"g", b"r", b"i"][n % 3]);
    put(&[n.to_be_bytes(); 4].concat());
    put(&n.to_be_bytes());
}

/// Evenly over the sphere, neighbours in time far apart.
pub(crate) fn place(n: usize) -> (f64, f64) {
    let turn = (n as f64 * 0.618_033_988_749_895).fract();
    let height = (n as f64 * 0.754_877_666_246_693).fract() * 2.0 - 1.0;
    (turn * 360.0, height.asin().to_degrees())
}
