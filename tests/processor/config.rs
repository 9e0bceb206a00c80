//! `[queue]` and `[processor]`.

use alertstream::processor::{KeyBy, QueueConfig};

use super::*;

#[test]
fn the_tables_of_the_reference_are_read() {
    let queue: QueueConfig =
        toml::from_str("key = 'source'\nbytes_max = '128MiB'\nlimits = { ztf = 8 }\nweights = { ztf = 3 }").unwrap();
    assert_eq!(
        (queue.key, queue.bytes_max, queue.limits["ztf"], queue.weights["ztf"]),
        (KeyBy::Source, 128 << 20, 8, 3)
    );
    assert!(queue.validate().is_empty());
    let text = "workers = 4\nfilter = 'magnitude < 19.5'\nretry = { tries = 5, first = '1s', most = '5m' }";
    let processor: ProcessorConfig = toml::from_str(text).unwrap();
    assert_eq!(processor.retry, RetryConfig::default());
    assert_eq!(processor.filter.as_deref(), Some("magnitude < 19.5"));
    assert!(processor.validate().is_empty());
    assert_eq!(toml::from_str::<QueueConfig>("").unwrap(), QueueConfig::default());
    assert!(toml::from_str::<QueueConfig>("colour = 1").is_err());
}

#[test]
fn every_problem_is_named() {
    let queue: QueueConfig =
        toml::from_str("bytes_max = 0\nlimit = 0\nlimits = { a = 0, b = 1 }\nweights = { c = 0 }").unwrap();
    let keys: Vec<_> = queue.validate().into_iter().map(|problem| problem.0).collect();
    assert_eq!(
        keys,
        [&["bytes_max"][..], &["limit"], &["limits", "a"], &["weights", "c"]]
    );
    let text = "workers = 0\nbatch_max = 0\ntime_limit = '0s'\nretry = { tries = 0, first = '2s', most = '1s' }";
    let processor: ProcessorConfig = toml::from_str(text).unwrap();
    let keys: Vec<_> = processor.validate().into_iter().map(|problem| problem.0).collect();
    assert_eq!(
        keys,
        ["workers", "batch_max", "time_limit", "retry.tries", "retry.most"]
    );
}

#[test]
fn the_key_is_what_the_configuration_says() {
    let delivery = Ledger::default().delivery("ztf", 8);
    let keys = [KeyBy::Source, KeyBy::Object, KeyBy::Survey, KeyBy::Programid].map(|by| by.key_of(&delivery));
    assert_eq!(keys.each_ref().map(|key| &**key), ["ztf", "ZTF18test001", "ztf", "3"]);
}

#[test]
fn limits_and_weights_reach_the_queue() {
    let config: QueueConfig = toml::from_str("limit = 2\nlimits = { a = 1 }\nweights = { b = 2 }").unwrap();
    let (queue, ledger) = (config.build(), Ledger::default());
    for (source, first) in [("a", 0), ("b", 10), ("c", 20)] {
        ledger.put(&queue, source, first..first + 5);
    }
    let tickets: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    let keys: String = tickets.iter().map(|ticket| &**ticket.key()).collect();
    assert_eq!(keys, "abcbc", "a limit of its own, the limit of all, a weight");
    assert!(
        tickets
            .iter()
            .all(|ticket| ticket.is_serial() == (&**ticket.key() == "a"))
    );
}
