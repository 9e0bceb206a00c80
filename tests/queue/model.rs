//! Cases 22 to 24: the queue against a model of the rule that is as plain as the rule.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use alertstream::queue::{FairQueue, Options, PutOptions, Ticket};

use super::*;

#[derive(Default)]
struct ModelKey {
    known: bool,
    queued: VecDeque<(u64, bool)>,
    count: u64,
    locked: bool,
    stamp: u64,
    gets: u64,
    weight: u64,
    limit: u64,
    paused: bool,
}

pub(super) struct Model {
    keys: Vec<ModelKey>,
    tick: u64,
}

impl ModelKey {
    fn is_eligible(&self) -> bool {
        let Some((_, exclusive)) = self.queued.front() else {
            return false;
        };
        !self.locked && !self.paused && self.count < self.limit && (self.count == 0 || !*exclusive)
    }
}

impl Model {
    pub(super) fn new(keys: usize) -> Self {
        let key = || ModelKey {
            weight: 1,
            limit: u64::MAX,
            ..ModelKey::default()
        };
        Self {
            keys: std::iter::repeat_with(key).take(keys).collect(),
            tick: 0,
        }
    }

    fn renew(&mut self, key: usize) {
        self.tick += 1;
        self.keys[key].stamp = self.tick;
        self.keys[key].gets = 0;
    }

    pub(super) fn put(&mut self, key: usize, item: u64, exclusive: bool) {
        if !self.keys[key].known {
            self.keys[key].known = true;
            self.renew(key);
        }
        self.keys[key].queued.push_back((item, exclusive));
    }

    pub(super) fn get(&mut self) -> Option<(usize, u64)> {
        let eligible = (0..self.keys.len()).filter(|key| self.keys[*key].is_eligible());
        let best = eligible.min_by(|a, b| {
            let (a, b) = (&self.keys[*a], &self.keys[*b]);
            (a.count * b.weight)
                .cmp(&(b.count * a.weight))
                .then(a.stamp.cmp(&b.stamp))
        })?;
        let (item, exclusive) = self.keys[best].queued.pop_front().unwrap();
        let key = &mut self.keys[best];
        key.count += 1;
        key.locked = exclusive;
        key.gets += 1;
        if key.gets >= key.weight {
            self.renew(best);
        }
        Some((best, item))
    }

    pub(super) fn done(&mut self, key: usize) {
        self.keys[key].count -= 1;
        self.keys[key].locked = false;
        if self.keys[key].weight == 1 {
            self.renew(key);
        }
    }

    /// Drops what is queued under a key; gives its number.
    pub(super) fn clear(&mut self, key: usize) -> usize {
        self.keys[key].queued.drain(..).count()
    }

    pub(super) fn queued(&self) -> usize {
        self.keys.iter().map(|key| key.queued.len()).sum()
    }
}

/// What a run may use beyond the rule's core.
#[derive(Clone, Copy, PartialEq)]
enum Extras {
    None,
    All,
}

