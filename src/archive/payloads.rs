//! Buffers of payloads, lent to packets and taken back when the last holder of a packet lets go of it.
//!
//! A fresh buffer of 70 kB costs a page fault for every 4 kB of it, which is as much as reading the packet; one that a
//! packet just left is in the processor's cache. Invariants: what is kept for the next packets is bounded in bytes and
//! goes with the archive's last handle; a buffer is lent once at a time. Must not know what is in them.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// The most bytes kept for the next packets.
const KEPT_BYTES: usize = 32 << 20;
/// Larger buffers are made for one packet and given up with it.
const BUFFER_MAX: usize = 1 << 20;
/// Capacities are multiples of this, so that the buffer of one packet fits the next.
const GRAIN: usize = 16 << 10;

/// The free buffers of an archive's handles.
#[derive(Debug, Default)]
pub(super) struct Payloads(Mutex<Free>);

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
    /// Puts a packet together from two parts: one copy of each.
    pub(super) fn join(self: &Arc<Self>, first: &[u8], second: &[u8]) -> Bytes {
        let mut bytes = self.take(first.len() + second.len());
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        let home = self.clone();
        Bytes::from_owner(Lent { bytes, home })
    }

    /// Gives an empty buffer of at least this capacity.
    fn take(&self, length: usize) -> Vec<u8> {
        let free = {
            let mut free = self.0.lock();
            let last = free.buffers.pop();
            free.bytes -= last.as_ref().map_or(0, Vec::capacity);
            last
        };
        match free {
            Some(buffer) if buffer.capacity() >= length => buffer,
            _ => Vec::with_capacity(length.next_multiple_of(GRAIN)),
        }
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut free = self.0.lock();
        if buffer.capacity() <= BUFFER_MAX && free.bytes + buffer.capacity() <= KEPT_BYTES {
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
        let free = payloads.0.lock();
        assert_eq!(free.bytes, free.buffers.iter().map(Vec::capacity).sum::<usize>());
        (free.buffers.len(), free.bytes)
    }

    #[test]
    fn a_buffer_comes_back_when_the_last_holder_of_its_packet_lets_go() {
        let payloads = Arc::new(Payloads::default());
        let packet = payloads.join(b"head", b"body");
        let part = packet.slice(4..);
        let other = payloads.join(b"", b"other");
        drop(packet);
        assert_eq!(kept(&payloads).0, 0);
        assert_eq!((&part[..], &other[..]), (&b"body"[..], &b"other"[..]));
        drop(part);
        assert_eq!(kept(&payloads), (1, GRAIN));
        let again = payloads.join(b"", b"again");
        assert_eq!((kept(&payloads).0, &again[..]), (0, &b"again"[..]));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let payloads = Arc::new(Payloads::default());
        drop(payloads.join(&[0; BUFFER_MAX], &[0]));
        assert_eq!(kept(&payloads).0, 0, "too large for the next packet");
        let many: Vec<Bytes> = (0..40).map(|_| payloads.join(&[0; BUFFER_MAX - 1], b"")).collect();
        drop(many);
        assert_eq!(kept(&payloads).1, KEPT_BYTES);
        let larger = payloads.join(&[1; BUFFER_MAX], b"");
        assert_eq!(larger.len(), BUFFER_MAX);
    }
}
