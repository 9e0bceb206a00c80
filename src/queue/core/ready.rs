//! The eligible keys, ordered: a heap of four children a node, which knows where each key stands in it.
//!
//! Invariants: `place[id]` is the index of the entry of key `id` in `heap`, or `ABSENT`; no entry is smaller than its
//! parent. Must not know what makes a key eligible.
#![allow(clippy::indexing_slicing)] // every index is a place kept by this file, or compared with the length before use

use std::cmp::Ordering;

use super::SlotId;

const ABSENT: u32 = u32::MAX;
/// Children of a node: flatter than two, and their ranks stand side by side.
const CHILDREN: usize = 4;

/// The order of service: items in progress per weight, then the stamp. Stamps differ, so there are no ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) count: u32,
    pub(super) weight: u32,
    pub(super) stamp: u64,
}

impl Rank {
    fn is_before(&self, other: &Self) -> bool {
        if self.weight == other.weight {
            return (self.count, self.stamp) < (other.count, other.stamp);
        }
        // a/w < b/v without division
        let this = u64::from(self.count) * u64::from(other.weight);
        let that = u64::from(other.count) * u64::from(self.weight);
        this.cmp(&that).then(self.stamp.cmp(&other.stamp)) == Ordering::Less
    }
}

#[derive(Default)]
pub(super) struct ReadyHeap {
    heap: Vec<(Rank, SlotId)>,
    place: Vec<u32>,
}

impl ReadyHeap {
    pub(super) fn first(&self) -> Option<SlotId> {
        self.heap.first().map(|entry| entry.1)
    }

    pub(super) fn contains(&self, id: SlotId) -> bool {
        self.place.get(id as usize).is_some_and(|&place| place != ABSENT)
    }

    /// Gives a key this rank, or takes it out.
    pub(super) fn set(&mut self, id: SlotId, rank: Option<Rank>) {
        if id as usize >= self.place.len() {
            self.place.resize(id as usize + 1, ABSENT);
        }
        let place = self.place[id as usize];
        match (rank, place) {
            (None, ABSENT) => {}
            (None, place) => self.remove(place as usize),
            (Some(rank), ABSENT) => {
                let at = self.heap.len();
                self.heap.push((rank, id));
                self.place[id as usize] = at as u32;
                self.rise(at);
            }
            (Some(rank), place) => self.change(place as usize, rank),
        }
    }

    /// Gives memory back: keys from `ids` on are unknown.
    pub(super) fn truncate(&mut self, ids: usize) {
        self.place.truncate(ids);
        if self.place.capacity() > 1024 && self.place.capacity() / 4 > ids {
            self.place.shrink_to(ids * 2);
            self.heap.shrink_to(ids * 2);
        }
    }

    fn change(&mut self, at: usize, rank: Rank) {
        let old = self.heap[at].0;
        if old == rank {
            return;
        }
        self.heap[at].0 = rank;
        if rank.is_before(&old) {
            self.rise(at);
        } else {
            self.sink(at);
        }
    }

    fn remove(&mut self, at: usize) {
        let (_, id) = self.heap.swap_remove(at);
        self.place[id as usize] = ABSENT;
        if at < self.heap.len() {
            self.rise(at);
            self.sink(at);
        }
    }

    /// Moves an entry up to its place.
    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if !entry.0.is_before(&self.heap[parent].0) {
                break;
            }
            self.set_at(at, self.heap[parent]);
            at = parent;
        }
        self.set_at(at, entry);
    }

    /// Moves an entry down to its place.
    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let first = CHILDREN * at + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let smaller = |a: usize, b: usize| {
                if self.heap[b].0.is_before(&self.heap[a].0) {
                    b
                } else {
                    a
                }
            };
            match children.reduce(smaller) {
                Some(child) if self.heap[child].0.is_before(&entry.0) => {
                    self.set_at(at, self.heap[child]);
                    at = child;
                }
                _ => break,
            }
        }
        self.set_at(at, entry);
    }

    fn set_at(&mut self, at: usize, entry: (Rank, SlotId)) {
        self.heap[at] = entry;
        self.place[entry.1 as usize] = at as u32;
    }
}
