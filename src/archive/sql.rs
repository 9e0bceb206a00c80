//! A query as SQL over the table `alert`: predicates, and whole selections of (id, jd).
//!
//! Every value is a bound parameter. A region is pushed as comparisons of `hpx` with a few integer ranges, so that the
//! planner answers it from the index on (hpx, jd), then by the exact test. A generic plan would not know how narrow
//! the ranges are: execute what is built here with `.persistent(false)`, so that it is planned with its values.
//! Invariant: in SQL and in memory (`Query::matches`) a query selects the same alerts. Must not know of groups.

use sqlx::{Postgres, QueryBuilder};

use crate::query::{Column, Condition, Op, Operand, Query};
use crate::sky::{CELLS, Cone, Ranges};

/// How many ranges of cells are pushed as comparisons: the first number of these whose cover is at most twice the
/// region, else the last. What the cover has beyond the region is then tested exactly.
const RANGES_MAX: [usize; 2] = [200, 4_000];
/// How many ranges are enough for a tiny place, one whose cover by so few is below this part of the sky: each costs more
/// to plan and to look up than the few alerts that the cover has beyond the place.
const RANGES_OF_TINY: usize = 8;
const TINY_PART_OF_SKY: i64 = 1_000_000;

/// The part of the sky below which a place is looked up by index.
const PART_OF_SKY: i64 = 50;

/// Says whether the query's ids, objects or place find its alerts by their own index: then they are few, and reading
/// the archive in order of time would be a waste.
pub fn finds_few(query: &Query) -> bool {
    let small = || cover(query).is_some_and(|cover| area(&cover) < CELLS / PART_OF_SKY);
    query.alert_ids().is_some() || query.objects().is_some() || small()
}

/// Gives the setting under which a query should be executed in a transaction; see [`session_setting`].
pub fn transaction_setting(query: &Query) -> Option<&'static str> {
    finds_few(query).then_some("SET LOCAL enable_seqscan = off")
}

/// Gives the setting under which a query should be executed on a connection of its own.
///
/// Where an index finds few alerts, the planner must not read the whole table. Its own choice was right wherever it was
/// tried; a wrong one, from missing or old statistics, would cost seconds instead of milliseconds.
pub fn session_setting(query: &Query) -> Option<&'static str> {
    finds_few(query).then_some("SET enable_seqscan = off")
}

/// Pushes the query's predicates over the table alias `a` as one boolean expression (`TRUE` when it has none).
///
/// Latest per object, every n-th and the limit are not predicates: see [`push_latest`] and [`push_selection`].
pub fn push_predicates(sql: &mut QueryBuilder<Postgres>, query: &Query) {
    push_predicates_of(sql, query, "a");
}

/// Pushes, after the predicates, ` AND` that no later alert of the same object satisfies them; nothing when the query
/// does not ask for the latest per object.
///
/// An alert without an object name is its own object. `as_of` is a `pg_snapshot` as text: alerts that it does not see
/// do not count.
pub fn push_latest(sql: &mut QueryBuilder<Postgres>, query: &Query, as_of: Option<&str>) {
    if !query.latest_per_object() {
        return;
    }
    sql.push(
        " AND NOT EXISTS (SELECT FROM alert b WHERE b.object_id = a.object_id AND b.survey = a.survey \
         AND (b.jd, b.id) > (a.jd, a.id) AND ",
    );
    push_predicates_of(sql, query, "b");
    if let Some(as_of) = as_of {
        sql.push(" AND pg_visible_in_snapshot(b.ingest_xid, ")
            .push_bind(as_of.to_owned())
            .push("::text::pg_snapshot)");
    }
    sql.push(")");
}

/// Pushes `SELECT id, jd ..` of everything the query selects, ordered by (jd, id).
pub fn push_selection(sql: &mut QueryBuilder<Postgres>, query: &Query) {
    match query.every() {
        None => {
            sql.push("SELECT a.id, a.jd FROM alert a WHERE ");
            push_predicates(sql, query);
            push_latest(sql, query, None);
            sql.push(" ORDER BY a.jd, a.id");
        }
        Some(every) => {
            sql.push("SELECT id, jd FROM (SELECT a.id, a.jd, row_number() OVER (ORDER BY a.jd, a.id) - 1 AS place FROM alert a WHERE ");
            push_predicates(sql, query);
            push_latest(sql, query, None);
            sql.push(") ranked WHERE place % ")
                .push_bind(big(every.n))
                .push(" = ")
                .push_bind(big(every.k));
            sql.push(" ORDER BY jd, id");
        }
    }
    if let Some(limit) = query.limit() {
        sql.push(" LIMIT ").push_bind(big(limit));
    }
}

