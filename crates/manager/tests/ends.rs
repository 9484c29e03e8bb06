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
