//! The files of the corpus that `ALERTSTREAM_CORPUS` names.

use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// One packet of the corpus.
pub struct File {
    /// Its path in the corpus, with `!MEMBER` for a member of a tar.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Gives all files, or says that `test` is skipped.
pub fn files(test: &str) -> Vec<File> {
    let Some(root) = std::env::var_os("ALERTSTREAM_CORPUS").map(PathBuf::from) else {
        println!("skipped: {test} (ALERTSTREAM_CORPUS is not set)");
        return Vec::new();
    };
    let mut files = Vec::new();
    walk(&root, &root, &mut files);
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// Gives the whole packets: not those in `broken`.
pub fn good(test: &str) -> Vec<File> {
    files(test)
        .into_iter()
        .filter(|f| !f.name.starts_with("broken"))
        .collect()
}

/// Gives the damaged ones.
pub fn broken(test: &str) -> Vec<File> {
    files(test)
        .into_iter()
        .filter(|f| f.name.starts_with("broken"))
        .collect()
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<File>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            walk(root, &path, files);
        } else if name.ends_with(".tar.gz") {
            let tar = flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap());
            for member in tar::Archive::new(tar).entries().unwrap() {
                let mut member = member.unwrap();
                let inner = member.path().unwrap().to_string_lossy().into_owned();
                let mut bytes = Vec::new();
                member.read_to_end(&mut bytes).unwrap();
                if inner.ends_with(".avro") {
                    files.push(File {
                        name: format!("{name}!{inner}"),
                        bytes: bytes.into(),
                    });
                }
            }
        } else if name.ends_with(".avro") || name.ends_with(".bin") {
            files.push(File {
                name,
                bytes: std::fs::read(&path).unwrap().into(),
            });
        }
    }
}
