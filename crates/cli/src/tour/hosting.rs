//! The tour of rules: a hosting company's containers in a nested manager, and what becomes of a
//! change to one of them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use warren_wire::control::{Cat, ReloadAnswer, ReloadConfiguration};

use super::steps::{self, Trap};
use super::{beside, is_interactive, live};
use crate::nest::started::{Nested, Over};
use crate::output::{Style, print};

/// What wants everything in the example.
const TARGET: &str = "hosting.target";

/// The file that says which program runs in each container.
const PROGRAM: &str = "00-program.conf";

/// The file that is edited, what is replaced in it, and by what.
const EDIT: (&str, &str, &str) = ("40-exceptions.conf", "CURRENCY = \"EUR\"", "CURRENCY = \"CHF\"");

/// A bound for readiness counts containers as sets of units.
const CONTAINERS: u32 = 5000;

/// What to try afterwards.
const HINTS: [&str; 4] =
    ["status shop-web", "cat shop-web", "fleet plan", "enter systemctl list-units --type=slice"];

/// Shows the rules in `example`, of which a copy is changed.
pub fn run(example: &Path, scratch: &Path, once: bool) -> Result<i32> {
    let rules = scratch.join("rules");
    let echo = beside("warren-echo")?;
    let lines = copy(example, &rules).with_context(|| format!("{}", example.display()))?;
    fs::write(rules.join(PROGRAM), format!("const Program = \"{}\"\n", echo.display()))?;
    println!("Warrener: {lines} lines of rules, in a manager of their own.\n");
    let over = Over { flag: "--fleet", directory: &rules, target: TARGET, sets: CONTAINERS };
    let mut nested = Nested::over(Path::new("/proc/self/exe"), scratch, &over)?;
    let shown = show(&nested, &rules, &echo).and_then(|()| match is_interactive(once) {
        true => live::watch(&mut nested, &HINTS),
        false => Ok(()),
    });
    if let Err(error) = shown {
        nested.kill();
        return Err(error);
    }
    steps::stop(nested)?;
    Ok(0)
}

/// Copies the files of a directory; returns how many lines they have.
fn copy(from: &Path, to: &Path) -> Result<usize> {
    fs::create_dir(to)?;
    let mut lines = 0;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let is_rules = path.extension().is_some_and(|extension| extension == "conf");
        if let (true, Some(name)) = (is_rules, path.file_name()) {
            let text = fs::read_to_string(&path)?;
            lines += text.lines().count();
            fs::write(to.join(name), text)?;
        }
    }
    Ok(lines)
}

fn show(nested: &Nested, rules: &Path, echo: &Path) -> Result<()> {
    for complaint in nested.complaints() {
        println!("  ({})", complaint.trim_start_matches("warren: "));
    }
    steps::loaded(nested)?;
    steps::connection(nested, "/run/hosting/shop.sock", "shop", "shop-web.service")?;
    let trap = Trap { name: "hosting-archive".into(), path: "/hosting/archive".into() };
    let what = "an automount entered for the first time";
    steps::or_say(what, steps::automount(nested, &trap, echo));
    edit(nested, rules)?;
    let answer = nested.call(&ReloadConfiguration::default())?;
    steps::reloaded("reload, nothing changed", &answer);
    steps::restart(nested, "shop-web.service")?;
    steps::memory(nested)
}

/// One attribute of one container.
fn edit(nested: &Nested, rules: &Path) -> Result<()> {
    let (file, before, after) = EDIT;
    let path = rules.join(file);
    let text = fs::read_to_string(&path)?;
    ensure!(text.contains(before), "{}: has no {before}", path.display());
    fs::write(&path, text.replace(before, after))?;
    let plan = call(nested, true)?;
    let answer = call(nested, false)?;
    steps::reloaded("an attribute of a container changed", &answer);
    let text = crate::fleet::changes::plan(&plan, true, false, Style::from_environment());
    let indented: String = text.lines().map(|line| format!("      {line}\n")).collect();
    print(&indented);
    let cat = nested.call(&Cat { unit: Some("shop-web.service".to_owned()), pid: None })?;
    let text = cat.files.first().map_or("", |file| &file.text);
    ensure!(text.contains("CURRENCY=CHF"), "the change did not arrive: {text}");
    Ok(())
}

fn call(nested: &Nested, dry_run: bool) -> Result<ReloadAnswer> {
    nested.call(&ReloadConfiguration { rules_only: true, dry_run, ..Default::default() })
}
