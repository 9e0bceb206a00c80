//! The bitmap of a block: which of its alerts are settled.
//!
//! Invariants: a bit once set stays set; bits at or above the length are never set. Bit `i` is bit `i % 8` of byte
//! `i / 8`, the order in which it is stored. Must not know of SQL, leases or time.

use std::ops::Range;

/// Which alerts of a block are settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    bits: Vec<u8>,
    len: usize,
}

impl Bitmap {
    /// Makes an empty bitmap for `len` alerts.
    pub fn new(len: usize) -> Self {
        Self {
            bits: vec![0; len.div_ceil(8)],
            len,
        }
    }

    /// Reads a stored bitmap; bytes that are missing count as zero, those beyond the length are cut off.
    pub fn from_stored(stored: &[u8], len: usize) -> Self {
        let mut map = Self::new(len);
        for (mine, theirs) in map.bits.iter_mut().zip(stored) {
            *mine = *theirs;
        }
        if let (Some(last), used) = (map.bits.last_mut(), len % 8)
            && used != 0
        {
            *last &= (1u8 << used) - 1;
        }
        map
    }

    /// Gives the bytes as they are stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bits
    }

    /// Gives the number of alerts.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Tells whether the block has no alert at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives the number of settled alerts.
    pub fn count(&self) -> usize {
        self.bits.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Tells whether every alert is settled.
    pub fn is_full(&self) -> bool {
        self.count() == self.len
    }

    /// Tells whether alert `index` is settled; false beyond the end.
    pub fn contains(&self, index: usize) -> bool {
        self.bits
            .get(index / 8)
            .is_some_and(|byte| byte & (1 << (index % 8)) != 0)
    }

    /// Marks alert `index`; ignores what is beyond the end.
    pub fn set(&mut self, index: usize) {
        if index < self.len
            && let Some(byte) = self.bits.get_mut(index / 8)
        {
            *byte |= 1 << (index % 8);
        }
    }

    /// Marks a run of alerts.
    pub fn set_range(&mut self, range: Range<usize>) {
        for index in range.start..range.end.min(self.len) {
            self.set(index);
        }
    }

    /// Gives the alerts not settled yet, at or above `from`, in order.
    pub fn unset_from(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        (from..self.len).filter(|index| !self.contains(*index))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stray_bits_of_a_stored_bitmap_are_cut_off() {
        let map = Bitmap::from_stored(&[0xff, 0xff, 0xff], 10);
        assert_eq!((map.count(), map.is_full(), map.contains(10)), (10, true, false));
        assert_eq!(map.as_bytes(), [0xff, 0x03]);
        assert_eq!(Bitmap::from_stored(&[], 3), Bitmap::new(3));
    }

    proptest! {
        #[test]
        fn a_bitmap_is_a_set(len in 0usize..70, marks in prop::collection::vec(0usize..80, 0..40)) {
            let mut map = Bitmap::new(len);
            let mut set = std::collections::BTreeSet::new();
            for mark in marks {
                map.set(mark);
                if mark < len { set.insert(mark); }
            }
            prop_assert_eq!(map.count(), set.len());
            let stored = Bitmap::from_stored(map.as_bytes(), len);
            prop_assert_eq!(&stored, &map);
            let unset: Vec<_> = stored.unset_from(0).collect();
            prop_assert_eq!(unset, (0..len).filter(|i| !set.contains(i)).collect::<Vec<_>>());
        }
    }
}
