//! What is logged: fields, stamps, and the context that many entries share.

use std::fmt;
use std::sync::Arc;

/// Largest entry, all names and values of its own fields and of its context, in bytes.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// Most fields of an entry's own, and of its context.
pub const ENTRY_FIELDS_MAX: usize = 1024;

/// Longest field name, in bytes; systemd.journal-fields(7).
pub const NAME_BYTES_MAX: usize = 64;

/// A boot, machine, file or sequence id: 128 bits, printed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Id128(pub [u8; 16]);

impl Id128 {
    /// Reads 32 hexadecimal digits, with or without the dashes of a UUID.
    pub fn parse(text: &str) -> Option<Id128> {
        let digits: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
        let mut id = [0; 16];
        if digits.len() != 2 * id.len() {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Some(Id128(id))
    }
}

impl fmt::Display for Id128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names and values in the order given; a name may come twice. One allocation for all bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Of each field: where its name and where its value ends in `bytes`.
    ends: Vec<(u32, u32)>,
}

impl Fields {
    /// No fields.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// Adds a field at the end.
    ///
    /// # Panics
    /// If the sum of all bytes passes 4 GiB; callers keep to [`ENTRY_BYTES_MAX`].
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let place = |at: usize| u32::try_from(at).expect("entries are bounded far below 4 GiB");
        self.bytes.extend_from_slice(name);
        let name_end = place(self.bytes.len());
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, place(self.bytes.len())));
    }

    /// Forgets all fields but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut begin = 0;
        self.ends.iter().map(move |&(name_end, end)| {
            let (name_end, end) = (name_end as usize, end as usize);
            let field = (&self.bytes[begin..name_end], &self.bytes[name_end..end]);
            begin = end;
            field
        })
    }

    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| *n == name.as_bytes()).map(|(_, value)| value)
    }

    /// Where the first value of a field is, for [`Fields::at`].
    pub fn place(&self, name: &str) -> Option<(u32, u32)> {
        let at = self.iter().position(|(n, _)| n == name.as_bytes())?;
        Some(self.ends[at])
    }

    /// The value at a place that [`Fields::place`] gave.
    ///
    /// # Panics
    /// If it was given by other fields.
    pub fn at(&self, (begin, end): (u32, u32)) -> &[u8] {
        &self.bytes[begin as usize..end as usize]
    }

    /// How many fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True without fields.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all names and values.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Fields {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Fields {
        let mut fields = Fields::new();
        pairs.into_iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        fields
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        f.debug_map().entries(self.iter().map(|(name, value)| (text(name), text(value)))).finish()
    }
}

/// When an entry came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Wall clock, µs since 1970.
    pub realtime_us: u64,
    /// Monotonic clock of the boot, µs.
    pub monotonic_us: u64,
    /// Which boot.
    pub boot: Id128,
}

/// One entry as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What its number counts in.
    pub sequence: Id128,
    /// Its place in that sequence: unique, rising, with gaps.
    pub seqnum: u64,
    /// When it came in.
    pub stamp: Stamp,
    /// The trusted fields that it shares with other entries of the same process.
    pub context: Arc<Fields>,
    /// Its own fields.
    pub fields: Fields,
}

impl Entry {
    /// Own fields first, then those of the context.
    pub fn all_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().chain(self.context.iter())
    }

    /// The first value of a field, own or of the context.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(name).or_else(|| self.context.get(name))
    }
}

/// A name that may stand in the store: `A-Z`, `0-9` and `_`, not a digit first, 1 to 64 bytes;
/// `systemd.journal-fields(7)`.
pub fn is_valid_name(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name[0].is_ascii_digit()
        && name.iter().all(|byte| NAME_BYTES[usize::from(*byte)])
}

/// Which bytes a name may have: every name of every entry is looked at.
static NAME_BYTES: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0u8;
    while byte < u8::MAX {
        allowed[byte as usize] = byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        byte += 1;
    }
    allowed
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_order_and_doubles() {
        let fields: Fields = [("A", "1"), ("B", ""), ("A", "2")].into_iter().collect();
        let back: Vec<_> = fields.iter().collect();
        assert_eq!(back, [(&b"A"[..], &b"1"[..]), (b"B", b""), (b"A", b"2")]);
        assert_eq!(fields.get("A"), Some(&b"1"[..]));
        assert_eq!(fields.get("C"), None);
    }

    #[test]
    fn ids_are_read_and_printed() {
        let text = "0123456789abcdef0123456789abcdef";
        assert_eq!(Id128::parse(text).map(|id| id.to_string()).as_deref(), Some(text));
        assert_eq!(Id128::parse("01234567-89ab-cdef-0123-456789abcdef"), Id128::parse(text));
        assert_eq!(Id128::parse("0123"), None);
        assert_eq!(Id128::parse("0123456789abcdef0123456789abcdeg"), None);
    }

    #[test]
    fn names() {
        for (name, valid) in [("A", true), ("_PID", true), ("9A", false), ("a", false), ("", false)]
        {
            assert_eq!(is_valid_name(name.as_bytes()), valid, "{name}");
        }
        assert!(is_valid_name(&[b'A'; 64]) && !is_valid_name(&[b'A'; 65]));
    }
}
