//! How a machine ends: in order, side by side, with a bound on everything, and whatever happens to
//! the manager meanwhile.

mod lab;

use std::time::Duration;

use lab::recordings::recording;
use lab::{Machine, until};
use serde_json::json;
use warren_trace::analysis::Analysis;
use warren_trace::export::show;

/// SIGRTMIN+14 of systemd(1).
const POWER_OFF_AT_ONCE: i32 = 34 + 14;

/// Starts these units, runs `before`, ends the machine and hands what it said to `check`.
fn end(
    name: &str,
    units: &[(&str, &str)],
    before: impl FnOnce(&Machine),
    check: impl FnOnce(&Machine, &str),
) {
    let Some(mut machine) = Machine::start(name, units) else { return };
    for (unit, _) in units {
        machine.expect_job("start", unit, "done");
    }
    before(&machine);
    machine.leave("poweroff");
    let console = machine.wait_for_end();
    check(&machine, &console);
}

/// The last words.
fn last_words(console: &str) -> &str {
    let words = console.lines().find(|line| line.contains("The system is down."));
    words.unwrap_or_else(|| panic!("no last words: {console}"))
}

#[test]
fn units_stop_in_the_reverse_of_their_order() {
    let stop = "ExecStart=@P stay\nExecStop=@P append:@D/out/order:";
    let units = [
        ("a.service", format!("[Service]\n{stop}a")),
        ("b.service", format!("[Unit]\nAfter=a.service\n[Service]\n{stop}b")),
        ("c.service", format!("[Unit]\nAfter=b.service\n[Service]\n{stop}c")),
    ];
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (*name, &**text)).collect();
    end(
        "order",
        &units,
        |_| {},
        |m, console| {
            assert_eq!(m.lines("order"), ["c", "b", "a"]);
            assert!(last_words(console).ends_with(", 0 killed."), "{console}");
        },
    );
}

#[test]
fn what_ignores_sigterm_is_killed_side_by_side() {
    let deaf = "[Service]\nType=notify\nTimeoutStopSec=1\nExecStart=@P deaf:ready";
    let names: Vec<String> = (0..20).map(|n| format!("deaf{n}.service")).collect();
    let units: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), deaf)).collect();
    end(
        "deaf",
        &units,
        |_| {},
        |_, console| {
            assert!(last_words(console).ends_with(", 20 killed."), "{console}");
            assert_eq!(console.matches("WR-0044").count(), 20, "{console}");
        },
    );
}

/// `KillMode=mixed` kills what the main process leaves behind; where that is nobody, nobody is killed.
#[test]
fn who_leaves_nobody_behind_is_not_told_as_killed() {
    let mixed = "[Service]\nKillMode=mixed\nType=notify\nExecStart=";
    let alone = format!("{mixed}@P ready stay");
    let leaves = format!("{mixed}/bin/sh -c '@P deaf & exec @P ready stay'");
    end(
        "mixed",
        &[("alone.service", &alone), ("alone2.service", &alone), ("leaves.service", &leaves)],
        |_| {},
        |_, console| assert!(last_words(console).ends_with(", 1 killed."), "{console}"),
    );
}

#[test]
fn what_holds_nothing_to_save_is_not_asked() {
    let asked = "ExecStop=@P append:@D/out/asked:$UNIT";
    let clean = format!("[Service]\nType=notify\nExecStart=@P clean deaf:ready\n{asked}");
    let sudden = format!(
        "[Service]\nType=notify\nExecStart=@P deaf:ready\n{asked}\n[X-Warren]\nStopPolicy=sudden"
    );
    let units = [("clean.service", &*clean), ("sudden.service", &*sudden)];
    end(
        "clean",
        &units,
        |_| {},
        |m, console| {
            assert_eq!(m.lines("asked"), [""; 0]);
            assert!(last_words(console).ends_with(", 2 killed."), "{console}");
            assert!(!console.contains("WR-0044"), "{console}");
        },
    );
}