/// Pushes `SELECT count(*) ..`, a bigint, of everything the query selects.
pub fn push_count(sql: &mut QueryBuilder<Postgres>, query: &Query) {
    if query.every().is_none() && query.limit().is_none() {
        sql.push("SELECT count(*) FROM alert a WHERE ");
        push_predicates(sql, query);
        push_latest(sql, query, None);
    } else {
        sql.push("SELECT count(*) FROM (");
        push_selection(sql, query);
        sql.push(") selected");
    }
}

/// Takes a number that was checked to fit to the type of SQL.
fn big(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn push_predicates_of(sql: &mut QueryBuilder<Postgres>, query: &Query, alias: &'static str) {
    sql.push("(TRUE");
    if let Some(jd) = query.jd() {
        // An unknown time is -Infinity, which no interval holds.
        let from = if jd.from.is_finite() { " >= " } else { " > " };
        sql.push(" AND ").push(alias).push(".jd").push(from).push_bind(jd.from);
        if jd.to.is_finite() {
            sql.push(" AND ").push(alias).push(".jd < ").push_bind(jd.to);
        }
    }
    if let Some(ids) = query.alert_ids() {
        push_listed(sql, alias, "alert_id", ids.iter().copied().collect::<Vec<i64>>());
    }
    if let Some(objects) = query.objects() {
        push_listed(
            sql,
            alias,
            "object_id",
            objects.iter().cloned().collect::<Vec<String>>(),
        );
    }
    if let Some(surveys) = query.surveys() {
        push_listed(sql, alias, "survey", surveys.iter().cloned().collect::<Vec<String>>());
    }
    if let Some(programids) = query.programids() {
        push_listed(
            sql,
            alias,
            "programid",
            programids.iter().copied().collect::<Vec<i32>>(),
        );
    }
    if let Some(bands) = query.bands() {
        push_listed(sql, alias, "band", bands.iter().cloned().collect::<Vec<String>>());
    }
    push_place(sql, query, alias);
    if let Some(condition) = query.condition() {
        sql.push(" AND ");
        push_condition(sql, condition, alias);
    }
    sql.push(")");
}

fn push_listed<T>(sql: &mut QueryBuilder<Postgres>, alias: &'static str, column: &'static str, list: Vec<T>)
where
    Vec<T>: sqlx::Type<Postgres> + for<'q> sqlx::Encode<'q, Postgres> + Send + 'static,
{
    sql.push(" AND ")
        .push(alias)
        .push(".")
        .push(column)
        .push(" = ANY(")
        .push_bind(list)
        .push(")");
}

fn push_place(sql: &mut QueryBuilder<Postgres>, query: &Query, alias: &'static str) {
    let Some(cover) = cover(query) else { return };
    let coarse = affordable(&cover);
    push_cells(sql, &coarse, alias);
    // A cone is tested exactly below; a region only needs it where its cover is wider than itself.
    if let Some(region) = query.region().filter(|_| coarse != cover) {
        let (from, to): (Vec<i64>, Vec<i64>) = region.as_slice().iter().map(|r| (r.start, r.end)).unzip();
        sql.push(" AND (SELECT range_agg(int8range(r.lo, r.hi)) FROM unnest(")
            .push_bind(from)
            .push("::bigint[], ");
        sql.push_bind(to)
            .push("::bigint[]) AS r(lo, hi)) @> ")
            .push(alias)
            .push(".hpx");
    }
    if let Some(cone) = query.cone() {
        push_exact(sql, cone, alias);
    }
}

/// Gives the cells that hold everything in the query's cone and region; `None` without either.
fn cover(query: &Query) -> Option<Ranges> {
    match (query.cone().map(Cone::ranges), query.region()) {
        (None, region) => region.cloned(),
        (cone, None) => cone,
        (Some(cone), Some(region)) => Some(cone.intersection(region)),
    }
}

/// Gives a region's number of cells.
fn area(ranges: &Ranges) -> i64 {
    ranges.as_slice().iter().map(|range| range.end - range.start).sum()
}

/// Covers a region by few ranges, unless that makes it much larger (small fields all over the sky).
fn affordable(cover: &Ranges) -> Ranges {
    let fewest = cover.coarsened(RANGES_OF_TINY);
    if area(&fewest) < CELLS / TINY_PART_OF_SKY {
        return fewest;
    }
    let [few, many] = RANGES_MAX.map(|most| cover.coarsened(most));
    if area(&few) / 2 <= area(cover) { few } else { many }
}

fn push_cells(sql: &mut QueryBuilder<Postgres>, cells: &Ranges, alias: &'static str) {
    if cells.is_empty() {
        sql.push(" AND FALSE");
        return;
    }
    for (at, range) in cells.as_slice().iter().enumerate() {
        sql.push(if at == 0 { " AND (" } else { " OR " })
            .push(alias)
            .push(".hpx BETWEEN ");
        sql.push_bind(range.start).push(" AND ").push_bind(range.end - 1);
    }
    sql.push(")");
}

/// Pushes what `Cone::contains` computes, in the same order of operations.
fn push_exact(sql: &mut QueryBuilder<Postgres>, cone: &Cone, alias: &'static str) {
    let test = cone.test();
    let half = |sql: &mut QueryBuilder<Postgres>, column: &'static str, centre: f64| {
        sql.push("sin(radians((")
            .push(alias)
            .push(column)
            .push(" - ")
            .push_bind(centre)
            .push(") / 2))");
    };
    sql.push(" AND ");
    half(sql, ".dec", test.dec);
    sql.push(" * ");
    half(sql, ".dec", test.dec);
    sql.push(" + cos(radians(")
        .push_bind(test.dec)
        .push("::float8)) * cos(radians(")
        .push(alias)
        .push(".dec)) * ");
    half(sql, ".ra", test.ra);
    sql.push(" * ");
    half(sql, ".ra", test.ra);
    sql.push(if test.inside { " <= " } else { " >= " })
        .push_bind(test.bound);
}

