//! What the manager itself says: one line per event on standard error, which init has connected to
//! the console or to a file. Until the log daemon exists this is the only log.

use std::io::Write;

use warren_core::reason::Cause;
use warren_core::request::Notice;
use warren_core::view::View;
use warren_unit::Diagnostic;

/// Diagnostics that are written out after one load; the rest is counted.
const DIAGNOSTICS_SHOWN_MAX: usize = 50;

/// Writes one line. A log that cannot be written to is no reason to stop.
pub fn line(text: std::fmt::Arguments<'_>) {
    let now = warren_sys::time::monotonic_ns();
    let mut out = std::io::stderr().lock();
    let (seconds, micros) = (now / 1_000_000_000, now % 1_000_000_000 / 1_000);
    let _ = writeln!(out, "[{seconds:>5}.{micros:06}] warrend: {text}");
}

/// [`line()`] with format arguments.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => { $crate::log::line(format_args!($($arg)*)) };
}

/// Writes what a notice has for the log.
pub fn notice(view: &View, notice: &Notice) {
    match notice {
        Notice::Log { unit, reason, detail } => {
            let name = view.graph.name(*unit);
            if !reason.code.is_trouble() {
                return;
            }
            let by = match reason.cause {
                Cause::Dependency(other) | Cause::Trigger(other) | Cause::Outcome(other) => {
                    format!(" ({})", view.graph.name(other))
                }
                _ => String::new(),
            };
            let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
            say!("{name}: {} {}{by}{detail}", reason.code.id(), reason.code.text());
        }
        Notice::CycleBroken { units, dropped } => {
            let names: Vec<&str> = units.iter().map(|u| view.graph.name(*u).as_str()).collect();
            let dropped = view.graph.name(*dropped);
            say!("ordering circle {}: the job of {dropped} was dropped", names.join(" -> "));
        }
        _ => {}
    }
}

/// Writes what was wrong with unit files.
pub fn diagnostics(all: &[Diagnostic]) {
    for diagnostic in all.iter().take(DIAGNOSTICS_SHOWN_MAX) {
        say!(
            "{}:{}:{}: {}: {}",
            diagnostic.path,
            diagnostic.line,
            diagnostic.column,
            diagnostic.severity,
            diagnostic.message
        );
    }
    if all.len() > DIAGNOSTICS_SHOWN_MAX {
        say!("and {} more; see warren verify", all.len() - DIAGNOSTICS_SHOWN_MAX);
    }
}