/// Runs one random sequence on both; `extras` adds limits, weights, pauses and tickets that go back.
#[allow(clippy::too_many_lines)] // one arm for each operation
fn run(seed: u64, extras: Extras) {
    let mut random = Random(seed);
    let n_keys = 2 + random.below(63) as usize;
    let cap = [1, 2, 5, usize::MAX][random.below(4) as usize];
    let mut model = Model::new(n_keys);
    let queue: FairQueue<usize, u64> = Options::new().idle_grace(Duration::MAX).build();
    let mut tickets: Vec<Ticket<usize, u64>> = Vec::new();
    for step in 0..400 {
        let key = random.below(n_keys as u64) as usize;
        match random.below(if extras == Extras::All { 14 } else { 11 }) {
            0..=4 => {
                let exclusive = random.below(6) == 0;
                let how = if exclusive {
                    PutOptions::new().exclusive()
                } else {
                    PutOptions::new()
                };
                queue.try_put_with(key, step, how).unwrap();
                model.put(key, step, exclusive);
            }
            5..=7 if tickets.len() < cap => {
                let counts: Vec<u64> = model
                    .keys
                    .iter()
                    .filter(|key| key.is_eligible())
                    .map(|key| key.count)
                    .collect();
                let expected = model.get();
                let got = queue.try_get();
                assert_eq!(
                    got.as_ref().map(|ticket| (*ticket.key(), **ticket)),
                    expected,
                    "seed {seed} step {step}"
                );
                if let (Some((key, _)), Extras::None) = (expected, extras) {
                    // 23: no eligible key had fewer in progress.
                    assert_eq!(Some(model.keys[key].count - 1), counts.into_iter().min());
                }
                tickets.extend(got);
            }
            8 | 9 if !tickets.is_empty() => {
                let ticket = tickets.remove(random.below(tickets.len() as u64) as usize);
                model.done(*ticket.key());
            }
            10 => {
                assert_eq!(queue.clear(&key), (model.clear(key), 0));
            }
            11 => {
                let weight = 1 + random.below(3) as u32;
                queue.set_weight(&key, NonZeroU32::new(weight).unwrap());
                model.keys[key].weight = u64::from(weight);
            }
            12 => {
                let limit = random.below(4) as u32;
                queue.set_limit(&key, NonZeroU32::new(limit));
                model.keys[key].limit = if limit == 0 { u64::MAX } else { u64::from(limit) };
            }
            13 if random.below(2) == 0 => {
                let pause = !model.keys[key].paused;
                if pause {
                    queue.pause(&key)
                } else {
                    queue.resume(&key)
                }
                model.keys[key].paused = pause;
            }
            13 if !tickets.is_empty() => {
                let ticket = tickets.remove(random.below(tickets.len() as u64) as usize);
                let (key, back) = (*ticket.key(), (*ticket, ticket.is_exclusive()));
                model.done(key);
                if random.below(2) == 0 {
                    model.keys[key].queued.push_front(back);
                    ticket.requeue_front().unwrap();
                } else {
                    model.keys[key].queued.push_back(back);
                    ticket.requeue_back().unwrap();
                }
            }
            _ => {}
        }
    }
    assert_eq!(sizes(&queue), (model.queued(), tickets.len(), 0));
}

/// 22, 23
#[test]
fn the_queue_does_what_the_rule_says() {
    (0..1_500).for_each(|seed| run(seed, Extras::None));
}

/// 22
#[test]
fn the_queue_does_what_the_rule_says_with_limits_weights_pauses_and_returns() {
    (0..1_500).for_each(|seed| run(seed, Extras::All));
}

/// 24: every other key of count 0 is served at most once before it, as being served puts a key behind.
#[test]
fn a_key_with_nothing_in_progress_is_served_within_as_many_gets_as_there_are_such_keys() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let queue: FairQueue<u64, u64> = FairQueue::new();
        let keys = 2 + random.below(20);
        // Of each key that waits with nothing in progress: the gets it waited for, and such keys seen meanwhile.
        let mut waiting: BTreeMap<u64, (usize, BTreeSet<u64>)> = BTreeMap::new();
        let mut tickets = Vec::new();
        for step in 0..500 {
            queue.try_put(random.below(keys), step).unwrap();
            if random.below(3) > 0 {
                let starved = |key: &u64| {
                    let stats = queue.key_stats(key);
                    stats.queued > 0 && stats.in_progress == 0
                };
                let of_count_0: Vec<u64> = (0..keys).filter(starved).collect();
                let ticket = queue.try_get().unwrap();
                waiting.remove(ticket.key());
                for key in of_count_0.iter().filter(|key| *key != ticket.key()) {
                    let (gets, seen) = waiting.entry(*key).or_default();
                    *gets += 1;
                    seen.extend(&of_count_0);
                    assert!(*gets < seen.len(), "seed {seed}: {key} waited for {gets} gets");
                }
                tickets.push(ticket);
            }
            if random.below(2) == 0 && !tickets.is_empty() {
                drop(tickets.remove(random.below(tickets.len() as u64) as usize));
            }
        }
    }
}
