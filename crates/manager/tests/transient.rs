//! Units that clients make while the manager runs: systemd-run(1) and systemctl(1) `set-property` in a real machine.

mod lab;

use lab::Machine;
use serde_json::json;

/// A machine that is asked by systemd's own programs, where those are there.
fn with(name: &str, units: &[(&str, &str)], check: impl FnOnce(&Machine)) {
    let Some(machine) = Machine::start(name, units) else { return };
    match machine.run(&["systemd-run", "--version"]) {
        Ok(_) => check(&machine),
        Err(_) => lab::not_run(name, "systemd-run of systemd"),
    }
}

fn has_groups(m: &Machine, unit: &str) -> bool {
    !m.status(unit)["cpu_ns"].is_null()
}

/// Its file is there.
fn is_made(m: &Machine, unit: &str) -> bool {
    m.inside(&format!("/run/systemd/transient/{unit}")).exists()
}

fn restart_manager(m: &Machine) {
    let old = m.manager_pid();
    assert!(m.kill_manager());
    lab::until("another manager answers", || (m.manager_pid() != old).then_some(()));
    lab::until("it is ready", || m.try_call("Totals", &json!({})));
}

#[test]
fn a_transient_service_has_what_was_asked_for_and_its_name_is_free_when_it_is_over() {
    with("transient-service", &[], |m| {
        let run = |more: &[&str]| m.run(&[&["systemd-run", "--unit=t"], more].concat());
        run(&["-p", "Description=100% me", "-E", "WHO=a b", "sleep", "1000"]).expect("it starts");
        assert_eq!(m.state("t.service"), "active/running");
        let show = |property: &str| {
            let words = ["systemctl", "show", "--value", "-p", property, "t.service"];
            m.run(&words).expect("it can be asked").trim().to_owned()
        };
        assert_eq!(show("Transient"), "yes");
        assert_eq!(show("Description"), "100% me");
        assert_eq!(show("Environment"), "\"WHO=a b\"");
        let error = run(&["true"]).expect_err("the name is taken");
        assert!(error.contains("already loaded or has a fragment file"), "{error}");
        // Neither a reload nor another manager changes anything of it.
        let pid = m.main_pid("t.service");
        m.call("ReloadConfiguration", &json!({}));
        restart_manager(m);
        assert_eq!(m.state("t.service"), "active/running");
        assert_eq!(m.main_pid("t.service"), pid);
        m.expect_job("stop", "t.service", "done");
        // Nobody waits for the name.
        run(&["sleep", "1001"]).expect("it starts with its old name");
        assert_ne!(m.main_pid("t.service"), pid);
        m.expect_job("stop", "t.service", "done");
        lab::until("its file goes with it", || (!is_made(m, "t.service")).then_some(()));
        let listed = m.run(&["systemctl", "list-units", "--all", "--plain"]).expect("it is asked");
        assert!(!listed.contains("t.service"), "{listed}");
    });
}

#[test]
fn a_transient_service_that_failed_stays_until_its_failure_is_reset() {
    with("transient-failed", &[], |m| {
        m.run(&["systemd-run", "--unit=bad", "sh", "-c", "exit 7"]).expect("it starts");
        m.wait_for("bad.service", "failed/failed");
        let again = ["systemd-run", "--unit=bad", "true"];
        assert!(m.run(&again).is_err(), "what failed is to be looked at");
        m.run(&["systemctl", "reset-failed", "bad.service"]).expect("it can be reset");
        m.run(&again).expect("it is made anew");
        m.run(&["systemd-run", "--collect", "--unit=gone", "sh", "-c", "exit 7"])
            .expect("it starts");
        lab::until("it is collected", || (!is_made(m, "gone.service")).then_some(()));
    });
}

