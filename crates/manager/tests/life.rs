//! Units of every type in a real machine: what a day of theirs looks like.

mod lab;

use lab::Machine;
use serde_json::json;

/// Runs `check` over a machine with these units, where that can be.
fn with(name: &str, units: &[(&str, &str)], check: impl FnOnce(&Machine)) {
    if let Some(machine) = Machine::start(name, units) {
        check(&machine);
    }
}

#[test]
fn what_is_said_of_a_try_goes_with_the_next() {
    let service = ("p.service", "[Service]\nExecStart=@P stay");
    let units = [("p.socket", "[Socket]\nListenStream=192.0.2.1:7790"), service];
    let Some(m) = Machine::start("said", &units) else { return };
    m.expect_job("start", "p.socket", "failed");
    let said = m.status("p.socket")["status_text"].to_string();
    assert!(said.contains("192.0.2.1"), "{said}");
    m.write("p.socket", "[Socket]\nListenStream=@D/p");
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", "p.socket", "done");
    assert_eq!(m.status("p.socket")["status_text"], "");
}

#[test]
fn simple_oneshot_and_notify_services_start_and_stop() {
    let units = [
        ("a.service", "[Service]\nExecStart=@P stay"),
        (
            "o.service",
            "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=@P append:@D/out/o:1\nExecStart=@P append:@D/out/o:2",
        ),
        ("n.service", "[Service]\nType=notify\nExecStart=@P status:hello ready stay"),
        ("r.service", "[Service]\nType=notify-reload\nExecStart=@P reloads ready stay"),
        (
            "f.service",
            "[Service]\nType=forking\nPIDFile=/run/f.pid\nExecStart=@P fork:/run/f.pid stay",
        ),
    ];
    // Its first word is longer than any that is taken.
    let long =
        format!("[Service]\nType=notify\nExecStart=@P status:{} ready stay", "x".repeat(5000));
    let units = [&units[..], &[("l.service", &long)]].concat();
    with("kinds", &units, |m| {
        for (unit, state) in [
            ("a", "active/running"),
            ("o", "active/exited"),
            ("n", "active/running"),
            ("l", "active/running"),
            ("r", "active/running"),
            ("f", "active/running"),
        ] {
            let unit = format!("{unit}.service");
            m.expect_job("start", &unit, "done");
            assert_eq!(m.state(&unit), state, "{unit}");
        }
        assert_eq!(m.lines("o"), ["1", "2"]);
        assert_eq!(m.status("n.service")["status_text"], "hello");
        let file = std::fs::read_to_string(m.inside("/run/f.pid")).unwrap_or_default();
        assert_eq!(m.main_pid("f.service").map(|p| p.to_string()).as_deref(), Some(file.trim()));
        m.expect_job("reload", "r.service", "done");
        for unit in ["a", "o", "n", "r", "f"] {
            let unit = format!("{unit}.service");
            m.expect_job("stop", &unit, "done");
            assert_eq!(m.state(&unit), "inactive/dead", "{unit}");
        }
    });
}

/// A frozen service stands still, over a kill of the manager too, and is stopped without being thawed by
/// hand: what asks it to end would wait for ever.
#[test]
fn a_frozen_service_stands_still_and_can_be_stopped() {
    let ticks = "[Service]\nTimeoutStopSec=infinity\n\
                 ExecStart=/bin/sh -c 'while :; do echo x >>/run/ticks; sleep 0.01; done'";
    with("frozen", &[("ticks.service", ticks)], |m| {
        // systemctl(1) asks for this over the system bus, which is not here.
        let call = |method: &str| {
            let interface = "org.freedesktop.systemd1.Manager";
            let object = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", interface];
            let address = "--address=unix:path=/run/systemd/private";
            let words = [&["busctl", address, "call"], &object[..], &[method, "s"]].concat();
            m.run(&[&words[..], &["ticks.service"]].concat())
        };
        if m.run(&["busctl", "--version"]).is_err() {
            return lab::not_run("a_frozen_service_stands_still", "systemctl of systemd");
        }
        m.expect_job("start", "ticks.service", "done");
        if m.status("ticks.service")["cpu_ns"].is_null() {
            return lab::not_run("a_frozen_service_stands_still", "cgroups");
        }
        let ticks = || std::fs::metadata(m.inside("/run/ticks")).map_or(0, |file| file.len());
        lab::until("it ticks", || (ticks() > 2).then_some(()));
        call("FreezeUnit").expect("it can be frozen");
        let show = || m.run(&["systemctl", "show", "--value", "-p", "FreezerState", "ticks"]);
        for killed in [false, true] {
            let old = m.manager_pid();
            assert!(!killed || m.kill_manager());
            lab::until("a manager answers", || (!killed || m.manager_pid() != old).then_some(()));
            assert_eq!(lab::until("it is asked", || show().ok()).trim(), "frozen");
            let before = ticks();
            lab::pause(std::time::Duration::from_millis(100));
            assert_eq!(ticks(), before, "killed {killed}");
        }
        call("ThawUnit").expect("it can be thawed");
        let before = ticks();
        lab::until("it goes on", || (ticks() > before).then_some(()));
        call("FreezeUnit").expect("it can be frozen again");
        m.expect_job("stop", "ticks.service", "done");
        assert_eq!(show().expect("it can be asked").trim(), "running");
        assert!(call("FreezeUnit").is_err_and(|error| error.contains("Unit is inactive.")));
    });
}

