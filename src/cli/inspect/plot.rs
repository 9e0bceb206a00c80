//! A light curve as text: one letter per band, bars for errors, `v` for upper limits.
//!
//! Invariants: at most 72 columns and 20 rows, whatever the points. Must not know packets.

use std::collections::BTreeMap;

use crate::surveys::Point;

const WIDTH: usize = 62;
const HEIGHT: usize = 18;

/// Draws the points and counts them per band.
pub(super) fn plot(points: &[Point], unit: &str) -> String {
    let finite: Vec<&Point> = points
        .iter()
        .filter(|p| p.jd.is_finite() && p.value.is_finite())
        .collect();
    let (Some(first), Some(last)) = (finite.first(), finite.last()) else {
        return String::new();
    };
    let axes = Axes::around(&finite, first.jd, last.jd, unit);
    let mut grid = vec![vec![' '; WIDTH]; HEIGHT];
    let mut put = |column: usize, row: usize, mark: char, over: fn(char) -> bool| {
        if let Some(cell) = grid
            .get_mut(row)
            .and_then(|line| line.get_mut(column))
            .filter(|cell| over(**cell))
        {
            *cell = mark;
        }
    };
    // Bars first, then limits, then measurements: what is drawn later covers what is drawn before.
    for point in &finite {
        if let Some(error) = point.error.filter(|e| e.is_finite() && *e > 0.0) {
            let (a, b) = (axes.row(point.value - error), axes.row(point.value + error));
            (a.min(b)..=a.max(b)).for_each(|row| put(axes.column(point.jd), row, '|', |cell| cell == ' '));
        }
    }
    for point in finite.iter().filter(|p| p.is_limit) {
        put(axes.column(point.jd), axes.row(point.value), 'v', |cell| {
            cell == ' ' || cell == '|'
        });
    }
    for point in finite.iter().filter(|p| !p.is_limit) {
        put(axes.column(point.jd), axes.row(point.value), letter(point), |_| true);
    }
    axes.frame(&grid, unit) + &legend(&finite, unit)
}

fn letter(point: &Point) -> char {
    point
        .band
        .as_deref()
        .and_then(|band| band.chars().next())
        .unwrap_or('?')
}

/// What the columns and rows mean.
struct Axes {
    from: f64,
    days: f64,
    /// The value at the top and at the bottom: magnitudes grow downwards.
    top: f64,
    bottom: f64,
}

impl Axes {
    fn around(points: &[&Point], from: f64, to: f64, unit: &str) -> Self {
        let bars = points.iter().flat_map(|p| {
            let error = p.error.filter(|e| e.is_finite()).unwrap_or(0.0).abs();
            [p.value - error, p.value + error]
        });
        let (low, high) = bars.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
            (low.min(v), high.max(v))
        });
        let margin = ((high - low) * 0.03).max(0.01);
        let (low, high) = (low - margin, high + margin);
        let (top, bottom) = if unit == "mag" { (low, high) } else { (high, low) };
        Self {
            from,
            days: (to - from).max(1e-3),
            top,
            bottom,
        }
    }

    fn column(&self, jd: f64) -> usize {
        scaled((jd - self.from) / self.days, WIDTH)
    }

    fn row(&self, value: f64) -> usize {
        scaled((value - self.top) / (self.bottom - self.top), HEIGHT)
    }

    fn frame(&self, grid: &[Vec<char>], unit: &str) -> String {
        let mut text = String::new();
        for (row, line) in grid.iter().enumerate() {
            let at = row as f64 / (HEIGHT - 1) as f64;
            let value = self.top + at * (self.bottom - self.top);
            let tick = if row % 4 == 0 || row + 1 == HEIGHT {
                format!("{value:8.2}")
            } else {
                String::new()
            };
            let line: String = line.iter().collect();
            text.push_str(&format!("{tick:>8} |{}\n", line.trim_end()));
        }
        text.push_str(&format!("{unit:>8} +{}\n", "-".repeat(WIDTH)));
        let end = format!("+{:.1} d", self.days);
        let start = utc(self.from);
        text.push_str(&format!(
            "{:10}{start}{end:>width$}\n",
            "",
            width = WIDTH.saturating_sub(start.len())
        ));
        text
    }
}

/// Gives the cell of a fraction of an axis; what lies outside is drawn at the edge.
fn scaled(fraction: f64, cells: usize) -> usize {
    (fraction.clamp(0.0, 1.0) * (cells - 1) as f64).round() as usize
}

/// Counts measurements and limits per band, and gives the range of each.
fn legend(points: &[&Point], unit: &str) -> String {
    let mut bands: BTreeMap<&str, Vec<&Point>> = BTreeMap::new();
    for point in points {
        bands
            .entry(point.band.as_deref().unwrap_or("?"))
            .or_default()
            .push(point);
    }
    let mut text = String::new();
    for (band, points) in bands {
        let values: Vec<f64> = points.iter().filter(|p| !p.is_limit).map(|p| p.value).collect();
        let limits = points.len() - values.len();
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        let range = if values.is_empty() {
            String::new()
        } else {
            format!(", {low:.2} to {high:.2} {unit}")
        };
        text.push_str(&format!(
            "{band:>8}  {} measurements{range}, {limits} upper limits (v)\n",
            values.len()
        ));
    }
    text
}

/// Writes a Julian date in UTC as RFC 3339, to the second.
pub(super) fn utc(jd: f64) -> String {
    const UNIX: f64 = 2_440_587.5;
    let seconds = ((jd - UNIX) * 86_400.0).round();
    // chrono knows years of at most six digits; a date beyond is shown as it is.
    let time = (seconds.abs() < 1e13)
        .then(|| chrono::DateTime::from_timestamp(seconds as i64, 0))
        .flatten();
    time.map_or_else(
        || format!("JD {jd}"),
        |time| time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
    )
}
