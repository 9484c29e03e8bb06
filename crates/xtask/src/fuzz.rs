//! `cargo xtask fuzz`: the targets of `warren-fuzz` under libFuzzer, which sees what of the code an input reaches.
//!
//! It needs a C++ compiler, for libFuzzer itself; the counters in our code are LLVM's and need no other toolchain.
//! Inputs that are found stay below `target/` until `--merge` takes the few that are needed into the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use warren_unit::settings::SETTINGS;

use crate::command::{cargo_with, output, root};

/// What rustc is told: counters for each branch, and what is compared with what.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// An input that takes longer is a fault, in seconds: most have 4 KiB.
const INPUT_SECONDS: &str = "4";

/// The most memory of a process, in MiB; each target has a bound of its own below it.
const MEMORY_MIB: &str = "2048";

/// Most inputs of a target that `--merge` takes, the smallest.
const MERGED_MAX: usize = 64;

/// Longest input that `--merge` takes, in bytes, where the seeds of a target are not longer.
const MERGED_BYTES_MAX: u64 = 2 << 10;

/// Pieces that parsers stumble over.
const PIECES: &[&str] = &[
    "\\\n",
    "\"",
    "'",
    "%",
    "%i",
    "%%",
    "\0",
    "\u{feff}",
    "=",
    "\n[",
    "]\n",
    "\\x",
    "\\u12",
    ";",
    "#",
    "${A}",
    "$",
    "-",
    "!!",
    "@",
    ":",
    "..",
    "//",
    "infinity",
    "99999999999999999999",
    "é",
    "\r\n",
];

/// Pieces that the parser and the evaluator of rules stumble over.
const RULE_PIECES: &[&str] = &[
    "{",
    "}",
    "{{",
    "}}",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "{{{",
    "}}}",
    "=>",
    "=",
    "+=",
    "==",
    " in ",
    "&",
    "*",
    "!",
    "&&",
    "||",
    "?",
    ":",
    ".",
    ",",
    ";",
    "\n",
    "/*",
    "*/",
    "//",
    "@",
    "null",
    "this",
    "1.5h",
    "-1",
    "0",
    "99999999999",
    "object ",
    "apply ",
    "template ",
    "assign where ",
    "import ",
    " for (k => v in ",
    " to Container ",
    " use (x) ",
    "function ",
    "if (",
    " else ",
    "while (",
    "try ",
    "throw ",
    "return ",
    "var x = ",
    "const X = ",
    "namespace N ",
    "globals.",
    "locals",
    "container",
    "vars",
    "name",
    ".map(x => x)",
    ".call(",
    "match(",
    "regex(",
    "get_objects(Container)",
    "Json.",
    "range(9)",
    "DateTime(",
    "string(",
    "\\",
    "\u{0}",
    "\u{e9}",
];

/// Runs each target, or the one of this name, for its part of the time.
pub fn run(seconds: u64, only: Option<&str>) -> Result<()> {
    let program = build()?;
    let targets = targets(only)?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut faults = Vec::new();
    for (at, target) in targets.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let share = (left / (targets.len() - at) as u32).as_secs().max(1);
        if !run_one(&program, target, share)? {
            faults.push(target.as_str());
        }
    }
    ensure!(
        faults.is_empty(),
        "inputs that break something: target/fuzz-faults, of {}",
        faults.join(", ")
    );
    println!("{} targets, no property broken", targets.len());
    Ok(())
}

/// Takes what was found into the repository, as few inputs as reach as much.
pub fn merge(only: Option<&str>) -> Result<()> {
    let program = build()?;
    let faults = root().join("target/fuzz-faults");
    fs::create_dir_all(&faults)?;
    for target in targets(only)? {
        let (kept, found) = (corpus(&target), found(&target)?);
        let files = fs::read_dir(&kept)?.collect::<Result<Vec<_>, _>>()?;
        let lengths = files.iter().filter_map(|file| Some(file.metadata().ok()?.len()));
        let bytes_max = lengths.max().unwrap_or(0).max(MERGED_BYTES_MAX);
        let fresh = root().join("target/fuzz-merged").join(&target);
        let _ = fs::remove_dir_all(&fresh);
        fs::create_dir_all(&fresh)?;
        let status = Command::new(&program)
            .env("WARREN_FUZZ_TARGET", &target)
            .args(["-set_cover_merge=1", "-use_counters=0", "-verbosity=0"])
            .arg(format!("-max_len={bytes_max}"))
            .arg(format!("-artifact_prefix={}/{target}-", faults.display()))
            .args([&fresh, &kept, &found])
            .status()?;
        ensure!(status.success(), "{target}: the inputs cannot be merged");
        for file in files.iter().filter(|file| is_found(&file.path())) {
            fs::remove_file(file.path())?;
        }
        let mut merged = fs::read_dir(&fresh)?.collect::<Result<Vec<_>, _>>()?;
        merged
            .sort_by_key(|file| (file.metadata().map_or(0, |found| found.len()), file.file_name()));
        for file in merged.iter().take(MERGED_MAX) {
            // A seed that was taken has a name of its own already.
            let bytes = fs::read(file.path())?;
            let is_seed = |other: &fs::DirEntry| {
                !is_found(&other.path()) && fs::read(other.path()).is_ok_and(|seed| seed == bytes)
            };
            if !files.iter().any(is_seed) {
                fs::write(kept.join(file.file_name()), bytes)?;
            }
        }
        println!("{target}: {} inputs", fs::read_dir(&kept)?.count());
    }
    Ok(())
}

