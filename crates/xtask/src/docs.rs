//! The generated pages of `docs/`: settings from the one table of settings, commands from the one
//! table of commands, messages from their types. CI checks that what is committed is what is generated.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::CommandFactory;

use crate::command::root;

/// Width of help texts in the pages.
const HELP_COLUMNS: usize = 90;

/// Path below the workspace, and text.
fn pages() -> Vec<(PathBuf, String)> {
    let page = |name: &str| root().join("docs/src/reference").join(name);
    vec![
        (page("settings.md"), settings()),
        (page("commands.md"), commands()),
        (page("journald.md"), warren_log_daemon::config::documentation()),
        (page("messages.md"), crate::messages::page()),
        (page("metrics.md"), metrics()),
        (root().join("share/man/warren-exporter.8"), exporter_manual()),
        (page("web.md"), web()),
        (root().join("share/man/warren-web.8"), web_manual()),
        (page("reasons.md"), warren_core::model::reason::documentation()),
    ]
}

/// The metrics, from the exporter's table, and its command line.
fn metrics() -> String {
    let mut out = String::from(
        "# Metrics\n\nGenerated from the table of metrics of `warren-exporter`. [How to watch it with \
         Prometheus](../howto/metrics.md) says how to use them. In both formats the samples of a counter have \
         `_total` behind the name.\n\n| metric | kind | labels | what it is |\n|--|--|--|--|\n",
    );
    for family in warren_exporter::family::ALL {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (family.name, family.kind.as_str(), family.help);
        let labels = labels.join(" ");
        writeln!(out, "| `{name}` | {kind} | {labels} | {help} |").expect("a string grows");
    }
    out.push_str("\n# Options of the exporter\n\n");
    let mut command = warren_exporter::options::Options::command().term_width(HELP_COLUMNS);
    section(&mut out, "warren-exporter", &mut command);
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// The manual page of the exporter.
fn exporter_manual() -> String {
    let command = warren_exporter::options::Options::command();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command).section("8").manual("Warrener");
    man.render(&mut page).expect("memory takes all");
    let more = ".SH FILES\n.TP\n/run/warren/control\nThe control socket that is asked.\n.TP\n\
        /run/warren\\-exporter/metrics\nThe Unix socket of warren\\-exporter.socket.\n.SH SEE ALSO\n\
        .BR warren (1)\n";
    String::from_utf8(page).expect("it is text") + more
}

/// The command line of the page's daemon.
fn web() -> String {
    let mut out = String::from(
        "# Options of warren-web\n\nGenerated from the program's table of options. [How to look at it with a \
         browser](../howto/web.md) says how to use them.\n\n",
    );
    let mut command = warren_web::options::Options::command().term_width(HELP_COLUMNS);
    section(&mut out, "warren-web", &mut command);
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// The manual page of the page's daemon.
fn web_manual() -> String {
    let command = warren_web::options::Options::command();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command).section("8").manual("Warrener");
    man.render(&mut page).expect("memory takes all");
    let more = ".SH FILES\n.TP\n/run/warren/control\nThe control socket that is asked.\n.TP\n\
        /run/warren\\-web/page\nThe Unix socket of warren\\-web.socket.\n.SH SEE ALSO\n\
        .BR warren (1)\n";
    String::from_utf8(page).expect("it is text") + more
}

/// The settings, with the tests that use each.
fn settings() -> String {
    let tests = tests();
    warren_unit::doc::compatibility(&|setting| {
        let uses = |text: &str| {
            let mut found = text.match_indices(setting);
            found.any(|(at, _)| is_use(text, at, setting.len()))
        };
        let names: Vec<&str> =
            tests.iter().filter(|(_, text)| uses(text)).map(|(name, _)| name.as_str()).collect();
        match names.len() {
            0..=NAMES_MAX => names.join(", "),
            more => format!("{} and {} more", names[..NAMES_MAX].join(", "), more - NAMES_MAX),
        }
    })
}

/// Tests that are named of a setting that many use.
const NAMES_MAX: usize = 4;

/// Whether a name is assigned to there: it is whole, and `=` follows. A line may begin before it, in Rust too.
fn is_use(text: &str, at: usize, bytes: usize) -> bool {
    let before = &text[..at];
    let begins = !before.ends_with(|c: char| c.is_ascii_alphanumeric()) || before.ends_with("\\n");
    begins && text[at + bytes..].starts_with('=')
}

/// Tests that run units, by name, with their text.
fn tests() -> Vec<(String, String)> {
    let mut tests = Vec::new();
    for (directory, extension, kind) in
        [("crates/manager/tests", "rs", ""), ("crates/xtask/beside", "txt", "beside ")]
    {
        for entry in fs::read_dir(root().join(directory)).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).unwrap_or_default();
                tests.push((format!("{kind}{name}"), text));
            }
        }
    }
    tests.sort();
    tests
}

/// Writes all pages.
pub fn write() -> Result<()> {
    for (path, text) in pages() {
        fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

/// Fails when a page is not what would be written.
pub fn check() -> Result<()> {
    for (path, text) in pages() {
        let committed = fs::read_to_string(&path).unwrap_or_default();
        ensure!(committed == text, "{} is old: run `cargo xtask docs`", path.display());
    }
    println!("docs: fresh");
    Ok(())
}

fn commands() -> String {
    let mut command = warren_cli::args::Cli::command().term_width(HELP_COLUMNS);
    command.build();
    let mut out = String::from(
        "# Commands\n\nGenerated from the table of commands. The same text is in `warren --help`, \
         in the manual pages and in the shell completions.\n\n",
    );
    sections(&mut out, "warren", &mut command);
    out
}

/// A command, and those below it.
fn sections(out: &mut String, title: &str, command: &mut clap::Command) {
    section(out, title, &mut command.clone());
    for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set()) {
        sections(out, &format!("{title} {}", sub.get_name()), sub);
    }
}

fn section(out: &mut String, title: &str, command: &mut clap::Command) {
    let help = command.render_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    writeln!(out, "## {title}\n\n```text\n{}\n```\n", help.join("\n").trim_end())
        .expect("a string grows");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_a_whole_name_at_which_something_is_assigned() {
        let check = |text: &str| text.match_indices("Nice").any(|(at, _)| is_use(text, at, 4));
        assert!(check("\nNice=1") && check("[Service]\\nNice=1") && check("\"Nice=\""));
        assert!(!check("XNice=1") && !check("Nice = 1") && !check("Nicer=1"));
    }
}
