//! Memory of payloads: lent to packets, and taken back when the last holder of a packet lets go of it.
//!
//! A fresh buffer of 70 kB costs a page fault for every 4 kB of it, as much as the copy into it, because the allocator
//! gives freed memory of that size back to the system; one that a packet just left is in the processor's cache.
//! Invariants: what is kept is bounded in bytes and goes with the last handle; a buffer is lent once at a time. Must not
//! know what is in them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Lengths worth it, in bytes: smaller ones the allocator has at hand, larger ones are rare.
const SIZES: RangeInclusive<usize> = (8 << 10)..=(1 << 20);
/// Capacities are multiples of this, so that the buffer of one packet fits the next.
const GRAIN: usize = 16 << 10;

/// The free buffers of one source of payloads.
#[derive(Debug)]
pub(crate) struct Payloads {
    free: Mutex<Free>,
    kept_bytes: usize,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// A buffer on loan.
struct Lent {
    bytes: Vec<u8>,
    home: Arc<Payloads>,
}

impl Payloads {
    /// Keeps at most `kept_bytes` for the payloads to come.
    pub(crate) fn keeping(kept_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::default(),
            kept_bytes,
        })
    }

    /// Copies a payload.
    pub(crate) fn copy(self: &Arc<Self>, payload: &[u8]) -> Bytes {
        self.join(payload, &[])
    }

    /// Puts a payload together from two parts: one copy of each.
    pub(crate) fn join(self: &Arc<Self>, first: &[u8], second: &[u8]) -> Bytes {
        let length = first.len() + second.len();
        let worth_it = SIZES.contains(&length);
        let mut bytes = if worth_it {
            self.take(length)
        } else {
            Vec::with_capacity(length)
        };
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        if !worth_it {
            return bytes.into();
        }
        self.lend(bytes)
    }

    /// Makes a payload, or the memory of several, of a filled buffer that [`take`](Self::take) gave. What fills less
    /// than half of it is copied instead: many payloads may stay, and are charged what they are long.
    pub(crate) fn lend(self: &Arc<Self>, bytes: Vec<u8>) -> Bytes {
        if bytes.len() < bytes.capacity() / 2 {
            let exact = Bytes::copy_from_slice(&bytes);
            self.give_back(bytes);
            return exact;
        }
        let home = self.clone();
        Bytes::from_owner(Lent { bytes, home })
    }

    /// Gives an empty buffer of at least this capacity: the one that came back last, unless it is too small, or so large
    /// that a small payload, which is charged for itself only, would keep much more than itself.
    pub(crate) fn take(&self, length: usize) -> Vec<u8> {
        let last = {
            let mut free = self.free.lock();
            let last = free.buffers.pop();
            free.bytes -= last.as_ref().map_or(0, Vec::capacity);
            last
        };
        let wanted = length.next_multiple_of(GRAIN);
        let fits = length..=wanted.max(2 * length);
        last.filter(|buffer| fits.contains(&buffer.capacity()))
            .unwrap_or_else(|| Vec::with_capacity(wanted))
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut free = self.free.lock();
        if free.bytes + buffer.capacity() <= self.kept_bytes {
            free.bytes += buffer.capacity();
            free.buffers.push(buffer);
        }
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(payloads: &Payloads) -> (usize, usize) {
        let free = payloads.free.lock();
        assert_eq!(free.bytes, free.buffers.iter().map(Vec::capacity).sum::<usize>());
        (free.buffers.len(), free.bytes)
    }

    #[test]
    fn a_buffer_comes_back_when_the_last_holder_of_its_payload_lets_go() {
        let payloads = Payloads::keeping(1 << 20);
        let packet = payloads.join(&[1; 12_000], &[2; 4_000]);
        let place = packet.as_ptr();
        let part = packet.slice(11_999..12_001);
        drop(packet);
        assert_eq!((kept(&payloads).0, &part[..]), (0, &[1, 2][..]));
        drop(part);
        assert_eq!(kept(&payloads), (1, GRAIN));
        let again = payloads.copy(&[3; 10_000]);
        assert_eq!(
            (kept(&payloads).0, again.as_ptr(), &again[..]),
            (0, place, &[3; 10_000][..])
        );
    }

    #[test]
    fn a_small_payload_keeps_no_large_buffer() {
        let payloads = Payloads::keeping(8 << 20);
        // One large packet comes for each small one that stays.
        let mut stay: Vec<Vec<u8>> = Vec::new();
        for _ in 0..20 {
            drop(payloads.copy(&[0; 1 << 20]));
            stay.push(payloads.take(GRAIN));
        }
        let kept: usize = stay.iter().map(Vec::capacity).sum();
        assert!(kept <= 20 * 2 * GRAIN, "{kept}");
    }

    #[test]
    fn what_is_lent_is_at_most_twice_what_is_in_it() {
        let payloads = Payloads::keeping(1 << 20);
        let filled = |length: usize| {
            let mut buffer = payloads.take(GRAIN);
            buffer.resize(length, 7);
            payloads.lend(buffer)
        };
        let little = filled(100);
        assert_eq!((&little[..], kept(&payloads)), (&[7; 100][..], (1, GRAIN)));
        let much = filled(GRAIN - 100);
        assert_eq!((much.len(), kept(&payloads).0), (GRAIN - 100, 0));
        drop((little, payloads.copy(&[0; 1 << 18])));
        assert_eq!(kept(&payloads), (1, 1 << 18));
        drop(payloads.copy(&[0; 10_000]));
        assert_eq!(
            kept(&payloads),
            (1, GRAIN),
            "the large one is not kept from others by a small payload"
        );
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let payloads = Payloads::keeping(8 << 20);
        let many: Vec<Bytes> = (0..40).map(|_| payloads.copy(&[0; 1 << 20])).collect();
        drop(many);
        assert_eq!(kept(&payloads).1, 8 << 20);
        for length in [0, 5, 100, (1 << 20) + 1] {
            assert_eq!(payloads.join(&vec![1; length], b"").len(), length, "the allocator's");
        }
        assert_eq!(kept(&payloads).1, 8 << 20);
    }
}
