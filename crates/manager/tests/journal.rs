//! The log daemon as a service of the manager: what services write is in the log under their
//! names, whoever is killed.

mod lab;

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use lab::{Machine, pause, until};
use serde_json::{Value, json};

/// Where the installed unit has the store.
const STORE: &str = "/run/log/warren/journal";

const JOURNAL_UNITS: [(&str, &str); 6] = [
    ("systemd-journald.service", include_str!("../../../units/systemd-journald.service")),
    ("systemd-journald.socket", include_str!("../../../units/systemd-journald.socket")),
    (
        "systemd-journald-dev-log.socket",
        include_str!("../../../units/systemd-journald-dev-log.socket"),
    ),
    ("systemd-journald@.service", include_str!("../../../units/systemd-journald@.service")),
    ("systemd-journald@.socket", include_str!("../../../units/systemd-journald@.socket")),
    (
        "systemd-journald-varlink@.socket",
        include_str!("../../../units/systemd-journald-varlink@.socket"),
    ),
];

/// Starts a machine with a log daemon that is up.
fn start(name: &str, units: &[(&str, &str)]) -> Option<Machine> {
    let machine = start_without_daemon(name, units)?;
    machine.expect_job("start", "systemd-journald.service", "done");
    Some(machine)
}

/// Starts a machine that has the units of a log daemon.
fn start_without_daemon(name: &str, units: &[(&str, &str)]) -> Option<Machine> {
    let journald = lab::program_of("warren-log-daemon", "warren-journald");
    let texts: Vec<(&str, String)> = JOURNAL_UNITS
        .iter()
        .map(|(name, text)| {
            let settings = "--set Storage=volatile --set ReadKMsg=no --set ForwardToWall=no \
                            --set kept.MinUse=16M --set TTYPath=/run/console";
            let command = format!("{journald} {settings}");
            let text = text.replace("/usr/lib/warren/warren-journald", &command);
            (*name, text.replace("Symlinks=/dev/log\n", ""))
        })
        .collect();
    let mut all: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, &**text)).collect();
    all.extend(units);
    Machine::start(name, &all)
}

/// Entries that match, oldest first.
fn entries(machine: &Machine, matches: &[&str]) -> Vec<Value> {
    entries_of(machine, STORE, matches)
}

fn entries_of(machine: &Machine, store: &str, matches: &[&str]) -> Vec<Value> {
    let reader = PathBuf::from(lab::program_of("warren-log-show", "warren-journalctl"));
    let mut command = Command::new(reader);
    command.arg("-D").arg(machine.inside(store)).args(["-q", "-a", "-o", "json"]).args(matches);
    let output = command.output().expect("the reader runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry[field].as_str().unwrap_or("-")
}

fn messages(machine: &Machine, matches: &[&str]) -> Vec<String> {
    entries(machine, matches).iter().map(|entry| text(entry, "MESSAGE").to_owned()).collect()
}

/// Waits until that many entries match.
#[track_caller]
fn wait_for(machine: &Machine, count: usize, matches: &[&str]) -> Vec<Value> {
    until(&format!("{count} entries {matches:?}"), || {
        Some(entries(machine, matches)).filter(|found| found.len() >= count)
    })
}

#[test]
fn output_is_logged_under_its_unit_as_the_settings_say() {
    let script = "echo out; echo '<3>bad' >&2; echo '<7>chatter'; echo a secret";
    let units = [
        ("plain.service", format!("[Service]\nType=oneshot\nExecStart=/bin/sh -c \"{script}\"")),
        (
            "set.service",
            format!(
                "[Unit]\nDescription=Set up\n[Service]\nType=oneshot\nSyslogIdentifier=named\n\
                 SyslogFacility=local1\nSyslogLevel=notice\nLogLevelMax=info\n\
                 LogFilterPatterns=~secret\nLogExtraFields=COLOUR=red \"SHAPE=a b\"\n\
                 ExecStart=/bin/sh -c \"{script}\""
            ),
        ),
        (
            "few.service",
            "[Service]\nType=oneshot\nLogRateLimitIntervalSec=1h\nLogRateLimitBurst=3\n\
             ExecStart=/bin/sh -c \"for i in $$(seq 50); do echo $$i; done\""
                .to_owned(),
        ),
        (
            "raw.service",
            "[Service]\nType=oneshot\nSyslogLevelPrefix=no\nExecStart=/bin/sh -c \"echo '<3>x'\""
                .to_owned(),
        ),
        (
            "quiet.service",
            "[Service]\nType=oneshot\nLogLevelMax=err\nExecStart=/bin/false".to_owned(),
        ),
        (
            "calm.service",
            "[Service]\nType=oneshot\nLogLevelMax=warning\nExecStart=/bin/true".to_owned(),
        ),
        ("broken.service", "[Service]\nType=oneshot\nExecStart=/bin/false".to_owned()),
    ];
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (*name, &**text)).collect();
    let Some(m) = start("log", &units) else { return };
    for unit in ["plain", "set", "few", "raw", "calm"] {
        m.expect_job("start", &format!("{unit}.service"), "done");
    }
    m.expect_job("start", "quiet.service", "failed");
    m.expect_job("start", "broken.service", "failed");

    wait_for(&m, 4, &["_SYSTEMD_UNIT=plain.service"]);
    let shown = |unit: &str, fields: &str| -> Vec<String> {
        let show = |entry: &Value| {
            let values: Vec<&str> = fields.split(' ').map(|field| text(entry, field)).collect();
            values.join(" ")
        };
        entries(&m, &[&format!("_SYSTEMD_UNIT={unit}.service")]).iter().map(show).collect()
    };
    assert_eq!(
        shown("plain", "PRIORITY SYSLOG_FACILITY SYSLOG_IDENTIFIER _TRANSPORT MESSAGE"),
        [
            "6 3 sh stdout out",
            "3 3 sh stdout bad",
            "7 3 sh stdout chatter",
            "6 3 sh stdout a secret"
        ]
    );
    assert_eq!(
        shown("set", "PRIORITY SYSLOG_FACILITY SYSLOG_IDENTIFIER COLOUR SHAPE MESSAGE"),
        ["5 17 named red a b out", "3 17 named red a b bad"]
    );
    // Up to four times as many where there is room, as for systemd.
    let few = shown("few", "MESSAGE");
    assert!((3..=12).contains(&few.len()) && few[..3] == ["1", "2", "3"], "{few:?}");
    assert_eq!(shown("raw", "PRIORITY MESSAGE"), ["6 <3>x"]);
    let one = &entries(&m, &["_SYSTEMD_UNIT=plain.service"])[0];
    assert_eq!(text(one, "_SYSTEMD_CGROUP"), "/system.slice/plain.service");
    assert_eq!(text(one, "_SYSTEMD_INVOCATION_ID").len(), 32);
    assert!(!m.inside("/run/log/warren/units/plain.service.log").exists());

    // What the manager says of units.
    wait_for(&m, 1, &["UNIT=broken.service", "JOB_RESULT=failed"]);
    let said = entries(&m, &["UNIT=set.service", "JOB_RESULT=done"]);
    assert_eq!(text(&said[0], "MESSAGE"), "Started set.service - Set up.");
    assert_eq!(text(&said[0], "MESSAGE_ID"), "39f53479d3a045ac8e11786248231fbf");
    assert_eq!(text(&said[0], "COLOUR"), "red");
    assert_eq!(text(&said[0], "_SYSTEMD_UNIT"), "init.scope");
    let broken = messages(&m, &["-u", "broken"]);
    assert_eq!(broken.last().map(String::as_str), Some("Failed to start broken.service."));
    assert!(broken.iter().any(|text| text.contains("WR-0040")), "why it failed: {broken:?}");
    // LogLevelMax= is for that as well.
    assert!(messages(&m, &["-u", "calm"]).is_empty());
    assert_eq!(messages(&m, &["-u", "quiet"]), ["Failed to start quiet.service."]);
}