/// Who is brought into a unit's group from another PID namespace has no number there, and cgroup.procs lists 0 for
/// it: a signal to 0 would be one to the manager's own process group.
#[test]
fn who_comes_into_a_group_from_outside_is_ended_with_it_and_takes_nobody_along() {
    let units = [
        ("asked.service", "[Service]\nExecStart=@P stay\nTimeoutStopSec=2s"),
        ("left.service", "[Service]\nExecStart=@P stay\nTimeoutStopSec=2s"),
    ];
    with("outsider", &units, |m| {
        m.expect_job("start", "asked.service", "done");
        if m.status("asked.service")["cpu_ns"].is_null() {
            return lab::not_run("who_comes_into_a_group_from_outside", "cgroups");
        }
        let manager = m.manager_pid();
        let mut outsiders = Vec::new();
        for unit in ["asked.service", "left.service"] {
            m.expect_job("start", unit, "done");
            let outsider =
                std::process::Command::new("sleep").arg("1000").spawn().expect("sleep(1)");
            m.bring_in(outsider.id(), unit);
            outsiders.push((unit, outsider));
        }
        m.job("stop", "asked.service");
        m.wait_for("asked.service", "failed/failed");
        assert_eq!(m.manager_pid(), manager);
        m.leave("exit");
        lab::until("the machine ends", || m.is_over().then_some(()));
        for (unit, mut outsider) in outsiders {
            let ended = lab::until("it is ended", || outsider.try_wait().expect("a child"));
            assert!(!ended.success(), "{unit}");
        }
        assert!(!m.console().contains("restarting it"), "{}", m.console());
    });
}

/// A main process that has moved to another unit's group is met by no kill of its own unit's group: it is killed by
/// its number when its time is over, at the end of the machine too, and the other unit is left alone.
#[test]
fn a_main_process_in_another_units_group_is_killed_when_its_time_is_over() {
    let Ok(Some(tree)) = warren_sys::cgroup::mount_point() else {
        return warren_testkit::not_run("there is no cgroup tree");
    };
    let own = format!("{}$(sed -n s/^0:://p /proc/self/cgroup)", tree.display());
    let moves = |to: &str, mode: &str| {
        format!(
            "[Service]\nTimeoutStopSec=1s\nKillMode={mode}\nExecStart=/bin/sh -c 'trap \"\" TERM; \
             echo 0 >{own}/{to}host.service/cgroup.procs && echo up >>@D/out/%n; exec sleep 1000'"
        )
    };
    let units = [
        ("host.service", "[Service]\nExecStart=@P stay".to_owned()),
        ("moved.service", moves("../", "control-group")),
        ("mixed.service", moves("../", "mixed")),
        ("many@.service", moves("../../", "control-group")),
    ];
    let units: Vec<_> = units.iter().map(|(name, text)| (*name, text.as_str())).collect();
    with("elsewhere", &units, |m| {
        m.expect_job("start", "host.service", "done");
        if m.status("host.service")["cpu_ns"].is_null() {
            return lab::not_run("a_main_process_in_another_units_group", "cgroups");
        }
        let start = |unit: &str| {
            m.expect_job("start", unit, "done");
            lab::until("it has moved", || (!m.lines(unit).is_empty()).then_some(()));
        };
        for unit in ["moved.service", "mixed.service"] {
            start(unit);
            m.expect_job("stop", unit, "done");
            let status = m.status(unit);
            assert_eq!(status["reason"]["code"], "WR-0044", "{status}");
        }
        assert_eq!(m.state("host.service"), "active/running");
        // So many that their slice is killed as one.
        (0..20).for_each(|n| start(&format!("many@{n}.service")));
        m.leave("exit");
        lab::until("the machine ends", || m.is_over().then_some(()));
        assert!(!m.console().contains("(uninterruptible sleep)"), "{}", m.console());
    });
}

