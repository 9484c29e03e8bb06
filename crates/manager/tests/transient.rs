//! Units that clients make while the manager runs: systemd-run(1) and systemctl(1) `set-property` in a real machine.

mod lab;

use lab::Machine;
use serde_json::json;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use warren_testkit::{Sent, Stranger};

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

/// A message bus that lets everybody do everything; the manager decides.
const BUS: &str =
    "[Service]\nExecStart=/usr/bin/dbus-daemon --config-file=@D/bus.conf --nofork --nopidfile\n";
const BUS_CONFIGURATION: &str = r#"<busconfig>
    <type>system</type>
    <listen>unix:path=/run/dbus/system_bus_socket</listen>
    <auth>EXTERNAL</auth>
    <policy context="default">
        <allow user="*"/>
        <allow own="*"/>
        <allow send_type="method_call"/>
        <allow send_type="signal"/>
        <allow send_requested_reply="true" send_type="method_return"/>
        <allow send_requested_reply="true" send_type="error"/>
        <allow receive_type="method_call"/>
        <allow receive_type="method_return"/>
        <allow receive_type="error"/>
        <allow receive_type="signal"/>
    </policy>
</busconfig>"#;

/// The same with a message bus.
fn with_bus(name: &str, units: &[(&str, &str)], check: impl FnOnce(&Machine)) {
    if !std::path::Path::new("/usr/bin/dbus-daemon").exists() {
        return lab::not_run(name, "dbus-daemon(1)");
    }
    let units = [&[("dbus.service", BUS)], units].concat();
    with(name, &units, |m| {
        std::fs::write(m.own("bus.conf"), BUS_CONFIGURATION).expect("it can be written");
        m.run(&["mkdir", "/run/dbus"]).expect("it is not there");
        m.expect_job("start", "dbus.service", "done");
        join(m);
        check(m);
    });
}

/// Waits until the manager has its name on the bus.
fn join(m: &Machine) {
    lab::until("the manager is on the bus", || {
        m.run(&["busctl", "status", "org.freedesktop.systemd1"]).ok()
    });
}

/// A program in the machine with its standard streams here.
fn begin(m: &Machine, argv: &[&str]) -> Child {
    let target = format!("--target={}", m.init_pid);
    let mut command = Command::new("nsenter");
    command.args([&target, "--mount", "--pid", "--ipc"]).args(argv);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("nsenter(1) runs")
}

/// What it writes when it is given this, and its exit status.
fn talk(mut child: Child, input: &str) -> (String, Option<i32>) {
    let mut to = child.stdin.take().expect("a pipe");
    to.write_all(input.as_bytes()).expect("it reads");
    drop(to);
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code())
}

#[test]
fn a_transient_service_has_the_streams_of_who_asked_for_it() {
    with_bus("transient-pipe", &[], |m| {
        let run = |more: &[&str], input: &str| {
            talk(begin(m, &[&["systemd-run", "--pipe", "--wait", "--quiet"], more].concat()), input)
        };
        assert_eq!(run(&["cat"], "one\ntwo\n"), ("one\ntwo\n".to_owned(), Some(0)));
        assert_eq!(
            run(&["sh", "-c", "read x; echo $x >&2; exit 7"], "in\n"),
            ("in\n".to_owned(), Some(7))
        );
        // They are not what is listed for sd_listen_fds(3), nor is its output logged.
        let shows = "echo $${LISTEN_FDS-none} $${JOURNAL_STREAM-none}; ls /proc/self/fd | wc -l";
        assert_eq!(run(&["sh", "-c", shows], ""), ("none none\n4\n".to_owned(), Some(0)));
        // Whoever reads at the other end sees the end, also when the unit stays as one that failed.
        let failing = begin(
            m,
            &["systemd-run", "--pipe", "--quiet", "--unit=f", "sh", "-c", "echo x; exit 3"],
        );
        assert_eq!(talk(failing, ""), ("x\n".to_owned(), Some(3)));
        m.wait_for("f.service", "failed/failed");
    });
}

