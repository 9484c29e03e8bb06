//! The native protocol: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.
//!
//! A datagram (or a sealed memfd) is one entry or several with an empty line between them. A
//! field is `NAME=value` and a newline, or `NAME`, a newline, 64 bits of length, the value and a
//! newline.

use crate::input::loss::{Kind, MessageLosses};
use warren_log_store::entry::{
    ENTRY_BYTES_MAX, ENTRY_FIELDS_MAX, Fields, NAME_BYTES_MAX, is_valid_name,
};

/// Most bytes of an entry's own names and values.
const FIELDS_BYTES_MAX: usize = ENTRY_BYTES_MAX / 2;

/// What a datagram gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// Entries with at least one field.
    pub entries: Vec<Fields>,
    /// What was left out: bad or reserved names, too many, too large, or with a fault in the framing.
    pub left: MessageLosses,
}

/// Reads a datagram. What follows a fault in the framing (a field without its newline is one, too) is
/// lost; what came before is kept.
pub fn parse(data: &[u8]) -> Parsed {
    let mut entries = Vec::new();
    let left = each(data, &mut Fields::new(), |fields| entries.push(fields.clone()));
    Parsed { entries, left }
}

/// As [`parse`], with each entry put into `entry` in turn. Says what was left out.
pub fn each(mut data: &[u8], entry: &mut Fields, mut take: impl FnMut(&Fields)) -> MessageLosses {
    let mut left = MessageLosses::default();
    let mut finish = |entry: &mut Fields| {
        if !entry.is_empty() {
            take(entry);
            entry.clear();
        }
    };
    entry.clear();
    while !data.is_empty() {
        let Some(end) = memchr::memchr(b'\n', data) else {
            left.add(Kind::Framing, || describe(data));
            break;
        };
        let (line, rest) = (&data[..end], &data[end + 1..]);
        if line.is_empty() {
            finish(entry);
            data = rest;
        } else if line[0] == b'.' || line[0] == b'#' {
            data = rest;
        } else if let Some(equals) = line.iter().position(|byte| *byte == b'=') {
            add(entry, &line[..equals], &line[equals + 1..], &mut left);
            data = rest;
        } else if let Some((value, rest)) = take_sized(rest) {
            add(entry, line, value, &mut left);
            data = rest;
        } else {
            left.add(Kind::Framing, || describe(data));
            break;
        }
    }
    finish(entry);
    left
}

/// What is lost from here on.
fn describe(data: &[u8]) -> String {
    /// So much of it is shown, bytes.
    const SHOWN_BYTES: usize = 32;
    let begin = data[..data.len().min(SHOWN_BYTES)].escape_ascii();
    format!("{} bytes that begin with \"{begin}\"", data.len())
}

/// A length, so many bytes and a newline.
fn take_sized(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    Some((value, rest.strip_prefix(b"\n")?))
}

/// No name at all: the protocol has such fields ignored, and senders rely on it (the handler of
/// python3-systemd has a dozen in each message).
fn is_no_name(name: &[u8]) -> bool {
    !name.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// Adds a field that a client may set, if there is room.
fn add(entry: &mut Fields, name: &[u8], value: &[u8], left: &mut MessageLosses) {
    let text = || String::from_utf8_lossy(name).into_owned();
    if is_no_name(name) {
        // Nobody is told.
    } else if !is_valid_name(name) || name[0] == b'_' {
        left.add(Kind::FieldName, || {
            format!("\"{}\"", name[..name.len().min(NAME_BYTES_MAX)].escape_ascii())
        });
    } else if entry.len() >= ENTRY_FIELDS_MAX {
        left.add(Kind::FieldsMany, text);
    } else if entry.bytes_len() + name.len() + value.len() > FIELDS_BYTES_MAX {
        left.add(Kind::FieldLarge, || format!("{}, {} bytes", text(), value.len()));
    } else {
        entry.push(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many were left out in all.
    fn count(left: &MessageLosses) -> u64 {
        left.iter().map(|(_, _, count)| count).sum()
    }

    fn check(data: &[u8], expected: &[&[(&str, &str)]], left: u64) {
        let entries: Vec<Fields> =
            expected.iter().map(|entry| entry.iter().copied().collect()).collect();
        let parsed = parse(data);
        assert_eq!(
            (parsed.entries, count(&parsed.left)),
            (entries, left),
            "{}",
            data.escape_ascii()
        );
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
        check(b"lower=1\nArgs=1\n\xff=1\nA=1\n", &[&[("A", "1")]], 0);
        check(b"9=2\n=3\nA=1\n", &[&[("A", "1")]], 2);
        check(b"A=1\nB\n\xff\xff\xff\xff\xff\xff\xff\xffxx", &[&[("A", "1")]], 1);
        check(b"A=1\nB\n\x02\0\0\0\0\0\0\0xx", &[&[("A", "1")]], 1);
        check(b"A=1\nB\n\x01", &[&[("A", "1")]], 1);
        let long = format!("{}=1\n", "A".repeat(65));
        check(long.as_bytes(), &[], 1);
    }

    #[test]
    fn fields_are_bounded() {
        let parsed = parse("A=1\n".repeat(ENTRY_FIELDS_MAX + 3).as_bytes());
        assert_eq!((parsed.entries[0].len(), count(&parsed.left)), (ENTRY_FIELDS_MAX, 3));
    }

    #[test]
    fn what_is_left_out_is_named() {
        let check = |data: &[u8], expected: &[(Kind, &str, u64)]| {
            let left = parse(data).left;
            let found: Vec<(Kind, &str, u64)> = left.iter().collect();
            assert_eq!(found, expected, "{}", data[..data.len().min(99)].escape_ascii());
        };
        let large = [b"BIG=", &*vec![b'x'; FIELDS_BYTES_MAX], b"\nSMALL=1\n"].concat();
        check(&large, &[(Kind::FieldLarge, "BIG, 33554432 bytes", 1)]);
        check(b"_A=1\n_B=2\nC=3\nd=4\n", &[(Kind::FieldName, "\"_A\"", 2)]);
        let many = "A=1\n".repeat(ENTRY_FIELDS_MAX) + "B=1\nC=1\nC";
        check(
            many.as_bytes(),
            &[(Kind::FieldsMany, "B", 2), (Kind::Framing, "1 bytes that begin with \"C\"", 1)],
        );
    }
}
