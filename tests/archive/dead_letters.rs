//! Dead letters in Postgres: one per (source, position, bytes), however often and from wherever they are stored.

use std::sync::Arc;

use alertstream::ack::Rejection;
use alertstream::archive::dead_letters::{self, Dropped};
use alertstream::dead_letter::{DeadLetter, DeadLetterStore};
use alertstream::record::{KafkaOrigin, Lane, Position, RawAlert, SourceId, TopicPartition};
use bytes::Bytes;

use crate::common::TestDb;

fn letter(seq: u64, payload: &'static [u8]) -> DeadLetter {
    DeadLetter {
        source: SourceId::new("files"),
        position: Position {
            lane: Lane::File("night/a.tar!b.avro".into()),
            seq,
        },
        raw: RawAlert::from_bytes(payload),
        why: Rejection {
            reason: "truncated".into(),
            message: "cut\0short".into(),
            tries: 0,
        },
        attempt: 1,
    }
}

#[tokio::test]
async fn storing_a_letter_twice_is_one_and_nothing_of_it_is_lost() {
    let db = TestDb::new().await;
    let letters = db.archive().await.dead_letters();
    let from = Arc::new(TopicPartition {
        topic: "t".into(),
        partition: 1,
    });
    let headers = vec![("h".into(), Some(Bytes::from_static(b"\0")))];
    let origin = KafkaOrigin::new(from, 7).named(None, headers);
    let mut from_kafka = letter(2, b"\0\0");
    from_kafka.raw.origin = Some(origin);
    from_kafka.raw.reframed = true;
    let sent = [letter(1, b"x"), letter(1, b"y"), from_kafka.clone(), letter(1, b"x")];
    letters.store(&sent).await.unwrap();
    letters.store(&sent).await.unwrap();
    let stored = letters.page(0).await.unwrap();
    assert_eq!(stored.len(), 3);
    let first = &stored[0];
    assert_eq!(
        (first.source.as_str(), first.position.as_str()),
        ("files", "file:night/a.tar!b.avro#1")
    );
    assert_eq!(
        (first.path.as_deref(), first.bytes, first.attempts),
        (Some("night/a.tar!b.avro"), 1, 1)
    );
    assert_eq!(
        (first.reason.as_str(), first.message.as_str()),
        ("truncated", "cut\u{fffd}short")
    );
    assert_eq!(
        first.sha256,
        "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    );
    let last = stored.last().unwrap();
    assert_eq!(letters.packet(last.id).await.unwrap().unwrap(), from_kafka.raw);
    assert_eq!(letters.show(last.id).await.unwrap().as_ref(), Some(last));
    let json = serde_json::to_value(last).unwrap();
    assert!(json["at"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn dropping_a_letter_says_whether_it_was_there() {
    let db = TestDb::new().await;
    let letters = db.archive().await.dead_letters();
    letters.store(&[letter(1, b"x"), letter(2, b"x")]).await.unwrap();
    let ids: Vec<i64> = letters.page(0).await.unwrap().iter().map(|letter| letter.id).collect();
    assert_eq!(letters.page(ids[0]).await.unwrap().len(), 1);
    assert_eq!(letters.drop_letter(ids[0]).await.unwrap(), Dropped::Done);
    assert_eq!(letters.drop_letter(ids[0]).await.unwrap(), Dropped::Unknown);
    assert_eq!(letters.show(ids[0]).await.unwrap(), None);
    assert_eq!(letters.packet(ids[0]).await.unwrap(), None);
}

#[tokio::test]
async fn a_letter_belongs_to_the_transaction_it_was_stored_in() {
    let db = TestDb::new().await;
    let letters = db.archive().await.dead_letters();
    let pool = db.pool().await;
    let mut transaction = pool.begin().await.unwrap();
    assert_eq!(
        dead_letters::insert(&mut transaction, &[letter(1, b"x"), letter(1, b"x")])
            .await
            .unwrap(),
        1
    );
    transaction.rollback().await.unwrap();
    assert!(letters.page(0).await.unwrap().is_empty());
}

#[tokio::test]
async fn stores_of_the_same_letters_at_once_never_deadlock() {
    let db = TestDb::new().await;
    let letters = db.archive().await.dead_letters();
    let mut all: Vec<DeadLetter> = (0..40).map(|seq| letter(seq, b"x")).collect();
    let forward = all.clone();
    all.reverse();
    for _ in 0..5 {
        let (a, b, c) = tokio::join!(letters.store(&forward), letters.store(&all), letters.store(&forward));
        a.and(b).and(c).unwrap();
    }
    assert_eq!(letters.page(0).await.unwrap().len(), 40);
}