#[test]
fn a_transient_service_has_the_terminal_of_who_asked_for_it() {
    with_bus("transient-pty", &[], |m| {
        // It has a session of its own, whose controlling terminal that is.
        let shows = "test -t 0 && test -t 1 && test -t 2 && echo on $(ps -o tty= -p $$) $(test $(ps -o sid= -p $$) = $$ \
                     && echo leads); stty size; exit 5";
        std::fs::write(m.own("shows"), shows).expect("it can be written");
        let run = format!(
            "stty rows 33 cols 77; exec systemd-run --pty --wait --quiet sh {}",
            m.own("shows").display()
        );
        let (text, status) =
            talk(begin(m, &["script", "--quiet", "--return", "--command", &run, "/dev/null"]), "");
        assert!(text.contains("on pts/") && text.contains("leads"), "{text}");
        assert!(text.contains("33 77"), "{text}");
        assert_eq!(status, Some(5), "{text}");
        let (text, _) = talk(
            begin(
                m,
                &["script", "--quiet", "--command", "systemd-run --shell --quiet", "/dev/null"],
            ),
            "echo a$((1+1))b; exit\n",
        );
        assert!(text.contains("a2b"), "{text}");
    });
}

#[test]
fn what_was_passed_outlasts_the_manager() {
    with_bus("transient-pipe-killed", &[], |m| {
        // It ends once by itself, and each run asks what it reads.
        let script = "echo run; read x; echo got $x; exit 1";
        let more =
            ["-p", "Restart=on-failure", "-p", "RestartSec=100ms", "-p", "StartLimitIntervalSec=0"];
        let words = [
            &["systemd-run", "--pipe", "--quiet", "--unit=again"][..],
            &more,
            &["sh", "-c", script],
        ]
        .concat();
        let mut child = begin(m, &words);
        let (mut to, mut from) =
            (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let mut read = |expected: &str| {
            let mut got = vec![0; expected.len()];
            from.read_exact(&mut got).expect("it is still there");
            assert_eq!(String::from_utf8_lossy(&got), expected);
        };
        read("run\n");
        restart_manager(m);
        for line in ["one", "two"] {
            writeln!(to, "{line}").expect("somebody reads");
            read(&format!("got {line}\nrun\n"));
        }
        restart_manager(m);
        m.expect_job("stop", "again.service", "done");
        lab::until("who asked for it learns of its end", || child.try_wait().expect("our child"));
        let mut rest = String::new();
        from.read_to_string(&mut rest).expect("the end");
        assert_eq!(rest, "", "nobody has the other end any more");
        drop(to);
    });
}

#[test]
fn who_is_refused_has_left_no_descriptor() {
    with_bus("transient-pipe-refused", &[("a.service", "[Service]\nExecStart=@P stay\n")], |m| {
        let manager = m.manager_pid().expect("it runs");
        let count =
            |pid: i32| std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
        let all = || count(manager) + count(m.init_pid);
        let before = all();
        let busy = begin(m, &["systemd-run", "--pipe", "--unit=a", "cat"]);
        let (text, _) = talk(busy, "");
        assert!(text.contains("already loaded or has a fragment file"), "{text}");
        lab::until("nothing is kept", || (all() <= before).then_some(()));
        // One that cannot be started leaves nothing either.
        let masked = ["systemd-run", "--pipe", "--unit=b", "-p", "Requires=missing.service", "cat"];
        let (text, status) = talk(begin(m, &masked), "");
        assert_ne!(status, Some(0), "{text}");
        lab::until("nothing is kept of it", || (all() <= before).then_some(()));
    });
}

const STRANGER: u32 = 65_534;
const NEEDS: &str = "root, /dev/fuse, a mount namespace and python3";

#[test]
fn a_user_of_the_bus_cannot_hold_up_the_manager_with_descriptors() {
    const NAME: &str = "transient-stranger";
    with_bus(NAME, &[("a.service", "[Service]\nExecStart=@P stay\n")], |m| {
        let manager = m.manager_pid().expect("it runs");
        // One that is told of its unit, whatever others send.
        let words = ["systemd-run", "--wait", "--quiet", "--unit=told", "sleep", "1000"];
        let mut told = begin(m, &words);
        m.wait_for("told.service", "active/running");
        let text = "org.freedesktop.systemd1";
        let sent = Sent { how: "bus", count: 8, uid: STRANGER, text };
        let bus = m.inside("/run/dbus/system_bus_socket");
        let Some(stranger) = Stranger::send(&bus, manager as u32, sent) else {
            m.expect_job("stop", "told.service", "done");
            assert!(told.wait().is_ok());
            return lab::not_run(NAME, NEEDS);
        };
        assert_eq!(stranger.said, "sent 8");
        lab::until("the manager has met the bus again", || {
            m.console().contains("takes none over the bus").then_some(())
        });
        join(m);
        m.expect_job("start", "a.service", "done");
        m.expect_job("stop", "told.service", "done");
        lab::until("its client has learnt of it", || told.try_wait().expect("our child"));
        m.run(&["systemctl", "restart", "a.service"]).expect("root is served");
        let names =
            ["busctl", "get-property", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"];
        let names = [&names[..], &["org.freedesktop.systemd1.Manager", "NNames"]].concat();
        m.run(&names).expect("the bus is served");
        assert_eq!(m.manager_pid(), Some(manager), "it is the same manager");
        assert!(m.kill_manager());
        lab::until("there is another", || m.manager_pid().filter(|pid| *pid != manager));
        m.expect_job("restart", "a.service", "done");
        drop(stranger);
        join(m);
        let run = begin(m, &["systemd-run", "--pipe", "--wait", "--quiet", "cat"]);
        assert_eq!(talk(run, "after\n"), ("after\n".to_owned(), Some(0)));
    });
}

#[test]
fn descriptors_are_taken_again_when_those_of_a_stranger_are_gone() {
    const NAME: &str = "transient-calm";
    with_bus(NAME, &[], |m| {
        let manager = m.manager_pid().expect("it runs");
        let text = "org.freedesktop.systemd1";
        let sent = Sent { how: "bus", count: 8, uid: STRANGER, text };
        let bus = m.inside("/run/dbus/system_bus_socket");
        let Some(stranger) = Stranger::send(&bus, manager as u32, sent) else {
            return lab::not_run(NAME, NEEDS);
        };
        lab::until("the manager has met the bus again", || {
            m.console().contains("takes none over the bus").then_some(())
        });
        join(m);
        // One that is told of its unit over both connections.
        let words = ["systemd-run", "--wait", "--quiet", "--unit=told", "sleep", "1000"];
        let mut told = begin(m, &words);
        m.wait_for("told.service", "active/running");
        let run = || {
            let words = ["systemd-run", "--pipe", "--wait", "--quiet", "cat"];
            talk(begin(m, &words), "again\n")
        };
        assert_ne!(run().1, Some(0), "none are agreed on");
        drop(stranger);
        lab::until("they are agreed on", || {
            (run() == ("again\n".to_owned(), Some(0))).then_some(())
        });
        assert_eq!(m.manager_pid(), Some(manager), "it is the same manager");
        m.expect_job("stop", "told.service", "done");
        lab::until("its client has learnt of it", || told.try_wait().expect("our child"));
    });
}

/// Sends many calls with as many descriptors each as the bus passes on, after the functions of the stranger.
const SENDS_MANY: &str = r#"
import array, os, socket, struct, sys
exec(open(sys.argv[1]).read().split('def main(')[0])
os.setresuid(65534, 65534, 65534)
bus = on_bus('/run/dbus/system_bus_socket', 65534)
fds = [os.open('/etc/passwd', os.O_RDONLY)] * 16
to = 'org.freedesktop.systemd1'
for n in range(300):
    ping = call(n + 2, to, '/', 'org.freedesktop.DBus.Peer.Ping', len(fds))
    bus.sendmsg([ping], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))])
