//! Faults in fleet files, with the lines they are about and what may have been meant.
//!
//! A diagnostic is data; [`render`] makes the text that people read.

use std::fmt::Write;

pub use warren_unit::Severity;

use crate::source::{Place, Source};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Where it is.
    pub place: Place,
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub message: String,
    /// Other places that belong to it, each with what it has to do with it.
    pub notes: Vec<(Place, String)>,
    /// What to do about it, or what was probably meant.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(place: Place, message: impl Into<String>) -> Diagnostic {
        let severity = Severity::Error;
        Diagnostic { place, severity, message: message.into(), notes: Vec::new(), help: None }
    }

    /// A warning.
    pub fn warning(place: Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(place, message) }
    }

    /// With another place.
    pub fn note(mut self, place: Place, text: impl Into<String>) -> Diagnostic {
        self.notes.push((place, text.into()));
        self
    }

    /// With advice.
    pub fn help(mut self, text: Option<String>) -> Diagnostic {
        self.help = text;
        self
    }
}

/// How many bytes of a line an excerpt shows.
const EXCERPT_BYTES_MAX: usize = 160;

/// The text of a diagnostic: the message, the line with its column marked, the notes, the help.
pub fn render(diagnostic: &Diagnostic, sources: &dyn Fn(u32) -> Option<Source>) -> String {
    let mut out = format!("{}: {}\n", diagnostic.severity, diagnostic.message);
    excerpt(&mut out, diagnostic.place, sources);
    for (place, text) in &diagnostic.notes {
        line(&mut out, format_args!("note: {text}"));
        excerpt(&mut out, *place, sources);
    }
    if let Some(help) = &diagnostic.help {
        line(&mut out, format_args!("help: {help}"));
    }
    out
}

/// Writing to a string cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string grows");
}

fn excerpt(out: &mut String, place: Place, sources: &dyn Fn(u32) -> Option<Source>) {
    let Some(source) = sources(place.file.0) else { return };
    let (number, column) = source.line_column(place.span.start);
    line(out, format_args!("  --> {}:{number}:{column}", source.path));
    let text = source.line(number);
    let from = (column as usize - 1).saturating_sub(EXCERPT_BYTES_MAX / 2);
    let text = &text[from.min(text.len())..];
    let shown = printable(&text[..text.len().min(EXCERPT_BYTES_MAX)]);
    let width = (place.span.end.saturating_sub(place.span.start) as usize).max(1);
    let before = column as usize - 1 - from;
    let width = width.min(shown.len().saturating_sub(before).max(1));
    line(out, format_args!("{number:5} | {shown}"));
    line(out, format_args!("      | {}{}", " ".repeat(before), "^".repeat(width)));
}

/// One character a byte, so that marks stay below what they mark.
fn printable(text: &[u8]) -> String {
    text.iter().map(|byte| if (32..127).contains(byte) { *byte as char } else { ' ' }).collect()
}

/// How far a misspelt name may be from a known one.
const DISTANCE_MAX: usize = 2;

/// The known name that is nearest to a misspelt one, if one is near enough.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let limit = DISTANCE_MAX.min(name.len().div_ceil(3));
    let near = known.into_iter().filter(|other| other.len().abs_diff(name.len()) <= limit);
    let (same, alike) = (u8::eq, u8::eq_ignore_ascii_case);
    // Letters that differ in case only count nothing, unless two are as near.
    let far =
        |other: &str, same: fn(&u8, &u8) -> bool| distance(name.as_bytes(), other.as_bytes(), same);
    let rated = near.map(|other| (far(other, alike), far(other, same), other));
    rated.filter(|(far, ..)| *far <= limit).min().map(|(.., other)| other)
}

/// Edits between two words.
fn distance(a: &[u8], b: &[u8], is_same: fn(&u8, &u8) -> bool) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(!is_same(x, y));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// How many diagnostics one file or run can have.
pub const DIAGNOSTICS_MAX: usize = 200;

