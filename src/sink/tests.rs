//! What the sink promises about its file.

use std::sync::Arc;

use super::*;

fn config(path: &Path) -> SinkConfig {
    SinkConfig {
        path: path.display().to_string(),
        ..SinkConfig::default()
    }
}

fn open(path: &Path) -> Ndjson {
    Ndjson::open(&config(path)).unwrap()
}

#[tokio::test]
async fn a_line_is_in_the_file_when_append_returns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let sink = open(&path);
    sink.append(b"{\"a\":1}\n".to_vec()).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"{\"a\":1}\n");
}

#[tokio::test]
async fn a_torn_last_line_is_ended_before_the_first_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    std::fs::write(&path, "{\"whole\":1}\n{\"torn").unwrap();
    open(&path).append(b"{}\n".to_vec()).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"whole\":1}\n{\"torn\n{}\n");
    open(&path).append(b"{}\n".to_vec()).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\"whole\":1}\n{\"torn\n{}\n{}\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lines_of_several_workers_never_mix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let sink = Arc::new(open(&path));
    let workers = (0..8).map(|worker| {
        let sink = sink.clone();
        tokio::spawn(async move {
            for n in 0..200 {
                sink.append(format!("{{\"worker\":{worker},\"n\":{n}}}\n").into_bytes())
                    .await
                    .unwrap();
            }
        })
    });
    futures::future::join_all(workers)
        .await
        .into_iter()
        .for_each(|done| done.unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1600);
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[tokio::test]
async fn a_reader_that_went_away_is_an_error_of_its_own() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let (lines, waiting) = mpsc::channel(1);
    std::thread::spawn(move || write_lines(Box::new(writer), waiting));
    let sink = Ndjson {
        path: "-".into(),
        fields: Vec::new(),
        lines,
    };
    let error = sink.append(b"{}\n".to_vec()).await.unwrap_err();
    assert!(matches!(error, SinkError::ReaderGone { .. }), "{error}");
}

#[test]
fn a_folder_is_no_sink() {
    let folder = tempfile::tempdir().unwrap();
    let error = Ndjson::open(&config(folder.path())).unwrap_err();
    assert!(error.to_string().contains("cannot be written"), "{error}");
}