/// All units of a slice go with one write to its `cgroup.kill`; what they run afterwards is not hit.
#[test]
fn a_slice_of_those_that_hold_nothing_is_killed_at_once() {
    const COUNT: usize = 20;
    let text = "[Service]\nType=notify\nSlice=boxes.slice\nExecStart=@P deaf:ready\n\
                ExecStop=@P append:@D/out/asked:$UNIT\nExecStopPost=@P append:@D/out/post:$UNIT\n\
                [X-Warren]\nStopPolicy=sudden";
    let names: Vec<String> = (0..COUNT).map(|n| format!("box{n}.service")).collect();
    let units: Vec<(&str, &str)> = names.iter().map(|name| (&**name, text)).collect();
    end(
        "boxes",
        &units,
        |_| {},
        |m, console| {
            assert_eq!(m.lines("asked"), [""; 0]);
            assert_eq!(m.lines("post").len(), COUNT, "{console}");
            assert!(last_words(console).ends_with(", 20 killed."), "{console}");
        },
    );
}

#[test]
fn what_outlives_its_unit_is_named_and_ended() {
    let escape = "[Service]\nKillMode=process\nExecStart=@P stay\n\
                  ExecStartPost=@P fork:/run/f.pid stay";
    let units = [("escape.service", escape)];
    end(
        "escape",
        &units,
        |_| {},
        |_, console| {
            assert!(console.contains("escape.service: 1 leftover process:"), "{console}");
            assert!(
                console.contains("1 process still running after all units have stopped: player"),
                "{console}"
            );
        },
    );
}

/// Whom the last steps kill is of no unit any more. He has the time that a unit has by itself, and is named.
#[test]
fn who_outlives_its_unit_is_waited_for_until_a_key_ends_that_and_counts_as_killed() {
    let escape = "[Service]\nKillMode=process\nExecStart=@P stay\nExecStartPost=@P fork: deaf";
    let Some(mut m) = Machine::start("escape-deaf", &[("escape.service", escape)]) else { return };
    let keys = m.make_console();
    m.expect_job("start", "escape.service", "done");
    m.leave("poweroff");
    let line = m.skip_left(&keys);
    assert!(
        line.contains("waiting for player (pid ") && line.contains(", escape.service) ("),
        "{line}"
    );
    let left = line.split_once(" s, ").and_then(|(_, rest)| rest.split_once(" s left)"));
    let left: f64 = left.and_then(|(left, _)| left.parse().ok()).expect("how long yet");
    // DefaultTimeoutStopSec= as it is by itself.
    assert!((60.0..=88.1).contains(&left), "{line}");
    let console = m.wait_for_end();
    assert!(console.contains("1 process did not exit after SIGTERM; killing"), "{console}");
    assert!(last_words(&console).ends_with(", 1 killed."), "{console}");
    let shutdown = recording(&m, "shutdown").expect("it is kept");
    let headline = show::headline(&Analysis::of(&shutdown));
    assert!(headline.ends_with(", 1 killed."), "{headline}");
}

/// In a container whose cgroups cannot be written to, for one.
#[test]
fn without_cgroups_all_that_is_left_is_asked_to_end() {
    let asked = |how: &str| {
        format!(
            "[Service]\nType=notify\nNotifyAccess=all\nExecStart=/bin/sh -c 'trap \"echo {how} >>@D/out/asked; \
             exit\" TERM; systemd-notify --ready; while :; do sleep 0.05; done'"
        )
    };
    let child = "[Service]\nType=notify\nExecStart=@P ready stay\nExecStartPost=/bin/sh -c '(trap \"echo child \
                 >>@D/out/asked; exit\" TERM; : >@D/out/up; while :; do sleep 0.05; done) &'";
    let spared =
        format!("[Unit]\nSurviveFinalKillSignal=yes\nDefaultDependencies=no\n{}", asked("spared"));
    let units =
        [("main.service", &*asked("main")), ("child.service", child), ("spared.service", &spared)];
    for how in ["poweroff", "signal"] {
        let Some(mut m) = Machine::start_with("bare", &units, &["--no-cgroup"]) else { return };
        m.expect_job("start", "child.service", "done");
        m.expect_job("start", "spared.service", "done");
        until("the child is there", || m.out("up").exists().then_some(()));
        let mut asked = vec!["child"];
        if how == "signal" {
            m.expect_job("start", "main.service", "done");
            asked.push("main");
            warren_sys::process::kill(m.init_pid, POWER_OFF_AT_ONCE).expect("our own");
        } else {
            m.leave("poweroff");
        }
        let console = m.wait_for_end();
        let mut lines = m.lines("asked");
        lines.sort();
        assert_eq!(lines, asked, "{console}");
        assert!(last_words(&console).ends_with(", 0 killed."), "{console}");
    }
}