#[test]
fn the_log_tells_of_jobs_that_did_something_and_of_conditions_by_name() {
    let units = [
        ("good.service", "[Unit]\nDescription=A good one\n[Service]\nExecStart=/bin/sleep 1000"),
        ("one.service", "[Service]\nType=oneshot\nExecStart=/bin/true"),
        (
            "cond.service",
            "[Unit]\nConditionPathExists=/\nConditionPathExists=!/\n[Service]\nExecStart=/bin/true",
        ),
        ("any.target", "[Unit]\nConditionPathExists=|/nonexistent\nConditionPathExists=|!/"),
        ("assert.target", "[Unit]\nAssertPathExists=/nonexistent"),
        ("exec.service", "[Service]\nExecCondition=/bin/false\nExecStart=/bin/true"),
        ("bad.service", "[Service]\nType=oneshot\nExecStart=/bin/false"),
        ("my.socket", "[Socket]\nListenStream=@D/out/socket\nService=one.service"),
    ];
    let Some(m) = start("words", &units) else { return };
    let check = |unit: &str, jobs: &[&str], expected: &[&str]| {
        for job in jobs {
            let (kind, result) = job.split_once(' ').expect("a kind and a result");
            m.expect_job(kind, unit, result);
        }
        let of_unit = format!("UNIT={unit}");
        let said = until(&format!("what is said of {unit}"), || {
            let said = messages(&m, &[&of_unit]);
            (said.len() >= expected.len()).then_some(said)
        });
        assert_eq!(said, expected, "{unit}");
        entries(&m, &[&of_unit])
    };
    let said = check(
        "good.service",
        &["stop done", "start done", "start done", "stop done", "stop done", "restart done"],
        &[
            "Started good.service - A good one.",
            "Stopped good.service - A good one.",
            "Started good.service - A good one.",
        ],
    );
    let numbers = said.iter().map(|entry| text(entry, "JOB_ID").parse::<u32>());
    assert!(numbers.clone().all(|number| number.is_ok_and(|number| number > 0)), "{said:?}");
    check(
        "one.service",
        &["start done", "start done", "stop done"],
        &["Started one.service.", "Started one.service."],
    );
    let skipped = "cond.service was skipped because of an unmet condition check \
                   (ConditionPathExists=!/).";
    let said = check("cond.service", &["start done", "stop done"], &[skipped]);
    let fields = ["PRIORITY", "WARREN_REASON", "MESSAGE_ID"].map(|field| text(&said[0], field));
    assert_eq!(fields, ["6", "WR-0030", "-"]);
    let skipped = "any.target was skipped because no trigger condition checks were met \
                   (ConditionPathExists=|/nonexistent, ConditionPathExists=|!/).";
    check("any.target", &["start done"], &[skipped]);
    m.expect_job("start", "assert.target", "assert");
    m.expect_job("stop", "assert.target", "done");
    let skipped = "exec.service: Skipped due to 'exec-condition'.";
    check("exec.service", &["start done", "stop done"], &[skipped]);
    m.expect_job("start", "bad.service", "failed");
    m.expect_job("stop", "bad.service", "done");
    check("my.socket", &["start done", "start done"], &["Started my.socket."]);
    let last = |unit: &str| messages(&m, &[&format!("UNIT={unit}")]).pop();
    assert_eq!(last("bad.service").as_deref(), Some("Failed to start bad.service."));
    assert_eq!(last("assert.target").as_deref(), Some("Assertion failed for assert.target."));
    let named = messages(&m, &["UNIT=assert.target", "WARREN_REASON=WR-0031"]);
    assert!(named[0].ends_with(": AssertPathExists=/nonexistent"), "{named:?}");
}

