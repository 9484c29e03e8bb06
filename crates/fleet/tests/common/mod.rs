//! A configuration of Icinga's types, loaded here and by the installed program.

#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use warren_fleet::ast::IncludeKind;
use warren_fleet::dump::Only;
use warren_fleet::dump_icinga::Dump;
use warren_fleet::engine::{Options, load};
use warren_fleet::modules::Modules;
use warren_fleet::outside::{Include, Outside};
use warren_fleet::schema::icinga;
use warren_fleet::types::Types;
use warren_fleet::{Source, diagnostic};

/// `Type name` to what the dump says of the object.
pub type Objects = BTreeMap<String, Value>;

/// Where `include <...>` looks.
const LIBRARY: &str = "/usr/share/icinga2/include";

/// The files of the host, as far as configurations include them.
struct Files;

fn matching(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let end = pattern.trim_start_matches('*');
    let fits = |path: &PathBuf| path.to_string_lossy().ends_with(end);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(fits).collect();
    paths.sort();
    paths
}

fn below(directory: &Path, out: &mut Vec<PathBuf>) {
    out.extend(matching(directory, "*.conf"));
    let directories = matching(directory, "").into_iter().filter(|path| path.is_dir());
    directories.for_each(|path| below(&path, out));
}

impl Outside for Files {
    fn include(&mut self, include: &Include) -> Result<Vec<Source>, String> {
        let from = Path::new(&include.from).parent().unwrap_or(Path::new(""));
        let path = match include.kind {
            IncludeKind::Search => Path::new(LIBRARY).join(&include.path),
            _ => from.join(&include.path),
        };
        let mut paths = Vec::new();
        match include.kind {
            IncludeKind::Recursive | IncludeKind::Zones => below(&path, &mut paths),
            _ if include.path.contains('*') => {
                let directory = path.parent().unwrap_or(Path::new(""));
                paths = matching(directory, &include.path[include.path.find('*').unwrap_or(0)..]);
            }
            _ => paths.push(path),
        }
        let read = |path: &PathBuf| {
            let text =
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(Source::new(&path.to_string_lossy(), &text))
        };
        paths.iter().map(read).collect()
    }
}

/// The objects of a configuration; else what is wrong with it.
pub fn ours(source: Source, constants: &[(String, String)]) -> Result<Objects, String> {
    let (types, modules) = (Types::new(icinga::types(Default::default())), Modules::default());
    let before = icinga::before(Default::default());
    let full = |name: &str| match name.ends_with("Dir") {
        true => format!("Configuration.{name}"),
        false => name.to_owned(),
    };
    let constants: Vec<(String, &str)> =
        constants.iter().map(|(name, value)| (full(name), value.as_str())).collect();
    let constants: Vec<(&str, &str)> =
        constants.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let application = icinga::application();
    let otherwise = [("IcingaApplication", &application)];
    let (before, otherwise) = (Some(&before), &otherwise[..]);
    let options = Options { before, constants: &constants, otherwise, ..Options::default() };
    let fleet = load(source, &types, &modules, Box::new(Files), &options);
    if !fleet.faults.is_empty() {
        let sources = |file| modules.source(file);
        return Err(fleet.faults.iter().map(|fault| diagnostic::render(fault, &sources)).collect());
    }
    let dump =
        Dump { world: &fleet.world, types: &types, modules: &modules, only: Only::default() };
    Ok(dump.all().iter().map(|text| entry(text)).collect())
}

fn entry(text: &[u8]) -> (String, Value) {
    let object: Value = serde_json::from_slice(text).expect("a dump is JSON");
    let name = |value: &Value| value.as_str().expect("names are texts").to_owned();
    (format!("{} {}", name(&object["type"]), name(&object["properties"]["__name"])), object)
}

/// Whether there is something to compare with.
pub fn is_installed() -> bool {
    Command::new("icinga2").arg("--version").output().is_ok()
}

/// A directory of one test, gone when the test is.
pub struct Scratch {
    path: warren_testkit::Scratch,
    constants: Vec<(String, String)>,
}

