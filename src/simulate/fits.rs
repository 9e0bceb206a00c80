//! A tiny FITS writer, and stamps of stars as the surveys cut them out.

use std::f64::consts::PI;
use std::io::Write;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use super::noise::Noise;

/// FITS files consist of blocks of this many bytes.
const BLOCK: usize = 2880;

/// One image with its header.
pub(super) enum Image {
    /// 32-bit floats.
    Float(usize, Vec<f32>),
    /// 64-bit floats.
    Double(usize, Vec<f64>),
}

/// Appends an image of `side` times `side` pixels: the file's first when `name` is `None`, else an extension.
pub(super) fn push_image(out: &mut Vec<u8>, name: Option<&str>, image: &Image) {
    let (bits, side) = match image {
        Image::Float(side, _) => (-32, *side),
        Image::Double(side, _) => (-64, *side),
    };
    let mut card = |text: String| out.extend_from_slice(format!("{text:<80}").as_bytes());
    match name {
        None => card(format!("{:<8}= {:>20}", "SIMPLE", "T")),
        Some(_) => card("XTENSION= 'IMAGE   '".into()),
    }
    for (key, value) in [
        ("BITPIX", bits),
        ("NAXIS", 2),
        ("NAXIS1", side as i64),
        ("NAXIS2", side as i64),
    ] {
        card(format!("{key:<8}= {value:>20}"));
    }
    if let Some(name) = name {
        card(format!("{:<8}= {:>20}", "PCOUNT", 0));
        card(format!("{:<8}= {:>20}", "GCOUNT", 1));
        card(format!("{:<8}= '{name:<8}'", "EXTNAME"));
    }
    card("END".into());
    fill(out, b' ');
    match image {
        Image::Float(_, pixels) => pixels
            .iter()
            .for_each(|pixel| out.extend_from_slice(&pixel.to_be_bytes())),
        Image::Double(_, pixels) => pixels
            .iter()
            .for_each(|pixel| out.extend_from_slice(&pixel.to_be_bytes())),
    }
    fill(out, 0);
}

fn fill(out: &mut Vec<u8>, with: u8) {
    out.resize(out.len().next_multiple_of(BLOCK), with);
}

/// The pixels of a star in the middle of noise.
pub(super) fn star(noise: &mut Noise, side: usize, sky: f64, flux: f64, fwhm: f64) -> Vec<f32> {
    let sigma2 = (fwhm / 2.355).powi(2);
    let centre = (side as f64 - 1.0) / 2.0;
    let deviation = sky.abs().sqrt().max(8.0);
    let pixel = |n: usize| {
        let (x, y) = ((n % side) as f64 - centre, (n / side) as f64 - centre);
        let signal = flux / (2.0 * PI * sigma2) * (-(x * x + y * y) / (2.0 * sigma2)).exp();
        (sky + signal + deviation * noise.normal()) as f32
    };
    (0..side * side).map(pixel).collect()
}

/// A point spread function: a Gaussian that sums to one.
pub(super) fn psf(side: usize, fwhm: f64) -> Vec<f64> {
    let sigma2 = (fwhm / 2.355).powi(2);
    let centre = (side as f64 - 1.0) / 2.0;
    let pixel = |n: usize| {
        let (x, y) = ((n % side) as f64 - centre, (n / side) as f64 - centre);
        (-(x * x + y * y) / (2.0 * sigma2)).exp() / (2.0 * PI * sigma2)
    };
    (0..side * side).map(pixel).collect()
}

/// Compresses a file as gzip, without a time in it.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder: GzEncoder<Vec<u8>> = GzBuilder::new().write(Vec::new(), Compression::new(6));
    // Writing to memory does not fail.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

/// How many distinct stamps there are for each step of brightness.
const VARIANTS: u64 = 4;
/// How many steps of brightness there are, from 14 to 22 mag.
const STEPS: u64 = 6;

/// A pool of stamps (science, template, difference) that are made when first used, each from its own noise.
pub(super) struct Stamps {
    seed: u64,
    make: fn(&mut Noise, f64) -> [Vec<u8>; 3],
    pool: Vec<Option<[Vec<u8>; 3]>>,
}

impl Stamps {
    /// A pool whose stamps `make` makes from noise and a magnitude.
    pub(super) fn new(seed: u64, make: fn(&mut Noise, f64) -> [Vec<u8>; 3]) -> Self {
        Self {
            seed,
            make,
            pool: vec![None; (STEPS * VARIANTS) as usize],
        }
    }

    /// Gives the stamps of an object of a magnitude.
    pub(super) fn of(&mut self, magnitude: f64, which: u64) -> Option<&[Vec<u8>; 3]> {
        let step = ((magnitude - 14.0) / 8.0 * STEPS as f64)
            .clamp(0.0, STEPS as f64 - 1.0)
            .floor();
        let at = step as u64 * VARIANTS + which % VARIANTS;
        let (seed, make) = (self.seed, self.make);
        let middle = 14.0 + (step + 0.5) * 8.0 / STEPS as f64;
        let slot = self.pool.get_mut(at as usize)?;
        Some(slot.get_or_insert_with(|| make(&mut Noise::at(seed, at), middle)))
    }
}