/// What is to be killed after a stop may be nobody.
#[test]
fn sockets_and_mounts_whose_commands_are_over_are_not_told_as_killed() {
    let names = ["a", "b", "c"];
    let mut units = Vec::new();
    for name in names {
        let socket = format!("[Socket]\nListenStream=/run/{name}\nExecStartPre=/bin/true");
        units.push((format!("{name}.socket"), socket));
        units.push((format!("{name}.service"), "[Service]\nExecStart=@P stay".to_owned()));
    }
    let wants: String = names.iter().map(|name| format!("Wants={name}.socket\n")).collect();
    units.push(("sockets.target".to_owned(), format!("[Unit]\n{wants}")));
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (&**name, &**text)).collect();
    let Some(mut m) = Machine::start("not-killed", &units) else { return };
    m.expect_job("start", "sockets.target", "done");
    names.iter().for_each(|name| m.wait_for(&format!("{name}.socket"), "active/listening"));
    m.leave("poweroff");
    let console = m.wait_for_end();
    assert!(last_words(&console).ends_with(", 0 killed."), "{console}");
    let shutdown = recording(&m, "shutdown").expect("it is kept");
    let headline = show::headline(&Analysis::of(&shutdown));
    assert!(headline.ends_with(", 0 killed."), "{headline}");
}

#[test]
fn nothing_starts_any_more_and_a_start_is_not_waited_for() {
    let slow = "[Service]\nExecStart=@P stay\nExecStop=@P wait:500";
    let hangs = "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=@P stay";
    let Some(mut m) = Machine::start("starts", &[("slow.service", slow), ("hangs.service", hangs)])
    else {
        return;
    };
    m.expect_job("start", "slow.service", "done");
    m.call("Job", &json!({"type": "start", "unit": "hangs.service", "wait": false}));
    m.wait_for("hangs.service", "activating/start");
    m.leave("poweroff");
    until("the end begins", || m.call("Shutdown", &json!({}))["stopping"].as_bool()?.then_some(()));
    let refused = format!("{:?}", m.job("start", "hangs.service"));
    assert!(refused.contains("shutting down"), "{refused}");
    last_words(&m.wait_for_end());
}

#[test]
fn who_is_waited_for_is_told_and_can_be_skipped() {
    let deaf = "[Service]\nType=notify\nTimeoutStopSec=infinity\nExecStart=@P deaf:ready";
    let Some(mut m) = Machine::start("skip", &[("deaf.service", deaf)]) else { return };
    m.expect_job("start", "deaf.service", "done");
    m.leave("poweroff");
    let wait = until("it is waited for", || {
        let wait = m.call("Shutdown", &json!({}))["waits"][0].clone();
        wait.is_object().then_some(wait)
    });
    assert_eq!((&wait["unit"], &wait["left_us"]), (&json!("deaf.service"), &json!(null)));
    assert!(m.call("Shutdown", &json!({}))["unwritten_bytes"].is_u64());
    assert!(m.call("Why", &json!({}))["unwritten_bytes"].is_u64());
    until("the console tells", || m.console().contains("waiting for deaf.service").then_some(()));
    assert!(m.console().contains(" MiB of unwritten data"), "{}", m.console());
    m.skip("deaf.service");
    assert!(last_words(&m.wait_for_end()).ends_with(", 1 killed."), "{}", m.console());
}

