//! Selecting: the first alert of a fresh group over everything, and cones, on a table of many alerts.

use std::time::Duration;

use alertstream::archive::Archive;
use alertstream::archive::groups::{Group, Groups, Liveness, SessionTimes};
use alertstream::archive::ingest::ArchiveWriter;
use alertstream::archive::sql::push_selection;
use alertstream::query::{NightStart, Query, QueryText};
use futures::TryStreamExt;
use sqlx::{PgPool, Postgres, QueryBuilder};
use uuid::Uuid;

use super::Sizes;
use super::packets::small;
use super::report::{Report, median, rate, timed};

const BATCH: usize = 2_000;

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    eprintln!("select: {} alerts", sizes.rows);
    let (time, ()) = timed(fill(archive, sizes.rows)).await;
    report.figure(
        "ingest of small packets, alerts",
        format!("{:.0}/s", rate(sizes.rows, time)),
    );
    let pool = archive.pool();
    sqlx::query("VACUUM ANALYZE alert")
        .execute(pool)
        .await
        .expect("statistics");
    let mut first = Vec::new();
    for n in 0..7 {
        first.push(time_to_first_alert(archive, &format!("first-{n}")).await);
    }
    report.figure(
        format!("first alert of a new group over {} alerts", sizes.rows),
        format!("{:.1?}", median(first)),
    );
    for (name, radius) in [("10 arcsec", "10arcsec"), ("1 degree", "1deg"), ("3 degrees", "3deg")] {
        let (mut times, mut found) = (Vec::new(), 0);
        for n in 0..51 {
            let (ra, dec) = ((n as f64 * 37.7) % 360.0, (n as f64 * 13.3) % 170.0 - 85.0);
            let query = query("cone", &format!("{ra},{dec},{radius}"));
            let (time, count) = timed(select(pool, &query)).await;
            times.push(time);
            found += count;
        }
        let per = found as f64 / 51.0;
        report.figure(
            format!("cone of {name} (finds {per:.1})"),
            format!("{:.2?}", median(times)),
        );
        eprintln!("{}", plan(pool, &query("cone", &format!("40,20,{radius}"))).await);
    }
}

async fn fill(archive: &Archive, rows: usize) {
    let writer = ArchiveWriter::new(archive, 2);
    for from in (0..rows).step_by(BATCH * 2) {
        let part = |from: usize| writer.write((from..rows.min(from + BATCH)).map(small).collect());
        let (a, b) = tokio::join!(part(from), part(rows.min(from + BATCH)));
        for result in a.into_iter().chain(b) {
            result.expect("archived");
        }
    }
}

fn query(key: &str, value: &str) -> Query {
    let text = QueryText::new().with(key, value).expect("a flag");
    Query::parse(&text, NightStart::default()).expect("a query")
}

async fn select(pool: &PgPool, query: &Query) -> usize {
    let mut statement = QueryBuilder::<Postgres>::new("");
    push_selection(&mut statement, query);
    statement
        .build()
        .persistent(false)
        .fetch_all(pool)
        .await
        .expect("selected")
        .len()
}

async fn plan(pool: &PgPool, query: &Query) -> String {
    let mut statement = QueryBuilder::<Postgres>::new("EXPLAIN (COSTS OFF) ");
    push_selection(&mut statement, query);
    let lines: Vec<String> = statement
        .build_query_scalar()
        .persistent(false)
        .fetch_all(pool)
        .await
        .expect("a plan");
    let short = lines.iter().map(|line| line.chars().take(110).collect::<String>());
    short.take(8).collect::<Vec<_>>().join("\n")
}

/// From making the group to holding its first packet.
async fn time_to_first_alert(archive: &Archive, name: &str) -> Duration {
    let work = async {
        let groups = Groups::new(archive);
        let group = groups
            .join_or_create(name, Some(&Query::all()), 500)
            .await
            .expect("a group");
        let ids = first_block(&groups, &group).await;
        let alert = archive.fetch(ids).try_next().await.expect("fetched");
        assert!(alert.is_some());
    };
    timed(work).await.0
}

async fn first_block(groups: &Groups, group: &Group) -> Vec<i64> {
    let mut session = groups
        .session(group, Liveness::Lock, SessionTimes::default())
        .await
        .expect("a session");
    loop {
        if let Some(claim) = session.claim(Uuid::new_v4()).await.expect("a claim") {
            return claim.ids;
        }
        groups.build_step(group).await.expect("a build step");
    }
}
