//! What every program that `make install` installs says of itself, in one form: its version, its
//! help, and that it does not know an option.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An option that no program has.
const UNKNOWN: &str = "--no-such-option";

/// The programs of all packages, by the names that they are called by.
fn installed() -> Vec<String> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/files.txt");
    let table = std::fs::read_to_string(table).expect("it is there");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split_whitespace().collect()).collect();
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let of = |kind: &str, at: usize| {
        let rows = rows.iter().filter(move |row| row.get(1) == Some(&kind));
        rows.map(|row| (last(row[at]), last(row[3]))).collect::<Vec<_>>()
    };
    // One program by several names has none of its own.
    let names: Vec<String> = of("link", 2)
        .into_iter()
        .filter(|(_, program)| program == "warren-journal")
        .map(|(name, _)| name)
        .collect();
    let programs = of("program", 3).into_iter().map(|(name, _)| name);
    programs.filter(|name| name != "warren-journal").chain(names).collect()
}

/// Where cargo puts programs; those of other packages are built.
fn directory() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--bins"]);
    for package in
        ["init", "manager", "log-daemon", "log-show", "log-net", "device", "exporter", "web"]
    {
        cargo.arg(format!("--package=warren-{package}"));
    }
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    assert!(cargo.status().is_ok_and(|status| status.success()), "cargo builds them");
    let own = Path::new(env!("CARGO_BIN_EXE_warren"));
    own.parent().expect("it lies in a directory").to_owned()
}

/// As a user who has nothing in the environment.
fn run(program: &Path, argument: &str) -> Output {
    let mut command = Command::new(program);
    command.arg(argument).env_clear().output().expect("it can be started")
}

#[track_caller]
fn check(output: &Output, what: &str, status: i32, out: &[&str], err: &[&str]) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{what}: {said}{complained}");
    for (stream, expected) in [(&said, out), (&complained, err)] {
        assert_eq!(stream.is_empty(), expected.is_empty(), "{what}: {said}{complained}");
        for text in expected {
            assert!(stream.contains(text), "{what}, {text:?}: {said}{complained}");
        }
    }
}

#[test]
fn all_programs_tell_their_version_and_help_and_refuse_what_they_do_not_know() {
    let directory = directory();
    let programs = installed();
    assert!(programs.len() >= 12, "{programs:?}");
    for name in &programs {
        let program = directory.join(name);
        let of = |argument: &str| (run(&program, argument), format!("{name} {argument}"));
        let version = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
        let usage = format!("Usage: {name}");
        for argument in ["--version", "-V"] {
            let (output, what) = of(argument);
            check(&output, &what, 0, &[&version], &[]);
            assert_eq!(output.stdout, version.as_bytes(), "{what}");
        }
        for argument in ["--help", "-h"] {
            let (output, what) = of(argument);
            check(&output, &what, 0, &[&usage, "--help", "--version"], &[]);
        }
        let (output, what) = of(UNKNOWN);
        let first = format!("error: unexpected argument '{UNKNOWN}' found\n");
        check(&output, &what, 2, &[], &[&first, &usage, "try '--help'"]);
        assert!(output.stderr.starts_with(first.as_bytes()), "{what}");
    }
}