#[test]
fn the_last_lines_come_from_memory_and_the_daemon_does_what_it_is_asked() {
    let units = [(
        "talk.service",
        "[Service]\nExecStart=/bin/sh -c \"for i in $$(seq 30); do echo line $$i; done; sleep 1000\"",
    )];
    let Some(m) = start("asked", &units) else { return };
    m.expect_job("start", "talk.service", "done");
    let lines = until("ten lines are told", || {
        let lines = m.status("talk.service")["log"].as_array().cloned().unwrap_or_default();
        let texts: Vec<String> =
            lines.iter().filter_map(|line| Some(line.as_str()?.to_owned())).collect();
        texts.iter().any(|line| line.ends_with(": line 30")).then_some(texts)
    });
    // The manager's word that it has started may be among them.
    assert!(lines.len() == 10 && lines[0].contains(": line 2"), "{lines:?}");

    let reader = lab::program_of("warren-log-show", "warren-journalctl");
    let root = m.inside("");
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(&reader);
        let output = command.arg("--root").arg(&root).args(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // What was said a moment ago is read, though the daemon writes some time later.
    m.expect_job("stop", "talk.service", "done");
    assert!(ask(&["-u", "talk", "-n", "1", "-o", "cat"]).starts_with("Stopped talk.service"));
    let logs = || {
        let entries = std::fs::read_dir(m.inside(STORE)).expect("the store is there");
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".log")).collect::<Vec<String>>()
    };
    let before = logs();
    ask(&["--sync"]);
    ask(&["--rotate"]);
    m.expect_job("start", "talk.service", "done");
    let begun = until("a new log is begun", || {
        ask(&["-n", "1"]);
        Some(logs()).filter(|now| now.iter().any(|name| !before.contains(name)))
    });
    assert!(!begun.is_empty());
}

/// `WARREN_SHORT_PROCESSES` says how many on each transport; 1,000 without it.
#[test]
fn processes_that_log_once_and_are_gone_have_their_unit() {
    let processes = std::env::var("WARREN_SHORT_PROCESSES").ok();
    let processes: usize = processes.and_then(|count| count.parse().ok()).unwrap_or(1_000);
    let without_max = processes / 1000;
    let script = |transport: &str| {
        format!(
            "[Service]\nType=oneshot\nLogRateLimitIntervalSec=0\nLogExtraFields=KIND=short\n\
             TimeoutStartSec=infinity\nExecStart=/bin/sh -c \"i=0; while [ $$i -lt {processes} ]; \
             do i=$$((i+1)); @P log:{transport}:short-{transport}; done\""
        )
    };
    let transports = ["native", "syslog", "stdout"];
    let texts: Vec<(String, String)> =
        transports.iter().map(|t| (format!("{t}.service"), script(t))).collect();
    let units: Vec<(&str, &str)> = texts.iter().map(|(n, t)| (&**n, &**t)).collect();
    let Some(m) = start("short", &units) else { return };
    for transport in transports {
        let unit = format!("{transport}.service");
        m.expect_job("start", &unit, "done");
        let message = format!("MESSAGE=short-{transport}");
        wait_for(&m, processes, &[&message]);
        let known = entries(&m, &[&message, &format!("_SYSTEMD_UNIT={unit}"), "KIND=short"]).len();
        let all = entries(&m, &[&message]).len();
        println!("{transport}: {known} of {all} have their unit");
        assert_eq!(all, processes, "{transport}");
        if knows_cgroups_of_the_dead() {
            assert!(all - known <= without_max, "{transport}: {known} of {all} have their unit");
        } else {
            lab::not_run(&format!("attribution of {transport}"), "Linux 6.16 or newer");
        }
    }
}

/// Whether the kernel tells of a process that has ended what cgroup it was in.
fn knows_cgroups_of_the_dead() -> bool {
    use std::os::fd::AsFd;
    let Ok(mut child) = Command::new("true").spawn() else { return false };
    let pidfd = warren_sys::process::pidfd_open(child.id() as i32);
    let _ = child.wait();
    pidfd.is_ok_and(|fd| warren_sys::process::pidfd_cgroup_id(fd.as_fd()).is_some())
}

/// A reader that shows lines of both units as they come.
struct Follower {
    child: Child,
    path: PathBuf,
}

impl Follower {
    fn start(m: &Machine) -> Follower {
        let path = m.out("followed");
        let mut command = Command::new(lab::program_of("warren-log-show", "warren-journalctl"));
        command.arg("-D").arg(m.inside(STORE)).args(["-q", "-f", "-n", "all", "-o", "json"]);
        command.args(["_SYSTEMD_UNIT=count.service", "_SYSTEMD_UNIT=kept.service"]);
        let out = std::fs::File::create(&path).expect("a file");
        Follower { child: command.stdout(out).spawn().expect("the reader runs"), path }
    }

    fn shown(&self) -> String {
        std::fs::read_to_string(&self.path).expect("the reader's output")
    }

    /// Waits for so many lines.
    #[track_caller]
    fn expect(&mut self, count: usize) {
        until("all lines are shown", || (self.shown().lines().count() >= count).then_some(()));
    }

