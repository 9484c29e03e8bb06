//! Services that make more cgroups below their own than the manager looks at or removes at once: what a thread does for it
//! then comes out the same.

mod lab;

use std::path::PathBuf;

use lab::{Machine, until};

/// More than the loop does at once, flat and within each other.
const GROUPS: usize = 1500;
const LEVELS: usize = 40;

/// The main process and another one, which is found only in the last of the groups.
const MANY: &str = "[Service]\nDelegate=yes\nTimeoutStopSec=60\nRestart=on-failure\nRestartSec=0\n\
                    ExecStart=/bin/sh -c 'trap \"exit 0\" TERM; sleep 1001 & wait'";

const OTHER: &str = "[Service]\nExecStart=@P stay";

struct Many {
    m: Machine,
}

impl Many {
    fn start(name: &str, unit: &str) -> Option<Many> {
        let m = Machine::start(name, &[("many.service", unit), ("other.service", OTHER)])?;
        m.expect_job("start", "many.service", "done");
        Some(Many { m })
    }

    fn group(&self) -> PathBuf {
        self.m.cgroup_directory().join("system.slice/many.service")
    }

    /// Its process of this name, as it is known outside of the machine.
    fn process(&self, name: &str) -> Option<i32> {
        let pids = self.m.groups().remove("/system.slice/many.service").unwrap_or_default();
        let is_called = |pid: &i32| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim() == name)
        };
        pids.into_iter().find(is_called)
    }

    /// Makes the groups, and moves the other process to the last.
    fn fill(&self) -> i32 {
        let own = self.group();
        let other = until("it has two processes", || self.process("sleep"));
        for group in 0..GROUPS {
            std::fs::create_dir(own.join(format!("g{group:05}"))).expect("root makes groups");
        }
        let deep = own.join("z/".repeat(LEVELS));
        std::fs::create_dir_all(&deep).expect("root makes groups");
        std::fs::write(deep.join("cgroup.procs"), other.to_string()).expect("it can be moved");
        other
    }

    /// Neither the groups nor the process are left.
    fn await_end_of(&self, other: i32) {
        until("the groups are gone", || {
            let is_left = |name: &str| self.group().join(name).exists();
            (!is_left("g00000") && !is_left("g01499") && !is_left("z")).then_some(())
        });
        until("the process is gone", || (!warren_sys::process::exists(other)).then_some(()));
    }
}

#[test]
fn all_are_signalled_and_all_groups_go() {
    let Some(many) = Many::start("many-groups-stop", MANY) else { return };
    let other = many.fill();
    many.m.expect_job("stop", "many.service", "done");
    many.m.expect_job("start", "other.service", "done");
    many.await_end_of(other);
    assert!(!many.m.console().contains("SIGKILL"), "{}", many.m.console());
    many.m.expect_job("start", "many.service", "done");
    let other = many.fill();
    many.m.expect_job("restart", "many.service", "done");
    many.await_end_of(other);
    assert_eq!(many.m.state("many.service"), "active/running");
    until("it has two processes again", || many.process("sleep"));
}

/// What is started again by itself begins in a group without those of its last run.
#[test]
fn a_service_that_is_restarted_waits_for_its_group() {
    let Some(many) = Many::start("many-groups-restart", MANY) else { return };
    let other = many.fill();
    let main = many.process("sh").expect("it runs");
    warren_sys::process::kill(main, 9).expect("it runs");
    many.await_end_of(other);
    until("it has two processes again", || many.process("sleep"));
    assert_eq!(many.m.status("many.service")["restarts"], 1);
}

/// The next manager removes what was being removed.
#[test]
fn a_manager_that_is_killed_leaves_no_groups() {
    let Some(many) = Many::start("many-groups-killed", MANY) else { return };
    for _ in 0..3 {
        let other = many.fill();
        many.m.expect_job("stop", "many.service", "done");
        assert!(many.m.kill_manager());
        many.await_end_of(other);
        many.m.totals();
        until("the unit's own is gone", || (!many.group().exists()).then_some(()));
        many.m.expect_job("start", "many.service", "done");
    }
}

/// Processes that `KillMode=` spares keep their groups, and the unit starts beside them.
#[test]
fn processes_that_are_spared_stay_where_they_are() {
    let spared = format!("{MANY}\nKillMode=process");
    let Some(many) = Many::start("many-groups-spared", &spared) else { return };
    let other = many.fill();
    many.m.expect_job("stop", "many.service", "done");
    until("it is named", || many.m.console().contains("1 leftover process: sleep").then_some(()));
    assert!(warren_sys::process::exists(other));
    many.m.expect_job("start", "many.service", "done");
    many.m.expect_job("stop", "many.service", "done");
    assert!(many.group().join("z").exists() && warren_sys::process::exists(other));
}
