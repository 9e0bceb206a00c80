//! The eligible keys, ordered: a binary heap that knows where each key stands in it.
//!
//! Invariants: `place[id]` is the index of the entry of key `id` in `heap`, or `ABSENT`; no entry is smaller than its
//! parent. Must not know what makes a key eligible.
#![allow(clippy::indexing_slicing)] // every index is a place kept by this file, or compared with the length before use

use std::cmp::Ordering;

use super::SlotId;

const ABSENT: u32 = u32::MAX;

/// The order of service: items in progress per weight, then the stamp. Stamps differ, so there are no ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) count: u32,
    pub(super) weight: u32,
    pub(super) stamp: u64,
}

impl Rank {
    fn is_before(&self, other: &Self) -> bool {
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
            self.place[self.heap[at].1 as usize] = at as u32;
            self.rise(at);
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.heap[at].0.is_before(&self.heap[parent].0) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            if left >= self.heap.len() {
                break;
            }
            let right = left + 1;
            let child = if right < self.heap.len() && self.heap[right].0.is_before(&self.heap[left].0) {
                right
            } else {
                left
            };
            if !self.heap[child].0.is_before(&self.heap[at].0) {
                break;
            }
            self.swap(at, child);
            at = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].1 as usize] = a as u32;
        self.place[self.heap[b].1 as usize] = b as u32;
    }
}
