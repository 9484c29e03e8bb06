//! Path units of a running manager: what the kernel tells of, and what it tells while the service runs.

mod lab;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use lab::{Machine, pause};
use warren_testkit::wait_until;

/// A service that writes a line each time that it runs, and takes half a second.
const SLOW: &str = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\n\
                    ExecStart=/bin/sh -c 'echo $TRIGGER_UNIT >> @D/out/runs; sleep 0.5'";

/// The same, and what it was started for is gone then.
const TAKES: &str = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\n\
                     ExecStart=/bin/sh -c 'rm -rf @D/q; echo x >> @D/out/runs'";

fn path_unit(settings: &str) -> String {
    format!("[Unit]\nDefaultDependencies=no\n[Path]\nUnit=a.service\n{settings}")
}

fn machine(name: &str, service: &str, settings: &str) -> Option<(Machine, PathBuf)> {
    let unit = path_unit(settings);
    let machine = Machine::start(name, &[("a.service", service), ("p.path", &unit)])?;
    let directory = machine.directory.clone();
    Some((machine, directory))
}

fn runs(machine: &Machine) -> usize {
    machine.lines("runs").len()
}

#[track_caller]
fn wait_for_runs(machine: &Machine, count: usize) {
    wait_until(&format!("{count} runs"), || runs(machine) >= count);
}

/// Nothing more comes.
#[track_caller]
fn stays_at(machine: &Machine, count: usize) {
    wait_until("the service is down", || machine.state("a.service") == "inactive/dead");
    pause(Duration::from_millis(300));
    assert_eq!(runs(machine), count, "{}", machine.console());
}

/// A public report: a change that came while the service ran was lost.
#[test]
fn a_change_while_the_service_runs_starts_it_once_more() {
    let Some((machine, directory)) = machine("path-runs", SLOW, "PathChanged=@D/q") else { return };
    fs::create_dir(directory.join("q")).expect("made");
    machine.expect_job("start", "p.path", "done");
    assert_eq!(machine.state("p.path"), "active/waiting");
    fs::write(directory.join("q/one"), "1").expect("written");
    wait_for_runs(&machine, 1);
    fs::write(directory.join("q/two"), "2").expect("written");
    fs::write(directory.join("q/three"), "3").expect("written");
    wait_for_runs(&machine, 2);
    stays_at(&machine, 2);
    assert_eq!(machine.state("p.path"), "active/waiting");
    machine.expect_job("stop", "p.path", "done");
    fs::write(directory.join("q/four"), "4").expect("written");
    stays_at(&machine, 2);
}

#[test]
fn a_file_counts_when_it_is_closed_and_each_write_only_where_that_is_asked_for() {
    use std::io::Write;
    let Some((machine, directory)) = machine("path-writes", SLOW, "PathChanged=@D/f") else {
        return;
    };
    let path = directory.join("f");
    fs::write(&path, "").expect("written");
    machine.expect_job("start", "p.path", "done");
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("opened");
    file.write_all(b"1").expect("written");
    stays_at(&machine, 0);
    drop(file);
    wait_for_runs(&machine, 1);
    stays_at(&machine, 1);
    // Put in place by a rename, as editors do.
    fs::write(directory.join("new"), "2").expect("written");
    fs::rename(directory.join("new"), &path).expect("renamed");
    wait_for_runs(&machine, 2);
    machine.write("p.path", &path_unit("PathModified=@D/f"));
    machine.call("ReloadConfiguration", &serde_json::json!({}));
    stays_at(&machine, 2);
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("opened");
    file.write_all(b"1").expect("written");
    wait_for_runs(&machine, 3);
}

#[test]
fn what_is_there_starts_the_service_until_it_is_gone() {
    for (kind, name) in [
        ("PathExists=@D/q", "exists"),
        ("PathExistsGlob=@D/[q]", "glob"),
        ("DirectoryNotEmpty=@D/q", "entries"),
    ] {
        let Some((machine, directory)) = machine(&format!("path-{name}"), TAKES, kind) else {
            return;
        };
        let fill = || {
            fs::create_dir_all(directory.join("q")).expect("made");
            fs::write(directory.join("q/x"), "").expect("written");
        };
        fill();
        machine.expect_job("start", "p.path", "done");
        wait_for_runs(&machine, 1);
        stays_at(&machine, 1);
        fill();
        wait_for_runs(&machine, 2);
        stays_at(&machine, 2);
        assert_eq!(machine.state("p.path"), "active/waiting", "{kind}");
    }
}

#[test]
fn a_path_may_come_step_by_step_and_its_directory_may_be_made() {
    let Some((machine, directory)) = machine("path-steps", SLOW, "PathExists=@D/a/b/c") else {
        return;
    };
    machine.expect_job("start", "p.path", "done");
    fs::create_dir(directory.join("a")).expect("made");
    pause(Duration::from_millis(100));
    fs::create_dir(directory.join("a/b")).expect("made");
    stays_at(&machine, 0);
    fs::write(directory.join("a/b/c"), "").expect("written");
    wait_for_runs(&machine, 1);
    fs::remove_file(directory.join("a/b/c")).expect("removed");
    machine.write(
        "p.path",
        &path_unit("DirectoryNotEmpty=@D/m/n\nMakeDirectory=yes\nDirectoryMode=0700"),
    );
    machine.call("ReloadConfiguration", &serde_json::json!({}));
    wait_until("the directory is made", || directory.join("m/n").is_dir());
    let before = runs(&machine);
    fs::write(directory.join("m/n/.hidden"), "").expect("written");
    stays_at(&machine, before);
    fs::write(directory.join("m/n/x"), "").expect("written");
    wait_for_runs(&machine, before + 1);
    machine.expect_job("stop", "p.path", "done");
}

#[test]
fn what_changes_while_there_is_no_manager_is_not_lost() {
    let Some((machine, directory)) = machine("path-killed", SLOW, "PathChanged=@D/q") else {
        return;
    };
    fs::create_dir(directory.join("q")).expect("made");
    machine.expect_job("start", "p.path", "done");
    // One that stands still hears of nothing.
    let pid = machine.manager_pid().and_then(lab::pid_inside).expect("there is one").to_string();
    machine.stop_server(&pid);
    fs::write(directory.join("q/one"), "1").expect("written");
    assert!(machine.kill_manager());
    machine.totals();
    wait_for_runs(&machine, 1);
    // And what has not changed starts nothing.
    stays_at(&machine, 1);
    assert!(machine.kill_manager());
    machine.totals();
    stays_at(&machine, 1);
    assert_eq!(machine.state("p.path"), "active/waiting");
}

#[test]
fn a_loop_ends_in_a_failure_that_says_why() {
    let settings = "PathExists=@D/out\nTriggerLimitIntervalSec=1min\nTriggerLimitBurst=3";
    let quick = "[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\n\
                 ExecStart=/bin/sh -c 'echo x >> @D/out/runs'";
    let Some((machine, _)) = machine("path-limit", quick, settings) else { return };
    machine.job("start", "p.path");
    machine.wait_for("p.path", "failed/failed");
    assert_eq!(runs(&machine), 3);
    assert!(
        machine.console().contains("p.path: WR-0049 triggered too often"),
        "{}",
        machine.console()
    );
}
