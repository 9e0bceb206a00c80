//! Settings that do not fit the port, on a real broker: every way to connect says what to set.

use std::time::Duration;

use alertstream::source::kafka::client::{Clients, PassThrough};
use alertstream::source::kafka::config::LiveConfig;
use alertstream::source::kafka::error::LiveError;
use alertstream::source::kafka::groups::GroupView;
use alertstream::source::kafka::probe::Probe;
use alertstream::source::kafka::writer::TopicWriter;
use alertstream::stream::{StreamConfig, open};
use futures::StreamExt;

use super::broker::{SOON, quick, source};

/// How long a broker that never answers is waited for: long enough for a few attempts.
const WITHIN: Duration = Duration::from_secs(5);

/// What each way to connect says.
async fn said(config: LiveConfig) -> Vec<String> {
    let clients = config.clients().unwrap();
    let ways: [fn(&Clients) -> Option<LiveError>; 3] = [
        |clients| GroupView::connect(clients, "g", WITHIN).err(),
        |clients| Probe::connect(clients, "g", WITHIN).err(),
        |clients| TopicWriter::connect(clients, "t", WITHIN).err(),
    ];
    let asking = ways.map(|way| {
        let clients = clients.clone();
        tokio::task::spawn_blocking(move || way(&clients).expect("no connection").to_string())
    });
    let timing = alertstream::source::kafka::Timing {
        connect_within: WITHIN,
        ..quick()
    };
    let source = source("g", config).with_timing(timing);
    let (mut alerts, control) = open(Box::new(source), StreamConfig::default());
    let item = tokio::time::timeout(SOON, alerts.next()).await.unwrap().unwrap();
    let mut said = vec![item.expect_err("no connection").to_string()];
    let _ = control.shutdown(WITHIN).await;
    for asked in asking {
        said.push(asked.await.unwrap());
    }
    said
}

async fn each_says(bootstrap: &str, settings: &[(&str, &str)], words: &[&str]) {
    let mut config = LiveConfig::new(bootstrap, &["t"]);
    let owned = settings
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    config.librdkafka = PassThrough::new(owned);
    for said in said(config).await {
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    }
}

/// The ports of the real broker: without and with SASL.
fn ports(test: &str) -> Option<(String, String)> {
    let port = |name| std::env::var(name).ok();
    let both = port("KAFKA_BOOTSTRAP_SERVERS").zip(port("KAFKA_SASL_BOOTSTRAP_SERVERS"));
    if both.is_none() {
        println!("skipped: {test} (no broker with SASL)");
    }
    both
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_wants_sasl_says_so_to_a_client_without() {
    let Some((_, sasl)) = ports("a_port_that_wants_sasl_says_so_to_a_client_without") else {
        return;
    };
    each_says(
        &sasl,
        &[],
        &["closes it at the first request", "`security.protocol`", "SASL"],
    )
    .await;
}

#[cfg(feature = "kafka-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_without_sasl_or_tls_says_so_to_a_client_that_wants_it() {
    let Some((plain, sasl)) = ports("a_port_without_sasl_or_tls_says_so_to_a_client_that_wants_it") else {
        return;
    };
    let login = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "alice"),
        ("sasl.password", "secret"),
    ];
    let words = ["does not speak SASL", "set `security.protocol` to PLAINTEXT"];
    each_says(&plain, &login, &words).await;
    let words = ["does not speak TLS", "PLAINTEXT or SASL_PLAINTEXT"];
    let tls = [("security.protocol", "SSL")];
    tokio::join!(each_says(&plain, &tls, &words), each_says(&sasl, &tls, &words));
}