/// Pushes a condition; SQL's own three-valued logic is the condition's.
fn push_condition(sql: &mut QueryBuilder<Postgres>, condition: &Condition, alias: &'static str) {
    match condition {
        Condition::Compare { column, op, with } => {
            push_column(sql, *column, alias);
            sql.push(match op {
                Op::Eq => " = ",
                Op::Ne => " <> ",
                Op::Lt => " < ",
                Op::Le => " <= ",
                Op::Gt => " > ",
                Op::Ge => " >= ",
            });
            match with {
                Operand::Column(column) => push_column(sql, *column, alias),
                Operand::Number(number) => {
                    sql.push_bind(*number);
                }
                Operand::Text(text) => {
                    sql.push_bind(text.clone());
                }
            }
        }
        Condition::In { column, negated, list } => {
            push_column(sql, *column, alias);
            sql.push(if *negated { " <> ALL(" } else { " = ANY(" });
            if *column == Column::Band {
                sql.push_bind(list.iter().filter_map(text_of).collect::<Vec<String>>());
            } else {
                sql.push_bind(list.iter().filter_map(number_of).collect::<Vec<f64>>());
            }
            sql.push(")");
        }
        Condition::All(parts) => push_joined(sql, parts, " AND ", alias),
        Condition::Any(parts) => push_joined(sql, parts, " OR ", alias),
    }
}

fn push_joined(sql: &mut QueryBuilder<Postgres>, parts: &[Condition], by: &'static str, alias: &'static str) {
    sql.push("(");
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            sql.push(by);
        }
        push_condition(sql, part, alias);
    }
    sql.push(")");
}

/// Pushes a column; numbers compare as float8, whatever the column's type.
fn push_column(sql: &mut QueryBuilder<Postgres>, column: Column, alias: &'static str) {
    sql.push(alias).push(".").push(column.name());
    if column != Column::Band {
        sql.push("::float8");
    }
}

fn text_of(operand: &Operand) -> Option<String> {
    match operand {
        Operand::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn number_of(operand: &Operand) -> Option<f64> {
    match operand {
        Operand::Number(number) => Some(*number),
        _ => None,
    }
}