/// Collects diagnostics, up to [`DIAGNOSTICS_MAX`].
#[derive(Debug, Default)]
pub struct Sink {
    list: Vec<Diagnostic>,
    /// How many more there were of each.
    alike: Vec<usize>,
}

impl Sink {
    /// Adds one; the last that fits says that there were more. What says the same of the same place
    /// is counted: a rule that fails for every target has one fault.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let is_alike = |other: &Diagnostic| {
            other.place == diagnostic.place && other.message == diagnostic.message
        };
        if let Some(at) = self.list.iter().position(is_alike) {
            self.alike[at] += 1;
            return;
        }
        self.alike.push(0);
        match self.list.len() {
            n if n + 1 < DIAGNOSTICS_MAX => self.list.push(diagnostic),
            n if n < DIAGNOSTICS_MAX => {
                self.list.push(Diagnostic::error(diagnostic.place, "more faults are not listed"))
            }
            _ => {
                self.alike.pop();
            }
        }
    }

    /// Whether nothing was collected.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What was collected, in order.
    pub fn finish(self) -> Vec<Diagnostic> {
        let mut list = self.list;
        for (diagnostic, alike) in list.iter_mut().zip(self.alike) {
            if alike > 0 {
                let text = format!("and {alike} more like this one");
                diagnostic.notes.push((diagnostic.place, text));
            }
        }
        list
    }
}

/// The diagnostics by place, no more than [`DIAGNOSTICS_MAX`] errors and as many others.
pub fn limited(mut all: Vec<Diagnostic>) -> Vec<Diagnostic> {
    all.sort();
    all.dedup();
    let (mut errors, mut others): (Vec<Diagnostic>, Vec<Diagnostic>) =
        all.into_iter().partition(|fault| fault.severity == Severity::Error);
    for list in [&mut errors, &mut others] {
        if let Some(last) = list.get(DIAGNOSTICS_MAX - 1).filter(|_| list.len() > DIAGNOSTICS_MAX) {
            let message = "more faults are not listed".to_owned();
            let last =
                Diagnostic { severity: last.severity, ..Diagnostic::error(last.place, message) };
            list.truncate(DIAGNOSTICS_MAX - 1);
            list.push(last);
        }
    }
    errors.extend(others);
    errors.sort();
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;

    #[test]
    fn misspelt_names_find_what_was_meant() {
        let known = ["display_name", "address", "vars", "templates"];
        let check = |name, expected| assert_eq!(nearest(name, known), expected, "{name}");
        check("adress", Some("address"));
        check("displayname", Some("display_name"));
        check("var", Some("vars"));
        check("Vars", Some("vars"));
        check("zone", None);
        // Of two that are as near, the one that is written alike.
        let names = ["Container", "container", "containers"];
        assert_eq!(nearest("contaner", names), Some("container"));
        assert_eq!(nearest("Contaner", names), Some("Container"));
        check("", None);
    }

    #[test]
    fn many_warnings_do_not_hide_an_error() {
        let place = |start: u32| Place { span: Span { start, end: start }, ..Place::default() };
        let warning = |n: u32| Diagnostic::warning(place(n), n.to_string());
        let all = (0..1000).map(warning).chain([Diagnostic::error(place(5000), "bad")]).collect();
        let list = limited(all);
        let errors: Vec<_> = list.iter().filter(|d| d.severity == Severity::Error).collect();
        assert_eq!((list.len(), errors.len()), (DIAGNOSTICS_MAX + 1, 1));
    }

    #[test]
    fn excerpts_mark_the_place() {
        let source = Source::new("a.conf", b"x = 1\n  y = nope\n");
        let place = Place { span: Span { start: 12, end: 16 }, ..Place::default() };
        let text = render(&Diagnostic::error(place, "unknown"), &|_| Some(source.clone()));
        let expected = "error: unknown\n  --> a.conf:2:7\n    2 |   y = nope\n      |       ^^^^\n";
        assert_eq!(text, expected);
    }
}
