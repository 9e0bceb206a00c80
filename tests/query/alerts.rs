//! Generated alerts where queries go wrong: ties in time, unknown values, poles, ra 0, pixel edges; and the oracle.

use std::collections::BTreeMap;

use alertstream::header::AlertHeader;
use alertstream::query::Query;
use alertstream::sky;
use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sqlx::PgPool;

use crate::values::Oracle;

const INSERT: &str = "INSERT INTO alert (jd, ra, dec, hpx, alert_id, magnitude, rb, drb, ndethist, programid, bytes, \
     survey, object_id, band, sha256, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13, $14, '') \
     RETURNING id";

/// 2018-08-19T00:00:00Z.
pub(crate) const FIRST_NIGHT: f64 = 2_458_349.5;

/// Gives `count` alerts, the same for the same seed.
pub(crate) fn generate(seed: u64, count: usize) -> Vec<AlertHeader> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|n| alert(&mut rng, n)).collect()
}

fn alert(rng: &mut ChaCha8Rng, n: usize) -> AlertHeader {
    let survey = ["ztf", "ztf", "ztf", "rubin", "winter"][rng.random_range(0..5)];
    let (ra, dec) = place(rng);
    let mut known = |share: f64| rng.random_bool(share);
    let (has_jd, has_place, has_object, has_score) = (known(0.97), known(0.97), known(0.95), known(0.8));
    AlertHeader {
        survey: survey.into(),
        schema_version: Some("4.02".into()),
        object_id: has_object.then(|| format!("OBJ{:03}", rng.random_range(0..400))),
        alert_id: if rng.random_bool(0.02) { 0 } else { 1_000_000 + n as i64 },
        // Steps of a minute, so that many alerts share a time and some stand on a bound.
        jd: has_jd.then(|| FIRST_NIGHT + f64::from(rng.random_range(0..5 * 1440)) / 1440.0),
        ra: has_place.then_some(ra),
        dec: has_place.then_some(dec),
        programid: rng.random_range(1..4),
        band: rng
            .random_bool(0.9)
            .then(|| ["g", "r", "i", "J"][rng.random_range(0..4)].into()),
        magnitude: rng
            .random_bool(0.9)
            .then(|| f64::from(rng.random_range(140..220)) / 10.0),
        rb: has_score.then(|| f64::from(rng.random_range(0..100)) / 100.0),
        drb: rng
            .random_bool(0.5)
            .then(|| f64::from(rng.random_range(0..100)) / 100.0),
        ndethist: rng.random_bool(0.7).then(|| rng.random_range(0..10)),
    }
}

fn place(rng: &mut ChaCha8Rng) -> (f64, f64) {
    let near = |rng: &mut ChaCha8Rng, value: f64, spread: f64| value + rng.random_range(-spread..spread);
    match rng.random_range(0..6) {
        0 => (rng.random_range(0.0..360.0), near(rng, 89.5, 0.5)),
        1 => (rng.random_range(0.0..360.0), near(rng, -89.5, 0.5)),
        2 => (near(rng, 0.0, 1.0).rem_euclid(360.0), near(rng, 0.0, 1.0)),
        // The corner of four large pixels.
        3 => (near(rng, 45.0, 0.01), near(rng, 0.0, 0.01)),
        4 => (near(rng, 120.0, 2.0), near(rng, 41.81, 2.0)),
        _ => (
            rng.random_range(0.0..360.0),
            rng.random_range(-1.0..1.0_f64).asin().to_degrees(),
        ),
    }
}

/// Stores the alerts (their packets empty) and gives the ids they got, in the same order.
pub(crate) async fn store(pool: &PgPool, alerts: &[AlertHeader]) -> Vec<i64> {
    let mut ids = Vec::with_capacity(alerts.len());
    // One transaction, so that a row costs no commit.
    let mut transaction = pool.begin().await.expect("a transaction");
    for (n, alert) in alerts.iter().enumerate() {
        let id = sqlx::query_scalar::<_, i64>(INSERT)
            .bind(alert.jd.unwrap_or(f64::NEG_INFINITY))
            .bind(alert.ra)
            .bind(alert.dec)
            .bind(alert.ra.zip(alert.dec).and_then(|(ra, dec)| sky::hash(ra, dec)))
            .bind(alert.alert_id)
            .bind(alert.magnitude)
            .bind(alert.rb)
            .bind(alert.drb)
            .bind(alert.ndethist)
            .bind(alert.programid)
            .bind(&alert.survey)
            .bind(&alert.object_id)
            .bind(&alert.band)
            .bind((n as u64).to_be_bytes().to_vec())
            .fetch_one(&mut *transaction);
        ids.push(id.await.expect("an alert"));
    }
    transaction.commit().await.expect("a commit");
    ids
}

/// Selects by brute force: (jd, id) order, unknown times first.
pub(crate) fn select(query: &Query, alerts: &[AlertHeader], ids: &[i64]) -> Vec<i64> {
    let every = query.every().map(|every| (every.n as usize, every.k as usize));
    let limit = query.limit().map(|limit| limit as usize);
    let matches = |alert: &AlertHeader| query.matches(alert);
    slice(matches, query.latest_per_object(), every, limit, alerts, ids)
}

/// Selects what the oracles of some flags say.
pub(crate) fn select_by_hand(oracles: &[Oracle], alerts: &[AlertHeader], ids: &[i64]) -> Vec<i64> {
    let (mut latest, mut every, mut limit) = (false, None, None);
    for oracle in oracles {
        match oracle {
            Oracle::Alert(_) => {}
            Oracle::Latest => latest = true,
            Oracle::Every(n, k) => every = Some((*n, *k)),
            Oracle::Limit(most) => limit = Some(*most),
        }
    }
    let matches = |alert: &AlertHeader| {
        oracles.iter().all(|oracle| match oracle {
            Oracle::Alert(holds) => holds(alert),
            _ => true,
        })
    };
    slice(matches, latest, every, limit, alerts, ids)
}

fn slice(
    matches: impl Fn(&AlertHeader) -> bool,
    latest_per_object: bool,
    every: Option<(usize, usize)>,
    limit: Option<usize>,
    alerts: &[AlertHeader],
    ids: &[i64],
) -> Vec<i64> {
    let time = |alert: &AlertHeader| alert.jd.unwrap_or(f64::NEG_INFINITY);
    let matched = alerts.iter().zip(ids).filter(|(alert, _)| matches(alert));
    let mut rows: Vec<(f64, i64, &AlertHeader)> = matched.map(|(alert, id)| (time(alert), *id, alert)).collect();
    rows.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).unwrap());
    if latest_per_object {
        let mut latest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for (_, id, alert) in &rows {
            if let Some(object) = &alert.object_id {
                latest.insert((&alert.survey, object), *id);
            }
        }
        rows.retain(|(_, id, alert)| match &alert.object_id {
            Some(object) => latest[&(alert.survey.as_str(), object.as_str())] == *id,
            None => true,
        });
    }
    let ranked = rows
        .iter()
        .enumerate()
        .filter(|(rank, _)| every.is_none_or(|(n, k)| rank % n == k));
    ranked.map(|(_, row)| row.1).take(limit.unwrap_or(usize::MAX)).collect()
}
