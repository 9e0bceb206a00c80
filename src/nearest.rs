//! The valid name that was probably meant by a wrong one, for every error that names what does not exist.
//!
//! Invariants: pure; a name that is like nothing has no nearest. Must not know what is named.

/// From this likeness on a name is worth showing; 1 is the same text.
const LIKE: f64 = 0.75;
/// What a path is like another by its last part alone counts a little less than the whole.
const LAST_PART: f64 = 0.02;

/// Finds the candidate that was probably meant by `wrong`.
pub(crate) fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    best(candidates, |name| likeness(wrong, name))
}

/// Finds the dotted path that was probably meant by `wrong`: whole, or by its last part.
pub(crate) fn nearest_path<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    best(candidates, |name| {
        likeness(wrong, name).max(likeness(last(wrong), last(name)) - LAST_PART)
    })
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn best<'a>(candidates: impl IntoIterator<Item = &'a str>, likeness: impl Fn(&str) -> f64) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness > LIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// In short names one slip, such as two letters exchanged, outweighs all that Jaro and Winkler look at.
fn likeness(wrong: &str, name: &str) -> f64 {
    let one_slip = name.len() > 2 && strsim::damerau_levenshtein(wrong, name) == 1;
    strsim::jaro_winkler(wrong, name).max(if one_slip { 0.9 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_what_is_like_nothing_is_not() {
        let names = ["night", "jd", "mjd", "programid", "cone"];
        assert_eq!(nearest("nihgt", names), Some("night"));
        assert_eq!(nearest("program_id", names), Some("programid"));
        assert_eq!(nearest("xyzzy", names), None);
        assert_eq!(nearest("anything", []), None);
    }

    #[test]
    fn a_path_is_found_by_its_last_part_and_better_whole() {
        let paths = ["candidate.rb", "candidate.distpsnr1", "object_id"];
        assert_eq!(nearest_path("distpsnr1", paths), Some("candidate.distpsnr1"));
        assert_eq!(nearest_path("candidate.distpsn1", paths), Some("candidate.distpsnr1"));
        assert_eq!(nearest_path("objectid", paths), Some("object_id"));
    }
}
