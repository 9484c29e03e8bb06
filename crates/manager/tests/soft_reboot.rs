//! A soft reboot: the kernel, process 1 and what outlasts it go on, all else begins anew, at
//! another root directory if there is one (systemd-soft-reboot.service(8)).

mod lab;

use std::io::Read;
use std::os::unix::net::UnixStream;

use lab::recordings::recording;
use lab::{Machine, until};
use serde_json::json;

/// Begins anew with `plain.service`, which says so.
const DEFAULT: (&str, &str) =
    ("default.target", "[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=plain.service");

const PLAIN: (&str, &str) =
    ("plain.service", "[Service]\nType=notify\nExecStart=@P append:@D/out/plain:up ready stay");

/// What is said when a boot is over.
fn boots(m: &Machine) -> usize {
    m.console().matches("startup finished").count()
}

fn soft_reboot(m: &Machine) {
    let before = boots(m);
    m.leave("soft-reboot");
    until("it has started again", || (boots(m) > before).then_some(()));
}

/// `SoftRebootsCount`, by systemd's own client.
fn count(m: &Machine) -> String {
    let show = ["systemctl", "show", "--property=SoftRebootsCount", "--value"];
    let shown = until("systemctl is served", || m.run(&show).ok());
    shown.trim().to_owned()
}

#[test]
fn what_says_so_outlasts_it_and_all_else_begins_anew() {
    let lasting = "[Unit]\nDefaultDependencies=no\nSurviveFinalKillSignal=yes";
    let kept = format!("{lasting}\n[Service]\nSlice=kept.slice\nExecStart=@P serve");
    let usual = "[Unit]\nSurviveFinalKillSignal=yes\n[Service]\nType=notify\n\
                 ExecStart=@P ready stay\nExecStop=@P append:@D/out/stopped:usual";
    let stores = "[Service]\nType=notify\nFileDescriptorStoreMax=1\n\
                  FileDescriptorStorePreserve=yes\nExecStart=@P fds:@D/out/fds store:one ready stay";
    let escapes = "[Service]\nKillMode=process\nExecStart=@P stay\n\
                   ExecStartPost=@P fork:/run/f.pid stay";
    let units = [
        DEFAULT,
        PLAIN,
        ("kept.service", &*kept),
        ("kept.socket", "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/kept"),
        ("usual.service", usual),
        ("stores.service", stores),
        ("escapes.service", escapes),
    ];
    let Some(mut m) = Machine::start("soft-reboot", &units) else { return };
    if !lab::has_systemctl("what_says_so_outlasts_it_and_all_else_begins_anew") {
        return;
    }
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    for unit in
        ["kept.socket", "kept.service", "usual.service", "stores.service", "escapes.service"]
    {
        m.expect_job("start", unit, "done");
    }
    let pid = m.main_pid("kept.service");
    assert_eq!(count(&m), "0");
    soft_reboot(&m);
    assert_eq!(m.main_pid("kept.service"), pid, "{}", m.console());
    assert_eq!(m.state("kept.service"), "active/running");
    assert_eq!(m.state("kept.socket"), "active/running");
    // The same process answers at the same socket.
    let mut answer = String::new();
    let mut connection = UnixStream::connect(m.inside("/run/kept")).expect("it listens");
    connection.read_to_string(&mut answer).expect("it answers");
    assert_eq!(answer.trim(), pid.expect("it runs").to_string());
    assert_eq!(m.lines("plain"), ["up", "up"]);
    assert_eq!(m.lines("stopped"), ["usual"]);
    for unit in ["usual.service", "stores.service", "escapes.service"] {
        assert_eq!(m.state(unit), "inactive/dead", "{unit}");
    }
    m.expect_job("start", "stores.service", "done");
    assert_eq!(m.lines("fds"), ["(unset)", "one"]);
    assert_eq!(count(&m), "1");
    let console = m.console();
    assert!(
        console.contains("1 process still running after all units have stopped: player"),
        "{console}"
    );
    assert_eq!(console.matches("The system is down.").count(), 1, "{console}");
    assert!(recording(&m, "shutdown").is_some(), "{console}");

    // Whoever comes after knows it too, and a real end spares nobody but to the last moment.
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    assert_eq!((count(&m), m.main_pid("kept.service")), ("1".to_owned(), pid));
    // It stays in the slice in which it was started.
    m.write("kept.service", &kept.replace("kept.slice", "other.slice"));
    m.call("ReloadConfiguration", &json!({}));
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    m.write("kept.service", &kept.replace("kept.slice", "yet.slice"));
    soft_reboot(&m);
    assert_eq!((count(&m), m.main_pid("kept.service")), ("2".to_owned(), pid));
    assert_eq!(m.status("kept.service")["cgroup"], "/kept.slice/kept.service");
    m.leave("poweroff");
    let console = m.wait_for_end();
    assert_eq!(console.matches("The system is down.").count(), 3, "{console}");
}

