//! Ends of processes that the manager learns of in unusual ways.

mod lab;

use lab::{Machine, until};
use serde_json::json;

/// Small, so that it is soon full.
const RING: usize = 16;

/// A spawn that is never answered, for its program does not come, keeps records of orphans in the ring: each
/// may be that of the new process.
#[test]
fn ends_are_heard_of_however_many_orphans_end_while_a_process_waits_for_its_program() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("ends-ring", "/dev/fuse");
    }
    let orphans = format!(
        "[Service]\nType=oneshot\n\
         ExecStart=/bin/sh -c 'n=0; while test $$n -lt {}; do (true &); n=$$((n+1)); done'",
        RING * 4
    );
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("held.service", "[Service]\nType=exec\nExecStart=/run/files/never"),
        ("plain.service", "[Service]\nExecStart=@P stay"),
        ("orphans.service", &*orphans),
    ];
    let ring = format!("--ring={RING}");
    let Some(m) = Machine::start_with("ends-ring", &units, &[&ring]) else { return };
    m.expect_job("start", "server.service", "done");
    m.call("Job", &json!({"type": "start", "unit": "held.service", "wait": false}));
    m.expect_job("start", "plain.service", "done");
    until("it is made", || (!m.unborn_pids().is_empty()).then_some(()));
    for _ in 0..2 {
        m.expect_job("start", "orphans.service", "done");
        m.expect_job("restart", "plain.service", "done");
        assert!(m.kill_manager());
        m.wait_until_it_listens();
        m.expect_job("restart", "plain.service", "done");
        assert_eq!(m.state("held.service"), "activating/start");
    }
}

/// Whether the numbers of processes of a pid namespace can be made few (since Linux 6.14): in older kernels that
/// is for the whole machine.
fn namespaces_have_their_numbers() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (parts.next(), parts.next()) >= (Some(6), Some(14))
}

/// Numbers of processes come again, and the one that is waited for all the time may have any.
#[test]
fn a_process_with_the_number_of_an_orphan_that_ended_is_not_taken_for_it() {
    if !std::path::Path::new("/dev/fuse").exists() || !namespaces_have_their_numbers() {
        return lab::not_run("ends-numbers", "/dev/fuse and Linux 6.14");
    }
    let orphans = "[Service]\nType=oneshot\n\
                   ExecStart=/bin/sh -c 'n=0; while test $$n -lt 400; do (true &); n=$$((n+1)); done'";
    let units = [
        ("server.service", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("held.service", "[Service]\nType=exec\nExecStart=/run/files/never"),
        ("plain.service", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=@P stay"),
        ("orphans.service", orphans),
    ];
    let Some(m) = Machine::start("ends-numbers", &units) else { return };
    m.run(&["sh", "-c", "echo 500 > /proc/sys/kernel/pid_max"]).expect("it can be written");
    m.expect_job("start", "server.service", "done");
    m.call("Job", &json!({"type": "start", "unit": "held.service", "wait": false}));
    until("it is made", || (!m.unborn_pids().is_empty()).then_some(()));
    m.expect_job("start", "orphans.service", "done");
    for round in 0..40 {
        m.expect_job("restart", "plain.service", "done");
        assert_eq!(m.state("plain.service"), "active/running");
        if round % 10 == 9 {
            assert!(m.kill_manager());
            m.wait_until_it_listens();
            // Orders are taken when it has read what ended before.
            m.expect_job("start", "server.service", "done");
            assert_eq!(m.state("plain.service"), "active/running");
        }
    }
}

/// What a service's first process left behind: a main process that is named in the file, and its parent.
#[test]
fn the_end_of_a_process_that_a_pid_file_names_is_heard_of_while_its_parent_lives() {
    let unit = "[Service]\nType=forking\nPIDFile=/run/sub/main.pid\nExecStart=/bin/sh -c '\
                (sleep 1000 & mkdir /run/sub; echo $$! > /run/sub/main.pid; exec @P stay) &'";
    let Some(m) = Machine::start("ends-pid-file", &[("forks.service", unit)]) else { return };
    for kills_manager in [false, true] {
        m.expect_job("start", "forks.service", "done");
        let main = m.main_pid("forks.service").expect("it is named").to_string();
        if kills_manager {
            assert!(m.kill_manager());
            m.wait_until_it_listens();
        }
        m.run(&["kill", "-KILL", &main]).expect("it can be killed");
        m.wait_for("forks.service", "inactive/dead");
        m.run(&["rm", "-r", "/run/sub"]).expect("the directory is there");
    }
}

/// More than there may be threads.
const WAITERS: usize = 70;

/// Neither conditions nor services whose PID files do come.
#[test]
fn services_whose_pid_files_do_not_come_hold_up_nobody_else() {
    let waits = "[Service]\nType=forking\nTimeoutStartSec=infinity\nPIDFile=/run/never.pid\n\
                 ExecStart=@P fork: stay";
    let names: Vec<String> = (0..WAITERS).map(|n| format!("waits-{n}.service")).collect();
    let all = format!("[Unit]\nWants={}", names.join(" "));
    let plain = "[Unit]\nConditionPathExists=/run\n[Service]\nExecStart=@P stay";
    let forks = "[Service]\nType=forking\nPIDFile=/run/f.pid\nExecStart=@P fork:/run/f.pid stay";
    let mut units = vec![("all.target", &*all), ("plain.service", plain), ("forks.service", forks)];
    units.extend(names.iter().map(|name| (&**name, waits)));
    let Some(m) = Machine::start("ends-waits", &units) else { return };
    m.call("Job", &json!({"type": "start", "unit": "all.target", "wait": false}));
    let waits_for_file =
        |name: &String| m.players().len() >= WAITERS && m.state(name) == "activating/start";
    until("all wait", || names.iter().all(waits_for_file).then_some(()));
    m.call("Job", &json!({"type": "start", "unit": "plain.service", "wait": false}));
    m.wait_for("plain.service", "active/running");
    m.expect_job("stop", "waits-0.service", "done");
    m.expect_job("restart", "plain.service", "done");
    m.expect_job("start", "forks.service", "done");
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    m.expect_job("restart", "forks.service", "done");
}
