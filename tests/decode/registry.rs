//! Schemas over HTTP: waiting, back-off, the disk cache.

use alertstream::decode::{DecodeError, Decoder, DecoderConfig, SchemasConfig};
use bytes::Bytes;

use crate::registry_server::{self, Registry};

pub fn decoder(url: &str, folder: &std::path::Path) -> Decoder {
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
    registry_server::packet(7).into()
}

#[tokio::test(start_paused = true)]
async fn an_unknown_id_waits_through_an_outage_and_then_decodes() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::start(&[503, 404, 200]);
    let decoder = decoder(&registry.url, folder.path());
    let error = decoder.decode(&packet()).unwrap_err();
    assert_eq!(error, DecodeError::SchemaPending { id: 1201 });
    assert_eq!(error.class(), alertstream::error::ErrorClass::Transient);
    decoder.resolve(1201).await;
    let packet = decoder.decode(&packet()).unwrap();
    assert_eq!(packet.header().schema_version.as_deref(), Some("12.1"));
    assert_eq!(packet.json("diaSourceId"), Some(7.into()));
    assert_eq!(registry.asked(), 3);
}

#[tokio::test]
async fn many_waiters_make_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::start(&[200]);
    let decoder = decoder(&registry.url, folder.path());
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
    assert_eq!(registry.asked(), 1);
}

#[tokio::test]
async fn a_restart_while_the_registry_is_down_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::start(&[200, 503]);
    decoder(&registry.url, folder.path()).resolve(1201).await;
    let restarted = decoder(&registry.url, folder.path());
    assert!(restarted.decode(&packet()).is_ok());
    assert_eq!(registry.asked(), 1);
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
