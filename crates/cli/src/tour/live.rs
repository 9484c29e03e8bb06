//! The live table on a terminal: redrawn each second until `q` or Ctrl-C.

use std::time::Duration;

use anyhow::Result;
use warren_wire::control::{List, Texts, Totals, UnitRow};

use crate::live::Watch;
use crate::nest::started::Nested;
use crate::output::{Style, print};
use crate::render;

/// Time between two pictures.
const PERIOD: Duration = Duration::from_secs(1);

/// A manager that does not answer in this time is given up: no key is looked at meanwhile.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

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
    let mut watch = Watch::new()?;
    let mut drawn = 0;
    loop {
        let picture = picture(nested)?;
        // Back to the first line of the last picture, clear from there.
        let up = if drawn > 0 { format!("\x1b[{drawn}F\x1b[J") } else { String::new() };
        print(&format!("{up}{picture}"));
        drawn = picture.lines().count();
        if !watch.wait(PERIOD)? {
            break;
        }
    }
    drop(watch);
    println!();
    Ok(())
}

fn hints(machine: &str, commands: &[&str]) -> String {
    let line = |command: &&str| format!("  warren -M {machine} {command}\n");
    let lines: String = commands.iter().map(line).collect();
    format!("It stays up. From another terminal, try:\n{lines}q ends it.")
}

fn picture(nested: &Nested) -> Result<String> {
    let totals = nested.call_within(ANSWERS_WITHIN, &Totals {})?;
    let list = List { state: Texts(vec!["running".to_owned()]), ..List::default() };
    let list = nested.call_within(ANSWERS_WITHIN, &list)?;
    let rows: Vec<&UnitRow> = list.units.iter().take(ROWS).collect();
    let style = Style::from_environment();
    Ok(format!("{}\n{}", render::totals(&totals, style), render::list(&rows, style, true, None)))
}
