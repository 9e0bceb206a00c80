//! Properties of cones and ranges against the exact great circle and plain sets.

use proptest::prelude::*;

use super::*;

/// A position: anywhere, or where cones go wrong (poles, ra 0, edges and corners of large pixels).
fn position() -> impl Strategy<Value = (f64, f64)> {
    let anywhere = (0.0..360.0, -1.0..1.0_f64).prop_map(|(ra, z)| (ra, z.asin().to_degrees()));
    let special = (
        prop::sample::select(vec![0.0, 45.0, 90.0, 180.0, 270.0, 359.999_999_999, 1e-12]),
        prop::sample::select(vec![
            -90.0,
            -89.999_999,
            -41.810_314_895_778_6,
            0.0,
            41.810_314_895_778_6,
            89.999_999,
            90.0,
        ]),
    );
    let corner = (0_u8..=10, any::<u64>(), 0_usize..4).prop_map(|(order, pixel, corner)| {
        let (lon, lat) = cdshealpix::nested::vertices(order, pixel % (12 << (2 * order)))[corner];
        (wrap(lon.to_degrees()), lat.to_degrees().clamp(-90.0, 90.0))
    });
    prop_oneof![4 => anywhere, 2 => special, 2 => corner]
}

fn radius() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-9.0..2.25_f64).prop_map(|power| 10.0_f64.powf(power)),
        Just(180.0),
        Just(90.0),
        Just(179.9)
    ]
}

/// The position at a distance and direction from another, deg.
fn towards(from: (f64, f64), distance: f64, bearing: f64) -> (f64, f64) {
    let (sin_d, cos_d) = distance.to_radians().sin_cos();
    let (sin_lat, cos_lat) = from.1.to_radians().sin_cos();
    let (sin_b, cos_b) = bearing.to_radians().sin_cos();
    let lat = (sin_lat * cos_d + cos_lat * sin_d * cos_b).clamp(-1.0, 1.0).asin();
    let lon = (sin_b * sin_d * cos_lat).atan2(cos_d - sin_lat * lat.sin());
    (wrap(from.0 + lon.to_degrees()), lat.to_degrees())
}

fn ranges() -> impl Strategy<Value = Ranges> {
    let range = (0_i64..300, 0_i64..20).prop_map(|(start, length)| start..start + length);
    prop::collection::vec(range, 0..20).prop_map(Ranges::from_unsorted)
}

fn set(ranges: &Ranges) -> std::collections::BTreeSet<i64> {
    ranges.as_slice().iter().flat_map(|r| r.clone()).collect()
}

