//! Positions, cones and regions of the sky as sorted half-open integer ranges of HEALPix order 29 (nested).
//!
//! How it works: a position is hashed to its order-29 cell, a cone or a multi-order map becomes [`Ranges`] of such
//! cells, so that a region is answered from an ordinary integer index. A cone's ranges cover more than the cone (8 to
//! 16 cells a radius); [`Cone::contains`] is the exact great-circle test that follows.
//! Invariants: ranges are non-empty, ascending, never touch or overlap, and lie in `0..CELLS`; angles are degrees.
//! Must not know of alerts, queries or SQL.

use std::fmt;
use std::ops::Range;

/// The HEALPix order of every cell number here: cells of 0.4 milliarcsec.
pub const ORDER: u8 = 29;

/// Number of cells of the whole sky at [`ORDER`].
pub const CELLS: i64 = 12 << (2 * ORDER);

/// Gives the order-29 nested HEALPix cell of a position in deg; `None` for what is no position.
///
/// Any finite right ascension is taken modulo 360; a declination outside -90 to 90 is no position.
pub fn hash(ra: f64, dec: f64) -> Option<i64> {
    if !ra.is_finite() || !(-90.0..=90.0).contains(&dec) {
        return None;
    }
    let lat = dec
        .to_radians()
        .clamp(-std::f64::consts::FRAC_PI_2, std::f64::consts::FRAC_PI_2);
    i64::try_from(cdshealpix::nested::hash(ORDER, wrap(ra).to_radians(), lat)).ok()
}

/// Takes a right ascension into 0 (included) to 360 (excluded), deg.
fn wrap(ra: f64) -> f64 {
    let wrapped = ra.rem_euclid(360.0);
    if wrapped >= 360.0 { 0.0 } else { wrapped + 0.0 }
}

/// Gives the great-circle distance of two positions, deg (Vincenty's formula: exact for small and large angles).
pub fn separation(from: (f64, f64), to: (f64, f64)) -> f64 {
    let (sin_d, cos_d) = (to.0 - from.0).to_radians().sin_cos();
    let (sin_a, cos_a) = from.1.to_radians().sin_cos();
    let (sin_b, cos_b) = to.1.to_radians().sin_cos();
    let across = (cos_b * sin_d).hypot(cos_a * sin_b - sin_a * cos_b * cos_d);
    across.atan2(sin_a * sin_b + cos_a * cos_b * cos_d).to_degrees()
}

/// Why a place or a region was refused.
#[non_exhaustive]
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SkyError {
    /// Right ascension out of bounds.
    #[error("right ascension `{0}` is not in 0 to 360 degrees")]
    Ra(f64),
    /// Declination out of bounds.
    #[error("declination `{0}` is not in -90 to 90 degrees")]
    Dec(f64),
    /// Radius out of bounds.
    #[error("radius `{0}` degrees is not above 0 and at most 180")]
    Radius(f64),
    /// An order above 29.
    #[error("HEALPix order `{0}` is above 29")]
    Order(u8),
    /// A pixel number that its order does not have.
    #[error("pixel `{pixel}` is not below {} of HEALPix order {order}", 12u64 << (2 * order))]
    Pixel {
        /// The order.
        order: u8,
        /// The pixel.
        pixel: u64,
    },
    /// Text that is no list of `ORDER/PIXEL ...`.
    #[error("`{0}` is no list of cells as `ORDER/PIXEL PIXEL ..`")]
    Cells(String),
}

/// A circle on the sky, its edge included.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cone {
    ra: f64,
    dec: f64,
    radius: f64,
}

impl Cone {
    /// Makes a cone from its centre and radius, deg.
    ///
    /// # Errors
    /// Whatever is not finite, a right ascension outside 0 to 360, a declination outside -90 to 90, a radius that is
    /// not above 0 and at most 180.
    pub fn new(ra: f64, dec: f64, radius: f64) -> Result<Self, SkyError> {
        if !(0.0..=360.0).contains(&ra) {
            return Err(SkyError::Ra(ra));
        }
        if !(-90.0..=90.0).contains(&dec) {
            return Err(SkyError::Dec(dec));
        }
        if !(radius > 0.0 && radius <= 180.0) {
            return Err(SkyError::Radius(radius));
        }
        Ok(Self {
            ra: wrap(ra),
            dec: dec + 0.0,
            radius,
        })
    }

