//! Values to bytes, little endian.
//!
//! Offsets count from the start of the buffer, which is the start of a body (8-aligned), so a
//! finished body can be sent as it is.

use super::signature::alignment;

/// A growing body.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty body.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// An empty body with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer { bytes: Vec::with_capacity(bytes) }
    }

    /// The body.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes back everything after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Zero bytes up to a multiple of `to`, a power of two.
    pub fn align(&mut self, to: usize) -> &mut Writer {
        let padded = self.bytes.len().next_multiple_of(to);
        self.bytes.resize(padded, 0);
        self
    }

    /// `y`
    pub fn byte(&mut self, value: u8) -> &mut Writer {
        self.bytes.push(value);
        self
    }

    /// `b`
    pub fn bool(&mut self, value: bool) -> &mut Writer {
        self.u32(u32::from(value))
    }

    /// `q`
    pub fn u16(&mut self, value: u16) -> &mut Writer {
        self.align(2).raw(&value.to_le_bytes())
    }

    /// `u`
    pub fn u32(&mut self, value: u32) -> &mut Writer {
        self.align(4).raw(&value.to_le_bytes())
    }

    /// `i`
    pub fn i32(&mut self, value: i32) -> &mut Writer {
        self.align(4).raw(&value.to_le_bytes())
    }

    /// `t`
    pub fn u64(&mut self, value: u64) -> &mut Writer {
        self.align(8).raw(&value.to_le_bytes())
    }

    /// `x`
    pub fn i64(&mut self, value: i64) -> &mut Writer {
        self.align(8).raw(&value.to_le_bytes())
    }

    /// `d`
    pub fn f64(&mut self, value: f64) -> &mut Writer {
        self.align(8).raw(&value.to_le_bytes())
    }

    /// `s` and `o`: what the bus calls a text has no NUL in it, so one ends the text here.
    pub fn str(&mut self, value: &str) -> &mut Writer {
        let bytes = value.as_bytes();
        let end = if bytes.contains(&0) { bytes.iter().position(|b| *b == 0) } else { None };
        let bytes = &bytes[..end.unwrap_or(bytes.len())];
        self.u32(u32::try_from(bytes.len()).expect("texts are far below 4 GiB"));
        self.raw(bytes).byte(0)
    }

    /// `g`
    pub fn signature(&mut self, value: &str) -> &mut Writer {
        self.byte(u8::try_from(value.len()).expect("signatures are at most 255 bytes"));
        self.raw(value.as_bytes()).byte(0)
    }

    /// `ay`
    pub fn bytes(&mut self, value: &[u8]) -> &mut Writer {
        self.u32(u32::try_from(value.len()).expect("byte arrays are far below 4 GiB"));
        self.raw(value)
    }

    /// `as`
    pub fn strs<'a>(&mut self, values: impl IntoIterator<Item = &'a str>) -> &mut Writer {
        self.array(b's', |w| {
            for value in values {
                w.str(value);
            }
        })
    }

    /// An array whose elements' type begins with `code`; `fill` writes the elements.
    pub fn array(&mut self, code: u8, fill: impl FnOnce(&mut Writer)) -> &mut Writer {
        let at = self.u32(0).len() - 4;
        let start = self.align(alignment(code)).len();
        fill(self);
        let size = u32::try_from(self.len() - start).expect("arrays are far below 4 GiB");
        self.bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
        self
    }

    /// A structure or a dictionary entry: its fields follow.
    pub fn structure(&mut self) -> &mut Writer {
        self.align(8)
    }

    /// A variant: its value, of this type, follows.
    pub fn variant(&mut self, signature: &str) -> &mut Writer {
        self.signature(signature)
    }

    /// A structure of `u` and `s` that needs `most` bytes at most, padding included: one check for
    /// room instead of one for each piece, for lists of tens of thousands.
    pub fn small_structure(&mut self, most: usize, fill: impl FnOnce(&mut Room<'_>)) {
        let start = self.structure().len();
        self.bytes.resize(start + most, 0);
        let mut room = Room { bytes: &mut self.bytes[start..], used: 0 };
        fill(&mut room);
        let used = room.used;
        self.bytes.truncate(start + used);
    }

    /// Bytes as they are, without padding.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.bytes.extend_from_slice(bytes);
        self
    }
}

/// Zeroed bytes for a structure, 8-aligned.
pub struct Room<'w> {
    bytes: &'w mut [u8],
    used: usize,
}

impl Room<'_> {
    /// `u`
    pub fn u32(&mut self, value: u32) -> &mut Self {
        let at = self.used.next_multiple_of(4);
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.used = at + 4;
        self
    }

    /// `s` and `o` without a NUL in it.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.u32(u32::try_from(value.len()).expect("texts are far below 4 GiB"));
        self.raw(value.as_bytes()).used += 1;
        self
    }

    /// `s` and `o` whose bytes, none of them NUL, `fill` writes.
    pub fn str_with(&mut self, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let from = self.u32(0).used;
        fill(self);
        let len = u32::try_from(self.used - from).expect("texts are far below 4 GiB");
        self.bytes[from - 4..from].copy_from_slice(&len.to_le_bytes());
        self.used += 1;
        self
    }

    /// Bytes as they are, without padding.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.used..][..bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_laid_out_as_the_specification_says() {
        let mut w = Writer::new();
        w.byte(7).array(b'(', |w| {
            w.structure().str("a").u64(1);
        });
        let want = [
            &[7, 0, 0, 0, 16, 0, 0, 0][..], // the array's length follows the padding to 4
            &[1, 0, 0, 0, b'a', 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(w.finish(), want);
    }

    #[test]
    fn an_empty_array_is_padded_to_its_elements() {
        let mut w = Writer::new();
        w.array(b'(', |_| ()).byte(9);
        assert_eq!(w.finish(), [0, 0, 0, 0, 0, 0, 0, 0, 9]);
    }
}