#[test]
fn a_key_on_the_console_ends_the_wait_for_whom_it_names() {
    let deaf = "[Service]\nType=notify\nTimeoutStopSec=infinity\nExecStart=@P deaf:ready";
    let Some(mut m) = Machine::start("key", &[("deaf.service", deaf)]) else { return };
    let keys = m.make_console();
    m.expect_job("start", "deaf.service", "done");
    m.leave("poweroff");
    let told = || m.console().contains("; press s twice to skip deaf.service").then_some(());
    until("the console tells of the key", told);
    // What means nothing does nothing.
    std::fs::write(&keys, "x\n").expect("the keys are read");
    lab::pause(std::time::Duration::from_millis(1100));
    std::fs::write(&keys, "ss").expect("the keys are read");
    let console = m.wait_for_end();
    assert!(console.contains("not waiting for deaf.service any longer"), "{console}");
    assert!(last_words(&console).ends_with(", 1 killed."), "{console}");
}

#[test]
fn a_large_group_that_forks_while_it_dies_goes_at_once() {
    let bomb = "[Service]\nTimeoutStopSec=1\nExecStart=/bin/sh -c 'trap \"\" TERM; \
                for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23; do \
                sh -c \"while :; do /bin/true; done\" & done; : > @D/out/up; wait'";
    end(
        "bomb",
        &[("bomb.service", bomb)],
        |m| until("it ignores the signal", || m.out("up").exists().then_some(())),
        |_, console| {
            assert_eq!(console.matches("bomb.service: WR-0044").count(), 1, "{console}");
            assert!(last_words(console).ends_with(", 1 killed."), "{console}");
            assert!(!console.contains("leftover process"), "{console}");
        },
    );
}

#[test]
fn a_signal_that_ends_at_once_stops_no_unit_and_takes_the_last_steps() {
    let stays = "[Service]\nExecStart=@P stay\nExecStop=@P append:@D/out/stops:stops";
    let Some(mut m) = Machine::start("at-once", &[("stays.service", stays)]) else { return };
    m.expect_job("start", "stays.service", "done");
    warren_sys::process::kill(m.init_pid, POWER_OFF_AT_ONCE).expect("our own");
    let console = m.wait_for_end();
    assert!(console.contains("1 process still running after all units have stopped"), "{console}");
    assert!(last_words(&console).ends_with(", 0 killed."), "{console}");
    assert!(m.lines("stops").is_empty(), "{console}");
}

#[test]
fn the_manager_may_be_killed_while_it_ends() {
    let stop = |name: &str| {
        format!("[Service]\nExecStart=@P stay\nExecStop=@P append:@D/out/stopped:{name} wait:150\n")
    };
    let names = ["a", "b", "c", "d", "e"];
    let texts: Vec<(String, String)> = names
        .iter()
        .zip(std::iter::once("").chain(names))
        .map(|(name, before)| {
            let after = if before.is_empty() { "" } else { &format!("After={before}.service") };
            (format!("{name}.service"), format!("[Unit]\n{after}\n{}", stop(name)))
        })
        .collect();
    let units: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (&**name, &**text)).collect();
    let Some(mut m) = Machine::start("killed-end", &units) else { return };
    for (unit, _) in &units {
        m.expect_job("start", unit, "done");
    }
    m.leave("poweroff");
    for ms in [3, 20, 45, 70, 110, 150] {
        lab::pause(Duration::from_millis(ms));
        m.kill_manager();
    }
    let console = m.wait_for_end();
    assert_eq!(m.lines("stopped"), ["e", "d", "c", "b", "a"], "{console}");
    // Five stops of 150 ms, one after the other: it is told from the beginning, not from the last
    // manager's.
    for of in ["took ", "critical path "] {
        let time = last_words(&console).split_once(of).and_then(|(_, rest)| rest.split_once(" s"));
        let time: f64 = time.and_then(|(time, _)| time.parse().ok()).expect("it says how long");
        assert!(time >= 0.75, "{of}: {console}");
    }
}

