//! Raw deflate of container blocks, with a hard cap on what comes out.
//!
//! Invariants: never more than the cap is held; the compressed bytes are consumed whole, or the block is refused. The
//! buffer is reused. Must not know framing or schemas.

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
    match (block.len() as u64).checked_sub(used) {
        Some(0) => Ok(()),
        left => Err(DecodeError::trailing(
            place(used),
            format!(
                "{} bytes follow the end of the compressed bytes",
                left.unwrap_or_default()
            ),
        )),
    }
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
