//! Small helpers for the kernel's text files.

use std::path::Path;

use crate::error::{Context, Result};

/// What is in a file of the kernel's. Names in it are chosen by others: bytes that are not UTF-8 become U+FFFD.
pub fn read(path: impl AsRef<Path>) -> Result<String> {
    let bytes = std::fs::read(&path).call_on("read", &path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Undoes `\040`-style octal escapes, as `/proc/self/mountinfo` writes blanks, tabs, newlines
/// and backslashes (proc_pid_mountinfo(5)). Bytes that are not UTF-8 become U+FFFD.
pub fn unescape_octal(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes_are_undone() {
        for (input, expected) in [
            ("/plain", "/plain"),
            ("/a\\040b", "/a b"),
            ("\\134040", "\\040"),
            ("\\04", "\\04"),
            ("\\999", "\\999"),
            ("\\303\\244", "ä"),
        ] {
            assert_eq!(unescape_octal(input), expected, "{input}");
        }
    }
}
