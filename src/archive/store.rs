//! One batch in one transaction: what is there already is found, the rest is copied in.
//!
//! Why writers never deadlock: a row takes two things that another writer may want, its identity and its revision's
//! number. In key order, a writer that waits for the number of an alert id holds identities of this and of lower ids. The
//! one that it waits for could want one of these only if it had two packets of this id. Such a batch, and one that met
//! another writer, is therefore inserted alone, while nobody copies: copying shares an advisory lock, inserting has it
//! exclusively.
//!
//! Invariants: rows come in key order and are locked in it; nothing is stored unless all new rows of the batch are; a
//! revision's number is taken by the row that the unique index lets in first. Must not know how rows are made.

use std::collections::HashMap;

use bytes::Bytes;
use sqlx::{PgConnection, PgPool};

use super::copy::{Inserted, copy_in, insert_if_new};
use super::ingest::Written;
use super::row::AlertRow;

// Scalar subqueries, not joins: each is an index probe, whatever the planner believes of the table's size.
const PRESENT: &str = "SELECT k.n, \
    (SELECT 1 FROM alert a WHERE a.survey = k.survey AND a.alert_id = k.alert_id AND a.programid = k.programid \
       AND a.sha256 = k.sha256 LIMIT 1) IS NOT NULL, \
    (SELECT a.revision FROM alert a WHERE a.alert_id = k.alert_id AND a.programid = k.programid AND a.survey = k.survey \
       AND a.revision IS NOT NULL ORDER BY a.revision DESC LIMIT 1) \
    FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bytea[]) WITH ORDINALITY AS k(survey, alert_id, programid, sha256, n)";

/// The key of the advisory lock of this database's writers, of one word: consumers' locks have two.
const WRITERS: i64 = 0x616c_6572_7473_7472;
const BESIDE_OTHERS: &str = "SELECT pg_advisory_xact_lock_shared($1)";
const ALONE: &str = "SELECT pg_advisory_xact_lock($1)";

/// A row and its place in the batch.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) place: usize,
    pub(super) row: AlertRow,
    pub(super) packet: Bytes,
}

/// Stores the rows and says what became of each.
pub(super) async fn store(pool: &PgPool, rows: &mut [Placed]) -> Result<Vec<Written>, sqlx::Error> {
    match copy_new(pool, rows).await {
        Err(sqlx::Error::Database(e)) if e.is_unique_violation() => insert_new(pool, rows).await,
        Ok(None) => insert_new(pool, rows).await,
        Ok(Some(written)) => Ok(written),
        Err(error) => Err(error),
    }
}

/// The fast way: one look, one COPY. Fails as a whole when another writer stores one of the rows meanwhile; gives `None`
/// where the rows must not be copied beside other writers.
async fn copy_new(pool: &PgPool, rows: &mut [Placed]) -> Result<Option<Vec<Written>>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    sqlx::query(BESIDE_OTHERS)
        .bind(WRITERS)
        .execute(&mut *transaction)
        .await?;
    let mut open: Vec<&mut Placed> = rows.iter_mut().collect();
    let written = look(&mut transaction, &mut open).await?;
    let new = rows
        .iter()
        .zip(&written)
        .filter(|(_, written)| **written != Written::Duplicate)
        .map(|(placed, _)| &placed.row);
    let new: Vec<&AlertRow> = new.collect();
    if new.is_empty() {
        transaction.rollback().await?;
        return Ok(Some(written));
    }
    if has_two_of_one_id(&new) {
        transaction.rollback().await?;
        return Ok(None);
    }
    copy_in(&mut transaction, &new).await?;
    transaction.commit().await?;
    Ok(Some(written))
}

/// Whether two rows, in key order, are of one alert id. Of unknown ids only the identity is taken.
fn has_two_of_one_id(rows: &[&AlertRow]) -> bool {
    rows.windows(2).any(|pair| match pair {
        [a, b] => a.revision.is_some() && (a.alert_id, a.programid, &a.survey) == (b.alert_id, b.programid, &b.survey),
        _ => false,
    })
}

/// The careful way: row by row, alone. Where another program's row is in the way all the same, it is waited for and the
/// rest numbered anew. Each round that leaves a row over means that another writer committed one, so it ends.
async fn insert_new(pool: &PgPool, rows: &mut [Placed]) -> Result<Vec<Written>, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    sqlx::query(ALONE).bind(WRITERS).execute(&mut *transaction).await?;
    let mut results: HashMap<usize, Written> = HashMap::new();
    let mut open: Vec<&mut Placed> = rows.iter_mut().collect();
    while !open.is_empty() {
        let written = look(&mut transaction, &mut open).await?;
        let mut left = Vec::new();
        for (placed, written) in open.into_iter().zip(written) {
            let settled =
                written == Written::Duplicate || insert_if_new(&mut transaction, &placed.row).await? == Inserted::New;
            if settled {
                results.insert(placed.place, written);
            } else {
                left.push(placed);
            }
        }
        open = left;
    }
    transaction.commit().await?;
    Ok(rows
        .iter()
        .map(|placed| results.get(&placed.place).copied().unwrap_or(Written::Duplicate))
        .collect())
}

/// Finds what is there already and numbers the revisions of what is not, in the order in which it came.
async fn look(connection: &mut PgConnection, rows: &mut [&mut Placed]) -> Result<Vec<Written>, sqlx::Error> {
    let present = present(connection, rows).await?;
    let mut written = vec![Written::Duplicate; rows.len()];
    let mut by_arrival: Vec<usize> = (0..rows.len())
        .filter(|i| present.get(*i).is_some_and(|found| !found.0))
        .collect();
    by_arrival.sort_by_key(|i| rows.get(*i).map(|placed| placed.place));
    // The next revision of each alert id of the batch.
    let mut next: HashMap<(String, i64, i32), i32> = HashMap::new();
    for i in by_arrival {
        let (Some(placed), Some((_, last)), Some(written)) = (rows.get_mut(i), present.get(i), written.get_mut(i))
        else {
            continue;
        };
        let row = &mut placed.row;
        *written = Written::Archived;
        if row.revision.is_some() {
            let next = next
                .entry((row.survey.clone(), row.alert_id, row.programid))
                .or_insert_with(|| last.map_or(0, |last| last.saturating_add(1)));
            row.revision = Some(*next);
            if *next > 0 {
                *written = Written::Revision;
            }
            *next = next.saturating_add(1);
        }
    }
    Ok(written)
}

/// For each row: whether its packet is there, and the last revision of its alert id.
async fn present(connection: &mut PgConnection, rows: &[&mut Placed]) -> Result<Vec<(bool, Option<i32>)>, sqlx::Error> {
    let surveys: Vec<&str> = rows.iter().map(|p| p.row.survey.as_str()).collect();
    let alert_ids: Vec<i64> = rows.iter().map(|p| p.row.alert_id).collect();
    let programids: Vec<i32> = rows.iter().map(|p| p.row.programid).collect();
    let hashes: Vec<&[u8]> = rows.iter().map(|p| &p.row.sha256[..]).collect();
    let found: Vec<(i64, bool, Option<i32>)> = sqlx::query_as(PRESENT)
        .bind(surveys)
        .bind(alert_ids)
        .bind(programids)
        .bind(hashes)
        .fetch_all(connection)
        .await?;
    let mut present = vec![(false, None); rows.len()];
    for (n, is_there, last) in found {
        if let Some(slot) = usize::try_from(n - 1).ok().and_then(|i| present.get_mut(i)) {
            *slot = (is_there, last);
        }
    }
    Ok(present)
}
