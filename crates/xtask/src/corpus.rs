//! `cargo xtask corpus DIR...`: configurations of Icinga 2, each loaded by the installed program and by
//! `warren icinga`: verdicts, the first place that is wrong, and every attribute, as far as they differ.
//!
//! A directory that has an icinga2.conf is one configuration; of all others each *.conf is one. With
//! `--itl` a file is loaded behind the template library. Must not: run Icinga as a service, or write
//! anywhere but into a directory of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};
use warren_testkit::Scratch;

use crate::command::{cargo, root};

/// How long the installed program may take, in seconds, and how much memory, in KiB: it has no end where a
/// value contains itself.
const BOUNDED: &str = "ulimit -v 4000000; exec timeout -s KILL 120 icinga2 \"$@\"";

/// Where each of the programs keeps what it writes.
const DIRECTORIES: [(&str, &str); 5] = [
    ("CacheDir", "cache"),
    ("DataDir", "data"),
    ("LogDir", "log"),
    ("InitRunDir", "run"),
    ("SpoolDir", "spool"),
];

/// What an object has that is not compared: functions of the program's own, membership by rules, which
/// the dump of the program leaves out, and times of creation.
const NOT_COMPARED: [&str; 4] = ["execute", "update", "groups", "entry_time"];

/// Most differences of one configuration that are shown.
const SHOWN_MAX: usize = 20;

/// Objects by type and full name.
type Objects = BTreeMap<String, Value>;

/// What a program says of a configuration.
struct Verdict {
    /// The objects; nothing if it is refused.
    objects: Option<Objects>,
    /// The file, line and column of the first fault, if it has a place.
    place: Option<(String, u32, u32)>,
    message: String,
}

/// How many configurations there are of each kind.
#[derive(Default)]
struct Counts {
    same: usize,
    refused: usize,
    exact: usize,
    line: usize,
    objects: usize,
    differ: usize,
}

/// Compares the configurations of these directories.
pub fn run(args: &[&str]) -> Result<()> {
    let (flags, directories): (Vec<&str>, Vec<&str>) =
        args.iter().partition(|word| word.starts_with("--"));
    ensure!(flags.iter().all(|flag| *flag == "--itl"), "unknown option: {}", flags.join(" "));
    ensure!(!directories.is_empty(), "no directory of configurations");
    ensure!(Command::new("icinga2").arg("--version").output().is_ok(), "icinga2 is not installed");
    cargo(&["build", "--package", "warren-cli", "--bin", "warren"])?;
    let scratch = Scratch::new("corpus");
    for (_, name) in DIRECTORIES.iter().chain([&("ZonesDir", "zones")]) {
        fs::create_dir_all(scratch.path(name))?;
    }
    let mut counts = Counts::default();
    for directory in directories {
        let directory = fs::canonicalize(directory).with_context(|| directory.to_owned())?;
        for case in cases(&directory) {
            compare(&scratch, &directory, &case, !flags.is_empty(), &mut counts)?;
        }
    }
    let Counts { same, refused, exact, line, objects, differ } = counts;
    println!(
        "{} configurations: {same} the same ({objects} objects), {differ} differ; both refuse \
         {refused}, {exact} at the same place and {line} in the same line",
        same + differ
    );
    ensure!(differ == 0, "{differ} configurations differ");
    Ok(())
}