fn well_formed(ranges: &Ranges) -> bool {
    let slice = ranges.as_slice();
    slice.iter().all(|r| r.start < r.end) && slice.windows(2).all(|w| w[0].end < w[1].start)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_cone_covers_every_position_it_contains(centre in position(), radius in radius(), part in 0.0..1.1_f64, bearing in 0.0..360.0_f64) {
        let cone = Cone::new(centre.0, centre.1, radius).unwrap();
        let place = towards(centre, (radius * part).min(180.0), bearing);
        let cell = hash(place.0, place.1).unwrap();
        if cone.contains(place.0, place.1) {
            prop_assert!(cone.ranges().contains(cell), "{cone:?} {place:?}");
        }
    }

    #[test]
    fn containing_is_the_great_circle_distance(centre in position(), radius in radius(), place in position()) {
        let cone = Cone::new(centre.0, centre.1, radius).unwrap();
        let distance = separation(centre, place);
        // Within rounding of the edge either answer is right.
        if (distance - radius).abs() > 1e-9 {
            prop_assert_eq!(cone.contains(place.0, place.1), distance <= radius);
        }
    }

    #[test]
    fn the_cover_of_a_cone_is_tight_and_small(centre in position(), radius in radius()) {
        let cover = Cone::new(centre.0, centre.1, radius).unwrap().ranges();
        prop_assert!(well_formed(&cover));
        prop_assert!(cover.as_slice().len() <= 400, "{} ranges", cover.as_slice().len());
        let area: f64 = cover.as_slice().iter().map(|r| (r.end - r.start) as f64 / CELLS as f64).sum();
        let exact = (radius.to_radians() / 2.0).sin().powi(2);
        // Below 2 milliarcsec even one cell is larger than the cone. Where an edge of the cone runs along the cells' own
        // edges, covers of 2.4 times its area were seen.
        prop_assert!(radius < 1e-6 || area <= exact * 3.0 + 1e-16, "{area} {exact}");
    }

    #[test]
    fn algebra_is_that_of_sets(a in ranges(), b in ranges(), most in 1_usize..6) {
        let union = a.union(&b);
        let both = a.intersection(&b);
        prop_assert!(well_formed(&a) && well_formed(&union) && well_formed(&both));
        prop_assert_eq!(set(&union), set(&a).union(&set(&b)).copied().collect());
        prop_assert_eq!(set(&both), set(&a).intersection(&set(&b)).copied().collect());
        for cell in -1..330 {
            prop_assert_eq!(a.contains(cell), set(&a).contains(&cell));
        }
        let coarse = a.coarsened(most);
        prop_assert!(well_formed(&coarse) && coarse.as_slice().len() <= most);
        prop_assert!(set(&coarse).is_superset(&set(&a)));
    }

    #[test]
    fn cells_written_and_read_are_the_same_region(a in ranges(), order in 0_u8..=29, pixel in any::<u64>()) {
        let region = a.union(&Ranges::pixel(order, pixel % (12 << (2 * order))).unwrap());
        prop_assert_eq!(Ranges::from_cells(&region.to_string()).unwrap(), region);
    }
}

#[test]
fn a_wide_gap_is_kept_when_coarsened() {
    let ranges = Ranges::from_unsorted(vec![0..10, 11..20, 100..110, 112..120]);
    assert_eq!(ranges.coarsened(2).as_slice(), &[0..20, 100..120]);
    assert_eq!(ranges.coarsened(3).as_slice(), &[0..20, 100..110, 112..120]);
}

#[test]
fn the_whole_sky_is_twelve_cells() {
    assert_eq!(Ranges::whole_sky().to_string(), "0/0 1 2 3 4 5 6 7 8 9 10 11");
    assert_eq!(Cone::new(10.0, 20.0, 180.0).unwrap().ranges(), Ranges::whole_sky());
}

#[test]
fn right_ascension_wraps() {
    assert_eq!(hash(360.0, 10.0), hash(0.0, 10.0));
    assert_eq!(hash(-10.0, 10.0), hash(350.0, 10.0));
    assert_eq!(hash(-1e-20, 10.0), hash(0.0, 10.0));
    assert!(Cone::new(0.1, 0.0, 0.3).unwrap().contains(359.9, 0.0));
    assert_eq!(Cone::new(360.0, 0.0, 1.0), Cone::new(0.0, 0.0, 1.0));
}

#[test]
fn bounds_are_refused() {
    assert_eq!(Cone::new(361.0, 0.0, 1.0), Err(SkyError::Ra(361.0)));
    assert_eq!(Cone::new(0.0, 90.1, 1.0), Err(SkyError::Dec(90.1)));
    assert_eq!(Cone::new(0.0, 0.0, 0.0), Err(SkyError::Radius(0.0)));
    assert!(Cone::new(f64::NAN, 0.0, 1.0).is_err() && Cone::new(0.0, 0.0, f64::INFINITY).is_err());
    assert!(Ranges::pixel(30, 0).is_err() && Ranges::pixel(0, 12).is_err() && Ranges::from_cells("5").is_err());
    assert_eq!(hash(f64::NAN, 0.0), None);
    assert_eq!(hash(0.0, 90.000_1), None);
}
