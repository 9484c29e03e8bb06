//! Programs on file systems that do not answer: whoever waits for one waits alone.
//!
//! A program behind an automount whose mount waits for somebody to write to a fifo keeps the process
//! that is to become it, and the exec helper that made it, for as long as the test wants.

mod lab;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use warren_sys::signal::{SIGCONT, SIGKILL, SIGSTOP};

use lab::{Ended, Machine, until};
use serde_json::json;

/// More than there are helpers.
const CROWD: usize = 7;

/// What belongs to `held-N.service`: a program behind an automount that waits for /run/gate-N.
fn gated(n: usize, kind: &str, program: &str) -> [(String, String); 4] {
    let player = PathBuf::from(lab::player());
    let (directory, name) = (player.parent().expect("a path"), player.file_name().expect("one"));
    let program = program.replace("PLAYER", &name.to_string_lossy());
    let early = "[Unit]\nDefaultDependencies=no\n";
    [
        (
            format!("run-trap{n}.automount"),
            format!("{early}Before=held-{n}.service\n[Automount]\nWhere=/run/trap{n}"),
        ),
        (
            format!("run-trap{n}.mount"),
            format!(
                "{early}Requires=gate-{n}.service\nAfter=gate-{n}.service\n[Mount]\nWhat={}\n\
                 Type=none\nOptions=bind\nWhere=/run/trap{n}",
                directory.display()
            ),
        ),
        (
            format!("gate-{n}.service"),
            format!("[Service]\nType=oneshot\nExecStart=/bin/sh -c 'read x < /run/gate-{n}'"),
        ),
        (
            format!("held-{n}.service"),
            format!(
                "[Unit]\nRequires=run-trap{n}.automount\n[Service]\nType={kind}\n\
                 ExecStart=/run/trap{n}/{program}"
            ),
        ),
    ]
}

/// A machine with so many of them, and `plain.service`, which needs nothing.
fn machine(name: &str, count: usize, program: &str) -> Option<Machine> {
    let mut units = vec![("plain.service".to_owned(), "[Service]\nExecStart=@P stay".to_owned())];
    for n in 0..count {
        units.extend(gated(n, ["exec", "simple"][n % 2], program));
    }
    let units: Vec<(&str, &str)> = units.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let m = Machine::start(name, &units)?;
    for n in 0..count {
        m.run(&["mkfifo", &format!("/run/gate-{n}")]).expect("mkfifo(1)");
        m.expect_job("start", &format!("run-trap{n}.automount"), "done");
    }
    Some(m)
}

fn open_gate(m: &Machine, n: usize) {
    m.run(&["sh", "-c", &format!("echo > /run/gate-{n}")]).expect("somebody reads it");
}

fn wait_until_held(m: &Machine, n: usize) {
    until("its mount is waited for", || {
        (m.state(&format!("gate-{n}.service")) == "activating/start").then_some(())
    });
}

/// Processes of services that are not their program yet, when all helpers are there.
fn unborn(m: &Machine) -> Vec<i32> {
    m.all_helpers();
    m.unborn_pids()
}

#[test]
fn others_start_while_more_wait_than_there_are_helpers() {
    let Some(m) = machine("held-crowd", CROWD, "PLAYER stay") else { return };
    assert!(m.all_helpers().len() < CROWD);
    std::thread::scope(|scope| {
        let starts: Vec<_> = (0..CROWD)
            .map(|n| {
                let m = &m;
                scope.spawn(move || m.job("start", &format!("held-{n}.service")))
            })
            .collect();
        (0..CROWD).for_each(|n| wait_until_held(&m, n));
        m.expect_job("start", "plain.service", "done");
        m.expect_job("restart", "plain.service", "done");
        until("all are made", || (unborn(&m).len() == CROWD).then_some(()));
        (0..CROWD)
            .for_each(|n| assert_eq!(m.state(&format!("held-{n}.service")), "activating/start"));
        (0..CROWD).for_each(|n| open_gate(&m, n));
        for start in starts {
            assert_eq!(start.join().expect("no panic"), Ended::Said("done".to_owned()));
        }
    });
    let mut mains: Vec<u64> = (0..CROWD)
        .filter_map(|n| m.main_pid(&format!("held-{n}.service")))
        .chain(m.main_pid("plain.service"))
        .collect();
    mains.sort_unstable();
    assert_eq!(mains.len(), CROWD + 1);
    until("each was made once", || (m.players() == mains).then_some(()));
    assert!(unborn(&m).is_empty());
}

#[test]
fn one_that_waits_can_be_stopped_and_started_again() {
    let Some(m) = machine("held-stop", CROWD, "PLAYER stay") else { return };
    std::thread::scope(|scope| {
        for n in 0..CROWD {
            let m = &m;
            scope.spawn(move || m.job("start", &format!("held-{n}.service")));
        }
        (0..CROWD).for_each(|n| wait_until_held(&m, n));
        m.expect_job("start", "plain.service", "done");
        for n in 0..CROWD {
            m.expect_job("stop", &format!("held-{n}.service"), "done");
        }
    });
    until("nobody is being made", || unborn(&m).is_empty().then_some(()));
    let plain: Vec<u64> = m.main_pid("plain.service").into_iter().collect();
    until("the others are gone", || (m.players() == plain).then_some(()));
    open_gate(&m, 0);
    m.expect_job("start", "held-0.service", "done");
    until("both run", || (m.players().len() == 2).then_some(()));
}

