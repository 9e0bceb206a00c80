//! What filters mean, on packets made from a small schema.

use super::*;
use crate::decode::Decoder;
use crate::decode::tests_support::packet_of;

/// A packet of ZTF's family with a null, a NaN, an array, and `rb` as given.
fn packet(rb: Option<f32>) -> Packet {
    let schema = r#"{"type":"record","name":"alert","namespace":"ztf","fields":[
        {"name":"objectId","type":"string"},{"name":"candid","type":"long"},
        {"name":"candidate","type":{"type":"record","name":"candidate","fields":[
            {"name":"jd","type":"double"},{"name":"fid","type":"int"},{"name":"magpsf","type":"float"},
            {"name":"rb","type":["null","float"]},{"name":"drb","type":["null","float"]},
            {"name":"distpsnr1","type":["null","float"]},{"name":"field","type":["null","int"]}]}},
        {"name":"prv_candidates","type":["null",{"type":"array","items":{"type":"record","name":"prv","fields":[
            {"name":"magpsf","type":["null","float"]}]}}]}]}"#;
    let mut datum = Vec::new();
    datum.extend([24]);
    datum.extend(b"ZTF18abcdefg");
    datum.extend([14]);
    datum.extend(2_458_000.5f64.to_le_bytes());
    datum.extend([2]);
    datum.extend(18.5f32.to_le_bytes());
    match rb {
        Some(rb) => {
            datum.push(2);
            datum.extend(rb.to_le_bytes());
        }
        None => datum.push(0),
    }
    datum.push(2);
    datum.extend(f32::NAN.to_le_bytes());
    datum.push(0);
    datum.extend([2, 6]);
    datum.extend([2, 4, 2]);
    datum.extend(17.5f32.to_le_bytes());
    datum.extend([0, 0]);
    Decoder::bundled().decode(&packet_of(schema, &datum)).unwrap()
}

fn select(text: &str) -> Selection {
    Filter::compile(text, &Names::bundled())
        .unwrap()
        .select(&packet(Some(0.5)))
}

#[test]
fn header_and_packet_fields_are_compared() {
    assert_eq!(select("magnitude < 19.5 && rb >= 0.5"), Selection::Selected);
    assert_eq!(select("magnitude < 18"), Selection::NotSelected);
    assert_eq!(select("candidate.field == 3 && band == 'g'"), Selection::Selected);
    assert_eq!(select("band in ['r', 'i'] || alert_id == 7"), Selection::Selected);
    assert_eq!(select("object_id.startsWith('ZTF18')"), Selection::Selected);
    assert_eq!(select("magnitude * 2 > 30"), Selection::Selected);
}

#[test]
fn null_absent_and_nan_are_undefined_also_under_not() {
    for text in [
        "candidate.distpsnr1 < 5.0",
        "!(candidate.distpsnr1 < 5.0)",
        "candidate.distpsnr1 == 5.0",
        "candidate.distpsnr1 != 5.0",
        "candidate.distpsnr1 == null",
        "!(candidate.distpsnr1 == null)",
        "drb < 1.0",
        "drb != 1.0",
        "diaSource.snr > 5.0",
        "diaSource.snr > 5.0 || candidate.distpsnr1 > 1.0",
        "candidate.distpsnr1 > 1.0 && magnitude < 19.0",
        "ndethist in [1, 2]",
    ] {
        assert_eq!(select(text), Selection::Undefined, "{text}");
    }
}

#[test]
fn what_is_known_decides_where_it_can() {
    assert_eq!(
        select("candidate.distpsnr1 > 1.0 || magnitude < 19.0"),
        Selection::Selected
    );
    assert_eq!(
        select("magnitude < 19.0 || candidate.distpsnr1 > 1.0"),
        Selection::Selected
    );
    assert_eq!(
        select("candidate.distpsnr1 > 1.0 && magnitude > 19.0"),
        Selection::NotSelected
    );
    assert_eq!(
        select("!(magnitude > 19.0 && candidate.distpsnr1 > 1.0)"),
        Selection::Selected
    );
    assert_eq!(select("has(candidate.distpsnr1)"), Selection::NotSelected);
    assert_eq!(
        select("has(candidate.field) && !has(candidate.drb)"),
        Selection::Selected
    );
}

