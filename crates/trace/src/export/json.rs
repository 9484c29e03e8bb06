//! Writing JSON: strings escaped, lists joined. No reader.

use std::fmt::{Display, Write};

/// A JSON string. `<` is escaped too, so that the text may stand within HTML.
pub fn string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '<' => out.push_str("\\u003c"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' || c == '\u{2028}' || c == '\u{2029}' => {
                put(out, format_args!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A JSON string of its own.
pub fn quoted(text: &str) -> String {
    let mut out = String::new();
    string(&mut out, text);
    out
}

/// A list of numbers.
pub fn numbers<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    let mut out = String::from("[");
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        put(&mut out, format_args!("{value}"));
    }
    out.push(']');
    out
}

/// A list of strings.
pub fn strings<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    numbers(values.into_iter().map(quoted))
}

/// An object, from names and finished values.
pub fn object(fields: &[(&str, String)]) -> String {
    let fields = fields.iter().map(|(name, value)| format!("{}:{value}", quoted(name)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Appends what is formatted.
pub fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string grows");
}
