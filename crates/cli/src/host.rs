//! `warren host`: which init the machine boots.
//!
//! `loader` finds the boot loader and looks at it, `plan` says what is to be written and run (pure), and here it is
//! done, or printed. A try is for the next boot only, whatever becomes of it: the loader itself forgets it. A machine
//! that was booted so and is not confirmed reboots by `warren-host-fallback.timer`.
//! Must not: touch the manager, or the default of the loader but for `adopt` and `release`.

mod loader;
mod plan;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::args::{Global, HostAction, HostArgs};
use crate::output::print;
use loader::Tools;
use plan::Step;

/// Where it says that this boot is good.
const CONFIRMED: &str = "run/warren/host-confirmed";

/// What a try needs on the disk: the init, and what ends a boot that is not confirmed.
const INIT: &str = "usr/lib/warren/warren-init";
const FALLBACK: &str = "usr/lib/warren/system/sysinit.target.wants/warren-host-fallback.timer";

/// On the kernel's command line of a try.
const TRY_WORD: &str = "warren.try";

/// Does what the command line says; returns the exit status.
pub fn run(args: &HostArgs, global: &Global) -> Result<i32> {
    let tools = Tools { root: args.root.clone().unwrap_or_else(|| PathBuf::from("/")) };
    match args.action {
        HostAction::Status => {
            print(&status(&tools));
            return Ok(0);
        }
        HostAction::Confirm => return confirm(&tools),
        _ => {}
    }
    if args.action != HostAction::Release {
        for file in [INIT, FALLBACK] {
            let there = tools.root.join(file).symlink_metadata().is_ok();
            ensure!(there, "/{file} is not there: install Warrener below /usr first");
        }
    }
    let loader = loader::find(&tools)?;
    let steps = plan::plan(args.action, &loader).map_err(anyhow::Error::msg)?;
    for step in &steps {
        if args.dry_run || !global.quiet {
            print(&format!("{step}\n"));
        }
        if !args.dry_run {
            carry_out(step, &tools.root)?;
        }
    }
    if !args.dry_run && !global.quiet {
        print(&format!("{}\n", plan::said(args.action, &loader)));
    }
    Ok(0)
}

fn carry_out(step: &Step, root: &Path) -> Result<()> {
    match step {
        Step::Write { path, text } => {
            let path = below(root, path);
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
            }
            // At once, or not at all: a boot loader may read it at any time.
            let part = path.with_extension("part");
            fs::write(&part, text).with_context(|| part.display().to_string())?;
            fs::rename(&part, &path).with_context(|| path.display().to_string())
        }
        Step::Remove { path } => match fs::remove_file(below(root, path)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.with_context(|| path.display().to_string()),
        },
        Step::Run(command) => {
            let output = Command::new(&command[0])
                .args(&command[1..])
                .output()
                .with_context(|| format!("cannot run {}", command[0]))?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{} failed: {}", command.join(" "), said.trim());
            Ok(())
        }
    }
}

/// An absolute path below another root.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn is_try(tools: &Tools) -> bool {
    let line = fs::read_to_string(tools.root.join("proc/cmdline")).unwrap_or_default();
    line.split_whitespace().any(|word| word == TRY_WORD)
}

fn confirm(tools: &Tools) -> Result<i32> {
    ensure!(
        is_try(tools),
        "this boot was not started by `warren host try`: there is nothing to confirm"
    );
    let path = tools.root.join(CONFIRMED);
    fs::write(&path, "").with_context(|| path.display().to_string())?;
    print(
        "This boot is confirmed: the machine stays up. The next boot is the default's; see `warren host adopt`.\n",
    );
    Ok(0)
}

fn status(tools: &Tools) -> String {
    let loader = match loader::find(tools) {
        Ok(loader) => loader.to_string(),
        Err(error) => error.to_string(),
    };
    let boot = match (is_try(tools), tools.root.join(CONFIRMED).exists()) {
        (false, _) => "no try",
        (true, true) => "a try, confirmed",
        (true, false) => {
            "a try, not confirmed: the machine reboots 10 minutes after its boot (`warren host confirm`)"
        }
    };
    format!("Boot loader: {loader}\nThis boot: {boot}\n")
}
