//! Whole selections: counting them, and reading them in (jd, id) order.
//!
//! How exporting works: the numbers of what is selected are held by the server in a cursor that outlives its transaction
//! (`WITH HOLD`), so the selection is one snapshot, no transaction stays open while a reader is slow, and our memory does
//! not grow with it. The packets of each run of numbers are then read by [`Archive::fetch`].
//!
//! Invariants: a selection has no time limit, only a lost peer ends it; what was deleted since is left out. Must not know
//! where packets are written to.

use std::collections::HashMap;

use futures::{Stream, StreamExt};
use sqlx::{PgConnection, Postgres, QueryBuilder};
use tokio::sync::mpsc;

use super::{Archive, ArchiveError, sql, to_completion};
use crate::query::Query;
use crate::record::RawAlert;

/// How many numbers are taken from the cursor at a time.
const RUN: usize = 2_000;

const NEXT: &str = "FETCH 2000 FROM selected";
const NAMES: &str = "SELECT id, survey, alert_id, programid, revision FROM alert WHERE id = ANY($1)";
/// Numbers the packets without an alert id, per survey and programid in the order they were archived. In the server, as
/// there may be millions; once, at the first that is exported.
const NUMBER_UNKNOWN: &str = "CREATE TEMP TABLE unknown_id AS SELECT id, row_number() OVER (PARTITION BY survey, programid \
    ORDER BY id) - 1 AS place FROM alert WHERE alert_id = 0";
const INDEX_UNKNOWN: &str = "ALTER TABLE unknown_id ADD PRIMARY KEY (id)";
const UNKNOWN: &str = "SELECT id, place FROM unknown_id WHERE id = ANY($1)";

/// An archived alert with what names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// Its number in the archive.
    pub id: i64,
    /// The survey.
    pub survey: String,
    /// `candid`, `diaSourceId`; 0 when unknown.
    pub alert_id: i64,
    /// 1 public, 2 partnership, 3 Caltech.
    pub programid: i32,
    /// 0 for the first packet of this alert id, n for the n-th with other bytes. Packets without an id count as having
    /// one in common, per survey and programid.
    pub revision: i64,
    /// Its bytes and Kafka origin.
    pub raw: RawAlert,
}

impl Exported {
    /// The file's name, `SURVEY_ALERTID_PROGRAMID[_rN].avro` (`.bin` where the packet is no container file).
    pub fn file_name(&self) -> String {
        let revision = match self.revision {
            0 => String::new(),
            n => format!("_r{n}"),
        };
        let extension = if self.raw.payload.starts_with(b"Obj\x01") {
            "avro"
        } else {
            "bin"
        };
        format!(
            "{}_{}_{}{revision}.{extension}",
            file_name_part(&self.survey),
            self.alert_id,
            self.programid
        )
    }
}

/// Writes everything but letters, digits, `-` and `.` as `%XX`: a survey's name comes from a packet, and must not leave
/// the folder or meet another survey's.
fn file_name_part(text: &str) -> String {
    let mut part = String::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => part.push_str("%2E"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => part.push(char::from(byte)),
            other => part.push_str(&format!("%{other:02X}")),
        }
    }
    part
}

/// The alerts of [`Archive::export`], as a stream in (jd, id) order.
pub type Export = futures::stream::BoxStream<'static, Result<Exported, ArchiveError>>;

impl Archive {
    /// Counts what a query selects.
    ///
    /// # Errors
    /// [`ArchiveError::Database`].
    ///
    /// # Cancel safety
    /// The count goes on at the server.
    pub async fn count(&self, query: &Query) -> Result<u64, ArchiveError> {
        let mut statement = QueryBuilder::<Postgres>::new("");
        sql::push_count(&mut statement, query);
        let setting = sql::session_setting(query);
        let archive = self.clone();
        to_completion(async move {
            let mut connection = archive.unhurried_connection().await?;
            apply(&mut connection, setting).await?;
            let counted: i64 = statement
                .build_query_scalar()
                .persistent(false)
                .fetch_one(&mut connection)
                .await?;
            Ok(u64::try_from(counted).unwrap_or(0))
        })
        .await
    }

