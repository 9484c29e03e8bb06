//! The installed systemctl and busctl, unmodified, against this bus. They look for it at
//! /run/systemd/private, so each runs in a mount namespace of its own with an empty /run.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use support::*;

const PRELUDE: &str = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && \
                       ln -s \"$SOCKET\" /run/systemd/private && exec timeout 20 \"$@\"";

fn command(socket: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", PRELUDE, "sh"]).args(words);
    command.env("SOCKET", socket).env("LC_ALL", "C.UTF-8").env("SYSTEMD_PAGER", "");
    command.env("SYSTEMD_COLORS", "0").stdin(Stdio::null());
    command
}

/// Whether this machine can run the test; says so if it cannot.
fn can_run() -> bool {
    let runs = |words: &[&str]| {
        let mut command = command(Path::new("/nonexistent"), words);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let missing = match () {
        () if !runs(&["true"]) => "a mount namespace (root is needed)",
        () if !runs(&["systemctl", "--version"]) => "systemctl",
        () if !runs(&["busctl", "--version"]) => "busctl",
        () if !runs(&["setpriv", "--version"]) => "setpriv",
        () => return true,
    };
    warren_testkit::not_run(&format!(
        "tests/systemctl.rs needs {missing}, which this machine does not have"
    ));
    false
}

/// What is wrong with the outcome of one line of the table.
fn check(socket: &Path, line: &str) -> Option<String> {
    let mut parts = line.splitn(3, " =>");
    let words: Vec<&str> = parts.next()?.split_whitespace().collect();
    let want: i32 = parts.next()?.trim().parse().expect("an exit status");
    let texts = parts.next()?.trim();
    let output = command(socket, &words).output().expect("the command can be run");
    let out = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let fits = |text: &str| match text.trim().strip_prefix("! ") {
        Some(unwanted) => !out.contains(unwanted),
        None => out.contains(text.trim()),
    };
    let missing: Vec<&str> =
        texts.split('|').filter(|text| !text.is_empty() && !fits(text)).collect();
    let status = output.status.code();
    if status == Some(want) && missing.is_empty() {
        return None;
    }
    Some(format!(
        "{}\n  status {status:?}, want {want}; fails: {missing:?}\n{out}",
        words.join(" ")
    ))
}

#[test]
fn everyday_verbs() {
    if !can_run() {
        return;
    }
    let dir = Scratch::new("systemctl");
    // Everyone may pass through, so that a client without privileges reaches the socket.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&dir.0, mode).expect("the directory is this test's own");
    let machine = Machine::new(include_str!("units.txt"));
    machine.serve(&dir.path("private"));
    for unit in ["rich", "a", "one", "fail", "slow"] {
        machine.start(&format!("{unit}.service"));
    }
    for unit in ["s.socket", "mnt.automount", "foo-bar.slice"] {
        machine.start(unit);
    }
    let lines = include_str!("systemctl.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    let wrong: Vec<String> = lines.filter_map(|line| check(&dir.path("private"), line)).collect();
    machine.stop();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
