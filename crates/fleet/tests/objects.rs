//! Whole configurations, compared with the installed program's dump of objects.
//!
//! Each case of `tests/data/objects.txt` is a configuration of Icinga's types. icinga2 checks it
//! and writes the objects file that `icinga2 object list` reads; what both know of an object
//! (names, attributes that were set, templates, custom variables) must be the same, and both must
//! refuse the same configurations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use warren_fleet::engine::{Options, load};
use warren_fleet::heap::Heap;
use warren_fleet::modules::Modules;
use warren_fleet::outside::Nothing;
use warren_fleet::schema::icinga;
use warren_fleet::types::Types;
use warren_fleet::value::Value;
use warren_fleet::{Source, text};

/// What is compared of an object besides its name.
const ATTRIBUTES: [&str; 8] = [
    "vars",
    "display_name",
    "address",
    "check_interval",
    "notes",
    "check_command",
    "states",
    "max_check_attempts",
];

/// Types whose objects the installed program adds to: default templates and features.
const SKIPPED: [&str; 3] = ["CheckCommand", "NotificationCommand", "IcingaApplication"];

/// `Type name` to the attributes.
type Objects = BTreeMap<String, BTreeMap<String, String>>;

const HEAD: &str = "object CheckCommand \"d\" { command = [ \"/bin/true\" ] }\n";

fn cases() -> Vec<String> {
    let all = include_str!("data/objects.txt");
    all.split("\n---\n").map(|case| format!("{HEAD}{case}\n")).collect()
}

fn ours(case: &str) -> Option<Objects> {
    let (types, modules) = (Types::new(icinga::types()), Modules::default());
    let source = Source::new("case", case.as_bytes());
    let outside = Box::new(Nothing::default());
    let fleet = load(source, &types, &modules, outside, &Options::default());
    if !fleet.faults.is_empty() {
        if std::env::var_os("FLEET_SHOW").is_some() {
            println!("{case}{:#?}", fleet.faults);
        }
        return None;
    }
    let heap = Heap::over(&fleet.world.layer);
    let mut out = Objects::new();
    for (id, objects) in &fleet.world.by_type {
        if SKIPPED.contains(&types.get(*id).name.as_str()) {
            continue;
        }
        for object in objects {
            let object = heap.object(*object);
            let name = format!("{} {}", types.get(*id).name, heap.text(object.name));
            let mut attributes = BTreeMap::new();
            for (key, value) in object.attributes.iter() {
                let key = heap.text(key);
                if ATTRIBUTES.contains(&key.as_str()) && !matches!(value, Value::Empty) {
                    let json = text::json(&heap, &types, value);
                    attributes.insert(key, String::from_utf8_lossy(&json).into_owned());
                }
            }
            let names: Vec<String> =
                object.templates.iter().map(|name| format!("\"{}\"", heap.text(*name))).collect();
            attributes.insert("templates".to_owned(), format!("[{}]", names.join(",")));
            out.insert(name, attributes);
        }
    }
    Some(out)
}

/// A directory of one test, gone when the test is.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn scratch() -> Scratch {
    let path = std::env::temp_dir().join(format!("warren-fleet-{}", std::process::id()));
    for directory in ["cache", "data", "log", "run", "spool"] {
        std::fs::create_dir_all(path.join(directory)).expect("a directory of our own");
    }
    Scratch(path)
}

/// The objects of a configuration as icinga2 has them; none if it refuses it.
fn theirs(scratch: &Path, case: &str) -> Option<Objects> {
    let file = scratch.join("case.conf");
    std::fs::write(&file, case).expect("a file of our own");
    let dump = scratch.join("cache/icinga2.debug");
    let _ = std::fs::remove_file(&dump);
    let mut command = Command::new("icinga2");
    command.args(["daemon", "-C", "-c"]).arg(&file);
    for (name, directory) in [
        ("CacheDir", "cache"),
        ("DataDir", "data"),
        ("LogDir", "log"),
        ("InitRunDir", "run"),
        ("SpoolDir", "spool"),
    ] {
        let define = format!("Configuration.{name}={}", scratch.join(directory).display());
        command.args(["-D", &define]);
    }
    let root = ["-D", "Configuration.RunAsUser=root", "-D", "Configuration.RunAsGroup=root"];
    let environment = [("ICINGA2_USER", "root"), ("ICINGA2_GROUP", "root")];
    let output = command.args(root).envs(environment).output().expect("icinga2 starts");
    if !output.status.success() {
        return None;
    }
    let bytes = std::fs::read(&dump).ok()?;
    Some(netstrings(&bytes).into_iter().filter_map(|json| object(&json)).collect())
}

/// `length:text,` one after another.
fn netstrings(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    while let Some(colon) = bytes.iter().position(|byte| *byte == b':') {
        let length: usize =
            String::from_utf8_lossy(&bytes[..colon]).parse().expect("a length before the colon");
        out.push(bytes[colon + 1..colon + 1 + length].to_vec());
        bytes = &bytes[colon + 2 + length..];
    }
    out
}

/// An object of the dump, read with the language's own JSON.
fn object(json: &[u8]) -> Option<(String, BTreeMap<String, String>)> {
    let mut quoted = Vec::new();
    text::quoted(json, &mut quoted);
    let quoted = String::from_utf8(quoted).ok()?;
    let ask = |path: &str| {
        let (types, modules) = (Types::new(Vec::new()), Modules::default());
        let source = Source::new("dump", format!("Json.decode({quoted}){path}").as_bytes());
        let outside = Box::new(Nothing::default());
        let answer = warren_fleet::console::evaluate(source, &types, &modules, outside, 1_000_000);
        answer.value.expect("the dump is JSON")
    };
    let of_type = ask(".type").trim_matches('"').to_owned();
    let name = ask(".properties.__name").trim_matches('"').to_owned();
    if SKIPPED.contains(&of_type.as_str()) {
        return None;
    }
    let attributes = ATTRIBUTES.iter().chain(&["templates"]);
    let values = attributes.map(|name| ((*name).to_owned(), ask(&format!(".properties.{name}"))));
    Some((format!("{of_type} {name}"), values.collect()))
}

#[test]
fn configurations_make_the_same_objects() {
    let accepted = cases().iter().filter(|case| ours(case).is_some()).count();
    assert!(accepted > 10 && accepted < cases().len(), "{accepted} accepted");
    if Command::new("icinga2").arg("--version").output().is_err() {
        println!("NOT RUN: icinga2 is not installed");
        return;
    }
    let scratch = scratch();
    let mut wrong = Vec::new();
    for case in cases() {
        match (ours(&case), theirs(&scratch.0, &case)) {
            (None, None) => {}
            (Some(ours), Some(theirs)) => wrong.extend(differences(&case, &ours, &theirs)),
            (ours, theirs) => wrong.push(format!(
                "{case}  ours accepted: {}, theirs: {}",
                ours.is_some(),
                theirs.is_some()
            )),
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Names on one side only, and attributes that we know and they have otherwise.
fn differences(case: &str, ours: &Objects, theirs: &Objects) -> Vec<String> {
    let mut out = Vec::new();
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>().join(", ");
    if !ours.keys().eq(theirs.keys()) {
        out.push(format!("{case}  ours   {}\n  theirs {}", names(ours), names(theirs)));
    }
    for (name, attributes) in ours {
        let Some(other) = theirs.get(name) else { continue };
        for (key, value) in attributes {
            if other.get(key) != Some(value) {
                out.push(format!(
                    "{case}  {name}.{key}: ours {value}, theirs {:?}",
                    other.get(key)
                ));
            }
        }
    }
    out
}
