//! Schemas over HTTP: waiting, back-off, the disk cache.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alertstream::decode::{DecodeError, Decoder, DecoderConfig, SchemasConfig};
use bytes::Bytes;

const SCHEMA: &str = r#"{"type":"record","name":"alert","namespace":"lsst.v12_1","fields":[
    {"name":"diaSourceId","type":"long"}]}"#;

/// A registry that answers `statuses` in turn, the last one for ever. Gives its address and its count of requests.
fn registry(statuses: &'static [u16]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            assert!(first.starts_with("GET /schemas/ids/1201 "), "{first}");
            while !lines.next().unwrap().unwrap().is_empty() {}
            let n = asked.fetch_add(1, Ordering::SeqCst);
            let status = statuses[n.min(statuses.len() - 1)];
            let body = serde_json::json!({ "schema": SCHEMA }).to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(body.as_bytes()).unwrap();
        }
    });
    (url, count)
}

fn decoder(url: &str, folder: &std::path::Path) -> Decoder {
    let schemas = SchemasConfig {
        registry: Some(url.to_owned()),
        cache: Some(folder.to_owned()),
        ..SchemasConfig::default()
    };
    Decoder::new(DecoderConfig {
        schemas,
        ..DecoderConfig::default()
    })
    .unwrap()
}

fn packet() -> Bytes {
    Bytes::from_static(&[0, 0, 0, 4, 0xb1, 14])
}

#[tokio::test(start_paused = true)]
async fn an_unknown_id_waits_through_an_outage_and_then_decodes() {
    let folder = tempfile::tempdir().unwrap();
    let (url, asked) = registry(&[503, 404, 200]);
    let decoder = decoder(&url, folder.path());
    let error = decoder.decode(&packet()).unwrap_err();
    assert_eq!(error, DecodeError::SchemaPending { id: 1201 });
    assert_eq!(error.class(), alertstream::error::ErrorClass::Transient);
    decoder.resolve(1201).await;
    let packet = decoder.decode(&packet()).unwrap();
    assert_eq!(packet.header().schema_version.as_deref(), Some("12.1"));
    assert_eq!(packet.json("diaSourceId"), Some(7.into()));
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn many_waiters_make_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let (url, asked) = registry(&[200]);
    let decoder = decoder(&url, folder.path());
    let waiters: Vec<_> = (0..16)
        .map(|_| {
            let decoder = decoder.clone();
            tokio::spawn(async move { decoder.resolve(1201).await })
        })
        .collect();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert!(decoder.decode(&packet()).is_ok());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_restart_while_the_registry_is_down_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (url, asked) = registry(&[200, 503]);
    decoder(&url, folder.path()).resolve(1201).await;
    let restarted = decoder(&url, folder.path());
    assert!(restarted.decode(&packet()).is_ok());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // Another registry may mean another schema by the same id.
    let other = decoder("http://127.0.0.1:1", folder.path());
    assert_eq!(
        other.decode(&packet()).unwrap_err(),
        DecodeError::SchemaPending { id: 1201 }
    );
}

#[test]
fn without_a_registry_an_unknown_id_is_poison() {
    let error = Decoder::bundled().decode(&packet()).unwrap_err();
    assert_eq!(error.reason(), "unknown_schema");
    assert_eq!(error.class(), alertstream::error::ErrorClass::Poison);
}