#[test]
fn what_is_not_there_when_the_file_system_answers_fails() {
    let Some(m) = machine("held-missing", CROWD, "nothing") else { return };
    std::thread::scope(|scope| {
        for n in 0..CROWD {
            let m = &m;
            scope.spawn(move || m.job("start", &format!("held-{n}.service")));
        }
        (0..CROWD).for_each(|n| wait_until_held(&m, n));
        m.expect_job("start", "plain.service", "done");
        (0..CROWD).for_each(|n| open_gate(&m, n));
    });
    for n in 0..CROWD {
        m.wait_for(&format!("held-{n}.service"), "failed/failed");
    }
}

/// Starts `held-0.service`, and has this done when its process is made and nobody was told of it.
fn while_held(m: &Machine, what: impl FnOnce(i32)) {
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(m.job("start", "held-0.service"), Ended::Unknown));
        // Not that of the gate, which becomes its program soon.
        let is_its = |pid: &i32| {
            let path = warren_sys::process::cgroup_path(*pid);
            path.is_ok_and(|path| path.ends_with("/held-0.service"))
        };
        let untold = until("a process is made", || m.unborn_pids().into_iter().find(is_its));
        wait_until_held(m, 0);
        what(untold);
    });
    m.wait_until_it_listens();
    open_gate(m, 0);
    m.wait_for("held-0.service", "active/running");
    let main: Vec<u64> = m.main_pid("held-0.service").into_iter().collect();
    until("nobody else is left", || (m.players() == main).then_some(()));
}

#[test]
fn a_process_that_nobody_was_told_of_is_not_made_again() {
    let Some(m) = machine("held-untold", 1, "PLAYER stay") else { return };
    let helpers = m.all_helpers();
    let mut made = None;
    while_held(&m, |untold| {
        made = lab::pid_inside(untold);
        m.kill_manager();
        for helper in &helpers {
            warren_sys::process::kill(*helper, SIGKILL).expect("our own");
        }
    });
    assert_eq!(m.main_pid("held-0.service"), made);
}

/// What the helper waits for is done by the manager, which waits for the helper.
#[test]
fn a_helper_that_is_held_up_does_not_hold_up_the_next_manager() {
    let Some(m) = machine("held-manager", 1, "PLAYER stay") else { return };
    let mut made = None;
    while_held(&m, |untold| {
        made = lab::pid_inside(untold);
        let before = m.manager_pid();
        m.kill_manager();
        until("another manager answers", || {
            (m.manager_pid() != before && m.try_call("Status", &json!({})).is_some()).then_some(())
        });
    });
    assert_eq!(m.main_pid("held-0.service"), made, "it is not made twice");
}

/// Helpers that are killed while they wait leave what they made to itself.
#[test]
fn a_helper_that_is_killed_while_it_waits_takes_nothing_with_it() {
    let Some(m) = machine("held-killed", 2, "PLAYER stay") else { return };
    std::thread::scope(|scope| {
        let starts: Vec<_> = (0..2)
            .map(|n| {
                let m = &m;
                scope.spawn(move || m.job("start", &format!("held-{n}.service")))
            })
            .collect();
        (0..2).for_each(|n| wait_until_held(&m, n));
        let made = until("nobody else is being made", || {
            let made = unborn(&m);
            (made.len() == 2).then_some(made)
        });
        for pid in m.helper_pids() {
            warren_sys::process::kill(pid, SIGKILL).expect("our own");
        }
        m.expect_job("start", "plain.service", "done");
        let still = unborn(&m);
        assert!(made.iter().all(|pid| still.contains(pid)), "{made:?} of {still:?}");
        (0..2).for_each(|n| open_gate(&m, n));
        for start in starts {
            assert_eq!(start.join().expect("no panic"), Ended::Said("done".to_owned()));
        }
    });
    until("all run", || (m.players().len() == 3).then_some(()));
}

/// Helpers that stand still, until they are killed.
struct Stopped(Vec<i32>);

impl Stopped {
    fn new(helpers: Vec<i32>) -> Stopped {
        let stop = |&pid: &i32| warren_sys::process::kill(pid, SIGSTOP).expect("our own");
        helpers.iter().for_each(stop);
        Stopped(helpers)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &pid in &self.0 {
            let _ = warren_sys::process::kill(pid, SIGKILL);
        }
    }
}

