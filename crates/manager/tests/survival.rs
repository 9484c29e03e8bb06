//! SIGKILL to the manager and the exec helpers at random instants, while everything that it manages is on the move.
//!
//! What must hold afterwards is what an undisturbed run gives: services that nobody touched run on
//! with the same processes, sockets are the same sockets, every exit was seen, every job came to
//! its end, nothing ran twice and nothing was left out.
//!
//! The same where exec helpers are killed, alone or with it. Where also processes are killed that are
//! not their program yet, no process is left over that nobody knows of, no job hangs, and what ran
//! runs on.
//!
//! All the while helpers, processes that are not their program yet, the manager and process 1 are held
//! up for moments ([`lab::lateness`]).
//!
//! `WARREN_KILL_SECONDS` (default 20; 8 with the helpers) says for how long, `WARREN_KILLS` how often at most (0: an
//! undisturbed run); `WARREN_SEED` makes the dice fall the same again.

mod lab;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lab::lateness::hold_up;
use lab::{Ended, Machine, PATIENCE, pause, until};
use serde_json::json;
use warren_testkit::{Dice, seed, variable};

const STEADY: usize = 12;
const LANES: usize = 3;

fn units() -> Vec<(String, String)> {
    let mut units = Vec::new();
    let mut add = |name: String, text: &str| {
        // Everything is started far more often than in a day of a real machine.
        let text = match text.split_once("[Unit]\n") {
            Some((_, rest)) => format!("[Unit]\nStartLimitIntervalSec=0\n{rest}"),
            None => format!("[Unit]\nStartLimitIntervalSec=0\n{text}"),
        };
        units.push((name, text));
    };
    for n in 0..STEADY {
        let kind = ["Type=simple", "Type=notify", "Type=exec"][n % 3];
        add(format!("steady-{n}.service"), &format!("[Service]\n{kind}\nExecStart=@P ready stay"));
    }
    add(
        "watched.service".into(),
        "[Service]\nType=notify\nWatchdogSec=4\nExecStart=@P ready watchdog:100000:100",
    );
    for n in 0..LANES {
        let out = |what: &str| format!("@D/out/{what}-{n}");
        add(
            format!("once-{n}.service"),
            &format!("[Service]\nType=oneshot\nExecStart=@P append:{}:run", out("once")),
        );
        add(
            format!("code-{n}.service"),
            &format!("[Service]\nType=oneshot\nExecStart=@P append:{}:run exit:7", out("code")),
        );
        add(
            format!("daemon-{n}.service"),
            &format!(
                "[Service]\nType=notify\nExecStartPre=@P append:{0}:pre\nExecStart=@P wait:3 append:{0}:main ready stay\n\
                 ExecStop=@P append:{0}:stop\nExecStopPost=@P append:{0}:post",
                out("daemon")
            ),
        );
        add(
            format!("forks-{n}.service"),
            &format!(
                "[Service]\nType=forking\nPIDFile=/run/forks-{n}.pid\nExecStart=@P fork:/run/forks-{n}.pid stay"
            ),
        );
        add(
            format!("mixed-{n}.service"),
            "[Service]\nKillMode=mixed\nTimeoutStopSec=30\nExecStart=@P stay",
        );
        add(
            format!("run-m{n}.mount"),
            &format!(
                "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/m{n}"
            ),
        );
    }
    add(
        "crash.service".into(),
        "[Service]\nRestart=always\nRestartSec=30ms\n\
         ExecStart=@P append:@D/out/crash:run wait:20 die:9",
    );
    add("talk.socket".into(), "[Socket]\nListenStream=/run/talk\nTriggerLimitIntervalSec=0");
    add("talk.service".into(), "[Service]\nExecStart=@P serve");
    add(
        "each.socket".into(),
        "[Socket]\nListenStream=/run/each\nAccept=yes\nMaxConnections=1000\nTriggerLimitIntervalSec=0",
    );
    add("each@.service".into(), "[Service]\nExecStart=@P answer");
    add("idle.socket".into(), "[Socket]\nListenStream=/run/idle");
    add("idle.service".into(), "[Service]\nExecStart=@P serve");
    add(
        "run-trap.automount".into(),
        "[Unit]\nDefaultDependencies=no\n[Automount]\nWhere=/run/trap",
    );
    add(
        "run-trap.mount".into(),
        "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/trap",
    );
    units
}

