//! Faults that were reported of service managers in public, each played as it was told of. The table in
//! docs/src/design/field-reports.md has the numbers.

mod lab;

use lab::{Ended, Machine, pause, until};
use serde_json::json;
use std::time::Duration;

fn run(m: &Machine, line: &str) -> String {
    m.run(&["sh", "-c", line]).expect("sh(1) runs")
}

/// What `warren` prints on both streams, and its exit status.
fn warren(m: &Machine, arguments: &str) -> String {
    let command = lab::program_of("warren-cli", "warren");
    run(m, &format!("{command} {arguments} 2>&1; echo \"= $?\""))
}

fn reload(m: &Machine) {
    m.call("ReloadConfiguration", &json!({}));
}

fn remove(m: &Machine, file: &str) {
    std::fs::remove_file(m.directory.join("units").join(file)).expect("it is there");
}

/// Asks for a job and does not wait for it.
fn begin(m: &Machine, kind: &str, unit: &str) {
    m.call("Job", &json!({"type": kind, "unit": unit, "wait": false}));
}

/// A1: the mount waits for another unit, somebody waits in the path, and the files go.
#[test]
fn nobody_hangs_in_an_automount_point_whose_files_are_gone() {
    let slow = "[Service]\nType=oneshot\nExecStart=@P wait:600000\n";
    let mount = "[Unit]\nRequires=slow.service\nAfter=slow.service\n\
                 [Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/x\n";
    let trap = "[Automount]\nWhere=/run/x\n";
    for killed in [false, true] {
        let units = [("slow.service", slow), ("run-x.mount", mount), ("run-x.automount", trap)];
        let name = if killed { "gone-trap-killed" } else { "gone-trap" };
        let Some(m) = Machine::start(name, &units) else { return };
        m.expect_job("start", "run-x.automount", "done");
        let mut waits = m.spawn(&["sh", "-c", "ls /run/x; echo $? >/run/left"]);
        until("the mount is asked for", || {
            (m.state("slow.service") == "activating/start").then_some(())
        });
        remove(&m, "run-x.mount");
        remove(&m, "run-x.automount");
        if killed {
            m.kill_manager();
            m.wait_until_it_listens();
        }
        reload(&m);
        // Whatever becomes of the one that waits, an order for the point that runs still reaches it.
        m.job("stop", "run-x.automount");
        m.job("stop", "run-x.mount");
        until("who waited is let go", || waits.try_wait().expect("a child"));
        run(&m, "timeout 20 ls /run/x; test $? != 124");
        let armed = run(&m, "grep -c ' /run/x .* autofs ' /proc/self/mountinfo; true");
        assert_eq!(armed, "0\n", "{}", m.console());
    }
}

/// A2: who was given more time has it under the next manager, at each step that has a time.
#[test]
fn more_time_that_a_service_was_given_outlasts_the_manager() {
    let say = "systemd-notify EXTEND_TIMEOUT_USEC=60000000";
    let wait = "while ! test -e /run/go; do sleep 0.1; done";
    let start = format!(
        "[Service]\nType=notify\nNotifyAccess=all\nTimeoutStartSec=2\n\
         ExecStart=/bin/sh -c '{say}; touch /run/said; {wait}; systemd-notify --ready; exec sleep 1000'\n"
    );
    let stop = format!(
        "[Service]\nNotifyAccess=all\nTimeoutStopSec=2\nExecStart=/bin/sleep 1000\n\
         ExecStop=/bin/sh -c '{say}; touch /run/said; {wait}'\nExecStopPost=/bin/sh -c 'echo $SERVICE_RESULT >/run/result'\n"
    );
    let runs = format!(
        "[Service]\nType=notify\nNotifyAccess=all\nRuntimeMaxSec=2\n\
         ExecStart=/bin/sh -c 'systemd-notify --ready; {say}; touch /run/said; exec sleep 1000'\n"
    );
    let units = [
        ("start.service", start.as_str()),
        ("stop.service", stop.as_str()),
        ("runs.service", runs.as_str()),
    ];
    let Some(m) = Machine::start("more-time", &units) else { return };
    if !lab::has_systemctl("more_time_that_a_service_was_given_outlasts_the_manager") {
        return;
    }
    let killed_meanwhile = || {
        until("it has said so", || m.inside("/run/said").exists().then_some(()));
        assert!(m.kill_manager());
        m.wait_until_it_listens();
        // Longer than the time that the file has for it.
        pause(Duration::from_secs(4));
        run(&m, "rm /run/said");
    };
    begin(&m, "start", "start.service");
    killed_meanwhile();
    assert_eq!(m.state("start.service"), "activating/start");
    run(&m, "touch /run/go");
    m.wait_for("start.service", "active/running");
    run(&m, "rm /run/go");
    m.expect_job("start", "stop.service", "done");
    begin(&m, "stop", "stop.service");
    killed_meanwhile();
    assert_eq!(m.state("stop.service"), "deactivating/stop");
    run(&m, "touch /run/go");
    m.wait_for("stop.service", "inactive/dead");
    assert_eq!(run(&m, "cat /run/result"), "success\n");
    m.expect_job("start", "runs.service", "done");
    killed_meanwhile();
    assert_eq!(m.state("runs.service"), "active/running");
}

