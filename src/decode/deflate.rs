//! Raw deflate of container blocks, with a hard cap on what comes out.
//!
//! Invariants: never more than the cap is held; the compressed bytes are consumed whole, or the block is refused. One
//! exception: fastavro cuts the frame of a zlib stream one byte short, so that three bytes of its checksum follow the
//! raw stream; exactly these are accepted. The buffer is reused. Must not know framing or schemas.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::error::{DecodeError, Place};

const STEP: usize = 64 << 10;

/// Inflates a block that stands at `at` in the payload into `out`, whose former content is dropped.
pub(crate) fn inflate(block: &[u8], at: usize, cap: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let place = |done: u64| Place::payload("deflate block", at + usize::try_from(done).unwrap_or(0));
    let mut inflater = Decompress::new(false);
    out.clear();
    loop {
        let read = inflater.total_in();
        let input = block
            .get(usize::try_from(read).unwrap_or(usize::MAX)..)
            .unwrap_or_default();
        if out.len() > cap {
            return Err(DecodeError::too_large(
                place(read),
                format!("it inflates to more than {cap} bytes"),
            ));
        }
        if out.capacity() - out.len() < STEP {
            // Doubling keeps the copying linear; exact, so that never more than the cap is held.
            let room = out.capacity().max(STEP).min(cap + 1 - out.len());
            out.reserve_exact(room.max(1));
        }
        let before = out.len();
        let status = inflater
            .decompress_vec(input, out, FlushDecompress::None)
            .map_err(|error| DecodeError::damaged(place(inflater.total_in()), error.to_string()))?;
        let stuck = out.len() == before && inflater.total_in() == read;
        match status {
            Status::StreamEnd => break,
            Status::Ok | Status::BufError if !stuck => {}
            _ => {
                return Err(DecodeError::truncated(
                    place(inflater.total_in()),
                    "the compressed bytes end too early",
                ));
            }
        }
    }
    let used = inflater.total_in();
    if out.len() > cap {
        return Err(DecodeError::too_large(
            place(used),
            format!("it inflates to more than {cap} bytes"),
        ));
    }
    let rest = block
        .get(usize::try_from(used).unwrap_or(usize::MAX)..)
        .unwrap_or_default();
    if rest.is_empty() || is_cut_checksum(rest, out) {
        return Ok(());
    }
    let cause = format!("{} bytes follow the end of the compressed bytes", rest.len());
    Err(DecodeError::trailing(place(used), cause))
}

/// Whether these are the first three bytes of the zlib checksum of the datum: fastavro writes `zlib.compress(x)[2:-1]`.
fn is_cut_checksum(rest: &[u8], datum: &[u8]) -> bool {
    rest.len() == 3 && adler32(datum).to_be_bytes().starts_with(rest)
}

/// The checksum of zlib streams (RFC 1950).
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    /// So many bytes may be summed before the sums overflow.
    const RUN: usize = 5552;
    let (mut a, mut b) = (1, 0);
    for run in bytes.chunks(RUN) {
        for byte in run {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    (b << 16) | a
}

/// Compresses one datum.
pub(crate) fn deflate(datum: &[u8]) -> Vec<u8> {
    let mut compressor = Compress::new(Compression::default(), false);
    let mut out = Vec::with_capacity(datum.len() / 2 + 64);
    loop {
        let input = datum
            .get(usize::try_from(compressor.total_in()).unwrap_or(usize::MAX)..)
            .unwrap_or_default();
        match compressor.compress_vec(input, &mut out, FlushCompress::Finish) {
            Ok(Status::StreamEnd) | Err(_) => return out,
            Ok(_) => out.reserve(STEP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datum_survives_the_round_trip() {
        let datum: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        let mut out = Vec::new();
        inflate(&deflate(&datum), 0, 1 << 20, &mut out).unwrap();
        assert_eq!(out, datum);
    }

    #[test]
    fn a_bomb_is_refused_at_the_cap_and_never_held() {
        let bomb = deflate(&vec![0; 8 << 20]);
        let mut out = Vec::new();
        let error = inflate(&bomb, 0, 1 << 20, &mut out).unwrap_err();
        assert_eq!(error.reason(), "too_large");
        assert!(out.capacity() <= (1 << 20) + STEP * 2);
    }

    #[test]
    fn three_bytes_of_the_right_checksum_may_follow_and_nothing_else() {
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        assert_eq!(adler32(&[255; 1 << 20]), 0x8e88_ef11);
        let datum = b"one datum, and some more of it".repeat(400);
        let sum = adler32(&datum).to_be_bytes();
        let mut out = Vec::new();
        let mut with = |tail: &[u8]| inflate(&[deflate(&datum).as_slice(), tail].concat(), 0, 1 << 20, &mut out);
        assert_eq!(with(&sum[..3]), Ok(()));
        for tail in [&sum[..1], &sum[..2], &sum[..], &sum[1..], b"\0\0\0"] {
            assert_eq!(with(tail).unwrap_err().reason(), "trailing_bytes", "{tail:?}");
        }
    }

    #[test]
    fn every_cut_and_any_addition_is_refused() {
        let whole = deflate(b"one datum, and some more of it, and some more of it");
        let mut out = Vec::new();
        for cut in 0..whole.len() {
            assert_eq!(
                inflate(&whole[..cut], 0, 1 << 20, &mut out).unwrap_err().reason(),
                "truncated"
            );
        }
        let more = [whole.as_slice(), b"x"].concat();
        assert_eq!(
            inflate(&more, 0, 1 << 20, &mut out).unwrap_err().reason(),
            "trailing_bytes"
        );
    }
}