/// Starts and stops of one lane, until told to end.
#[derive(Default, Debug)]
struct Tally {
    /// Starts that the manager said something about, by unit.
    answered: BTreeMap<&'static str, usize>,
    /// Starts of which nothing was heard again.
    unknown: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn ask(&mut self, m: &Machine, kind: &str, stem: &'static str, lane: usize, wanted: &str) {
        let unit = match stem {
            "run-m" => format!("run-m{lane}.mount"),
            stem => format!("{stem}-{lane}.service"),
        };
        let what = if kind == "stop" { "" } else { stem };
        match m.job(kind, &unit) {
            Ended::Unknown => *self.unknown.entry(what).or_default() += 1,
            Ended::Said(result) => {
                assert_eq!(result, wanted, "{kind} {unit}: {}", m.status(&unit));
                *self.answered.entry(what).or_default() += 1;
            }
            Ended::Refused(why) => panic!("{kind} {unit}: {why}"),
        }
    }
}

fn lane(m: &Machine, lane: usize, ends: &AtomicBool, seed: u64) -> Tally {
    let (mut tally, mut dice) = (Tally::default(), Dice(seed));
    while !ends.load(Ordering::Relaxed) {
        match dice.roll(8) {
            0 | 1 => tally.ask(m, "start", "once", lane, "done"),
            2 => tally.ask(m, "start", "code", lane, "failed"),
            3 => {
                tally.ask(m, "start", "daemon", lane, "done");
                tally.ask(m, "stop", "daemon", lane, "done");
            }
            4 => tally.ask(m, "restart", "forks", lane, "done"),
            5 => {
                tally.ask(m, "start", "mixed", lane, "done");
                tally.ask(m, "stop", "mixed", lane, "done");
            }
            6 => {
                tally.ask(m, "start", "run-m", lane, "done");
                tally.ask(m, "stop", "run-m", lane, "done");
            }
            _ => {
                let _ = m.try_call("ReloadConfiguration", &json!({}));
            }
        }
    }
    tally
}

/// Connections that must all be answered.
fn connections(m: &Machine, ends: &AtomicBool, path: &str, cut: &AtomicUsize) -> usize {
    let mut count = 0;
    while !ends.load(Ordering::Relaxed) {
        let mut text = String::new();
        let mut stream = UnixStream::connect(m.inside(path)).expect("the socket is always there");
        stream.set_read_timeout(Some(lab::PATIENCE)).expect("setsockopt");
        match stream.read_to_string(&mut text) {
            Ok(_) if text.trim().parse::<u32>().is_ok() => count += 1,
            other => {
                cut.fetch_add(1, Ordering::Relaxed);
                eprintln!("{path}: no answer: {other:?} {text:?}");
            }
        }
        if path == "/run/talk" {
            // One that goes on after a kill would meet the next connection.
            while m.job("stop", "talk.service") == Ended::Unknown {}
        }
    }
    count
}

/// Walks into the trap over and over.
fn walker(m: &Machine, ends: &AtomicBool) -> usize {
    let mut count = 0;
    while !ends.load(Ordering::Relaxed) {
        let walk = m.run(&["stat", "--format=%n", "/run/trap/."]);
        assert_eq!(walk.as_deref(), Ok("/run/trap/.\n"), "walk {count} into the trap");
        count += 1;
        while m.job("stop", "run-trap.mount") == Ended::Unknown {}
    }
    count
}

