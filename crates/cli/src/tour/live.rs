//! The live table on a terminal: redrawn each second until `q` or Ctrl-C.

use std::io::Read;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::signal::{SignalFd, SignalSet};
use warren_sys::terminal::KeyByKey;

use super::nested::Nested;
use crate::output::{Style, print};
use crate::render;

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Time between two pictures.
const PERIOD: Duration = Duration::from_secs(1);

/// Units that have a row of their own.
const ROWS: usize = 12;

/// What to try on sets of unit files.
pub const SETS: [&str; 4] = [
    "status test-nginx-1",
    "restart test-nginx-1",
    "why test-nginx-2",
    "enter systemctl list-units --type=service",
];

/// Redraws until it is told to end.
pub fn watch(nested: &mut Nested, commands: &[&str]) -> Result<()> {
    println!("\n{}\n", hints(&nested.machine.name, commands));
    let stdin = std::io::stdin();
    let signals = SignalFd::new(SignalSet::EMPTY.with(SIGINT).with(SIGTERM))?;
    let keys = KeyByKey::new(&stdin)?;
    let epoll = Epoll::new()?;
    epoll.add(&stdin, 0, Interest::READ)?;
    epoll.add(&signals, 1, Interest::READ)?;
    let mut ready = Events::with_capacity(2);
    let mut drawn = 0;
    while ready.is_empty() || !wants_to_end(&ready)? {
        let picture = picture(nested)?;
        // Back to the first line of the last picture, clear from there.
        let up = if drawn > 0 { format!("\x1b[{drawn}F\x1b[J") } else { String::new() };
        print(&format!("{up}{picture}"));
        drawn = picture.lines().count();
        epoll.wait(&mut ready, Some(PERIOD))?;
    }
    drop(keys);
    println!();
    Ok(())
}

fn wants_to_end(ready: &Events) -> Result<bool> {
    if ready.iter().any(|r| r.token == 1) {
        return Ok(true);
    }
    let mut key = [0u8; 1];
    let read = std::io::stdin().lock().read(&mut key)?;
    Ok(read == 0 || matches!(key[0], b'q' | b'Q' | 3 | 4))
}

fn hints(machine: &str, commands: &[&str]) -> String {
    let line = |command: &&str| format!("  warren -M {machine} {command}\n");
    let lines: String = commands.iter().map(line).collect();
    format!("It stays up. From another terminal, try:\n{lines}q ends it.")
}

fn picture(nested: &Nested) -> Result<String> {
    let totals = nested.call("Totals", json!({}))?;
    let list = nested.call("List", json!({"state": "running"}))?;
    let rows: Vec<&Value> = list["units"].as_array().into_iter().flatten().take(ROWS).collect();
    let style = Style::from_environment();
    Ok(format!("{}\n{}", render::totals(&totals, style), render::list(&rows, style, true)))
}
