//! Selecting on a table of many alerts: the first alert of a new group over everything, and cones with their plans.

use std::time::Duration;

use alertstream::archive::Archive;
use alertstream::archive::groups::{Group, Groups, Liveness, SessionTimes};
use alertstream::archive::sql::push_selection;
use alertstream::query::{NightStart, Query, QueryText};
use futures::TryStreamExt;
use sqlx::{PgPool, Postgres, QueryBuilder};
use uuid::Uuid;

use super::Sizes;
use super::report::{Report, median, timed};

const FIRST_WITHIN: Duration = Duration::from_millis(100);
/// Name, radius, and the time within which half of them are wanted.
const CONES: [(&str, &str, Option<Duration>); 3] = [
    ("10 arcsec", "10arcsec", Some(Duration::from_millis(1))),
    ("1 degree", "1deg", None),
    ("3 degrees", "3deg", Some(Duration::from_millis(20))),
];

pub(crate) async fn run(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    first_alerts(archive, sizes, report).await;
    for (name, radius, within) in CONES {
        cones(archive.pool(), name, radius, within, report).await;
    }
}

async fn first_alerts(archive: &Archive, sizes: &Sizes, report: &mut Report) {
    let nearly_all = Query::parse(
        &QueryText::new().with("where", "magnitude < 21.5").expect("a flag"),
        NightStart::default(),
    );
    let nearly_all = nearly_all.expect("a query");
    for (what, query) in [("--all", &Query::all()), ("--where 'magnitude < 21.5'", &nearly_all)] {
        let mut times = Vec::new();
        for n in 0..15 {
            times.push(time_to_first_alert(archive, &format!("first{what}-{n}"), query).await);
        }
        let first = median(times);
        let what = format!("first alert of a new group over {} ({what})", sizes.rows);
        report.figure(what.clone(), format!("{first:.1?}"));
        report.gate(
            what,
            format!("{first:.1?}"),
            format!("{FIRST_WITHIN:?}"),
            first <= FIRST_WITHIN,
        );
    }
}

async fn cones(pool: &PgPool, name: &str, radius: &str, within: Option<Duration>, report: &mut Report) {
    let (mut times, mut found) = (Vec::new(), 0);
    for n in 0..101 {
        let (ra, dec) = ((n as f64 * 37.7) % 360.0, (n as f64 * 13.3) % 170.0 - 85.0);
        let query = cone(ra, dec, radius);
        let (time, count) = timed(select(pool, &query)).await;
        times.push(time);
        found += count;
    }
    let middle = median(times);
    let what = format!("cone of {name} (finds {:.1})", found as f64 / 101.0);
    report.figure(what, format!("{middle:.2?}"));
    if let Some(within) = within {
        let measured = format!("{middle:.2?}");
        report.gate(
            format!("cone of {name}"),
            measured,
            format!("{within:?}"),
            middle < within,
        );
    }
    println!(
        "\nplan of a cone of {name}:\n{}",
        plan(pool, &cone(40.0, 20.0, radius)).await
    );
}

fn cone(ra: f64, dec: f64, radius: &str) -> Query {
    let text = QueryText::new().with("cone", format!("{ra},{dec},{radius}"));
    Query::parse(&text.expect("a flag"), NightStart::default()).expect("a query")
}

async fn select(pool: &PgPool, query: &Query) -> usize {
    let mut statement = QueryBuilder::<Postgres>::new("");
    push_selection(&mut statement, query);
    let rows = statement.build().persistent(false).fetch_all(pool).await;
    rows.expect("selected").len()
}

async fn plan(pool: &PgPool, query: &Query) -> String {
    let mut statement = QueryBuilder::<Postgres>::new("EXPLAIN (ANALYZE, COSTS OFF, BUFFERS, SUMMARY) ");
    push_selection(&mut statement, query);
    let lines: Vec<String> = statement
        .build_query_scalar()
        .persistent(false)
        .fetch_all(pool)
        .await
        .expect("a plan");
    let short = lines.iter().map(|line| line.chars().take(130).collect::<String>());
    short.collect::<Vec<_>>().join("\n")
}

/// From making the group to holding its first packet.
async fn time_to_first_alert(archive: &Archive, name: &str, query: &Query) -> Duration {
    let work = async {
        let groups = Groups::new(archive);
        let group = groups.join_or_create(name, Some(query), 500).await.expect("a group");
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