    /// Reads everything a query selects, in (jd, id) order, as of now. After an error the stream ends.
    ///
    /// # Cancel safety
    /// Taking the next item takes nothing when dropped. The statements run in a task of their own, which ends soon
    /// after the stream was dropped.
    pub fn export(&self, query: &Query) -> Export {
        let mut statement = QueryBuilder::<Postgres>::new("DECLARE selected CURSOR WITH HOLD FOR ");
        sql::push_selection(&mut statement, query);
        let (sender, receiver) = mpsc::channel(16);
        let setting = sql::session_setting(query);
        let archive = self.clone();
        tokio::spawn(async move {
            if let Err(error) = send_selected(&archive, setting, statement, &sender).await {
                // Nobody listens any more: then nobody needs the error.
                let _ = sender.send(Err(error)).await;
            }
        });
        receive(receiver).boxed()
    }
}

fn receive<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        Some((receiver.recv().await?, receiver))
    })
}

/// Applies a query's setting to a connection of its own.
async fn apply(connection: &mut PgConnection, setting: Option<&'static str>) -> Result<(), ArchiveError> {
    if let Some(setting) = setting {
        sqlx::query(setting).execute(connection).await?;
    }
    Ok(())
}

async fn send_selected(
    archive: &Archive,
    setting: Option<&'static str>,
    mut declare: QueryBuilder<Postgres>,
    sender: &mpsc::Sender<Result<Exported, ArchiveError>>,
) -> Result<(), ArchiveError> {
    let mut connection = archive.unhurried_connection().await?;
    apply(&mut connection, setting).await?;
    declare.build().persistent(false).execute(&mut connection).await?;
    let mut unknown_are_numbered = false;
    loop {
        let run: Vec<(i64, f64)> = sqlx::query_as(NEXT).fetch_all(&mut connection).await?;
        if run.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = run.into_iter().map(|(id, _)| id).collect();
        let mut names = names(&mut connection, &ids, &mut unknown_are_numbered).await?;
        let mut packets = archive.fetch(ids);
        while let Some(fetched) = packets.next().await {
            let fetched = fetched?;
            let Some((survey, alert_id, programid, revision)) = names.remove(&fetched.id) else {
                continue;
            };
            let exported = Exported {
                id: fetched.id,
                survey,
                alert_id,
                programid,
                revision,
                raw: fetched.raw,
            };
            if sender.send(Ok(exported)).await.is_err() {
                return Ok(());
            }
        }
    }
}

type Name = (String, i64, i32, i64);

async fn names(
    connection: &mut PgConnection,
    ids: &[i64],
    unknown_are_numbered: &mut bool,
) -> Result<HashMap<i64, Name>, ArchiveError> {
    let rows: Vec<(i64, String, i64, i32, Option<i32>)> =
        sqlx::query_as(NAMES).bind(ids).fetch_all(&mut *connection).await?;
    let unknown: Vec<i64> = rows.iter().filter(|row| row.4.is_none()).map(|row| row.0).collect();
    if !unknown.is_empty() && !std::mem::replace(unknown_are_numbered, true) {
        sqlx::query(NUMBER_UNKNOWN).execute(&mut *connection).await?;
        sqlx::query(INDEX_UNKNOWN).execute(&mut *connection).await?;
    }
    let mut places: HashMap<i64, i64> = HashMap::new();
    if !unknown.is_empty() {
        let numbered: Vec<(i64, i64)> = sqlx::query_as(UNKNOWN).bind(unknown).fetch_all(connection).await?;
        places.extend(numbered);
    }
    let mut names = HashMap::with_capacity(RUN);
    for (id, survey, alert_id, programid, revision) in rows {
        // One that is not numbered was deleted before that, so its packet is not exported either.
        let revision = revision.map(i64::from).or_else(|| places.remove(&id)).unwrap_or(id);
        names.insert(id, (survey, alert_id, programid, revision));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_unique_and_stay_in_their_folder() {
        let named = |survey: &str, alert_id, revision, payload: &'static [u8]| {
            let raw = RawAlert::from_bytes(payload);
            Exported {
                id: 9,
                survey: survey.into(),
                alert_id,
                programid: 1,
                revision,
                raw,
            }
            .file_name()
        };
        assert_eq!(named("ztf", 5, 0, b"Obj\x01"), "ztf_5_1.avro");
        assert_eq!(named("ztf", 5, 2, b"Obj\x01"), "ztf_5_1_r2.avro");
        assert_eq!(named("rubin", 5, 0, b"\0"), "rubin_5_1.bin");
        assert_eq!(named("../a_b", 0, 9, b"\0"), "%2E.%2Fa%5Fb_0_1_r9.bin");
    }
}