fn killer(m: &Machine, ends: &AtomicBool, seed: u64) -> usize {
    let (mut kills, mut dice) = (0, Dice(seed));
    let end = Instant::now() + Duration::from_secs(variable("WARREN_KILL_SECONDS", 20));
    let most = variable("WARREN_KILLS", u64::MAX) as usize;
    while Instant::now() < end {
        // Sometimes before it is up again, mostly in the middle of its work: on a busy machine one
        // that is never let to begin would never get anything done.
        let early = dice.roll(4) == 0;
        if !early {
            m.wait_until_it_listens();
        }
        pause(Duration::from_micros(dice.roll(if early { 30_000 } else { 200_000 })));
        if kills >= most {
            continue;
        }
        let [helper, manager] =
            [[true, false], [true, true], [false, true]][dice.roll(4).min(2) as usize];
        if helper {
            kills += usize::from(kill_a_helper(m, dice.roll(64) as usize));
        }
        kills += usize::from(manager && m.kill_manager());
    }
    ends.store(true, Ordering::Relaxed);
    kills
}

/// Kills one of the helpers; false if none is there.
fn kill_a_helper(m: &Machine, which: usize) -> bool {
    let helpers = m.helper_pids();
    let helper = helpers.get(which % helpers.len().max(1));
    helper.is_some_and(|&pid| warren_sys::process::kill(pid, 9).is_ok())
}

#[test]
fn nothing_is_lost_when_manager_and_helpers_are_killed_at_any_instant() {
    let units = units();
    let units: Vec<(&str, &str)> = units.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let Some(m) = Machine::start("survival", &units) else { return };
    let seed = seed();
    let steady: Vec<String> = (0..STEADY).map(|n| format!("steady-{n}.service")).collect();
    for unit in steady.iter().map(String::as_str).chain([
        "watched.service",
        "crash.service",
        "talk.socket",
        "each.socket",
        "idle.socket",
        "run-trap.automount",
    ]) {
        m.expect_job("start", unit, "done");
    }
    let pids: Vec<_> = steady.iter().map(|unit| m.main_pid(unit)).collect();
    let inode = |path: &str| std::fs::metadata(m.inside(path)).expect("the socket").ino();
    let inodes = [inode("/run/talk"), inode("/run/each"), inode("/run/idle")];

    let (ends, cut) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (tallies, served, walks, kills, late) = std::thread::scope(|scope| {
        let (m, ends, cut) = (&m, &ends, &cut);
        let lanes: Vec<_> =
            (0..LANES).map(|n| scope.spawn(move || lane(m, n, ends, seed + n as u64))).collect();
        let talk = scope.spawn(move || connections(m, ends, "/run/talk", cut));
        let each = scope.spawn(move || connections(m, ends, "/run/each", cut));
        let walks = scope.spawn(move || walker(m, ends));
        let late = scope.spawn(move || hold_up(m, ends, !seed));
        let kills = killer(m, ends, seed);
        let tallies: Vec<Tally> =
            lanes.into_iter().map(|t| t.join().expect("a lane is well")).collect();
        let served = [talk, each].map(|t| t.join().expect("connections are answered"));
        let late = late.join().expect("processes can be held up");
        (tallies, served, walks.join().expect("the trap works"), kills, late)
    });
    println!("{kills} kills, {late} held up, {served:?} connections, {walks} walks, {tallies:?}");

    assert_eq!(cut.load(Ordering::Relaxed), 0, "connections without an answer");
    until("all jobs end", || (m.totals()["jobs"] == 0).then_some(()));
    for (unit, pid) in steady.iter().zip(&pids) {
        assert_eq!(m.state(unit), "active/running", "{unit}");
        assert_eq!((m.main_pid(unit), &m.status(unit)["restarts"]), (*pid, &json!(0)), "{unit}");
    }
    assert_eq!(m.state("watched.service"), "active/running", "{}", m.status("watched.service"));
    assert_eq!([inode("/run/talk"), inode("/run/each"), inode("/run/idle")], inodes);
    assert_eq!(m.state("idle.socket"), "active/listening");
    assert_eq!(m.state("run-trap.automount"), "active/waiting");
    for (n, tally) in tallies.iter().enumerate() {
        check_runs(&m, n, tally);
    }
    check_restarts(&m);
    m.expect_job("start", "idle.service", "done");
}

