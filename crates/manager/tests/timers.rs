//! Timers of a running manager: stamp files, zones, and what a killed manager goes on with.

mod lab;

use std::time::{Duration, SystemTime};

use lab::{Machine, pause, until};
use warren_testkit::wait_until;

/// A service that writes a line each time that it runs.
const COUNTS: &str = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\n\
                      ExecStart=/bin/sh -c 'echo $TRIGGER_UNIT >> @D/out/runs'";

fn timer(settings: &str) -> String {
    format!("[Unit]\nDefaultDependencies=no\n[Timer]\nAccuracySec=1us\nUnit=a.service\n{settings}")
}

fn runs(machine: &Machine) -> usize {
    machine.lines("runs").len()
}

#[track_caller]
fn wait_for_runs(machine: &Machine, count: usize) {
    wait_until(&format!("{count} runs"), || runs(machine) >= count);
}

#[test]
fn a_timer_elapses_and_says_what_it_waits_for() {
    let once = timer("OnActiveSec=200ms");
    let units = [
        ("a.service", COUNTS),
        ("once.timer", &once),
        ("far.timer", &timer("OnCalendar=2199-01-01")),
    ];
    let Some(machine) = Machine::start("timer-elapses", &units) else { return };
    machine.expect_job("start", "far.timer", "done");
    assert_eq!(machine.state("far.timer"), "active/waiting");
    machine.expect_job("start", "once.timer", "done");
    wait_for_runs(&machine, 1);
    machine.wait_for("once.timer", "active/elapsed");
    assert_eq!(machine.lines("runs"), ["once.timer"]);
    machine.expect_job("stop", "once.timer", "done");
    assert_eq!(machine.state("once.timer"), "inactive/dead");
    // Started again it counts anew.
    machine.expect_job("start", "once.timer", "done");
    wait_for_runs(&machine, 2);
}

