//! Text filters: which blocks cannot contain a literal.
//!
//! Every byte of the text belongs to one of 32 classes (a letter without its case, digits
//! together, and so on). A filter has one bit for each row of three classes, 32,768 in all; a
//! literal can be in a block only if the bits of all its rows are set. It answers for any
//! substring of three bytes or more, whole words or not, with or without regard to case.

use crate::error::Damage;

/// Size of the filter of a block, bytes.
pub const FILTER_BYTES: usize = 1 << 12;

/// Bits of a class.
const CLASS_BITS: u32 = 5;

const DIGIT: u8 = 26;
const BLANK: u8 = 27;
const SLASH: u8 = 28;
const JOINER: u8 = 29;
const OTHER: u8 = 30;
const FOREIGN: u8 = 31;

/// Class of every byte.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = class(byte as u8);
        byte += 1;
    }
    all
}

const fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => byte - b'a',
        b'A'..=b'Z' => byte - b'A',
        b'0'..=b'9' => DIGIT,
        b' ' | b'\t' | b'\n' | b'\r' => BLANK,
        b'/' | b'\\' => SLASH,
        b'-' | b'_' | b'.' => JOINER,
        0x80.. => FOREIGN,
        _ => OTHER,
    }
}

fn rows_of_three(text: &[u8]) -> impl Iterator<Item = usize> {
    const MASK: u32 = (1 << (3 * CLASS_BITS)) - 1;
    let mut window = 0u32;
    let windows = text.iter().map(move |&byte| {
        window = (window << CLASS_BITS | u32::from(CLASSES[usize::from(byte)])) & MASK;
        window as usize
    });
    windows.skip(2)
}

/// Appends the filter of a block's text.
pub fn put_filter(out: &mut Vec<u8>, text: &[u8]) {
    // A byte for each bit first: setting a bit of a byte would wait for the one before.
    let mut seen = [0u8; 8 * FILTER_BYTES];
    rows_of_three(text).for_each(|bit| seen[bit] = 1);
    let pack = |byte: &[u8; 8]| (0..8).fold(0, |all, bit| all | byte[bit] << bit);
    out.extend(seen.as_chunks().0.iter().map(pack));
}

/// The filters of all blocks of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filters(Vec<u8>);

impl Filters {
    /// Takes unpacked filters of so many blocks.
    pub fn new(raw: Vec<u8>, blocks: usize) -> Result<Filters, Damage> {
        match raw.len() == blocks * FILTER_BYTES {
            true => Ok(Filters(raw)),
            false => Err(Damage("not one text filter for each block")),
        }
    }

    /// All bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// False when the block's text cannot contain the literal, in whatever case.
    pub fn may_contain(&self, block: usize, literal: &[u8]) -> bool {
        let filter = &self.0[block * FILTER_BYTES..][..FILTER_BYTES];
        rows_of_three(literal).all(|bit| filter[bit / 8] & 1 << (bit % 8) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, literal: &str, expected: bool) {
        let mut raw = Vec::new();
        put_filter(&mut raw, b"something else");
        put_filter(&mut raw, text.as_bytes());
        let filters = Filters::new(raw, 2).expect("two filters");
        assert_eq!(filters.may_contain(1, literal.as_bytes()), expected, "{literal} in {text}");
    }

    #[test]
    fn a_literal_that_is_there_is_never_denied() {
        let text = "Connection refused by 10.0.0.7:443 (é) [a_b-c]\t/var/log";
        for from in 0..text.len() {
            for to in from..=text.len() {
                if text.is_char_boundary(from) && text.is_char_boundary(to) {
                    check(text, &text[from..to], true);
                    check(text, &text[from..to].to_uppercase(), true);
                }
            }
        }
    }

    #[test]
    fn most_that_is_not_there_is_denied() {
        check("connection refused", "accepted", false);
        check("connection refused", "zzz", false);
        check("connection refused", "12", true);
        check("", "abc", false);
    }

    #[test]
    fn the_number_of_filters_is_checked() {
        assert!(Filters::new(vec![0; FILTER_BYTES], 2).is_err());
    }
}
