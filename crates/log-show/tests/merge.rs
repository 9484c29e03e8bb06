//! `--merge` over a system below a root: our own stores of two namespaces, on the disk and in memory,
//! and systemd's files of this machine and of another, by our reader and by Debian's.

use std::path::Path;
use std::process::Command;

use warren_log_store::files::{Disk, Files};
use warren_log_store::systemd::write::{Ids, State, Writer};
use warren_log_store::{Fields, Id128, Stamp};

mod common;
use common::{Lab, not_run};
use warren_testkit::Scratch;

const FIRST_US: u64 = 1_700_000_000_000_000;
const OWN: u8 = 6;
const OTHER: u8 = 7;

fn fields(text: &str) -> Fields {
    [("MESSAGE", text)].into_iter().collect()
}

/// A file of systemd's, below the directory of a machine, with entries after the first time.
fn write_theirs(root: &Path, machine: u8, entries: &[(u64, &str)]) {
    let ids = Ids {
        file: Id128([machine + 10; 16]),
        machine: Id128([machine; 16]),
        sequence: Id128([machine + 20; 16]),
    };
    let directory = root.join("var/log/journal").join(ids.machine.to_string());
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut writer = Writer::new(ids, 1 << 20);
    for (number, (after_us, text)) in entries.iter().enumerate() {
        let (realtime_us, monotonic_us) = (FIRST_US + after_us, 1 + after_us);
        let stamp = Stamp { realtime_us, monotonic_us, boot: Id128([machine; 16]) };
        writer.append(number as u64 + 1, &stamp, &std::sync::Arc::default(), &fields(text));
    }
    writer.set_state(State::Archived);
    let file = Disk::new(&directory).create("system.journal").expect("a file");
    writer.flush(&*file).expect("written");
}

/// A store of ours; its entries come one µs after the other from the first time on.
fn write_ours(root: &Path, path: &str, texts: &str) {
    let mut lab = Lab::new(&format!("merge-{}", path.replace('/', "-")));
    lab.append(texts);
    lab.seal();
    let target = root.join(path);
    std::fs::create_dir_all(target.parent().expect("below the root")).expect("a directory");
    std::fs::rename(&lab.directory, target).expect("the same file system");
}

fn show(program: &str, root: &Path, options: &[&str]) -> String {
    let mut command = Command::new(program);
    command.arg("--root").arg(root).args(["-q", "-o", "cat", "--no-pager"]).args(options);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("ASCII").trim_end().replace('\n', " ")
}

#[test]
fn all_machines_and_namespaces_are_one_log() {
    let root = Scratch::new("merge");
    let path = &root.0;
    std::fs::create_dir_all(path.join("etc")).expect("a directory");
    let own = Id128([OWN; 16]).to_string();
    std::fs::write(path.join("etc/machine-id"), format!("{own}\n")).expect("a file");
    write_theirs(path, OWN, &[(0, "old"), (100, "older-daemon")]);
    write_theirs(path, OTHER, &[(50, "elsewhere"), (200, "elsewhere-later")]);
    if Command::new("journalctl").arg("--version").output().is_ok() {
        // Before there is anything that only we read.
        for options in [&["-m"][..], &["-m", "-r"], &["-m", "-n", "3"], &[]] {
            let ours = show(env!("CARGO_BIN_EXE_warren-journalctl"), path, options);
            assert_eq!(ours, show("journalctl", path, options), "{options:?}");
        }
    } else {
        not_run("journalctl of systemd is not installed");
    }
    write_ours(path, "var/log/warren", "a b");
    write_ours(path, "run/log/warren/journal", "m");
    write_ours(path, "var/log/warren.web", "n");
    let ours = |options: &[&str]| show(env!("CARGO_BIN_EXE_warren-journalctl"), path, options);
    let sorted = |text: String| {
        let mut words: Vec<&str> = text.split(' ').collect();
        words.sort_unstable();
        words.join(" ")
    };
    // Below a root, systemd's files of any machine count.
    let of_files = "elsewhere elsewhere-later";
    assert_eq!(sorted(ours(&[])), format!("a b {of_files} m old older-daemon"));
    assert_eq!(sorted(ours(&["--namespace=web"])), "n");
    let all = ours(&["-m"]);
    assert_eq!(sorted(all.clone()), "a b elsewhere elsewhere-later m n old older-daemon");
    // By time, whosever it is; a and m and n are of one time.
    assert!(all.starts_with("old "), "{all}");
    assert!(all.ends_with("elsewhere older-daemon elsewhere-later"), "{all}");
    assert_eq!(ours(&["-m", "-n", "2"]), "older-daemon elsewhere-later");
    assert_eq!(ours(&["-m", "-g", "elsewhere"]), "elsewhere elsewhere-later");
}