/// What a unit used is told after its group is gone, of each kind of end, and by another manager too.
#[test]
fn what_a_run_used_is_known_after_its_end() {
    let busy = "/bin/sh -c 'i=0; while [ $$i -lt 9000 ]; do i=$$((i+1)); done";
    let (ends, stays) = (format!("{busy}'"), format!("{busy}; exec sleep 1000'"));
    let units = [
        ("once.service", format!("[Service]\nType=oneshot\nExecStart={ends}")),
        ("stopped.service", format!("[Service]\nExecStart={stays}")),
        ("after.service", format!("[Service]\nExecStart=/bin/true\nExecStopPost={ends}")),
        ("two.service", format!("[Service]\nExecStart=/bin/sh -c 'sleep 1000 & exec {stays}'")),
    ];
    let units: Vec<_> = units.iter().map(|(name, text)| (*name, text.as_str())).collect();
    with("used", &units, |m| {
        m.expect_job("start", "stopped.service", "done");
        if m.status("stopped.service")["cpu_ns"].is_null() {
            return lab::not_run("what_a_run_used_is_known_after_its_end", "cgroups");
        }
        for unit in ["once", "stopped", "after", "two"] {
            m.expect_job("start", &format!("{unit}.service"), "done");
            m.expect_job("stop", &format!("{unit}.service"), "done");
            m.wait_for(&format!("{unit}.service"), "inactive/dead");
        }
        for killed in [false, true] {
            let old = m.manager_pid();
            assert!(!killed || m.kill_manager());
            lab::until("another manager answers", || {
                (!killed || m.manager_pid() != old).then_some(())
            });
            for unit in ["once", "stopped", "after", "two"] {
                let used = m.status(&format!("{unit}.service"))["cpu_ns"].as_u64();
                assert!(used.is_some_and(|ns| ns > 0), "{unit}, killed {killed}: {used:?}");
            }
        }
    });
}

/// The main process of the first unit is a child of another one, which reaps it, so that init has
/// no record of its end; that of the second leaves somebody behind; the third one's command does.
#[test]
fn who_ends_without_a_record_is_missed_by_his_group() {
    let adopted = "[Service]\nType=notify\nNotifyAccess=all\n\
                   ExecStart=/bin/sh -c '@P main ready stay & wait'";
    let leaves = "[Service]\nTimeoutStopSec=infinity\n\
                  ExecStart=/bin/sh -c 'trap \"\" TERM; sleep 1000 & echo $$! >/run/left.pid'";
    let spared = "[Service]\nKillMode=process\nExecStart=@P stay\n\
                  ExecStartPost=@P fork:/run/post.pid stay";
    let units =
        [("adopted.service", adopted), ("leaves.service", leaves), ("spared.service", spared)];
    with("left", &units, |m| {
        let pid_in = |file| {
            let text = std::fs::read_to_string(m.inside(file)).expect("the player wrote it");
            text.trim().to_owned()
        };
        for restarts in 0..2 {
            m.expect_job("start", "adopted.service", "done");
            if restarts == 1 {
                let old = m.manager_pid();
                assert!(m.kill_manager());
                lab::until("another manager", || m.manager_pid().filter(|pid| Some(*pid) != old));
            }
            let main = m.main_pid("adopted.service").expect("it runs").to_string();
            m.run(&["kill", "-TERM", &main]).expect("it can be killed");
            m.wait_for("adopted.service", "inactive/dead");
        }
        m.expect_job("start", "leaves.service", "done");
        m.wait_for("leaves.service", "deactivating/stop-sigterm");
        m.run(&["kill", "-KILL", &pid_in("/run/left.pid")]).expect("it can be killed");
        m.wait_for("leaves.service", "inactive/dead");

        m.expect_job("start", "spared.service", "done");
        let left = pid_in("/run/post.pid");
        m.expect_job("stop", "spared.service", "done");
        assert_eq!(m.state("spared.service"), "inactive/dead");
        m.run(&["kill", "-KILL", &left]).expect("KillMode=process spared it");
    });
}

#[test]
fn process_1_has_the_name_that_managers_of_configuration_look_for() {
    let units =
        [("one.service", "[Service]\nType=oneshot\nExecStart=/bin/cp /proc/1/comm @D/out/name")];
    with("named", &units, |m| {
        m.expect_job("start", "one.service", "done");
        assert_eq!(m.lines("name"), ["systemd"]);
    });
}

#[test]
fn a_watchdog_is_fed_and_missed() {
    let units = [
        (
            "fed.service",
            "[Service]\nType=notify\nWatchdogSec=1\nExecStart=@P ready watchdog:12:250 append:@D/out/fed:end stay",
        ),
        ("hungry.service", "[Service]\nType=notify\nWatchdogSec=1\nExecStart=@P ready stay"),
    ];
    with("watchdog", &units, |m| {
        m.expect_job("start", "fed.service", "done");
        m.expect_job("start", "hungry.service", "done");
        m.wait_for("hungry.service", "failed/failed");
        assert_eq!(m.status("hungry.service")["result"], "watchdog");
        m.wait_for("fed.service", "failed/failed");
        assert_eq!(m.lines("fed"), ["end"], "it was fed until then");
    });
}