/// Starts `once.service` with helpers that make its process and are killed before they can say so,
/// when `happened` is true of that process.
fn killed_before_it_tells(
    name: &str,
    service: &str,
    result: &str,
    happened: impl Fn(&Machine, i32) -> bool,
) -> Option<Machine> {
    let service = format!("[Service]\nStandardInput=file:/run/gate\n{service}");
    let m = Machine::start(name, &[("once.service", &service)])?;
    m.run(&["mkfifo", "/run/gate"]).expect("mkfifo(1)");
    std::thread::scope(|scope| {
        let start = scope.spawn(|| m.job("start", "once.service"));
        let (helpers, made) =
            until("a process is made", || Some((m.all_helpers(), *m.unborn_pids().first()?)));
        // The one that waits for its process stops when it has no more to wait for.
        let stopped = Stopped::new(helpers);
        m.run(&["sh", "-c", ": > /run/gate"]).expect("somebody reads it");
        until("it has come so far", || happened(&m, made).then_some(()));
        assert_eq!(m.state("once.service"), "activating/start");
        drop(stopped);
        assert_eq!(start.join().expect("no panic"), Ended::Said(result.to_owned()));
    });
    assert_eq!(m.lines("once"), ["run"]);
    Some(m)
}

#[test]
fn what_a_helper_could_not_tell_of_is_not_run_again() {
    let service = "Type=exec\nExecStart=@P append:@D/out/once:run stay";
    let runs = |m: &Machine, _| m.lines("once") == ["run"];
    let Some(m) = killed_before_it_tells("held-quiet", service, "done", runs) else { return };
    assert_eq!(m.state("once.service"), "active/running");
    assert_eq!(m.players(), m.main_pid("once.service").into_iter().collect::<Vec<u64>>());
    m.expect_job("stop", "once.service", "done");
}

#[test]
fn the_end_of_what_a_helper_could_not_tell_of_is_heard() {
    let service = "Type=oneshot\nExecStart=@P append:@D/out/once:run exit:7";
    let is_gone = |_: &Machine, pid| warren_sys::process::kill(pid, 0).is_err();
    let Some(m) = killed_before_it_tells("held-ended", service, "failed", is_gone) else { return };
    assert_eq!(m.status("once.service")["result"], "exit-code");
}

/// Several at once, to a manager that comes when all of it has happened: what is known of one is no reason to
/// forget the end of another.
#[test]
fn the_ends_of_all_that_helpers_could_not_tell_of_are_heard() {
    const SERVICES: usize = 2;
    let name = |n: usize| format!("once{n}.service");
    let units: Vec<(String, String)> = (0..SERVICES)
        .map(|n| {
            let gate = format!("StandardInput=file:/run/gate-{n}");
            (name(n), format!("[Service]\nType=oneshot\n{gate}\nExecStart=@P exit:7"))
        })
        .collect();
    let units: Vec<(&str, &str)> = units.iter().map(|(n, text)| (&**n, &**text)).collect();
    let Some(m) = Machine::start("held-ends", &units) else { return };
    if m.all_helpers().len() < SERVICES {
        return lab::not_run("held-ends", "a second processor");
    }
    (0..SERVICES)
        .for_each(|n| _ = m.run(&["mkfifo", &format!("/run/gate-{n}")]).expect("mkfifo(1)"));
    for n in 0..SERVICES {
        m.call("Job", &json!({"type": "start", "unit": name(n), "wait": false}));
    }
    let made = until("their processes are made", || {
        let made = m.unborn_pids();
        (made.len() == SERVICES).then_some(made)
    });
    let stopped = Stopped::new(m.all_helpers());
    for n in 0..SERVICES {
        m.run(&["sh", "-c", &format!(": > /run/gate-{n}")]).expect("somebody reads it");
    }
    let is_gone = |&pid: &i32| warren_sys::process::kill(pid, 0).is_err();
    until("they have ended", || made.iter().all(is_gone).then_some(()));
    assert!(m.kill_manager());
    (0..SERVICES).for_each(|n| m.wait_for(&name(n), "failed/failed"));
    for n in 0..SERVICES {
        assert_eq!(m.status(&name(n))["result"], "exit-code", "{}", m.status(&name(n)));
    }
    drop(stopped);
}

