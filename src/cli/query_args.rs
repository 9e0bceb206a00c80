//! QUERY: the flags that select alerts, the same for every command. What they mean is `query`'s affair.

use clap::Args;

use super::error::{CliError, CliResult};
use crate::query::{NightStart, Query, QueryText};

/// Which alerts: all given flags must hold.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "QUERY (all given flags must hold)")]
pub(super) struct QueryArgs {
    /// Julian dates, UTC, half-open: 2458349.5..2458350.5; either end may be left open.
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    jd: Option<String>,
    /// Modified Julian dates, UTC, half-open.
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    mjd: Option<String>,
    /// Times, ISO-8601 UTC, half-open: 2018-08-19T03:00:00..2018-08-19T04:00:00.
    #[arg(long, value_name = "A..B")]
    time: Option<String>,
    /// A night, or nights with both ends included.
    #[arg(long, value_name = "YYYY-MM-DD[..YYYY-MM-DD]")]
    night: Option<String>,
    /// A cone, degrees; the radius may say 10arcsec, 5arcmin, 2deg.
    #[arg(long, value_name = "RA,DEC,RADIUS", allow_hyphen_values = true)]
    cone: Option<String>,
    /// HEALPix pixels, nested; repeatable.
    #[arg(long, value_name = "NSIDE:PIX,PIX,...")]
    healpix: Vec<String>,
    /// A multi-order coverage map (FITS, ASCII or JSON).
    #[arg(long, value_name = "FILE")]
    moc: Option<String>,
    /// Objects by name.
    #[arg(long, value_name = "ID,...")]
    object: Vec<String>,
    /// Alerts by candid (Rubin: diaSourceId), or @FILE with one id a line.
    #[arg(long, value_name = "ID,...", allow_hyphen_values = true)]
    candid: Vec<String>,
    /// Surveys: ztf, rubin, ...
    #[arg(long, value_name = "NAME,...")]
    survey: Vec<String>,
    /// 1 public, 2 partnership, 3 Caltech.
    #[arg(long, value_name = "N,...", allow_hyphen_values = true)]
    programid: Vec<String>,
    /// Passbands: g r i z y u J.
    #[arg(long, value_name = "BAND,...")]
    band: Vec<String>,
    /// A condition on magnitude, rb, drb, ndethist, band, programid: 'magnitude < 19.5 && rb >= 0.65'.
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<String>,
    /// Only each object's latest alert.
    #[arg(long)]
    latest_per_object: bool,
    /// Every N-th alert in time order, from the K-th on.
    #[arg(long, value_name = "N[/K]", allow_hyphen_values = true)]
    every: Option<String>,
    /// At most N alerts.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    limit: Option<String>,
    /// Everything; stands alone.
    #[arg(long)]
    all: bool,
}

impl QueryArgs {
    /// Gives what was written, or `None` without any flag.
    pub(super) fn text(&self) -> CliResult<Option<QueryText>> {
        let list = |items: &[String]| (!items.is_empty()).then(|| items.join(","));
        let bare = |given: bool| given.then(|| String::from("true"));
        let parts = [
            ("jd", self.jd.clone()),
            ("mjd", self.mjd.clone()),
            ("time", self.time.clone()),
            ("night", self.night.clone()),
            ("cone", self.cone.clone()),
            ("healpix", list(&self.healpix)),
            ("moc", self.moc.clone()),
            ("object", list(&self.object)),
            ("candid", list(&self.candid)),
            ("survey", list(&self.survey)),
            ("programid", list(&self.programid)),
            ("band", list(&self.band)),
            ("where", self.condition.clone()),
            ("latest_per_object", bare(self.latest_per_object)),
            ("every", self.every.clone()),
            ("limit", self.limit.clone()),
            ("all", bare(self.all)),
        ];
        let mut text = QueryText::new();
        for (name, value) in parts {
            if let Some(value) = value {
                text.set(name, value).map_err(refused)?;
            }
        }
        Ok((!text.is_empty()).then_some(text))
    }

    /// Gives the checked query; none at all is refused.
    pub(super) fn query(&self, night: NightStart) -> CliResult<Query> {
        check(&self.text()?.unwrap_or_default(), night)
    }
}

/// Reads the files that a query names and checks it.
pub(super) fn check(text: &QueryText, night: NightStart) -> CliResult<Query> {
    let text = text.clone().with_files().map_err(refused)?;
    Query::parse(&text, night).map_err(refused)
}

fn refused(error: crate::query::QueryError) -> CliError {
    CliError::refused("query", error)
}
