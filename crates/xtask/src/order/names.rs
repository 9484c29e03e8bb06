//! What pure crates may not name: files, sockets, clocks, threads, locks, the terminal.
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

/// What a pure crate names and must not.
pub fn faults(folder: &str, source: &Source) -> Vec<String> {
    if !PURE.contains(&folder) {
        return Vec::new();
    }
    let names = source.names.iter();
    let impure = names.filter_map(|name| Some((name, impure(&name.path)?)));
    let stray = impure.filter(|(name, impure)| !is_allowed(folder, name, impure));
    stray
        .map(|(name, _)| {
            let (file, line, path) = (&name.file, name.line, &name.path);
            format!("crates/{folder}/src/{file}:{line}: a pure crate names {path}")
        })
        .collect()
}

/// The line of `IMPURE` that a path falls under. `std::*` would hide all of them.
fn impure(path: &str) -> Option<&'static str> {
    let path = path.replacen("core::", "std::", usize::from(path.starts_with("core::")));
    if path == "std" {
        return Some("std");
    }
    let is_below = |line: &str| {
        path.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    if HARMLESS.iter().any(|line| is_below(line)) {
        return None;
    }
    IMPURE.iter().copied().find(|line| is_below(line))
}

fn is_allowed(folder: &str, name: &Name, impure: &&str) -> bool {
    let file = format!("{folder}/{}", name.file);
    let allows = |line: &&Allowed| line.what.is_empty() || line.what.contains(impure);
    ALLOWED.iter().filter(|line| line.file == file).any(|line| allows(&line))
}