#[test]
fn commands_of_a_service_run_in_order_and_know_what_happened() {
    let units = [
        (
            "all.service",
            "[Service]\nType=notify\nExecStartPre=@P append:@D/out/o:pre\n\
             ExecStart=@P append:@D/out/o:main ready stay\nExecStartPost=@P append:@D/out/o:$MAINPID\n\
             ExecStop=@P append:@D/out/o:stop\nExecStopPost=@P append:@D/out/o:$SERVICE_RESULT",
        ),
        (
            "dies.service",
            "[Service]\nExecStart=@P wait:20 exit:3\n\
             ExecStopPost=@P append:@D/out/d:$SERVICE_RESULT append:@D/out/d:$EXIT_CODE append:@D/out/d:$EXIT_STATUS",
        ),
        (
            "env.service",
            "[Service]\nType=oneshot\nEnvironment=A=1\nEnvironmentFile=@D/units/env.list\nUser=nobody\n\
             RuntimeDirectory=surv\nExecStart=+@P append:@D/out/e:$A append:@D/out/e:$B append:@D/out/e:$RUNTIME_DIRECTORY",
        ),
        ("env.list", "B=from a file\n"),
        ("slow.service", "[Service]\nType=notify\nTimeoutStartSec=200ms\nExecStart=@P stay"),
        ("deaf.service", "[Service]\nTimeoutStopSec=200ms\nExecStart=@P append:@D/out/x:up deaf"),
        (
            "again.service",
            "[Unit]\nStartLimitBurst=3\n[Service]\nRestart=always\nRestartSec=10ms\nExecStart=@P append:@D/out/a:run exit:1",
        ),
    ];
    with("commands", &units, |m| {
        m.expect_job("start", "all.service", "done");
        let main = m.main_pid("all.service").map(|pid| pid.to_string()).unwrap_or_default();
        m.expect_job("stop", "all.service", "done");
        assert_eq!(m.lines("o"), ["pre", "main", main.as_str(), "stop", "success"]);
        m.expect_job("start", "dies.service", "done");
        m.wait_for("dies.service", "failed/failed");
        assert_eq!(m.lines("d"), ["exit-code", "exited", "3"]);
        m.expect_job("start", "env.service", "done");
        assert_eq!(m.lines("e"), ["1", "from a file", "/run/surv"]);
        m.expect_job("start", "slow.service", "failed");
        m.wait_for("slow.service", "failed/failed");
        assert_eq!(m.status("slow.service")["result"], "timeout");
        m.expect_job("start", "deaf.service", "done");
        lab::until("it is deaf", || (m.lines("x") == ["up"]).then_some(()));
        m.expect_job("stop", "deaf.service", "done");
        let _ = m.job("start", "again.service");
        m.wait_for("again.service", "failed/failed");
        assert_eq!(
            (m.status("again.service")["result"].as_str(), m.lines("a").len()),
            (Some("exit-code"), 3)
        );
    });
}

/// Each of these was otherwise than with systemd 252.
#[test]
fn what_a_service_says_is_believed_as_far_as_it_can_be() {
    let units = [
        (
            "named.service",
            "[Service]\nType=notify\nNotifyAccess=all\nExecStart=@P names:4194303 ready stay",
        ),
        (
            "keeps.service",
            "[Service]\nType=notify\nFileDescriptorStoreMax=9\n\
             ExecStart=@P fds:@D/out/fds store:file pipe:gone ready stay",
        ),
        (
            "silent.service",
            "[Service]\nNotifyAccess=main\nFileDescriptorStoreMax=9\nRestart=always\n\
             ExecStart=@P fds:@D/out/silent stay\nExecStartPost=@P store:file",
        ),
        ("fails.service", "[Unit]\nOnFailure=told.service\n[Service]\nExecStart=@P exit:7"),
        (
            "told.service",
            "[Service]\nType=oneshot\n\
             ExecStart=@P append:@D/out/told:$MONITOR_UNIT append:@D/out/told:$MONITOR_EXIT_STATUS",
        ),
    ];
    with("believed", &units, |m| {
        m.expect_job("start", "named.service", "done");
        assert_ne!(m.main_pid("named.service"), Some(4_194_303), "there is no such process");
        m.expect_job("stop", "named.service", "done");
        m.expect_job("start", "keeps.service", "done");
        m.expect_job("restart", "keeps.service", "done");
        assert_eq!(m.lines("fds"), ["(unset)", "file"], "a pipe without a writer is not kept");
        m.expect_job("start", "silent.service", "done");
        // It is started once it runs, which may be before it has said anything.
        lab::until("it ran once", || (m.lines("silent").len() == 1).then_some(()));
        m.expect_job("restart", "silent.service", "done");
        lab::until("it ran twice", || (m.lines("silent").len() == 2).then_some(()));
        assert_eq!(m.lines("silent"), ["(unset)", "(unset)"], "nobody but the main process counts");
        m.expect_job("start", "fails.service", "done");
        lab::until("it is told", || (m.lines("told").len() == 2).then_some(()));
        assert_eq!(m.lines("told"), ["fails.service", "7"]);
    });
}

