//! Retention: deleting old nights in bounded batches.
//!
//! Invariants: a batch is one short transaction, so nothing waits for long and a stop loses nothing; alerts whose time is
//! unknown are never old. Groups that hold a deleted alert count it as missing. Must not know who decides what is old.

use super::{Archive, ArchiveError, to_completion};

// Oldest first along the index on (jd, id). A row that somebody locks is left for the next batch.
const DELETE: &str = "DELETE FROM alert WHERE id = ANY(ARRAY(SELECT id FROM alert WHERE jd < $1 AND jd > '-Infinity' \
    ORDER BY jd, id LIMIT $2 FOR UPDATE SKIP LOCKED))";

impl Archive {
    /// Deletes the alerts of before `jd` (JD in UTC, days), `batch` at a time, and gives how many they were.
    ///
    /// # Errors
    /// [`ArchiveError::Database`]; the batches before it are deleted.
    ///
    /// # Cancel safety
    /// The deleting goes on to its end.
    pub async fn delete_before(&self, jd: f64, batch: u32) -> Result<u64, ArchiveError> {
        let pool = self.pool.clone();
        let batch = i64::from(batch.max(1));
        to_completion(async move {
            let mut total = 0;
            loop {
                let deleted = sqlx::query(DELETE)
                    .bind(jd)
                    .bind(batch)
                    .execute(&pool)
                    .await?
                    .rows_affected();
                total += deleted;
                if deleted == 0 {
                    return Ok(total);
                }
            }
        })
        .await
    }
}