/// Whether libFuzzer named it, by the digest of what is in it; seeds have names in words.
fn is_found(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Builds the program of all targets.
fn build() -> Result<PathBuf> {
    let version = output("rustc", &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say what it runs on")?;
    // With a target given, build scripts have no counters.
    let words = ["build", "--locked", "--profile", "fuzz", "--target", host];
    let what = ["--package", "warren-fuzz", "--features", "engine", "--bin", "warren-fuzz"];
    cargo_with(&[&words[..], &what].concat(), &[("RUSTFLAGS", FLAGS)])?;
    Ok(root().join("target").join(host).join("fuzz/warren-fuzz"))
}

/// Names of targets: each has a corpus.
fn targets(only: Option<&str>) -> Result<Vec<String>> {
    let directory = root().join("crates/fuzz/corpus");
    let entries = fs::read_dir(&directory).with_context(|| format!("{}", directory.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.retain(|name| only.is_none_or(|only| only == name));
    names.sort();
    ensure!(!names.is_empty(), "no such target");
    Ok(names)
}

fn corpus(target: &str) -> PathBuf {
    root().join("crates/fuzz/corpus").join(target)
}

/// Where the inputs go that are found.
fn found(target: &str) -> Result<PathBuf> {
    let directory = root().join("target/fuzz-corpus").join(target);
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// Runs a target; false if an input broke something.
fn run_one(program: &Path, target: &str, seconds: u64) -> Result<bool> {
    let faults = root().join("target/fuzz-faults");
    fs::create_dir_all(&faults)?;
    // An empty dictionary is none to libFuzzer.
    let dictionary = dictionary(target).map(|words| -> Result<String> {
        let path = root().join("target/fuzz-words");
        fs::write(&path, words)?;
        Ok(format!("-dict={}", path.display()))
    });
    println!("{target}: {seconds} s");
    let log = faults.join(format!("{target}.log"));
    let status = Command::new(program)
        .env("WARREN_FUZZ_TARGET", target)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-artifact_prefix={}/{target}-", faults.display()))
        .args(dictionary.transpose()?)
        .args(["-print_final_stats=1", "-use_value_profile=1"])
        .args([found(target)?, corpus(target)])
        .stderr(fs::File::create(&log)?)
        .status()?;
    let said = fs::read_to_string(&log)?;
    for word in ["stat::number_of_executed_units", "stat::peak_rss_mb"] {
        said.lines().filter(|line| line.starts_with(word)).for_each(|line| println!("  {line}"));
    }
    let is_good = status.success();
    match is_good {
        true => fs::remove_file(&log)?,
        false => println!("  {}", log.display()),
    }
    Ok(is_good)
}

/// Words of a language, as libFuzzer reads them; where none are known it finds them by what is compared.
fn dictionary(target: &str) -> Option<String> {
    let quoted = |word: &str| -> String {
        let bytes = word.bytes().map(|byte| format!("\\x{byte:02x}"));
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    match target {
        "unit-file" => {
            let settings = SETTINGS.iter().map(|setting| format!("\n{}=", setting.name));
            let sections = ["Unit", "Service", "Socket", "Mount", "Timer", "X-Warren", "Install"];
            let sections = sections.iter().map(|section| format!("[{section}]\n"));
            let pieces = PIECES.iter().map(|piece| (*piece).to_owned());
            Some(settings.chain(sections).chain(pieces).map(|word| quoted(&word)).collect())
        }
        "rules" | "configuration" => Some(RULE_PIECES.iter().map(|word| quoted(word)).collect()),
        _ => None,
    }
}
