//! Who held which partition when, by what the workers wrote down, and what of it may be given again.
//!
//! A hold is one ownership of a partition by one worker, from its assignment to its end. At its end is written down what
//! of it was given to the worker and may come again: after a revocation with a confirmed commit, what was not finished
//! and what stands behind that; after a kill, a lost session or a commit that failed, what the broker does not hold as
//! committed (the next holder begins there). Whatever else is given twice is a fault.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

/// One ownership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    partition: i32,
    /// The commit that it began at.
    from: i64,
    since: u128,
    until: u128,
    ended: Ended,
    got: Vec<i64>,
    /// Finished and acknowledged in time.
    done: BTreeSet<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Its last commit was confirmed.
    Committed,
    /// Killed, lost, or without an answer to its last commit.
    Cut,
}

/// What the ends of holds add up to.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) committed: usize,
    pub(super) cut: usize,
    /// What was written down at ends with a commit: in flight, or behind it.
    pub(super) in_flight: usize,
    /// What was written down at the other ends: in flight, or not committed.
    pub(super) uncommitted: usize,
    /// How many of these came again.
    pub(super) again: usize,
    pub(super) faults: Vec<String>,
}

/// Reads a worker's holds, oldest first; a torn last line is left out.
pub(super) fn read(log: &Path) -> Vec<Hold> {
    of_lines(&std::fs::read_to_string(log).unwrap_or_default())
}

fn of_lines(text: &str) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (at, partition): (u128, i32) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        let last = holds.iter_mut().rev().find(|hold| hold.partition == partition);
        let offset = || words[3].parse::<i64>().unwrap();
        match (words[0], last) {
            ("assigned", _) => holds.push(Hold {
                partition,
                from: offset(),
                since: at,
                until: u128::MAX,
                ended: Ended::Cut,
                got: Vec::new(),
                done: BTreeSet::new(),
            }),
            ("revoked", Some(hold)) => {
                hold.until = at;
                if matches!(words[3], "committed" | "closing") {
                    hold.ended = Ended::Committed;
                }
            }
            ("got", Some(hold)) => hold.got.push(offset()),
            ("done", Some(hold)) if hold.got.contains(&offset()) => drop(hold.done.insert(offset())),
            ("late", Some(hold)) => drop(hold.done.remove(&offset())),
            ("done", _) => {} // of a hold that has ended: it could not count
            _ => panic!("nobody had it: {line}"),
        }
    }
    holds
}

/// Goes through all holds of all workers.
pub(super) fn ends(mut holds: Vec<Hold>) -> Ends {
    holds.sort_by_key(|hold| hold.since);
    let mut partitions: BTreeMap<i32, Vec<Hold>> = BTreeMap::new();
    for hold in holds {
        partitions.entry(hold.partition).or_default().push(hold);
    }
    let mut ends = Ends::default();
    for holds in partitions.values() {
        ends.look(holds);
    }
    ends
}

impl Ends {
    /// Goes through the holds of a partition.
    fn look(&mut self, holds: &[Hold]) {
        let (mut given, mut may_come) = (HashSet::new(), HashSet::new());
        for (hold, next) in holds.iter().zip(holds.iter().skip(1).map(Some).chain([None])) {
            let mut after = hold.from - 1;
            for offset in &hold.got {
                let place = format!("{}/{offset}", hold.partition);
                if *offset <= after {
                    self.faults
                        .push(format!("{place} was given twice, or out of order, to one holder"));
                }
                after = *offset;
                if !given.insert(*offset) {
                    self.again += 1;
                    if !may_come.remove(offset) {
                        self.faults.push(format!(
                            "{place} was given again and was not in flight when it was lost"
                        ));
                    }
                }
            }
            let Some(next) = next else { continue };
            let unfinished = (hold.from..).find(|offset| !hold.done.contains(offset)).unwrap();
            let began = format!("{}/{}: begun there", next.partition, next.from);
            match hold.ended {
                Ended::Committed if next.from < unfinished => {
                    self.faults.push(format!(
                        "{began} though all before {unfinished} was finished and given back"
                    ));
                }
                Ended::Committed if next.since < hold.until => {
                    self.faults.push(format!("{began} before its holder gave it back"));
                }
                _ if next.from < hold.from => {
                    self.faults
                        .push(format!("{began}, before {} where its last holder began", hold.from));
                }
                _ => {}
            }
            let open: Vec<i64> = hold
                .got
                .iter()
                .filter(|offset| **offset >= next.from)
                .copied()
                .collect();
            match hold.ended {
                Ended::Committed => {
                    (self.committed, self.in_flight) = (self.committed + 1, self.in_flight + open.len())
                }
                Ended::Cut => (self.cut, self.uncommitted) = (self.cut + 1, self.uncommitted + open.len()),
            }
            may_come.extend(open);
        }
    }
}

#[test]
fn what_is_given_again_and_was_not_in_flight_is_found() {
    let log = |text: &str| of_lines(&format!("{}\n", text.replace("; ", "\n")));
    let first = "assigned 1 0 0; got 2 0 0; got 3 0 1; got 4 0 2; done 5 0 0; done 6 0 2";
    let two = |first: &str, second: &str| ends([log(first), log(second)].concat());
    // Given back while 1 was not finished: it comes again, and 2 behind it.
    let given_back = format!("{first}; revoked 7 0 committed");
    let fine = two(&given_back, "assigned 8 0 1; got 9 0 1; got 10 0 2");
    let expected = Ends {
        committed: 1,
        in_flight: 2,
        again: 2,
        ..Ends::default()
    };
    assert_eq!(fine, expected);
    let found = two(&given_back, "assigned 8 0 0; got 9 0 0").faults;
    assert_eq!(
        found,
        ["0/0: begun there though all before 1 was finished and given back"]
    );
    let found = two(&given_back, "assigned 6 0 1; got 9 0 1").faults;
    assert_eq!(found, ["0/1: begun there before its holder gave it back"]);
    // Killed: what was not committed comes again, once.
    let killed = first.to_owned();
    let fine = two(&killed, "assigned 8 0 0; got 9 0 0; got 10 0 1");
    let expected = Ends {
        cut: 1,
        uncommitted: 3,
        again: 2,
        ..Ends::default()
    };
    assert_eq!(fine, expected);
    let found = two(&killed, "assigned 8 0 2; got 9 0 1").faults;
    assert_eq!(
        found,
        [
            "0/1 was given twice, or out of order, to one holder",
            "0/1 was given again and was not in flight when it was lost"
        ]
    );
    // An acknowledgement that came too late does not finish anything.
    let late = format!("{first}; done 6 0 1; late 6 0 1; revoked 7 0 committed");
    assert!(two(&late, "assigned 8 0 1; got 9 0 1").faults.is_empty());
    let found = ends(log("assigned 1 0 0; got 2 0 0; got 3 0 0")).faults;
    assert_eq!(found.len(), 2, "{found:?}");
}
