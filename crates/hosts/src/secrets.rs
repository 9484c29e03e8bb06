//! What in files of a revision looks like a secret: everybody who may read the store could read it there.
//!
//! This finds what people put there by mistake, not what somebody hides.

use crate::revision::Files;

/// What a name of a setting, a variable or an attribute ends with whose value is secret.
const NAMES: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "private_key"];

/// Prefixes of keys that services give out, with how many characters follow.
const PREFIXES: [(&str, usize); 6] = [
    ("AKIA", 16),
    ("ghp_", 36),
    ("github_pat_", 22),
    ("glpat-", 20),
    ("xoxb-", 10),
    ("sk_live_", 16),
];

/// The first secret, with its file and line, for people.
pub fn first(files: &Files) -> Option<String> {
    files.iter().find_map(|(path, bytes)| {
        let text = std::str::from_utf8(bytes).ok()?;
        let (at, what) = text.lines().zip(1..).find_map(|(line, at)| Some((at, in_line(line)?)))?;
        Some(format!("{path}:{at}: {what}"))
    })
}

fn in_line(line: &str) -> Option<String> {
    if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY") {
        return Some("this is a private key".to_owned());
    }
    let is_key = |word: &str, (prefix, count): &(&str, usize)| {
        word.find(prefix).is_some_and(|at| {
            let rest = &word[at + prefix.len()..];
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').count() >= *count
        })
    };
    if let Some((prefix, _)) = PREFIXES.iter().find(|prefix| is_key(line, prefix)) {
        return Some(format!("this looks like an access key ({prefix}...)"));
    }
    let comment = ["//", "#", ";"].iter().any(|sign| line.trim_start().starts_with(sign));
    let mut rest = line;
    while let Some(at) = rest.find('=').filter(|_| !comment) {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        // `DB_PASSWORD=x`, `vars.password = "x"`
        let name: String = before
            .trim_end_matches([' ', '+', '"', ']'])
            .rsplit(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        if NAMES.iter().any(|end| name.ends_with(end)) && is_literal(after) {
            return Some(format!("'{name}' has a value here, which looks like a secret"));
        }
        rest = after;
    }
    None
}

/// A text that is written out: no path, no reference, no number, nothing that is computed.
fn is_literal(after: &str) -> bool {
    let after = after.trim_start();
    let is_quoted = after.starts_with(['"', '\'']);
    let value = after.trim_start_matches(['"', '\'']);
    let end = value.find(['"', '\'', ' ', '\t']).unwrap_or(value.len());
    let value = &value[..end];
    // What is not quoted in rules is a name.
    let is_word = value.chars().any(|c| c.is_ascii_digit()) || is_quoted;
    let is_reference = value.starts_with(['/', '%', '$', '{', '=', '.']);
    value.len() >= 4 && is_word && !is_reference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> bool {
        first(&Files::from([("a.conf".to_owned(), line.as_bytes().to_vec())])).is_some()
    }

    #[test]
    fn secrets_are_found() {
        for line in [
            "-----BEGIN RSA PRIVATE KEY-----",
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            r#"  vars.password = "hunter2""#,
            r#"Environment = [ "DB_PASSWORD=correcthorse7" ]"#,
            r#"  Environment += "API_TOKEN=9f8a7b6c""#,
            "aws AKIAIOSFODNN7EXAMPLE",
            r#"vars["client_secret"] = "abcd-efgh""#,
        ] {
            assert!(found(line), "{line}");
        }
        let files =
            Files::from([("d/e.conf".to_owned(), b"a\nvars.token = \"abc123\"\n".to_vec())]);
        let said = "d/e.conf:2: 'token' has a value here, which looks like a secret";
        assert_eq!(first(&files).as_deref(), Some(said));
    }

    #[test]
    fn references_and_other_words_are_none() {
        for line in [
            "-----BEGIN CERTIFICATE-----",
            r#"LoadCredential = "password:/etc/shop/password""#,
            r#"Environment = "PASSWORD_FILE=%d/password""#,
            r#"vars.password = "/etc/shop/password""#,
            "vars.password = globals.password_name",
            r#"  // password = "old secret""#,
            "# token = abc123",
            "vars.tokens = 40",
            "vars.secret == other",
            r#"Description = "resets the password of a user""#,
            r#"vars.token = """#,
            "",
        ] {
            assert!(!found(line), "{line}");
        }
        assert!(first(&Files::from([("x".to_owned(), vec![0xff, 0xfe])])).is_none());
    }
}