/// A4: a reload in which the service replaces its main process, and says STOPPING=1 on the way.
#[test]
fn a_service_that_says_stopping_in_a_reload_and_is_ready_again_is_not_killed() {
    let reload = "systemd-notify RELOADING=1 MONOTONIC_USEC=$(cut -d. -f1 /proc/uptime)000000; \
                  systemd-notify STOPPING=1; sleep 1; systemd-notify READY=1";
    let unit = format!(
        "[Service]\nType=notify\nNotifyAccess=all\nTimeoutStopSec=3\nExecReload=/bin/sh -c '{reload}'\n\
         ExecStart=/bin/sh -c 'systemd-notify --ready; exec sleep 1000'\n"
    );
    let Some(m) = Machine::start("stopping-reload", &[("own.service", &unit)]) else { return };
    if !lab::has_systemctl(
        "a_service_that_says_stopping_in_a_reload_and_is_ready_again_is_not_killed",
    ) {
        return;
    }
    m.expect_job("start", "own.service", "done");
    let main = m.main_pid("own.service");
    m.job("reload", "own.service");
    m.wait_for("own.service", "active/running");
    // Longer than its time to stop.
    pause(Duration::from_secs(5));
    assert_eq!(m.state("own.service"), "active/running", "{}", m.console());
    assert_eq!(m.main_pid("own.service"), main);
}

/// A5: three services that do not say all that a reload of Type=notify-reload needs.
#[test]
fn a_reload_whose_end_a_service_does_not_tell_ends_in_time() {
    let service = |on_signal: &str| {
        format!(
            "[Service]\nType=notify-reload\nNotifyAccess=all\nTimeoutStartSec=2\n\
             ExecStart=/bin/sh -c 'f() {{ {on_signal}; }}; trap f HUP; systemd-notify --ready; while :; do sleep 0.1; done'\n"
        )
    };
    let time = "MONOTONIC_USEC=$(($(cut -d. -f1 /proc/uptime)+1))000000";
    let units = [
        ("nothing.service", service(":")),
        ("no-time.service", service("systemd-notify RELOADING=1")),
        ("no-ready.service", service(&format!("systemd-notify RELOADING=1 {time}"))),
    ];
    let units = units.each_ref().map(|(name, text)| (*name, &**text));
    let Some(m) = Machine::start("reload-untold", &units) else { return };
    if !lab::has_systemctl("a_reload_whose_end_a_service_does_not_tell_ends_in_time") {
        return;
    }
    for (unit, _) in units {
        m.expect_job("start", unit, "done");
        assert_ne!(m.job("reload", unit), Ended::Said("done".to_owned()), "{unit}");
        m.wait_for(unit, "active/running");
    }
}

/// A7: the file comes after a reload, with one, and after the death of the manager.
#[test]
fn a_pid_file_is_waited_for_over_reloads_and_the_death_of_the_manager() {
    let unit = "[Service]\nType=forking\nPIDFile=/run/p.pid\nTimeoutStartSec=60\n\
                ExecStart=/bin/sh -c 'setsid sh /run/main.sh &'\n";
    let Some(m) = Machine::start("late-pid", &[("own.service", unit)]) else { return };
    let main = "while ! test -e /run/go; do sleep 0.1; done; echo $$ >/run/p.pid; exec sleep 1000";
    std::fs::write(m.inside("/run/main.sh"), main).expect("it can be written");
    for way in ["reload", "edit", "kill"] {
        begin(&m, "start", "own.service");
        until("the first process has left", || {
            (m.status("own.service")["control_pid"].is_null()
                && m.state("own.service") == "activating/start")
                .then_some(())
        });
        match way {
            "reload" => reload(&m),
            "edit" => {
                m.write("own.service", &format!("{unit}Environment=A=1\n"));
                run(&m, "touch /run/go");
                reload(&m);
            }
            _ => {
                m.kill_manager();
                m.wait_until_it_listens();
            }
        }
        run(&m, "touch /run/go");
        m.wait_for("own.service", "active/running");
        let named: u64 = run(&m, "cat /run/p.pid").trim().parse().expect("a number");
        assert_eq!(m.main_pid("own.service"), Some(named), "{way}");
        m.expect_job("stop", "own.service", "done");
        run(&m, "rm -f /run/go /run/p.pid");
    }
}

