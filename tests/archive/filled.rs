//! Header rows without packets worth the name, made by the server: for tests of groups at size.

use sqlx::PgPool;

/// Makes the alerts `$1` to `$2`: alert id = the number, jd out of step with the id, an object for every ten.
pub(crate) fn fill_sql() -> &'static str {
    "INSERT INTO alert (jd, ra, dec, alert_id, magnitude, programid, bytes, revision, survey, object_id, band, sha256, body)
     SELECT 2458349.5 + ((n * 7919) % 100003) / 100003.0, (n % 360)::float8, (n % 180) - 90, n, 18 + (n % 50) / 10.0,
       1 + n % 3, 100, 0, 'ztf', 'ZTF18' || n / 10, 'r', sha256(n::text::bytea), n::text::bytea
     FROM generate_series($1::bigint, $2::bigint) n"
}

/// Makes the alerts 1 to `count`.
pub(crate) async fn fill(pool: &PgPool, count: i64) {
    sqlx::query(fill_sql())
        .bind(1_i64)
        .bind(count)
        .execute(pool)
        .await
        .expect("filling the archive");
    sqlx::query("VACUUM ANALYZE alert")
        .execute(pool)
        .await
        .expect("statistics");
}

/// What `ALERTSTREAM_TEST_SCALE` multiplies sizes by.
pub(crate) fn scale() -> i64 {
    std::env::var("ALERTSTREAM_TEST_SCALE")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}
