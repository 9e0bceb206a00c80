//! Rows of `alert` in Postgres' binary COPY format, and the statements that take them.
//!
//! Invariants: columns, encoder and the insert's binds are in one order; `finish` or `abort` of a COPY always runs,
//! because the caller's task is never dropped. Must not know of batches, duplicates or revisions.

use bytes::{BufMut, BytesMut};
use sqlx::PgConnection;
use sqlx::postgres::PgCopyIn;

use super::row::AlertRow;

const COPY: &str = "COPY alert (survey, alert_id, programid, sha256, object_id, jd, ra, dec, hpx, band, magnitude, rb, drb, \
    ndethist, schema_version, bytes, reframed, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, \
    kafka_timestamp_by, kafka_key, kafka_headers, container_header, revision, body) FROM STDIN (FORMAT binary)";
const INSERT: &str = "INSERT INTO alert (survey, alert_id, programid, sha256, object_id, jd, ra, dec, hpx, band, magnitude, \
    rb, drb, ndethist, schema_version, bytes, reframed, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, \
    kafka_timestamp_by, kafka_key, kafka_headers, container_header, revision, body) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, \
    $24, $25, $26, $27) ON CONFLICT DO NOTHING";
const COLUMNS: i16 = 27;

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Send when this much has gathered, bytes: few system calls, little memory.
const CHUNK: usize = 256 * 1024;

/// Copies the rows in; all or none.
///
/// # Errors
/// The server's: a unique violation when one of them is there already.
pub(super) async fn copy_in(connection: &mut PgConnection, rows: &[&AlertRow]) -> Result<(), sqlx::Error> {
    let mut copy = connection.copy_in_raw(COPY).await?;
    match send(&mut copy, rows).await {
        Ok(()) => copy.finish().await.map(drop),
        Err(error) => {
            // The first error says more than that of giving up.
            let _ = copy.abort("the client gave up").await;
            Err(error)
        }
    }
}

async fn send(copy: &mut PgCopyIn<&mut PgConnection>, rows: &[&AlertRow]) -> Result<(), sqlx::Error> {
    let mut out = BytesMut::with_capacity(CHUNK + CHUNK / 2);
    out.put_slice(SIGNATURE);
    out.put_i32(0);
    out.put_i32(0);
    for row in rows {
        encode(&mut out, row);
        if out.len() >= CHUNK {
            copy.send(&out[..]).await?;
            out.clear();
        }
    }
    out.put_i16(-1);
    copy.send(&out[..]).await?;
    Ok(())
}

fn encode(out: &mut BytesMut, row: &AlertRow) {
    out.put_i16(COLUMNS);
    put(out, Some(row.survey.as_bytes()));
    put(out, Some(&row.alert_id.to_be_bytes()));
    put(out, Some(&row.programid.to_be_bytes()));
    put(out, Some(&row.sha256));
    put(out, row.object_id.as_ref().map(String::as_bytes));
    put(out, Some(&row.jd.to_be_bytes()));
    put(out, row.ra.map(f64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.dec.map(f64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.hpx.map(i64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.band.as_ref().map(String::as_bytes));
    put(out, row.magnitude.map(f64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.rb.map(f64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.drb.map(f64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.ndethist.map(i64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.schema_version.as_ref().map(String::as_bytes));
    put(out, Some(&row.bytes.to_be_bytes()));
    put(out, Some(&[u8::from(row.reframed)]));
    put(out, row.origin.topic.as_ref().map(String::as_bytes));
    put(out, row.origin.partition.map(i32::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.origin.offset.map(i64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.origin.timestamp.map(i64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(
        out,
        row.origin.timestamp_by.map(i16::to_be_bytes).as_ref().map(|v| &v[..]),
    );
    put(out, row.origin.key.as_deref());
    put(out, row.origin.headers.as_deref());
    put(out, row.container_header.map(i64::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, row.revision.map(i32::to_be_bytes).as_ref().map(|v| &v[..]));
    put(out, Some(&row.body));
}

/// Puts one field: its length, -1 for null, and its bytes. Rows are below 1 GiB, so no length wraps.
fn put(out: &mut BytesMut, field: Option<&[u8]>) {
    match field {
        None => out.put_i32(-1),
        Some(bytes) => {
            out.put_i32(bytes.len() as i32);
            out.put_slice(bytes);
        }
    }
}

/// Inserts one row unless its identity or its revision is taken; says whether it did.
///
/// # Errors
/// The server's.
pub(super) async fn insert_if_new(connection: &mut PgConnection, row: &AlertRow) -> Result<Inserted, sqlx::Error> {
    let query = sqlx::query(INSERT)
        .bind(&row.survey)
        .bind(row.alert_id)
        .bind(row.programid)
        .bind(&row.sha256[..])
        .bind(&row.object_id)
        .bind(row.jd)
        .bind(row.ra)
        .bind(row.dec)
        .bind(row.hpx)
        .bind(&row.band)
        .bind(row.magnitude)
        .bind(row.rb)
        .bind(row.drb)
        .bind(row.ndethist)
        .bind(&row.schema_version)
        .bind(row.bytes)
        .bind(row.reframed)
        .bind(&row.origin.topic)
        .bind(row.origin.partition)
        .bind(row.origin.offset)
        .bind(row.origin.timestamp)
        .bind(row.origin.timestamp_by)
        .bind(row.origin.key.as_deref())
        .bind(row.origin.headers.as_deref())
        .bind(row.container_header)
        .bind(row.revision)
        .bind(&row.body[..]);
    match query.execute(connection).await?.rows_affected() {
        0 => Ok(Inserted::Taken),
        _ => Ok(Inserted::New),
    }
}

/// What became of a row that was to be inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inserted {
    /// It is in.
    New,
    /// Another writer's row with its identity, or with its revision, was there first.
    Taken,
}
