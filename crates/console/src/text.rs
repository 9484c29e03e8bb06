//! Texts of strangers, made fit for a terminal.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Characters of one line that are looked at: a service may print a line without an end.
const LINE_CHARS_MAX: usize = 2000;

/// The text without what a terminal acts on: control characters are spaces, and so are those that turn the direction
/// of writing; what has no width is left out. Of a very long line the beginning.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_plain = text.len() <= LINE_CHARS_MAX && text.bytes().all(|b| (0x20..0x7f).contains(&b));
    match is_plain {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().take(LINE_CHARS_MAX).filter_map(shown).collect()),
    }
}

fn shown(c: char) -> Option<char> {
    match acts(c) {
        true => Some(' '),
        false => c.width().filter(|width| *width > 0).map(|_| c),
    }
}

/// Whether a terminal acts on a character instead of showing it: control characters; marks, embeddings, overrides and
/// isolates of Unicode's bidirectional algorithm; separators of lines.
pub fn acts(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Columns that a plain text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// A plain text in so many columns: cut with a mark, or with spaces behind it.
pub fn fit(text: &str, columns: usize) -> String {
    let mut out = cut(text, columns);
    let missing = columns.saturating_sub(width(&out));
    out.extend(std::iter::repeat_n(' ', missing));
    out
}

/// A plain text in at most so many columns; a `~` says that it goes on.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut out, mut left) = (String::new(), columns.saturating_sub(1));
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if width > left {
            break;
        }
        left -= width;
        out.push(c);
    }
    if columns > 0 {
        out.push('~');
    }
    out
}

/// Lines of at most so many columns, broken at spaces where there are some.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let joined = width(&line) + 1 + width(word);
        if !line.is_empty() && joined > columns {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if width(&line) + c.width().unwrap_or(0) > columns {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left() {
        for (text, expected) in [
            ("web.service", "web.service"),
            ("a\x1b[2Jb\u{9b}c\x7f\n", "a [2Jb c  "),
            ("\u{202e}gpj.exe\u{2066}x", " gpj.exe x"),
            ("e\u{301}\u{200b}x", "ex"),
            ("漢字 שלום", "漢字 שלום"),
        ] {
            assert_eq!(plain(text), expected);
        }
        assert_eq!(plain(&"x".repeat(1 << 20)).len(), LINE_CHARS_MAX);
    }

    #[test]
    fn a_text_takes_the_columns_that_it_is_given() {
        assert_eq!([fit("ab", 4), fit("abcdef", 4), fit("漢字漢", 4)], ["ab  ", "abc~", "漢~ "]);
        assert_eq!([cut("ab", 0), cut("ab", 1), cut("ab", 2)], ["", "~", "ab"]);
    }

    #[test]
    fn lines_break_at_spaces_and_within_long_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
