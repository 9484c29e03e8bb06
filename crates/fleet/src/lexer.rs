//! Bytes to tokens. Nothing is lost: spaces apart, every byte of the file is in a token.
//!
//! What a token means (escapes, units of time) is worked out by [`string`] and [`number`], which
//! the parser calls.

use crate::diagnostic::{Diagnostic, Sink};
use crate::source::{FILE_BYTES_MAX, FileId, Place, Span};
use crate::token::{Keyword, SIGNS, Token, TokenKind};

/// The tokens of a file, ended by [`TokenKind::End`].
pub fn tokens(file: FileId, text: &[u8], sink: &mut Sink) -> Vec<Token> {
    let mut lexer = Lexer { file, text, at: 0, out: Vec::new(), sink };
    if text.len() >= FILE_BYTES_MAX {
        lexer.report(0, "the file is too large; only its beginning is read");
    }
    while lexer.at < text.len() {
        lexer.token();
    }
    lexer.push(TokenKind::End, text.len());
    lexer.out
}

struct Lexer<'t> {
    file: FileId,
    text: &'t [u8],
    at: usize,
    out: Vec<Token>,
    sink: &'t mut Sink,
}

impl Lexer<'_> {
    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: TokenKind, end: usize) {
        let span = Span { start: self.at as u32, end: end as u32 };
        self.out.push(Token { kind, span });
        self.at = end;
    }

    fn report(&mut self, bytes: usize, message: &str) {
        let end = (self.at + bytes).min(self.text.len());
        let span = Span { start: self.at as u32, end: end as u32 };
        self.sink.push(Diagnostic::error(Place { file: self.file, span }, message));
    }

    fn token(&mut self) {
        match self.rest() {
            [b' ' | b'\t' | b'\r', ..] => self.at += 1,
            [b'\n', ..] => self.push(TokenKind::Newline, self.at + 1),
            [b'#', ..] | [b'/', b'/', ..] => self.line_comment(),
            [b'/', b'*', ..] => self.block_comment(),
            [b'"', ..] => self.quoted(),
            [b'{', b'{', b'{', ..] => self.heredoc(),
            [b'0'..=b'9', ..] => self.digits(),
            [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => self.word(),
            [b'@', b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => self.escaped_word(),
            [b'!', b'i', b'n', next @ ..] if !next.first().is_some_and(is_word) => {
                self.push(TokenKind::NotIn, self.at + 3)
            }
            [b'<', ..] if self.after_include() => self.angle(),
            _ => self.sign(),
        }
    }

    fn after_include(&self) -> bool {
        self.out.last().is_some_and(|last| last.kind == TokenKind::Keyword(Keyword::Include))
    }

    fn line_comment(&mut self) {
        let end = self.rest().iter().position(|byte| *byte == b'\n');
        self.push(TokenKind::Comment, end.map_or(self.text.len(), |length| self.at + length));
    }

    fn block_comment(&mut self) {
        match find(&self.rest()[2..], b"*/") {
            Some(length) => self.push(TokenKind::Comment, self.at + length + 4),
            None => self.unclosed(2, "this comment is not closed"),
        }
    }

    fn unclosed(&mut self, opening_bytes: usize, message: &str) {
        self.report(opening_bytes, message);
        self.push(TokenKind::Bad, self.text.len());
    }

    /// A string ends at its quote; one without ends at its line's end, so that the lines after it
    /// are still understood.
    fn quoted(&mut self) {
        let mut length = 1;
        loop {
            match self.rest().get(length) {
                Some(b'"') => return self.push(TokenKind::String, self.at + length + 1),
                Some(b'\\') => length += 2,
                Some(b'\n') | None => break,
                Some(_) => length += 1,
            }
        }
        let end = (self.at + length).min(self.text.len());
        self.report(1, "this string is not closed on its line");
        self.push(TokenKind::Bad, end);
    }

    fn heredoc(&mut self) {
        match find(&self.rest()[3..], b"}}}") {
            Some(length) => self.push(TokenKind::Heredoc, self.at + length + 6),
            None => self.unclosed(3, "this `{{{` text is not closed"),
        }
    }

    fn angle(&mut self) {
        let stop = self.rest().iter().position(|byte| matches!(byte, b'>' | b'\n'));
        match stop.map(|length| (length, self.rest()[length])) {
            Some((length, b'>')) => self.push(TokenKind::AngleString, self.at + length + 1),
            _ => self.sign(),
        }
    }

    fn digits(&mut self) {
        let text = self.rest();
        let mut length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if let [b'.', b'0'..=b'9', ..] = text[length..] {
            let more = text[length + 1..].iter().take_while(|byte| byte.is_ascii_digit());
            length += 1 + more.count();
        }
        let unit = UNITS.iter().find(|(unit, _)| text[length..].starts_with(unit.as_bytes()));
        length += unit.map_or(0, |(unit, _)| unit.len());
        self.push(TokenKind::Number, self.at + length);
    }

    fn word(&mut self) {
        let length = self.rest().iter().take_while(|byte| is_word(byte)).count();
        let kind = Keyword::find(&self.rest()[..length]).map(TokenKind::Keyword);
        self.push(kind.unwrap_or(TokenKind::Name), self.at + length);
    }

    fn escaped_word(&mut self) {
        let length = self.rest()[1..].iter().take_while(|byte| is_word(byte)).count();
        self.push(TokenKind::Name, self.at + 1 + length);
    }

    fn sign(&mut self) {
        let found = SIGNS.iter().find(|(sign, _)| self.rest().starts_with(sign.as_bytes()));
        if let Some((sign, kind)) = found {
            return self.push(*kind, self.at + sign.len());
        }
        // One report for a run of bytes: a binary file has many.
        let length = self.rest().iter().take_while(|byte| is_foreign(**byte)).count().max(1);
        self.report(length, "unexpected characters");
        self.push(TokenKind::Bad, self.at + length);
    }
}

/// Bytes that begin no token.
fn is_foreign(byte: u8) -> bool {
    !matches!(byte, 32..127 | b'\t' | b'\r' | b'\n')
}

fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Units of time in seconds; those that begin with another come first.
const UNITS: &[(&str, f64)] =
    &[("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// The value of a number token; a unit of time makes seconds of it.
pub fn number(text: &[u8]) -> f64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let (digits, unit) = text.split_at(digits);
    let value: f64 = std::str::from_utf8(digits).ok().and_then(|t| t.parse().ok()).unwrap_or(0.0);
    let unit = UNITS.iter().find(|(name, _)| name.as_bytes() == unit);
    match unit {
        // Dividing is exact where multiplying by 0.001 is not.
        Some(("ms", _)) => value / 1000.0,
        unit => value * unit.map_or(1.0, |(_, seconds)| *seconds),
    }
}

/// What is wrong with an escape: its offset in the token, its length and the reason.
pub type BadEscape = (usize, usize, &'static str);

/// The value of a `"..."` token, and its faults. Escapes are those of the language reference,
/// "String Literals Escape Sequences"; a bad one stands for itself.
pub fn string(token: &[u8]) -> (Vec<u8>, Vec<BadEscape>) {
    let text = token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
    let (mut out, mut faults, mut at) = (Vec::with_capacity(text.len()), Vec::new(), 0);
    while let Some(byte) = text.get(at) {
        let (value, length) = match byte {
            b'\\' => escape(&text[at..]),
            byte => (Ok(*byte), 1),
        };
        out.push(value.unwrap_or(b'\\'));
        faults.extend(value.err().map(|reason| (at + 1, length, reason)));
        at += length;
    }
    (out, faults)
}

/// The value of what begins with a backslash, and how many bytes it is.
fn escape(text: &[u8]) -> (Result<u8, &'static str>, usize) {
    let octal = text[1..].iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    if octal > 0 {
        let value =
            text[1..=octal].iter().fold(0_u32, |sum, byte| sum * 8 + u32::from(byte - b'0'));
        let value = u8::try_from(value).map_err(|_| "an octal escape is at most \\377");
        return (value, 1 + octal);
    }
    let value = match text.get(1) {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(byte @ (b'"' | b'\\' | b'\n')) => *byte,
        _ => return (Err("unknown escape; a backslash itself is written \\\\"), 2),
    };
    (Ok(value), 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds of tokens, one word each; `!` for every fault.
    fn check(text: &str, expected: &str) {
        let mut sink = Sink::default();
        let found = tokens(FileId(0), text.as_bytes(), &mut sink);
        let names = found.iter().map(|token| match token.kind {
            TokenKind::Keyword(keyword) => keyword.text().to_owned(),
            kind => format!("{kind:?}"),
        });
        let faults = sink.finish().iter().map(|_| "!".to_owned()).collect::<Vec<_>>();
        let all: Vec<String> = names.chain(faults).collect();
        assert_eq!(all.join(" "), expected, "{text:?}");
    }

    #[test]
    fn tokens_of_texts() {
        check("", "End");
        check("a=1", "Name Set Number End");
        check("object @object objects", "object Name Name End");
        check("5m.x 5 .x 5mx", "Number Dot Name Number Dot Name Number Name End");
        check("!in !inx ! in", "NotIn Not Name Not in End");
        check("{{{a}}}b", "Heredoc Name End");
        check("{{1}}", "OpenLambda Number CloseBrace CloseBrace End");
        check("a//x\n#y\n/*z\n*/b", "Name Comment Newline Comment Newline Comment Name End");
        check("include <a>", "include AngleString End");
        check("a <b> c", "Name Less Name Greater Name End");
        check("\"a\\\"b\" \"c\nd", "String Bad Newline Name End !");
        check("/* a", "Bad End !");
        check("{{{ a", "Bad End !");
        check("$ \u{e9}\u{e9}", "Bad Bad End ! !");
        check("a<=b<<c<d", "Name LessEqual Name ShiftLeft Name Less Name End");
    }

    #[test]
    fn numbers_and_units() {
        let cases: [(&str, f64); 6] = [
            ("5", 5.0),
            ("2.5h", 9000.0),
            ("100ms", 0.1),
            ("1d", 86_400.0),
            ("01", 1.0),
            ("3m", 180.0),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(string(br#""a\n\101\377\0\\""#).0, b"a\nA\xff\0\\");
        assert_eq!(string(br#""\x""#).1.len(), 1);
        assert_eq!(string(br#""\400""#).1.len(), 1);
    }
}
