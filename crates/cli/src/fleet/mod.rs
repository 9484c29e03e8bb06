//! `warren fleet` and `warren icinga`: rules checked here, or by the manager that has them in
//! force.
//!
//! What needs no manager (`check`, `dump`, `console`, `fmt`, `lsp`, and all of `icinga`) is done by
//! `warren-fleet` in this process; `plan`, `apply`, `diff` and `rollback` are calls of the
//! manager's, so that what is shown is what it would do.

pub mod changes;
mod console;
mod dump;
mod fmt;
mod icinga;
mod lines;
mod lsp;
mod rules;

use anyhow::Result;
use warren_wire::control::Diagnostic;

use crate::args::{FleetCommand, Global, IcingaCommand};
use crate::output::Style;
use crate::verbs::print_json;
use warren_fleet::Severity;
use warren_fleet::session::Message;

/// Commands that need no manager; the others come back.
pub fn run(command: FleetCommand, global: &Global) -> Result<Result<i32, FleetCommand>> {
    match command {
        FleetCommand::Check(args) => rules::check(&args, global),
        FleetCommand::Dump(args) => dump::run(&args, global),
        FleetCommand::Console(args) => console::run(&args, global),
        FleetCommand::Fmt(args) => fmt::run(&args),
        FleetCommand::Lsp(args) => lsp::run(args.dir),
        other => return Ok(Err(other)),
    }
    .map(Ok)
}

/// Configurations of Icinga 2.
pub fn icinga(command: &IcingaCommand, global: &Global) -> Result<i32> {
    match command {
        IcingaCommand::Check(args) => icinga::check(args, global),
        IcingaCommand::Objects(args) => icinga::objects(args, global),
    }
}

/// Prints faults and warnings; true if there is a fault.
fn tell(messages: &[Message], global: &Global) -> bool {
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
