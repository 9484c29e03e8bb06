//! Numbers and byte strings, written and read back without trust.
//!
//! Variable-length numbers are LEB128: seven bits a byte, the lowest first, the top bit set on
//! all but the last. Signed ones are zigzag-coded first.

use crate::error::Damage;

/// Longest variable-length number, in bytes: 64 bits by seven.
const VARINT_BYTES_MAX: u32 = 10;

/// Appends a number, shortest form.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a difference that may be negative; wraps like the subtraction that made it.
pub fn put_delta(out: &mut Vec<u8>, value: u64, before: u64) {
    let delta = value.wrapping_sub(before) as i64;
    put_varint(out, ((delta << 1) ^ (delta >> 63)) as u64);
}

/// Appends a length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from a slice; every method fails with [`Damage`] instead of reading past its end.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Damage("ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// An array of fixed length.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Damage("ends too early"))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, Damage> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, Damage> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A variable-length number.
    pub fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0u64;
        for place in 0..VARINT_BYTES_MAX {
            let (&byte, rest) = self.rest.split_first().ok_or(Damage("ends too early"))?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if place == VARINT_BYTES_MAX - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damage("a number of more than 64 bits"))
    }

    /// A number that counts things of at least one byte each, or an index, so it has a bound.
    pub fn bounded(&mut self, max: usize) -> Result<usize, Damage> {
        match usize::try_from(self.varint()?) {
            Ok(value) if value <= max => Ok(value),
            _ => Err(Damage("number out of bounds")),
        }
    }

    /// A number of things that each take at least one byte of what is left.
    pub fn count(&mut self) -> Result<usize, Damage> {
        self.bounded(self.rest.len())
    }

    /// The value that [`put_delta`] wrote against `before`.
    pub fn delta(&mut self, before: u64) -> Result<u64, Damage> {
        let coded = self.varint()?;
        let delta = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        Ok(before.wrapping_add(delta as u64))
    }

    /// A length and the bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        let count = self.count()?;
        self.take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX - (1 << shift)] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                put_delta(&mut out, value, 77);
                put_delta(&mut out, 77, value);
                let mut input = Input::new(&out);
                assert_eq!(input.varint(), Ok(value));
                assert_eq!(input.delta(77), Ok(value));
                assert_eq!(input.delta(value), Ok(77));
                assert!(input.rest().is_empty());
            }
        }
    }

    #[test]
    fn what_is_too_long_or_too_short_is_damage() {
        assert!(Input::new(&[0x80; 10]).varint().is_err());
        assert!(
            Input::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2])
                .varint()
                .is_err()
        );
        assert!(Input::new(&[0x80]).varint().is_err());
        assert!(Input::new(&[5, 1]).bytes().is_err());
        assert!(Input::new(&[3]).bounded(2).is_err());
    }
}