#[test]
fn a_service_of_its_whole_group_lasts_as_long_as_that() {
    let Ok(Some(_)) = warren_sys::cgroup::mount_point() else {
        return warren_testkit::not_run("there is no cgroup tree");
    };
    let unit = "[Service]\nExitType=cgroup\n\
                ExecStart=/bin/sh -c '@P wait:300 append:@D/out/last:here & exit 0'";
    with("exit-type", &[("g.service", unit)], |m| {
        m.expect_job("start", "g.service", "done");
        m.wait_for("g.service", "inactive/dead");
        assert_eq!(m.lines("last"), ["here"]);
    });
}

/// systemd.service(5), `PIDFile=`: only a file of an unprivileged user has to name a process of the service.
#[test]
fn a_pid_file_of_root_may_name_who_has_left_the_group() {
    let Ok(Some(tree)) = warren_sys::cgroup::mount_point() else {
        return warren_testkit::not_run("there is no cgroup tree");
    };
    let unit = format!(
        "[Service]\nType=forking\nPIDFile=/run/left.pid\nTimeoutStartSec=20\n\
         ExecStart=/bin/sh -c 'cd {}$(sed -n s/^0:://p /proc/self/cgroup)/.. && mkdir -p left && \
         sh -c \"echo 0 > left/cgroup.procs && exec sleep 1000\" & echo $! >/run/left.pid'",
        tree.display()
    );
    with("left", &[("l.service", &unit)], |m| {
        m.expect_job("start", "l.service", "done");
        assert!(m.status("l.service")["main_pid"].is_u64(), "{}", m.status("l.service"));
        m.expect_job("stop", "l.service", "done");
        m.wait_for("l.service", "inactive/dead");
        assert!(m.run(&["pgrep", "-x", "sleep"]).is_err(), "it is still there");
    });
}

/// systemd.service(5): the file is read "after start-up of the service", and `ExecStartPost=` is a part of that.
#[test]
fn a_pid_file_may_be_written_by_what_runs_after_the_start() {
    let forks = "Type=forking\nTimeoutStartSec=20\nExecStart=/bin/sh -c 'setsid sleep 1234 &'";
    let writes = format!(
        "[Service]\n{forks}\nPIDFile=/run/w.pid\nExecStartPost=/bin/true\n\
         ExecStartPost=/bin/sh -c 'until pgrep -x sleep >/run/w.pid; do sleep 0.1; done'"
    );
    let never = "[Service]\nType=forking\nPIDFile=/run/n.pid\nTimeoutStartSec=2\n\
                 ExecStart=/bin/sh -c 'setsid sleep 1000 &'\nExecStartPost=/bin/true";
    with("late-pid-file", &[("w.service", &writes), ("n.service", never)], |m| {
        m.expect_job("start", "w.service", "done");
        assert!(m.status("w.service")["main_pid"].is_u64(), "{}", m.status("w.service"));
        m.expect_job("stop", "w.service", "done");
        m.wait_for("w.service", "inactive/dead");
        m.expect_job("start", "n.service", "failed");
    });
}

#[test]
fn a_delegated_group_is_its_users() {
    let Ok(Some(tree)) = warren_sys::cgroup::mount_point() else {
        return warren_testkit::not_run("there is no cgroup tree");
    };
    let own = "sed -n s/^0:://p /proc/self/cgroup";
    // Its process moves into a group below its own, as container managers do; what else the unit
    // runs then has to have a place beside it.
    let unit = format!(
        "[Service]\nType=notify\nDelegate=yes\nUser=nobody\nStandardOutput=file:@D/out/main\n\
         ExecStart=/bin/sh -c 'cd {}$({own}) && mkdir own && echo 0 > own/cgroup.procs && {own}; \
         exec @P ready stay'\nExecReload=+/bin/sh -c '{own} >>@D/out/reload'",
        tree.display()
    );
    let below = format!(
        "[Service]\nDelegate=yes\nDelegateSubgroup=inner\nType=oneshot\n\
         ExecStart=/bin/sh -c '{own} >>@D/out/below'"
    );
    let privileged = format!(
        "[Service]\nDelegate=yes\nUser=nobody\nType=oneshot\n\
         ExecStart=!/bin/sh -c 'stat -c %%u {}$({own}) >>@D/out/owner'",
        tree.display()
    );
    if !lab::others_reach_programs("a_delegated_group_is_its_users") {
        return;
    }
    let units = [("d.service", &*unit), ("b.service", &below), ("p.service", &privileged)];
    with("delegate", &units, |m| {
        let check = |file: &str, end: &str| {
            let place = m.lines(file).concat();
            assert!(place.ends_with(end), "{file}: {place}");
            tree.join(place.strip_suffix(end).unwrap_or_default().trim_start_matches('/'))
        };
        m.expect_job("start", "d.service", "done");
        let group = check("main", "/own");
        m.expect_job("reload", "d.service", "done");
        check("reload", "system.slice/d.service/.control");
        assert!(group.exists());
        m.expect_job("stop", "d.service", "done");
        assert!(!group.exists(), "{}", group.display());
        m.expect_job("start", "b.service", "done");
        check("below", "system.slice/b.service/inner");
        m.expect_job("start", "p.service", "done");
        assert_eq!(m.lines("owner"), ["65534"]);
    });
}

