//! How things are printed: colours when wanted, never a panic when the reader went away.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use warren_console::text::acts;

/// What a state looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// Up.
    Good,
    /// Failed.
    Bad,
    /// On the way up or down, or worth a look.
    Warn,
    /// Of lesser weight.
    Dim,
    /// A heading.
    Strong,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// With escape sequences.
    pub colour: bool,
}

impl Style {
    /// What the environment asks for: `SYSTEMD_COLORS` decides, then `NO_COLOR`, then
    /// `CLICOLOR_FORCE`, then whether standard output is a terminal (and `TERM` is not `dumb`).
    pub fn from_environment() -> Style {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let terminal = std::io::stdout().is_terminal();
        Style { colour: wants_colour(variable, terminal) }
    }

    /// The text in this tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "0;1;32",
            Tone::Bad => "0;1;31",
            Tone::Warn => "0;1;33",
            Tone::Dim => "0;90",
            Tone::Strong => "0;1",
            Tone::Plain => "",
        };
        match self.colour && !code.is_empty() && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

fn wants_colour(variable: impl Fn(&str) -> Option<String>, terminal: bool) -> bool {
    if let Some(wish) = variable("SYSTEMD_COLORS") {
        return !matches!(wish.as_str(), "0" | "no" | "n" | "false" | "f" | "off");
    }
    if variable("NO_COLOR").is_some() {
        return false;
    }
    if variable("CLICOLOR_FORCE").is_some_and(|v| v != "0") {
        return true;
    }
    terminal && variable("TERM").is_none_or(|t| t != "dumb")
}

/// Text of strangers without what a terminal would act on, as the log daemon gives the last lines of
/// a unit: each control character is a space, and so is what turns the direction of writing.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if acts(c) { ' ' } else { c }).collect()
}

/// The same of a text of several lines, which may have tabs.
pub fn clean_lines(text: &str) -> String {
    let is_dirty = |c: char| acts(c) && !matches!(c, '\n' | '\t');
    text.chars().map(|c| if is_dirty(c) { ' ' } else { c }).collect()
}

/// An answer with all of its texts clean. What services say of themselves is in it, and what unit
/// files say, and neither may write to the terminal of whoever looks.
pub fn cleaned<T: Serialize + DeserializeOwned + Clone>(answer: &T) -> Cow<'_, T> {
    let text = serde_json::to_string(answer).expect("keys of answers are texts");
    match is_clean(&text) {
        true => Cow::Borrowed(answer),
        false => {
            let value = serde_json::from_str(&text).map(|value| clean_value(&value));
            Cow::Owned(value.and_then(serde_json::from_value).expect("only texts differ"))
        }
    }
}

/// Whether there is nothing that a terminal acts on in the texts of this JSON. Those up to U+001F are written as escapes, and
/// nothing else is but `"` and `\`.
fn is_clean(json: &str) -> bool {
    let mut chars = json.chars();
    while let Some(c) = chars.next() {
        let is_escape = c == '\\' && !matches!(chars.next(), Some('"' | '\\'));
        if is_escape || acts(c) {
            return false;
        }
    }
    true
}

fn clean_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(values) => values.iter().map(clean_value).collect(),
        Value::Object(values) => {
            values.iter().map(|(key, value)| (clean(key), clean_value(value))).collect()
        }
        other => other.clone(),
    }
}

/// Prints to standard output. A reader that has seen enough (`warren list | head`) ends the program, and is no
/// error; a full disk is one.
pub fn print(text: &str) {
    match write(text) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            complain_of(&error);
            std::process::exit(1);
        }
    }
}

/// Whether [`tell`] lost something.
static IS_UNTOLD: AtomicBool = AtomicBool::new(false);

/// Prints what was done while there is more to do, which is done whether or not somebody reads of it.
pub fn tell(text: &str) {
    match write(text) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        Err(error) => {
            if !IS_UNTOLD.swap(true, Ordering::Relaxed) {
                complain_of(&error);
            }
        }
    }
}

/// The exit status of a program that would end with this one: an error if [`tell`] had one.
pub fn status_when_told(status: i32) -> i32 {
    status.max(IS_UNTOLD.load(Ordering::Relaxed).into())
}

fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

fn complain_of(error: &std::io::Error) {
    complain!("warren: standard output: {}", without_number(&error.to_string()));
}

/// A message without the numbers that the standard library puts behind the kernel's words for them.
pub fn without_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<u32>().is_ok() => out.push_str(rest),
            _ => out = format!("{out} (os error {part}"),
        }
    }
    out
}

