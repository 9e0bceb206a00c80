//! The plot and the cutouts, on made-up points and images.

use super::cutouts::{Image, image};
use super::plot;
use crate::surveys::Point;

fn point(jd: f64, value: f64, band: &str) -> Point {
    Point {
        jd,
        value,
        error: Some(0.1),
        is_limit: false,
        band: Some(band.into()),
    }
}

#[test]
fn the_plot_has_a_letter_per_band_bars_and_limits() {
    let limit = Point {
        error: None,
        is_limit: true,
        ..point(2_458_350.0, 20.5, "g")
    };
    let text = plot::plot(
        &[point(2_458_349.5, 18.0, "g"), limit, point(2_458_360.5, 17.0, "r")],
        "mag",
    );
    let rows: Vec<&str> = text.lines().collect();
    let row_of = |mark: &str| {
        rows.iter()
            .position(|row| row.split('|').nth(1).is_some_and(|r| r.contains(mark)))
    };
    assert!(
        row_of("r").unwrap() < row_of("g").unwrap(),
        "brighter is higher:\n{text}"
    );
    assert!(row_of("v").is_some());
    assert!(text.contains("2018-08-19T00:00:00Z"), "{text}");
    assert!(
        text.contains("g  1 measurements, 18.00 to 18.00 mag, 1 upper limits"),
        "{text}"
    );
    assert!(rows.iter().all(|row| row.chars().count() <= 75));
}

#[test]
fn one_point_and_odd_points_are_drawn_too() {
    assert!(plot::plot(&[point(2_458_349.5, 18.0, "g")], "mag").contains('g'));
    let odd = Point {
        error: Some(f64::INFINITY),
        band: None,
        ..point(1e300, -1e300, "g")
    };
    assert!(plot::plot(&[odd], "nJy").contains('?'));
    assert_eq!(plot::plot(&[], "mag"), "");
}

fn fits(cards: &[&str], pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for card in cards.iter().chain(&["END"]) {
        bytes.extend(format!("{card:80}").bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(2880), b' ');
    bytes.extend(pixels);
    bytes.resize(bytes.len().next_multiple_of(2880), 0);
    bytes
}

const SIMPLE: &str = "SIMPLE  =                    T";

#[test]
fn a_fits_image_is_read_and_turned_the_right_way_up() {
    let pixels: Vec<u8> = [1.0f32, 2.0, 3.0, f32::NAN]
        .iter()
        .flat_map(|p| p.to_be_bytes())
        .collect();
    let bytes = fits(
        &[
            SIMPLE,
            "BITPIX  = -32 / floats",
            "NAXIS   = 2",
            "NAXIS1  = 2",
            "NAXIS2  = 2",
        ],
        &pixels,
    );
    let image = image(&bytes).unwrap();
    assert_eq!((image.width, image.height), (2, 2));
    assert_eq!(image.pixels[..3], [1.0, 2.0, 3.0]);
    let grey = image.grey();
    assert_eq!(grey[0], 255, "the brightest pixel is in the top row");
    assert_eq!(grey[1], 0, "a pixel without a value is black");
    assert!(grey[2] < grey[3]);
}

#[test]
fn integers_are_scaled_and_an_empty_first_unit_is_passed() {
    let first = fits(&[SIMPLE, "BITPIX  = 8", "NAXIS   = 0"], &[]);
    let cards = [
        "XTENSION= 'IMAGE   '",
        "BITPIX  = 16",
        "NAXIS   = 2",
        "NAXIS1  = 1",
        "NAXIS2  = 1",
        "BZERO   = 32768",
    ];
    let second = fits(&cards, &[0x80, 0x01]);
    let image = image(&[first, second].concat()).unwrap();
    assert_eq!(
        image,
        Image {
            width: 1,
            height: 1,
            pixels: vec![1.0]
        }
    );
}

#[test]
fn damaged_images_are_refused_with_the_reason() {
    assert!(image(b"").is_err());
    assert!(image(&[0x1f, 0x8b, 8, 0]).unwrap_err().contains("gunzip"));
    let huge = fits(
        &[
            SIMPLE,
            "BITPIX  = -32",
            "NAXIS   = 2",
            "NAXIS1  = 3000000",
            "NAXIS2  = 3000000",
        ],
        &[],
    );
    assert!(image(&huge).unwrap_err().contains("pixels"));
    let odd = fits(
        &[SIMPLE, "BITPIX  = 7", "NAXIS   = 2", "NAXIS1  = 1", "NAXIS2  = 1"],
        &[0],
    );
    assert!(image(&odd).is_err());
    let cut = fits(
        &[SIMPLE, "BITPIX  = -64", "NAXIS   = 2", "NAXIS1  = 900", "NAXIS2  = 900"],
        &[],
    );
    assert!(image(&cut).unwrap_err().contains("cut off"));
}
