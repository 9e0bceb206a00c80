//! House rules that a program can check: file heads, sizes, layers, banned items.
//!
//! The table of layers is the design's; a file may import only from lower layers, or from its own module.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest prefix wins. A path is relative to `src/`, without `.rs` and without a final `/mod`.
const LAYERS: &[(&str, u8)] = &[
    ("record", 0),
    ("header", 0),
    ("units", 0),
    ("payloads", 0),
    ("nearest", 0),
    ("sky", 0),
    ("query", 1),
    ("queue/core", 0),
    ("decode/framing", 0),
    ("error", 1),
    ("secret", 1),
    ("telemetry", 1),
    ("queue", 1),
    ("ack", 2),
    ("decode/schemas", 2),
    ("surveys", 2),
    ("tracker", 3),
    ("delivery", 3),
    ("dead_letter", 3),
    ("decode/plan", 3),
    ("decode/packet", 3),
    ("source/intake", 4),
    ("decode", 4),
    ("filter", 5),
    ("archive", 4),
    ("archive/handler", 7),
    ("simulate", 4),
    ("source", 5),
    ("source/kafka", 6),
    ("source/archive", 6),
    ("source/files", 6),
    ("source/memory", 6),
    ("stream", 6),
    ("processor", 6),
    ("sink", 6),
    ("config", 7),
    ("pipeline", 7),
    ("lib", 8),
    ("main", 8),
    ("cli", 8),
];

/// Words that must not stay, and words that must not name a type or a module.
const BANNED: &[&str] = &["todo!(", "unimplemented!(", "FIXME", "XXX", "dbg!(", "#[ignore"];
const BANNED_NAMES: &[&str] = &["Manager", "Util", "Helper"];

/// Modules without clock, lock, async and tracing.
const PURE: &[&str] = &[
    "record",
    "tracker",
    "queue/core",
    "decode/framing",
    "sky",
    "query",
    "header",
];
const IMPURE: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    "async fn",
    "tokio::",
    "tracing::",
    "Mutex",
    "RwLock",
];

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    assert!(files.len() > 20, "the walk found the sources");
    files
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().with_extension("");
            let name = name.to_str().unwrap().trim_end_matches("/mod").to_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
}

fn is_test_file(name: &str) -> bool {
    name.ends_with("/tests") || name.contains("/tests/")
}

/// The part of a file that ships: what stands before its unit tests.
fn shipped(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod ").next().unwrap()
}

fn under(path: &str, prefix: &str) -> bool {
    path == prefix || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

fn layer(path: &str) -> Option<u8> {
    LAYERS
        .iter()
        .filter(|(prefix, _)| under(path, prefix))
        .max_by_key(|(prefix, _)| prefix.len())
        .map(|&(_, n)| n)
}

/// Every `crate::a::b` in the code, as `a/b`, comments left out.
fn imports(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    code.split("crate::")
        .skip(1)
        .map(|rest| {
            let end = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
                .unwrap_or(rest.len());
            rest[..end]
                .split("::")
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("/")
        })
        .collect()
}

fn report(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{} problem(s):\n{}",
        problems.len(),
        problems.join("\n")
    );
}

#[test]
fn every_file_says_what_it_owns() {
    let bad: Vec<_> = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(name, _)| name)
        .collect();
    report(&bad);
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let long = |(name, text): (String, String)| {
        let lines = text.lines().count();
        (lines > 500).then(|| format!("{name}: {lines} lines"))
    };
    report(&sources().into_iter().filter_map(long).collect::<Vec<_>>());
}

#[test]
fn layers_import_only_downward() {
    let mut problems = Vec::new();
    for (name, text) in sources() {
        if is_test_file(&name) {
            continue;
        }
        let Some(own) = layer(&name) else {
            problems.push(format!("{name}: in no layer"));
            continue;
        };
        let own_module = name.split('/').next().unwrap();
        for import in imports(shipped(&text)) {
            let same_module = import.split('/').next() == Some(own_module);
            if let Some(other) = layer(&import)
                && other >= own
                && !same_module
            {
                problems.push(format!("{name} (layer {own}) imports {import} (layer {other})"));
            }
        }
    }
    report(&problems);
}

#[test]
fn nothing_banned_is_left() {
    let mut problems = Vec::new();
    for (name, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            for word in BANNED {
                if line.contains(word) {
                    problems.push(format!("{name}:{}: `{word}`", number + 1));
                }
            }
            let declares = ["struct ", "enum ", "trait ", "mod "]
                .iter()
                .any(|word| line.contains(word));
            for word in BANNED_NAMES {
                if declares && !line.trim_start().starts_with("//") && line.contains(word) {
                    problems.push(format!("{name}:{}: a name with `{word}`", number + 1));
                }
            }
        }
    }
    report(&problems);
}

#[test]
fn pure_modules_have_no_clock_lock_or_async() {
    let mut problems = Vec::new();
    for (name, text) in sources() {
        if is_test_file(&name) || !PURE.iter().any(|prefix| under(&name, prefix)) {
            continue;
        }
        for (number, line) in shipped(&text).lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for word in IMPURE.iter().filter(|word| line.contains(**word)) {
                problems.push(format!("{name}:{}: `{word}` in a pure module", number + 1));
            }
        }
    }
    report(&problems);
}

#[test]
fn public_functions_take_no_bool() {
    let mut problems = Vec::new();
    for (name, text) in sources() {
        if is_test_file(&name) {
            continue;
        }
        for (number, line) in shipped(&text).lines().enumerate() {
            let line = line.trim_start();
            let public = ["pub fn ", "pub async fn ", "pub const fn "]
                .iter()
                .any(|start| line.starts_with(start));
            let arguments = line.split("->").next().unwrap_or(line);
            if public && arguments.contains(": bool") {
                problems.push(format!(
                    "{name}:{}: two functions or an enum instead of a bool",
                    number + 1
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn examples_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut files = Vec::new();
    walk(&root, &mut files);
    let long = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let body = text
            .split("fn main(")
            .nth(1)
            .unwrap_or("")
            .split("\n}\n")
            .next()
            .unwrap_or("");
        (body.lines().count() > 80).then(|| format!("{}: main has {} lines", path.display(), body.lines().count()))
    };
    report(&files.iter().filter_map(long).collect::<Vec<_>>());
}

/// Test names are claims: those in the table of a live consumer's behaviours have at least two underscores, or say
/// that the conformance suite has them.
#[test]
fn the_table_of_behaviours_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("src/source/kafka/behaviours.md")).unwrap();
    let mut files = Vec::new();
    walk(&root.join("src"), &mut files);
    walk(&root.join("tests"), &mut files);
    let text: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert_eq!(rows.len(), 20);
    let quoted = table.split('`').skip(1).step_by(2);
    let absent = quoted
        .filter(|name| name.matches('_').count() > 1 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .filter(|name| {
            let forms = [
                format!("fn {name}("),
                format!("name: \"{name}\""),
                format!("both!({name},"),
                format!("both!(\n    {name},"),
            ];
            !forms.iter().any(|form| text.contains(form))
        });
    report(
        &absent
            .map(|name| format!("no test is called {name}"))
            .collect::<Vec<_>>(),
    );
}