#[test]
fn it_goes_on_at_the_next_root() {
    let Some(m) = Machine::start("next-root", &[DEFAULT, PLAIN]) else { return };
    if !lab::has_systemctl("it_goes_on_at_the_next_root") {
        return;
    }
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    let prepare = "mkdir /run/nextroot && mount --rbind / /run/nextroot \
                   && mount -t tmpfs tmpfs /run/nextroot/mnt && touch /run/nextroot/mnt/next \
                   && touch /run/stays";
    m.run(&["sh", "-c", prepare]).expect("mounts can be made");
    soft_reboot(&m);
    assert!(
        m.console().contains("switched the root directory to /run/nextroot"),
        "{}",
        m.console()
    );
    m.run(&["test", "-e", "/mnt/next", "-a", "-e", "/run/stays"]).expect("it is the new root");
    let mounts = m.run(&["cat", "/proc/self/mounts"]).expect("cat(1)");
    assert!(!mounts.contains(" /run/nextroot"), "{mounts}");
    assert_eq!(m.lines("plain"), ["up", "up"]);
    // The directory is still there, and is no root.
    soft_reboot(&m);
    let console = m.console();
    assert!(console.contains("keeping the root directory: /run/nextroot has no init"), "{console}");
    assert_eq!(count(&m), "2");
}

#[test]
fn a_manager_that_is_killed_meanwhile_does_not_change_what_follows() {
    let slow = "[Service]\nType=notify\nExecStart=@P ready stay\n\
                ExecStop=@P append:@D/out/stopping:slow wait:300";
    let units = [DEFAULT, PLAIN, ("slow.service", slow)];
    let Some(m) = Machine::start("soft-killed", &units) else { return };
    if !lab::has_systemctl("a_manager_that_is_killed_meanwhile_does_not_change_what_follows") {
        return;
    }
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    m.expect_job("start", "slow.service", "done");
    m.leave("soft-reboot");
    until("it is being stopped", || (!m.lines("stopping").is_empty()).then_some(()));
    assert!(m.kill_manager());
    until("it has started again", || (boots(&m) == 2).then_some(()));
    assert_eq!((m.lines("stopping"), count(&m)), (vec!["slow".to_owned()], "1".to_owned()));
}

