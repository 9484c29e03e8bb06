//! Rules evaluated in this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use warren_fleet::engine::Options;
use warren_fleet::made::Product;
use warren_fleet::session::{BOUNDS, Loaded, Session};
use warren_fleet_files::{Files, Host, SYSTEM_DIRECTORY, rules_below, user_directory};
use warren_sys::progress::during;

use super::messages::tell;
use crate::args::{Global, RulesArgs};
use crate::output::print;

/// Where units that rules make say they are, in the system's manager.
pub(super) const LAYER: &str = "/run/warren/fleet";

/// Evaluation may be some hundred levels deep, in bytes.
const STACK_BYTES: usize = 64 << 20;

/// The directory of the rules.
pub(super) fn directory(args: &RulesArgs, global: &Global) -> Result<PathBuf> {
    let usual = || match global.user {
        true => user_directory().context("HOME is not set"),
        false => Ok(PathBuf::from(SYSTEM_DIRECTORY)),
    };
    let directory = args.dir.clone().map_or_else(usual, Ok)?;
    ensure!(directory.is_dir(), "{}: not a directory", directory.display());
    Ok(directory)
}

/// Evaluates the rules.
pub(super) fn load(args: &RulesArgs, global: &Global) -> Result<Loaded> {
    let mut files = Files::new(directory(args, global)?, false);
    let root = files.root();
    let options = options();
    Ok(shown("Evaluating the rules", global, |log| {
        files.read(log, |reading| deep(|| Session::load(root, Box::new(reading), &options, LAYER)))
    }))
}

/// Does long work on rules; what it logs is printed when it is over.
pub(super) fn shown<T>(
    what: &str,
    global: &Global,
    work: impl FnOnce(&mut (dyn FnMut(&str) + Send)) -> T,
) -> T {
    let mut lines = Vec::new();
    let mut log = |line: &str| lines.push(line.to_owned());
    let out = during(what, global.quiet, || work(&mut log));
    lines.iter().for_each(|line| complain!("{line}"));
    out
}

pub(super) fn options() -> Options<'static> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let now = (warren_sys::time::realtime_ns() / 1_000_000_000) as f64;
    Options { threads, now, facts: &Host, bounds: BOUNDS, ..Options::default() }
}

/// Evaluation is recursive: it gets a thread with room for that.
pub(super) fn deep<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let started = thread.spawn_scoped(scope, work).expect("a thread can be started");
        started.join().expect("evaluation does not panic")
    })
}

/// Files of rules below a directory that no file includes: a warning, since a unit that was never
/// made is not missed.
fn unread(session: &Session, directory: &Path) -> Vec<PathBuf> {
    let all = rules_below(directory).into_iter();
    all.filter(|path| !session.reads(&path.to_string_lossy())).collect()
}

/// `warren fleet check`
pub(super) fn check(args: &RulesArgs, global: &Global) -> Result<i32> {
    let Loaded { session, messages } = load(args, global)?;
    let is_faulty = tell(&messages, global);
    let directory = directory(args, global)?;
    for path in session.iter().flat_map(|session| unread(session, &directory)) {
        let path = path.display();
        complain!("warning: {path} is not used: no file of {} includes it", directory.display());
    }
    if let Some(session) = session.filter(|_| !global.quiet) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for path in session.products().keys() {
            let unit_type = Product::unit_type(path).map_or("?", |t| t.suffix());
            let kind = if path.contains('/') { "drop-in" } else { unit_type };
            *counts.entry(kind).or_default() += 1;
        }
        print(&totals(&counts, global));
    }
    Ok(i32::from(is_faulty))
}

fn totals(counts: &BTreeMap<&str, usize>, global: &Global) -> String {
    if global.json {
        return format!("{}\n", json!({"made": counts, "format": crate::output::JSON_VERSION}));
    }
    let all: usize = counts.values().sum();
    let each: Vec<String> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    match all {
        0 => "The rules make no unit files.\n".to_owned(),
        1 => format!("The rules make 1 unit file: {}.\n", each.join(", ")),
        all => format!("The rules make {all} unit files: {}.\n", each.join(", ")),
    }
}