/// The configurations below a directory, sorted.
fn cases(directory: &Path) -> Vec<PathBuf> {
    let main = directory.join("icinga2.conf");
    if main.exists() {
        return vec![main];
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let of = |path: PathBuf| match path.is_dir() {
        true => cases(&path),
        false => {
            let is_one = path.extension().is_some_and(|extension| extension == "conf");
            is_one.then_some(path).into_iter().collect()
        }
    };
    paths.into_iter().flat_map(of).collect()
}

fn compare(
    scratch: &Scratch,
    directory: &Path,
    case: &Path,
    behind_library: bool,
    counts: &mut Counts,
) -> Result<()> {
    let name = case.strip_prefix(directory).unwrap_or(case).display().to_string();
    let zones = match case.ends_with("icinga2.conf") {
        true => case.with_file_name("zones.d"),
        false => scratch.path("zones"),
    };
    let file = match behind_library && !case.ends_with("icinga2.conf") {
        true => {
            let text = format!(
                "include <itl>\ninclude <plugins>\nconst PluginDir = \"/usr/lib/nagios/plugins\"\n\
                 include \"{}\"\n",
                case.display()
            );
            scratch.write("behind.conf", &text);
            scratch.path("behind.conf")
        }
        false => case.to_path_buf(),
    };
    let (theirs, ours) = (theirs(scratch, &file, &zones)?, ours(scratch, &file, &zones)?);
    let differences = match (&theirs.objects, &ours.objects) {
        (None, None) => {
            counts.refused += 1;
            places(&theirs, &ours, counts)
        }
        (Some(theirs), Some(ours)) => {
            counts.objects += ours.len();
            objects(theirs, ours)
        }
        (None, Some(_)) => vec![format!("Icinga refuses it: {}", theirs.message)],
        (Some(_), None) => vec![format!("Warrener refuses it: {}", ours.message)],
    };
    if differences.is_empty() {
        counts.same += 1;
        return Ok(());
    }
    counts.differ += 1;
    println!("{name}");
    differences.iter().take(SHOWN_MAX).for_each(|difference| println!("  {difference}"));
    if differences.len() > SHOWN_MAX {
        println!("  and {} more differences", differences.len() - SHOWN_MAX);
    }
    Ok(())
}

/// Both refuse: at the same place, in the same line, or not.
fn places(theirs: &Verdict, ours: &Verdict, counts: &mut Counts) -> Vec<String> {
    match (&theirs.place, &ours.place) {
        (Some(a), Some(b)) if a == b => counts.exact += 1,
        (Some(a), Some(b)) if (&a.0, a.1) == (&b.0, b.1) => counts.line += 1,
        (None, _) => counts.line += 1,
        (a, b) => {
            let says = |said: &Verdict| said.message.clone();
            return vec![
                format!("places: Icinga {a:?} ({})", says(theirs)),
                format!("        Warrener {b:?} ({})", says(ours)),
            ];
        }
    }
    Vec::new()
}

fn objects(theirs: &Objects, ours: &Objects) -> Vec<String> {
    let only = |one: &Objects, other: &Objects, who: &str| -> Vec<String> {
        let names = one.keys().filter(|name| !other.contains_key(*name));
        names.map(|name| format!("only {who} makes {name}")).collect()
    };
    let mut out = only(theirs, ours, "Icinga");
    out.extend(only(ours, theirs, "Warrener"));
    for (name, theirs) in theirs {
        let Some(ours) = ours.get(name) else { continue };
        if theirs["debug_info"] != ours["debug_info"] {
            let [theirs, ours] = [theirs, ours].map(|object| &object["debug_info"]);
            out.push(format!("{name} is declared: Icinga {theirs}, Warrener {ours}"));
        }
        let none = Map::new();
        let [theirs, ours] =
            [theirs, ours].map(|object| object["properties"].as_object().unwrap_or(&none));
        for key in theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key))) {
            let (theirs, ours) = (theirs.get(key), ours.get(key));
            if theirs != ours && !NOT_COMPARED.contains(&key.as_str()) {
                let shown =
                    |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
                out.push(format!(
                    "{name} {key}: Icinga {}, Warrener {}",
                    shown(theirs),
                    shown(ours)
                ));
            }
        }
    }
    out
}

fn constants(scratch: &Scratch, zones: &Path) -> Vec<String> {
    let of = |(name, directory): &(&str, &str)| {
        format!("Configuration.{name}={}", scratch.path(directory).display())
    };
    let mut out: Vec<String> = DIRECTORIES.iter().map(of).collect();
    out.push(format!("Configuration.ZonesDir={}", zones.display()));
    out.push("NodeName=corpus".to_owned());
    out.into_iter().flat_map(|constant| ["-D".to_owned(), constant]).collect()
}

fn theirs(scratch: &Scratch, file: &Path, zones: &Path) -> Result<Verdict> {
    let dump = scratch.path("cache/icinga2.debug");
    let _ = fs::remove_file(&dump);
    let mut command = Command::new("sh");
    command.args(["-c", BOUNDED, "icinga2", "daemon", "-C", "-c"]).arg(file);
    command.args(constants(scratch, zones));
    command.args(["-D", "Configuration.RunAsUser=root", "-D", "Configuration.RunAsGroup=root"]);
    command.envs([("ICINGA2_USER", "root"), ("ICINGA2_GROUP", "root")]);
    let output = command.output().context("icinga2")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let fault = lines.find_map(|line| line.split_once("critical/config: ").map(|(_, fault)| fault));
    let message = fault.map_or_else(|| end_of(&output), str::to_owned);
    let place = text.lines().find_map(|line| their_place(line.strip_prefix("Location: in ")?));
    let objects = match output.status.success() {
        true => Some(read(&fs::read(&dump).context("icinga2 wrote no objects")?)?),
        false => None,
    };
    Ok(Verdict { objects, place, message })
}