/// A main process that its PID file names is a child of init, and the manager has no pidfd of it. Two
/// seconds after it came back it looks for processes that were gone by then: not among those that it
/// learned of since.
#[test]
fn what_forks_just_after_the_manager_came_back_runs_on() {
    let forks = "[Service]\nType=forking\nPIDFile=@D/out/pid\n\
                 ExecStart=/bin/sh -c 'sleep 1000 & echo $$! >@D/out/pid'";
    // Given up by the manager after those two seconds.
    let late = "[Service]\nType=oneshot\nTimeoutStartSec=3\nExecStart=@P stay";
    let units = [("forks.service", forks), ("late.service", late)];
    let Some(m) = Machine::start("forks", &units) else { return };
    assert!(m.kill_manager());
    m.call_while_up("Totals", &json!({}));
    m.expect_job("start", "forks.service", "done");
    m.expect_job("start", "late.service", "failed");
    assert_eq!(m.state("forks.service"), "active/running");
}

/// Starts and stops of one lane, whatever becomes of them.
fn careless_lane(m: &Machine, lane: usize, ends: &AtomicBool, seed: u64) {
    let mut dice = Dice(seed);
    while !ends.load(Ordering::Relaxed) {
        let stem = ["daemon", "forks", "mixed", "once"][dice.roll(4) as usize];
        let kind = ["start", "stop", "restart"][dice.roll(3) as usize];
        let _ = m.job(kind, &format!("{stem}-{lane}.service"));
    }
}

fn killer_of_both(m: &Machine, ends: &AtomicBool, seed: u64) -> usize {
    let (mut kills, mut dice) = (0, Dice(seed));
    let end = Instant::now() + Duration::from_secs(variable("WARREN_KILL_SECONDS", 8));
    while Instant::now() < end {
        m.wait_until_it_listens();
        pause(Duration::from_micros(dice.roll(200_000)));
        let manager_first = dice.roll(2) == 0;
        kills += usize::from(manager_first && m.kill_manager());
        for helper in m.helper_pids() {
            let _ = warren_sys::process::kill(helper, 9);
        }
        kills += usize::from(!manager_first && m.kill_manager());
    }
    ends.store(true, Ordering::Relaxed);
    kills
}

#[test]
fn nobody_is_left_over_when_helpers_are_killed_with_the_manager() {
    let units = units();
    let units: Vec<(&str, &str)> = units.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let Some(m) = Machine::start("survival-helpers", &units) else { return };
    let seed = seed();
    let steady: Vec<String> = (0..STEADY).map(|n| format!("steady-{n}.service")).collect();
    steady.iter().for_each(|unit| m.expect_job("start", unit, "done"));
    let mut pids: Vec<u64> = steady.iter().filter_map(|unit| m.main_pid(unit)).collect();
    pids.sort_unstable();
    // A simple service is up before its process has become its program.
    until("all are players", || (m.players() == pids).then_some(()));

    let ends = AtomicBool::new(false);
    let (kills, late) = std::thread::scope(|scope| {
        for n in 0..LANES {
            let (m, ends) = (&m, &ends);
            scope.spawn(move || careless_lane(m, n, ends, seed + n as u64));
        }
        let late = scope.spawn(|| hold_up(&m, &ends, !seed));
        let kills = killer_of_both(&m, &ends, seed);
        (kills, late.join().expect("processes can be held up"))
    });
    println!("{kills} kills, {late} held up");

    until("all jobs end", || (m.totals()["jobs"] == 0).then_some(()));
    for n in 0..LANES {
        for stem in ["daemon", "forks", "mixed", "once"] {
            let unit = format!("{stem}-{n}.service");
            m.expect_job("stop", &unit, "done");
            let state = m.state(&unit);
            assert!(
                ["inactive/dead", "failed/failed"].contains(&state.as_str()),
                "{unit}: {state}"
            );
        }
    }
    until("nobody else is left", || (m.players() == pids).then_some(()));
    // Helpers and manager are as good as new.
    m.expect_job("start", "once-0.service", "done");
}

