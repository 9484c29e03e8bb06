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
        (page("settings.md"), warren_unit::doc::compatibility()),
        (page("commands.md"), commands()),
        (page("journald.md"), warren_log_daemon::config::documentation()),
        (page("messages.md"), crate::messages::page()),
        (page("reasons.md"), warren_core::model::reason::documentation()),
    ]
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