/// A condition that asks a server which does not answer holds up its own unit alone. Not even SIGKILL ends
/// the thread that asks, so the manager may stay when it is killed: another one takes its place.
#[test]
fn a_condition_that_is_never_answered_holds_up_its_unit_alone() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-conditions", "/dev/fuse");
    }
    // More than there are threads that look, and all asked for at once.
    const ASKING: usize = 4;
    let asks = "[Unit]\nConditionPathExists=/run/files/never\n[Service]\nExecStart=@P stay";
    let asking: Vec<String> = (0..ASKING).map(|n| format!("asks{n}.service")).collect();
    let wants = format!("[Unit]\nWants={} plain.service", asking.join(" "));
    let plain = "[Unit]\nConditionPathExists=/run\n[Service]\nExecStart=@P stay";
    let mut units = vec![
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("plain.service", plain),
        ("all.target", &*wants),
    ];
    units.extend(asking.iter().map(|name| (&**name, asks)));
    let Some(m) = Machine::start("held-conditions", &units) else { return };
    m.expect_job("start", "server.service", "done");
    m.call("Job", &json!({"type": "start", "unit": "all.target", "wait": false}));
    m.wait_for("plain.service", "active/running");
    m.expect_job("restart", "plain.service", "done");
    let waits = |unit: &String| m.status(unit)["job"]["type"] == "start";
    assert!(asking.iter().all(waits), "{}", m.status(&asking[0]));
    let why = m.call("Why", &json!({"unit": asking[0]}));
    let path = &why["units"][0]["path"];
    assert_eq!(path[0]["under_way"]["server"], "/run/files (fuse of files)", "{why}");
    assert_eq!(path.as_array().map(Vec::len), Some(1), "{why}");
    assert!(m.kill_manager());
    // Who asks the one that was killed may wait for as long as it stays.
    until("another takes its place", || m.console().contains("taking over from").then_some(()));
    m.wait_until_it_listens();
    m.expect_job("restart", "plain.service", "done");
    assert!(asking.iter().all(waits), "{}", m.status(&asking[0]));
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.run(&["kill", "-KILL", &server]).expect("it can be killed");
    let is_answered = |unit: &String| m.status(unit)["reason"]["code"] == "WR-0030";
    until("all are answered", || asking.iter().all(is_answered).then_some(()));
}

/// Who asks why a unit was skipped is told what was not met then, and keeps nothing open that the manager's
/// end waits for.
#[test]
fn a_condition_that_is_never_answered_holds_up_no_client_who_asks_for_it() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-why", "/dev/fuse");
    }
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        (
            "skipped.service",
            "[Unit]\nConditionPathExists=/run/files/never\n[Service]\nExecStart=@P stay",
        ),
        ("plain.service", "[Unit]\nConditionPathExists=/nope\n[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("held-why", &units) else { return };
    m.expect_job("start", "skipped.service", "done");
    m.expect_job("start", "plain.service", "done");
    let why = |unit: &str| {
        let step = m.call("Why", &json!({"unit": unit}))["units"][0]["path"][0].clone();
        (step["unmet"].clone(), step["unmet_then"].clone())
    };
    let words = json!(["ConditionPathExists=/run/files/never"]);
    assert_eq!(why("skipped.service"), (words.clone(), words.clone()));
    m.expect_job("start", "server.service", "done");
    for _ in 0..2 {
        assert_eq!(why("skipped.service"), (serde_json::Value::Null, words.clone()));
    }
    let words = json!(["ConditionPathExists=/nope"]);
    assert_eq!(why("plain.service"), (words.clone(), words));
    assert!(m.kill_manager());
    until("another takes its place", || m.console().contains("taking over from").then_some(()));
    m.wait_until_it_listens();
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.run(&["kill", "-KILL", &server]).expect("it can be killed");
}

/// A file to be removed that lies where nobody answers holds up no other unit, and the stop of its own
/// unit not for ever; but a start of that unit waits, through a kill of the manager too.
#[test]
fn a_trace_that_cannot_be_removed_holds_up_the_next_start_alone() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-traces", "/dev/fuse");
    }
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("left.service", "[Service]\nPIDFile=/run/files/never\nExecStart=@P stay"),
        ("same.service", "[Service]\nPIDFile=/run/files/never\nExecStart=@P stay"),
        ("plain.service", "[Service]\nRuntimeDirectory=plain\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("held-traces", &units) else { return };
    m.expect_job("start", "server.service", "done");
    m.expect_job("start", "left.service", "done");
    m.call("Job", &json!({"type": "stop", "unit": "left.service", "wait": false}));
    m.wait_for("left.service", "inactive/dead");
    m.expect_job("restart", "plain.service", "done");
    m.expect_job("stop", "left.service", "done");
    m.call("Job", &json!({"type": "start", "unit": "left.service", "wait": false}));
    m.expect_job("restart", "plain.service", "done");
    let waits = || m.status("left.service")["job"]["type"] == "start";
    assert!(waits(), "{}", m.status("left.service"));
    let waits_for = || {
        let why = m.call("Why", &json!({"unit": "left.service"}));
        why["units"][0]["path"][0]["removal"].clone()
    };
    assert_eq!(waits_for(), json!({"unit": "left.service", "path": "/run/files/never"}));
    m.call("Job", &json!({"type": "start", "unit": "same.service", "wait": false}));
    assert!(m.kill_manager());
    until("another takes its place", || m.console().contains("taking over from").then_some(()));
    m.wait_until_it_listens();
    m.expect_job("restart", "plain.service", "done");
    assert!(waits(), "{}", m.status("left.service"));
    let why = m.call("Why", &json!({"unit": "same.service"}));
    assert_eq!(why["units"][0]["path"][0]["removal"], waits_for());
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.run(&["kill", "-KILL", &server]).expect("it can be killed");
    m.wait_for("left.service", "active/running");
}

