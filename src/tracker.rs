//! The pure account of one lane in one epoch: what was delivered, what of it settled, how far the prefix reaches.
//!
//! Invariants: seqs come strictly increasing, gaps allowed; `upto` never moves backwards and never over an unsettled
//! seq; a seq settles once. What it holds is bounded by the span the caller allows (see [`AckTracker::span`]).
//! Must not know of time, locks, bytes, backends, or why something settled.
//!
//! How it works: the entries from the first unsettled seq on are kept in order. Settling marks an entry; when it is
//! the first, it and all settled ones after it leave, and `upto` moves to the next unsettled one.

use std::collections::VecDeque;
use std::ops::Range;

/// Tracks the seqs of one lane in one epoch.
#[derive(Clone, Debug, Default)]
pub struct AckTracker {
    entries: VecDeque<Entry>,
    /// One past the last delivered seq, or the first expected one; what `upto` is when nothing is unsettled.
    next: u64,
    unsettled: usize,
    sealed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    seq: u64,
    attempts: u32,
    settled: bool,
}

/// A seq was delivered that does not come after the last one, or after the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seq `{seq}` was delivered after `{last}` or after the end of its lane: a source delivers each lane in order")]
pub struct OutOfOrder {
    /// What was delivered.
    pub seq: u64,
    /// The last seq before it, 0 when there was none.
    pub last: u64,
}

impl AckTracker {
    /// Makes an account that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an account that has seen nothing and expects seqs from `from` on: its `upto` meanwhile.
    pub fn starting_at(from: u64) -> Self {
        Self {
            next: from,
            ..Self::default()
        }
    }

    /// Takes a seq that is about to be delivered.
    ///
    /// # Errors
    /// [`OutOfOrder`] when it is not above every earlier one, or the lane is sealed.
    pub fn deliver(&mut self, seq: u64) -> Result<(), OutOfOrder> {
        if self.sealed || seq < self.next {
            return Err(OutOfOrder {
                seq,
                last: self.next.saturating_sub(1),
            });
        }
        self.entries.push_back(Entry {
            seq,
            attempts: 0,
            settled: false,
        });
        self.next = seq.saturating_add(1);
        self.unsettled += 1;
        Ok(())
    }

    /// Counts one more delivery of an unsettled seq and gives its number, from 1; `None` when it is not unsettled.
    pub fn attempt(&mut self, seq: u64) -> Option<u32> {
        let entry = self.find(seq).filter(|entry| !entry.settled)?;
        entry.attempts = entry.attempts.saturating_add(1);
        Some(entry.attempts)
    }

    /// Settles a seq for good; says whether that was news.
    pub fn settle(&mut self, seq: u64) -> Settled {
        let Some(entry) = self.find(seq).filter(|entry| !entry.settled) else {
            return Settled::NotOpen;
        };
        entry.settled = true;
        self.unsettled -= 1;
        let before = self.entries.len();
        while self.entries.front().is_some_and(|entry| entry.settled) {
            self.entries.pop_front();
        }
        if self.entries.len() < before {
            Settled::Prefix
        } else {
            Settled::Beyond
        }
    }

    /// Says that no further seq will come.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// Gives the end of the settled prefix: every delivered seq below it is settled.
    pub fn upto(&self) -> u64 {
        self.entries.front().map_or(self.next, |entry| entry.seq)
    }

    /// Gives the settled seqs at or above [`upto`](Self::upto) as sorted disjoint ranges of delivered seqs.
    pub fn settled_beyond(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.settled) {
            match ranges.last_mut() {
                Some(last) if last.end == entry.seq => last.end = entry.seq + 1,
                _ => ranges.push(entry.seq..entry.seq + 1),
            }
        }
        ranges
    }

    /// Gives the number of seqs from the first unsettled one to the last delivered one; 0 when all are settled.
    pub fn span(&self) -> usize {
        self.entries.len()
    }

    /// Gives the number of unsettled seqs.
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Gives the first unsettled seq.
    pub fn oldest(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.seq)
    }

    /// Says whether the lane was sealed.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Says whether the lane was sealed and everything in it is settled.
    pub fn is_finished(&self) -> bool {
        self.sealed && self.entries.is_empty()
    }

    fn find(&mut self, seq: u64) -> Option<&mut Entry> {
        // Seqs are mostly dense: the entry stands as far from the first one as the seqs are apart.
        let first = self.entries.front()?.seq;
        let dense = usize::try_from(seq.checked_sub(first)?).ok()?;
        let at = match self.entries.get(dense) {
            Some(entry) if entry.seq == seq => dense,
            _ => self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?,
        };
        self.entries.get_mut(at)
    }
}

/// What [`AckTracker::settle`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The prefix grew.
    Prefix,
    /// The seq settled behind an unsettled one.
    Beyond,
    /// Nothing: the seq was never delivered or settled before.
    NotOpen,
}

#[cfg(test)]
mod tests;
