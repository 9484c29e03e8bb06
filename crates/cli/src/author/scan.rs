//! A unit file while it is being written: which part of its text is what (systemd.syntax(7)).

use std::ops::Range;
use std::path::Path;

use warren_unit::UnitType;
use warren_unit::settings::{Section, Setting};

/// A line that says something, with the lines that it is continued on. Ranges are bytes of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `[Name]`: the name.
    Header(Range<usize>),
    /// `Name=value`.
    Assignment {
        /// The name.
        name: Range<usize>,
        /// The value, without spaces around it.
        value: Range<usize>,
    },
    /// Neither: a name that is being written.
    Other(Range<usize>),
}

/// What a place of a text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place<'t> {
    /// In the name of a section.
    Header(Range<usize>),
    /// In the name of a setting, or where one may begin.
    Name {
        /// The section's name.
        section: &'t str,
        /// The name, as far as it is written.
        name: Range<usize>,
    },
    /// In a value.
    Value {
        /// The section's name.
        section: &'t str,
        /// The setting's name.
        name: &'t str,
        /// The value.
        value: Range<usize>,
        /// The word of it.
        word: Range<usize>,
    },
    /// In a comment, or outside of all sections.
    Nothing,
}

/// The type of the units that a file is for: by its name, or by that of its drop-in directory.
pub(super) fn type_of(path: &Path) -> Option<UnitType> {
    let name = path.file_name()?.to_str()?;
    let owner = match name.ends_with(".conf") {
        true => path.parent()?.file_name()?.to_str()?.strip_suffix(".d")?,
        false => name,
    };
    UnitType::from_suffix(owner.rsplit('.').next()?)
}

/// The setting that a name means in a section of units of this type.
pub(super) fn setting(section: &str, name: &str, of: UnitType) -> Option<&'static Setting> {
    Some(Section::find(section, of)?.setting(name)?.setting())
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with(['#', ';'])
}

/// The part of a range without spaces around it.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    match part.trim().is_empty() {
        true => range.start..range.start,
        false => start..range.start + part.trim_end().len(),
    }
}

/// All parts of a text, in its order.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let mut out = Vec::new();
    let mut lines = text.split_inclusive('\n').peekable();
    let mut at = 0;
    while let Some(line) = lines.next() {
        let start = at;
        at += line.len();
        let own = trimmed(text, start..at);
        if own.is_empty() || is_comment(line) {
            continue;
        }
        if text[own.clone()].starts_with('[') {
            let closed = text[own.clone()].strip_suffix(']').is_some();
            out.push(Part::Header(own.start + 1..own.end - usize::from(closed)));
            continue;
        }
        // Comments within a value are no end of it.
        let mut goes_on = line.trim_end_matches(['\n', '\r']).ends_with('\\');
        while let Some(next) = lines.next_if(|_| goes_on) {
            at += next.len();
            goes_on = is_comment(next) || next.trim_end_matches(['\n', '\r']).ends_with('\\');
        }
        out.push(match line.find('=') {
            Some(equals) => Part::Assignment {
                name: trimmed(text, start..start + equals),
                value: trimmed(text, start + equals + 1..at),
            },
            None => Part::Other(own),
        });
    }
    out
}

/// The word around a place in a value: what stands between spaces, line ends and what continues them.
fn word(text: &str, value: &Range<usize>, at: usize) -> Range<usize> {
    let parts = |c: char| c.is_whitespace() || c == '\\' || c == '"' || c == '\'';
    let at = at.clamp(value.start, value.end);
    let start = text[value.start..at].rfind(parts).map_or(value.start, |found| {
        let found = value.start + found;
        found + text[found..].chars().next().map_or(1, char::len_utf8)
    });
    let end = text[at..value.end].find(parts).map_or(value.end, |found| at + found);
    start..end
}

/// The words of a value.
pub(super) fn words(text: &str, value: &Range<usize>) -> Vec<Range<usize>> {
    let (mut out, mut at) = (Vec::new(), value.start);
    while at < value.end {
        let found = word(text, value, at);
        at = found.end + text[found.end..].chars().next().map_or(1, char::len_utf8);
        if !found.is_empty() {
            out.push(found);
        }
    }
    out
}

