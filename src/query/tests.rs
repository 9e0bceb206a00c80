//! Every flag: what it takes, what it refuses, and that meaning, not writing, decides the canonical form.

use super::*;

fn text(parts: &[(&str, &str)]) -> QueryText {
    let mut text = QueryText::new();
    for (key, value) in parts {
        text.set(key, *value).unwrap();
    }
    text
}

fn parse(parts: &[(&str, &str)]) -> Result<Query, QueryError> {
    Query::parse(&text(parts).with_files()?, NightStart::default())
}

fn query(parts: &[(&str, &str)]) -> Query {
    parse(parts).unwrap_or_else(|e| panic!("{parts:?}: {e}"))
}

fn refused(key: &str, value: &str) -> String {
    match parse(&[(key, value)]) {
        Err(error) => error.to_string(),
        Ok(query) => panic!("{key} took {value}: {query}"),
    }
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// (flag, value, a part of the refusal).
const REFUSED: &[(&str, &str, &str)] = &[
    ("jd", "2458349.5", "`A..B`"),
    ("jd", "..", "at least one end"),
    ("jd", "2458350.5..2458349.5", "A must be before B"),
    ("jd", "2458349.5..2458349.5", "A must be before B"),
    ("jd", "nan..2458349.5", "finite"),
    ("jd", "1..inf", "finite"),
    ("jd", "a..b", "Julian dates"),
    ("jd", "", "`A..B`"),
    ("mjd", "58349..x", "modified Julian"),
    ("time", "yesterday..", "ISO-8601"),
    (
        "time",
        "2018-08-19T00:00:00Z..2018-08-18T00:00:00Z",
        "A must be before B",
    ),
    ("night", "2018-13-01", "2018-08-19"),
    ("night", "20180819", "2018-08-19"),
    ("night", "2018-08-21..2018-08-19", "swap"),
    ("night", "", "name a night"),
    ("night", "..", "name a night"),
    ("cone", "1,2", "RA,DEC,RADIUS"),
    ("cone", "1,2,3,4", "RA,DEC,RADIUS"),
    ("cone", "361,2,3", "0 to 360"),
    ("cone", "-1,2,3", "0 to 360"),
    ("cone", "1,91,3", "-90 to 90"),
    ("cone", "1,2,0", "above 0"),
    ("cone", "1,2,181", "at most 180"),
    ("cone", "nan,2,1", "right ascension"),
    ("cone", "1,2,inf", "at most 180"),
    ("cone", "1,2,3parsec", "arcsec"),
    ("healpix", "64", "NSIDE:PIX"),
    ("healpix", "", "is empty"),
    ("healpix", "64:", "no pixel number"),
    ("healpix", "63:1", "power of two"),
    ("healpix", "0:1", "power of two"),
    ("healpix", "1073741824:1", "power of two"),
    ("healpix", "1:12", "below 12"),
    ("moc", "/no/such/file", "cannot be read"),
    ("object", "", "is empty"),
    ("object", "a,,b", "stray comma"),
    ("candid", "", "is empty"),
    ("candid", "1,x", "whole numbers"),
    ("candid", "9223372036854775808", "whole numbers"),
    ("candid", "@/no/such/file", "cannot be read"),
    ("survey", " ", "is empty"),
    ("programid", "1,2.5", "whole numbers"),
    ("band", "g,x", "bands are g, r, i"),
    ("where", "mag < 3", "indexed column"),
    ("every", "0", "at least 1"),
    ("every", "10/10", "below N"),
    ("every", "x", "`N` or `N/K`"),
    ("every", "-1", "`N` or `N/K`"),
    ("limit", "0", "at least 1"),
    ("limit", "-5", "at least 1"),
    ("limit", "1.5", "at least 1"),
];

#[test]
fn every_flag_refuses_what_it_does_not_take() {
    for (key, value, says) in REFUSED.iter().copied() {
        let message = refused(key, value);
        assert!(message.contains(says), "{key} {value}: {message}");
        assert!(message.contains(&format!("`--{key}`")), "{message}");
    }
}

#[test]
fn no_query_and_all_beside_others_are_refused() {
    assert!(matches!(parse(&[]), Err(QueryError::Missing)));
    assert!(matches!(
        parse(&[("all", "true"), ("limit", "3")]),
        Err(QueryError::AllBesideOthers { beside: "limit" })
    ));
    assert!(matches!(parse(&[("all", "false")]), Err(QueryError::Missing)));
    assert_eq!(query(&[("all", "true")]), Query::all());
    assert!(
        parse(&[("jd", "1..2"), ("mjd", "1..2")])
            .unwrap_err()
            .to_string()
            .contains("nothing in common")
    );
    assert!(text(&[]).with("all", "maybe").is_err());
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let error = text(&[]).with("lastest-per-object", "true").unwrap_err().to_string();
    assert!(error.contains("`latest_per_object`"), "{error}");
    let error = text(&[]).with("zzzz", "1").unwrap_err().to_string();
    assert!(error.contains("valid names are all, band"), "{error}");
}

#[test]
fn equal_meaning_has_one_canonical_form() {
    let (_folder, path) = file(b"# ids\n3\n1 # one\n\n2\n1\n");
    let ids = format!("@{path}");
    for (a, b) in [
        (vec![("jd", "2458349.5..2458350.5")], vec![("mjd", "58349..58350")]),
        (vec![("jd", "2458349.623456789..")], vec![("mjd", "58349.123456789..")]),
        (vec![("jd", "2458349.5..2458350.5")], vec![("night", "2018-08-19")]),
        (
            vec![("jd", "2458349.5..2458351.5")],
            vec![("night", "2018-08-19..2018-08-20")],
        ),
        (
            vec![("jd", "2458350.0..2458350.5")],
            vec![("time", "2018-08-19T12:00:00Z .. 2018-08-20")],
        ),
        (vec![("jd", "2458350..")], vec![("time", "2018-08-19T14:00:00+02:00..")]),
        (vec![("jd", "..2458350.25")], vec![("time", "..2018-08-19 18:00")]),
        (
            vec![("night", "2018-08-19.."), ("jd", "..2458351.5")],
            vec![("night", "2018-08-19..2018-08-20")],
        ),
        (vec![("candid", "3,1,2,1")], vec![("candid", "1, 2, 3")]),
        (vec![("candid", ids.as_str())], vec![("candid", "1,2,3")]),
        (vec![("object", "b,a,b")], vec![("object", "a,b")]),
        (vec![("cone", "360,10,36arcsec")], vec![("cone", "0, 10.0 ,0.01 deg")]),
        (vec![("cone", "1,2,30arcmin")], vec![("cone", "1,2,0.5")]),
        (vec![("healpix", "1:0")], vec![("healpix", "2:0,1,2,3")]),
        (vec![("healpix", "2:1,2:0,4:8,9,10,11,2:3")], vec![("healpix", "1:0")]),
        (vec![("every", "3")], vec![("every", "3/0")]),
        (
            vec![("where", "rb>0.5&&drb>0.5")],
            vec![("where", "drb > 0.5 && 0.5 < rb")],
        ),
        (
            vec![("every", "1/0"), ("latest-per-object", "true")],
            vec![("latest_per_object", "true"), ("every", "1")],
        ),
    ] {
        let (a, b) = (query(&a), query(&b));
        assert_eq!(a.canonical().to_string(), b.canonical().to_string());
        assert_eq!((a.hash(), a.to_string()), (b.hash(), b.to_string()));
        assert_eq!(a, b);
    }
    assert_ne!(query(&[("limit", "3")]).hash(), query(&[("limit", "4")]).hash());
}

#[test]
fn the_canonical_form_reads_back_as_the_same_query() {
    for parts in [
        vec![("all", "true")],
        vec![
            ("night", "2018-08-19"),
            ("cone", "359.9,-89.5,10arcsec"),
            ("healpix", "64:1,2,3"),
            ("object", "ZTF18abc,ZTF18aba"),
            ("candid", "-5,522193343215010003"),
            ("survey", "ztf,rubin"),
            ("programid", "1,2"),
            ("band", "J,g"),
            (
                "where",
                "!(band in ['g','r'] && (rb < 0.5 || drb > rb)) && ndethist != 3",
            ),
            ("latest_per_object", "true"),
            ("every", "10/3"),
            ("limit", "1000"),
        ],
        vec![("jd", "..2458349.5")],
        vec![("healpix", "536870912:3458764513820540927"), ("jd", "1e-300..2.1")],
    ] {
        let query = query(&parts);
        // Through text, as a database stores it.
        let stored = serde_json::from_str(&query.canonical().to_string()).unwrap();
        assert_eq!(Query::from_canonical(&stored).unwrap(), query);
    }
    assert!(Query::from_canonical(&serde_json::json!({"jd": 3})).is_err());
    assert!(Query::from_canonical(&serde_json::json!([])).is_err());
}

#[test]
fn a_table_takes_text_numbers_and_lists() {
    let table = r#"
        night = "2018-08-19"
        programid = [1, 2]
        candid = 522193343215010003
        cone = [10, 20.5, "3arcmin"]
        healpix = ["64:1,2", "128:7"]
        where = "magnitude < 20.0"
        latest_per_object = true
        limit = 10
        every = "7/2"
    "#;
    let written: QueryText = toml::from_str(table).unwrap();
    let flags = text(&[
        ("night", "2018-08-19"),
        ("programid", "1,2"),
        ("candid", "522193343215010003"),
        ("cone", "10,20.5,3arcmin"),
        ("healpix", "64:1,2,128:7"),
        ("where", "magnitude < 20.0"),
        ("latest-per-object", "true"),
        ("limit", "10"),
        ("every", "7/2"),
    ]);
    assert_eq!(written, flags);
    let error = toml::from_str::<QueryText>("nigth = \"2018-08-19\"")
        .unwrap_err()
        .to_string();
    assert!(error.contains("nearest valid name is `night`"), "{error}");
    assert!(Query::parse(&toml::from_str("candid = []").unwrap(), NightStart::default()).is_err());
    let dated: QueryText = toml::from_str("night = 2018-08-19").unwrap();
    assert_eq!(dated.get("night"), Some("2018-08-19"));
}

#[test]
fn a_night_can_begin_at_noon() {
    let noon = NightStart::parse("12:00").unwrap();
    let night = Query::parse(&text(&[("night", "2018-08-19")]), noon).unwrap();
    assert_eq!(night, query(&[("jd", "2458350.0..2458351.0")]));
    assert!(NightStart::parse("25:00").is_err() && NightStart::parse("noon").is_err());
}

#[test]
fn every_form_of_a_multi_order_map_is_read() {
    use moc::moc::{
        CellOrCellRangeMOCIntoIterator, CellOrCellRangeMOCIterator, RangeMOCIntoIterator, RangeMOCIterator,
    };
    let pixels = query(&[("healpix", "64:100,101,102"), ("band", "g")]);
    let cells = moc::deser::ascii::from_ascii_ivoa::<u64, moc::qty::Hpx<u64>>("6/100-102 10/").unwrap();
    let map = cells.into_cellcellrange_moc_iter().ranges().into_range_moc();
    let mut fits = Vec::new();
    moc::deser::fits::ranges_to_fits_ivoa((&map).into_range_moc_iter(), None, None, &mut fits).unwrap();
    for bytes in [
        b"6/100-102 10/\n".as_slice(),
        b"6/100 101 102",
        br#"{"6": [102, 100, 101]}"#,
        &fits,
    ] {
        let (_folder, path) = file(bytes);
        assert_eq!(query(&[("moc", &path), ("band", "g")]), pixels, "{}", bytes.len());
        let (both, part) = (
            [("moc", path.as_str()), ("healpix", "64:102,103")],
            [("healpix", "64:102")],
        );
        assert_eq!(query(&both), query(&part));
    }
    for (bytes, says) in [
        (b"".as_slice(), "is empty"),
        (b"{}", "is empty"),
        (b"6/", "is empty"),
        (br#"{"6": [49152]}"#, "not below 49152"),
        (br#"{"6": ["a"]}"#, "no multi-order map"),
        (b"hello", "no multi-order map"),
        (b"\xff\xfe", "no multi-order map"),
        (b"SIMPLE  =                    T", "no multi-order map"),
    ] {
        let (_folder, path) = file(bytes);
        let message = refused("moc", &path);
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn what_is_unknown_is_not_selected() {
    let nothing = AlertHeader {
        survey: "x".into(),
        programid: 1,
        ..AlertHeader::default()
    };
    for parts in [
        ("jd", "1.."),
        ("jd", "..1e9"),
        ("cone", "0,0,180"),
        ("healpix", "1:0,1,2,3,4,5,6,7,8,9,10,11"),
        ("object", "a"),
        ("band", "g,r,i,z,y,u,J"),
        ("where", "magnitude < 99 || magnitude >= 99"),
    ] {
        assert!(!query(&[parts]).matches(&nothing), "{parts:?}");
    }
    for parts in [
        ("programid", "1"),
        ("survey", "x"),
        ("candid", "0"),
        ("all", "true"),
        ("limit", "1"),
    ] {
        assert!(query(&[parts]).matches(&nothing), "{parts:?}");
    }
}

#[test]
fn a_query_is_shown_as_flags() {
    let query = query(&[
        ("where", "rb > 0.5"),
        ("healpix", "64:1"),
        ("all", "false"),
        ("latest-per-object", "true"),
    ]);
    assert_eq!(
        query.to_string(),
        "--healpix 64:1 --latest-per-object --where 'rb > 0.5'"
    );
    let many: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    assert!(
        parse(&[("candid", &many.join(","))])
            .unwrap()
            .to_string()
            .ends_with("19,..(30 in all)")
    );
    assert_eq!(Query::all().to_string(), "--all");
}
