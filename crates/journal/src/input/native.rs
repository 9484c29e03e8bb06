//! The native protocol: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.
//!
//! A datagram (or a sealed memfd) is one entry or several with an empty line between them. A
//! field is `NAME=value` and a newline, or `NAME`, a newline, 64 bits of length, the value and a
//! newline.

use crate::entry::{ENTRY_BYTES_MAX, ENTRY_FIELDS_MAX, Fields, is_valid_name};

/// What a datagram gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// Entries with at least one field.
    pub entries: Vec<Fields>,
    /// Fields and entries that were left out: bad or reserved names, too many, too large.
    pub refused: usize,
}

/// Reads a datagram. What follows a fault in the framing (a field without its newline is one, too) is
/// lost; what came before is kept.
pub fn parse(data: &[u8]) -> Parsed {
    let mut entries = Vec::new();
    let refused = each(data, &mut Fields::new(), |fields| entries.push(fields.clone()));
    Parsed { entries, refused }
}

/// As [`parse`], with each entry put into `entry` in turn. Says how much was left out.
pub fn each(mut data: &[u8], entry: &mut Fields, mut take: impl FnMut(&Fields)) -> usize {
    let mut refused = 0;
    let mut finish = |entry: &mut Fields| {
        if !entry.is_empty() {
            take(entry);
            entry.clear();
        }
    };
    entry.clear();
    while !data.is_empty() {
        let Some(end) = memchr::memchr(b'\n', data) else {
            refused += 1;
            break;
        };
        let (line, rest) = (&data[..end], &data[end + 1..]);
        if line.is_empty() {
            finish(entry);
            data = rest;
        } else if line[0] == b'.' || line[0] == b'#' {
            data = rest;
        } else if let Some(equals) = line.iter().position(|byte| *byte == b'=') {
            refused += usize::from(!add(entry, &line[..equals], &line[equals + 1..]));
            data = rest;
        } else if let Some((value, rest)) = take_sized(rest) {
            refused += usize::from(!add(entry, line, value));
            data = rest;
        } else {
            refused += 1;
            break;
        }
    }
    finish(entry);
    refused
}

/// A length, so many bytes and a newline.
fn take_sized(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    Some((value, rest.strip_prefix(b"\n")?))
}

/// False when the field is not one that a client may set, or one too many.
fn add(entry: &mut Fields, name: &[u8], value: &[u8]) -> bool {
    let ours = is_valid_name(name) && name[0] != b'_';
    let fits = entry.len() < ENTRY_FIELDS_MAX
        && entry.bytes_len() + name.len() + value.len() <= ENTRY_BYTES_MAX / 2;
    if ours && fits {
        entry.push(name, value);
    }
    ours && fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data: &[u8], expected: &[&[(&str, &str)]], refused: usize) {
        let entries: Vec<Fields> =
            expected.iter().map(|entry| entry.iter().copied().collect()).collect();
        assert_eq!(parse(data), Parsed { entries, refused }, "{}", data.escape_ascii());
    }

    #[test]
    fn entries_and_fields() {
        check(b"A=1\nB=2\n", &[&[("A", "1"), ("B", "2")]], 0);
        check(b"A=1\nA=2\n", &[&[("A", "1"), ("A", "2")]], 0);
        check(b"A=1\n\nA=2\n\n\n", &[&[("A", "1")], &[("A", "2")]], 0);
        check(b"A\n\x05\0\0\0\0\0\0\0a\nb=c\nB=2\n", &[&[("A", "a\nb=c"), ("B", "2")]], 0);
        check(b"#comment\n.x\nA=\n", &[&[("A", "")]], 0);
        check(b"A=b", &[], 1);
        check(b"A=b\nB=c", &[&[("A", "b")]], 1);
        check(b"A=b=c\n", &[&[("A", "b=c")]], 0);
        check(b"", &[], 0);
        check(b"\n\n", &[], 0);
    }

    #[test]
    fn what_is_not_allowed_is_left_out() {
        check(b"_PID=1\nA=1\n", &[&[("A", "1")]], 1);
        check(b"lower=1\n9=2\n=3\nA=1\n", &[&[("A", "1")]], 3);
        check(b"A=1\nB\n\xff\xff\xff\xff\xff\xff\xff\xffxx", &[&[("A", "1")]], 1);
        check(b"A=1\nB\n\x02\0\0\0\0\0\0\0xx", &[&[("A", "1")]], 1);
        check(b"A=1\nB\n\x01", &[&[("A", "1")]], 1);
        let long = format!("{}=1\n", "A".repeat(65));
        check(long.as_bytes(), &[], 1);
    }

    #[test]
    fn fields_are_bounded() {
        let parsed = parse("A=1\n".repeat(ENTRY_FIELDS_MAX + 3).as_bytes());
        assert_eq!((parsed.entries[0].len(), parsed.refused), (ENTRY_FIELDS_MAX, 3));
    }
}
