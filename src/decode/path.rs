//! How a field's path is written: names with dots, `[0]` for an item of an array, `["key"]` (or `.key`) for one of a map.
//!
//! Must not know schemas.

/// Gives the steps of a path. Quotes around a key are not part of it, and inside them dots and brackets are.
pub(crate) fn steps(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let text = rest?;
        let (step, left) = step(text);
        rest = left;
        Some(step)
    })
}

/// Cuts the first step off.
fn step(text: &str) -> (&str, Option<&str>) {
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\''))
        && let Some((key, left)) = text.get(1..).and_then(|text| text.split_once(quote))
        && let Some(left) = left.strip_prefix(']')
    {
        return (key, after(left));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (step, left) = text.split_at(end);
    (step.strip_suffix(']').unwrap_or(step), after(left))
}

/// Gives what stands behind the sign that begins the next step.
fn after(left: &str) -> Option<&str> {
    left.strip_prefix(['.', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_gives_the_same_steps() {
        let of = |path| steps(path).collect::<Vec<_>>();
        assert_eq!(of("a.b"), ["a", "b"]);
        for path in ["m.k.x", "m[k].x", "m[\"k\"].x", "m['k'].x", "m[\"k\"][x]"] {
            assert_eq!(of(path), ["m", "k", "x"], "{path}");
        }
        assert_eq!(of("l[0].jd"), ["l", "0", "jd"]);
        assert_eq!(of("m[\"a.b[0]\"]"), ["m", "a.b[0]"]);
        assert_eq!(of(""), [""]);
        assert_eq!(of("m[\"open"), ["m", "\"open"]);
    }
}