/// A10: the order of words on the command line is not that of the units.
#[test]
fn units_named_in_any_order_start_in_theirs() {
    let first = "[Service]\nType=oneshot\nExecStart=@P wait:200 append:@D/out/order:first\n";
    let second = "[Unit]\nAfter=first.service\n[Service]\nType=oneshot\nExecStart=@P append:@D/out/order:second\n";
    let units = [("first.service", first), ("second.service", second)];
    let Some(m) = Machine::start("any-order", &units) else { return };
    for order in ["first second", "second first"] {
        let _ = std::fs::remove_file(m.out("order"));
        assert_eq!(warren(&m, &format!("start {order}")), "= 0\n");
        assert_eq!(m.lines("order"), ["first", "second"], "{order}");
    }
}

/// A12: OnFailure= is for the end, not for each automatic restart.
#[test]
fn what_is_started_on_failure_is_started_when_no_restart_follows() {
    let note = "[Service]\nType=oneshot\n\
                ExecStart=/bin/sh -c 'echo $MONITOR_UNIT $MONITOR_SERVICE_RESULT $MONITOR_EXIT_STATUS >>@D/out/notes'\n";
    let fails = "[Unit]\nOnFailure=note@%n.service\nStartLimitBurst=3\nStartLimitIntervalSec=600\n\
                 [Service]\nRestart=on-failure\nRestartSec=50ms\nExecStart=@P append:@D/out/runs:run exit:7\n";
    let units = [("note@.service", note), ("fails.service", fails)];
    let Some(m) = Machine::start("on-failure", &units) else { return };
    m.job("start", "fails.service");
    m.wait_for("fails.service", "failed/failed");
    until("it is noted", || (!m.lines("notes").is_empty()).then_some(()));
    pause(Duration::from_secs(1));
    assert_eq!(m.lines("runs").len(), 3);
    assert_eq!(m.lines("notes"), ["fails.service exit-code 7"]);
}

/// A16: a watchdog that comes with an edit has one whole interval, and a longer one counts.
#[test]
fn a_watchdog_that_a_reload_brings_does_not_fire_at_once() {
    let plain = "[Service]\nExecStart=@P stay\n";
    let fed = |sec: u32| {
        format!(
            "[Service]\nType=notify\nNotifyAccess=all\nWatchdogSec={sec}\nExecStart=@P ready watchdog:1000:100 stay\n"
        )
    };
    let units = [("plain.service", plain.to_owned()), ("fed.service", fed(2))];
    let units = units.each_ref().map(|(name, text)| (*name, &**text));
    let Some(m) = Machine::start("new-watchdog", &units) else { return };
    m.expect_job("start", "plain.service", "done");
    m.expect_job("start", "fed.service", "done");
    m.write("plain.service", &format!("{plain}WatchdogSec=30\n"));
    m.write("fed.service", &fed(60));
    reload(&m);
    pause(Duration::from_secs(3));
    assert_eq!(m.state("plain.service"), "active/running", "{}", m.console());
    assert_eq!(m.state("fed.service"), "active/running", "{}", m.console());
}

/// A18: a generator that asks the manager is answered, and what came of a generator that is gone can be stopped.
#[test]
fn a_generator_may_ask_the_manager_and_may_go() {
    let Some(m) =
        Machine::start("asking-generator", &[("own.service", "[Service]\nExecStart=@P stay\n")])
    else {
        return;
    };
    if !lab::has_systemctl("a_generator_may_ask_the_manager_and_may_go") {
        return;
    }
    m.write_generator(
        "asks",
        "#!/bin/sh\nsystemctl is-active own.service >/run/asked\n\
         printf '[Service]\\nExecStart=/bin/sleep 1000\\n' >$1/made.service\n",
    );
    m.expect_job("start", "own.service", "done");
    reload(&m);
    assert_eq!(run(&m, "cat /run/asked"), "active\n");
    m.expect_job("start", "made.service", "done");
    m.remove_generator("asks");
    reload(&m);
    assert_eq!(m.state("made.service"), "active/running");
    m.expect_job("stop", "made.service", "done");
}

