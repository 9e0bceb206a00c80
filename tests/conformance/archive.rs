//! The suite on the archive: a group over all of it, in a database of its own.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use alertstream::archive::Archive;
use alertstream::archive::groups::{BuildStep, Group, Groups};
use alertstream::query::Query;
use alertstream::record::SourceId;
use alertstream::source::Source;
use alertstream::source::archive::{ArchiveConfig, ArchiveSource};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::backend::{Backend, Kind, Spec, Topic};
use common::TestDb;

suite!(tokio::test(flavor = "multi_thread"), start);

async fn start() -> Result<Server, String> {
    Ok(Server)
}

struct Server;

/// Bodies without a container header are whole packets, whatever they say.
const FILL: &str = "
    INSERT INTO alert (jd, alert_id, programid, bytes, revision, survey, sha256, body)
    SELECT 2458349.5 + n, n, 1, length(body), 0, 'suite', sha256(body), body
    FROM unnest($1::bytea[]) WITH ORDINALITY u (body, n)";

impl Backend for Server {
    fn kind(&self) -> Kind {
        Kind::Archive
    }

    fn topic(&self, spec: Spec) -> BoxFuture<'_, Arc<dyn Topic>> {
        async move {
            let db = TestDb::new().await;
            let alert = |n: usize| Bytes::from(format!("{n:08}{}", "x".repeat(spec.bytes)));
            let payloads: Vec<Bytes> = (0..spec.alerts).map(alert).collect();
            let bodies: Vec<&[u8]> = payloads.iter().map(|payload| &payload[..]).collect();
            let archive = db.archive().await;
            sqlx::query(FILL).bind(bodies).execute(archive.pool()).await.unwrap();
            let groups = Groups::new(&archive);
            let block_size = u32::try_from(spec.alerts.div_ceil(spec.lanes).max(1)).unwrap();
            let group = groups
                .join_or_create("suite", Some(&Query::all()), block_size)
                .await
                .unwrap();
            while groups.build_step(&group).await.unwrap() != BuildStep::Built {}
            let topic: Arc<dyn Topic> = Arc::new(Replay {
                db,
                archive,
                group,
                payloads,
            });
            topic
        }
        .boxed()
    }
}

struct Replay {
    db: TestDb,
    archive: Archive,
    group: Group,
    payloads: Vec<Bytes>,
}

impl Topic for Replay {
    fn payloads(&self) -> Vec<Bytes> {
        self.payloads.clone()
    }

    fn consumer(&self) -> BoxFuture<'_, Box<dyn Source>> {
        async {
            let cfg = ArchiveConfig {
                rescue: Duration::from_millis(500),
                ..ArchiveConfig::default()
            };
            let archive = self.db.archive().await;
            let source: Box<dyn Source> = Box::new(ArchiveSource::new(
                SourceId::new("suite"),
                archive,
                self.group.clone(),
                cfg,
            ));
            source
        }
        .boxed()
    }

    fn dead_letters(&self) -> BoxFuture<'_, Vec<(Bytes, String)>> {
        async {
            let rows: Vec<(Vec<u8>, String)> = sqlx::query_as("SELECT payload, reason FROM dead_letter ORDER BY id")
                .fetch_all(self.archive.pool())
                .await
                .unwrap();
            rows.into_iter()
                .map(|(payload, reason)| (payload.into(), reason))
                .collect()
        }
        .boxed()
    }
}