/// The root of a session is not process 1, and reaps its manager before it ends. Of one that the kernel
/// holds, killed or not, it waits for no longer than a moment.
#[test]
fn a_session_ends_though_the_kernel_holds_its_manager() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held-session", "/dev/fuse");
    }
    let init = lab::program_of("warren-init", "warren-init");
    let manager = env!("CARGO_BIN_EXE_warrend");
    let session = format!(
        "[Unit]\nAfter=server.service\n[Service]\nType=notify\nNotifyAccess=all\nDelegate=yes\n\
         KillMode=process\nTimeoutStopSec=40\nStandardOutput=append:@D/out/said\n\
         StandardError=append:@D/out/said\nEnvironment=XDG_RUNTIME_DIR=@D/out ASKS=@D/out/asks\n\
         ExecStart={init} --manager={manager} --helpers=1 -- --user --no-bus --log-target=console \
         --unit-path=@D/units/of-user --record-path=@D/out/records\n"
    );
    let bare = "[Unit]\nDefaultDependencies=no";
    let asks =
        format!("{bare}\nConditionPathExists=/run/files/never\n[Service]\nExecStart=@P stay");
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("session.service", &*session),
        ("of-user/asks.path", bare),
        ("of-user/asks.service", &*asks),
        ("of-user/default.target", bare),
        ("of-user/shutdown.target", bare),
    ];
    let Some(m) = Machine::start("held-session", &units) else { return };
    m.expect_job("start", "server.service", "done");
    m.expect_job("start", "session.service", "done");
    let warren = lab::program_of("warren-cli", "warren");
    let directory = format!("XDG_RUNTIME_DIR={}", m.out("").display());
    let user = |words: &[&str]| m.run(&[&["env", &directory, &warren, "--user"], words].concat());
    user(&["start", "--no-block", "asks.service"]).expect("it is asked for");
    // What the server has not answered yet, by fusectl.
    let waiting = "mkdir -p /run/ctl && { mountpoint -q /run/ctl || mount -t fusectl none /run/ctl; } \
                   && cat /run/ctl/$(mountpoint -d /run/files | cut -d: -f2)/waiting";
    let is_held = || {
        let waiting = m.run(&["sh", "-c", waiting]).expect("it is told");
        (waiting.trim() != "0").then_some(())
    };
    until("the kernel holds a thread", is_held);
    m.expect_job("stop", "session.service", "done");
    let said = m.lines("said").join("\n");
    assert!(said.contains("leftover processes in uninterruptible sleep: "), "{said}");
    let status = m.status("session.service");
    assert_eq!((&status["active"], &status["result"]), (&json!("inactive"), &json!("success")));
}

/// systemd-halt.service(8): a UPS, an array and others wait for this moment.
#[test]
fn programs_of_the_very_end_run_side_by_side_when_all_is_down() {
    let Some(mut m) = Machine::start("programs", &[("a.service", "[Service]\nExecStart=@P stay")])
    else {
        return;
    };
    m.expect_job("start", "a.service", "done");
    let out = m.out("ran");
    let write = |name: &str, text: &str| {
        let text = format!(
            "echo {name} $1 $# ${{PATH:+path}} $(ps -C player -o pid= | wc -l) >> {}\n{text}",
            out.display()
        );
        m.write_shutdown_program(name, &text);
    };
    // Each waits for the other.
    let meets = |own: &str, other: &str| {
        let at = |name: &str| m.out(name).display().to_string();
        format!(
            ": > {own}; while [ ! -e {other} ]; do sleep 0.01; done",
            own = at(own),
            other = at(other)
        )
    };
    write("first", &meets("1", "2"));
    write("second", &format!("{}\nexit 16", meets("2", "1")));
    write("backup~", "");
    m.leave("poweroff");
    let console = m.wait_for_end();
    let mut ran = m.lines("ran");
    ran.sort();
    assert_eq!(ran, ["first poweroff 1 path 0", "second poweroff 1 path 0"], "{console}");
    assert!(console.contains("/shutdown/second failed: exit status: 16"), "{console}");
    assert!(last_words(&console).ends_with(", 0 killed."), "{console}");
}