#[test]
fn arrays_are_reached_by_macros() {
    assert_eq!(select("size(prv_candidates) == 2"), Selection::Selected);
    assert_eq!(select("prv_candidates.exists(p, p.magpsf < 18.0)"), Selection::Selected);
    assert_eq!(select("prv_candidates.all(p, p.magpsf < 17.0)"), Selection::NotSelected);
    assert_eq!(select("prv_candidates.all(p, p.magpsf < 18.0)"), Selection::Undefined);
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    let refuse = |text| Filter::compile(text, &Names::bundled()).unwrap_err();
    let nearest = |error| match error {
        FilterError::UnknownName { nearest, .. } => nearest.unwrap(),
        other => panic!("{other}"),
    };
    assert_eq!(nearest(refuse("magnitud < 19.0")), "magnitude");
    assert_eq!(nearest(refuse("candidate.distpsn1 < 19.0")), "candidate.distpsnr1");
    assert_eq!(nearest(refuse("distpsnr1 < 19.0")), "candidate.distpsnr1");
    assert!(refuse("magnitud < 19.0").to_string().contains("`magnitud`"));
    assert!(matches!(
        refuse("abs(magnitude) < 19.0"),
        FilterError::UnknownFunction { .. }
    ));
}

#[test]
fn what_can_never_be_is_refused() {
    for text in [
        "magnitude",
        "object_id < 3",
        "band == 1",
        "magnitude && rb > 0.5",
        "ndethist * rb > 1.0",
    ] {
        let error = Filter::compile(text, &Names::bundled()).unwrap_err();
        assert!(matches!(error, FilterError::Types { .. }), "{text}: {error}");
    }
    assert!(matches!(
        Filter::compile("magnitude <", &Names::bundled()),
        Err(FilterError::Syntax { .. })
    ));
}

#[test]
fn a_key_of_a_map_is_named_in_either_spelling() {
    let schema = r#"{"type":"record","name":"alert","namespace":"kite","fields":[
        {"name":"tags","type":{"type":"map","values":"long"}}]}"#;
    let packet = |key: &str, value: u8| {
        let datum = [&[2, 2], key.as_bytes(), &[2 * value, 0]].concat();
        Decoder::bundled().decode(&packet_of(schema, &datum)).unwrap()
    };
    let (five, other) = (packet("a", 5), packet("b", 5));
    let mut names = Names::bundled();
    names.add(&five);
    for text in ["tags.a == 5", "tags[\"a\"] == 5", "has(tags.a)"] {
        let filter = Filter::compile(text, &names).unwrap();
        assert_eq!(filter.select(&five), Selection::Selected, "{text}");
        assert_ne!(filter.select(&other), Selection::Selected, "{text}");
    }
    for path in ["tags.a", "tags[a]", "tags[\"a\"]", "tags['a']"] {
        assert_eq!(five.json(path), Some(5.into()), "{path}");
        assert_eq!(other.json(path), Some(serde_json::Value::Null), "{path}");
        assert!(names.knows(path), "{path}");
    }
    assert!(names.knows("prv_candidates[0].jd") && !names.knows("tag.a") && !names.knows("candidate.a"));
}

#[test]
fn one_filter_serves_several_schemas() {
    let filter = Filter::compile("rb > 0.4", &Names::bundled()).unwrap();
    assert_eq!(filter.select(&packet(Some(0.5))), Selection::Selected);
    assert_eq!(filter.select(&packet(Some(0.3))), Selection::NotSelected);
    assert_eq!(filter.select(&packet(None)), Selection::Undefined);
}

#[test]
fn a_pattern_is_matched_and_a_wrong_one_is_refused() {
    assert_eq!(select("object_id.matches('^ZTF1[78][a-z]{7}$')"), Selection::Selected);
    assert_eq!(select("matches(object_id, 'xyz')"), Selection::NotSelected);
    assert_eq!(select("diaSource.band.matches('g')"), Selection::Undefined);
    let refuse = |text: &str| Filter::compile(text, &Names::bundled()).unwrap_err().to_string();
    let said = refuse("object_id.matches('ZTF(18')");
    assert!(said.contains("`ZTF(18`: unclosed group"), "{said}");
    let said = refuse("object_id.matches('(((a{1,900}){900}){900}){900}')");
    assert!(said.contains("size limit"), "{said}");
    assert!(refuse("object_id.match('a')").contains("`matches`"));
}