impl Scratch {
    /// A directory of this name, in which the installed program keeps what it writes.
    pub fn new(name: &str) -> Scratch {
        let path = warren_testkit::Scratch::new(name);
        let mut constants = Vec::new();
        for (constant, directory) in [
            ("CacheDir", "cache"),
            ("DataDir", "data"),
            ("LogDir", "log"),
            ("InitRunDir", "run"),
            ("SpoolDir", "spool"),
        ] {
            let directory = path.join(directory);
            std::fs::create_dir_all(&directory).expect("a directory of our own");
            constants.push((constant.to_owned(), directory.to_string_lossy().into_owned()));
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        for (name, value) in
            [("NodeName", host.trim()), ("PrefixDir", "/usr"), ("ConfigDir", "/etc/icinga2")]
        {
            constants.push((name.to_owned(), value.to_owned()));
        }
        Scratch { path, constants }
    }

    /// Writes a file below the directory; returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().expect("it is below")).expect("a directory");
        std::fs::write(&path, text).expect("a file of our own");
        path
    }

    /// What the installed program is told.
    pub fn constants(&self) -> &[(String, String)] {
        &self.constants
    }
}

/// The objects of a configuration as icinga2 has them; none if it refuses it.
///
/// # Panics
/// It was ended by a signal each time: icinga2 itself crashes now and then.
pub fn theirs(scratch: &Scratch, path: &Path, text: Option<&str>) -> Option<Objects> {
    const TRIES_MAX: usize = 3;
    let mut failures = Vec::new();
    for _ in 0..TRIES_MAX {
        match asked(scratch, path, text) {
            Ok(answer) => return answer,
            Err(why) => failures.push(why),
        }
    }
    panic!("icinga2 does not load {text:?}: {}", failures.join(", "))
}

/// The installed program has no end where a value contains itself, nor where a loop has none: it may
/// use so much memory, and as many seconds as the first argument says.
const BOUNDED: &str = "ulimit -v 2000000; exec timeout -s KILL \"$0\" icinga2 \"$@\"";

/// How long it may load a configuration.
const LOAD_SECONDS_MAX: &str = "60";

/// The installed program, ended after so many seconds.
pub fn icinga2(seconds_max: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", BOUNDED, seconds_max]).args(arguments);
    command
}

/// The objects of a configuration as icinga2 has them; none if it refuses it. A text is written to
/// a file of the path's name first.
///
/// # Errors
/// icinga2 did not come to an end.
pub fn asked(
    scratch: &Scratch,
    path: &Path,
    text: Option<&str>,
) -> Result<Option<Objects>, String> {
    if let Some(text) = text {
        std::fs::write(scratch.path.join(path), text).expect("a file of our own");
    }
    let dump = scratch.path.join("cache/icinga2.debug");
    let _ = std::fs::remove_file(&dump);
    let mut command = icinga2(LOAD_SECONDS_MAX, &["daemon", "-C", "-c"]);
    command.arg(path).current_dir(&scratch.path);
    for (name, value) in &scratch.constants {
        if name.ends_with("Dir") && name != "PrefixDir" && name != "ConfigDir" {
            command.args(["-D", &format!("Configuration.{name}={value}")]);
        } else if name == "NodeName" {
            command.args(["-D", &format!("NodeName={value}")]);
        }
    }
    command.args(["-D", "Configuration.RunAsUser=root", "-D", "Configuration.RunAsGroup=root"]);
    let environment = [("ICINGA2_USER", "root"), ("ICINGA2_GROUP", "root")];
    let output = command.envs(environment).output().expect("icinga2 starts");
    match output.status.code() {
        Some(0) => {}
        // What it refuses it refuses with this status; a signal is none of its answers.
        Some(1) => {
            // Shown with a test that fails.
            println!("{text:?}: {}", String::from_utf8_lossy(&output.stdout));
            return Ok(None);
        }
        _ => return Err(output.status.to_string()),
    }
    let bytes = std::fs::read(&dump).map_err(|error| error.to_string())?;
    Ok(Some(netstrings(&bytes).into_iter().map(entry).collect()))
}

/// `length:text,` one after another.
fn netstrings(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    while let Some(colon) = bytes.iter().position(|byte| *byte == b':') {
        let length: usize =
            String::from_utf8_lossy(&bytes[..colon]).parse().expect("a length before the colon");
        out.push(&bytes[colon + 1..colon + 1 + length]);
        bytes = &bytes[colon + 2 + length..];
    }
    out
}
