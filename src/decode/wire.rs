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
            _ => self.long_slowly(),
        }
    }

    fn long_slowly(&mut self) -> Result<i64, Fault> {
        let mut value = 0u64;
        for (n, &byte) in self.rest.iter().enumerate().take(10) {
            if n == 9 && byte > 1 {
                return Err(Fault::Varint);
            }
            value |= u64::from(byte & 0x7f) << (7 * n);
            if byte < 0x80 {
                self.rest = self.rest.get(n + 1..).unwrap_or_default();
                return Ok(unzigzag(value));
            }
        }
        Err(if self.rest.len() < 10 {
            Fault::Eof
        } else {
            Fault::Varint
        })
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

    #[inline]
    pub(crate) fn text(&mut self) -> Result<(usize, &'a [u8]), Fault> {
        let before = self.rest;
        let (at, bytes) = self.bytes()?;
        if std::str::from_utf8(bytes).is_err() {
            self.rest = before;
            return Err(Fault::Utf8);
        }
        Ok((at, bytes))
    }
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
        for value in [0, -1, 1, 63, -64, 64, 8191, -8192, 8192, i64::MAX, i64::MIN, 1 << 40] {
            let mut bytes = Vec::new();
            put_long(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.long(), Ok(value));
            assert!(cursor.rest().is_empty());
            for cut in 0..bytes.len() {
                assert_eq!(Cursor::new(&bytes[..cut]).long(), Err(Fault::Eof));
            }
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