    /// Gives the centre's right ascension, deg.
    pub fn ra(&self) -> f64 {
        self.ra
    }

    /// Gives the centre's declination, deg.
    pub fn dec(&self) -> f64 {
        self.dec
    }

    /// Gives the radius, deg.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Says whether a position (deg) lies in the cone: its great-circle distance is at most the radius.
    pub fn contains(&self, ra: f64, dec: f64) -> bool {
        let test = self.test();
        let squared = haversine((test.ra, test.dec), (ra, dec));
        if test.inside {
            squared <= test.bound
        } else {
            squared >= test.bound
        }
    }

    /// Gives the exact test as numbers, so that SQL computes what [`Cone::contains`] does.
    ///
    /// Beyond 90 degrees the test is made around the antipode, where a haversine is exact.
    pub fn test(&self) -> ConeTest {
        let bound = |radius: f64| (radius / 2.0).to_radians().sin().powi(2);
        if self.radius <= 90.0 {
            ConeTest {
                ra: self.ra,
                dec: self.dec,
                bound: bound(self.radius),
                inside: true,
            }
        } else {
            ConeTest {
                ra: wrap(self.ra + 180.0),
                dec: -self.dec,
                bound: bound(180.0 - self.radius),
                inside: false,
            }
        }
    }

    /// Gives the order-29 ranges that hold every position of the cone, and some around it.
    pub fn ranges(&self) -> Ranges {
        // cdshealpix 0.10 loses cells of cones of much more than 90 degrees; half the sky gains nothing from an index.
        if self.radius > 90.0 {
            return Ranges::whole_sky();
        }
        // Wider than the rounding of an angle, so that a position on the edge is never lost.
        let radius = self.radius.to_radians() * (1.0 + 1e-9) + 1e-12;
        let cells_per_radian = 8.0 * 58.632_f64.to_radians() / radius;
        // 0 to 29 by the clamp.
        let order = cells_per_radian.log2().ceil().clamp(0.0, f64::from(ORDER)) as u8;
        let cover =
            cdshealpix::nested::cone_coverage_approx(order, self.ra.to_radians(), self.dec.to_radians(), radius);
        let shift = 2 * (ORDER - order);
        Ranges::from_unsorted(
            cover
                .to_ranges()
                .iter()
                .map(|r| cell(r.start << shift)..cell(r.end << shift))
                .collect(),
        )
    }
}

/// The numbers of a cone's exact test: haversine of the distance to (`ra`, `dec`) against `bound`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConeTest {
    /// Right ascension of the test's centre, deg.
    pub ra: f64,
    /// Declination of the test's centre, deg.
    pub dec: f64,
    /// Haversine of the test's radius.
    pub bound: f64,
    /// True when positions at most at the bound are in the cone, false when those at least at it are.
    pub inside: bool,
}

/// Gives the haversine of the distance of two positions; the same operations in the same order as the SQL.
fn haversine(from: (f64, f64), to: (f64, f64)) -> f64 {
    let half_dec = ((to.1 - from.1) / 2.0).to_radians().sin();
    let half_ra = ((to.0 - from.0) / 2.0).to_radians().sin();
    half_dec * half_dec + from.1.to_radians().cos() * to.1.to_radians().cos() * half_ra * half_ra
}

/// Takes a cell number of order 29 (below 2^62) into the type of the archive's column.
fn cell(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(CELLS).min(CELLS)
}

/// A region of the sky: ascending half-open ranges of order-29 cells that never touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<Range<i64>>);

impl Ranges {
    /// Gives the whole sky.
    pub fn whole_sky() -> Self {
        Self::from(0..CELLS)
    }

    /// Gives the region of one pixel of an order, nested numbering.
    ///
    /// # Errors
    /// An order above 29, or a pixel that the order does not have.
    pub fn pixel(order: u8, pixel: u64) -> Result<Self, SkyError> {
        if order > ORDER {
            return Err(SkyError::Order(order));
        }
        if pixel >= 12 << (2 * order) {
            return Err(SkyError::Pixel { order, pixel });
        }
        let shift = 2 * (ORDER - order);
        Ok(Self::from(cell(pixel << shift)..cell((pixel + 1) << shift)))
    }

