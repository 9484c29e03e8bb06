//! Calls that clients of today use and that systemd 252 does not have, or that change the manager itself.

mod lab;

use lab::{Machine, until};

fn run(m: &Machine, line: &str) -> String {
    m.run(&["sh", "-c", line]).expect("sh(1) runs")
}

/// What systemctl prints on both streams, and its exit status.
fn systemctl(m: &Machine, arguments: &str) -> String {
    run(m, &format!("systemctl {arguments} 2>&1; echo \"= $?\""))
}

/// What busctl prints of a method of the manager.
fn call(m: &Machine, arguments: &str) -> String {
    let to = "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager";
    let bus = "busctl --address=unix:path=/run/systemd/private";
    run(m, &format!("{bus} call {to} {arguments} 2>&1; true"))
}

#[test]
fn a_signal_comes_with_its_value() {
    let test = "a_signal_comes_with_its_value";
    let unit = "[Service]\nType=notify\nNotifyAccess=all\nExecStart=@P value:@D/out/value stay\n";
    let Some(m) = Machine::start("queue-signal", &[("value.service", unit)]) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    m.expect_job("start", "value.service", "done");
    let plain = call(&m, "QueueSignalUnit ssii value.service main 15 1");
    assert_eq!(plain, "Call failed: Value parameter only accepted for realtime signals.\n");
    assert_eq!(call(&m, "QueueSignalUnit ssii value.service main 35 -- -7"), "");
    // -1 is SI_QUEUE.
    until("the value is there", || (m.lines("value") == ["-7 -1"]).then_some(()));
}

#[test]
fn jobs_of_several_units_are_made_at_once() {
    let test = "jobs_of_several_units_are_made_at_once";
    let first = "[Service]\nType=oneshot\nExecStart=@P wait:300 append:@D/out/order:first\n";
    let second = "[Unit]\nAfter=first.service\n[Service]\nType=oneshot\nExecStart=@P append:@D/out/order:second\n";
    let rival = "[Unit]\nConflicts=first.service\n[Service]\nExecStart=@P stay\n";
    let units = [("first.service", first), ("second.service", second), ("rival.service", rival)];
    let Some(m) = Machine::start("enqueue-many", &units) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    let refused =
        call(&m, "EnqueueUnitJobMany assst 2 first.service rival.service start replace 0");
    assert!(refused.starts_with("Call failed: "), "{refused}");
    let refused = call(&m, "EnqueueUnitJobMany assst 2 first.service none.service start replace 0");
    assert_eq!(refused, "Call failed: Unit none.service not found.\n");
    assert_eq!(m.state("first.service"), "inactive/dead", "all of them or none");
    let made = call(&m, "EnqueueUnitJobMany assst 2 second.service first.service start replace 0");
    let words: Vec<&str> = made.split(' ').collect();
    assert_eq!(words[..2], ["a(uosos)", "2"], "{made}");
    assert_eq!((words[4], words[6]), ("\"second.service\"", "\"start\""), "{made}");
    until("both are done", || (m.lines("order") == ["first", "second"]).then_some(()));
}

#[test]
fn a_group_below_a_units_is_killed_and_removed() {
    let test = "a_group_below_a_units_is_killed_and_removed";
    let unit = "[Service]\nDelegate=yes\nExecStart=@P stay\n";
    let Some(m) = Machine::start("subgroup", &[("own.service", unit)]) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    m.expect_job("start", "own.service", "done");
    let main = m.main_pid("own.service").expect("it runs");
    let pid = run(&m, "sleep 1000 >/dev/null 2>&1 & echo $!");
    let pid = pid.trim();
    assert_eq!(call(&m, &format!("AttachProcessesToUnit ssau own.service deep/er 1 {pid}")), "");
    let groups = || -> Vec<String> {
        m.groups().into_keys().filter(|group| group.contains("own.service")).collect()
    };
    assert_eq!(groups().len(), 3, "{:?}", groups());
    let none = call(&m, "KillUnitSubgroup sssi own.service cgroup none 9");
    assert_eq!(none, "Call failed: There is no control group none below the unit's.\n");
    let busy = call(&m, "RemoveSubgroupFromUnit sst own.service deep 0");
    assert_eq!(busy, "Call failed: Control group deep has processes.\n");
    assert_eq!(call(&m, "KillUnitSubgroup sssi own.service cgroup deep 9"), "");
    until("it is gone", || {
        let removed = call(&m, "RemoveSubgroupFromUnit sst own.service deep 0");
        removed.is_empty().then_some(())
    });
    assert_eq!(groups().len(), 1, "{:?}", groups());
    assert_eq!(m.main_pid("own.service"), Some(main), "the others live");
}