#[test]
fn what_was_missed_is_made_up_for_by_the_stamp_file() {
    let hourly = timer("OnCalendar=hourly\nPersistent=yes");
    let units = [("a.service", COUNTS), ("b.timer", &hourly), ("new.timer", &hourly)];
    let stamps = std::env::temp_dir().join(format!("warren-stamps-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&stamps);
    std::fs::create_dir(&stamps).expect("a directory can be made");
    let stamp = stamps.join("stamp-b.timer");
    let long_ago = SystemTime::now() - Duration::from_secs(7300);
    let file = std::fs::File::create(&stamp).expect("a file can be made");
    file.set_modified(long_ago).expect("its time can be set");
    let option = format!("--timer-path={}", stamps.display());
    let Some(machine) = Machine::start_with("timer-stamp", &units, &["--", &option]) else {
        return;
    };
    let begin = SystemTime::now() - Duration::from_secs(1);
    // One that is new has nothing to make up for.
    machine.expect_job("start", "new.timer", "done");
    until("its stamp is made", || stamps.join("stamp-new.timer").metadata().ok());
    machine.expect_job("start", "b.timer", "done");
    wait_for_runs(&machine, 1);
    let stamped = || std::fs::metadata(&stamp).and_then(|found| found.modified()).ok();
    until("it is stamped", || stamped().filter(|at| *at > begin));
    assert_eq!(machine.lines("runs"), ["b.timer"]);
    // And is not made up for twice.
    machine.expect_job("restart", "b.timer", "done");
    pause(Duration::from_millis(300));
    assert_eq!(runs(&machine), 1);
    let _ = std::fs::remove_dir_all(&stamps);
}

#[test]
fn zones_are_read_and_those_that_are_none_are_said() {
    let has_zones = std::path::Path::new("/usr/share/zoneinfo/Europe/Berlin").exists();
    if !has_zones {
        return lab::not_run(
            "zones_are_read_and_those_that_are_none_are_said",
            "/usr/share/zoneinfo",
        );
    }
    let here = timer("OnCalendar=*:*:* Europe/Berlin");
    let nowhere = timer("OnCalendar=daily Nowhere/At");
    let both = timer("OnCalendar=daily Nowhere/At\nOnCalendar=2199-01-01");
    let units = [
        ("a.service", COUNTS),
        ("here.timer", &*here),
        ("no.timer", &nowhere),
        ("both.timer", &both),
    ];
    let Some(machine) = Machine::start("timer-zones", &units) else { return };
    machine.expect_job("start", "here.timer", "done");
    wait_for_runs(&machine, 2);
    machine.expect_job("stop", "here.timer", "done");
    machine.job("start", "no.timer");
    machine.wait_for("no.timer", "failed/failed");
    assert!(machine.console().contains("unknown time zone Nowhere/At"), "{}", machine.console());
    machine.expect_job("start", "both.timer", "done");
    machine.wait_for("both.timer", "active/waiting");
}

#[test]
fn a_killed_manager_misses_no_elapse_and_repeats_none() {
    let each = timer("OnActiveSec=300ms\nOnUnitActiveSec=600ms");
    let units =
        [("a.service", COUNTS), ("each.timer", &*each), ("once.timer", &timer("OnBootSec=1ms"))];
    let Some(machine) = Machine::start("timer-killed", &units) else { return };
    machine.expect_job("start", "once.timer", "done");
    wait_for_runs(&machine, 1);
    machine.wait_for("once.timer", "active/elapsed");
    assert!(machine.kill_manager());
    machine.totals();
    assert_eq!(machine.state("once.timer"), "active/elapsed");
    machine.expect_job("start", "each.timer", "done");
    for kill in 1..4 {
        wait_for_runs(&machine, 1 + kill);
        assert!(machine.kill_manager());
        machine.totals();
    }
    let of_once = machine.lines("runs").iter().filter(|line| *line == "once.timer").count();
    assert_eq!(of_once, 1, "{:?}", machine.lines("runs"));
}

/// A public report: with every reload it elapsed once more, 10 s later.
#[test]
fn reloads_without_an_edit_change_nothing() {
    let units =
        [("a.service", COUNTS), ("b.timer", &timer("OnActiveSec=500ms\nOnCalendar=2199-01-01"))];
    let Some(machine) = Machine::start("timer-reload", &units) else { return };
    machine.expect_job("start", "b.timer", "done");
    for _ in 0..20 {
        machine.call("ReloadConfiguration", &serde_json::json!({}));
        pause(Duration::from_millis(100));
    }
    assert_eq!(runs(&machine), 1);
    // An edit counts from when it was made.
    machine.write("b.timer", &timer("OnActiveSec=10ms\nOnUnitActiveSec=1h"));
    machine.call("ReloadConfiguration", &serde_json::json!({}));
    pause(Duration::from_millis(300));
    assert_eq!(runs(&machine), 1);
}

#[test]
fn systemctl_shows_timers_and_paths() {
    if !lab::has_systemctl("systemctl_shows_timers_and_paths") {
        return;
    }
    let daily = "[Unit]\nDefaultDependencies=no\n[Timer]\nOnCalendar=03:04\nOnCalendar=Mon *-*-* 04:05:06.5 UTC\n\
                 RandomizedDelaySec=1h\nPersistent=yes\nAccuracySec=5s\nUnit=a.service";
    let units = [
        ("a.service", COUNTS),
        ("daily.timer", daily),
        ("mono.timer", &timer("OnActiveSec=1h\nOnUnitActiveSec=2h\nRemainAfterElapse=no")),
        (
            "p.path",
            "[Unit]\nDefaultDependencies=no\n[Path]\nPathChanged=/tmp\nPathExistsGlob=/no/*\nUnit=a.service",
        ),
    ];
    let Some(machine) = Machine::start("timer-systemctl", &units) else { return };
    let run = |words: &[&str]| {
        let argv = [&["systemctl"], words].concat();
        machine.run(&argv).unwrap_or_else(|said| format!("failed: {said}"))
    };
    let show =
        |unit: &str, what: &str| run(&["show", "-p", what, "--value", unit]).trim().to_owned();
    assert_eq!(show("mono.timer", "NextElapseUSecMonotonic"), "infinity");
    assert_eq!(run(&["start", "daily.timer", "mono.timer", "p.path"]), "");
    let listed = run(&["list-timers", "--all", "--no-pager"]);
    for words in ["59min left", "mono.timer", "daily.timer a.service", "2 timers listed."] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let calendars = show("daily.timer", "TimersCalendar");
    for words in ["OnCalendar=*-*-* 03:04:00 ;", "OnCalendar=Mon *-*-* 04:05:06.500000 UTC ;"] {
        assert!(calendars.contains(words), "{calendars}");
    }
    assert!(show("mono.timer", "TimersMonotonic").contains("OnUnitActiveUSec=2h ;"));
    assert_eq!(show("daily.timer", "NextElapseUSecMonotonic"), "infinity");
    assert_eq!(show("daily.timer", "AccuracyUSec"), "5s");
    assert_eq!(show("daily.timer", "RandomizedDelayUSec"), "1h");
    assert_eq!(show("mono.timer", "RemainAfterElapse"), "no");
    assert_eq!(show("daily.timer", "Triggers"), "a.service");
    assert_eq!(show("p.path", "Paths"), "/tmp (PathChanged)\n/no/* (PathExistsGlob)");
    assert!(run(&["status", "daily.timer", "--no-pager"]).contains("active (waiting)"));
    assert_eq!(run(&["restart", "mono.timer", "p.path"]), "");
    assert_eq!(run(&["is-active", "mono.timer", "p.path"]), "active\nactive\n");
}
