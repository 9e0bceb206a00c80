//! The tracker against a naive model, and its rules one by one.

// One range is what is meant.
#![allow(clippy::single_range_in_vec_init)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Deliver { gap: u64 },
    Attempt { pick: usize },
    Settle { pick: usize },
    SettleUnknown { seq: u64 },
    Seal,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u64..4).prop_map(|gap| Step::Deliver { gap }),
        3 => any::<usize>().prop_map(|pick| Step::Attempt { pick }),
        8 => any::<usize>().prop_map(|pick| Step::Settle { pick }),
        1 => (0u64..500).prop_map(|seq| Step::SettleUnknown { seq }),
        1 => Just(Step::Seal),
    ]
}

/// The same account, told in the most naive way: every seq ever delivered, with its attempts and whether it settled.
#[derive(Default)]
struct Naive {
    seqs: BTreeMap<u64, (u32, bool)>,
    sealed: bool,
}

impl Naive {
    fn upto(&self) -> u64 {
        let first_open = self.seqs.iter().find(|(_, (_, settled))| !settled).map(|(seq, _)| *seq);
        first_open.or(self.seqs.keys().last().map(|seq| seq + 1)).unwrap_or(0)
    }

    fn open(&self) -> Vec<u64> {
        self.seqs
            .iter()
            .filter(|(_, (_, settled))| !settled)
            .map(|(seq, _)| *seq)
            .collect()
    }

    fn settled_from(&self, from: u64) -> Vec<u64> {
        self.seqs
            .range(from..)
            .filter(|(_, (_, settled))| *settled)
            .map(|(seq, _)| *seq)
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_naive_model(first in 0u64..100, steps in prop::collection::vec(step(), 1..200)) {
        let (mut real, mut naive) = (AckTracker::new(), Naive::default());
        for step in steps {
            let pick = |pick: usize| {
                let all: Vec<u64> = naive.seqs.keys().copied().collect();
                (!all.is_empty()).then(|| all[pick % all.len()])
            };
            match step {
                Step::Deliver { gap } => {
                    let seq = naive.seqs.keys().last().map_or(first, |last| last + 1 + gap);
                    prop_assert_eq!(real.deliver(seq).is_ok(), !naive.sealed);
                    if !naive.sealed {
                        naive.seqs.insert(seq, (0, false));
                    }
                }
                Step::Attempt { pick: n } => if let Some(seq) = pick(n) {
                    let entry = naive.seqs.get_mut(&seq).unwrap();
                    let expected = (!entry.1).then(|| { entry.0 += 1; entry.0 });
                    prop_assert_eq!(real.attempt(seq), expected);
                },
                Step::Settle { pick: n } => if let Some(seq) = pick(n) {
                    let before = naive.upto();
                    let news = !std::mem::replace(&mut naive.seqs.get_mut(&seq).unwrap().1, true);
                    let moved = naive.upto() > before;
                    let expected = if !news { Settled::NotOpen } else if moved { Settled::Prefix } else { Settled::Beyond };
                    prop_assert_eq!(real.settle(seq), expected);
                },
                Step::SettleUnknown { seq } => if !naive.seqs.contains_key(&seq) {
                    prop_assert_eq!(real.settle(seq), Settled::NotOpen);
                },
                Step::Seal => { real.seal(); naive.sealed = true; }
            }
            let open = naive.open();
            let beyond: Vec<u64> = real.settled_beyond().into_iter().flatten().collect();
            prop_assert_eq!(real.upto(), naive.upto());
            prop_assert_eq!(beyond, naive.settled_from(naive.upto()));
            prop_assert_eq!(real.unsettled(), open.len());
            prop_assert_eq!(real.oldest(), open.first().copied());
            let span = open.first().map_or(0, |from| naive.seqs.range(from..).count());
            prop_assert_eq!(real.span(), span);
            prop_assert_eq!(real.is_finished(), naive.sealed && open.is_empty());
        }
    }
}

#[test]
fn the_prefix_never_passes_an_unsettled_seq() {
    let mut tracker = AckTracker::new();
    for seq in [5, 7, 8, 12] {
        tracker.deliver(seq).unwrap();
    }
    assert_eq!(tracker.settle(7), Settled::Beyond);
    assert_eq!(tracker.settle(8), Settled::Beyond);
    assert_eq!((tracker.upto(), tracker.settled_beyond()), (5, vec![7..9]));
    assert_eq!(tracker.settle(5), Settled::Prefix);
    assert_eq!((tracker.upto(), tracker.settled_beyond()), (12, vec![]));
    assert_eq!(tracker.settle(12), Settled::Prefix);
    assert_eq!((tracker.upto(), tracker.span()), (13, 0));
}

#[test]
fn ranges_are_cut_at_gaps() {
    let mut tracker = AckTracker::new();
    for seq in [0, 1, 2, 4, 5] {
        tracker.deliver(seq).unwrap();
    }
    for seq in [1, 2, 4, 5] {
        tracker.settle(seq);
    }
    assert_eq!(tracker.settled_beyond(), [1..3, 4..6]);
}

#[test]
fn an_older_seq_is_refused() {
    let mut tracker = AckTracker::new();
    tracker.deliver(3).unwrap();
    assert_eq!(tracker.deliver(3), Err(OutOfOrder { seq: 3, last: 3 }));
    tracker.seal();
    assert!(tracker.deliver(4).is_err());
}
