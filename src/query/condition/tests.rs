//! Conditions: syntax, normal form, three-valued logic, and agreement with the filter language's own evaluator.

use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Condition {
    Condition::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refused(text: &str) -> String {
    Condition::parse(text).expect_err(text).to_string()
}

fn alert() -> AlertHeader {
    AlertHeader {
        magnitude: Some(18.5),
        rb: Some(0.7),
        ndethist: Some(3),
        programid: 1,
        band: Some("g".into()),
        ..AlertHeader::default()
    }
}

#[test]
fn conditions_written_differently_are_the_same() {
    for (a, b) in [
        ("magnitude < 20", "20.0 > magnitude"),
        (
            "rb > 0.5 && magnitude<20",
            "((magnitude < 20.0) && (rb>.5)) && rb > 5e-1",
        ),
        ("!(magnitude < 20 || rb <= 0.5)", "magnitude >= 20 && rb > 0.5"),
        ("!!(rb > 0.5)", "rb > 0.5"),
        ("band in ['r', \"g\", 'g']", "band in [\"g\", \"r\"]"),
        ("band in ['g']", "'g' == band"),
        ("rb > drb", "drb < rb"),
        ("programid in [0x1u, -2]", "programid in [-2, 1]"),
    ] {
        assert_eq!(parsed(a), parsed(b), "{a} / {b}");
        assert_eq!(parsed(a).to_string(), parsed(b).to_string());
    }
}

#[test]
fn and_binds_closer_than_or() {
    assert_eq!(
        parsed("rb > 1 || rb > 2 && rb > 3"),
        parsed("rb > 1 || (rb > 2 && rb > 3)")
    );
    assert_ne!(
        parsed("rb > 1 || rb > 2 && rb > 3"),
        parsed("(rb > 1 || rb > 2) && rb > 3")
    );
}

#[test]
fn unknown_is_undefined_also_under_not() {
    let alert = alert();
    assert_eq!(parsed("drb > 0.5").eval(&alert), None);
    assert_eq!(parsed("!(drb > 0.5)").eval(&alert), None);
    assert_eq!(parsed("drb != 0.5").eval(&alert), None);
    assert_eq!(parsed("!(drb in [0.5, 0.6])").eval(&alert), None);
    assert_eq!(parsed("drb > 0.5 || rb > 0.5").eval(&alert), Some(true));
    assert_eq!(parsed("drb > 0.5 && rb > 0.9").eval(&alert), Some(false));
    assert_eq!(parsed("drb > 0.5 && rb > 0.5").eval(&alert), None);
    let unknown = AlertHeader {
        rb: Some(f64::NAN),
        ..alert
    };
    assert_eq!(parsed("rb > 0.5").eval(&unknown), None);
    assert_eq!(parsed("!(rb > 0.5)").eval(&unknown), None);
}

#[test]
fn refusals_say_what_is_wrong_and_where() {
    for (text, says) in [
        ("", "empty"),
        ("magnitud < 20", "did you mean `magnitude`"),
        ("candidate.magpsf < 20", "`candidate` is no indexed column"),
        ("magnitude = 20", "equality is written `==`"),
        ("rb > 0.5 & drb > 0.5", "`and` is written `&&`"),
        ("magnitude < ", "found the end"),
        ("magnitude < 20)", "`)` at character 15"),
        ("(magnitude < 20", "expected `)`"),
        ("1 < rb < 2", "do not chain"),
        ("1 < 2", "compares no column"),
        ("true", "no indexed column"),
        ("rb == null", "always undefined"),
        ("band == \"x\"", "bands are g, r, i"),
        ("band < \"r\"", "no order"),
        ("band == 1", "band is text"),
        ("rb == \"g\"", "band is text"),
        ("rb == rb", "itself"),
        ("rb in []", "found `]`"),
        ("rb in [drb]", "a list holds"),
        ("rb + 1 > 2", "found `+` at character 4"),
        ("rb > 1e999", "no finite number"),
        ("rb > 1x", "no finite number"),
        ("!rb > 1", "parentheses"),
        ("rb > 'a", "must end in the quote"),
        ("rb ? 1 : 2", "found `?`"),
    ] {
        let message = refused(text);
        assert!(message.contains(says), "{text}: {message}");
    }
    assert!(refused(&format!("{}rb > 1{}", "(".repeat(10_000), ")".repeat(10_000))).contains("longer than"));
    assert!(refused(&format!("{}rb > 1{}", "(".repeat(5_000), ")".repeat(5_000))).contains("nested deeper"));
    assert!(refused(&"!(".repeat(200)).contains("nested deeper"));
}

fn comparison() -> impl Strategy<Value = String> {
    let column = prop::sample::select(vec!["magnitude", "rb", "drb", "ndethist", "programid"]);
    let op = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let number = prop::sample::select(vec!["0.5", "1.0", "2.0", "-3.0", "18.5", "1e1"]);
    let band = prop::sample::select(vec!["g", "r", "J"]);
    prop_oneof![
        (column.clone(), op.clone(), number.clone()).prop_map(|(c, o, n)| format!("{c} {o} {n}")),
        (column.clone(), op, number.clone()).prop_map(|(c, o, n)| format!("{n} {o} {c}")),
        (column, number).prop_map(|(c, n)| format!("{c} in [{n}, 1.0]")),
        band.prop_map(|b| format!("band != '{b}'")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    comparison().prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} || ({b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
        ]
    })
}

fn header() -> impl Strategy<Value = AlertHeader> {
    let number = || prop::sample::select(vec![0.5, 1.0, 2.0, -3.0, 18.5, 10.0]);
    (
        number(),
        number(),
        number(),
        0_i64..3,
        0..3,
        prop::sample::select(vec!["g", "r"]),
    )
        .prop_map(|(m, rb, drb, n, p, band)| AlertHeader {
            magnitude: Some(m),
            rb: Some(rb),
            drb: Some(drb),
            ndethist: Some(n),
            programid: p,
            band: Some(band.into()),
            ..AlertHeader::default()
        })
}

proptest! {
    #[test]
    fn the_filter_languages_own_evaluator_agrees(text in expression(), alert in header()) {
        let program = cel::Program::compile(&text).unwrap();
        let mut context = cel::Context::default();
        for column in Column::ALL {
            match column.of(&alert) {
                Some(Operand::Number(number)) => context.add_variable_from_value(column.name(), number),
                Some(Operand::Text(text)) => context.add_variable_from_value(column.name(), text),
                _ => {}
            }
        }
        let theirs = program.execute(&context).unwrap();
        prop_assert_eq!(cel::Value::Bool(parsed(&text).eval(&alert).unwrap()), theirs);
    }

    #[test]
    fn the_canonical_text_reads_back_as_itself(text in expression()) {
        let condition = parsed(&text);
        prop_assert_eq!(parsed(&condition.to_string()), condition);
    }
}