/// systemd.service(5), the prefixes `+` and `!`, as with systemd 252.
#[test]
fn what_a_privileged_command_makes_is_the_units_users() {
    let tell = "echo $$(stat -c %%u:%%g /run/owned) $$(id -u) $$(id -G) >>@D/out/told";
    let unit = format!(
        "[Service]\nType=oneshot\nUser=65534\nSupplementaryGroups=4242\nRuntimeDirectory=owned\n\
         ExecStartPre=+/bin/sh -c '{tell}'\nExecStart=!/bin/sh -c '{tell}'"
    );
    with("privileged", &[("p.service", &unit)], |m| {
        m.expect_job("start", "p.service", "done");
        // SupplementaryGroups= are for who becomes that user.
        assert_eq!(m.lines("told"), ["65534:65534 0 0 65534"; 2]);
    });
}

#[test]
fn protection_that_is_not_applied_takes_privileges_from_who_is_not_root() {
    let tell = "/bin/sed -nE \"s/^(NoNewPrivs|CapBnd):.//p\" /proc/self/status";
    let unit = format!(
        "[Service]\nType=oneshot\nUser=65534\nProtectKernelModules=yes\nStandardOutput=append:@D/out/told\n\
         ExecStart=+{tell}\nExecStart=!{tell}\nExecStart={tell}"
    );
    with("implied", &[("p.service", &unit)], |m| {
        const CAP_SYS_MODULE: u64 = 1 << 16;
        m.expect_job("start", "p.service", "done");
        let told = m.lines("told");
        let sets = told.iter().filter(|line| line.len() > 1);
        let all: Vec<u64> = sets.filter_map(|set| u64::from_str_radix(set, 16).ok()).collect();
        let less = all[0] & !CAP_SYS_MODULE;
        assert_eq!(all[1..], [less, less], "{told:?}");
        let flags: Vec<&str> = told.iter().filter(|l| l.len() == 1).map(|l| &**l).collect();
        assert_eq!(flags, ["0", "0", "1"], "{told:?}");
    });
}

#[test]
fn permissions_can_be_for_the_start_alone() {
    let tell = "/bin/sh -c 'echo $$(id -u) $$(sed -n s/^CapBnd:.0*//p /proc/self/status | wc -c)'";
    let unit = format!(
        "[Service]\nType=oneshot\nPermissionsStartOnly=yes\nUser=65534\nCapabilityBoundingSet=\n\
         StandardOutput=append:@D/out/told\nExecStartPre={tell}\nExecStart={tell}\nExecStopPost={tell}"
    );
    with("start-only", &[("s.service", &unit)], |m| {
        m.expect_job("start", "s.service", "done");
        m.wait_for("s.service", "inactive/dead");
        let told = m.lines("told");
        let is_privileged = |line: &String| line.starts_with("0 ") && line != "0 1";
        assert_eq!(
            told.iter().map(is_privileged).collect::<Vec<_>>(),
            [true, false, true],
            "{told:?}"
        );
        assert_eq!(told[1], "65534 1", "no capability is left");
    });
}

#[test]
fn the_main_process_of_a_forking_service_is_the_one_that_was_left_to_init() {
    if !matches!(warren_sys::cgroup::mount_point(), Ok(Some(_))) {
        return warren_testkit::not_run("there is no cgroup tree");
    }
    let units = [
        (
            "one.service",
            "[Service]\nType=forking\nExecStartPre=/usr/bin/mkfifo @D/out/gate\n\
             ExecStart=/bin/sh -c '(sleep 1000 & sleep 1001 & echo >@D/out/gate; exec sleep 1002) & \
             echo $$! >@D/out/main; read forked <@D/out/gate'",
        ),
        (
            "two.service",
            "[Service]\nType=forking\nExecStart=/bin/sh -c '(sleep 1000 &); (sleep 1001 &)'",
        ),
    ];
    with("left", &units, |m| {
        m.expect_job("start", "one.service", "done");
        let main = m.main_pid("one.service").map(|pid| pid.to_string());
        assert_eq!(m.lines("main"), Vec::from_iter(main));
        m.expect_job("start", "two.service", "done");
        assert_eq!(m.main_pid("two.service"), None);
        assert_eq!(m.state("two.service"), "active/running");
    });
}