/// Setting an automount point, and letting somebody in, where the server on the way does not answer holds up
/// nobody else; the setting is given up after a time.
#[test]
fn automount_points_past_a_server_that_does_not_answer_hold_up_nobody_else() {
    for missing in ["/dev/fuse", "/dev/autofs"] {
        if !std::path::Path::new(missing).exists() {
            return lab::not_run("held-traps", missing);
        }
    }
    let trap = "[Unit]\nDefaultDependencies=no\n[Automount]\nWhere=/run/files";
    let mount = "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/files";
    let early = "[Unit]\nDefaultDependencies=no\nRequires=gate.service\nAfter=gate.service\n";
    let gated = format!("{early}[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/files/d0");
    let (traps, mount) = ([0, 1].map(|n| format!("{trap}/d{n}")), format!("{mount}/d1"));
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        (
            "gate.service",
            "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'read x < /run/gate; false'",
        ),
        ("plain.service", "[Service]\nExecStart=@P stay"),
        ("run-files-d0.automount", &*traps[0]),
        ("run-files-d1.automount", &*traps[1]),
        ("run-files-d0.mount", &*gated),
        ("run-files-d1.mount", &*mount),
    ];
    let Some(m) = Machine::start("held-traps", &units) else { return };
    m.run(&["mkfifo", "/run/gate"]).expect("mkfifo(1)");
    m.expect_job("start", "server.service", "done");
    m.expect_job("start", "run-files-d0.automount", "done");
    let mut caught = m.spawn(&["ls", "/run/files/d0"]);
    m.wait_for("gate.service", "activating/start");
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.stop_server(&server);
    m.run(&["sh", "-c", "echo > /run/gate"]).expect("somebody reads it");
    m.wait_for("run-files-d0.automount", "active/waiting");
    m.call("Job", &json!({"type": "start", "unit": "run-files-d1.automount", "wait": false}));
    m.expect_job("restart", "plain.service", "done");
    assert!(caught.try_wait().expect("our child").is_none(), "the way to it is not answered");
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    m.expect_job("restart", "plain.service", "done");
    m.wait_for("run-files-d1.automount", "failed/failed");
    let said = m.status("run-files-d1.automount").to_string();
    assert!(said.contains("/run/files/d1: the file system has not responded within "), "{said}");
    // Now it does: nobody is caught by what was given up, and whoever waits is answered.
    m.run(&["kill", "-CONT", &server]).expect("it goes on");
    assert!(!caught.wait().expect("our child").success(), "nothing could be mounted");
    until("the one that was set too late is away", || {
        let points = m.run(&["grep", "-c", " /run/files/d1 .* autofs ", "/proc/self/mountinfo"]);
        points.is_err().then_some(())
    });
    m.expect_job("start", "run-files-d1.automount", "done");
    m.run(&["ls", "/run/files/d1"]).expect("it is mounted");
}

/// Sockets are opened where the server on the way does not answer without holding up anybody else, which is
/// given up after a time, and removed there, before the same unit opens them again.
#[test]
fn sockets_past_a_server_that_does_not_answer_hold_up_nobody_else() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-sockets", "/dev/fuse");
    }
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("plain.service", "[Service]\nExecStart=@P stay"),
        ("old.socket", "[Socket]\nListenStream=/run/files/old\nAccept=yes\nRemoveOnStop=yes"),
        ("old@.service", "[Service]\nExecStart=@P answer"),
        ("new.socket", "[Socket]\nListenStream=/run/files/new\nAccept=yes"),
        ("new@.service", "[Service]\nExecStart=@P answer"),
        ("near.socket", "[Socket]\nListenStream=/run/near\nAccept=yes"),
        ("near@.service", "[Service]\nExecStart=@P answer"),
    ];
    let Some(m) = Machine::start("held-sockets", &units) else { return };
    let answers = |path: &str| {
        let mut text = String::new();
        let mut stream = UnixStream::connect(m.inside(path)).expect("it listens");
        stream.read_to_string(&mut text).expect("an answer");
        assert!(!text.is_empty());
    };
    let begin = |job: &str, unit: &str| {
        m.call("Job", &json!({"type": job, "unit": unit, "wait": false}));
    };
    let is_there = |path: &str| m.run(&["test", "-S", path]).is_ok();
    m.expect_job("start", "server.service", "done");
    m.expect_job("start", "old.socket", "done");
    answers("/run/files/old");
    m.expect_job("restart", "old.socket", "done");
    answers("/run/files/old");
    m.expect_job("stop", "old.socket", "done");
    until("it is removed", || (!is_there("/run/files/old")).then_some(()));
    m.expect_job("start", "old.socket", "done");
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.stop_server(&server);
    begin("start", "new.socket");
    m.expect_job("stop", "old.socket", "done");
    begin("start", "old.socket");
    m.expect_job("restart", "plain.service", "done");
    m.expect_job("start", "near.socket", "done");
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    m.expect_job("restart", "plain.service", "done");
    answers("/run/near");
    m.wait_for("new.socket", "failed/failed");
    let said = m.status("new.socket").to_string();
    assert!(said.contains("/run/files/new: the file system has not responded within "), "{said}");
    // Now it does.
    m.run(&["kill", "-CONT", &server]).expect("it goes on");
    for (unit, path) in [("new.socket", "/run/files/new"), ("old.socket", "/run/files/old")] {
        m.expect_job("start", unit, "done");
        answers(path);
    }
    m.expect_job("stop", "new.socket", "done");
    m.expect_job("stop", "old.socket", "done");
    until("it is removed", || (!is_there("/run/files/old")).then_some(()));
    assert!(is_there("/run/files/new"), "nobody asked for that");
}