    fn lines(&self, unit: &str) -> Vec<String> {
        let shown = self.shown();
        let entries = shown.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
        let unit = format!("{unit}.service");
        let of_unit = entries.filter(|entry: &Value| text(entry, "_SYSTEMD_UNIT") == unit);
        of_unit.map(|entry| text(&entry, "MESSAGE").to_owned()).collect()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have failed, which is told elsewhere.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn killed_daemon_and_killed_manager_lose_no_line() {
    const LINES: usize = 300;
    let script =
        format!("i=0; while [ $$i -lt {LINES} ]; do i=$$((i+1)); echo $$i; sleep 0.005; done");
    let unit = format!("[Service]\nExecStart=/bin/sh -c \"{script}\"");
    let begun =
        "[Service]\nExecStart=/bin/sh -c \"printf 'one '; read x < @D/out/fifo; echo line\"";
    // Of the other class, which has files of its own.
    let kept = format!("{unit}\n[X-Warren]\nLogClass=kept");
    let units = [("count.service", &*unit), ("kept.service", &kept), ("begun.service", begun)];
    let Some(m) = start("kills", &units) else { return };
    let fifo = m.out("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|s| s.success()));
    m.expect_job("start", "begun.service", "done");
    let mut follower = Follower::start(&m);
    m.expect_job("start", "count.service", "done");
    m.expect_job("start", "kept.service", "done");
    let mut kills = 0;
    while m.state("count.service") == "active/running" {
        match kills % 3 {
            0 => _ = m.kill_child("warren-journald"),
            1 => _ = m.kill_manager(),
            _ => _ = (m.kill_child("warren-journald"), m.kill_manager()),
        }
        kills += 1;
        pause(Duration::from_millis(120));
        m.wait_until_it_listens();
    }
    assert!(kills > 5, "it ran long enough to be killed: {kills}");
    // Its beginning was read by a daemon that is long gone.
    std::fs::write(&fifo, "\n").expect("it is waited for");
    let last = format!("MESSAGE={LINES}");
    let expected: Vec<String> = (1..=LINES).map(|i| i.to_string()).collect();
    for unit in ["count", "kept"] {
        let of_unit = format!("_SYSTEMD_UNIT={unit}.service");
        wait_for(&m, 1, &[&of_unit, &last]);
        assert_eq!(messages(&m, &[&of_unit]), expected, "{unit} after {kills} kills");
    }
    let files = std::fs::read_dir(m.inside(STORE)).expect("the store").flatten();
    let names: Vec<String> = files.map(|file| file.file_name().display().to_string()).collect();
    assert!(names.iter().any(|name| name.starts_with("kept-")), "{names:?}");
    follower.expect(2 * LINES);
    for unit in ["count", "kept"] {
        assert_eq!(follower.lines(unit), expected, "{unit} as it was followed");
    }
    wait_for(&m, 1, &["_SYSTEMD_UNIT=begun.service"]);
    assert_eq!(messages(&m, &["_SYSTEMD_UNIT=begun.service"]), ["one line"]);
}

#[test]
fn the_console_has_a_copy_of_what_is_to_have_one_whoever_is_killed() {
    let script = "echo shown; echo '<7>chatter'; echo hidden >&2; read x < @D/out/fifo; echo later; \
                  stat -L -c $JOURNAL_STREAM=%%d:%%i /proc/self/fd/2 >&2";
    let unit = format!(
        "[Service]\nStandardOutput=journal+console\nStandardError=journal\nExecStart=/bin/sh -c \"{script}\""
    );
    let plain = "[Service]\nType=oneshot\nExecStart=/bin/echo plain";
    let in_space =
        format!("{plain}\nStandardOutput=journal+console\nLogNamespace=x\nSyslogIdentifier=me");
    let units =
        [("copied.service", &*unit), ("plain.service", plain), ("space.service", &in_space)];
    let Some(m) = start("console", &units) else { return };
    let fifo = make_fifo(&m, "fifo");
    std::fs::write(m.inside("/run/console"), "").expect("a file in place of a terminal");
    // The kernel's time is before it, where that is on.
    let shown = || {
        let text = std::fs::read_to_string(m.inside("/run/console")).expect("it is there");
        let of = |line: &str| line.split(": ").last().unwrap_or_default().to_owned();
        text.lines().map(of).collect::<Vec<_>>()
    };
    m.expect_job("start", "copied.service", "done");
    m.expect_job("start", "plain.service", "done");
    let of_unit = "_SYSTEMD_UNIT=copied.service";
    wait_for(&m, 3, &[of_unit, "_TRANSPORT=stdout"]);
    wait_for(&m, 1, &["_SYSTEMD_UNIT=plain.service", "MESSAGE=plain"]);
    assert_eq!(shown(), ["shown"], "no message below MaxLevelConsole=, which is info");
    m.kill_child("warren-journald");
    m.kill_manager();
    m.wait_until_it_listens();
    std::fs::write(&fifo, "\n").expect("it is waited for");
    let last = wait_for(&m, 5, &[of_unit, "_TRANSPORT=stdout"]);
    assert_eq!(shown(), ["shown", "later"]);
    let named = text(&last[4], "MESSAGE").split_once('=').expect("two names of standard error");
    assert_eq!(named.0, named.1);
    m.expect_job("start", "space.service", "done");
    until("a line by the namespace's daemon", || {
        shown().get(2).cloned().filter(|it| it == "plain")
    });
}

#[test]
fn a_unit_of_a_namespace_logs_there_alone_and_outlives_its_daemon() {
    let unit = "[Service]\nLogNamespace=x\nSyslogIdentifier=me\nUser=65534\n\
                ExecStart=/bin/sh -c \"ls /run/systemd/journal; read x < @D/out/fifo; echo more\"";
    let plain =
        "[Service]\nType=oneshot\nExecStart=/bin/sh -c \"echo plain; ls /run/systemd/journal\"";
    let Some(m) = start("space", &[("in.service", unit), ("plain.service", plain)]) else { return };
    let fifo = m.out("fifo");
    let made = Command::new("mkfifo").args(["-m", "666"]).arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    m.expect_job("start", "in.service", "done");
    m.expect_job("start", "plain.service", "done");
    let of_namespace = |text: &str, count: usize| {
        let store = format!("{STORE}.x");
        until(&format!("{count} of {text}"), || {
            let all = entries_of(&m, &store, &["_SYSTEMD_UNIT=in.service", text]);
            Some(all).filter(|found| found.len() >= count)
        })
    };
    // The sockets that it sees are the namespace's, which have one more: it is handed over.
    let seen = of_namespace("MESSAGE=io.systemd.journal", 1);
    assert_eq!([text(&seen[0], "_NAMESPACE"), text(&seen[0], "SYSLOG_IDENTIFIER")], ["x", "me"]);
    wait_for(&m, 1, &["_SYSTEMD_UNIT=plain.service", "MESSAGE=plain"]);
    assert_eq!(entries(&m, &["_SYSTEMD_UNIT=in.service", "_TRANSPORT=stdout"]).len(), 0);
    let daemon = m.main_pid("systemd-journald@x.service").expect("it runs").to_string();
    m.run(&["kill", "-KILL", &daemon]).expect("kill(1)");
    until("another daemon", || {
        m.main_pid("systemd-journald@x.service").filter(|pid| pid.to_string() != daemon)
    });
    std::fs::write(&fifo, "\n").expect("it is waited for");
    of_namespace("MESSAGE=more", 1);
}

#[test]
fn settings_of_a_unit_count_in_a_namespace_too() {
    let unit = "[Service]\nType=oneshot\nLogNamespace=x\nLogLevelMax=warning\n\
                LogExtraFields=ROLE=front\nLogFilterPatterns=~secret\n\
                LogRateLimitIntervalSec=1h\nLogRateLimitBurst=3\n\
                ExecStart=/bin/sh -c \"for i in $$(seq 50); do echo '<6>info'; echo '<4>secret';\
                echo '<3>line' $$i; done\"";
    // Gone before anybody looks.
    let logger = "[Service]\nType=oneshot\nLogNamespace=x\nLogExtraFields=ROLE=back\n\
                  LogLevelMax=err\nStandardOutput=null\n\
                  ExecStart=/bin/sh -c \"logger -u /run/systemd/journal/dev-log -p user.info no; logger -u /run/systemd/journal/dev-log -p user.err yes\"";
    if Command::new("logger").arg("--version").output().is_err() {
        return lab::not_run("settings_of_a_unit_count_in_a_namespace_too", "logger(1)");
    }
    let units = [("out.service", unit), ("sys.service", logger)];
    let Some(m) = start("spacesettings", &units) else { return };
    let store = format!("{STORE}.x");
    let shown = |unit: &str, count: usize| {
        let unit = format!("_SYSTEMD_UNIT={unit}");
        let found = until(&unit, || {
            let all = entries_of(&m, &store, &[&unit]);
            Some(all).filter(|found| found.len() >= count)
        });
        found
            .iter()
            .map(|e| format!("{} {}", text(e, "ROLE"), text(e, "MESSAGE")))
            .collect::<Vec<_>>()
    };
    m.expect_job("start", "out.service", "done");
    // Up to four times as many where there is room.
    let out = shown("out.service", 3);
    let first = ["front line 1", "front line 2", "front line 3"];
    assert!((3..=12).contains(&out.len()) && out[..3] == first, "{out:?}");
    let invocation = entries_of(&m, &store, &["_SYSTEMD_UNIT=out.service"]);
    assert_eq!(text(&invocation[0], "_SYSTEMD_INVOCATION_ID").len(), 32);
    m.expect_job("start", "sys.service", "done");
    assert_eq!(shown("sys.service", 1), ["back yes"]);
    // The next daemon finds the settings again, and the unit's new run.
    let daemon = m.main_pid("systemd-journald@x.service").expect("it runs").to_string();
    m.run(&["kill", "-KILL", &daemon]).expect("kill(1)");
    until("another daemon", || {
        m.main_pid("systemd-journald@x.service").filter(|pid| pid.to_string() != daemon)
    });
    m.expect_job("start", "sys.service", "done");
    assert_eq!(shown("sys.service", 2), ["back yes", "back yes"]);
}

/// What the manager says of a unit counts as long as it runs, whoever is killed, whether it has a stream or not.
#[test]
fn settings_of_units_without_a_stream_outlive_the_daemon_and_the_manager() {
    const LOOP: &str =
        "exec 3<>@D/out/fifo-$$0; while read x <&3; do @P log:native:of-$$0-$$x; done";
    let unit = |name: &str, output: &str, before: &str| {
        format!(
            "[Service]\nStandardOutput={output}\nLogExtraFields=ROLE=told\n\
             ExecStart=/bin/sh -c '{before}{LOOP}' {name}"
        )
    };
    let null = unit("null", "null", "");
    let closed = unit("closed", "journal", "echo first; exec >/dev/null 2>&1; ");
    let Some(m) = start("told", &[("null.service", &null), ("closed.service", &closed)]) else {
        return;
    };
    for unit in ["null", "closed"] {
        let fifo = m.out(&format!("fifo-{unit}"));
        assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|s| s.success()));
        m.expect_job("start", &format!("{unit}.service"), "done");
    }
    wait_for(&m, 1, &["_SYSTEMD_UNIT=closed.service", "MESSAGE=first"]);
    let mut number = 0;
    let mut expect_role = |when: &str| {
        for unit in ["null", "closed"] {
            until(&format!("{unit} has its fields {when}"), || {
                number += 1;
                let fifo = m.out(&format!("fifo-{unit}"));
                std::fs::write(fifo, format!("{number}\n")).expect("it is waited for");
                let message = format!("MESSAGE=of-{unit}-{number}");
                let found = wait_for(&m, 1, &[&message]);
                (text(&found[0], "ROLE") == "told").then_some(())
            });
        }
    };
    expect_role("at first");
    assert!(m.kill_child("warren-journald"));
    expect_role("after the daemon");
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    assert!(m.kill_child("warren-journald"));
    expect_role("after both");
}

/// What is larger than a packet may be is cut, or left out and that said: nothing waits behind it.
#[test]
fn texts_and_settings_of_any_length_stop_no_log() {
    let bad = format!(
        "[Service]\nType=oneshot\nLogExtraFields={}\nExecStart=/bin/echo bad",
        "x".repeat(300 << 10)
    );
    let patterns = (0..40).map(|at| format!("LogFilterPatterns=~{at}{}\n", "y".repeat(10_000)));
    let wide = format!(
        "[Service]\nType=oneshot\n{}ExecStart=/bin/echo wide",
        patterns.collect::<String>()
    );
    let Some(m) = start("long", &[("bad.service", &bad), ("wide.service", &wide)]) else { return };
    for unit in ["bad", "wide"] {
        m.expect_job("start", &format!("{unit}.service"), "done");
        wait_for(&m, 1, &[&format!("_SYSTEMD_UNIT={unit}.service"), &format!("MESSAGE={unit}")]);
        wait_for(&m, 1, &[&format!("UNIT={unit}.service"), "JOB_RESULT=done"]);
    }
    let said = messages(&m, &["SYSLOG_IDENTIFIER=warrend"]);
    let long = said.iter().filter(|text| text.contains("bad.service:") && text.ends_with('x'));
    assert!(long.count() > 0, "the beginning of what is wrong is there");
    let wide = "wide.service: LogExtraFields= and LogFilterPatterns= exceed 64 KiB";
    assert_eq!(said.iter().filter(|text| text.starts_with(wide)).count(), 1);
}

#[test]
fn a_client_s_stream_outlives_the_daemon() {
    let units = [(
        "cat.service",
        "[Service]\nStandardOutput=null\nExecStart=/bin/sh -c \
         \"(echo first; read x < @D/out/fifo; echo second) | systemd-cat -t viacat\"",
    )];
    if Command::new("systemd-cat").arg("--version").output().is_err() {
        return lab::not_run("a_client_s_stream_outlives_the_daemon", "systemd-cat(1)");
    }
    let Some(m) = start("client", &units) else { return };
    let fifo = m.out("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|s| s.success()));
    m.expect_job("start", "cat.service", "done");
    wait_for(&m, 1, &["SYSLOG_IDENTIFIER=viacat"]);
    assert!(m.kill_child("warren-journald"));
    std::fs::write(&fifo, "\n").expect("it is waited for");
    wait_for(&m, 2, &["SYSLOG_IDENTIFIER=viacat"]);
    assert_eq!(messages(&m, &["SYSLOG_IDENTIFIER=viacat"]), ["first", "second"]);
}

/// A start that is not waited for.
fn ask_for(m: &Machine, unit: &str) {
    m.call("Job", &json!({"type": "start", "unit": unit, "wait": false}));
}

fn make_fifo(m: &Machine, name: &str) -> PathBuf {
    let fifo = m.out(name);
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|s| s.success()));
    fifo
}

