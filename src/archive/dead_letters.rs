//! (stub of the store's dead letters, until they land)
use crate::dead_letter::DeadLetter;
use sqlx::PgConnection;
/// Inserts letters in the transaction of `conn`.
pub async fn insert(conn: &mut PgConnection, letters: &[DeadLetter]) -> sqlx::Result<()> {
    use sha2::{Digest, Sha256};
    for l in letters {
        sqlx::query("INSERT INTO dead_letter (source, position, sha256, reason, message, tries, attempts, bytes, payload) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9) ON CONFLICT DO NOTHING")
            .bind(l.source.as_str()).bind(l.position.to_string()).bind(Sha256::digest(&l.raw.payload).to_vec()).bind(l.why.reason.as_ref())
            .bind(&l.why.message).bind(l.why.tries as i32).bind(l.attempt as i32).bind(l.raw.payload.len() as i32).bind(l.raw.payload.as_ref())
            .execute(&mut *conn).await?;
    }
    Ok(())
}