#[test]
fn what_a_service_has_stored_is_told() {
    let test = "what_a_service_has_stored_is_told";
    let unit = "[Service]\nType=notify\nNotifyAccess=all\nFileDescriptorStoreMax=4\nExecStart=@P store:kept ready stay\n";
    let Some(m) = Machine::start("dump-store", &[("own.service", unit)]) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    m.expect_job("start", "own.service", "done");
    until("it is stored", || {
        let stored = call(&m, "DumpUnitFileDescriptorStore s own.service");
        stored.starts_with("a(suuutuusu) 1 \"kept\" 3").then_some(())
    });
}

#[test]
fn service_watchdogs_are_switched_off_and_on() {
    let test = "service_watchdogs_are_switched_off_and_on";
    let unit = "[Service]\nType=notify\nNotifyAccess=all\nWatchdogSec=200ms\nTimeoutStopSec=5\nExecStart=@P ready stay\n";
    let Some(m) = Machine::start("watchdogs", &[("own.service", unit)]) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    assert_eq!(systemctl(&m, "service-watchdogs"), "yes\n= 0\n");
    assert_eq!(systemctl(&m, "service-watchdogs no"), "= 0\n");
    m.expect_job("start", "own.service", "done");
    until("it is ignored", || m.console().contains("WR-0100").then_some(()));
    assert_eq!(m.state("own.service"), "active/running");
    m.kill_manager();
    m.wait_until_it_listens();
    assert_eq!(systemctl(&m, "service-watchdogs"), "no\n= 0\n", "the next manager goes on with it");
    assert_eq!(systemctl(&m, "service-watchdogs yes"), "= 0\n");
    m.job("restart", "own.service");
    m.wait_for("own.service", "failed/failed");
}

