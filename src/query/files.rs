//! The files that a query names: `--moc FILE` and `--candid @FILE`. The only place of the query that reads anything.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use moc::deser::ascii::from_ascii_ivoa;
use moc::deser::fits::{MocIdxType, MocQtyType, from_fits_ivoa};
use moc::moc::range::RangeMOC;
use moc::moc::{CellOrCellRangeMOCIntoIterator, CellOrCellRangeMOCIterator, RangeMOCIterator};
use moc::qty::Hpx;

use super::error::QueryError;
use super::text::QueryText;
use crate::sky::Ranges;

/// The largest file that a query may name, bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

impl QueryText {
    /// Reads the files that the text names, so that `Query::parse` is free of input and output.
    ///
    /// `candid = "@FILE"` becomes the file's ids (one a line, `#` begins a comment); the map of `moc` is kept beside.
    ///
    /// # Errors
    /// A file that cannot be read, is larger than 256 MiB, or is neither a FITS, an ASCII nor a JSON multi-order map.
    pub fn with_files(mut self) -> Result<Self, QueryError> {
        if let Some(path) = self
            .get("candid")
            .and_then(|list| list.trim().strip_prefix('@'))
            .map(str::to_owned)
        {
            let bytes = read("candid", &path)?;
            let text =
                String::from_utf8(bytes).map_err(|_| refuse("candid", &path, "is no text; write one id a line"))?;
            let lines = text
                .lines()
                .map(|line| line.split('#').next().unwrap_or_default().trim());
            let ids: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
            self.set("candid", ids.join(","))?;
        }
        if let Some(path) = self.get("moc").map(str::to_owned) {
            self.cover = Some(cover(&path)?);
        }
        Ok(self)
    }
}

fn refuse(flag: &'static str, path: &str, why: impl Into<String>) -> QueryError {
    QueryError::File {
        flag,
        path: path.into(),
        why: why.into(),
    }
}

fn read(flag: &'static str, path: &str) -> Result<Vec<u8>, QueryError> {
    let failed = |e: std::io::Error| refuse(flag, path, format!("cannot be read: {e}"));
    let bytes = std::fs::metadata(Path::new(path)).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(refuse(
            flag,
            path,
            format!("has {bytes} bytes, more than {FILE_BYTES_MAX}"),
        ));
    }
    std::fs::read(path).map_err(failed)
}

/// Reads a multi-order coverage map; its form is told from its first bytes.
fn cover(path: &str) -> Result<Ranges, QueryError> {
    let bytes = read("moc", path)?;
    let no_map = |why: String| {
        refuse(
            "moc",
            path,
            format!("is no multi-order map of the sky (FITS, ASCII or JSON): {why}"),
        )
    };
    if bytes.starts_with(b"SIMPLE") {
        return fits(bytes).map_err(no_map);
    }
    let text = String::from_utf8(bytes).map_err(|e| no_map(e.to_string()))?;
    if text.trim_start().starts_with('{') {
        return json(&text).map_err(no_map);
    }
    if text.trim().is_empty() {
        return Ok(Ranges::default());
    }
    let cells = from_ascii_ivoa::<u64, Hpx<u64>>(text.trim()).map_err(|e| no_map(e.to_string()))?;
    Ok(ranges(&cells.into_cellcellrange_moc_iter().ranges().into_range_moc()))
}

/// Reads `{"ORDER": [PIXEL, ..], ..}`; unlike the crate's reader it refuses what it does not understand.
fn json(text: &str) -> Result<Ranges, String> {
    let orders: BTreeMap<u8, Vec<u64>> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    for (order, pixels) in orders {
        for pixel in pixels {
            all.extend(
                Ranges::pixel(order, pixel)
                    .map_err(|e| e.to_string())?
                    .as_slice()
                    .iter()
                    .cloned(),
            );
        }
    }
    Ok(Ranges::from_unsorted(all))
}

fn fits(bytes: Vec<u8>) -> Result<Ranges, String> {
    let map: RangeMOC<u64, Hpx<u64>> = match from_fits_ivoa(Cursor::new(bytes)).map_err(|e| e.to_string())? {
        MocIdxType::U16(MocQtyType::Hpx(map)) => map.collect_to_u64(),
        MocIdxType::U32(MocQtyType::Hpx(map)) => map.collect_to_u64(),
        MocIdxType::U64(MocQtyType::Hpx(map)) => map.collect_to_u64(),
        _ => return Err("it is a map of time or frequency".into()),
    };
    Ok(ranges(&map))
}

/// The map's ranges are of order 29 already.
fn ranges(map: &RangeMOC<u64, Hpx<u64>>) -> Ranges {
    let bound = |cell: u64| i64::try_from(cell).unwrap_or(crate::sky::CELLS).min(crate::sky::CELLS);
    Ranges::from_unsorted(
        map.moc_ranges()
            .iter()
            .map(|range| bound(range.start)..bound(range.end))
            .collect(),
    )
}
