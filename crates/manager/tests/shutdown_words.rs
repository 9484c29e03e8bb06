//! What is told of an end: that it is one, whoever describes it, what follows, who asked for it, and who
//! had to be killed or could not be.

mod lab;

use lab::recordings::recording;
use lab::{Machine, until};
use serde_json::{Value, json};
use warren_sys::process;
use warren_trace::analysis::Analysis;
use warren_trace::analysis::path::Step;

/// As systemd installs them (systemd.special(7)).
const POWEROFF: [(&str, &str); 2] = [
    (
        "poweroff.target",
        "[Unit]\nDefaultDependencies=no\nRequires=poweroff.service\nAfter=poweroff.service",
    ),
    (
        "poweroff.service",
        "[Unit]\nDefaultDependencies=no\nRequires=shutdown.target umount.target\n\
         After=shutdown.target umount.target\nSuccessAction=poweroff-force",
    ),
];

/// Ignores the stop signal for as long as it is waited for.
const DEAF: &str = "[Service]\nType=notify\nTimeoutStopSec=infinity\nExecStart=@P deaf:ready";

fn begin_poweroff_target(m: &Machine) {
    let mode = "replace-irreversibly";
    m.call("Job", &json!({"unit": "poweroff.target", "mode": mode, "wait": false}));
}

