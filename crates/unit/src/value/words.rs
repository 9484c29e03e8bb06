//! Splitting values into words (systemd.syntax(7), "QUOTING").

use super::fault::Fault;

/// Splits at whitespace; quotes group and are removed, C escapes are replaced.
pub fn split(text: &str) -> Words<'_> {
    Words { text, at: 0 }
}

/// The words of a value or of several lines of one; nothing comes of what cannot be split.
pub fn plain_words(text: &str) -> Vec<String> {
    split(text).map_while(Result::ok).map(|(_, word)| word).collect()
}

/// The words of a value, each with its offset.
pub struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    /// The next word as it is written, quotes and all, without consuming it.
    pub fn peek_raw(&self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        rest.split([' ', '\t']).next().unwrap_or_default()
    }

    /// What no word was made of yet.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Consumes `length` bytes of the next word as [`Words::peek_raw`] shows it.
    pub fn skip_raw(&mut self, length: usize) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len() + length;
    }
}

impl Iterator for Words<'_> {
    /// Offset of the word's first byte, and the word.
    type Item = Result<(usize, String), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.text[self.at..];
        let start = self.at + rest.len() - rest.trim_start().len();
        if start == self.text.len() {
            return None;
        }
        let (word, used) = match one_word(&self.text[start..]) {
            Ok(word) => word,
            Err(message) => {
                self.at = self.text.len();
                return Some(Err(Fault::new(start, message)));
            }
        };
        self.at = start + used;
        Some(Ok((start, word)))
    }
}

/// Reads one word; returns it and how many bytes it took.
fn one_word(text: &str) -> Result<(String, usize), String> {
    let bytes = text.as_bytes();
    let plain = bytes.iter().position(|b| matches!(b, b' ' | b'\t' | b'\n' | b'"' | b'\'' | b'\\'));
    match plain {
        None => return Ok((text.to_owned(), text.len())),
        Some(end) if matches!(bytes[end], b' ' | b'\t' | b'\n') => {
            return Ok((text[..end].to_owned(), end));
        }
        Some(_) => {}
    }
    let mut out = Vec::with_capacity(text.len().min(64));
    let mut quote = None;
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        match (b, quote) {
            (b' ' | b'\t' | b'\n', None) => break,
            (b'"' | b'\'', None) => quote = Some(b),
            (b, Some(q)) if b == q => quote = None,
            (b'\\', _) => at += escape(&text[at..], &mut out) - 1,
            (b, _) => out.push(b),
        }
        at += 1;
    }
    if quote.is_some() {
        return Err(format!("a quote is not closed: {text}"));
    }
    let word =
        String::from_utf8(out).map_err(|_| "the escapes do not make valid UTF-8".to_owned())?;
    Ok((word, at))
}

/// Replaces one escape at the start of `text`; an unknown one stands for itself. Returns the
/// bytes it took.
fn escape(text: &str, out: &mut Vec<u8>) -> usize {
    let bytes = text.as_bytes();
    let simple = match bytes.get(1) {
        Some(b'a') => 7,
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'v') => 11,
        Some(b's') => b' ',
        Some(&b @ (b'\\' | b'"' | b'\'')) => b,
        Some(b'x') => return digits(text, 2, 2, 16, out),
        Some(b'u') => return digits(text, 2, 4, 16, out),
        Some(b'U') => return digits(text, 2, 8, 16, out),
        Some(b'0'..=b'7') => return digits(text, 1, 3, 8, out),
        _ => {
            out.push(b'\\');
            return 1;
        }
    };
    out.push(simple);
    2
}

/// An escape of `count` digits that start at byte `from`. A NUL or a broken one stays as it is.
fn digits(text: &str, from: usize, count: usize, radix: u32, out: &mut Vec<u8>) -> usize {
    let digits = text.get(from..from + count);
    let all = digits.filter(|d| d.chars().all(|c| c.is_digit(radix)));
    match all.and_then(|d| u32::from_str_radix(d, radix).ok()).filter(|&n| n > 0) {
        Some(n) if count <= 3 && n <= 255 => out.push(n as u8),
        Some(n) if count > 3 && char::from_u32(n).is_some() => {
            let mut buffer = [0; 4];
            let c = char::from_u32(n).expect("checked in the guard");
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
        _ => {
            out.push(b'\\');
            return 1;
        }
    }
    from + count
}

/// A text as one word of a setting, in double quotes unless it needs none; specifiers are none
/// (systemd.syntax(7), "Quoting").
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/=@+$".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '%' => out.push_str("%%"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Replaces C escapes in a text that is not split into words. `None` if that gives no UTF-8.
pub fn unescape_c(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&b) = text.as_bytes().get(at) {
        match b {
            b'\\' => at += escape(&text[at..], &mut out),
            b => {
                out.push(b);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words separated by `|`, or the fault.
    fn check(text: &str, want: &str) {
        let words: Result<Vec<_>, _> = split(text).map(|w| w.map(|(_, word)| word)).collect();
        let got = words.map_or_else(|f| format!("! {} {}", f.offset, f.message), |w| w.join("|"));
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn words_split_unquote_and_unescape() {
        check("", "");
        check("  a  b\tc ", "a|b|c");
        check(r#"a "b c" 'd "e"' """#, r#"a|b c|d "e"|"#);
        check(r#""a"b x"y z"w"#, "ab|xy zw");
        check(r"a\sb \x41\102 \u00e9 \U0001F600 \q \\ \x00", "a b|AB|é|😀|\\q|\\|\\x00");
        check(r#""a\"b" \"#, r#"a"b|\"#);
        check("x \"a b", "! 2 a quote is not closed: \"a b");
        check(r"\xff", "! 0 the escapes do not make valid UTF-8");
        check(r"\xé1 \u12", r"\xé1|\u12");
    }

    /// What a unit file makes of a quoted word.
    fn read(word: &str) -> Vec<String> {
        let words = split(word);
        let words = words.map(|word| word.expect("it is well quoted").1);
        words.map(|word| word.replace("%%", "%")).collect()
    }

    #[test]
    fn a_quoted_word_is_read_as_it_was() {
        for text in [
            "plain",
            "",
            "P=p%nq",
            "a b",
            "\"",
            "it's",
            "a\\b",
            "\\",
            "%",
            "%%",
            "tab\tline\nend\r",
            "\u{7}bell",
            "ö ß",
            "#no",
            ";",
            "a;b",
            "$HOME",
            "=x",
            "'",
            "{a,b}",
            "x y \"z\" \\",
        ] {
            assert_eq!(read(&quoted(text)), [text], "{text:?} as {}", quoted(text));
        }
        assert_eq!(quoted("plain-1.2:/x=y"), "plain-1.2:/x=y");
    }
}