/// Every start that was answered ran once; one that was not may have run.
fn check_runs(m: &Machine, lane: usize, tally: &Tally) {
    for stem in ["once", "code"] {
        let runs = m.lines(&format!("{stem}-{lane}")).len();
        let least = tally.answered.get(stem).copied().unwrap_or(0);
        let most = least + tally.unknown.get(stem).copied().unwrap_or(0);
        assert!((least..=most).contains(&runs), "{stem}-{lane}: {least} <= {runs} <= {most}");
    }
    let unit = format!("code-{lane}.service");
    if !m.lines(&format!("code-{lane}")).is_empty() {
        assert_eq!(m.state(&unit), "failed/failed");
        assert_eq!(m.status(&unit)["result"], "exit-code", "{unit}");
    }
    let asked = |tally: &BTreeMap<&str, usize>| tally.get("daemon").copied().unwrap_or(0);
    let most = asked(&tally.answered) + asked(&tally.unknown);
    check_daemon_runs(&m.lines(&format!("daemon-{lane}")), most);
}

/// Each start makes one run at most, and each run ends with `ExecStopPost=`, but for the last, which
/// may go on. A stop can overtake a start of which nothing was heard again, even before the first
/// command has written its line; each command runs once at most, in order.
fn check_daemon_runs(lines: &[String], most: usize) {
    let runs: Vec<&[String]> = lines.split(|line| line == "post").collect();
    let whole: [&[&str]; 4] = [&["pre", "main", "stop"], &["pre", "main"], &["pre"], &[]];
    for run in &runs {
        let run: Vec<&str> = run.iter().map(String::as_str).collect();
        assert!(whole.contains(&run.as_slice()), "{run:?} of {lines:?}");
    }
    let count = runs.len() - usize::from(lines.last().is_none_or(|line| line == "post"));
    assert!(count <= most, "{count} runs of {most} starts: {lines:?}");
}

/// Every crash was followed by one restart, and each was counted.
fn check_restarts(m: &Machine) {
    let _ = m.job("stop", "crash.service");
    // It may have died by itself just before it was stopped.
    until("it rests", || {
        ["inactive/dead", "failed/failed"]
            .contains(&m.state("crash.service").as_str())
            .then_some(())
    });
    let runs = m.lines("crash").len() as u64;
    let restarts = m.status("crash.service")["restarts"].as_u64().unwrap_or(0);
    assert!(runs == restarts + 1 || runs == restarts, "{runs} runs, {restarts} restarts");
}

/// Clients that come while there is no manager are served by the next one: nobody is refused.
#[test]
fn who_comes_while_there_is_no_manager_is_served_by_the_next() {
    let Some(m) = Machine::start("doors", &[("a.service", "[Service]\nExecStart=@P stay")]) else {
        return;
    };
    m.expect_job("start", "a.service", "done");
    let warren = lab::program_of("warren-cli", "warren");
    let has_systemctl = lab::has_systemctl("who_comes_while_there_is_no_manager");
    // Who comes before it has let go of its connections is one of them.
    let end_manager = || {
        let pid = until("a manager is there", || m.manager_pid());
        let pidfd = warren_sys::process::pidfd_open(pid).expect("it is there");
        warren_sys::process::pidfd_signal(pidfd.as_fd(), 9).expect("it is ours");
        let is_gone = warren_sys::fdpass::wait_readable(pidfd.as_fd(), PATIENCE);
        assert!(is_gone.expect("it can be waited for"));
    };
    for _ in 0..2 {
        end_manager();
        let said = m.run(&[&warren, "status", "a.service"]).expect("nobody is turned away");
        assert!(said.contains("active (running)"), "{said}");
        end_manager();
        if has_systemctl {
            let said = m.run(&["systemctl", "is-active", "a"]).expect("nobody is turned away");
            assert_eq!(said, "active\n");
        }
    }
}