#[test]
fn what_the_console_shows_is_set_by_calls_and_signals_and_outlives_the_manager() {
    const NAME: &str =
        "what_the_console_shows_is_set_by_calls_and_signals_and_outlives_the_manager";
    let stay = "[Service]\nExecStart=@P stay\n";
    let arguments = ["--", "--log-time=no", "--log-location"];
    let Some(mut m) = Machine::start_with("calls-status", &[("a.service", stay)], &arguments)
    else {
        return;
    };
    if !lab::has_systemctl(NAME) {
        return;
    }
    m.expect_job("start", "a.service", "done");
    let shown = |m: &Machine| {
        let show = ["systemctl", "show", "-p", "ShowStatus", "-p", "LogLevel", "-p", "LogTarget"];
        m.run(&show).expect("systemctl runs").replace('\n', " ")
    };
    let usual = "LogLevel=info LogTarget=auto ShowStatus=no ";
    assert_eq!(shown(&m), usual);
    let refused = call(&m, "SetShowStatus s sometimes");
    assert!(refused.contains("Invalid show status 'sometimes'"), "{refused}");
    for (mode, shows) in [("error", "no"), ("1", "yes"), ("auto", "no"), ("yes", "yes")] {
        assert_eq!(call(&m, &format!("SetShowStatus s {mode}")), "");
        assert!(shown(&m).ends_with(&format!("ShowStatus={shows} ")), "{mode}: {}", shown(&m));
    }
    assert_eq!(call(&m, "SetShowStatus s \"\""), "");
    assert_eq!(shown(&m), usual);
    // Signals of systemd(1).
    let signal = |m: &Machine, number: i32, expected: &str| {
        let signal = format!("-{}", warren_sys::signal::SIGRTMIN + number);
        m.run(&["kill", &signal, "1"]).expect("kill(1) runs");
        lab::until(expected, || (shown(m) == expected).then_some(()));
    };
    signal(&m, 20, "LogLevel=info LogTarget=auto ShowStatus=yes ");
    signal(&m, 21, usual);
    signal(&m, 22, "LogLevel=debug LogTarget=auto ShowStatus=no ");
    signal(&m, 23, usual);
    signal(&m, 27, "LogLevel=info LogTarget=console ShowStatus=no ");
    signal(&m, 26, usual);
    signal(&m, 20, "LogLevel=info LogTarget=auto ShowStatus=yes ");
    let old = m.manager_pid();
    assert!(m.kill_manager());
    lab::until("another manager answers", || {
        (m.manager_pid() != old).then(|| m.try_call("Totals", &serde_json::json!({})))?
    });
    assert_eq!(shown(&m), "LogLevel=info LogTarget=auto ShowStatus=yes ");
    m.leave("poweroff");
    let console = m.wait_for_end();
    let lines: Vec<&str> = console.lines().filter(|line| line.contains("warrend: ")).collect();
    let stopped = |line: &&&str| line.ends_with(": Stopped a.service.");
    assert_eq!(lines.iter().filter(stopped).count(), 1, "{console}");
    let has_place = |line: &&str| {
        let place = line.strip_prefix("warrend: ").and_then(|rest| rest.split_once(".rs:"));
        place.is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    assert!(lines.iter().all(has_place), "{console}");
}

/// What clients say of the machine's watchdog is in force in place of what the file says, also for the next manager. There
/// is no device here.
#[test]
fn times_of_the_watchdog_are_set_and_kept() {
    let test = "times_of_the_watchdog_are_set_and_kept";
    let Some(mut m) = Machine::start("watchdog-times", &[]) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    let busctl = |m: &Machine, verb: &str, rest: &str| {
        let of =
            "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager";
        let bus = "busctl --address=unix:path=/run/systemd/private";
        run(m, &format!("{bus} {verb} {of} {rest} 2>&1; true"))
    };
    let before = busctl(&m, "get-property", "KExecWatchdogUSec");
    for setting in [
        "RuntimeWatchdogUSec t 30000000",
        "RuntimeWatchdogPreUSec t 18446744073709551615",
        "RebootWatchdogUSec t 0",
        "RuntimeWatchdogPreGovernor s panic",
    ] {
        assert_eq!(busctl(&m, "set-property", setting), "", "{setting}");
    }
    let refused = busctl(&m, "set-property", "RuntimeWatchdogPreGovernor s ../noop");
    assert!(refused.contains("not the name of a governor"), "{refused}");
    let check = |m: &Machine| {
        for (name, expected) in [
            ("RuntimeWatchdogUSec", "t 30000000\n"),
            ("RuntimeWatchdogPreUSec", "t 18446744073709551615\n"),
            ("RebootWatchdogUSec", "t 0\n"),
            ("RuntimeWatchdogPreGovernor", "s \"panic\"\n"),
            ("KExecWatchdogUSec", &before),
        ] {
            assert_eq!(busctl(m, "get-property", name), expected, "{name}");
        }
    };
    check(&m);
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    check(&m);
    m.call("ReloadConfiguration", &serde_json::json!({}));
    check(&m);
    assert_eq!(busctl(&m, "set-property", "RuntimeWatchdogPreGovernor s \"\""), "");
    assert_eq!(busctl(&m, "get-property", "RuntimeWatchdogPreGovernor"), "s \"\"\n");
    m.leave("poweroff");
    m.wait_for_end();
}
