//! Faults and warnings of rules, printed.

use std::collections::BTreeMap;

use crate::args::Global;
use crate::output::{Style, Tone, print_json};
use warren_fleet::Severity;
use warren_fleet::session::Message;
use warren_wire::control::Diagnostic;

/// Prints faults and warnings; true if there is a fault.
pub(super) fn tell(messages: &[Message], global: &Global) -> bool {
    match global.json {
        true => messages.iter().for_each(|message| print_json(&told(message))),
        false => eprint!("{}", shown(messages, Style::from_environment())),
    }
    messages.iter().any(|message| message.severity == Severity::Error)
}

/// How often the same is shown in full; one missing constant is a fault of hundreds of commands.
const SAME_MAX: usize = 3;

/// How many more places of the same are named.
const PLACES_MAX: usize = 5;

/// Messages in their order; what is said again and again is shown a few times, then counted.
fn shown(messages: &[Message], style: Style) -> String {
    let mut places: BTreeMap<&str, Vec<&Message>> = BTreeMap::new();
    messages.iter().for_each(|m| places.entry(&m.message).or_default().push(m));
    let (mut out, mut seen) = (String::new(), BTreeMap::<&str, usize>::new());
    for message in messages {
        let same = &places[&*message.message];
        let at = seen.entry(&message.message).or_default();
        if *at < SAME_MAX || same.len() == SAME_MAX + 1 {
            out.push_str(&painted(message, style));
        } else if *at == SAME_MAX {
            out.push_str(&more(&same[SAME_MAX..], style));
        }
        *at += 1;
    }
    out
}

/// `error: the same in 210 more places: a.conf:1, b.conf:7, ...`
fn more(same: &[&Message], style: Style) -> String {
    let first = same.iter().take(PLACES_MAX);
    let mut places: Vec<String> = first.map(|m| format!("{}:{}", m.path, m.line)).collect();
    places.extend((same.len() > PLACES_MAX).then(|| "...".to_owned()));
    let text = format!("the same in {} more places: {}", same.len(), places.join(", "));
    let severity = same.first().map_or(Severity::Note, |message| message.severity);
    format!("{}: {text}\n", style.paint(tone(severity), &severity.to_string()))
}

fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Warn,
        Severity::Note => Tone::Dim,
    }
}

fn painted(message: &Message, style: Style) -> String {
    let (word, rest) = message.rendered.split_once(':').unwrap_or((&message.rendered, ""));
    format!("{}:{rest}", style.paint(tone(message.severity), word))
}

/// A message as the manager tells of it.
fn told(message: &Message) -> Diagnostic {
    Diagnostic {
        path: message.path.to_string(),
        line: message.line,
        column: message.column,
        severity: message.severity.to_string().as_str().into(),
        code: "rule".to_owned(),
        message: message.message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str, line: u32) -> Message {
        let rendered = format!("error: {text}\n  --> a.conf:{line}:1\n");
        let (path, message) = ("a.conf".into(), text.into());
        let (end, help, notes) = ((line, 2), None, Vec::new());
        Message {
            severity: Severity::Error,
            path,
            line,
            column: 1,
            end,
            message,
            help,
            notes,
            rendered,
        }
    }

    #[test]
    fn what_is_said_again_and_again_is_counted() {
        let count = |n: u32| {
            let all: Vec<Message> = (1..=n).map(|line| message("no PluginDir", line)).collect();
            shown(&all, Style { colour: false })
        };
        assert_eq!(count(4).matches("-->").count(), 4);
        let many = count(213);
        assert_eq!(many.matches("-->").count(), 3);
        assert!(many.ends_with("error: the same in 210 more places: a.conf:4, a.conf:5, a.conf:6, a.conf:7, a.conf:8, \
                                ...\n"), "{many}");
        let mixed = [message("a", 1), message("b", 2), message("a", 3)];
        assert_eq!(shown(&mixed, Style { colour: false }).matches("error").count(), 3);
    }
}
