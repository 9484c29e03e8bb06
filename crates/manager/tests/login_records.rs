//! Records of logins (`UtmpIdentifier=`, `UtmpMode=`), as utmp(5) has them. The machine's files are its own.

mod lab;

use lab::{Machine, until_or};

/// Bytes of a record, by the C library.
const RECORD_BYTES: usize = if cfg!(target_arch = "aarch64") { 400 } else { 384 };

fn start(name: &str, units: &[(&str, &str)]) -> Option<Machine> {
    let m = Machine::start(name, units)?;
    m.run(&["/bin/sh", "-c", "mount -t tmpfs none /var/log && : >/run/utmp && : >/var/log/wtmp"])
        .expect("made");
    Some(m)
}

/// Type, id, line, user and end of all records of a file, and their numbers of processes.
fn read(m: &Machine, file: &str) -> Vec<(String, i32)> {
    let bytes = std::fs::read(m.inside(file)).expect("it is there");
    let text = |bytes: &[u8]| {
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8(bytes.to_vec()).expect("text")
    };
    let short = |record: &[u8], at: usize| i16::from_ne_bytes([record[at], record[at + 1]]);
    let record = |record: &[u8]| {
        let pid = i32::from_ne_bytes(record[4..8].try_into().expect("four bytes"));
        let [line, id, user] = [8..40, 40..44, 44..76].map(|range| text(&record[range]));
        let (code, status) = (short(record, 332), short(record, 334));
        (format!("{} {id} {line} {user} {code}/{status}", short(record, 0)), pid)
    };
    bytes.chunks_exact(RECORD_BYTES).map(record).collect()
}

#[track_caller]
fn wait_for(m: &Machine, file: &str, expected: &[&str]) -> Vec<i32> {
    let all = || read(m, file);
    let are = |all: &[(String, i32)]| all.iter().map(|(text, _)| text).eq(expected);
    let found = until_or(file, || Some(all()).filter(|all| are(all)), || format!("{:#?}", all()));
    found.into_iter().map(|(_, pid)| pid).collect()
}

#[test]
fn a_process_is_recorded_from_its_start_to_its_end() {
    let unit = "[Service]\nType=exec\nUtmpIdentifier=abc%p\nUtmpMode=user\nUser=daemon\nTTYPath=/dev/pts/none\n\
                ExecStartPre=/bin/true\nExecStart=/bin/sleep 1000\n";
    let getty =
        "[Service]\nType=exec\nUtmpIdentifier=g\nUtmpMode=login\nExecStart=/bin/sleep 1000\n";
    let plain = "[Service]\nType=exec\nUtmpIdentifier=p\nExecStart=/bin/sleep 1000\n";
    let other = "[Service]\nType=exec\nExecStart=/bin/sleep 1000\n";
    let units =
        [("one.service", unit), ("g.service", getty), ("p.service", plain), ("o.service", other)];
    let Some(m) = start("records", &units) else { return };
    for (name, _) in units {
        m.expect_job("start", name, "done");
    }
    let pids = wait_for(&m, "/run/utmp", &["7 cone pts/none daemon 0/0", "6 g   0/0", "5 p   0/0"]);
    assert_eq!(
        pids.first().map(|pid| i64::from(*pid)),
        m.status("one.service")["main_pid"].as_i64()
    );
    let user = ["5 cone pts/none  0/0", "6 cone pts/none  0/0", "7 cone pts/none daemon 0/0"];
    let history =
        [&user[..], &["8 cone pts/none  1/0"], &user, &["5 g   0/0", "6 g   0/0", "5 p   0/0"]]
            .concat();
    wait_for(&m, "/var/log/wtmp", &history);
    m.run(&["kill", "-9", &pids[1].to_string()]).expect("it runs");
    m.wait_for("g.service", "failed/failed");
    m.expect_job("stop", "one.service", "done");
    wait_for(&m, "/run/utmp", &["8 cone pts/none  2/15", "8 g   2/9", "5 p   0/0"]);
    let ended = [&history[..], &["8 g   2/9", "8 cone pts/none  2/15"]].concat();
    wait_for(&m, "/var/log/wtmp", &ended);
}

#[test]
fn what_cannot_be_executed_is_recorded_as_ended() {
    let unit = "[Service]\nType=oneshot\nUtmpIdentifier=a\nUtmpMode=login\nExecStart=/none\n";
    let Some(m) = start("records-none", &[("a.service", unit)]) else { return };
    m.expect_job("start", "a.service", "failed");
    wait_for(&m, "/run/utmp", &["8 a   1/203"]);
}

#[test]
fn records_that_are_not_kept_keep_nobody_from_starting() {
    let unit = "[Service]\nType=exec\nUtmpIdentifier=a\nUtmpMode=user\nExecStart=/bin/sleep 1000\n";
    let Some(m) = start("records-gone", &[("a.service", unit)]) else { return };
    m.run(&["/bin/sh", "-c", "rm /run/utmp /var/log/wtmp"]).expect("removed");
    m.expect_job("start", "a.service", "done");
    m.expect_job("stop", "a.service", "done");
    until_or(
        "it says so",
        || m.console().contains("a.service: cannot record the end of process").then_some(()),
        || m.console(),
    );
}
