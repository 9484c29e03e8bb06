//! Numbers and text at a place of a byte string that comes from outside: nothing here panics.

/// `N` bytes at `at`; `None` past the end.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// A little-endian number.
pub(crate) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// A little-endian number.
pub(crate) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// A little-endian number.
pub(crate) fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// A big-endian number.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// A big-endian number.
pub(crate) fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}

/// True when `what` stands at `at`.
pub(crate) fn has(bytes: &[u8], at: usize, what: &[u8]) -> bool {
    at.checked_add(what.len()).and_then(|end| bytes.get(at..end)) == Some(what)
}

/// A text field of fixed length: up to the first NUL, trailing blanks cut, and whatever is not
/// printable shown as `?`, so that a label can go to a terminal as it is.
pub(crate) fn text(bytes: &[u8], at: usize, length: usize) -> String {
    let end = at.saturating_add(length).min(bytes.len());
    let field = bytes.get(at..end).unwrap_or_default();
    let used = field.split(|&b| b == 0).next().unwrap_or_default();
    printable(&String::from_utf8_lossy(used)).trim_end().to_owned()
}

/// The same text with control characters replaced by `?`.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_past_the_end() {
        let bytes = [1, 2, 3, 4];
        assert_eq!((le16(&bytes, 2), le16(&bytes, 3)), (Some(0x0403), None));
        assert_eq!((le32(&bytes, 0), le32(&bytes, usize::MAX)), (Some(0x0403_0201), None));
        assert_eq!((be16(&bytes, 0), be64(&bytes, 0), le64(&bytes, 0)), (Some(0x0102), None, None));
        assert!(has(&bytes, 1, &[2, 3]) && !has(&bytes, 3, &[4, 5]));
        assert!(!has(&bytes, usize::MAX, &[1]));
    }

    #[test]
    fn text_ends_at_nul_and_is_printable() {
        assert_eq!(text(b"ab\0cd", 0, 5), "ab");
        assert_eq!(text(b"a\x1b[2Jb  ", 0, 8), "a?[2Jb");
        assert_eq!((text(b"ab", 1, 9), text(b"ab", 9, 1)), ("b".into(), String::new()));
    }
}
