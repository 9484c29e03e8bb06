//! Tables of the kernel that others fill up: processes, memory, mounts. Root is answered and is told what is missing,
//! what is there stays, and all is well when there is room again.

mod lab;

use lab::bound::{BOMB, Bound};
use lab::{Machine, until};
use serde_json::json;

const STAYS: &str = "[Service]\nExecStart=@P stay";

/// A machine all of whose processes are bounded, with a service that takes what there are, and the main process of
/// another one.
fn with_bomb(name: &str) -> Option<(Machine, Bound, Option<u64>)> {
    let bomb = "[Service]\nExecStart=python3 @D/out/bomb.py\nTasksMax=infinity\nTimeoutStopSec=2";
    let units = [("bomb.service", bomb), ("a.service", STAYS), ("b.service", STAYS)];
    let m = Machine::start(name, &units)?;
    std::fs::write(m.out("bomb.py"), BOMB).expect("written");
    m.expect_job("start", "a.service", "done");
    let running = m.main_pid("a.service");
    let Some(bound) = Bound::of_machine(name, &m) else {
        lab::not_run(name, "a cgroup with the pids controller");
        return None;
    };
    let most = bound.count("pids.current") + 100;
    bound.limit(&most.to_string());
    m.expect_job("start", "bomb.service", "done");
    until("it has all", || (bound.count("pids.current") >= most).then_some(()));
    Some((m, bound, running))
}

#[test]
fn who_takes_every_process_is_stopped_by_root() {
    let Some((m, bound, running)) = with_bomb("full-processes") else { return };
    let manager = m.manager_pid();
    // Threads are kept for root.
    assert_eq!(m.status("a.service")["active"], "active");
    m.expect_job("start", "b.service", "failed");
    let status = m.status("b.service");
    assert_eq!(status["reason"]["code"], "WR-0052", "{status}");
    assert!(status.to_string().contains("Resource temporarily unavailable"), "{status}");
    m.expect_job("stop", "bomb.service", "done");
    m.expect_job("start", "b.service", "done");
    assert_eq!((m.main_pid("a.service"), m.manager_pid()), (running, manager));
    drop((m, bound));
}

/// The manager that is killed then may have no successor before there is room for it; what runs goes on.
#[test]
fn a_manager_that_is_killed_when_there_are_no_processes_is_followed_later() {
    let Some((m, bound, running)) = with_bomb("full-processes-killed") else { return };
    assert!(m.kill_manager());
    bound.limit("max");
    m.expect_job("stop", "bomb.service", "done");
    assert_eq!(m.main_pid("a.service"), running);
    m.expect_job("start", "b.service", "done");
    drop((m, bound));
}

/// It is killed for its memory in the midst of a load: the next one does it.
#[test]
fn a_manager_that_has_no_memory_for_a_load_is_followed_by_one_that_has() {
    let Some(bound) = Bound::of_memory("full-memory") else {
        return lab::not_run("full-memory", "a cgroup with the memory controller");
    };
    let Some(m) = Machine::start("full-memory", &[("a.service", STAYS)]) else { return };
    m.expect_job("start", "a.service", "done");
    let running = m.main_pid("a.service");
    let manager = m.manager_pid().expect("it runs");
    bound.take(manager);
    bound.limit("4M");
    for number in 0..5000 {
        m.write(&format!("many{number}.service"), STAYS);
    }
    m.call_while_up("ReloadConfiguration", &json!({}));
    until("it is killed", || m.manager_pid().is_some_and(|now| now != manager).then_some(()));
    assert_eq!(m.main_pid("a.service"), running);
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", "many4999.service", "done");
    drop((m, bound));
}

/// The limit is the kernel's, not a namespace's: such a test has a kernel of its own.
#[test]
fn what_needs_more_mounts_than_there_may_be_says_so() {
    const MOST: &str = "/proc/sys/fs/mount-max";
    if std::env::var_os("WARREN_OWN_KERNEL").is_none() {
        return lab::not_run(
            "what_needs_more_mounts_than_there_may_be_says_so",
            "a kernel of its own: `cargo xtask vm tests`",
        );
    }
    let protected = "[Service]\nType=exec\nPrivateTmp=yes\nPrivateDevices=yes\n\
                     ProtectKernelTunables=yes\nProtectSystem=strict\nExecStart=@P stay";
    let mount = "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=x\nWhere=/run/x\nType=tmpfs";
    let units = [("p.service", protected), ("run-x.mount", mount), ("a.service", STAYS)];
    let Some(m) = Machine::start("full-mounts", &units) else { return };
    let before = std::fs::read_to_string(MOST).expect("it can be read");
    let there = m.run(&["sh", "-c", "wc -l </proc/self/mountinfo"]).expect("it can be counted");
    std::fs::write(MOST, there.trim()).expect("the kernel takes it");
    m.job("start", "p.service");
    m.wait_for("p.service", "failed/failed");
    m.expect_job("start", "run-x.mount", "failed");
    m.expect_job("start", "a.service", "done");
    for unit in ["p.service", "run-x.mount"] {
        let said = m.status(unit).to_string();
        assert!(said.contains("No space left on device"), "{said}");
    }
    std::fs::write(MOST, before).expect("the kernel takes it");
    m.expect_job("start", "p.service", "done");
    m.expect_job("start", "run-x.mount", "done");
}