/// A35: the device of an automount's mount does not come.
#[test]
fn who_enters_an_automount_point_whose_device_does_not_come_gets_an_error() {
    let mount = "[Unit]\nRequires=never.service\nAfter=never.service\nJobTimeoutSec=2\n\
                 [Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/x\n";
    let never = "[Service]\nType=oneshot\nExecStart=@P wait:600000\n";
    let trap = "[Automount]\nWhere=/run/x\n";
    let units = [("never.service", never), ("run-x.mount", mount), ("run-x.automount", trap)];
    let Some(m) = Machine::start("no-device", &units) else { return };
    m.expect_job("start", "run-x.automount", "done");
    assert_ne!(run(&m, "timeout 60 ls /run/x 2>/dev/null; echo $?"), "124\n", "{}", m.console());
}

/// A50: restarts of what waits for another, and many restarts at once, never make two of a service.
#[test]
fn restarts_at_once_make_one_process() {
    let a = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=@P wait:1500\n";
    let b = "[Unit]\nRequires=a.service\nAfter=a.service\n[Service]\nExecStart=@P stay\n";
    let fails = "[Service]\nType=oneshot\nExecStart=/bin/false\n";
    let c = "[Unit]\nRequires=fails.service\nAfter=fails.service\n[Service]\nExecStart=@P append:@D/out/never:c stay\n";
    let units = [("a.service", a), ("b.service", b), ("fails.service", fails), ("c.service", c)];
    let Some(m) = Machine::start("restarts", &units) else { return };
    begin(&m, "start", "b.service");
    for _ in 0..3 {
        begin(&m, "restart", "b.service");
    }
    m.wait_for("b.service", "active/running");
    let one = || assert_eq!(run(&m, "pgrep -c -f '[p]layer stay'; true"), "1\n", "{}", m.console());
    one();
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| begin(&m, "restart", "b.service"));
        }
    });
    until("no job is left", || m.status("b.service")["job"].is_null().then_some(()));
    m.wait_for("b.service", "active/running");
    one();
    m.job("start", "c.service");
    assert!(m.lines("never").is_empty());
}

/// A52: ready again only when it says so again.
#[test]
fn a_service_that_died_is_ready_again_when_it_says_so() {
    let unit = "[Service]\nType=notify\nNotifyAccess=all\nRestart=always\nRestartSec=50ms\nTimeoutStartSec=60\n\
                ExecStart=/bin/sh -c 'while ! test -e /run/go; do sleep 0.1; done; rm /run/go; systemd-notify --ready; exec sleep 1000'\n";
    let Some(m) = Machine::start("ready-again", &[("own.service", unit)]) else { return };
    if !lab::has_systemctl("a_service_that_died_is_ready_again_when_it_says_so") {
        return;
    }
    run(&m, "touch /run/go");
    m.expect_job("start", "own.service", "done");
    let main = m.main_pid("own.service").expect("it runs");
    run(&m, &format!("kill -9 {main}"));
    m.wait_for("own.service", "activating/start");
    pause(Duration::from_secs(1));
    assert_eq!(m.state("own.service"), "activating/start");
    run(&m, "touch /run/go");
    m.wait_for("own.service", "active/running");
}

/// A1, its second form: the point is of a generator that makes it no longer.
#[test]
fn nobody_hangs_in_an_automount_point_whose_generator_makes_it_no_longer() {
    let Some(m) = Machine::start("gone-generator", &[]) else { return };
    m.write_generator(
        "points",
        "#!/bin/sh\nprintf '[Automount]\\nWhere=/run/y\\n' >$1/run-y.automount\n\
         printf '[Mount]\\nWhat=tmpfs\\nType=tmpfs\\nWhere=/run/y\\n' >$1/run-y.mount\n",
    );
    reload(&m);
    m.expect_job("start", "run-y.automount", "done");
    m.remove_generator("points");
    reload(&m);
    assert_ne!(run(&m, "timeout 60 ls /run/y >/dev/null 2>&1; echo $?"), "124\n");
    m.job("stop", "run-y.automount");
    m.job("stop", "run-y.mount");
    let armed = run(&m, "grep -c ' /run/y .* autofs ' /proc/self/mountinfo; true");
    assert_eq!(armed, "0\n", "{}", m.console());
}

