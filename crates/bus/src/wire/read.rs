//! Bytes to values, either byte order.

use super::signature::{alignment, type_end};
use super::{MAX_DEPTH, WireError};

/// A place in a body.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

type Read<T> = Result<T, WireError>;

impl<'a> Reader<'a> {
    /// Reads `bytes`, which begin at an 8-aligned place of the message.
    pub fn new(bytes: &'a [u8], big_endian: bool) -> Reader<'a> {
        Reader { bytes, at: 0, big_endian }
    }

    /// Offset of the next value, before padding.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether everything was read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Skips padding up to a multiple of `to`.
    pub fn align(&mut self, to: usize) -> Read<()> {
        let padding = self.at.next_multiple_of(to) - self.at;
        match self.take(padding)?.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(WireError::Malformed),
        }
    }

    /// `y`
    pub fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    /// `b`
    pub fn bool(&mut self) -> Read<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Malformed),
        }
    }

    /// `q`
    pub fn u16(&mut self) -> Read<u16> {
        self.align(2)?;
        let bytes = self.take(2)?.try_into().expect("two were taken");
        Ok(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    /// `u`
    pub fn u32(&mut self) -> Read<u32> {
        self.align(4)?;
        let bytes = self.take(4)?.try_into().expect("four were taken");
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// `i`
    pub fn i32(&mut self) -> Read<i32> {
        self.u32().map(u32::cast_signed)
    }

    /// `t`
    pub fn u64(&mut self) -> Read<u64> {
        self.align(8)?;
        let bytes = self.take(8)?.try_into().expect("eight were taken");
        Ok(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// `s` and `o`
    pub fn str(&mut self) -> Read<&'a str> {
        let len = self.u32()? as usize;
        self.text(len)
    }

    /// `g`
    pub fn signature(&mut self) -> Read<&'a str> {
        let len = usize::from(self.byte()?);
        let text = self.text(len)?;
        if super::is_valid(text) { Ok(text) } else { Err(WireError::Signature) }
    }

    /// `as`
    pub fn strs(&mut self) -> Read<Vec<&'a str>> {
        self.array(b's', |r| r.str())
    }

    /// `ay`
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// An array whose elements' type begins with `code`; `element` reads one.
    pub fn array<T>(
        &mut self,
        code: u8,
        mut element: impl FnMut(&mut Reader<'a>) -> Read<T>,
    ) -> Read<Vec<T>> {
        let size = self.u32()? as usize;
        self.align(alignment(code))?;
        let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(WireError::Truncated)?;
        let mut out = Vec::new();
        while self.at < end {
            out.push(element(self)?);
        }
        if self.at == end { Ok(out) } else { Err(WireError::Malformed) }
    }

    /// Reads one value of the first type of `signature` and forgets it.
    pub fn skip(&mut self, signature: &str) -> Read<()> {
        self.skip_at(signature.as_bytes(), 0, 0).map(drop)
    }

    /// Skips a value whose type begins at `at`; gives where that type ends. What was read says so: of
    /// a type's end only that of an empty array is looked for.
    fn skip_at(&mut self, codes: &[u8], at: usize, depth: u32) -> Read<usize> {
        if depth > MAX_DEPTH {
            return Err(WireError::TooDeep);
        }
        match *codes.get(at).ok_or(WireError::Signature)? {
            b'a' => return self.skip_elements(codes, at + 1, depth + 1),
            b'(' | b'{' => return self.skip_fields(codes, at + 1, depth + 1),
            b'y' => self.byte().map(drop),
            b'b' => self.bool().map(drop),
            b'n' | b'q' => self.align(2).and_then(|()| self.take(2)).map(drop),
            b'i' | b'u' | b'h' => self.u32().map(drop),
            b'x' | b't' | b'd' => self.u64().map(drop),
            b's' | b'o' => self.str().map(drop),
            b'g' => self.signature().map(drop),
            b'v' => {
                let inner = self.signature()?;
                self.skip_at(inner.as_bytes(), 0, depth + 1).map(drop)
            }
            _ => Err(WireError::Signature),
        }?;
        Ok(at + 1)
    }

    fn skip_elements(&mut self, codes: &[u8], at: usize, depth: u32) -> Read<usize> {
        let code = *codes.get(at).ok_or(WireError::Signature)?;
        let mut end = None;
        self.array(code, |r| {
            end = Some(r.skip_at(codes, at, depth)?);
            Ok(())
        })?;
        // A dictionary's entry is a type in an array alone.
        end.map_or_else(|| type_end(codes, at - 1, depth), Ok)
    }

    fn skip_fields(&mut self, codes: &[u8], first: usize, depth: u32) -> Read<usize> {
        self.align(8)?;
        let mut at = first;
        while !matches!(codes.get(at), Some(b')' | b'}')) {
            at = self.skip_at(codes, at, depth)?;
        }
        Ok(at + 1)
    }

    fn text(&mut self, len: usize) -> Read<&'a str> {
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| WireError::Text)?;
        if text.contains('\0') || self.byte()? != 0 {
            return Err(WireError::Text);
        }
        Ok(text)
    }

    fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let end = self.at.checked_add(len).ok_or(WireError::Truncated)?;
        let out = self.bytes.get(self.at..end).ok_or(WireError::Truncated)?;
        self.at = end;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut w = Writer::new();
        w.str("ab").bool(true).strs(["x", "yz"]).u64(5).structure().byte(1).variant("s").str("v");
        let bytes = w.finish();
        let mut r = Reader::new(&bytes, false);
        assert_eq!((r.str(), r.bool()), (Ok("ab"), Ok(true)));
        assert_eq!((r.strs(), r.u64()), (Ok(vec!["x", "yz"]), Ok(5)));
        assert_eq!((r.skip("(yv)"), r.is_at_end()), (Ok(()), true));
    }

    #[test]
    fn every_cut_of_a_value_is_an_error_and_no_panic() {
        let mut w = Writer::new();
        w.array(b'(', |w| {
            w.structure().str("name").variant("a{sv}").array(b'{', |w| {
                w.structure().str("k").variant("u").u32(1);
            });
        });
        let bytes = w.finish();
        for cut in 0..bytes.len() {
            assert!(Reader::new(&bytes[..cut], false).skip("a(sv)").is_err(), "cut at {cut}");
        }
        assert_eq!(Reader::new(&bytes, false).skip("a(sv)"), Ok(()));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        assert_eq!(Reader::new(&[255; 8], false).str(), Err(WireError::Truncated));
        assert_eq!(Reader::new(&[255; 8], false).strs(), Err(WireError::Truncated));
        assert_eq!(Reader::new(&[0, 0, 0, 2], true).bool(), Err(WireError::Malformed));
        assert_eq!(Reader::new(&[0, 0, 0, 1, 0xff, 0], true).str(), Err(WireError::Text));
    }

    #[test]
    fn values_are_skipped_whole_empty_arrays_in_them_or_not() {
        let mut w = Writer::new();
        w.array(b'(', |w| {
            for filled in [false, true] {
                w.structure().array(b'(', |w| {
                    if filled {
                        w.structure().strs(["x"]).strs([]);
                    }
                });
                w.u32(1).strs([]);
            }
        });
        w.str("behind");
        let bytes = w.finish();
        let mut r = Reader::new(&bytes, false);
        assert_eq!(r.skip("a(a(asas)uas)"), Ok(()));
        assert_eq!((r.str(), r.is_at_end()), (Ok("behind"), true));
        assert_eq!(Reader::new(&bytes, false).skip("a(a(asas)uas"), Err(WireError::Signature));
        let mut w = Writer::new();
        w.array(b'{', |_| {}).array(b'a', |w| _ = w.array(b'{', |_| {})).str("behind");
        let bytes = w.finish();
        let mut r = Reader::new(&bytes, false);
        assert_eq!((r.skip("a{sa{sv}}"), r.skip("aa{sv}")), (Ok(()), Ok(())));
        assert_eq!((r.str(), r.is_at_end()), (Ok("behind"), true));
    }

    #[test]
    fn variants_in_variants_end_at_the_limit() {
        let deep = b"\x01v\0".repeat(1000);
        assert_eq!(Reader::new(&deep, false).skip("v"), Err(WireError::TooDeep));
    }
}
