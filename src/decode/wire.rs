//! Avro's primitive encodings on a slice: strict, bounded, without allocation.
//!
//! Invariants: a cursor never moves past its end, and on a fault stays where the value began, so that the caller can
//! name the place. Must not know schemas or framing.

/// Why a value could not be read. Small on purpose: results travel in registers; the text is made where it is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The bytes end inside the value.
    Eof,
    /// A varint of more than ten bytes, or one that overflows 64 bits.
    Varint,
    /// An `int` outside of 32 bits.
    IntRange,
    /// A string that is not UTF-8.
    Utf8,
    /// A union index that the union does not have.
    Union,
    /// A boolean that is neither 0 nor 1.
    Boolean,
    /// An enum index that the enum does not have.
    Enum,
    /// A negative length.
    Negative,
    /// A block of an array or map whose byte size is not what its items take.
    BlockSize,
    /// More steps than the budget of the payload's length.
    Steps,
    /// Not a fault: everything wanted has been read.
    Stop,
}

/// A place in a slice.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
        }
    }

    /// Makes a cursor on `bytes` that stands at `at`, or at the end.
    pub(crate) fn starting_at(bytes: &'a [u8], at: usize) -> Self {
        Self {
            rest: bytes.get(at..).unwrap_or_default(),
            total: bytes.len(),
        }
    }

    /// Gives the offset from the beginning, bytes.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.total - self.rest.len()
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn long(&mut self) -> Result<i64, Fault> {
        match self.rest {
            [a, rest @ ..] if *a < 0x80 => {
                self.rest = rest;
                Ok(unzigzag(u64::from(*a)))
            }
            [a, b, rest @ ..] if *b < 0x80 => {
                self.rest = rest;
                Ok(unzigzag(u64::from(*a & 0x7f) | u64::from(*b) << 7))
            }
            _ => self.long_of_many_bytes(),
        }
    }

    /// Reads a varint of up to ten bytes: the first eight at once, their groups of seven bits moved together in steps.
    fn long_of_many_bytes(&mut self) -> Result<i64, Fault> {
        let Some((first, rest)) = self.rest.split_first_chunk::<8>() else {
            return self.long_at_the_end();
        };
        let word = u64::from_le_bytes(*first);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            let bits = ends.trailing_zeros() + 1;
            self.rest = self.rest.get(bits as usize / 8..).unwrap_or_default();
            return Ok(unzigzag(joined(word & (u64::MAX >> (64 - bits)))));
        }
        let low = joined(word);
        match rest {
            [a, rest @ ..] if *a < 0x80 => {
                self.rest = rest;
                Ok(unzigzag(low | u64::from(*a) << 56))
            }
            // The tenth byte has room for one bit.
            [a, b, rest @ ..] if *b <= 1 => {
                self.rest = rest;
                Ok(unzigzag(low | u64::from(*a & 0x7f) << 56 | u64::from(*b) << 63))
            }
            [_, _, ..] => Err(Fault::Varint),
            _ => Err(Fault::Eof),
        }
    }

    /// Reads a varint from the last seven bytes or fewer.
    #[cold]
    fn long_at_the_end(&mut self) -> Result<i64, Fault> {
        let mut value = 0u64;
        for (n, &byte) in self.rest.iter().enumerate().take(7) {
            value |= u64::from(byte & 0x7f) << (7 * n);
            if byte < 0x80 {
                self.rest = self.rest.get(n + 1..).unwrap_or_default();
                return Ok(unzigzag(value));
            }
        }
        Err(Fault::Eof)
    }

    #[inline]
    pub(crate) fn int(&mut self) -> Result<i32, Fault> {
        let before = self.rest;
        let value = self.long()?;
        i32::try_from(value).map_err(|_| {
            self.rest = before;
            Fault::IntRange
        })
    }

    #[inline]
    pub(crate) fn boolean(&mut self) -> Result<bool, Fault> {
        match self.rest {
            [byte @ (0 | 1), rest @ ..] => {
                self.rest = rest;
                Ok(*byte == 1)
            }
            [_, ..] => Err(Fault::Boolean),
            [] => Err(Fault::Eof),
        }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Fault::Eof)?;
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(Fault::Eof)?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads a length and that many bytes; gives the offset of the first and the bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<(usize, &'a [u8]), Fault> {
        let before = self.rest;
        let read = self.long().and_then(|len| {
            let len = usize::try_from(len).map_err(|_| Fault::Negative)?;
            let at = self.at();
            Ok((at, self.take(len)?))
        });
        if read.is_err() {
            self.rest = before;
        }
        read
    }

    /// Reads the index of a union of null and another; tells whether it is the other. `null` is null's byte on the wire.
    #[inline(always)]
    pub(crate) fn is_value(&mut self, null: u8) -> Result<bool, Fault> {
        match self.rest {
            [tag, rest @ ..] if *tag == null ^ 2 => {
                self.rest = rest;
                Ok(true)
            }
            [tag, rest @ ..] if *tag == null => {
                self.rest = rest;
                Ok(false)
            }
            _ => self.is_value_slowly(null),
        }
    }

    /// An index of more bytes than it needs is odd, and still an index.
    #[cold]
    fn is_value_slowly(&mut self, null: u8) -> Result<bool, Fault> {
        let before = self.rest;
        match self.long()? {
            0 => Ok(null != 0),
            1 => Ok(null == 0),
            _ => {
                self.rest = before;
                Err(Fault::Union)
            }
        }
    }

    /// Reads null or a value.
    #[inline(always)]
    pub(crate) fn opt(
        &mut self,
        null: u8,
        value: impl FnOnce(&mut Self) -> Result<u64, Fault>,
    ) -> Result<Option<u64>, Fault> {
        if self.is_value(null)? {
            value(self).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads null or a float: most of an alert is this.
    #[inline(always)]
    pub(crate) fn opt_float(&mut self, null: u8) -> Result<Option<u64>, Fault> {
        match self.rest {
            [tag, a, b, c, d, rest @ ..] if *tag == null ^ 2 => {
                self.rest = rest;
                Ok(Some(u64::from(u32::from_le_bytes([*a, *b, *c, *d]))))
            }
            _ => self.opt(null, |c| c.array().map(|b| u64::from(u32::from_le_bytes(b)))),
        }
    }

    /// Reads null or a double.
    #[inline(always)]
    pub(crate) fn opt_double(&mut self, null: u8) -> Result<Option<u64>, Fault> {
        self.opt(null, |c| c.array().map(u64::from_le_bytes))
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Result<(usize, &'a [u8]), Fault> {
        let before = self.rest;
        let (at, bytes) = self.bytes()?;
        if !bytes.is_ascii() && std::str::from_utf8(bytes).is_err() {
            self.rest = before;
            return Err(Fault::Utf8);
        }
        Ok((at, bytes))
    }
}

/// Moves eight groups of seven bits together.
#[inline]
fn joined(word: u64) -> u64 {
    let word = word & 0x7f7f_7f7f_7f7f_7f7f;
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    (word & 0x0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4
}

#[inline]
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends a zig-zag varint.
pub(crate) fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longs_survive_the_round_trip() {
        let powers = (0..63).flat_map(|n| [1i64 << n, -(1i64 << n), (1i64 << n) - 1, 0x5555_5555_5555_5555 >> n]);
        for value in powers.chain([0, i64::MAX, i64::MIN]) {
            let mut bytes = Vec::new();
            put_long(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.long(), Ok(value));
            assert!(cursor.rest().is_empty());
            for cut in 0..bytes.len() {
                assert_eq!(Cursor::new(&bytes[..cut]).long(), Err(Fault::Eof));
            }
            bytes.extend([0xff; 12]);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.long(), Ok(value), "with more behind it");
            assert_eq!(cursor.rest(), [0xff; 12]);
        }
    }

    #[test]
    fn varints_of_more_than_64_bits_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(Cursor::new(&bytes).long(), Ok(i64::MIN));
        bytes[9] = 2;
        assert_eq!(Cursor::new(&bytes).long(), Err(Fault::Varint));
        assert_eq!(Cursor::new(&[0x80; 11]).long(), Err(Fault::Varint));
    }
}
