//! `warren fleet console`: expressions over the rules, one a line.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::Result;
use serde_json::json;
use warren_fleet::Source;
use warren_fleet::console::Console;
use warren_fleet::outside::{Nothing, Outside};
use warren_fleet::session::{BOUNDS, Loaded, Session};
use warren_fleet_files::Host;

use super::messages::tell;
use super::rules;
use crate::args::{ConsoleArgs, Global};
use crate::output::print;

pub(super) fn run(args: &ConsoleArgs, global: &Global) -> Result<i32> {
    let is_there = args.rules.dir.is_some() || rules::directory(&args.rules, global).is_ok();
    let loaded = if is_there { rules::load(&args.rules, global)? } else { nothing() };
    let Loaded { session, messages } = loaded;
    tell(&messages, &Global { json: false, ..global.clone() });
    // Over rules with faults expressions see none of them.
    let of_rules = i32::from(session.is_none());
    let Some(session) = session.or_else(|| nothing().session) else { return Ok(1) };
    let now = rules::options().now;
    rules::deep(|| {
        let mut console =
            Console::over(&session, Box::new(LogPrinter { now }), &Host, BOUNDS.steps);
        match args.expression.is_empty() {
            true => interactive(&mut console, of_rules, global),
            false => {
                let statuses = args.expression.iter().map(|e| answer(&mut console, e, global));
                Ok(statuses.max().unwrap_or(0).max(of_rules))
            }
        }
    })
}

/// Prints what is logged.
struct LogPrinter {
    now: f64,
}

impl Outside for LogPrinter {
    fn log(&mut self, _severity: u8, facility: &str, text: &[u8]) {
        complain!("{facility}: {}", String::from_utf8_lossy(text));
    }

    fn now(&self) -> f64 {
        self.now
    }
}

/// A configuration without anything in it.
fn nothing() -> Loaded {
    let outside = Box::new(Nothing::default());
    Session::load(Source::new("nothing", b""), outside, &rules::options(), "/run/warren/fleet")
}

/// Prints what an expression comes to; 1 if it fails.
fn answer(console: &mut Console<'_>, text: &str, global: &Global) -> i32 {
    match console.evaluate(text) {
        Ok(value) if global.json => {
            let value: serde_json::Value = serde_json::from_str(&value).unwrap_or_default();
            let version = crate::output::JSON_VERSION;
            print(&format!("{}\n", json!({"value": value, "format": version})));
            0
        }
        Ok(value) => {
            print(&format!("{value}\n"));
            0
        }
        Err(message) => {
            tell(&[*message], global);
            1
        }
    }
}

/// Reads lines until the end. A line that opens a bracket and does not close it goes on in the
/// next one. The status is at least that of the rules.
fn interactive(console: &mut Console<'_>, of_rules: i32, global: &Global) -> Result<i32> {
    let is_terminal = std::io::stdin().is_terminal();
    let prompt = |text: &str| {
        if is_terminal {
            eprint!("{text}");
            let _ = std::io::stderr().flush();
        }
    };
    let (mut status, mut text) = (0, String::new());
    prompt("fleet> ");
    for line in std::io::stdin().lock().lines() {
        text.push_str(&line?);
        text.push('\n');
        if is_open(&text) {
            prompt("   ... ");
            continue;
        }
        if !text.trim().is_empty() {
            status = answer(console, &text, global);
        }
        text.clear();
        prompt("fleet> ");
    }
    // A bracket is still open: that is a fault, not nothing.
    if !text.trim().is_empty() {
        status = answer(console, &text, global);
    }
    // What was typed at a terminal is nobody's status.
    Ok(if is_terminal { 0 } else { status.max(of_rules) })
}

/// Whether brackets are still open.
fn is_open(text: &str) -> bool {
    let (module, _) =
        warren_fleet::parse(warren_fleet::FileId(0), Source::new("", text.as_bytes()));
    let depth = module.tokens.iter().map(|token| token.kind.nesting()).sum::<i32>();
    depth > 0
}