bus.sendall(call(999, to, '/', 'org.freedesktop.DBus.Peer.Nothing'))
got, last = b'', struct.pack('<BBcBI', 5, 1, b'u', 0, 999)
while last not in got:
    got += bus.recv(9999)
"#;

/// As many as a message may have, in each of many.
#[test]
fn a_user_of_the_bus_cannot_fill_the_managers_table() {
    const NAME: &str = "transient-many";
    with_bus(NAME, &[], |m| {
        let manager = m.manager_pid().expect("it runs");
        let count = || std::fs::read_dir(format!("/proc/{manager}/fd")).expect("it runs").count();
        let before = count();
        std::fs::write(m.own("client.py"), SENDS_MANY).expect("it can be written");
        let (client, library) = (m.own("client.py"), m.own("stranger.py"));
        std::fs::write(&library, warren_testkit::STRANGER).expect("it can be written");
        let words = ["python3", client.to_str().expect("text"), library.to_str().expect("text")];
        let mut client = m.spawn(&words);
        let mut most = 0;
        let mut look = || most = count().max(most);
        lab::until("all calls are answered", || {
            look();
            client.try_wait().expect("our child")
        });
        assert!(client.wait().expect("our child").success());
        assert!(most < before + 16, "{most} {before}");
    });
}