#[test]
fn an_end_that_files_describe_is_told_as_one() {
    let units = [
        POWEROFF[0],
        POWEROFF[1],
        ("deaf.service", DEAF),
        ("next.service", "[Unit]\nBefore=deaf.service\n[Service]\nExecStart=@P stay"),
    ];
    let Some(mut m) = Machine::start("of-files", &units) else { return };
    m.expect_job("start", "deaf.service", "done");
    m.expect_job("start", "next.service", "done");
    assert_eq!(m.call("Shutdown", &json!({}))["stopping"], false);
    begin_poweroff_target(&m);
    let answer = until("it is waited for", || {
        let answer = m.call("Shutdown", &json!({}));
        answer["waits"][0].is_object().then_some(answer)
    });
    assert_eq!((&answer["stopping"], &answer["follows"]), (&json!(true), &json!("power off")));
    assert_eq!(m.totals()["stopping"], true);
    let top = m.call("Top", &json!({}));
    assert_eq!((&top["stopping"], &top["waits_total"]), (&json!(true), &json!(1)), "{top}");
    assert_eq!(m.call("Why", &json!({}))["waits"][0]["unit"], "deaf.service");
    let path = |unit: &str| {
        let why = m.call("Why", &json!({"unit": unit}));
        let steps = why["units"][0]["path"].as_array().expect("a path").clone();
        steps.into_iter().map(|step| step["name"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!(path("deaf.service"), ["deaf.service"]);
    let why = m.call("Why", &json!({"unit": "deaf.service"}))["units"][0]["path"][0].clone();
    assert!(
        why["reason"]["cure"].to_string().contains("warren shutdown skip deaf.service"),
        "{why}"
    );
    assert_eq!(path("next.service"), ["next.service", "deaf.service"]);
    let refused = format!("{:?}", m.job("start", "next.service"));
    let against =
        "next.service/start is destructive (next.service has 'stop' job queued, but 'start'";
    assert!(refused.contains(against), "{refused}");
    let told = "The system is shutting down: power off, requested by root";
    assert!(m.console().contains(told), "{}", m.console());

    // Another end takes its place.
    m.leave("reboot");
    assert_eq!(m.call("Shutdown", &json!({}))["follows"], "reboot");
    let overtaken = "The poweroff was changed: reboot, requested by root";
    assert!(m.console().contains(overtaken), "{}", m.console());
    m.skip("deaf.service");
    let console = m.wait_for_end();
    assert!(console.contains("deaf.service: WR-0029"), "{console}");
    assert!(!console.contains("stop job: canceled"), "its stop goes on: {console}");
    assert!(console.contains("deaf.service: killing by SIGKILL: player (pid "), "{console}");
}

/// What is asked for by a signal, by `warren poweroff` or by a unit is what `systemctl poweroff` does.
#[test]
fn an_end_starts_its_target_and_leaves_alone_what_nothing_stops() {
    let last = "[Unit]\nDefaultDependencies=no\nAfter=shutdown.target\nBefore=poweroff.service\n\
                [Service]\nType=oneshot\nExecStart=@P append:@D/out/last:ran";
    let store = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=@P stay\n\
                 ExecStop=@P append:@D/out/last:stopped";
    let target = format!("{}\nWants=last.service", POWEROFF[0].1);
    let units = [
        ("poweroff.target", &*target),
        POWEROFF[1],
        ("deaf.service", DEAF),
        ("last.service", last),
        ("store.service", store),
    ];
    for kills in [false, true] {
        let Some(mut m) = Machine::start("by-files", &units) else { return };
        m.expect_job("start", "deaf.service", "done");
        m.expect_job("start", "store.service", "done");
        m.leave("poweroff");
        until("it is waited for", || {
            m.call("Shutdown", &json!({}))["waits"][0].is_object().then_some(())
        });
        assert!(!kills || m.kill_manager());
        m.skip("deaf.service");
        let console = m.wait_for_end();
        assert_eq!(m.lines("last"), ["ran"], "{console}");
        let told = "The system is shutting down: power off, requested by root";
        assert_eq!(console.matches(told).count(), 1, "{console}");
        assert!(
            console.contains("1 process still running after all units have stopped: player"),
            "{console}"
        );
        assert!(console.contains("The system is down."), "{console}");
    }
}

/// What is started as a part of the end is waited for, is told of, counts for the time of the end and can be
/// skipped, like stops.
#[test]
fn what_an_end_starts_is_named_and_can_be_skipped() {
    let late = "[Unit]\nDefaultDependencies=no\nAfter=shutdown.target\nBefore=poweroff.service\n\
                [Service]\nType=oneshot\nExecStart=@P stay";
    let target = format!("{}\nWants=late.service", POWEROFF[0].1);
    let units = [("poweroff.target", &*target), POWEROFF[1], ("late.service", late)];
    let Some(mut m) = Machine::start("starts", &units) else { return };
    begin_poweroff_target(&m);
    let wait = until("it is waited for", || {
        let wait = m.call("Shutdown", &json!({}))["waits"][0].clone();
        wait["process"].is_string().then_some(wait)
    });
    assert_eq!((&wait["unit"], &wait["phase"]), (&json!("late.service"), &json!("start")));
    assert_eq!(m.call("Top", &json!({}))["waits_total"], 1);
    let why = m.call("Why", &json!({"unit": "late.service"}))["units"][0]["path"][0].clone();
    let cure = why["reason"]["cure"].to_string();
    assert!(cure.contains("warren shutdown skip late.service"), "{why}");
    let told = "waiting for late.service (start, pid ";
    until("the console names it", || m.console().contains(told).then_some(()));
    m.skip("late.service");
    let console = m.wait_for_end();
    assert!(console.contains(", longest late.service "), "{console}");
    let recording = recording(&m, "shutdown").expect("it was kept");
    let analysis = Analysis::of(&recording);
    let on_path = |step: &Step| {
        analysis.name(analysis.timeline.bars[step.bar as usize].row) == "late.service"
    };
    assert!(analysis.path.steps.iter().any(on_path), "{:?}", analysis.path);
}

#[test]
fn an_end_whose_target_leads_nowhere_or_is_overtaken_comes_all_the_same() {
    let nowhere = "[Unit]\nDefaultDependencies=no\nRequires=shutdown.target\nAfter=shutdown.target";
    let refused = "[Unit]\nDefaultDependencies=no\nRequires=nothing.service";
    for target in [nowhere, refused, ""] {
        let units = [("poweroff.target", target), ("a.service", "[Service]\nExecStart=@P stay")];
        let Some(mut m) = Machine::start("nowhere", &units) else { return };
        m.expect_job("start", "a.service", "done");
        m.leave("poweroff");
        let console = m.wait_for_end();
        assert!(console.contains("The system is down."), "{target}: {console}");
    }
    let units = [POWEROFF[0], POWEROFF[1], ("deaf.service", DEAF)];
    let Some(mut m) = Machine::start("overtaken", &units) else { return };
    m.expect_job("start", "deaf.service", "done");
    m.leave("poweroff");
    m.leave("reboot");
    m.skip("deaf.service");
    let console = m.wait_for_end();
    assert_eq!(console.matches("was changed").count(), 1, "{console}");
    assert!(console.contains("The poweroff was changed: reboot"), "{console}");
}

/// By when all units are down; the wait can be ended by who has it.
#[test]
fn who_outlived_his_unit_is_named_and_can_be_skipped() {
    let stays =
        "[Service]\nType=notify\nSendSIGKILL=no\nTimeoutStopSec=100ms\nExecStart=@P deaf:ready";
    let Some(mut m) = Machine::start("outlives", &[("stays.service", stays)]) else { return };
    m.expect_job("start", "stays.service", "done");
    let pid = m.main_pid("stays.service").expect("it runs");
    m.leave("poweroff");
    let waited = until("its process is waited for", || {
        let waits = m.call("Shutdown", &json!({}))["waits"].clone();
        waits[0]["phase"].as_str().filter(|phase| *phase == "left over")?;
        Some(waits)
    });
    assert_eq!((&waited[0]["unit"], &waited[0]["pid"]), (&json!("stays.service"), &json!(pid)));
    assert!(waited[0]["left_us"].as_u64().is_some_and(|left| left > 60_000_000), "{waited}");
    assert_eq!(m.call("Why", &json!({}))["waits"][0]["phase"], "left over");
    assert_eq!(m.call("Top", &json!({}))["waits"][0]["phase"], "left over");
    m.skip("stays.service");
    let console = m.wait_for_end();
    assert!(
        console.contains("stays.service: killing its remaining processes, requested by"),
        "{console}"
    );
    assert!(!console.contains("did not exit after SIGTERM"), "{console}");
    assert!(console.contains(", 1 killed."), "{console}");
}

/// What no unit's own time ends.
#[test]
fn all_of_an_end_has_a_time() {
    let arguments = ["--", "--end-within=1500ms"];
    let of_files = [POWEROFF[0], POWEROFF[1], ("deaf.service", DEAF)];
    for (name, units) in [("in-time-files", &of_files[..]), ("in-time", &of_files[2..])] {
        let Some(mut m) = Machine::start_with(name, units, &arguments) else { return };
        m.expect_job("start", "deaf.service", "done");
        match name {
            "in-time" => m.leave("poweroff"),
            _ => begin_poweroff_target(&m),
        }
        let console = m.wait_for_end();
        assert!(console.contains("the shutdown timed out: "), "{name}: {console}");
        assert!(
            console.contains("did not exit after SIGTERM; killing: player"),
            "{name}: {console}"
        );
        assert!(console.contains("The system is down."), "{name}: {console}");
    }
}

/// Nobody would end it else.
#[test]
fn what_holds_nothing_to_save_is_not_asked_by_an_end_of_files() {
    let sudden = format!("{DEAF}\n[X-Warren]\nStopPolicy=sudden");
    let units = [POWEROFF[0], POWEROFF[1], ("sudden.service", &*sudden)];
    let Some(mut m) = Machine::start("sudden-of-files", &units) else { return };
    m.expect_job("start", "sudden.service", "done");
    begin_poweroff_target(&m);
    let console = m.wait_for_end();
    assert_eq!(console.matches("The system is shutting down").count(), 1, "{console}");
    assert!(console.contains("The system is down."), "{console}");
    assert!(!console.contains("killing by SIGKILL"), "it is the ordinary way: {console}");
}

/// systemctl(1), `--force`: processes are killed at once, and no command of a stop runs.
#[test]
fn an_end_by_force_stops_no_unit() {
    let stays = "[Service]\nTimeoutStopSec=infinity\nExecStart=@P stay\nExecStop=@P append:@D/out/stops:stops";
    let units = [POWEROFF[0], POWEROFF[1], ("deaf.service", DEAF), ("stays.service", stays)];
    let Some(mut m) = Machine::start("by-force", &units) else { return };
    if !lab::has_systemctl("an_end_by_force_stops_no_unit") {
        return;
    }
    m.expect_job("start", "deaf.service", "done");
    m.expect_job("start", "stays.service", "done");
    let keys = m.make_console();
    let _ = m.run(&["systemctl", "--no-wall", "--force", "poweroff"]);
    m.skip_left(&keys);
    let console = m.wait_for_end();
    assert!(m.lines("stops").is_empty(), "{console}");
    assert!(console.contains("still running after all units have stopped"), "{console}");
}

#[test]
fn an_end_by_force_is_shown_from_its_beginning() {
    let Some(mut m) = Machine::start("force-shown", &[("deaf.service", DEAF)]) else { return };
    m.expect_job("start", "deaf.service", "done");
    assert_eq!(m.totals()["state"], "running");
    let keys = m.make_console();
    // RTMIN+14 of systemd(1): the power goes off at once.
    process::kill(m.init_pid, 34 + 14).expect("our own");
    let left = || m.console().contains("still running after all units have stopped").then_some(());
    until("the last steps are taken", left);
    assert_eq!(m.totals()["state"], "stopping");
    m.skip_left(&keys);
    m.wait_for_end();
}

#[test]
fn who_asked_for_an_end_is_told() {
    let Some(mut m) = Machine::start("asked-by", &[("deaf.service", DEAF)]) else { return };
    m.expect_job("start", "deaf.service", "done");
    m.call("Leave", &json!({"how": "poweroff", "after": "1h"}));
    m.call("CancelLeave", &json!({}));
    m.leave("poweroff");
    // RTMIN+5 of systemd(1).
    process::kill(m.init_pid, 34 + 5).expect("our own");
    let told = "The poweroff was changed: reboot, requested by signal RTMIN+5 to process 1.";
    until("it is overtaken", || m.console().contains(told).then_some(()));
    m.skip("deaf.service");
    let console = m.wait_for_end();
    for told in [
        "poweroff scheduled by root",
        "scheduled shutdown cancelled by root",
        "The system is shutting down: power off, requested by root",
    ] {
        assert!(console.contains(told), "{told}: {console}");
    }
}

/// systemd(1), "SIGINT".
#[test]
fn ctrl_alt_del_starts_its_target_in_a_container_too() {
    let units = [
        ("ctrl-alt-del.target", "[Unit]\nDefaultDependencies=no\nWants=typed.service"),
        ("typed.service", "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=@P stay"),
    ];
    let Some(mut m) = Machine::start("ctrl-alt-del", &units) else { return };
    process::kill(m.init_pid, 2).expect("our own");
    m.wait_for("typed.service", "active/running");
    m.leave("poweroff");
    m.wait_for_end();
}

/// The server is none of the machine's, so nothing lets its client go.
#[test]
fn whom_the_kernel_holds_is_named_and_waited_for_once() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("held", "/dev/fuse");
    }
    let client = "[Service]\nTimeoutStopSec=1\nExecStart=/bin/cat /run/files/never";
    let Some(mut m) = Machine::start("held", &[("client.service", client)]) else { return };
    let server = m.serve_files();
    m.expect_job("start", "client.service", "done");
    m.wait_until_held("cat");
    m.expect_job("stop", "client.service", "done");
    let why = m.call("Why", &json!({"unit": "client.service"}));
    let told = &why["units"][0]["path"][0];
    assert_eq!(told["reason"]["code"], "WR-0098", "{why}");
    let left = told["left_over"][0].as_str().unwrap_or_default();
    assert!(
        left.starts_with("cat (pid ") && left.ends_with(", in uninterruptible sleep)"),
        "{why}"
    );
    m.leave("poweroff");
    until("it is down", || m.console().contains("The system is down.").then_some(()));
    // Its process 1 cannot leave before its last process.
    drop(server);
    let console = m.wait_for_end();
    assert_eq!(console.matches("client.service: WR-0044").count(), 1, "{console}");
    assert_eq!(console.matches("client.service: WR-0098").count(), 1, "{console}");
    assert!(console.contains("1 leftover process: cat (pid "), "{console}");
    assert!(console.contains(", in uninterruptible sleep)"), "{console}");
    assert!(console.contains("1 process killed earlier and still running: cat"), "{console}");
    assert!(!console.contains("still running after all units have stopped: cat"), "{console}");
    assert!(console.contains("1 process in uninterruptible sleep: cat"), "{console}");
}

/// Process 1 of a host reads it before it restarts.
#[test]
fn a_restart_that_a_unit_asks_for_has_its_argument() {
    let fatal =
        "[Unit]\nFailureAction=reboot\nRebootArgument=0 tryboot\n[Service]\nExecStart=/bin/false";
    let units = [("deaf.service", DEAF), ("fatal.service", fatal)];
    let Some(m) = Machine::start("argument", &units) else { return };
    m.expect_job("start", "deaf.service", "done");
    m.call("Job", &json!({"unit": "fatal.service", "wait": false}));
    until("the end begins", || (m.totals()["stopping"] == true).then_some(()));
    let file = m.inside("/run/systemd/reboot-param");
    assert_eq!(std::fs::read_to_string(file).expect("it is there"), "0 tryboot\n");
}
