//! The manual pages: what the table of commands says, with exit statuses and files behind it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::Cli;

/// A status or a file, and what it means.
type Row = (&'static str, &'static str);

/// What every command ends with.
const STATUSES: [Row; 3] =
    [("0", "Success."), ("1", "An error."), ("2", "The command line is wrong.")];

/// What more some end with.
const MORE: &[(&[&str], &[Row])] = &[
    (
        &["start", "stop", "restart", "try-restart", "reload", "reload-or-restart"],
        &[
            ("1", "A job was cancelled, or another error."),
            ("3", "A job failed, or was refused, because of the unit itself."),
            ("4", "A job failed, or was refused, because of a unit that this one needs."),
            ("5", "A unit does not exist, or is not loaded."),
        ],
    ),
    (
        &["enable", "reenable", "disable", "mask"],
        &[("3, 4, 5", "With --now, what start and stop end with.")],
    ),
    (&["status"], &[("3", "A unit is not active."), ("4", "A unit does not exist.")]),
    (&["is-active"], &[("3", "None of the units is active.")]),
    (&["is-failed"], &[("1", "None of the units has failed, or an error.")]),
    (&["is-enabled"], &[("1", "None of the units is enabled, or an error.")]),
    (&["verify", "fleet-check", "icinga-check"], &[("1", "Errors were found.")]),
    (&["fleet-diff"], &[("1", "There are differences, or an error.")]),
    (&["fleet-fmt"], &[("1", "With --check, a file would change, or an error.")]),
    (&["fleet-console"], &[("1", "An expression fails, or the rules have faults.")]),
    (&["logs"], &[("1", "No match, or an error.")]),
    (
        &["run"],
        &[("N", "What the machine's process 1 ends with; 128 and the signal if one kills it.")],
    ),
    (
        &["enter", "inhibit"],
        &[("N", "What the command ends with; 128 and the signal if one kills it.")],
    ),
];

/// What the page of the program itself names.
const FILES: [Row; 4] = [
    ("/run/warren/control", "The control socket of the system's manager."),
    ("$XDG_RUNTIME_DIR/warren/control", "That of a user's manager."),
    (
        "/etc/systemd/system, /run/systemd/system, /usr/lib/systemd/system",
        "Unit files; see systemd.unit(5).",
    ),
    ("/etc/warren/fleet.d", "Rules that make units."),
];

/// Writes them into `directory`, which is made.
///
/// # Errors
/// As open(2) and write(2).
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut table = <Cli as CommandFactory>::command();
    clap_mangen::generate_to(table.clone(), directory)?;
    table.build();
    finish(directory, "warren", &table)
}

/// The page of a command, and of those below it.
fn finish(directory: &Path, page: &str, command: &Command) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(directory.join(format!("{page}.1")))?;
    let name = page.strip_prefix("warren-").unwrap_or_default();
    file.write_all(statuses(name).to_roff().as_bytes())?;
    if name.is_empty() {
        file.write_all(list("FILES", FILES.into_iter()).to_roff().as_bytes())?;
    }
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below
        .into_iter()
        .try_for_each(|below| finish(directory, &format!("{page}-{}", below.get_name()), below))
}

fn statuses(name: &str) -> Roff {
    let more = MORE.iter().filter(|(names, _)| names.contains(&name)).flat_map(|(_, more)| *more);
    let more: Vec<Row> = more.copied().collect();
    let is_other = |status: &Row| more.iter().all(|(number, _)| *number != status.0);
    let mut all: Vec<Row> = STATUSES.into_iter().filter(is_other).chain(more.clone()).collect();
    all.sort_by_key(|(number, _)| *number);
    list("EXIT STATUS", all.into_iter())
}

fn list(heading: &str, rows: impl Iterator<Item = Row>) -> Roff {
    let mut out = Roff::new();
    out.control("SH", [heading]);
    for (key, text) in rows {
        out.control("TP", []).text([bold(key)]).text([roman(text)]);
    }
    out
}