/// Generators run before a manager knows that everything begins anew.
#[test]
fn a_manager_that_is_killed_before_it_has_come_up_afterwards_does_not_do_it_again() {
    let Some(m) = Machine::start("soft-early", &[DEFAULT, PLAIN]) else { return };
    if !lab::has_systemctl("a_manager_that_is_killed_before_it_has_come_up_afterwards") {
        return;
    }
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    let out = m.directory.join("out").display().to_string();
    // Whose child runs the generators. The manager of before may still be ending.
    let manager = "sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status";
    let holds = format!(
        "echo run >> {out}/generator; [ -e {out}/hold ] || exit 0\n\
         {manager} > {out}/manager; rm {out}/hold; exec sleep 1000"
    );
    m.write_generator("holds", &holds);
    std::fs::write(m.out("hold"), "").expect("a file");
    m.leave("soft-reboot");
    until("the generator holds the manager up", || (!m.out("hold").exists()).then_some(()));
    m.run(&["kill", "-KILL", &m.lines("manager")[0]]).expect("it is there");
    until("it has started again", || (boots(&m) == 2).then_some(()));
    assert_eq!(count(&m), "1");
    assert_eq!(m.lines("generator").len(), 2, "a boot has its generators");
    assert_eq!(m.lines("plain"), ["up", "up"]);
    assert_eq!(m.console().matches("The system is down.").count(), 1, "{}", m.console());
    // It is over: the next manager goes on.
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    assert_eq!(
        (m.lines("generator").len(), m.state("plain.service")),
        (2, "active/running".into())
    );
}

/// Outlasts it, and nothing else.
const KEPT: (&str, &str) = (
    "kept.service",
    "[Unit]\nDefaultDependencies=no\nSurviveFinalKillSignal=yes\nConflicts=reboot.target\n\
     [Service]\nType=notify\nExecStart=@P ready stay\nExecStop=@P append:@D/out/stopped:kept",
);

/// Is being stopped until somebody opens the gate.
const SLOW: (&str, &str) = (
    "slow.service",
    "[Service]\nType=notify\nTimeoutStopSec=infinity\nExecStart=@P ready stay\n\
     ExecStop=/bin/sh -c 'echo slow >>@D/out/stopping; read go <@D/out/gate'",
);

/// A machine with both, where a soft reboot waits for the second.
fn going_down(name: &str) -> Option<Machine> {
    let m = Machine::start(name, &[DEFAULT, PLAIN, KEPT, SLOW])?;
    if !lab::has_systemctl(name) {
        return None;
    }
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    let made = std::process::Command::new("mkfifo").arg(m.out("gate")).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo(1) makes a gate");
    m.expect_job("start", "kept.service", "done");
    m.expect_job("start", "slow.service", "done");
    m.leave("soft-reboot");
    until("it is being stopped", || (!m.lines("stopping").is_empty()).then_some(()));
    assert_eq!(m.state("kept.service"), "active/running");
    Some(m)
}

#[test]
fn what_was_to_outlast_it_is_stopped_in_order_when_a_real_end_overtakes_it() {
    let Some(mut m) = going_down("soft-overtaken") else { return };
    m.leave("poweroff");
    until("it is stopped", || (!m.lines("stopped").is_empty()).then_some(()));
    std::fs::write(m.out("gate"), "go\n").expect("somebody waits for it");
    let console = m.wait_for_end();
    assert!(console.contains("The soft reboot was changed: power off"), "{console}");
    assert_eq!(
        (m.lines("stopping"), m.lines("stopped")),
        (vec!["slow".into()], vec!["kept".into()])
    );
    assert!(console.contains(", 0 killed."), "{console}");
}

#[test]
fn an_end_without_stops_overtakes_it_at_once() {
    /// SIGRTMIN+14 of systemd(1).
    const POWER_OFF_AT_ONCE: i32 = 34 + 14;
    let Some(mut m) = going_down("soft-at-once") else { return };
    warren_sys::process::kill(m.init_pid, POWER_OFF_AT_ONCE).expect("our own");
    let console = m.wait_for_end();
    assert_eq!(console.matches("The system is down.").count(), 1, "{console}");
    assert!(m.lines("stopped").is_empty(), "{console}");
}