/// The file of a unit whose output goes to no daemon.
fn file_of(m: &Machine, unit: &str) -> PathBuf {
    m.inside(&format!("/run/log/warren/units/{unit}.log"))
}

const ALL: (&str, &str) =
    ("all.target", "[Unit]\nWants=systemd-journald.service early.service flood.service");

#[test]
fn what_is_written_before_the_daemon_begins_is_in_the_log() {
    let early = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\n\
                 ExecStart=/bin/sh -c \"echo out; echo '<3>bad' >&2; : >@D/out/begun; \
                 read x < @D/out/fifo; echo more; exit 3\"";
    let units = [
        ("early.service", early),
        ("systemd-journald.service.d/late.conf", "[Unit]\nAfter=early.service"),
        ALL,
    ];
    let Some(m) = start_without_daemon("before", &units) else { return };
    let fifo = make_fifo(&m, "fifo");
    ask_for(&m, "all.target");
    until("it has begun", || m.out("begun").exists().then_some(()));
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    std::fs::write(&fifo, "\n").expect("it is waited for");
    m.wait_for("systemd-journald.service", "active/running");
    let found = wait_for(&m, 3, &["_SYSTEMD_UNIT=early.service"]);
    let shown: Vec<[&str; 2]> =
        found.iter().map(|e| [text(e, "PRIORITY"), text(e, "MESSAGE")]).collect();
    assert_eq!(shown, [["6", "out"], ["3", "bad"], ["6", "more"]]);
    assert_eq!(text(&found[0], "_SYSTEMD_INVOCATION_ID").len(), 32);
    let lines = m.status("early.service")["log"].to_string();
    assert!(lines.contains(": bad") && lines.contains(": more"), "{lines}");
    assert!(!file_of(&m, "early.service").exists());
    let console = m.console();
    assert!(!console.contains("writing output to files"), "{console}");
}

