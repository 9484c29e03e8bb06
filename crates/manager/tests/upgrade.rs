//! Programs that are replaced on the disk while the old ones run.

mod lab;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lab::{Ended, Machine};
use serde_json::json;

const UNITS: &[(&str, &str)] = &[
    ("a.service", "[Service]\nExecStart=@P stay"),
    (
        "leaves.service",
        "[Service]\nKillMode=process\nExecStart=@P stay\nExecStartPost=@P fork:/run/f.pid stay",
    ),
];

/// The programs on the disk, in a directory of their own, so that others can be put there.
struct Programs(PathBuf);

impl Programs {
    /// With this exec helper and a manager.
    fn new(test: &str, helper: &str) -> Programs {
        let name = format!("warren-programs-{}-{test}", std::process::id());
        let programs = Programs(std::env::temp_dir().join(name));
        let _ = std::fs::remove_dir_all(&programs.0);
        std::fs::create_dir(&programs.0).expect("a directory can be made");
        programs.install("warren-exec", helper);
        programs.install("warrend", env!("CARGO_BIN_EXE_warrend"));
        programs
    }

    /// As packages are installed: the new file takes the old one's name.
    fn install(&self, name: &str, program: &str) {
        let new = self.0.join("new");
        lab::install(Path::new(program), &new);
        std::fs::rename(&new, self.0.join(name)).expect("it can be renamed");
    }

