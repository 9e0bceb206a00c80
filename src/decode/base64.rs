//! Base64 (RFC 4648, padded): bytes in JSON, and a registry's credentials.
//!
//! Must not know what is encoded.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let padded = chunk.iter().chain(std::iter::repeat(&0)).take(3);
        let word = padded.fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for n in 0..4 {
            let sextet = (word >> (18 - 6 * n)) as usize & 63;
            let letter = ALPHABET.get(sextet).map_or('=', |b| char::from(*b));
            text.push(if n <= chunk.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads_as_the_standard_says() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