/// The manager is killed over and over from before the daemon begins until after it.
#[test]
fn a_manager_that_is_killed_as_the_daemon_begins_loses_no_line() {
    const LINES: usize = 100;
    let script =
        format!("i=0; while [ $$i -lt {LINES} ]; do i=$$((i+1)); echo $$i; sleep 0.01; done");
    let count = format!("[Service]\nExecStart=/bin/sh -c \"{script}\"");
    let gate = "[Service]\nType=oneshot\nExecStart=/bin/sh -c \"read x < @D/out/gate\"";
    let units = [
        ("flood.service", &*count),
        ("gate.service", gate),
        ("systemd-journald.service.d/late.conf", "[Unit]\nWants=gate.service\nAfter=gate.service"),
        ALL,
    ];
    let Some(m) = start_without_daemon("begins", &units) else { return };
    let gate = make_fifo(&m, "gate");
    ask_for(&m, "all.target");
    m.wait_for("flood.service", "active/running");
    let open = std::thread::spawn(move || std::fs::write(&gate, "\n"));
    let mut kills = 0;
    while m.state("flood.service") == "active/running" {
        assert!(m.kill_manager());
        kills += 1;
        pause(Duration::from_millis(20));
        m.wait_until_it_listens();
    }
    assert!(open.join().expect("it ends").is_ok());
    let of_unit = "_SYSTEMD_UNIT=flood.service";
    wait_for(&m, 1, &[of_unit, &format!("MESSAGE={LINES}")]);
    let expected: Vec<String> = (1..=LINES).map(|i| i.to_string()).collect();
    assert_eq!(messages(&m, &[of_unit]), expected, "after {kills} kills");
}