/// A5: SIGHUP ends a service that does not handle it.
#[test]
fn a_reload_that_ends_the_service_ends_itself() {
    let unit = "[Service]\nType=notify-reload\nNotifyAccess=all\nTimeoutStartSec=60\n\
                ExecStart=/bin/sh -c 'systemd-notify --ready; exec sleep 1000'\n";
    let Some(m) = Machine::start("reload-ends", &[("own.service", unit)]) else { return };
    if !lab::has_systemctl("a_reload_that_ends_the_service_ends_itself") {
        return;
    }
    m.expect_job("start", "own.service", "done");
    assert_ne!(m.job("reload", "own.service"), Ended::Said("done".to_owned()));
    m.wait_for("own.service", "inactive/dead");
}

/// A15: what served a connection and has failed takes no place of its source.
#[test]
fn connections_whose_instances_failed_do_not_count() {
    use std::io::Read as _;
    use std::net::TcpStream;
    let address = warren_testkit::free_address();
    let socket =
        format!("[Socket]\nListenStream={address}\nAccept=yes\nMaxConnectionsPerSource=2\n");
    let service = "[Service]\nStandardInput=socket\nExecStart=/bin/sh -c 'echo here; exit 1'\n";
    let units = [("many.socket", socket.as_str()), ("many@.service", service)];
    let Some(m) = Machine::start("failed-instances", &units) else { return };
    m.expect_job("start", "many.socket", "done");
    for _ in 0..8 {
        until("a connection is served", || {
            let mut said = String::new();
            let mut stream = TcpStream::connect(address).ok()?;
            stream.read_to_string(&mut said).ok()?;
            (said == "here\n").then_some(())
        });
    }
}

/// A14: thousands of listeners in one unit. They are passed on though the service may open fewer files itself: what it
/// then cannot open, as its libraries, is its own fault.
#[test]
fn a_service_has_more_sockets_than_it_may_open_files() {
    const LISTENERS: u32 = 1500;
    let listeners: String =
        (0..LISTENERS).map(|number| format!("ListenStream=/run/many/{number}\n")).collect();
    let service = |limit: u32| {
        format!(
            "[Unit]\nRequires=many.socket\nAfter=many.socket\n[Service]\nType=oneshot\nSockets=many.socket\n\
             RemainAfterExit=yes\nLimitNOFILE={limit}:20000\n\
             ExecStart=/bin/sh -c 'echo $$LISTEN_FDS $$(ulimit -Sn) $$(ls /proc/$$$$/fd | wc -l) >/run/many.out'\n"
        )
    };
    let units = [
        ("many.socket", &*format!("[Socket]\nService=many.service\n{listeners}")),
        ("many.service", &service(2000)),
        ("few.service", &service(1024)),
    ];
    let Some(m) = Machine::start("report-listeners", &units) else { return };
    m.expect_job("start", "many.socket", "done");
    m.expect_job("start", "many.service", "done");
    let said = run(&m, "cat /run/many.out");
    let numbers: Vec<u32> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [passed, limit, open] = numbers[..] else { panic!("{said:?}") };
    assert_eq!((passed, limit), (LISTENERS, 2000));
    // With the standard ones, and none of the manager's.
    assert!((LISTENERS + 3..LISTENERS + 6).contains(&open), "{open}");
    m.expect_job("start", "few.service", "failed");
    let status = m.call("Status", &json!({"unit": "few.service"}));
    assert_eq!(
        status["ended"].as_str().map(|text| text.ends_with("exited with code 127")),
        Some(true),
        "{status}"
    );
}