/// How a program ended that said nothing.
fn end_of(output: &Output) -> String {
    output.status.to_string()
}

/// `/a.conf: 3:1-3:9`. In the first line of a file columns count from 0.
fn their_place(text: &str) -> Option<(String, u32, u32)> {
    let (path, range) = text.rsplit_once(": ")?;
    let (line, column) = range.split('-').next()?.split_once(':')?;
    let (line, column): (u32, u32) = (line.parse().ok()?, column.parse().ok()?);
    Some((path.to_owned(), line, column + u32::from(line == 1)))
}

fn ours(scratch: &Scratch, file: &Path, zones: &Path) -> Result<Verdict> {
    let program = root().join("target/debug/warren");
    let dump = scratch.path("ours");
    let _ = fs::remove_file(&dump);
    let run = |verb: &str, options: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["icinga", verb]).arg(file).args(options).args(constants(scratch, zones));
        command.output().with_context(|| program.display().to_string())
    };
    let path = dump.to_string_lossy().into_owned();
    let output = run("objects", &["--objects-file", &path])?;
    if output.status.success() {
        let objects = Some(read(&fs::read(&dump)?)?);
        return Ok(Verdict { objects, place: None, message: String::new() });
    }
    let output = run("check", &["--json"])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let faults = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let first = faults.into_iter().find(|fault| fault["severity"] == "error");
    let Some(fault) = first else {
        return Ok(Verdict { objects: None, place: None, message: end_of(&output) });
    };
    let number = |name: &str| fault[name].as_u64().unwrap_or_default() as u32;
    let text = |name: &str| fault[name].as_str().unwrap_or_default().to_owned();
    let place = Some((text("path"), number("line"), number("column")));
    Ok(Verdict { objects: None, place, message: text("message") })
}

/// Objects as `icinga2 object list` reads them: `LENGTH:TEXT,` for each.
fn read(mut bytes: &[u8]) -> Result<Objects> {
    let mut out = Objects::new();
    while let Some(colon) = bytes.iter().position(|byte| *byte == b':') {
        let length: usize = String::from_utf8_lossy(&bytes[..colon]).parse().context("a length")?;
        let text = bytes.get(colon + 1..colon + 1 + length).context("a dump ends too early")?;
        let object: Value = serde_json::from_slice(text)?;
        let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = format!("{} {}", name(&object["type"]), name(&object["properties"]["__name"]));
        out.insert(key, object);
        bytes = bytes.get(colon + 2 + length..).unwrap_or_default();
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_installed_program_are_read() {
        let check = |text: &str, expected: Option<(&str, u32, u32)>| {
            let expected = expected.map(|(path, line, column)| (path.to_owned(), line, column));
            assert_eq!(their_place(text), expected, "{text}");
        };
        check("/a b.conf: 3:2-3:9", Some(("/a b.conf", 3, 2)));
        check("/a.conf: 1:0-1:9", Some(("/a.conf", 1, 1)));
        check("nowhere", None);
    }

    #[test]
    fn a_directory_with_a_main_file_is_one_configuration() {
        let scratch = Scratch::new("corpus-cases");
        for path in
            ["one/icinga2.conf", "one/conf.d/a.conf", "two/b.conf", "two/c/d.conf", "two/e.txt"]
        {
            fs::create_dir_all(scratch.path(path).parent().expect("below")).expect("made");
            scratch.write(path, "");
        }
        let found = cases(&scratch.0);
        let expected = ["one/icinga2.conf", "two/b.conf", "two/c/d.conf"].map(|p| scratch.path(p));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_differs_is_named() {
        let object = |address: &str| {
            let text = format!(
                "{{\"type\":\"Host\",\"debug_info\":[\"a\",1],\"properties\":{{\"__name\":\"h\",\
                 \"address\":\"{address}\",\"execute\":1}}}}"
            );
            format!("{}:{text},", text.len())
        };
        let [one, two] = ["1", "2"].map(|a| read(object(a).as_bytes()).expect("a dump"));
        assert_eq!(objects(&one, &one), [""; 0]);
        assert_eq!(objects(&one, &two), ["Host h address: Icinga \"1\", Warrener \"2\""]);
        assert_eq!(objects(&one, &Objects::new()), ["only Icinga makes Host h"]);
        assert!(read(b"9:{}").is_err());
    }
}