#[test]
fn a_scope_holds_processes_of_others_and_goes_with_them() {
    with("transient-scope", &[("gone.slice", "[Unit]")], |m| {
        let scope =
            ["systemd-run", "--scope", "--unit=s", "--slice=gone.slice", "-p", "TasksMax=77"];
        let mut held = m.spawn(&[&scope[..], &["sleep", "1000"]].concat());
        m.wait_for("s.scope", "active/running");
        if !has_groups(m, "s.scope") {
            let ended = (held.kill(), held.wait());
            assert!(ended.0.is_ok() && ended.1.is_ok(), "{ended:?}");
            return lab::not_run("a_scope_holds_processes_of_others", "cgroups");
        }
        let show = |property: &str| {
            let words = ["systemctl", "show", "--value", "-p", property, "s.scope"];
            m.run(&words).expect("it can be asked").trim().to_owned()
        };
        assert_eq!(show("ControlGroup"), "/gone.slice/s.scope");
        assert_eq!(show("TasksMax"), "77");
        restart_manager(m);
        assert_eq!(m.state("s.scope"), "active/running");
        m.expect_job("stop", "s.scope", "done");
        assert!(!held.wait().expect("it has ended").success());
        // One that ends by itself is noticed, and so is one that ends while no manager is there.
        let mut ends = m.spawn(&[&scope[..], &["sleep", "0.2"]].concat());
        lab::until("it is over", || (!is_made(m, "s.scope")).then_some(()));
        assert!(ends.wait().expect("it has ended").success());
    });
}

#[test]
fn a_scope_without_processes_is_refused_and_its_name_stays_free() {
    with("transient-refused", &[], |m| {
        let call = |unit: &str, properties: &[&str]| {
            let address = "--address=unix:path=/run/systemd/private";
            let manager = "org.freedesktop.systemd1.Manager";
            let words = ["busctl", address, "call", "org.freedesktop.systemd1"];
            let method = ["/org/freedesktop/systemd1", manager, "StartTransientUnit"];
            let arguments = [&["ssa(sv)a(sa(sv))", unit, "fail"], properties, &["0"]].concat();
            m.run(&[&words[..], &method[..], &arguments[..]].concat())
        };
        let error = call("s.scope", &["0"]).expect_err("it has no processes");
        assert!(error.contains("made with processes"), "{error}");
        let error = call("a.service", &["1", "Nonsense", "s", "x"]).expect_err("it is unknown");
        assert!(error.contains("Cannot set property Nonsense, or unknown property."), "{error}");
        let error = call("a.target", &["0"]).expect_err("targets have files");
        assert!(error.contains("does not support transient units"), "{error}");
        // Number 4194303 is nobody's.
        let gone = ["1", "PIDs", "au", "1", "4194303"];
        for _ in 0..2 {
            call("s.scope", &gone).expect("that it has no processes is found when it starts");
            lab::until("it has failed", || (m.state("s.scope") == "failed/failed").then_some(()));
        }
    });
}

#[test]
fn settings_are_changed_while_a_unit_runs_and_stay() {
    let unit = "[Service]\nExecStart=@P stay\nTasksMax=50\n";
    with("set-property", &[("a.service", unit)], |m| {
        m.expect_job("start", "a.service", "done");
        let pid = m.main_pid("a.service");
        let set = |words: &[&str]| {
            m.run(&[&["systemctl", "set-property"], words].concat()).expect("it can be set");
        };
        let show = || {
            let words = ["systemctl", "show", "--value", "-p", "TasksMax", "a.service"];
            m.run(&words).expect("it can be asked").trim().to_owned()
        };
        set(&["--runtime", "a.service", "TasksMax=60"]);
        assert_eq!(show(), "60");
        let file = "/system.control/a.service.d/50-TasksMax.conf";
        assert!(m.inside(&format!("/run/systemd{file}")).exists());
        restart_manager(m);
        assert_eq!(show(), "60");
        set(&["a.service", "TasksMax=70"]);
        assert_eq!(show(), "70", "what is for good counts more");
        assert!(m.own(file).exists());
        assert_eq!(m.main_pid("a.service"), pid);
        let words = ["systemctl", "set-property", "a.service", "User=nobody"];
        assert!(m.run(&words).is_err(), "that is not changed of what runs");
    });
}

#[test]
fn a_timer_is_made_with_its_service() {
    with("transient-timer", &[], |m| {
        let timer =
            ["systemd-run", "--unit=t", "--on-active=100ms", "--timer-property=AccuracySec=1us"];
        m.run(&[&timer[..], &["touch", "/run/fired"]].concat()).expect("it starts");
        lab::until("it has fired", || m.inside("/run/fired").exists().then_some(()));
        lab::until("both are gone", || {
            (!is_made(m, "t.timer") && !is_made(m, "t.service")).then_some(())
        });
    });
}
