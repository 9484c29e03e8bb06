//! Escaping of arbitrary text and of paths for unit names: systemd-escape(1) and systemd.unit(5),
//! "STRING ESCAPING FOR INCLUSION IN UNIT NAMES".

use crate::name::NameError;

/// Whether a byte stands for itself in an escaped text; a dot does not at the start.
const fn is_plain(b: u8, first: bool) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b':' | b'_') || (b == b'.' && !first)
}

/// Escapes text: `/` becomes `-`, every byte that is not an ASCII letter, a digit, `:`, `_` or
/// `.` becomes `\xXX`, and so does a leading dot.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'/' => out.push('-'),
            b if is_plain(b, i == 0) => out.push(char::from(b)),
            b => push_hex(&mut out, b),
        }
    }
    out
}

fn push_hex(out: &mut String, b: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push_str("\\x");
    out.push(char::from(HEX[usize::from(b >> 4)]));
    out.push(char::from(HEX[usize::from(b & 15)]));
}

/// The reverse of [`escape`]. Fails on a broken escape and when the bytes are not UTF-8.
pub fn unescape(text: &str) -> Result<String, NameError> {
    let bad = || NameError::BadEscape(text.to_owned());
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'-' => b'/',
            b'\\' => unescape_hex(&mut bytes).ok_or_else(bad)?,
            b => b,
        });
    }
    String::from_utf8(out).map_err(|_| bad())
}

fn unescape_hex(bytes: &mut std::str::Bytes<'_>) -> Option<u8> {
    if bytes.next()? != b'x' {
        return None;
    }
    let high = char::from(bytes.next()?).to_digit(16)?;
    let low = char::from(bytes.next()?).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

/// Escapes a path: slashes at both ends and doubled ones go away first; the root is `-`.
pub fn path_escape(path: &str) -> Result<String, NameError> {
    let simple = simplify_path(path).ok_or_else(|| NameError::BadPath(path.to_owned()))?;
    if simple == "/" {
        let absolute = path.starts_with('/');
        return absolute.then(|| "-".to_owned()).ok_or(NameError::BadPath(path.to_owned()));
    }
    Ok(escape(simple.trim_start_matches('/')))
}

/// The reverse of [`path_escape`]: always an absolute path.
pub fn path_unescape(text: &str) -> Result<String, NameError> {
    let bad = || NameError::BadPath(text.to_owned());
    if text == "-" {
        return Ok("/".to_owned());
    }
    if text.is_empty() || text.starts_with('-') || text.ends_with('-') || text.contains("--") {
        return Err(bad());
    }
    let path = format!("/{}", unescape(text)?);
    if path.contains('\0') || simplify_path(&path).as_deref() != Some(&path) {
        return Err(bad());
    }
    Ok(path)
}

/// A path with its doubled and trailing slashes and its `.` parts removed, made absolute;
/// `None` if it is empty or has a `..` part or a NUL in it.
pub fn simplify_path(path: &str) -> Option<String> {
    if path.is_empty() || path.contains('\0') {
        return None;
    }
    let mut out = String::with_capacity(path.len() + 1);
    for part in path.split('/').filter(|p| !p.is_empty() && *p != ".") {
        if part == ".." {
            return None;
        }
        out.push('/');
        out.push_str(part);
    }
    if out.is_empty() {
        out.push('/');
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const TEXTS: &[&str] =
        &["a b", "/x/y", ".a", "ä", "a.b", "a-b", "a\\b", "a:b_c@d", "...", "--x", "\u{1}", "日本"];
    const PATHS: &[&str] =
        &["/", "//", "/a/b/", "/a//b", "/a/./b", "/.a", "/a-b/c", "/a/../b", "/ä", "/a/.b", "/..."];
    const ESCAPED: &[&str] = &[
        "-",
        "a-b",
        "a\\x2db",
        "a\\x2",
        "-a",
        "a-",
        "a--b",
        "\\x2ea",
        "a-\\x2e\\x2e-b",
        "a-..-b",
        "a-.-b",
        ".-a",
        "é",
        "\\y20",
        "a\\x2Db",
    ];

    /// What systemd-escape(1) prints, or None where it fails.
    fn peer(args: &[&str], text: &str) -> Option<String> {
        let out = Command::new("systemd-escape").args(args).arg("--").arg(text).output().ok()?;
        let text = String::from_utf8(out.stdout).ok()?;
        out.status.success().then(|| text.trim_end_matches('\n').to_owned())
    }

    #[test]
    fn text_and_paths_come_back() {
        for text in TEXTS {
            assert_eq!(unescape(&escape(text)).as_deref(), Ok(*text));
        }
        assert_eq!(path_escape("/foo//bar/baz/").as_deref(), Ok("foo-bar-baz"));
        assert_eq!(path_escape("/").as_deref(), Ok("-"));
        assert_eq!(path_unescape("foo-bar\\x2dbaz").as_deref(), Ok("/foo/bar-baz"));
        assert!(path_escape("/a/../b").is_err() && path_escape("").is_err());
    }

    #[test]
    fn same_as_systemd_escape() {
        if peer(&["--version"], "").is_none() {
            warren_testkit::not_run("systemd-escape is not installed");
            return;
        }
        for text in TEXTS {
            assert_eq!(Some(escape(text)), peer(&[], text), "escape {text:?}");
        }
        for path in PATHS {
            assert_eq!(path_escape(path).ok(), peer(&["--path"], path), "path {path:?}");
        }
        for text in ESCAPED {
            assert_eq!(unescape(text).ok(), peer(&["-u"], text), "unescape {text:?}");
            assert_eq!(path_unescape(text).ok(), peer(&["-u", "-p"], text), "path {text:?}");
        }
    }
}