/// A25: what a limit of a slice was is gone when it is set back, by an order, by an edit, and when its file goes.
#[test]
fn limits_of_a_slice_that_are_taken_back_are_none() {
    let name = "limits_of_a_slice_that_are_taken_back_are_none";
    let limited =
        "[Slice]\nMemoryMax=100M\nMemoryHigh=90M\nTasksMax=50\nCPUQuota=20%\nCPUWeight=7\n";
    let units =
        [("few.slice", limited), ("a.service", "[Service]\nSlice=few.slice\nExecStart=@P stay\n")];
    let Some(m) = Machine::start("report-slice-limits", &units) else { return };
    m.expect_job("start", "a.service", "done");
    let group = m.cgroup_directory().join("few.slice");
    let files = ["memory.max", "memory.high", "pids.max", "cpu.max", "cpu.weight"];
    let read = || {
        files.map(|file| {
            std::fs::read_to_string(group.join(file)).unwrap_or_default().trim().to_owned()
        })
    };
    if read().contains(&String::new()) {
        return lab::not_run(
            name,
            "a cgroup2 file system with controllers: `cargo xtask vm tests`",
        );
    }
    let set = ["104857600", "94371840", "50", "20000 100000", "7"];
    let none = ["max", "max", "max", "max 100000", "100"];
    assert_eq!(read(), set);
    run(
        &m,
        "systemctl set-property --runtime few.slice MemoryMax=infinity MemoryHigh=infinity TasksMax=infinity CPUQuota= CPUWeight=",
    );
    assert_eq!(read(), none, "by an order");
    run(
        &m,
        "systemctl set-property --runtime few.slice MemoryMax=100M MemoryHigh=90M TasksMax=50 CPUQuota=20% CPUWeight=7",
    );
    assert_eq!(read(), set);
    run(&m, "rm -r /run/systemd/system.control/few.slice.d");
    m.write("few.slice", "[Slice]\nMemoryMax=infinity\nMemoryHigh=infinity\nTasksMax=infinity\nCPUQuota=\nCPUWeight=\n");
    reload(&m);
    assert_eq!(read(), none, "by an edit");
    m.write("few.slice", limited);
    reload(&m);
    assert_eq!(read(), set);
    remove(&m, "few.slice");
    reload(&m);
    assert_eq!(read(), none, "its file is gone");
}

/// A44 (of another program's dependencies): each level of two units that require two doubles the ways, not the work.
#[test]
fn forty_levels_of_units_that_require_two_each_start_in_one_go() {
    const LEVELS: usize = 40;
    let unit = |level: usize| {
        let below = level + 1;
        let needs = match level < LEVELS {
            true => format!(
                "Requires={below}a.service {below}b.service\nAfter={below}a.service {below}b.service\n"
            ),
            false => String::new(),
        };
        format!(
            "[Unit]\n{needs}[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
        )
    };
    let names = |level: usize| ["a", "b"].map(|side| format!("{level}{side}.service"));
    let texts: Vec<(String, String)> =
        (0..=LEVELS).flat_map(|level| names(level).map(|name| (name, unit(level)))).collect();
    let units: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (&**name, &**text)).collect();
    let Some(m) = Machine::start("diamonds", &units) else { return };
    m.expect_job("start", "0a.service", "done");
    // The one that nobody needs is not started.
    let up = |name: &str| m.state(name) == "active/exited";
    let started = texts.iter().filter(|(name, _)| up(name)).count();
    assert_eq!((started, up("0b.service")), (2 * LEVELS + 1, false));
    m.expect_job("stop", &format!("{LEVELS}a.service"), "done");
    assert!(texts.iter().all(|(name, _)| *name == format!("{LEVELS}b.service") || !up(name)));
}

/// A26: a slice that may have one unit active, and a target that wants three of it.
#[test]
fn a_full_slice_refuses_the_units_beyond_its_limit_and_no_others() {
    let slice = "[Slice]\nConcurrencyHardMax=1\n";
    let service = "[Service]\nSlice=one.slice\nExecStart=@P stay\n";
    let other = "[Service]\nExecStart=@P stay\n";
    let target = "[Unit]\nWants=a.service b.service c.service other.service\n\
                  After=a.service b.service c.service other.service\n";
    let units = [
        ("one.slice", slice),
        ("a.service", service),
        ("b.service", service),
        ("c.service", service),
        ("other.service", other),
        ("all.target", target),
    ];
    let Some(m) = Machine::start("report-slice", &units) else { return };
    m.expect_job("start", "all.target", "done");
    assert_eq!(m.state("other.service"), "active/running");
    let all = ["a.service", "b.service", "c.service"];
    let up: Vec<&str> = all.into_iter().filter(|unit| m.state(unit) == "active/running").collect();
    let [up] = up[..] else { panic!("{up:?}") };
    for unit in all.into_iter().filter(|&unit| unit != up) {
        let why = warren(&m, &format!("why {unit}"));
        assert!(why.contains("start refused: as many units of its slice"), "{why}");
        assert!(why.contains("ConcurrencyHardMax= allows (one.slice)"), "{why}");
    }
    // Whoever goes makes room.
    m.expect_job("stop", up, "done");
    let next = if up == "c.service" { "a.service" } else { "c.service" };
    m.expect_job("start", next, "done");
    m.expect_job("start", up, "failed");
}

