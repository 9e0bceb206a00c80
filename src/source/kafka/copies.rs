//! Where payloads are copied to: memory of settled alerts is used again while it is warm.
//!
//! A large payload in memory that is new each time costs as much in page faults as the copy itself, because the
//! allocator gives freed memory of that size back to the system. So a few buffers of settled alerts are kept.
//!
//! Invariants: what is kept is bounded ([`KEPT_MAX`]); a buffer is in use by one payload at a time. Must not know of
//! messages or lanes.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Most bytes of buffers kept.
const KEPT_MAX: usize = 8 << 20;
/// Smaller payloads are the allocator's; larger ones are rare.
const SIZES: std::ops::RangeInclusive<usize> = (8 << 10)..=(1 << 20);
/// Buffers are made a little larger than asked for, so that the next payload fits too.
const STEP: usize = 16 << 10;

/// The kept buffers. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Copies {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// A payload in a buffer that comes back.
struct Lent {
    buffer: Vec<u8>,
    home: Arc<Mutex<Kept>>,
}

impl Copies {
    /// Copies a payload.
    pub(crate) fn copy(&self, payload: &[u8]) -> Bytes {
        if !SIZES.contains(&payload.len()) {
            return Bytes::copy_from_slice(payload);
        }
        let mut buffer = self.take(payload.len());
        buffer.extend_from_slice(payload);
        Bytes::from_owner(Lent {
            buffer,
            home: self.kept.clone(),
        })
    }

    /// Takes the buffer that came back last, the warmest; one that is too small is let go.
    fn take(&self, bytes: usize) -> Vec<u8> {
        let kept = {
            let mut kept = self.kept.lock();
            let buffer = kept.buffers.pop();
            kept.bytes -= buffer.as_ref().map_or(0, Vec::capacity);
            buffer
        };
        kept.filter(|buffer| buffer.capacity() >= bytes)
            .unwrap_or_else(|| Vec::with_capacity(bytes.next_multiple_of(STEP)))
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut kept = self.home.lock();
        if kept.bytes + buffer.capacity() <= KEPT_MAX {
            kept.bytes += buffer.capacity();
            kept.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_copied_and_its_memory_comes_back_for_the_next() {
        let copies = Copies::default();
        let first = copies.copy(&[1; 20_000]);
        let place = first.as_ptr();
        let shared = first.clone();
        drop(first);
        assert_eq!(copies.kept.lock().buffers.len(), 0, "it is in use");
        drop(shared);
        let second = copies.copy(&[2; 30_000]);
        assert_eq!((second.as_ptr(), &second[..]), (place, &[2; 30_000][..]));
        assert_eq!(copies.copy(b"small"), &b"small"[..]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let copies = Copies::default();
        let many: Vec<Bytes> = (0..400).map(|_| copies.copy(&[0; 50_000])).collect();
        drop(many);
        let kept = copies.kept.lock();
        assert!(kept.bytes <= KEPT_MAX && kept.buffers.len() > 100);
        assert_eq!(kept.bytes, kept.buffers.iter().map(Vec::capacity).sum::<usize>());
    }
}
