//! Texts in an editor: where they are, and how they change.

use std::path::PathBuf;

use serde_json::{Value, json};

/// The path of a `file:` URI.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    let text = uri.strip_prefix("file://")?;
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let hex = (*first == b'%').then(|| others.get(..2)).flatten();
        let byte = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// The URI of a path.
pub(crate) fn uri_of(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let one =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    format!("file://{}", path.bytes().map(one).collect::<String>())
}

/// The byte of a place; the end of the line if it is beyond that.
pub(crate) fn offset(text: &str, position: &Value) -> u32 {
    let number = |key: &str| position[key].as_u64().unwrap_or(0) as usize;
    let (line, wanted) = (number("line"), number("character"));
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    let mut units = 0;
    for (index, c) in rest.char_indices() {
        if units >= wanted || c == '\n' {
            return (start + index) as u32;
        }
        units += c.len_utf16();
    }
    text.len() as u32
}

/// Makes a change of a range, or of all where none is named. What is beyond the text is its end.
pub(crate) fn change(text: &mut String, change: &Value) {
    let new = change["text"].as_str().unwrap_or_default();
    let range = &change["range"];
    if range.is_null() {
        new.clone_into(text);
        return;
    }
    let [start, end] = ["start", "end"].map(|key| offset(text, &range[key]) as usize);
    text.replace_range(start.min(end)..end.max(start), new);
}

/// The place of a byte: lines from 0, columns in UTF-16 units.
pub(crate) fn position(text: &str, at: usize) -> Value {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().encode_utf16().count();
    json!({"line": line, "character": column})
}

/// Two bytes as a range of places.
pub(crate) fn range(text: &str, span: &std::ops::Range<usize>) -> Value {
    json!({"start": position(text, span.start), "end": position(text, span.end)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_both_ways() {
        let text = "a = 1\nb = \"ä𝄞\" + c\n";
        for at in text.char_indices().map(|(at, _)| at) {
            assert_eq!(offset(text, &position(text, at)) as usize, at);
        }
        assert_eq!(position(text, 999), json!({"line": 2, "character": 0}));
    }

    #[track_caller]
    fn check_change(text: &str, [a, b, c, d]: [u32; 4], new: &str, expected: &str) {
        let mut text = text.to_owned();
        let place = |line, character| json!({"line": line, "character": character});
        let range = json!({"start": place(a, b), "end": place(c, d)});
        change(&mut text, &json!({"range": range, "text": new}));
        assert_eq!(text, expected);
    }

    #[test]
    fn texts_change_by_ranges() {
        check_change("ab\ncd\n", [1, 0, 1, 1], "x", "ab\nxd\n");
        check_change("ab\ncd\n", [0, 2, 1, 0], "", "abcd\n");
        check_change("ä𝄞c", [0, 1, 0, 3], "x", "äxc");
        check_change("", [0, 0, 0, 0], "new", "new");
        // Ranges that no text has: beyond the end, and the wrong way round.
        check_change("ab", [7, 7, 9, 9], "c", "abc");
        check_change("abc", [0, 2, 0, 1], "", "ac");
    }

    #[test]
    fn paths_are_written_as_uris() {
        for path in ["/a/b.conf", "/with space/100%/ä.conf"] {
            assert_eq!(path_of(&uri_of(path)), Some(PathBuf::from(path)));
        }
        assert_eq!(path_of("untitled:1"), None);
        assert_eq!(path_of("file:///a%2"), Some(PathBuf::from("/a%2")));
    }
}