/// Writes more than a stream has room for, and after a while once more.
const FLOOD: &str = "[Service]\nType=exec\n\
                     ExecStart=/bin/sh -c \"seq 150000; echo over; \
                     : >@D/out/over; read x < @D/out/fifo; echo more; sleep 1000\"";

fn is_whole(text: &str) -> bool {
    text.starts_with("1\n2\n") && text.ends_with("149999\n150000\nover\n")
}

#[test]
fn what_waits_for_a_daemon_that_does_not_come_goes_to_files() {
    let gate = "[Service]\nType=oneshot\nExecStart=/bin/sh -c \"read x < @D/out/gate\"";
    let units = [
        ("gate.service", gate),
        ("flood.service", FLOOD),
        (
            "systemd-journald.service.d/never.conf",
            "[Unit]\nConditionPathExists=/nonexistent\nWants=gate.service\nAfter=gate.service",
        ),
        ALL,
    ];
    let Some(m) = start_without_daemon("never", &units) else { return };
    let (gate, fifo) = (make_fifo(&m, "gate"), make_fifo(&m, "fifo"));
    ask_for(&m, "all.target");
    m.wait_for("flood.service", "active/running");
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    std::fs::write(&gate, "\n").expect("it is waited for");
    until("it is not held up", || m.out("over").exists().then_some(()));
    let written = || std::fs::read_to_string(file_of(&m, "flood.service")).unwrap_or_default();
    until("all of it is in the file", || is_whole(&written()).then_some(()));
    assert!(m.console().contains("there is no log daemon: writing output to files"));
    // The next manager goes on with it.
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    std::fs::write(&fifo, "\n").expect("it is waited for");
    until("what came later is there too", || written().ends_with("over\nmore\n").then_some(()));
}

#[test]
fn a_daemon_that_is_late_holds_nobody_up_and_gets_what_is_written_from_then_on() {
    let new = "[Service]\nType=oneshot\nExecStart=/bin/echo new";
    let units = [
        ("flood.service", FLOOD),
        ("new.service", new),
        (
            "systemd-journald.service.d/late.conf",
            "[Service]\nTimeoutStartSec=infinity\n\
             ExecStartPre=/bin/sh -c \"read x < @D/out/gate\"",
        ),
        ALL,
    ];
    let Some(m) = start_without_daemon("late", &units) else { return };
    let (gate, fifo) = (make_fifo(&m, "gate"), make_fifo(&m, "fifo"));
    ask_for(&m, "all.target");
    until("it is not held up", || m.out("over").exists().then_some(()));
    let written = |unit: &str| std::fs::read_to_string(file_of(&m, unit)).unwrap_or_default();
    until("all of it is in the file", || is_whole(&written("flood.service")).then_some(()));
    let said = "the log daemon has not started yet: writing output to files";
    assert!(m.console().contains(said), "{}", m.console());
    m.expect_job("start", "new.service", "done");
    assert_eq!(written("new.service"), "new\n");
    std::fs::write(&gate, "\n").expect("it is waited for");
    m.wait_for("systemd-journald.service", "active/running");
    std::fs::write(&fifo, "\n").expect("it is waited for");
    wait_for(&m, 1, &["_SYSTEMD_UNIT=flood.service", "MESSAGE=more"]);
    assert!(!written("flood.service").contains("more"));
}