#[test]
fn what_was_to_outlast_it_is_stopped_though_its_last_steps_are_taken_already() {
    use warren_sys::signal::{SIGCONT, SIGSTOP};
    let escapes = "[Service]\nKillMode=process\nExecStart=@P stay\n\
                   ExecStartPost=@P fork:/run/f.pid stay";
    let units = [DEFAULT, PLAIN, KEPT, ("escapes.service", escapes)];
    let Some(mut m) = Machine::start("soft-last", &units) else { return };
    if !lab::has_systemctl("what_was_to_outlast_it_is_stopped_though_its_last_steps_are_taken") {
        return;
    }
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    m.expect_job("start", "kept.service", "done");
    m.expect_job("start", "escapes.service", "done");
    // No process can be made for them meanwhile.
    let helpers = m.all_helpers();
    let all = |signal| helpers.iter().for_each(|&pid| _ = warren_sys::process::kill(pid, signal));
    all(SIGSTOP);
    m.leave("soft-reboot");
    until("its units are down", || m.console().contains("leftover process").then_some(()));
    m.leave("poweroff");
    until("it is told", || m.console().contains("was changed").then_some(()));
    all(SIGCONT);
    let console = m.wait_for_end();
    assert_eq!(m.lines("stopped"), ["kept"], "{console}");
    assert_eq!(console.matches("The system is down.").count(), 1, "{console}");
    assert_eq!(boots(&m), 1, "{console}");
}

#[test]
fn none_follows_an_end_that_takes_the_machine_apart() {
    let escapes = "[Service]\nKillMode=process\nExecStart=@P stay\n\
                   ExecStartPost=@P fork:/run/f.pid deaf";
    let units = [DEFAULT, PLAIN, ("escapes.service", escapes)];
    let Some(mut m) = Machine::start("soft-late", &units) else { return };
    if !lab::has_systemctl("none_follows_an_end_that_takes_the_machine_apart") {
        return;
    }
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    m.expect_job("start", "escapes.service", "done");
    let keys = m.make_console();
    m.leave("poweroff");
    let left = || {
        m.console().contains("1 process still running after all units have stopped").then_some(())
    };
    until("the last steps are taken", left);
    if let Some(answer) = m.call_while_up("Leave", &json!({"how": "soft-reboot"})) {
        let text = answer["message"].as_str().unwrap_or_default().to_owned();
        assert!(text.contains("cannot become a soft reboot"), "{answer}");
    }
    m.skip_left(&keys);
    let console = m.wait_for_end();
    assert_eq!(console.matches("The system is down.").count(), 1, "{console}");
    assert_eq!(boots(&m), 1, "{console}");
}

#[test]
fn whom_the_kernel_holds_is_left_and_not_waited_for() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("soft-held", "/dev/fuse");
    }
    let client = "[Service]\nTimeoutStopSec=1\nExecStart=/bin/cat /run/files/never";
    let units = [DEFAULT, PLAIN, ("client.service", client)];
    let Some(m) = Machine::start("soft-held", &units) else { return };
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    let server = m.serve_files();
    m.expect_job("start", "client.service", "done");
    m.wait_until_held("cat");
    m.expect_job("stop", "client.service", "done");
    soft_reboot(&m);
    let console = m.console();
    assert!(console.contains("1 leftover process: cat (pid "), "it is left: {console}");
    assert!(!console.contains("killed earlier and still running"), "{console}");
    drop(server);
}

/// What has a stop to do has its time for that (systemd#32223).
#[test]
fn a_unit_has_its_time_to_stop() {
    let slow = "[Service]\nTimeoutStopSec=60\nExecStart=@P stay\n\
                ExecStop=@P wait:2000 append:@D/out/stopped:slow\n";
    let Some(m) = Machine::start("soft-reboot-time", &[DEFAULT, PLAIN, ("slow.service", slow)])
    else {
        return;
    };
    until("the first boot is over", || (boots(&m) == 1).then_some(()));
    m.expect_job("start", "slow.service", "done");
    soft_reboot(&m);
    assert_eq!(m.lines("stopped"), ["slow"], "{}", m.console());
}
