//! Faults and warnings of rules, printed.

use crate::args::Global;
use crate::output::{Style, print_json};
use warren_fleet::Severity;
use warren_fleet::session::Message;
use warren_wire::control::Diagnostic;

/// Prints faults and warnings; true if there is a fault.
pub(super) fn tell(messages: &[Message], global: &Global) -> bool {
    let style = Style::from_environment();
    for message in messages {
        match global.json {
            true => print_json(&told(message)),
            false => eprint!("{}", painted(message, style)),
        }
    }
    messages.iter().any(|message| message.severity == Severity::Error)
}

fn painted(message: &Message, style: Style) -> String {
    let tone = match message.severity {
        Severity::Error => crate::output::Tone::Bad,
        Severity::Warning => crate::output::Tone::Warn,
        Severity::Note => crate::output::Tone::Dim,
    };
    let (word, rest) = message.rendered.split_once(':').unwrap_or((&message.rendered, ""));
    format!("{}:{rest}", style.paint(tone, word))
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
