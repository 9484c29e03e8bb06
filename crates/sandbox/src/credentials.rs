//! Credentials: what a unit is given of secrets (systemd.exec(5), "CREDENTIALS").
//!
//! Owns: what the settings say.
//! Must not: read a credential; an exec helper does, for each process.

use serde::{Deserialize, Serialize};

/// Where credentials are, in a directory with the unit's name.
pub const DIRECTORY: &str = "/run/credentials";

/// Bytes of all credentials of a unit.
pub const BYTES_MAX: usize = 1 << 20;

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 255;

/// A credential that a unit asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// The name of its file.
    pub id: String,
    /// Where it comes from.
    pub source: Source,
    /// What is there was encrypted by systemd-creds(1).
    pub is_sealed: bool,
}

/// Where a credential comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The unit's file. It counts where no other source of the same name has it.
    Value(Vec<u8>),
    /// A file, a directory of files, or a socket.
    Path(String),
    /// One that the machine was given, or that is in a store; it may be missing.
    Store(String),
    /// All of those whose names begin so; the rest of their names goes behind the name here.
    StoreBeginning(String),
}

/// Whether a setting asks for credentials that are provided.
pub fn concerns(setting: &str) -> bool {
    matches!(setting, "LoadCredential" | "SetCredential" | "ImportCredential") || is_sealed(setting)
}

/// Whether a setting asks for credentials that were encrypted.
fn is_sealed(setting: &str) -> bool {
    matches!(setting, "LoadCredentialEncrypted" | "SetCredentialEncrypted")
}

/// What a line of a setting asks for.
///
/// # Errors
/// Why it asks for nothing.
pub fn parse(setting: &str, line: &str) -> Result<Credential, String> {
    let (id, rest) = match line.split_once(':') {
        Some((id, rest)) => (id, Some(rest)),
        None => (line, None),
    };
    if setting == "ImportCredential" {
        let (begin, is_one) = id.strip_suffix('*').map_or((id, true), |begin| (begin, false));
        let new = rest.unwrap_or(begin);
        let is_good = |text: &str| is_name(text) && !text.contains('*');
        if !is_good(&format!("{begin}x")) || !is_good(&format!("{new}x")) || is_one && !is_name(id)
        {
            return Err(format!("'{line}' is not a credential name or a prefix of one"));
        }
        let begin = begin.to_owned();
        let source = if is_one { Source::Store(begin) } else { Source::StoreBeginning(begin) };
        return Ok(Credential { id: new.to_owned(), source, is_sealed: false });
    }
    if !is_name(id) {
        return Err(format!("'{id}' is not the name of a credential"));
    }
    let id = id.to_owned();
    let source = match (setting, rest) {
        ("SetCredential" | "SetCredentialEncrypted", None) => {
            return Err("the value is missing after the name".to_owned());
        }
        ("SetCredentialEncrypted", Some(value)) => Source::Value(base64_text(value)?),
        ("SetCredential", Some(value)) => Source::Value(unescape(value)?),
        (_, None | Some("")) => Source::Store(id.clone()),
        (_, Some(path)) if path.starts_with('/') => Source::Path(path.to_owned()),
        (_, Some(name)) if is_name(name) => Source::Store(name.to_owned()),
        (_, Some(other)) => {
            return Err(format!("'{other}' is neither an absolute path nor a credential name"));
        }
    };
    Ok(Credential { id, source, is_sealed: is_sealed(setting) })
}

/// Base64 without the white space in it; what it says is looked at when it is opened.
fn base64_text(text: &str) -> Result<Vec<u8>, String> {
    let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
    let digits = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let is_good = text.len().is_multiple_of(4) && text.len() - digits <= 2;
    match is_good && digits > 0 && text.iter().take(digits).all(is_digit) {
        true => Ok(text),
        false => Err("the value is not valid base64".to_owned()),
    }
}

/// The name of a file, in ASCII, without a colon.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !matches!(text, "." | "..")
}