/// The same with a soft limit: starts wait, also over the end of a manager, and an edit of the slice counts at once.
#[test]
fn starts_wait_for_a_place_in_a_slice_and_outlast_the_manager() {
    let slice = |most: u32| format!("[Slice]\nConcurrencySoftMax={most}\n");
    let service = "[Service]\nSlice=few.slice\nExecStart=@P stay\n";
    let units = [
        ("few.slice", &*slice(1)),
        ("a.service", service),
        ("b.service", service),
        ("c.service", service),
    ];
    let Some(m) = Machine::start("report-slice-soft", &units) else { return };
    m.expect_job("start", "a.service", "done");
    begin(&m, "start", "c.service");
    begin(&m, "start", "b.service");
    let why = warren(&m, "why c.service");
    assert!(why.contains("few.slice"), "{why}");
    assert!(m.kill_manager());
    m.wait_for("a.service", "active/running");
    assert_eq!(
        (m.state("b.service"), m.state("c.service")),
        ("inactive/dead".into(), "inactive/dead".into())
    );
    m.expect_job("stop", "a.service", "done");
    m.wait_for("b.service", "active/running");
    assert_eq!(m.state("c.service"), "inactive/dead");
    m.write("few.slice", &slice(2));
    reload(&m);
    m.wait_for("c.service", "active/running");
    if lab::has_systemctl("starts_wait_for_a_place_in_a_slice_and_outlast_the_manager") {
        let shown = run(
            &m,
            "systemctl show -p ConcurrencySoftMax,ConcurrencyHardMax,NCurrentlyActive few.slice",
        );
        for line in ["ConcurrencySoftMax=2", "ConcurrencyHardMax=4294967295", "NCurrentlyActive=2"]
        {
            assert!(shown.contains(line), "{shown}");
        }
    }
}

/// A service that restarts directly takes nothing along that is bound to it, also if the manager ends in between.
#[test]
fn what_is_bound_to_a_service_that_restarts_directly_stays() {
    let main = "[Unit]\nOnFailure=told.service\n[Service]\nRestart=always\nRestartMode=direct\nRestartSec=1s\n\
                ExecStart=@P append:@D/out/runs:run stay\nExecStopPost=/bin/true\n";
    let bound = "[Unit]\nBindsTo=main.service\nAfter=main.service\n[Service]\nExecStart=@P stay\n";
    let told = "[Service]\nType=oneshot\nExecStart=@P append:@D/out/told:told\n";
    let debug = "[Service]\nRestart=always\nRestartMode=debug\nRestartSec=0\n\
                 ExecStart=/bin/sh -c 'echo \"<$DEBUG_INVOCATION>\" >>/run/debug; exec sleep 1000'\n";
    let units = [
        ("main.service", main),
        ("bound.service", bound),
        ("told.service", told),
        ("debug.service", debug),
    ];
    let Some(m) = Machine::start("restart-direct", &units) else { return };
    m.expect_job("start", "bound.service", "done");
    let kill = |unit: &str| {
        let pid = m.main_pid(unit).expect("it runs");
        run(&m, &format!("kill -9 {pid}"));
    };
    for (runs, killed) in [(2, false), (3, true)] {
        kill("main.service");
        if killed {
            m.wait_for("main.service", "activating/auto-restart");
            assert!(m.kill_manager());
        }
        until("it runs again", || (m.lines("runs").len() == runs).then_some(()));
        m.wait_for("main.service", "active/running");
        assert_eq!(m.state("bound.service"), "active/running");
    }
    assert!(m.lines("told").is_empty());
    m.expect_job("stop", "main.service", "done");
    assert_eq!(m.state("bound.service"), "inactive/dead");
    m.expect_job("start", "debug.service", "done");
    until("it has begun", || (run(&m, "cat /run/debug 2>/dev/null; true") == "<>\n").then_some(()));
    kill("debug.service");
    until("it has begun again", || (run(&m, "cat /run/debug") == "<>\n<1>\n").then_some(()));
}
