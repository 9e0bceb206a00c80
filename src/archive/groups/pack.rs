//! Packing matched alerts into blocks: every n-th, limit, block size, block bytes.
//!
//! Invariants: the same alerts in the same order give the same blocks, however they are cut into feeds; no block is
//! empty, holds more than `block_size` alerts, or more than [`BLOCK_BYTES_MAX`] bytes unless it is a single alert.
//! Must not know of SQL.

/// Most bytes of packets in a block; an alert above it has a block of its own.
pub const BLOCK_BYTES_MAX: i64 = 64 << 20;

/// Which ranks of the matched alerts are taken: those with `rank % n == k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    /// The divisor, at least 1.
    pub n: i64,
    /// The remainder, below `n`.
    pub k: i64,
}

/// The part of a build that is carried from one step to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carry {
    /// How many alerts matched before (their rank in the query's order).
    pub rank: i64,
    /// How many more alerts may be taken; `None` is no limit.
    pub limit_left: Option<i64>,
    /// Alerts taken that do not fill a block yet.
    pub pending: Vec<i64>,
    /// The bytes of their packets.
    pub pending_bytes: i64,
}

/// Packs alerts that come in (jd, id) order.
#[derive(Debug)]
pub struct Packer {
    every: Option<Every>,
    block_size: usize,
    carry: Carry,
    blocks: Vec<Vec<i64>>,
}

impl Packer {
    /// Continues from `carry`.
    pub fn new(every: Option<Every>, block_size: usize, carry: Carry) -> Self {
        Self {
            every,
            block_size: block_size.max(1),
            carry,
            blocks: Vec::new(),
        }
    }

    /// Takes the next matched alert, unless slicing or the limit says no.
    pub fn feed(&mut self, id: i64, bytes: i64) {
        let rank = self.carry.rank;
        self.carry.rank += 1;
        if self.every.is_some_and(|every| rank % every.n != every.k) || self.is_sated() {
            return;
        }
        if let Some(left) = &mut self.carry.limit_left {
            *left -= 1;
        }
        if !self.carry.pending.is_empty() && self.carry.pending_bytes + bytes > BLOCK_BYTES_MAX {
            self.close_block();
        }
        self.carry.pending.push(id);
        self.carry.pending_bytes += bytes;
        if self.carry.pending.len() >= self.block_size {
            self.close_block();
        }
    }

    /// Tells whether the limit is reached: nothing more will be taken.
    pub fn is_sated(&self) -> bool {
        self.carry.limit_left.is_some_and(|left| left <= 0)
    }

    /// Closes the last block: nothing more will come.
    pub fn finish(&mut self) {
        self.close_block();
    }

    /// Gives the closed blocks and what is to be carried to the next step.
    pub fn into_parts(self) -> (Vec<Vec<i64>>, Carry) {
        (self.blocks, self.carry)
    }

    fn close_block(&mut self) {
        if !self.carry.pending.is_empty() {
            self.blocks.push(std::mem::take(&mut self.carry.pending));
            self.carry.pending_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pack(every: Option<Every>, size: usize, limit: Option<i64>, alerts: &[i64], cuts: &[usize]) -> Vec<Vec<i64>> {
        let mut carry = Carry {
            limit_left: limit,
            ..Carry::default()
        };
        let mut all = Vec::new();
        for (number, alert) in alerts.iter().enumerate() {
            let mut packer = Packer::new(every, size, carry);
            packer.feed(number as i64, *alert);
            if !cuts.contains(&number) && number + 1 == alerts.len() {
                packer.finish();
            }
            let (blocks, next) = packer.into_parts();
            all.extend(blocks);
            carry = next;
        }
        let mut last = Packer::new(every, size, carry);
        last.finish();
        all.extend(last.into_parts().0);
        all
    }

    #[test]
    fn a_block_is_bounded_by_bytes_and_a_giant_stands_alone() {
        let mib = 1 << 20;
        assert_eq!(
            pack(None, 10, None, &[30 * mib, 30 * mib, 30 * mib], &[]),
            [vec![0, 1], vec![2]]
        );
        assert_eq!(
            pack(None, 10, None, &[1, 100 * mib, 1], &[]),
            [vec![0], vec![1], vec![2]]
        );
    }

    proptest! {
        #[test]
        fn slices_partition_the_set(len in 0usize..200, n in 1i64..7, size in 1usize..9) {
            let alerts = vec![1i64; len];
            let mut seen: Vec<i64> =
                (0..n).flat_map(|k| pack(Some(Every { n, k }), size, None, &alerts, &[])).flatten().collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..len as i64).collect::<Vec<_>>());
        }

        #[test]
        fn blocks_do_not_depend_on_where_a_step_ended(
            sizes in prop::collection::vec(0i64..(40 << 20), 0..60), size in 1usize..9, limit in prop::option::of(0i64..50)
        ) {
            let stepwise = pack(None, size, limit, &sizes, &[]);
            let mut whole = Packer::new(None, size, Carry { limit_left: limit, ..Carry::default() });
            for (number, bytes) in sizes.iter().enumerate() { whole.feed(number as i64, *bytes); }
            whole.finish();
            let (blocks, carry) = whole.into_parts();
            prop_assert_eq!(&stepwise, &blocks);
            prop_assert!(blocks.iter().all(|b| !b.is_empty() && b.len() <= size) && carry.pending.is_empty());
            let taken: Vec<i64> = blocks.into_iter().flatten().collect();
            let expected = limit.map_or(sizes.len(), |l| sizes.len().min(l as usize));
            prop_assert_eq!(taken, (0..expected as i64).collect::<Vec<_>>());
        }
    }
}