    fn run(&self, test: &str) -> Option<Machine> {
        let argument = |option, name| format!("--{option}={}", self.0.join(name).display());
        let arguments = [argument("exec", "warren-exec"), argument("manager", "warrend")];
        Machine::start_with(test, UNITS, &arguments.each_ref().map(String::as_str))
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn foreign() -> String {
    lab::example("foreign_exec")
}

fn ours() -> String {
    lab::program_of("warren-init", "warren-exec")
}

#[track_caller]
fn reexecute(m: &Machine) {
    let old = m.manager_pid();
    let _ = m.try_call("Reexecute", &json!({}));
    lab::until("another manager", || m.manager_pid().filter(|pid| Some(*pid) != old));
}

#[test]
fn helpers_of_another_version_are_named_and_go_with_a_reexec() {
    let programs = Programs::new("foreign", &foreign());
    let Some(m) = programs.run("foreign") else { return };
    assert_eq!(m.job("start", "a.service"), Ended::Said("failed".to_owned()));
    let said = "warren-exec is of another version of Warrener than warrend";
    assert!(m.console().contains(said), "{}", m.console());
    programs.install("warren-exec", &ours());
    reexecute(&m);
    m.expect_job("start", "a.service", "done");
}

#[test]
fn a_reexec_brings_new_helpers_and_disturbs_no_service() {
    let programs = Programs::new("replaced", &ours());
    let Some(m) = programs.run("replaced") else { return };
    m.expect_job("start", "a.service", "done");
    let (pid, before) = (m.main_pid("a.service"), m.all_helpers());
    reexecute(&m);
    let is_old = |pid: &i32| before.contains(pid);
    let all_new = || m.helper_pids().len() == before.len() && !m.helper_pids().iter().any(is_old);
    lab::until("new helpers", || all_new().then_some(()));
    assert_eq!(m.main_pid("a.service"), pid);
    m.expect_job("restart", "a.service", "done");
}

#[test]
fn a_manager_that_finds_newer_helpers_makes_room_for_the_newer_manager() {
    let programs = Programs::new("newer", &ours());
    let Some(m) = programs.run("newer") else { return };
    m.expect_job("start", "a.service", "done");
    let (pid, old) = (m.main_pid("a.service"), m.manager_pid());
    programs.install("warrend", env!("CARGO_BIN_EXE_warrend"));
    programs.install("warren-exec", &foreign());
    assert!(m.kill_helper());
    lab::until("another manager", || m.manager_pid().filter(|pid| Some(*pid) != old));
    assert!(m.console().contains("programs on disk have changed"), "{}", m.console());
    // To this one its helpers are foreign too, but it is the one on the disk and stays.
    programs.install("warren-exec", &ours());
    reexecute(&m);
    assert_eq!(m.main_pid("a.service"), pid);
    m.expect_job("restart", "a.service", "done");
}

/// What was asked of helpers that are replaced by those of another version is given back.
#[test]
fn a_machine_ends_whose_last_steps_no_helper_can_take() {
    use warren_sys::signal::{SIGKILL, SIGSTOP};
    let programs = Programs::new("last-steps", &ours());
    let Some(mut m) = programs.run("last-steps") else { return };
    m.expect_job("start", "leaves.service", "done");
    let helpers = m.all_helpers();
    programs.install("warren-exec", &foreign());
    // Some may have been replaced meanwhile.
    let all = |signal| helpers.iter().for_each(|&pid| _ = warren_sys::process::kill(pid, signal));
    all(SIGSTOP);
    m.leave("poweroff");
    lab::until("its unit is down", || m.console().contains("leftover process").then_some(()));
    all(SIGKILL);
    let console = m.wait_for_end();
    assert!(console.contains("The system is down."), "{console}");
}

#[test]
fn variables_that_clients_set_outlive_the_manager() {
    let prints = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'printenv A B >>@D/out/seen; true'";
    let Some(m) = Machine::start("variables", &[("prints.service", prints)]) else { return };
    if !lab::has_systemctl("variables_that_clients_set_outlive_the_manager") {
        return;
    }
    let systemctl = |arguments: &[&str]| m.run(&[&["systemctl"], arguments].concat());
    systemctl(&["set-environment", "A=one", "B=two", "C=three"]).expect("it is set");
    // Nothing of a change that is refused.
    systemctl(&["set-environment", "A=four", "1=x"]).expect_err("no variable is called so");
    systemctl(&["unset-environment", "B"]).expect("it is set");
    let check = || {
        let shown = systemctl(&["show-environment"]).expect("it is answered");
        let shown: Vec<&str> = shown.lines().filter(|line| line.as_bytes()[1] == b'=').collect();
        assert_eq!(shown, ["A=one", "C=three"]);
        m.expect_job("start", "prints.service", "done");
    };
    check();
    assert!(m.kill_manager());
    check();
    reexecute(&m);
    check();
    assert_eq!(m.lines("seen"), ["one"; 3]);
}

/// The version that a state file was written by, which follows 8 bytes at its begin.
fn set_state_version(m: &Machine, version: [u8; 4]) -> [u8; 4] {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", m.init_pid)).expect("it is there");
    let is_state = |path: &PathBuf| {
        let target = std::fs::read_link(path).unwrap_or_default();
        target.to_string_lossy().starts_with("/memfd:warren-state")
    };
    let path = fds.flatten().map(|fd| fd.path()).find(is_state).expect("init keeps it");
    let file = std::fs::File::options().read(true).write(true).open(path).expect("it opens");
    let mut old = [0; 4];
    file.read_exact_at(&mut old, 8).expect("it has a version");
    file.write_all_at(&version, 8).expect("it can be written");
    old
}

#[test]
fn what_a_newer_manager_wrote_is_left_to_it_and_services_run_on() {
    let Some(m) = Machine::start("downgrade", UNITS) else { return };
    m.expect_job("start", "a.service", "done");
    let pid = m.main_pid("a.service").expect("it runs");
    let own = set_state_version(&m, [99, 0, 0, 0]);
    assert!(m.kill_manager());
    let said = "has version 99; this warrend reads versions up to";
    lab::until("it is said", || m.console().contains(said).then_some(()));
    assert!(m.console().contains("or restart the machine"), "{}", m.console());
    // A version comes that reads it.
    set_state_version(&m, own);
    m.wait_until_it_listens();
    assert_eq!(m.main_pid("a.service"), Some(pid));
    m.expect_job("restart", "a.service", "done");
}

/// It ends when the old manager has gone: whoever comes then is served by the new one.
#[test]
fn after_daemon_reexec_the_next_command_meets_the_next_manager() {
    let test = "after_daemon_reexec_the_next_command_meets_the_next_manager";
    if !lab::has_systemctl(test) {
        return;
    }
    let units = [("a.service", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("reexec-next", &units) else { return };
    for _ in 0..12 {
        let before = m.manager_pid();
        m.run(&["systemctl", "daemon-reexec"]).expect("it is done");
        m.run(&["systemctl", "restart", "a.service"]).expect("the next manager does it");
        assert_ne!(m.manager_pid(), before);
    }
}

/// The same of `warren reexec`, whichever way the next command takes.
#[test]
fn after_warren_reexec_the_next_command_meets_the_next_manager() {
    let units = [("a.service", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("warren-reexec", &units) else { return };
    let warren = lab::program_of("warren-cli", "warren");
    let mut next = vec![format!("{warren} reexec"), format!("{warren} restart a.service")];
    if lab::has_systemctl("after_warren_reexec_the_next_command_meets_the_next_manager") {
        next.extend([
            "systemctl daemon-reexec".to_owned(),
            format!("{warren} restart a.service"),
            format!("{warren} reexec"),
            "systemctl restart a.service".to_owned(),
        ]);
    }
    let before = m.manager_pid();
    let once = format!("{warren} reexec && {} && ", next.join(" && "));
    let said = m.run(&["sh", "-c", &format!("{}true", once.repeat(8))]);
    assert_eq!(said, Ok(String::new()), "{}", m.console());
    assert_ne!(m.manager_pid(), before);
    // Nothing is said before the end.
    assert_eq!(m.try_call("Reexecute", &json!({})), None);
    m.expect_job("restart", "a.service", "done");
}

/// It is there before the first question is answered.
#[test]
fn a_planned_shutdown_is_told_of_by_the_next_manager_from_its_first_answer_on() {
    let Some(m) = Machine::start("reexec-plan", UNITS) else { return };
    let warren = lab::program_of("warren-cli", "warren");
    m.run(&[&warren, "shutdown", "--in", "50min"]).expect("it is planned");
    for _ in 0..12 {
        let both = format!("{warren} reexec && {warren} shutdown");
        let said = m.run(&["sh", "-c", &both]).expect("both are done");
        assert!(said.contains("Scheduled in "), "{said}");
    }
}
