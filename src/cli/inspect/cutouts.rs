//! Cutouts to PNG: gunzip, read the FITS image, asinh stretch, grey levels.
//!
//! Invariants: bounded whatever the bytes say (16 MiB inflated, 4 Mpixel); a cutout that cannot be read is named and left
//! out, the others are written. Must not know surveys: a cutout is bytes in a top-level field named `cutout...`.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::super::error::{CliError, CliResult};
use super::super::output;
use crate::decode::Value;
use crate::decode::packet::Packet;

const INFLATED_MAX: u64 = 16 << 20;
const PIXELS_MAX: usize = 4 << 20;
const FITS_BLOCK: usize = 2880;
const CARD: usize = 80;

/// Writes the cutouts of a packet; gives the files.
pub(super) fn write(packet: &Packet, folder: &Path) -> CliResult<Vec<PathBuf>> {
    let failed = |path: &Path, cause: &dyn std::fmt::Display| {
        CliError::failed("path", format!("`{}` cannot be written: {cause}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|cause| failed(folder, &cause))?;
    let mut written = Vec::new();
    let Value::Record(root) = packet.root() else {
        return Ok(written);
    };
    for (name, value) in root.iter().filter(|(name, _)| name.starts_with("cutout")) {
        let Some(bytes) = bytes_in(value) else { continue };
        match image(bytes) {
            Ok(image) => {
                let kind = name.trim_start_matches("cutout").trim_start_matches('_').to_lowercase();
                let path = folder.join(format!("{}_{kind}.png", packet.header().alert_id));
                let png = image.png().map_err(|cause| failed(&path, &cause))?;
                std::fs::write(&path, png).map_err(|cause| failed(&path, &cause))?;
                written.push(path);
            }
            Err(cause) => output::say(format_args!("cutout `{name}` is left out: {cause}")),
        }
    }
    Ok(written)
}

/// The bytes of a cutout: the field itself, or the first bytes in its record.
fn bytes_in(value: Value<'_>) -> Option<&[u8]> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        Value::Record(record) => record.iter().find_map(|(_, field)| field.as_bytes()),
        _ => None,
    }
}

/// An image, first row at the bottom as FITS has it; a pixel without a value is NaN.
#[derive(Debug, PartialEq)]
pub(super) struct Image {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<f64>,
}

/// Reads a FITS image, gzipped or not.
pub(super) fn image(bytes: &[u8]) -> Result<Image, String> {
    let plain;
    let fits = if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut out = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(bytes).take(INFLATED_MAX + 1);
        reader
            .read_to_end(&mut out)
            .map_err(|cause| format!("it cannot be gunzipped: {cause}"))?;
        if out.len() as u64 > INFLATED_MAX {
            return Err(format!("it gunzips to more than {INFLATED_MAX} bytes"));
        }
        plain = out;
        plain.as_slice()
    } else {
        bytes
    };
    if !fits.starts_with(b"SIMPLE") {
        return Err("it is no FITS image".into());
    }
    let mut rest = fits;
    // The image is the first unit that has one: some writers begin with an empty one.
    while !rest.is_empty() {
        let (unit, after) = Unit::read(rest)?;
        if unit.axes.len() >= 2 && unit.axes.iter().product::<usize>() > 0 {
            return unit.image(after);
        }
        rest = after
            .get(unit.stored().next_multiple_of(FITS_BLOCK)..)
            .unwrap_or_default();
    }
    Err("its FITS has no image".into())
}

/// The header of one FITS unit.
struct Unit {
    bitpix: i64,
    axes: Vec<usize>,
    scale: f64,
    zero: f64,
    blank: Option<i64>,
}

impl Unit {
    /// Reads a header; gives it and what follows.
    fn read(bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let mut unit = Self {
            bitpix: 0,
            axes: Vec::new(),
            scale: 1.0,
            zero: 0.0,
            blank: None,
        };
        for (n, card) in bytes.chunks(CARD).enumerate() {
            let text = String::from_utf8_lossy(card);
            let (key, rest) = text.split_at_checked(8).ok_or("its FITS header is cut off")?;
            let value = rest
                .trim_start_matches('=')
                .split('/')
                .next()
                .unwrap_or_default()
                .trim();
            match key.trim_end() {
                "END" => {
                    let end = ((n + 1) * CARD).next_multiple_of(FITS_BLOCK);
                    return Ok((unit, bytes.get(end..).unwrap_or_default()));
                }
                "BITPIX" => unit.bitpix = value.parse().map_err(|_| format!("BITPIX is `{value}`"))?,
                "BSCALE" => unit.scale = value.parse().map_err(|_| format!("BSCALE is `{value}`"))?,
                "BZERO" => unit.zero = value.parse().map_err(|_| format!("BZERO is `{value}`"))?,
                "BLANK" => unit.blank = value.parse().ok(),
                "NAXIS" => {}
                key if key.starts_with("NAXIS") => {
                    let size: usize = value.parse().map_err(|_| format!("{key} is `{value}`"))?;
                    if size > PIXELS_MAX || unit.axes.len() >= 8 {
                        return Err(format!("{key} is `{value}`, more than is read"));
                    }
                    unit.axes.push(size);
                }
                _ => {}
            }
        }
        Err("its FITS header has no END".into())
    }

    /// Bytes of the unit's content.
    fn stored(&self) -> usize {
        let pixels = if self.axes.is_empty() {
            0
        } else {
            self.axes.iter().fold(1usize, |n, a| n.saturating_mul(*a))
        };
        pixels
            .saturating_mul(self.bitpix.unsigned_abs() as usize / 8)
            .min(INFLATED_MAX as usize * 8)
    }

    fn image(&self, content: &[u8]) -> Result<Image, String> {
        let [width, height, ..] = *self.axes.as_slice() else {
            return Err("it has fewer than two axes".into());
        };
        let count = width.saturating_mul(height);
        if count > PIXELS_MAX {
            return Err(format!("it has {count} pixels, at most {PIXELS_MAX} are read"));
        }
        let size = self.bitpix.unsigned_abs() as usize / 8;
        let raw = content
            .get(..count.saturating_mul(size))
            .ok_or("its pixels are cut off")?;
        let integer = |n: i64| if self.blank == Some(n) { f64::NAN } else { n as f64 };
        let pixel = |b: &[u8]| match (self.bitpix, b) {
            (8, [a]) => Some(integer(i64::from(*a))),
            (16, [a, b]) => Some(integer(i64::from(i16::from_be_bytes([*a, *b])))),
            (32, _) => Some(integer(i64::from(i32::from_be_bytes(b.try_into().ok()?)))),
            (-32, _) => Some(f64::from(f32::from_be_bytes(b.try_into().ok()?))),
            (-64, _) => Some(f64::from_be_bytes(b.try_into().ok()?)),
            _ => None,
        };
        let pixels: Option<Vec<f64>> = raw
            .chunks_exact(size.max(1))
            .map(|b| Some(self.zero + self.scale * pixel(b)?))
            .collect();
        let pixels = pixels
            .filter(|p| p.len() == count)
            .ok_or_else(|| format!("BITPIX is `{}`", self.bitpix))?;
        Ok(Image { width, height, pixels })
    }
}

impl Image {
    /// Makes grey levels: asinh of the distance from the median in units of the spread, the top row first.
    pub(super) fn grey(&self) -> Vec<u8> {
        let mut sorted: Vec<f64> = self.pixels.iter().copied().filter(|p| p.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |fraction: f64| {
            let place = (fraction * sorted.len().saturating_sub(1) as f64).round() as usize;
            sorted.get(place).copied().unwrap_or(0.0)
        };
        let spread = ((at(0.84) - at(0.16)) / 2.0).max(f64::MIN_POSITIVE);
        let stretch = |value: f64| ((value - at(0.5)) / spread).asinh();
        let (low, high) = (stretch(at(0.005)), stretch(at(0.995)));
        let level = |value: f64| {
            let fraction = (stretch(value) - low) / (high - low).max(f64::MIN_POSITIVE);
            if value.is_finite() {
                (fraction.clamp(0.0, 1.0) * 255.0).round() as u8
            } else {
                0
            }
        };
        let rows = self.pixels.chunks_exact(self.width.max(1)).rev();
        rows.flatten().map(|value| level(*value)).collect()
    }

    fn png(&self) -> Result<Vec<u8>, String> {
        let (width, height) = (self.width as u32, self.height as u32);
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(|e| e.to_string())?;
        writer.write_image_data(&self.grey()).map_err(|e| e.to_string())?;
        writer.finish().map_err(|e| e.to_string())?;
        Ok(out)
    }
}
