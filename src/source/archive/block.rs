//! One held block: what of it is settled, handed out and left. Pure.
//!
//! Invariants: the bitmap only grows, and holds what was claimed as settled united with what settled since; the counts
//! of dead and missing are absolute and continue from the claim. Must not know of SQL, time or intakes.

use std::ops::Range;

use crate::archive::groups::bitmap::Bitmap;
use crate::archive::groups::{BlockState, Claim};

/// A claim that returned `barren` above this is worked carefully until the block is done.
pub(super) const BARREN_MAX: i16 = 3;

/// The progress of one held block.
#[derive(Debug)]
pub(super) struct Progress {
    claim: Claim,
    /// Stored as settled.
    done: Bitmap,
    /// Stored as dead letters.
    dead: i32,
    /// Places found without an alert, in this claim.
    missing: Vec<usize>,
    /// In careful mode: the place handed out last, and how often it was before.
    trying: Option<(i32, i16)>,
}

impl Progress {
    pub(super) fn new(claim: Claim) -> Self {
        let trying = claim.trying.map(|index| (index, claim.kills));
        Self {
            done: claim.done.clone(),
            dead: claim.dead,
            missing: Vec::new(),
            trying,
            claim,
        }
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Tells whether it is worked carefully.
    pub(super) fn is_careful(&self) -> bool {
        self.claim.barren > BARREN_MAX
    }

    /// Gives the places to be handed out, and their alerts' numbers, in order.
    pub(super) fn open_places(&self, from: usize) -> Vec<(usize, i64)> {
        self.claim
            .ids
            .iter()
            .copied()
            .enumerate()
            .skip(from)
            .filter(|(index, _)| !self.done.contains(*index))
            .collect()
    }

    /// Tells whether the alert at `index` has killed its consumer often enough to be a dead letter.
    pub(super) fn is_killer(&self, index: usize) -> bool {
        self.is_careful() && self.claim.kills >= 1 && self.claim.trying.is_some_and(|trying| as_place(trying) == index)
    }

    /// Notes that the alert at `index` is handed out next.
    pub(super) fn try_next(&mut self, index: usize) {
        let again = self.claim.trying.is_some_and(|trying| as_place(trying) == index);
        let kills = if again { self.claim.kills.saturating_add(1) } else { 0 };
        self.trying = Some((i32::try_from(index).unwrap_or(i32::MAX), kills));
    }

    /// Notes that there is no alert at `index` any more.
    pub(super) fn miss(&mut self, index: usize) {
        self.missing.push(index);
    }

    /// Gives the block as it is to be stored once everything below `upto` and in `beyond` is settled, `rejected` more
    /// of them as dead letters.
    pub(super) fn after(&self, upto: u64, beyond: &[Range<u64>], rejected: usize) -> BlockState {
        let mut state = self.state();
        // Places below `upto` were settled before the claim, or handed out or found missing since: all are settled.
        state.done.set_range(0..as_len(upto));
        for range in beyond {
            state.done.set_range(as_len(range.start)..as_len(range.end));
        }
        let missing = self.missing.iter().filter(|index| state.done.contains(**index)).count();
        state.missing = self
            .claim
            .missing
            .saturating_add(i32::try_from(missing).unwrap_or(i32::MAX));
        state.dead = self.dead.saturating_add(i32::try_from(rejected).unwrap_or(i32::MAX));
        // Its settlement clears it.
        state.trying = self.trying.filter(|(index, _)| !state.done.contains(as_place(*index)));
        state
    }

    /// Notes that this is stored.
    pub(super) fn stored(&mut self, state: &BlockState) {
        self.done = state.done.clone();
        self.dead = state.dead;
        self.trying = state.trying;
    }

    /// Gives the block as it is stored, but for a note of what is tried.
    pub(super) fn state(&self) -> BlockState {
        let missing = self.missing.iter().filter(|index| self.done.contains(**index)).count();
        BlockState {
            id: self.claim.id,
            generation: self.claim.generation,
            block_seq: self.claim.block_seq,
            lease: self.claim.lease,
            done: self.done.clone(),
            dead: self.dead,
            missing: self
                .claim
                .missing
                .saturating_add(i32::try_from(missing).unwrap_or(i32::MAX)),
            trying: self.trying,
        }
    }
}

fn as_place(index: i32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn as_len(seq: u64) -> usize {
    usize::try_from(seq).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn claim(len: usize, done: &[usize]) -> Claim {
        let mut map = Bitmap::new(len);
        done.iter().for_each(|index| map.set(*index));
        Claim {
            id: 1,
            generation: 1,
            block_seq: 0,
            lease: Uuid::nil(),
            barren: 1,
            trying: None,
            kills: 0,
            done: map,
            dead: 2,
            missing: 1,
            ids: (100..100 + len as i64).collect(),
        }
    }

    #[test]
    fn what_was_settled_before_the_claim_is_kept_and_not_handed_out() {
        let mut block = Progress::new(claim(6, &[0, 3, 4]));
        assert_eq!(block.open_places(0), [(1, 101), (2, 102), (5, 105)]);
        block.miss(2);
        let beyond = std::iter::once(5..6).collect::<Vec<_>>();
        let state = block.after(2, &beyond, 1);
        let bits: Vec<usize> = (0..6).filter(|i| state.done.contains(*i)).collect();
        assert_eq!((bits, state.dead, state.missing), (vec![0, 1, 3, 4, 5], 3, 1));
        block.stored(&state);
        let state = block.after(6, &[], 0);
        assert!(state.done.is_full());
        assert_eq!((state.dead, state.missing), (3, 2));
    }

    #[test]
    fn an_alert_is_a_killer_only_at_its_third_careful_death() {
        let mut first = claim(4, &[]);
        first.barren = 4;
        let mut block = Progress::new(first.clone());
        assert!(block.is_careful() && !block.is_killer(0));
        block.try_next(0);
        assert_eq!(block.state().trying, Some((0, 0)));
        let mut second = Claim {
            barren: 5,
            trying: Some(0),
            kills: 0,
            ..first.clone()
        };
        let mut block = Progress::new(second.clone());
        assert!(!block.is_killer(0));
        block.try_next(0);
        assert_eq!(block.state().trying, Some((0, 1)));
        second = Claim {
            barren: 6,
            trying: Some(0),
            kills: 1,
            ..first
        };
        let block = Progress::new(second);
        assert!(block.is_killer(0) && !block.is_killer(1));
    }

    #[test]
    fn the_settlement_of_what_was_tried_clears_it() {
        let mut claim = claim(4, &[]);
        claim.barren = 4;
        let mut block = Progress::new(claim);
        block.try_next(0);
        assert_eq!(block.after(0, &[], 0).trying, Some((0, 0)));
        let state = block.after(1, &[], 0);
        assert_eq!(state.trying, None);
        block.stored(&state);
        block.try_next(1);
        assert_eq!(block.state().trying, Some((1, 0)));
    }
}