/// What is to be removed past such a server is removed by the next manager.
#[test]
fn what_sockets_were_known_by_is_removed_though_the_manager_is_killed_over_it() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-removal", "/dev/fuse");
    }
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("s.socket", "[Socket]\nListenStream=/run/files/s\nAccept=yes\nRemoveOnStop=yes"),
        ("s@.service", "[Service]\nExecStart=@P answer"),
    ];
    let Some(m) = Machine::start("held-removal", &units) else { return };
    let is_there = || m.run(&["test", "-S", "/run/files/s"]).is_ok();
    m.expect_job("start", "server.service", "done");
    m.expect_job("start", "s.socket", "done");
    assert!(is_there());
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.stop_server(&server);
    m.expect_job("stop", "s.socket", "done");
    for _ in 0..2 {
        assert!(m.kill_manager());
        m.wait_until_it_listens();
        assert_eq!(m.state("s.socket"), "inactive/dead");
    }
    m.run(&["kill", "-CONT", &server]).expect("it goes on");
    until("it is removed", || (!is_there()).then_some(()));
    m.expect_job("start", "s.socket", "done");
    assert!(is_there());
}

/// An environment file that cannot be read now holds up the command that it is for, and that not for ever.
#[test]
fn environment_files_that_do_not_come_hold_up_their_command_alone() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-environment", "/dev/fuse");
    }
    let reads = |path: &str| format!("[Service]\nEnvironmentFile={path}\nExecStart=@P stay");
    let (far, near) = (reads("/run/files/file"), reads("/run/fifo"));
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("far.service", &*far),
        ("stopped.service", &*far),
        ("near.service", &*near),
        ("plain.service", "[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("held-environment", &units) else { return };
    m.run(&["mkfifo", "/run/fifo"]).expect("mkfifo(1)");
    m.expect_job("start", "server.service", "done");
    for unit in ["far.service", "near.service"] {
        m.expect_job("start", unit, "done");
        m.expect_job("stop", unit, "done");
    }
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.stop_server(&server);
    for unit in ["far.service", "stopped.service"] {
        m.call("Job", &json!({"type": "start", "unit": unit, "wait": false}));
    }
    m.expect_job("restart", "plain.service", "done");
    m.expect_job("start", "near.service", "done");
    // It is never begun.
    m.expect_job("stop", "stopped.service", "done");
    assert_eq!(m.state("stopped.service"), "inactive/dead");
    m.wait_for("far.service", "failed/failed");
    let said = m.status("far.service").to_string();
    assert!(said.contains("EnvironmentFile=/run/files/file: no answer within "), "{said}");
    m.run(&["kill", "-CONT", &server]).expect("it goes on");
    m.expect_job("start", "far.service", "done");
}