#[test]
fn a_process_has_the_personality_that_is_set() {
    if !cfg!(target_arch = "x86_64") {
        return warren_testkit::not_run("a personality of 32-bit x86 needs x86-64");
    }
    let unit = "[Service]\nType=oneshot\nPersonality=x86\nStandardOutput=file:@D/out/machine\n\
                ExecStart=/usr/bin/uname -m";
    with("personality", &[("p.service", unit)], |m| {
        m.expect_job("start", "p.service", "done");
        assert_eq!(m.lines("machine"), ["i686"]);
    });
}

#[test]
fn a_process_reads_what_its_unit_says() {
    let data = "[Service]\nType=oneshot\nStandardInput=data\nStandardInputText=one %p\n\
                StandardInputData=dHdvCg==\nExecStart=/bin/sh -c 'cat >>@D/out/read'\n\
                ExecStart=/bin/sh -c 'cat >>@D/out/read'\nStandardOutput=journal";
    let Some(m) = Machine::start("input", &[("data.service", data)]) else { return };
    m.expect_job("start", "data.service", "done");
    // Each process has it from the beginning.
    assert_eq!(m.lines("read"), ["one data", "two", "one data", "two"]);
}

#[test]
fn without_cgroups_too_it_is_known_who_speaks_first() {
    const SERVICES: usize = 100;
    let names: Vec<String> = (0..SERVICES).map(|n| format!("n{n}.service")).collect();
    let text = "[Service]\nType=notify\nExecStart=@P ready stay";
    let all = format!("[Unit]\nWants={}", names.join(" "));
    let mut units: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text)).collect();
    units.push(("all.target", &all));
    let Some(m) = Machine::start_with("speakers", &units, &["--no-cgroup"]) else { return };
    m.expect_job("start", "all.target", "done");
    for name in &names {
        assert_eq!(m.state(name), "active/running", "{name}: {}", m.status(name));
    }
}

/// What systemd 252 gives a process, by comparison with it in a machine of its own.
#[test]
fn processes_are_given_what_systemd_gives_them() {
    let tell = |words: &str| format!("ExecStart=/bin/sh -c 'echo $$0 $$* >> @D/out/told' {words}");
    let units = [
        ("goes-on.service", format!("Type=oneshot\nExecStart=-/nope\n{}", tell("after -/nope"))),
        (
            "words.service",
            format!(
                "Type=oneshot\nUser=root\nRuntimeDirectory=told:link\nExecSearchPath=/bin:/usr/bin\n\
                 PIDFile=told.pid\nEnvironmentFile=@D/units/*.env\nUnsetEnvironment=USER\n{}",
                tell("${A}${B} ${RUNTIME_DIRECTORY} ${PATH} ${PIDFILE} ${HOME} x${USER}y $USER")
            ),
        ),
        (
            "streams.service",
            "Type=oneshot\nWatchdogSec=30\nStandardInput=file:/etc/hostname\nStandardOutput=inherit\n\
             TTYPath=/dev/tty7\nExecStartPre=/bin/sh -c 'echo $${NOTIFY_SOCKET-none} >> @D/out/told'\n\
             ExecStart=/bin/sh -c 'echo $$(readlink /proc/$$$$/fd/1) $$((WATCHDOG_PID == $$$$)) $TERM >> @D/out/told'"
                .to_owned(),
        ),
        (
            "bits.service",
            "Type=oneshot\nSecureBits=no-setuid-fixup noroot-locked\nTimerSlackNSec=70us\n\
             ExecStart=/bin/sh -c 'cat /proc/self/timerslack_ns >> @D/out/told'"
                .to_owned(),
        ),
        ("unready.service", "Type=notify\nExecStart=-/nope".to_owned()),
        ("forks.service", "Type=forking\nExecStart=-/nope".to_owned()),
    ];
    let mut units = units.map(|(name, text)| (name, format!("[Service]\n{text}"))).to_vec();
    units.extend([("a.env", "A=1\n".to_owned()), ("b.env", "B=2\n".to_owned())]);
    let units: Vec<(&str, &str)> = units.iter().map(|(n, t)| (*n, t.as_str())).collect();
    with("given", &units, |m| {
        for unit in ["goes-on", "words", "streams", "bits"] {
            m.expect_job("start", &format!("{unit}.service"), "done");
        }
        let log = "/run/log/warren/units/streams.service.log 1 linux";
        let words = "12 /run/told /bin:/usr/bin /run/told.pid /root xy";
        let expected = ["after -/nope", words, "none", log, "70000"];
        assert_eq!(m.lines("told"), expected);
        m.expect_job("start", "unready.service", "failed");
        m.wait_for("unready.service", "failed/failed");
        assert_eq!(m.status("unready.service")["result"], "protocol");
        m.expect_job("start", "forks.service", "done");
        m.wait_for("forks.service", "inactive/dead");
    });
}

