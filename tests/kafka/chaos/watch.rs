//! Looks at the group's commits all the time, and at what the workers say they did, and finds what must not be.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use super::PARTITIONS;
use super::holds::{self, Hold};
use super::worker::now;
use crate::broker::Broker;

type Place = (i32, i64);

/// What was seen of the whole run.
#[derive(Default)]
pub(super) struct Seen {
    /// Every time an alert was given to a worker, oldest first.
    got: BTreeMap<u128, Vec<Place>>,
    /// How often each alert was handled.
    done: HashMap<Place, usize>,
    /// The commits: when the answer was there, and the offset of each partition.
    commits: Vec<(u128, Vec<i64>)>,
    /// Alerts that a commit passed before any worker had handled them.
    passed: Vec<String>,
    pub(super) looks: usize,
    /// Every ownership of a partition by a worker.
    pub(super) holds: Vec<Hold>,
}

impl Seen {
    pub(super) fn repeated(&self) -> usize {
        self.done.values().filter(|times| **times > 1).count()
    }

    /// Takes in a worker's log; a torn last line is left out.
    fn read(&mut self, log: &Path) {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let place = || (words[2].parse().unwrap(), words[3].parse().unwrap());
            match words[0] {
                "got" => self.got.entry(words[1].parse().unwrap()).or_default().push(place()),
                "done" => *self.done.entry(place()).or_default() += 1,
                _ => {}
            }
        }
        self.holds.extend(holds::read(log));
    }
}

/// The thread that looks.
pub(super) struct Watch {
    last: Arc<Mutex<Vec<i64>>>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    pub(super) fn start(broker: &Broker, topic: &str, group: &str, logs: &Path) -> Self {
        let last = Arc::new(Mutex::new(vec![-1; PARTITIONS as usize]));
        let over = Arc::new(AtomicBool::new(false));
        let consumer = broker
            .config(&[topic])
            .clients()
            .unwrap()
            .consumer(group, 1)
            .create()
            .unwrap();
        let (topic, logs) = (topic.to_owned(), logs.to_owned());
        let (told, ends) = (last.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let mut done = Done::default();
            while !ends.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(20));
                let Some(offsets) = committed(&consumer, &topic) else {
                    continue;
                };
                seen.commits.push((now(), offsets.clone()));
                seen.looks += 1;
                // Said before it was acknowledged, so it is there by now.
                done.read(&logs);
                for (partition, upto) in (0..).zip(&offsets) {
                    seen.passed.extend(done.missing(partition, *upto));
                }
                *told.lock() = offsets;
            }
            for log in logs_in(&logs) {
                seen.read(&log);
            }
            seen
        });
        Self { last, over, thread }
    }

    /// The last commits that were seen.
    pub(super) fn last(&self) -> Vec<i64> {
        self.last.lock().clone()
    }

    pub(super) fn end(self) -> Seen {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

fn logs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The offset of each partition, -1 without one; nothing while the broker is away.
fn committed(consumer: &BaseConsumer, topic: &str) -> Option<Vec<i64>> {
    let mut list = TopicPartitionList::new();
    list.add_partition_range(topic, 0, PARTITIONS - 1);
    let found = consumer.committed_offsets(list, Duration::from_secs(2)).ok()?;
    let offset = |partition: i32| {
        let element = found.find_partition(topic, partition)?;
        element.error().ok()?;
        match element.offset() {
            Offset::Offset(at) => Some(at),
            _ => Some(-1),
        }
    };
    (0..PARTITIONS).map(offset).collect()
}

/// What is said to be done, and up to where it was looked through.
#[derive(Default)]
struct Done {
    places: HashSet<Place>,
    read: HashMap<PathBuf, usize>,
    checked: HashMap<i32, i64>,
}

impl Done {
    fn read(&mut self, folder: &Path) {
        for log in logs_in(folder) {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let from = self.read.entry(log).or_default();
            let new = text.get(*from..).unwrap_or_default();
            let whole = new.rfind('\n').map_or(0, |end| end + 1);
            *from += whole;
            for line in new[..whole].lines().filter(|line| line.starts_with("done ")) {
                let words: Vec<&str> = line.split_whitespace().collect();
                self.places
                    .insert((words[2].parse().unwrap(), words[3].parse().unwrap()));
            }
        }
    }

    /// What of a partition is below a commit and not done.
    fn missing(&mut self, partition: i32, upto: i64) -> Vec<String> {
        let from = self.checked.entry(partition).or_default();
        let range = *from..upto.max(*from);
        *from = range.end;
        let missing = range.filter(|offset| !self.places.contains(&(partition, *offset)));
        let said = missing.map(|offset| format!("{partition}/{offset} was committed and not done"));
        said.collect()
    }
}

/// Everything that must not be; `each` is how many alerts each partition has.
pub(super) fn violations(seen: &Seen, each: &[i64]) -> Vec<String> {
    let mut found = seen.passed.clone();
    for (partition, count) in (0..).zip(each) {
        let lost = (0..*count).filter(|offset| !seen.done.contains_key(&(partition, *offset)));
        found.extend(lost.map(|offset| format!("{partition}/{offset} was never handled")));
    }
    for pair in seen.commits.windows(2) {
        for (partition, (before, after)) in pair[0].1.iter().zip(&pair[1].1).enumerate() {
            if after < before {
                found.push(format!("the commit of {partition} went back from {before} to {after}"));
            }
        }
    }
    // What was committed is not in flight any more: it must not be given again.
    let mut commits = seen.commits.iter().peekable();
    let mut upto = vec![-1; each.len()];
    for (at, places) in &seen.got {
        while let Some((_, offsets)) = commits.next_if(|(then, _)| then < at) {
            upto.clone_from(offsets);
        }
        for (partition, offset) in places {
            if *offset < upto[*partition as usize] {
                found.push(format!("{partition}/{offset} was given again after its commit"));
            }
        }
    }
    found
}

#[test]
fn everything_that_must_not_be_is_found() {
    let fine = || Seen {
        got: BTreeMap::from([(1, vec![(0, 0)]), (3, vec![(0, 1)]), (5, vec![(0, 1)])]),
        done: HashMap::from([((0, 0), 1), ((0, 1), 2)]),
        commits: vec![(2, vec![1]), (6, vec![2])],
        passed: Vec::new(),
        looks: 2,
        holds: Vec::new(),
    };
    assert_eq!(violations(&fine(), &[2]), Vec::<String>::new());
    assert_eq!(fine().repeated(), 1);
    let found = |change: &dyn Fn(&mut Seen)| {
        let mut seen = fine();
        change(&mut seen);
        violations(&seen, &[2])
    };
    let lost = found(&|seen| {
        seen.done.remove(&(0, 1));
    });
    assert_eq!(lost, ["0/1 was never handled"]);
    let back = found(&|seen| seen.commits[1].1[0] = 0);
    assert_eq!(back, ["the commit of 0 went back from 1 to 0"]);
    let again = found(&|seen| drop(seen.got.insert(7, vec![(0, 1)])));
    assert_eq!(again, ["0/1 was given again after its commit"]);
    let mut done = Done::default();
    done.places.insert((0, 1));
    assert_eq!(done.missing(0, 2), ["0/0 was committed and not done"]);
}
