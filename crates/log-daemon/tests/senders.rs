//! What senders send, recorded by our daemon and by Debian's systemd-journald, which run at the usual
//! places in namespaces of their own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;
use reader::journalctl;

const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// Fields that differ by right: clocks, ids, the processes of each run.
const DIFFERENT: [&str; 16] = [
    "__CURSOR",
    "__REALTIME_TIMESTAMP",
    "__MONOTONIC_TIMESTAMP",
    "_BOOT_ID",
    "_SOURCE_REALTIME_TIMESTAMP",
    "_STREAM_ID",
    "_PID",
    "_COMM",
    "_EXE",
    "_CMDLINE",
    "_CAP_EFFECTIVE",
    "_SYSTEMD_CGROUP",
    "_SYSTEMD_UNIT",
    "_SYSTEMD_SLICE",
    "SYSLOG_TIMESTAMP",
    "_RUNTIME_SCOPE",
];

/// Fields of `OBJECT_PID=` that depend on the hierarchy of cgroups that a host has.
const OF_CGROUPS: &str = "OBJECT_SYSTEMD_";

/// The scripts that send.
const SENDERS: &str = "senders.py";
const PROGRAMS: &str = "programs.py";

/// What PostgreSQL says to who comes too early, which depends on the machine.
const STARTING: &[u8] = b"the database system is starting up";

type Entry = Vec<(String, Vec<u8>)>;

/// The entries of an export.
fn entries(mut data: &[u8]) -> Vec<Entry> {
    let (mut all, mut entry) = (Vec::new(), Vec::new());
    while !data.is_empty() {
        let end = data.iter().position(|&byte| byte == b'\n').expect("a whole line");
        let (line, rest) = (&data[..end], &data[end + 1..]);
        let name = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a name");
        data = rest;
        if line.is_empty() {
            all.push(std::mem::take(&mut entry));
        } else if let Some(at) = line.iter().position(|&byte| byte == b'=') {
            entry.push((name(&line[..at]), line[at + 1..].to_vec()));
        } else {
            let (length, rest) = rest.split_first_chunk::<8>().expect("a length");
            let (value, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
            entry.push((name(line), value.to_vec()));
            data = &rest[1..];
        }
    }
    all
}

/// What is the same whoever recorded it, and how often.
fn comparable(entries: Vec<Entry>, script: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for mut entry in entries {
        let get = |name: &str| entry.iter().find(|field| field.0 == name).map(|field| &field.1[..]);
        if get("_TRANSPORT") == Some(b"driver") {
            continue;
        }
        // Ids of processes; what a client said itself is other text.
        let is_pid = |value: &[u8]| value.len() > 2 && value != b"4711";
        entry.retain(|(name, value)| {
            let of_process = (name == "SYSLOG_PID" || name == "TID") && is_pid(value);
            !of_process && !DIFFERENT.contains(&&**name) && !name.starts_with(OF_CGROUPS)
        });
        let is_text = |name: &str| name == "MESSAGE" || name == "SYSLOG_RAW";
        for (name, value) in entry.iter_mut().filter(|(name, _)| is_text(name)) {
            if script == PROGRAMS {
                // Times, processes, addresses: of the numbers in a row one zero is left.
                value.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'0');
                value.dedup_by(|a, b| *a == b'0' && *b == b'0');
            }
            if value.windows(STARTING.len()).any(|part| part == STARTING) {
                *name = String::new();
            }
        }
        if entry.iter().any(|(name, _)| name.is_empty()) {
            continue;
        }
        for (name, value) in &mut entry {
            // logger(1) tells the time.
            let is_timed = name == "SYSLOG_RAW" && value.ends_with(b" root: trailing  ");
            if is_timed || name == "OBJECT_PID" || name == "OBJECT_CMDLINE" {
                *value = b"of each run".to_vec();
            }
        }
        entry.sort();
        entry.dedup();
        let shown: Vec<String> = entry
            .iter()
            .map(|(name, value)| {
                let end = value.len().min(100);
                format!("{name}={} ({})", value[..end].escape_ascii(), value.len())
            })
            .collect();
        *counts.entry(shown.join(" ")).or_default() += 1;
    }
    counts
}

fn record(daemon: &str, directory: &Path, script: &str) -> Option<BTreeMap<String, usize>> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let out = directory.join(if daemon == "systemd" { "theirs" } else { "ours" });
    let status = Command::new("unshare")
        .args(["-m", "-n", "--propagation", "private", "timeout", "-k", "5", "120", "sh"])
        .arg(tests.join("senders.sh"))
        .arg(daemon)
        .arg(&out)
        .arg(tests.join(script))
        .arg(journalctl())
        .stdin(Stdio::null())
        .status();
    status
        .is_ok_and(|status| status.success())
        .then(|| comparable(entries(&std::fs::read(&out).expect("an export")), script))
}

/// Has both daemons record what a script sends: so many different entries, the same with both.
#[track_caller]
fn check(script: &str, entries_min: usize, needs: &str) {
    if !Path::new(JOURNALD).exists() || !rustix::process::geteuid().is_root() {
        return not_run("no systemd-journald, or not root");
    }
    let name = format!("warren-{script}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).expect("a directory");
    let theirs = record("systemd", &directory, script);
    let ours = record(env!("CARGO_BIN_EXE_warren-journald"), &directory, script);
    std::fs::remove_dir_all(&directory).expect("ours to remove");
    let (Some(theirs), Some(ours)) = (theirs, ours) else { return not_run(needs) };
    assert!(theirs.len() > entries_min, "{} different entries", theirs.len());
    let only = |these: &BTreeMap<String, usize>, those: &BTreeMap<String, usize>| {
        let lines = these.iter().filter(|(entry, count)| those.get(*entry) != Some(count));
        lines.map(|(entry, count)| format!("\n{count} {entry}")).collect::<String>()
    };
    let (more, fewer) = (only(&theirs, &ours), only(&ours, &theirs));
    assert!(more.is_empty() && fewer.is_empty(), "theirs:{more}\nours:{fewer}");
}

/// Says past the test runner's capture that a test could not run here.
fn not_run(why: &str) {
    warren_testkit::not_run(why);
}

#[test]
fn debians_daemon_records_the_same() {
    check(SENDERS, 80, "namespaces, logger, systemd-cat or python3 are not there");
}

#[test]
fn debians_daemon_records_the_same_of_nginx_and_postgresql() {
    check(PROGRAMS, 5, "namespaces, nginx and PostgreSQL, or python3 are not there");
}