/// The beginning of a line, as far as it fits, with a mark where it is cut.
pub fn cut(line: &str, columns: usize) -> String {
    let mut out: String = line.chars().take(columns).collect();
    if out.len() < line.len() {
        out.pop();
        out.push('…');
    }
    out
}

/// The tone of an active state.
pub fn tone_of_state(active: &str) -> Tone {
    match active {
        "active" => Tone::Good,
        "failed" => Tone::Bad,
        "activating" | "deactivating" | "reloading" | "maintenance" => Tone::Warn,
        _ => Tone::Plain,
    }
}

/// The mark before a unit, as systemctl's users know it.
pub fn mark(active: &str) -> &'static str {
    match active {
        "active" => "●",
        "inactive" => "○",
        "failed" => "×",
        "reloading" => "↻",
        _ => "●",
    }
}

/// A number of bytes in few characters.
pub fn bytes(n: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match UNITS.iter().find(|(size, _)| n >= *size) {
        Some((size, letter)) => format!("{:.1}{letter}", n as f64 / *size as f64),
        None => format!("{n}B"),
    }
}

/// A duration in microseconds, in the largest unit that fits.
pub fn span_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.2} s", us as f64 / 1e6),
        60_000_000..3_600_000_000 => format!("{}min {}s", us / 60_000_000, us / 1_000_000 % 60),
        3_600_000_000..86_400_000_000 => {
            format!("{}h {}min", us / 3_600_000_000, us / 60_000_000 % 60)
        }
        _ => format!("{} days", us / 86_400_000_000),
    }
}

/// See [`crate::complain!`].
pub fn complain(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Version of what `--json` prints.
pub(crate) const JSON_VERSION: u64 = warren_wire::control::VERSION;

/// One line of JSON, with the version of its form.
pub(crate) fn print_json<A: Serialize>(answer: &A) {
    print(&json_line(answer));
}

/// The same of what was done, while there is more to do: see [`tell`].
pub(crate) fn tell_json<A: Serialize>(answer: &A) {
    tell(&json_line(answer));
}

fn json_line(answer: &impl Serialize) -> String {
    let mut value = serde_json::to_value(answer).expect("keys of answers are texts");
    if let Some(object) = value.as_object_mut() {
        object.insert("format".to_owned(), JSON_VERSION.into());
    }
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], terminal: bool, expected: bool) {
        let get = |name: &str| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(wants_colour(get, terminal), expected, "{variables:?}");
    }

    #[test]
    fn colour_is_wanted_as_the_environment_says() {
        check(&[], true, true);
        check(&[], false, false);
        check(&[("TERM", "dumb")], true, false);
        check(&[("NO_COLOR", "1")], true, false);
        check(&[("NO_COLOR", "1"), ("SYSTEMD_COLORS", "yes")], false, true);
        check(&[("SYSTEMD_COLORS", "0")], true, false);
        check(&[("CLICOLOR_FORCE", "1")], false, true);
    }

    #[test]
    fn texts_of_strangers_have_nothing_that_a_terminal_acts_on() {
        assert_eq!(clean("a\x1b[2Jb\n\u{9b}c\x7fé\u{202e}"), "a [2Jb  c é ");
        assert_eq!(
            *cleaned(&serde_json::json!({"a": "\u{2066}x"})),
            serde_json::json!({"a": " x"})
        );
        assert_eq!(clean_lines("a\tb\r\n\x1bc\n"), "a\tb \n c\n");
        let answer = serde_json::json!({"a": ["x\x07", 1, {"b\r": "y"}], "c": null});
        let expected = serde_json::json!({"a": ["x ", 1, {"b ": "y"}], "c": null});
        assert_eq!(*cleaned(&answer), expected);
        assert!(matches!(cleaned(&expected), Cow::Borrowed(_)));
    }

    #[test]
    fn messages_have_the_kernels_words_and_no_numbers() {
        let gone = format!("a: {}: b", std::io::Error::from_raw_os_error(2));
        assert_eq!(without_number(&gone), "a: No such file or directory: b");
        assert_eq!(without_number("x (os error y) (os error 5"), "x (os error y) (os error 5");
    }

    #[test]
    fn lines_are_cut_to_their_columns() {
        let cut = [("", 3), ("abc", 3), ("äbcd", 3), ("ab", 0)].map(|(line, n)| cut(line, n));
        assert_eq!(cut, ["", "abc", "äb…", "…"]);
    }

    #[test]
    fn sizes_and_spans_are_short() {
        assert_eq!([bytes(12), bytes(1536), bytes(3 << 30)], ["12B", "1.5K", "3.0G"]);
        assert_eq!(span_us(999), "999 us");
        assert_eq!(span_us(3_210), "3.21 ms");
        assert_eq!(span_us(61_000_000), "1min 1s");
    }
}