/// What init keeps for a unit is the unit's own, also when its name leads to another one by then.
#[test]
fn what_is_kept_for_a_unit_is_not_taken_up_by_who_has_its_name() {
    use std::os::unix::fs::symlink;
    let service = "[Service]\nType=notify\nSlice=-.slice\nFileDescriptorStoreMax=2\n\
                   ExecStart=@P fds:@D/out/fds store:kept ready stay";
    let units = [
        ("a.socket", "[Socket]\nListenStream=/run/a"),
        ("a.service", "[Service]\nExecStart=@P serve"),
        ("c.service", service),
    ];
    let Some(m) = Machine::start("renamed", &units) else { return };
    m.expect_job("start", "a.socket", "done");
    m.expect_job("start", "c.service", "done");
    m.write("b.socket", "[Socket]\nListenStream=/run/a\nService=a.service");
    m.write("d.service", service);
    for (alias, unit) in [("a.socket", "b.socket"), ("c.service", "d.service")] {
        let link = m.directory.join("units").join(alias);
        std::fs::remove_file(&link).expect("it is there");
        symlink(unit, link).expect("a link");
    }
    m.call("ReloadConfiguration", &json!({}));
    assert_eq!(m.state("b.socket"), "inactive/dead");
    for _ in 0..2 {
        assert!(m.kill_manager());
        let mut stream = UnixStream::connect(m.inside("/run/a")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
        let mut pid = String::new();
        stream.read_to_string(&mut pid).expect("it is served");
        // It may be served before the manager hears that its server is there.
        let server = until("the server is known", || m.main_pid("a.service"));
        assert_eq!(pid.trim().parse(), Ok(server));
        m.expect_job("stop", "a.service", "done");
    }
    m.expect_job("start", "d.service", "done");
    assert_eq!(m.lines("fds"), ["(unset)", "(unset)"]);
}

/// systemd.service(5), `FileDescriptorStoreMax=`: kept until the service is fully stopped and has no job.
#[test]
fn what_a_service_stored_stays_for_a_start_that_waits_and_goes_when_none_comes() {
    let service = "[Unit]\nConditionPathExists=!/run/never\n\
                   [Service]\nType=notify\nFileDescriptorStoreMax=1\nTimeoutStopSec=infinity\n\
                   ExecStart=@P fds:@D/out/fds store:kept ready stay\n\
                   ExecStop=/bin/sh -c 'test ! -p /run/gate || read line < /run/gate'";
    let Some(m) = Machine::start("kept-for-start", &[("s.service", service)]) else { return };
    let ask =
        |kind: &str| m.call("Job", &json!({"type": kind, "unit": "s.service", "wait": false}));
    let sh = |text: &str| m.run(&["sh", "-c", text]).expect("it can be done");
    let told = || m.lines("fds").pop().expect("it ran");
    m.expect_job("start", "s.service", "done");
    for kills in [false, true] {
        assert_eq!(told(), "(unset)");
        sh("mkfifo /run/gate");
        ask("stop");
        m.wait_for("s.service", "deactivating/stop");
        ask("start");
        assert!(!kills || m.kill_manager());
        sh("echo > /run/gate; rm /run/gate");
        m.wait_for("s.service", "active/running");
        assert_eq!(told(), "kept", "a start waited for the stop");
        sh("touch /run/never");
        m.expect_job("restart", "s.service", "done");
        m.wait_for("s.service", "inactive/dead");
        assert!(!kills || m.kill_manager());
        sh("rm /run/never");
        m.expect_job("start", "s.service", "done");
        assert_eq!(told(), "(unset)", "a restart whose condition was not met");
    }
}