const ASKED: &str = "[Service]\nExecStart=@P stay\n";

/// The real one, with rules of this test alone.
const POLKIT: &str = "\
[Unit]\nAfter=dbus.service\n[Service]\nExecStart=unshare --mount sh -c \
'mount --bind @D/polkit /etc/polkit-1/rules.d && exec /usr/lib/polkit-1/polkitd --no-debug'\n";

const RULES: &str = r#"
polkit.addRule(function(action, subject) {
    var unit = action.lookup("unit"), verb = action.lookup("verb");
    if (action.id == "org.freedesktop.systemd1.manage-units" && subject.user == "nobody") {
        if (unit == "a.service" && verb != "stop") return polkit.Result.YES;
        if (unit == "other.service") return polkit.Result.YES;
    }
    return polkit.Result.NO;
});
"#;

#[test]
fn who_has_a_rule_of_polkit_restarts_a_unit() {
    const NAME: &str = "transient-polkit";
    const POLKITD: &str = "/usr/lib/polkit-1/polkitd";
    if !std::path::Path::new(POLKITD).exists() || !lab::others_reach_programs(NAME) {
        return lab::not_run(NAME, "polkitd(8)");
    }
    let units = [("a.service", ASKED), ("b.service", ASKED), ("polkit.service", POLKIT)];
    with_bus(NAME, &units, |m| {
        let other = |argv: &[&str]| {
            let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
            m.run(&[&user, argv].concat())
        };
        let control =
            |verb: &str, unit: &str| other(&["systemctl", "--no-ask-password", verb, unit]);
        m.expect_job("start", "a.service", "done");
        m.expect_job("start", "b.service", "done");
        // The control socket asks the same question.
        let warren = lab::program_of("warren-cli", "warren");
        let own = |verb: &str, unit: &str| other(&[&*warren, "--no-block", verb, unit]);
        // Without polkit nobody but root changes anything.
        let denied = own("restart", "a.service").expect_err("it is not there");
        assert!(denied.contains("restart of a.service: only root"), "{denied}");
        let denied = control("restart", "a.service").expect_err("it is not there");
        assert!(
            denied.contains("Permission denied") || denied.contains("Access denied"),
            "{denied}"
        );
        std::fs::create_dir(m.own("polkit")).expect("it can be made");
        std::fs::write(m.own("polkit/test.rules"), RULES).expect("it can be written");
        m.expect_job("start", "polkit.service", "done");
        lab::until("polkit is on the bus", || {
            m.run(&["busctl", "status", "org.freedesktop.PolicyKit1"]).ok()
        });
        let before = m.main_pid("a.service");
        control("restart", "a.service").expect("its rule says so");
        assert!(m.main_pid("a.service") != before, "it is another process");
        for (verb, unit) in [("stop", "a.service"), ("restart", "b.service")] {
            let denied = control(verb, unit).expect_err("no rule says so");
            assert!(
                denied.contains("Access denied") || denied.contains("Permission denied"),
                "{denied}"
            );
        }
        let before = m.main_pid("a.service");
        own("restart", "a.service").expect("its rule says so");
        lab::until("it is another process", || {
            m.main_pid("a.service").filter(|_| m.main_pid("a.service") != before)
        });
        for (verb, unit) in [("stop", "a.service"), ("restart", "b.service")] {
            let denied = own(verb, unit).expect_err("no rule says so");
            let expected = format!(
                "{verb} of {unit}: only root and the manager's own user may do this; polkit"
            );
            assert!(denied.contains(&expected) && denied.lines().count() == 1, "{denied}");
        }
        // Of several units all are allowed, or nothing is done.
        let before = m.main_pid("a.service");
        let denied = other(&[&*warren, "restart", "a.service", "b.service"]).expect_err("not b");
        assert!(denied.contains("restart of b.service: only root"), "{denied}");
        assert_eq!(m.main_pid("a.service"), before);
        // What is no job is not asked about.
        let denied = other(&[&*warren, "mark", "a.service", "maintenance"]).expect_err("not his");
        assert!(denied.contains("only root") && !denied.contains("polkit"), "{denied}");
        // One that is put aside is not cleared by others.
        m.call("Mark", &serde_json::json!({"unit": "a.service", "as": "maintenance"}));
        other(&[&*warren, "clear", "a.service"]).expect_err("an administrator put it aside");
        m.call("Clear", &serde_json::json!({"unit": "a.service"}));
        m.expect_job("start", "a.service", "done");
        other(&[&*warren, "reset-failed", "a.service"]).expect("its rule says so");
        // Rules are asked about the unit, not about another name that it has and that is not in memory.
        std::os::unix::fs::symlink("b.service", m.own("units/other.service"))
            .expect("it can be made");
        m.run(&["systemctl", "daemon-reload"]).expect("root may");
        let before = m.main_pid("b.service");
        control("restart", "other.service").expect_err("the unit is b.service");
        own("restart", "other.service").expect_err("the unit is b.service");
        assert_eq!(m.main_pid("b.service"), before);
        // A daemon that does not answer holds up nobody else.
        let polkit = m.main_pid("polkit.service").expect("it runs").to_string();
        m.run(&["kill", "-STOP", &polkit]).expect("root may");
        let mut waits = m.spawn(&[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "systemctl",
            "--no-ask-password",
            "restart",
            "a.service",
        ]);
        m.run(&["systemctl", "restart", "b.service"]).expect("root is not asked about");
        other(&["systemctl", "is-active", "b.service"]).expect("nothing is asked about this");
        assert!(waits.try_wait().expect("our child").is_none());
        let before = m.main_pid("a.service");
        m.run(&["kill", "-CONT", &polkit]).expect("root may");
        assert!(waits.wait().expect("our child").success());
        assert!(m.main_pid("a.service") != before);
    });
}

#[test]
fn systemd_analyze_shows_what_the_manager_knows() {
    with_bus("transient-dump", &[("a.service", "[Service]\nExecStart=@P stay\n")], |m| {
        m.expect_job("start", "a.service", "done");
        let all = m.run(&["systemd-analyze", "dump"]).expect("it is told");
        for line in [
            "-> Unit a.service: loaded active running job -",
            "-> Unit dbus.service: loaded active running",
        ] {
            assert!(all.contains(line), "{all}");
        }
        let one = m.run(&["systemd-analyze", "dump", "a.*"]).expect("it is told");
        assert_eq!(one, "-> Unit a.service: loaded active running job -\n");
    });
}