/// Replaces escapes as in C.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.bytes().enumerate();
    while let Some((at, byte)) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (_, letter) = rest.next().ok_or("it ends in a backslash")?;
        let (base, digits) = match letter {
            b'a' => (0, vec![7]),
            b'b' => (0, vec![8]),
            b'f' => (0, vec![12]),
            b'n' => (0, vec![b'\n']),
            b'r' => (0, vec![b'\r']),
            b't' => (0, vec![b'\t']),
            b'v' => (0, vec![11]),
            b's' => (0, vec![b' ']),
            b'\\' | b'"' | b'\'' => (0, vec![letter]),
            b'x' => (16, rest.by_ref().take(2).map(|(_, digit)| digit).collect()),
            b'0'..=b'7' => {
                let others = rest.by_ref().take(2).map(|(_, digit)| digit);
                (8, [letter].into_iter().chain(others).collect())
            }
            _ => return Err(format!("'\\{}' is not an escape", char::from(letter))),
        };
        if base == 0 {
            out.extend(digits);
            continue;
        }
        let digits = String::from_utf8_lossy(&digits);
        let byte =
            u8::from_str_radix(&digits, base).ok().filter(|_| digits.len() == base_len(base));
        out.push(byte.ok_or_else(|| format!("the escape at {at} is not a byte"))?);
    }
    Ok(out)
}

/// Digits of a byte.
fn base_len(base: u32) -> usize {
    if base == 16 { 2 } else { 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_ask_for_credentials() {
        let source = |setting: &str, line: &str| parse(setting, line).map(|c| (c.id, c.source));
        let of = |id: &str, source: Source| Ok((id.to_owned(), source));
        assert_eq!(source("LoadCredential", "a:/x y"), of("a", Source::Path("/x y".into())));
        assert_eq!(source("LoadCredential", "a"), of("a", Source::Store("a".into())));
        assert_eq!(source("LoadCredential", "a:b.c"), of("a", Source::Store("b.c".into())));
        assert_eq!(
            source("SetCredential", r"a:x: \x00\n\101\\"),
            of("a", Source::Value(b"x: \0\nA\\".to_vec()))
        );
        assert_eq!(source("SetCredential", "a:"), of("a", Source::Value(Vec::new())));
        assert_eq!(
            source("ImportCredential", "my.*:new."),
            of("new.", Source::StoreBeginning("my.".into()))
        );
        assert_eq!(
            source("SetCredentialEncrypted", "a: YWJj ZA=="),
            of("a", Source::Value(b"YWJjZA==".to_vec()))
        );
        assert_eq!(source("LoadCredentialEncrypted", "a:/x"), of("a", Source::Path("/x".into())));
        for (setting, sealed) in [("LoadCredentialEncrypted", true), ("LoadCredential", false)] {
            assert_eq!(parse(setting, "a").map(|c| c.is_sealed), Ok(sealed), "{setting}");
        }
        for (setting, line) in [
            ("SetCredentialEncrypted", "a"),
            ("SetCredentialEncrypted", "a:"),
            ("SetCredentialEncrypted", "a:===="),
            ("SetCredentialEncrypted", "a:YWJ"),
            ("SetCredentialEncrypted", "a:Y==="),
            ("SetCredentialEncrypted", "a:YW-j"),
            ("LoadCredentialEncrypted", "a/b:/x"),
            ("LoadCredential", ""),
            ("LoadCredential", "a/b:/x"),
            ("LoadCredential", "..:/x"),
            ("LoadCredential", "a:x/y"),
            ("SetCredential", "a"),
            ("SetCredential", r"a:\q"),
            ("SetCredential", r"a:\x1"),
            ("SetCredential", r"a:\400"),
            ("SetCredential", "a:\\"),
            ("ImportCredential", "a/*"),
            ("ImportCredential", "a*b"),
            ("ImportCredential", ""),
        ] {
            assert!(parse(setting, line).is_err(), "{setting}={line}");
        }
    }
}