    /// Makes a region of ranges in any order; empty ones are dropped, those that touch are joined.
    pub fn from_unsorted(mut ranges: Vec<Range<i64>>) -> Self {
        ranges.retain(|r| r.start < r.end);
        ranges.sort_unstable_by_key(|r| r.start);
        let mut joined: Vec<Range<i64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Self(joined)
    }

    /// Gives the ranges, ascending.
    pub fn as_slice(&self) -> &[Range<i64>] {
        &self.0
    }

    /// Says whether the region holds no cell.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Says whether the region holds a cell.
    pub fn contains(&self, cell: i64) -> bool {
        let after = self.0.partition_point(|r| r.end <= cell);
        self.0.get(after).is_some_and(|r| r.start <= cell)
    }

    /// Gives what lies in either region.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::from_unsorted(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// Gives what lies in both regions.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let both = a.start.max(b.start)..a.end.min(b.end);
            if a.end <= b.end {
                left.next();
            } else {
                right.next();
            }
            common.push(both);
        }
        Self::from_unsorted(common)
    }

    /// Gives a region of at most `most` ranges (at least 1) that covers this one: the narrowest gaps are filled.
    #[must_use]
    pub fn coarsened(&self, most: usize) -> Self {
        let excess = self.0.len().saturating_sub(most.max(1));
        if excess == 0 {
            return self.clone();
        }
        let mut gaps: Vec<i64> = self
            .0
            .iter()
            .zip(self.0.iter().skip(1))
            .map(|(a, b)| b.start - a.end)
            .collect();
        let (_, &mut widest_filled, _) = gaps.select_nth_unstable(excess - 1);
        let grown = |r: &Range<i64>| r.start..r.end.saturating_add(widest_filled);
        let mut joined = Self::from_unsorted(self.0.iter().map(grown).collect());
        for range in &mut joined.0 {
            range.end -= widest_filled;
        }
        joined
    }

    /// Reads what [`Ranges`] displays as: `ORDER/PIXEL PIXEL ORDER/PIXEL ..`, the ASCII form of a multi-order map.
    ///
    /// # Errors
    /// Text of another form, or a pixel that its order does not have.
    pub fn from_cells(text: &str) -> Result<Self, SkyError> {
        let mut ranges = Vec::new();
        let mut order = None;
        let bad = || SkyError::Cells(text.chars().take(40).collect());
        for word in text.split_whitespace() {
            let pixel = match word.split_once('/') {
                Some((at, pixel)) => {
                    order = Some(at.parse().map_err(|_| bad())?);
                    pixel
                }
                None => word,
            };
            let pixel = pixel.parse().map_err(|_| bad())?;
            ranges.extend(Self::pixel(order.ok_or_else(bad)?, pixel)?.0);
        }
        Ok(Self::from_unsorted(ranges))
    }

    /// Splits the region into the largest cells, (order, pixel), in order of order, then pixel.
    pub fn cells(&self) -> Vec<(u8, u64)> {
        let mut cells = Vec::new();
        for range in &self.0 {
            let (mut start, end) = (range.start.unsigned_abs(), range.end.unsigned_abs());
            while start < end {
                // The largest cell that begins at `start` and ends by `end`; both bounds are below 2^62.
                let aligned = start.trailing_zeros() / 2;
                let fitting = (end - start).ilog2() / 2;
                let up = aligned.min(fitting).min(u32::from(ORDER));
                // At most 29, so it fits.
                cells.push((ORDER - up as u8, start >> (2 * up)));
                start += 1 << (2 * up);
            }
        }
        cells.sort_unstable();
        cells
    }
}

impl From<Range<i64>> for Ranges {
    fn from(range: Range<i64>) -> Self {
        Self::from_unsorted([range].into())
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for (order, pixel) in self.cells() {
            let gap = if last.is_some() { " " } else { "" };
            if last == Some(order) {
                write!(f, "{gap}{pixel}")?;
            } else {
                write!(f, "{gap}{order}/{pixel}")?;
            }
            last = Some(order);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