/// What is mounted below a server that does not answer cannot be unmounted by its path, and whether it still is
/// mounted is found out without asking that server.
#[test]
fn name_services_that_do_not_answer_hold_up_who_asks_for_them_alone() {
    let crowd: Vec<String> = (0..CROWD).map(|n| format!("named-{n}.service")).collect();
    let named = "[Service]\nType=exec\nUser=served-user\nSupplementaryGroups=served-group\n\
                 ExecStart=@P stay\n";
    let mut units: Vec<(&str, &str)> = crowd.iter().map(|name| (name.as_str(), named)).collect();
    units.extend([
        ("plain.service", "[Service]\nUser=root\nGroup=root\nExecStart=@P stay"),
        ("late.service", "[Service]\nUser=other-user\nTimeoutStartSec=1\nExecStart=@P stay"),
        ("left.service", "[Service]\nUser=other-user\nTimeoutStartSec=0\nExecStart=@P stay"),
        ("nobody.service", "[Service]\nUser=no-such-user\nExecStart=@P stay"),
    ]);
    if !lab::others_reach_programs("name_services_that_do_not_answer") {
        return;
    }
    let Some(m) = Machine::start("held-names", &units) else { return };
    // A name service that answers when somebody writes to a FIFO, and tells who asks.
    let script = "echo \"$1 $2\" >> /run/asked\ncase \"$1 $2\" in\n\
                  *served-*) read x < \"/run/$1\";;\n*other-user) read x < /run/never;; esac\n\
                  case \"$1\" in\npasswd) echo \"$2:x:70001:70002::/:/bin/sh\";;\n\
                  group) echo \"$2:x:70003:\";;\ninitgroups) echo \"$2 70004\";; esac\n\
                  case \"$2\" in no-such-user) exit 2;; esac\n";
    lab::install_script(&m.inside("/run/getent"), script);
    let fifos = ["/run/passwd", "/run/group", "/run/initgroups", "/run/never"];
    fifos.iter().for_each(|fifo| _ = m.run(&["mkfifo", fifo]).expect("mkfifo(1)"));
    let getent = m.run(&["sh", "-c", "command -v getent"]).expect("the C library's");
    m.run(&["mount", "--bind", "/run/getent", getent.trim()]).expect("mount(8)");
    let asked = || {
        let text = m.run(&["cat", "/run/asked"]).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    std::thread::scope(|scope| {
        let start = |name: &'static str| scope.spawn(|| m.job("start", name));
        let (late, left) = (start("late.service"), start("left.service"));
        let starts: Vec<_> =
            crowd.iter().map(|name| scope.spawn(|| m.job("start", name))).collect();
        until("both are asked for", || (asked().len() >= 3).then_some(()));
        m.expect_job("start", "plain.service", "done");
        m.expect_job("restart", "plain.service", "done");
        assert_eq!(late.join().expect("no panic"), Ended::Said("failed".to_owned()));
        m.expect_job("stop", "left.service", "done");
        assert_eq!(left.join().expect("no panic"), Ended::Said("canceled".to_owned()));
        for fifo in &fifos[..3] {
            m.run(&["sh", "-c", &format!("echo > {fifo}")]).expect("somebody reads it");
        }
        for start in starts {
            assert_eq!(start.join().expect("no panic"), Ended::Said("done".to_owned()));
        }
    });
    let questions =
        ["group served-group", "initgroups served-user", "passwd other-user", "passwd served-user"];
    assert_eq!(asked(), questions, "each is asked for once, whoever waits for it");
    let pid = m.main_pid("named-0.service").expect("it runs");
    let status = m.run(&["cat", &format!("/proc/{pid}/status")]).expect("it runs");
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("it has each");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("Uid:"), "70001 70001 70001 70001");
    assert_eq!([line("Gid:"), line("Groups:")], ["70002 70002 70002 70002", "70002 70003 70004"]);
    m.job("start", "nobody.service");
    m.wait_for("nobody.service", "failed/failed");
    assert!(m.console().contains("no such user: no-such-user"));
}

#[test]
fn mounts_past_a_server_that_does_not_answer_hold_up_nobody_else() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-mounts", "/dev/fuse");
    }
    let mount = |n: u32| {
        format!(
            "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/files/d{n}\n\
             TimeoutSec=1"
        )
    };
    let (first, second) = (mount(1), mount(2));
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("run-files-d1.mount", &*first),
        ("run-files-d2.mount", &*second),
        ("plain.service", "[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("held-mounts", &units) else { return };
    m.expect_job("start", "server.service", "done");
    m.expect_job("start", "run-files-d1.mount", "done");
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.stop_server(&server);
    m.call("Job", &json!({"type": "start", "unit": "run-files-d2.mount", "wait": false}));
    m.expect_job("stop", "run-files-d1.mount", "failed");
    assert_eq!(
        m.state("run-files-d1.mount"),
        "active/mounted",
        "{}",
        m.status("run-files-d1.mount")
    );
    m.expect_job("restart", "plain.service", "done");
    m.run(&["kill", "-CONT", &server]).expect("it goes on");
    m.expect_job("start", "run-files-d2.mount", "done");
    for n in 1..=2 {
        m.expect_job("stop", &format!("run-files-d{n}.mount"), "done");
    }
}

/// Who has stopped a unit finds its traces gone, and who has started it again its own.
#[test]
fn traces_are_gone_when_the_stop_is_over_and_there_after_the_start() {
    let unit =
        "[Service]\nType=exec\nRuntimeDirectory=traces\nPIDFile=/run/traces.pid\nExecStart=@P stay";
    let Some(m) = Machine::start("traces", &[("left.service", unit)]) else { return };
    let is_there = |path: &str| m.run(&["test", "-e", path]).is_ok();
    for _ in 0..20 {
        m.expect_job("start", "left.service", "done");
        assert!(is_there("/run/traces"));
        m.run(&["touch", "/run/traces.pid", "/run/traces/file"]).expect("touch(1)");
        m.expect_job("restart", "left.service", "done");
        assert!(is_there("/run/traces") && !is_there("/run/traces/file"));
        m.expect_job("stop", "left.service", "done");
        assert!(!is_there("/run/traces") && !is_there("/run/traces.pid"));
    }
}

