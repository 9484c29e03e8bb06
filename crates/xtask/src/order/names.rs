//! What pure crates may not name: files, sockets, clocks, threads, locks, the terminal; and what one crate alone may.
//! Must not: look at tests, or at dependencies (`purity` does).
//! Runs on the main thread of xtask.

use super::source::{Name, Source};

/// Folders of the crates that are pure.
const PURE: [&str; 7] = ["calendar", "unit", "core", "trace", "fleet", "sim", "wire"];

/// Paths that lead out of a pure crate. A name ends at `::`, so `std::net` is not `std::network`.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::os",
    "std::process",
    "std::thread",
    "std::env",
    "std::net",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::Barrier",
    "std::sync::Once",
    "std::sync::mpsc",
    "std::sync::atomic",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "jiff::tz::db",
    "jiff::tz::TimeZone::system",
    "jiff::tz::TimeZone::get",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "dbg!",
    "thread_local!",
];

/// Names below `IMPURE` that are only words.
const HARMLESS: &[&str] = &["std::net::Ipv4Addr", "std::net::Ipv6Addr", "std::net::IpAddr"];

/// A file that may name something impure all the same.
struct Allowed {
    /// The crate's folder, and the file below its `src`.
    file: &'static str,
    /// Lines of `IMPURE`; an empty list stands for all.
    what: &'static [&'static str],
}

/// The exceptions, each with its reason.
const ALLOWED: &[Allowed] = &[
    // Rules of tens of thousands of objects are evaluated in threads, which share nothing but a counter.
    Allowed { file: "fleet/share.rs", what: &["std::thread", "std::sync::atomic"] },
    // The program around the simulator: arguments, failing seeds in files, the printed verdict.
    Allowed { file: "sim/main.rs", what: &[] },
    // Runs systemd in a group of its own to compare with; a module of the program.
    Allowed { file: "sim/systemd.rs", what: &[] },
];

/// What only one crate may name, and which: modules of PAM are code of others, and run in a program that is for that.
const RESERVED: [(&str, &str); 1] = [("warren_sys::pam", "pam")];

/// What a crate names and must not.
pub fn faults(folder: &str, source: &Source) -> Vec<String> {
    let fault = |name: &Name| {
        let path = &name.path;
        match reserved(path) {
            Some((reserved, of)) if of != folder => {
                Some(format!("only crates/{of} may name {reserved}"))
            }
            _ if !PURE.contains(&folder) => None,
            _ => {
                let impure = impure(path)?;
                let is_fault = !is_allowed(folder, name, &impure);
                is_fault.then(|| format!("a pure crate names {path}"))
            }
        }
    };
    let place = |name: &Name| format!("crates/{folder}/src/{}:{}", name.file, name.line);
    let names = source.names.iter();
    names.filter_map(|name| Some(format!("{}: {}", place(name), fault(name)?))).collect()
}

/// The line of `RESERVED` that a path falls under.
fn reserved(path: &str) -> Option<(&'static str, &'static str)> {
    RESERVED.iter().copied().find(|(line, _)| is_below(path, line))
}

fn is_below(path: &str, line: &str) -> bool {
    path.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The line of `IMPURE` that a path falls under. `std::*` would hide all of them.
fn impure(path: &str) -> Option<&'static str> {
    let path = path.replacen("core::", "std::", usize::from(path.starts_with("core::")));
    if path == "std" {
        return Some("std");
    }
    if HARMLESS.iter().any(|line| is_below(&path, line)) {
        return None;
    }
    IMPURE.iter().copied().find(|line| is_below(&path, line))
}

fn is_allowed(folder: &str, name: &Name, impure: &&str) -> bool {
    let file = format!("{folder}/{}", name.file);
    let allows = |line: &&Allowed| line.what.is_empty() || line.what.contains(impure);
    ALLOWED.iter().filter(|line| line.file == file).any(|line| allows(&line))
}