#[test]
fn without_a_daemon_output_goes_to_files_and_nobody_waits() {
    let script = "while ! test -e @D/out/end; do head -c 100000 /dev/zero; done; echo over";
    let flood = format!("[Service]\nType=exec\nExecStart=/bin/sh -c \"{script}\"");
    let units = [
        ("early.service", "[Service]\nType=oneshot\nExecStart=/bin/echo early"),
        ("late.service", "[Service]\nType=oneshot\nExecStart=/bin/echo late"),
        ("flood.service", &*flood),
    ];
    let Some(m) = Machine::start("nolog", &units[..1]) else { return };
    m.expect_job("start", "early.service", "done");
    let file = |m: &Machine, unit: &str| {
        let path = m.inside(&format!("/run/log/warren/units/{unit}.service.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    };
    assert_eq!(file(&m, "early"), "early\n");
    assert!(m.console().contains("writing output to files in /run/log/warren/units"));
    drop(m);

    let Some(m) = start("stopped", &units) else { return };
    m.expect_job("start", "flood.service", "done");
    for unit in ["systemd-journald.socket", "systemd-journald-dev-log.socket"] {
        m.expect_job("stop", unit, "done");
    }
    m.expect_job("stop", "systemd-journald.service", "done");
    m.expect_job("start", "late.service", "done");
    assert_eq!(file(&m, "late"), "late\n");
    // It is not stuck in a write to a stream that nobody reads.
    std::fs::write(m.out("end"), "").expect("files can be written");
    until("the flood ends", || (m.state("flood.service") != "active/running").then_some(()));
}

/// What services say is for root to read, and does not fill /run while they run.
#[test]
fn files_without_a_daemon_are_closed_to_others_and_bounded() {
    use std::os::unix::fs::PermissionsExt;
    const FILE_BYTES_MAX: u64 = 4 << 20;
    let script = "head -c 20000000 /dev/zero; echo over; exec sleep infinity";
    let talks = format!("[Service]\nType=exec\nUMask=0\nExecStart=/bin/sh -c \"{script}\"");
    let Some(m) = Machine::start("nolog-bound", &[("talks.service", &talks)]) else { return };
    m.expect_job("start", "talks.service", "done");
    let directory = m.inside("/run/log/warren/units");
    let file = directory.join("talks.service.log");
    let length = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let kept = directory.join("talks.service.log.1");
    until("it is cut while the service runs", || {
        (length(&kept) == FILE_BYTES_MAX && length(&file) <= FILE_BYTES_MAX).then_some(())
    });
    assert_eq!(m.state("talks.service"), "active/running");
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!([&directory, &file, &kept].map(|path| mode(path)), [0o750, 0o640, 0o640]);
}

/// A stream that was sent and not taken is in a socket that init and the manager hold.
#[test]
fn a_stream_that_no_daemon_took_breaks_when_the_daemon_is_down() {
    let units = [
        ("systemd-journald.service.d/dies.conf", "[Service]\nKillSignal=SIGKILL"),
        ("full.service", "[Service]\nExecStart=/bin/sh -c 'trap \"\" PIPE; yes; : >@D/out/broke'"),
    ];
    let Some(m) = start("broken-stream", &units) else { return };
    let daemon = m.main_pid("systemd-journald.service").expect("it is up");
    m.stop_server(&daemon.to_string());
    m.expect_job("start", "full.service", "done");
    m.expect_job("stop", "systemd-journald.service", "done");
    until("writing fails", || m.out("broke").exists().then_some(()));
}

#[test]
fn what_a_service_stored_is_there_after_a_restart() {
    let unit = "[Service]\nType=notify\nRestart=always\nRestartSec=0\nFileDescriptorStoreMax=4\n\
                NotifyAccess=all\nExecStart=@P fds:@D/out/fds store:kept ready stay";
    let Some(m) = Machine::start("stored", &[("s.service", unit)]) else { return };
    m.expect_job("start", "s.service", "done");
    let pid = m.main_pid("s.service").expect("it runs");
    assert!(m.run(&["kill", "-9", &pid.to_string()]).is_ok());
    until("it is there again", || m.main_pid("s.service").filter(|new| *new != pid));
    m.wait_for("s.service", "active/running");
    m.expect_job("restart", "s.service", "done");
    assert_eq!(m.lines("fds"), ["(unset)", "kept", "kept:kept"]);
    m.expect_job("stop", "s.service", "done");
    m.expect_job("start", "s.service", "done");
    assert_eq!(m.lines("fds")[3], "(unset)", "nothing is kept over a stop");
}

/// A user sends what nobody can let go of: the log daemon puts another socket in the place of its own, which the next
/// daemon has, too, and which nobody waits for when the first is killed.
#[test]
fn a_socket_that_took_the_place_of_another_is_the_next_daemons() {
    use warren_testkit::{Sent, Stranger};
    const SOCKET: &str = "/run/systemd/journal/socket";
    let name = "log-stranger";
    let Some(m) = start(name, &[]) else { return };
    let send = |text: &str| {
        let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        let message = format!("MESSAGE={text}\nSTRANGER=1\n");
        socket.send_to(message.as_bytes(), m.inside(SOCKET)).expect("the daemon is there");
    };
    let main = || m.main_pid("systemd-journald.service");
    let daemon = until("the daemon", main);
    let of_host = until("its process", || {
        let all = m.groups().into_values().flatten().collect::<Vec<i32>>();
        all.into_iter().find(|pid| lab::pid_inside(*pid) == Some(daemon))
    });
    let sent = Sent { how: "datagram", count: 8, uid: 65_534, text: "MESSAGE=x\n" };
    let Some(stranger) = Stranger::send(&m.inside(SOCKET), of_host as u32, sent) else {
        return lab::not_run(name, "root, /dev/fuse, a mount namespace and python3");
    };
    let is_told = "a new socket replaced this one";
    until("another socket is there", || {
        let told = messages(&m, &["_TRANSPORT=driver"]);
        told.iter().any(|text| text.contains(is_told)).then_some(())
    });
    send("first");
    wait_for(&m, 1, &["STRANGER=1"]);
    warren_sys::process::kill(of_host, 9).expect("it is there");
    until("there is another daemon", || main().filter(|pid| *pid != daemon));
    send("second");
    wait_for(&m, 2, &["STRANGER=1"]);
    drop(stranger);
    send("third");
    let texts: Vec<String> = wait_for(&m, 3, &["STRANGER=1"])
        .iter()
        .map(|entry| text(entry, "MESSAGE").to_owned())
        .collect();
    assert_eq!(texts, ["first", "second", "third"]);
}
