//! A bare binary COPY into a table: how tables are filled and what ingest is compared with.

use bytes::{BufMut, BytesMut};
use sqlx::PgConnection;

/// Bytes that are sent at once.
const AT_ONCE: usize = 256 * 1024;

/// Copies in what `put` makes of each item: its rows, in Postgres' binary form.
pub(crate) async fn copy_in<T>(
    connection: &mut PgConnection,
    statement: &str,
    items: impl IntoIterator<Item = T>,
    put: impl Fn(&mut BytesMut, T),
) {
    let mut copy = connection.copy_in_raw(statement).await.expect("COPY");
    let mut out = BytesMut::new();
    out.put_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
    for item in items {
        put(&mut out, item);
        if out.len() > AT_ONCE {
            copy.send(&out[..]).await.expect("sent");
            out.clear();
        }
    }
    out.put_i16(-1);
    copy.send(&out[..]).await.expect("sent");
    copy.finish().await.expect("COPY");
}
