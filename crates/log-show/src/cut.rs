//! Lines cut to the width of a terminal, as `--no-full` of journalctl(1) has them: where systemd 252
//! cuts was found by asking it, and `tests/differential.rs` asks it again.

use std::iter::repeat_n;

/// Most lines of a text that are printed.
const LINES_MAX: usize = 3;

/// A text goes on after its last printed line if that ends so far from its beginning, bytes; a field of
/// `verbose` is told by its size when it has so many.
const TEXT_BYTES_MAX: usize = 300;

/// Columns that say that there is more; without as many, nothing of a text is printed.
const MORE: &str = "...";

/// What stands for the middle or the end of a line.
const ELLIPSIS: char = '\u{2026}';

/// How much of a line's room comes before the ellipsis, if its end is shown behind it, percent.
const BEGIN_PERCENT: usize = 90;

/// Characters that take two columns: those of Unicode's East Asian Width `W` and `F` that systemd
/// knows.
const WIDE: [(char, char); 14] = [
    ('\u{1100}', '\u{115f}'),
    ('\u{2329}', '\u{232a}'),
    ('\u{2e80}', '\u{303e}'),
    ('\u{3041}', '\u{33ff}'),
    ('\u{3400}', '\u{4dbf}'),
    ('\u{4e00}', '\u{9fff}'),
    ('\u{a000}', '\u{a4cf}'),
    ('\u{ac00}', '\u{d7a3}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{fe30}', '\u{fe6f}'),
    ('\u{ff00}', '\u{ff60}'),
    ('\u{ffe0}', '\u{ffe6}'),
    ('\u{20000}', '\u{2fffd}'),
    ('\u{30000}', '\u{3fffd}'),
];

/// A field of `verbose` is too long to be printed.
pub(super) fn is_too_long(name: &[u8], value: &[u8]) -> bool {
    name.len() + 1 + value.len() >= TEXT_BYTES_MAX
}

/// Prints a text behind what takes the first `indent` of so many columns; further lines begin below
/// its first one.
pub(super) fn put(text: &str, indent: usize, columns: usize, out: &mut Vec<u8>) {
    let room = columns.saturating_sub(indent);
    let (mut lines, mut end) = (text.split('\n').enumerate().peekable(), 0);
    while let Some((at, line)) = lines.next() {
        if at > 0 && line.is_empty() && lines.peek().is_none() {
            break;
        }
        end += line.len() + 1;
        let is_last = at + 1 == LINES_MAX || end >= TEXT_BYTES_MAX;
        let is_shown = line.is_empty() && !is_last && columns >= indent;
        if room < MORE.len() && !is_shown {
            out.extend_from_slice(MORE.as_bytes());
        } else {
            out.extend(repeat_n(b' ', if at > 0 { indent } else { 0 }));
            put_line(line, room, is_last, out);
        }
        out.push(b'\n');
        if is_last {
            break;
        }
    }
}

fn put_line(line: &str, room: usize, is_last: bool, out: &mut Vec<u8>) {
    if line.len() <= room {
        out.extend_from_slice(line.as_bytes());
        if is_last && line.len() + MORE.len() < room {
            out.extend_from_slice(MORE.as_bytes());
        }
        return;
    }
    let percent = if is_last { 100 } else { BEGIN_PERCENT };
    match shortened(line, room, percent) {
        Some((begin, end)) => out.extend_from_slice(format!("{begin}{ELLIPSIS}{end}").as_bytes()),
        None => out.extend_from_slice(line.as_bytes()),
    }
}

/// What is shown of a line before and behind the ellipsis; `None` if it fits.
fn shortened(line: &str, room: usize, percent: usize) -> Option<(&str, &str)> {
    if line.is_ascii() {
        let begin = ((room - 1) * percent + 50) / 100;
        return Some((&line[..begin], &line[line.len() - (room - 1 - begin)..]));
    }
    if line.chars().map(width).sum::<usize>() <= room {
        return None;
    }
    let part = (room - 1) * percent / 100 + 1;
    let (begin, used) = fitting(line.chars(), part);
    let (end, _) = fitting(line[begin..].chars().rev(), room - used);
    let (begin, end) = (&line[..begin], &line[line.len() - end..]);
    // The ellipsis takes the place of one of them.
    Some(match used == part {
        true => (&begin[..begin.char_indices().next_back().map_or(0, |(at, _)| at)], end),
        false => (begin, &end[end.chars().next().map_or(0, char::len_utf8)..]),
    })
}

/// So many bytes of the characters fit into the room, and so many columns they take.
fn fitting(characters: impl Iterator<Item = char>, room: usize) -> (usize, usize) {
    let (mut bytes, mut used) = (0, 0);
    for c in characters {
        if used + width(c) > room {
            break;
        }
        (bytes, used) = (bytes + c.len_utf8(), used + width(c));
    }
    (bytes, used)
}

fn width(c: char) -> usize {
    if WIDE.iter().any(|(first, last)| (*first..=*last).contains(&c)) { 2 } else { 1 }
}

/// Whether there is something in it that a terminal acts on.
pub fn has_controls(value: &[u8]) -> bool {
    String::from_utf8_lossy(value).chars().any(is_control)
}

/// Whether a terminal acts on it, of what may stand in a text.
pub fn is_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &str) {
        let mut out = b"> ".to_vec();
        put(text, 2, columns, &mut out);
        let expected = expected.replace('/', "\n");
        assert_eq!(String::from_utf8_lossy(&out), format!("{expected}\n"), "{text:?} {columns}");
    }

    #[test]
    fn lines_are_cut_in_their_middle() {
        check("1234567890", 12, "> 1234567890");
        check("12345678901", 12, "> 12345678\u{2026}1");
        check("1234567890123", 6, "> 123\u{2026}");
        check("\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}", 8, "> \u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}");
        check("\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}x", 8, "> \u{e4}\u{e4}\u{e4}\u{e4}\u{2026}x");
        check("\u{65e5}\u{65e5}\u{65e5}\u{65e5}\u{65e5}", 10, "> \u{65e5}\u{65e5}\u{65e5}\u{2026}");
        check("x", 4, "> ...");
    }

    #[test]
    fn what_follows_the_third_line_or_is_far_away_is_left_out() {
        check("a/b/c/d".replace('/', "\n").as_str(), 40, "> a/  b/  c...");
        check("a\nb\n", 40, "> a/  b");
        check("\n\n\n\n", 40, "> /  /  ...");
        let long = "y".repeat(298);
        check(&long, 14, "> yyyyyyyyyy\u{2026}y");
        check(&format!("{long}y"), 14, "> yyyyyyyyyyy\u{2026}");
        check(&format!("{long}\nz"), 14, "> yyyyyyyyyy\u{2026}y/  z...");
    }
}