/// What the place `at` of a text is.
pub(super) fn place(text: &str, at: usize) -> Place<'_> {
    let at = at.min(text.len());
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].split('\n').next().unwrap_or_default();
    let mut section = "";
    for part in parts(text) {
        match part {
            Part::Header(name) if name.start > at => break,
            Part::Header(name) if (name.start..=name.end).contains(&at) => {
                return Place::Header(name);
            }
            Part::Header(name) => section = &text[name],
            Part::Assignment { name, .. } | Part::Other(name) if name.start > at => break,
            Part::Assignment { name, .. } | Part::Other(name)
                if (name.start..=name.end).contains(&at) =>
            {
                return Place::Name { section, name };
            }
            Part::Assignment { name, value }
                if at > name.end && at <= value.end.max(value.start) =>
            {
                let word = word(text, &value, at);
                return Place::Value { section, name: &text[name], value, word };
            }
            // Spaces behind a value, on its own line.
            Part::Assignment { name, value }
                if at > value.end
                    && text[value.end..at].bytes().all(|b| b == b' ' || b == b'\t') =>
            {
                return Place::Value { section, name: &text[name], value, word: at..at };
            }
            Part::Assignment { .. } | Part::Other(_) => {}
        }
    }
    match section.is_empty() || !line.trim().is_empty() {
        true => Place::Nothing,
        false => Place::Name { section, name: at..at },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# x.service
[Unit]
After=a.service \\
# not the end
  b.service
Wa

[Service]
ExecStart = /bin/true  one
Type=
";

    /// The place before the first `^`, which is taken out of the text.
    #[track_caller]
    fn check(text: &str, expected: Place<'_>) {
        let at = text.find('^').expect("a place is marked");
        assert_eq!(place(&text.replacen('^', "", 1), at), expected, "{text}");
    }

    #[test]
    fn parts_of_a_text_are_found() {
        let shown: Vec<String> = parts(TEXT)
            .into_iter()
            .map(|part| match part {
                Part::Header(name) => format!("[{}]", &TEXT[name]),
                Part::Assignment { name, value } => format!("{}={}", &TEXT[name], &TEXT[value]),
                Part::Other(name) => format!("?{}", &TEXT[name]),
            })
            .collect();
        let expected = [
            "[Unit]",
            "After=a.service \\\n# not the end\n  b.service",
            "?Wa",
            "[Service]",
            "ExecStart=/bin/true  one",
            "Type=",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn places_are_told_apart() {
        check("[Un^it]\n", Place::Header(1..5));
        check("[^", Place::Header(1..1));
        check("[Unit]\nAf^ter=a\n", Place::Name { section: "Unit", name: 7..12 });
        check("[Unit]\nAf^", Place::Name { section: "Unit", name: 7..9 });
        check("[Unit]\n^\n", Place::Name { section: "Unit", name: 7..7 });
        check("^[Unit]\n", Place::Nothing);
        check("^", Place::Nothing);
        check("[Unit]\n# Af^ter\n", Place::Nothing);
        let value = |value, word| Place::Value { section: "Unit", name: "After", value, word };
        check("[Unit]\nAfter=^\n", value(13..13, 13..13));
        check("[Unit]\nAfter=a.ser^vice b\n", value(13..24, 13..22));
        check("[Unit]\nAfter=a ^b\n", value(13..16, 15..16));
        check("[Unit]\nAfter=a \\\n  b^c\n", value(13..21, 19..21));
        check("[Unit]\nAfter=a ^\n", value(13..14, 15..15));
    }

    #[test]
    fn words_of_a_value_are_found() {
        let text = "A=one \\\n \"two\" thr\u{e4}e";
        let value = 2..text.len();
        let found: Vec<&str> = words(text, &value).into_iter().map(|word| &text[word]).collect();
        assert_eq!(found, ["one", "two", "thr\u{e4}e"]);
    }

    #[test]
    fn no_text_is_too_strange() {
        let strange = [
            "",
            "=",
            "[",
            "]",
            "[[",
            "\\",
            "a\\",
            "a=\\\n",
            "\u{e4}=\\\n#\u{e4}",
            "[a]=\n b",
            " = = \\\n\\\n",
        ];
        for text in strange {
            for at in text.char_indices().map(|(at, _)| at).chain([text.len(), text.len() + 9]) {
                if let Place::Value { value, word, .. } = place(text, at) {
                    let _ = (&text[value.clone()], &text[word], words(text, &value));
                }
            }
        }
    }

    #[test]
    fn the_type_comes_from_the_name_of_the_file_or_of_its_directory() {
        let of = |path: &str| type_of(Path::new(path));
        assert_eq!(of("/a/b.service"), Some(UnitType::Service));
        assert_eq!(of("/a/b@.timer"), Some(UnitType::Timer));
        assert_eq!(of("/a/b.socket.d/c.conf"), Some(UnitType::Socket));
        assert_eq!(of("/a/service.d/c.conf"), Some(UnitType::Service));
        assert_eq!(of("/a/b.conf"), None);
        assert_eq!(of("/a/b"), None);
    }
}
