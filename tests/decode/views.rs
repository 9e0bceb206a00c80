//! Typed views agree with the values by path, on every packet of the corpus and on generated ones.

use alertstream::decode::views::Cutout;
use alertstream::decode::{Arena, Decoder, Value};

use crate::corpus;

#[test]
fn ztf_views_agree_with_the_paths() {
    let decoder = Decoder::bundled();
    let mut arena = Arena::new();
    let mut limits = 0;
    for file in corpus::good("ztf_views_agree_with_the_paths")
        .iter()
        .filter(|f| f.name.starts_with("ztf"))
    {
        let packet = decoder.decode(&file.bytes).unwrap();
        let number = |path: &str| packet.get(path).and_then(|v| v.as_f64()).filter(|n| *n != -999.0);
        let ztf = packet.ztf(&mut arena).unwrap();
        let candidate = ztf.candidate();
        assert_eq!(ztf.object_id(), packet.get("objectId").unwrap().as_str());
        assert_eq!(candidate.magpsf(), number("candidate.magpsf"));
        assert_eq!(candidate.distpsnr1(), number("candidate.distpsnr1"));
        assert_eq!(candidate.drb(), number("candidate.drb"));
        assert!(candidate.isdiffpos().is_some());
        let stamp = packet.get("cutoutScience.stampData").unwrap();
        assert_eq!(ztf.cutout(Cutout::Science), stamp.as_bytes());
        for (n, previous) in ztf.previous().enumerate() {
            assert_eq!(previous.magpsf(), number(&format!("prv_candidates[{n}].magpsf")));
            assert_eq!(previous.jd(), number(&format!("prv_candidates[{n}].jd")));
            assert_eq!(previous.is_upper_limit(), previous.magpsf().is_none());
            limits += usize::from(previous.is_upper_limit());
        }
        for (n, forced) in ztf.forced().enumerate() {
            let path = format!("fp_hists[{n}].forcediffimflux");
            assert_eq!(
                forced.forcediffimflux(),
                packet.get(&path).and_then(|v| v.as_f64()).filter(|n| *n != -99999.0)
            );
        }
        let rows = packet
            .get("prv_candidates")
            .map_or(0, |v| if let Value::Array(a) = v { a.len() } else { 0 });
        assert_eq!(ztf.previous().count(), rows);
        assert!(packet.rubin(&mut arena).is_none());
    }
    assert!(limits > 0 || std::env::var_os("ALERTSTREAM_CORPUS").is_none());
}

#[test]
fn rubin_views_agree_with_the_paths() {
    let decoder = Decoder::bundled();
    let mut arena = Arena::new();
    for file in corpus::good("rubin_views_agree_with_the_paths")
        .iter()
        .filter(|f| f.name.starts_with("lsst"))
    {
        let packet = decoder.decode(&file.bytes).unwrap();
        let number = |path: &str| packet.get(path).and_then(|v| v.as_f64());
        let rubin = packet.rubin(&mut arena).unwrap();
        assert_eq!(rubin.source().psf_flux(), number("diaSource.psfFlux"));
        assert_eq!(rubin.source().band(), packet.get("diaSource.band").unwrap().as_str());
        assert_eq!(rubin.source().dia_source_id(), Some(packet.header().alert_id));
        assert_eq!(
            rubin.object().is_some(),
            packet.get("diaObject").is_some_and(|v| !v.is_null())
        );
        if let Some(object) = rubin.object() {
            assert_eq!(
                object.n_dia_sources(),
                packet.get("diaObject.nDiaSources").and_then(|v| v.as_i64())
            );
        }
        assert_eq!(
            rubin.solar_system().is_some(),
            packet.get("ssSource").is_some_and(|v| !v.is_null())
        );
        for (n, source) in rubin.previous().enumerate() {
            assert_eq!(source.psf_flux(), number(&format!("prvDiaSources[{n}].psfFlux")));
        }
        assert_eq!(
            rubin.cutout(Cutout::Difference),
            packet.get("cutoutDifference").and_then(|v| v.as_bytes())
        );
    }
}