#[test]
fn sockets_of_rare_kinds_start_their_services() {
    let told = |name: &str| {
        format!(
            "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'readlink /proc/$$$$/fd/3 >> @D/out/{name}'"
        )
    };
    let units = [
        ("special.socket", "[Socket]\nListenSpecial=/proc/uptime".to_owned()),
        ("special.service", told("special")),
        (
            "queue.socket",
            "[Socket]\nListenMessageQueue=/warren-life\nMessageQueueMaxMessages=3\n\
             MessageQueueMessageSize=9\nRemoveOnStop=yes"
                .to_owned(),
        ),
        ("queue.service", told("queue")),
        ("deaf.socket", "[Socket]\nListenSpecial=/dev/null".to_owned()),
        ("deaf.service", told("deaf")),
        ("nobody.socket", "[Socket]\nListenStream=/run/nobody".to_owned()),
    ];
    let units: Vec<(&str, &str)> = units.iter().map(|(n, t)| (*n, t.as_str())).collect();
    with("rare", &units, |m| {
        m.expect_job("start", "special.socket", "done");
        lab::until("it is read", || {
            m.lines("special").first().map(|line| assert_eq!(line, "/proc/uptime"))
        });
        m.expect_job("start", "queue.socket", "done");
        m.expect_job("start", "queue.service", "done");
        assert_eq!(m.lines("queue"), ["/warren-life"]);
        m.expect_job("stop", "queue.socket", "done");
        m.expect_job("start", "queue.socket", "done");
        m.expect_job("stop", "queue.socket", "done");
        m.expect_job("start", "deaf.socket", "failed");
        m.expect_job("start", "nobody.socket", "failed");
        assert_eq!(m.status("nobody.socket")["reason"]["code"], "WR-0053");
    });
}

/// A main process and a command that go by one signal are often heard of in one turn: neither was
/// taken for the last one, and the unit stayed in its stop until its time was over.
#[test]
fn who_end_together_leave_nobody_behind() {
    let text = "[Service]\nTimeoutStopSec=10\nExecStart=@P stay\nExecStartPost=@P stay";
    let names: Vec<String> = (0..8).map(|n| format!("pair{n}.service")).collect();
    let units: Vec<(&str, &str)> = names.iter().map(|name| (&**name, text)).collect();
    let Some(m) = Machine::start("together", &units) else { return };
    for name in &names {
        m.call("Job", &json!({"type": "start", "unit": name, "wait": false}));
        m.wait_for(name, "activating/start-post");
    }
    for name in &names {
        m.expect_job("stop", name, "done");
        assert_eq!(m.state(name), "inactive/dead", "{}", m.status(name));
    }
}

/// Whoever starts process 1 may have capabilities that programs inherit, as an old container runtime: no service has them.
#[test]
fn capabilities_that_process_1_inherited_are_no_services() {
    const CAP_CHOWN: u64 = 1 << 0;
    const CAP_NET_ADMIN: u64 = 1 << 12;
    let tell = "/bin/sed -n s/^Cap[PEIA].*:.0*//p /proc/self/status";
    let unit = |settings: &str| {
        format!(
            "[Service]\nType=oneshot\n{settings}StandardOutput=append:@D/out/told\nExecStart={tell}"
        )
    };
    let bound = unit("CapabilityBoundingSet=CAP_CHOWN\n");
    let of_user = unit("User=65534\nAmbientCapabilities=CAP_CHOWN\n");
    let none = unit("User=65534\n");
    let start = move || {
        // Of this thread, and of what it starts.
        if warren_sys::child::raise_ambient(CAP_NET_ADMIN).is_err() {
            return None;
        }
        let units = [("b.service", &*bound), ("u.service", &*of_user), ("n.service", &*none)];
        Machine::start("inherited", &units)
    };
    let Some(m) = std::thread::spawn(start).join().expect("no panic") else { return };
    let told = |unit: &str| {
        let before = m.lines("told").len();
        m.expect_job("start", unit, "done");
        m.lines("told").split_off(before).join(" ")
    };
    // Inheritable, permitted, effective and ambient.
    let chown = format!("{CAP_CHOWN:x}");
    assert_eq!(told("b.service"), format!(" {chown} {chown} "));
    assert_eq!(told("u.service"), format!("{chown} {chown} {chown} {chown}"));
    assert_eq!(told("n.service"), "   ");
}