/// What its helper tells of it comes too late: another process may have its number by now.
#[test]
fn a_process_that_ended_before_its_helper_told_of_it_is_held_no_longer() {
    let Some(m) = machine("held-told-late", 1, "PLAYER exit:0") else { return };
    if m.all_helpers().len() < 2 {
        return lab::not_run("held-told-late", "two processors");
    }
    m.call("Job", &json!({"type": "start", "unit": "held-0.service", "wait": false}));
    wait_until_held(&m, 0);
    // The one that waits for its process: vfork(2) is an uninterruptible sleep.
    let is_making = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(warren-exec) D")
    };
    let helper = until("it is made", || m.helper_pids().into_iter().find(is_making));
    warren_sys::process::kill(helper, SIGSTOP).expect("it is there");
    open_gate(&m, 0);
    until("it has ended", || m.unborn_pids().is_empty().then_some(()));
    m.expect_job("start", "plain.service", "done");
    assert_eq!(m.state("held-0.service"), "activating/start");
    warren_sys::process::kill(helper, SIGCONT).expect("it is there");
    m.wait_for("held-0.service", "inactive/dead");
    let manager = m.manager_pid().expect("it runs");
    until("no pidfd of an ended process is kept", || {
        let infos = std::fs::read_dir(format!("/proc/{manager}/fdinfo")).ok()?.flatten();
        let text = |info: std::fs::DirEntry| std::fs::read_to_string(info.path()).ok();
        let is_dead = |text: String| text.lines().any(|line| line == "Pid:\t-1");
        (!infos.filter_map(text).any(is_dead)).then_some(())
    });
}

/// Not even SIGKILL ends a helper that looks at a path of a server that has the question and does not answer.
/// What was behind it is made by another, once.
#[test]
fn a_helper_that_the_kernel_holds_is_replaced_and_keeps_nothing() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-helper", "/dev/fuse");
    }
    let names: Vec<String> = (0..CROWD).map(|n| format!("behind-{n}.service")).collect();
    let behind = "[Service]\nExecStart=@P append:@D/out/behind:%n stay";
    let wants = format!("[Unit]\nWants={}", names.join(" "));
    let held = "[Service]\nType=exec\nExecSearchPath=/run/files\nExecStart=never";
    let mut units = vec![
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("held.service", held),
        ("behind.target", &*wants),
    ];
    units.extend(names.iter().map(|name| (&**name, behind)));
    let Some(m) = Machine::start_with("held-helper", &units, &["--helpers=1"]) else { return };
    m.expect_job("start", "server.service", "done");
    m.call("Job", &json!({"type": "start", "unit": "held.service", "wait": false}));
    m.wait_for("held.service", "activating/start");
    let helper = m.helper_pids()[0];
    m.call("Job", &json!({"type": "start", "unit": "behind.target", "wait": false}));
    names.iter().for_each(|name| m.wait_for(name, "active/running"));
    assert!(m.helper_pids().contains(&helper), "{}", m.console());
    assert!(m.console().contains("does not exit (uninterruptible sleep): starting another one"));
    let why = m.call("Why", &json!({"unit": "held.service"}));
    let under_way = &why["units"][0]["path"][0]["under_way"];
    assert_eq!(under_way["server"], "/run/files (fuse of files)", "{why}");
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.run(&["kill", "-KILL", &server]).expect("it can be killed");
    m.wait_for("held.service", "failed/failed");
    until("it has ended", || (!m.helper_pids().contains(&helper)).then_some(()));
    m.expect_job("restart", "behind-0.service", "done");
    let mut made =
        until("all have said so", || Some(m.lines("behind")).filter(|lines| lines.len() > CROWD));
    made.sort_unstable();
    let mut expected = names.clone();
    expected.insert(0, names[0].clone());
    assert_eq!(made, expected);
}

/// A unit file of which the server does not answer holds up who reloads, and who asks for it and may change
/// something: nobody who only reads, and nobody who enables another unit.
#[test]
fn a_linked_unit_on_a_dead_server_holds_up_neither_readers_nor_who_enables_another() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-linked", "/dev/fuse");
    }
    let other = "[Service]\nExecStart=@P stay\n[Install]\nWantedBy=default.target";
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P fuse:@D/out/far"),
        ("other.service", other),
        ("third.service", other),
    ];
    let Some(m) = Machine::start("held-linked", &units) else { return };
    let file = m.out("far").join("app.service");
    std::fs::create_dir(m.out("far")).expect("a directory");
    std::fs::write(&file, other).expect("a file");
    std::os::unix::fs::symlink(&file, m.directory.join("units/app.service")).expect("a link");
    let change = |verb: &str, unit: &str| {
        let answer = m.call("UnitFiles", &json!({"verb": verb, "files": [unit]}));
        assert!(answer["changes"].is_array(), "{verb} {unit}: {answer}");
    };
    change("enable", "app.service");
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", "server.service", "done");
    let asks = |unit: &str| {
        let asked = lab::ask(&m.connect_as_other(), "FileState", &json!({"unit": unit}));
        asked.expect("it is answered")["parameters"]["state"].clone()
    };
    assert_eq!(asks("app.service"), "enabled");
    change("enable", "other.service");
    assert_eq!((asks("other.service"), asks("app.service")), (json!("enabled"), json!("enabled")));
    change("mask", "none.service");
    change("disable", "other.service");
    assert_eq!(asks("other.service"), "disabled");
    m.expect_job("start", "third.service", "done");
}
