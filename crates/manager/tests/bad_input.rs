//! Unit files that no sane person writes, and services that cannot be: each says what is wrong with
//! it, and the manager serves on.

mod lab;

use std::os::unix::ffi::OsStrExt;

use lab::{Ended, Machine, until};
use serde_json::json;

/// A unit that must work whatever lies beside it.
const GOOD: (&str, &str) = ("good.service", "[Service]\nExecStart=@P stay");

/// The manager answers and starts things.
#[track_caller]
fn check_alive(m: &Machine) {
    m.expect_job("start", "good.service", "done");
    m.expect_job("stop", "good.service", "done");
}

fn reload(m: &Machine) -> serde_json::Value {
    m.call("ReloadConfiguration", &json!({}))
}

fn load_state(m: &Machine, unit: &str) -> String {
    m.call("List", &json!({"patterns": [unit]}))["units"][0]["load"].to_string()
}

fn with(name: &str, check: impl FnOnce(&Machine)) {
    if let Some(m) = Machine::start(name, &[GOOD]) {
        check(&m);
        check_alive(&m);
    }
}

#[test]
fn files_that_are_no_unit_files_are_said_to_be_so() {
    with("files", |m| {
        let path = |name: &str| m.directory.join("units").join(name);
        let big = std::fs::File::create(path("big.service")).expect("create");
        big.set_len(100 << 20).expect("truncate");
        std::fs::write(path("nul.service"), vec![0; 4096]).expect("write");
        let line = format!("[Service]\nExecStart={}\n", "x".repeat(1 << 20));
        std::fs::write(path("line.service"), line).expect("write");
        std::fs::write(path("text.service"), b"[Service]\nExecStart=/bin/\xff\xfe\n")
            .expect("write");
        std::fs::create_dir(path("dir.service")).expect("mkdir");
        std::os::unix::fs::symlink("loop-b.service", path("loop-a.service")).expect("symlink");
        std::os::unix::fs::symlink("loop-a.service", path("loop-b.service")).expect("symlink");
        // Whoever reads it waits for what the kernel says next, for ever.
        std::os::unix::fs::symlink("/proc/kmsg", path("kmsg.service")).expect("symlink");
        let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.service");
        std::fs::write(m.directory.join("units").join(name), "[Service]").expect("write");
        let report = reload(m);
        assert!(report["diagnostics"].as_array().is_some_and(|d| !d.is_empty()), "{report}");
        for (unit, why) in [
            ("big", "larger than"),
            ("nul", "no ExecStart="),
            ("line", "longer"),
            ("text", "not UTF-8"),
            ("dir", "is a directory"),
            ("loop-a", "Too many levels of symbolic links"),
            ("kmsg", "cannot be a unit file"),
        ] {
            let unit = format!("{unit}.service");
            let fault = m.status(&unit)["load_fault"].to_string();
            assert!(fault.contains(why), "{unit}: {fault}");
            let ended = m.job("start", &unit);
            assert!(
                matches!(ended, Ended::Refused(_)),
                "{unit}: {ended:?} {}",
                load_state(m, &unit)
            );
        }
        let resident = m.totals()["resident_bytes"].as_u64().unwrap_or(u64::MAX);
        assert!(resident < 200 << 20, "{resident} bytes resident");
    });
}

#[test]
fn ten_thousand_drop_ins_and_a_million_dependencies_are_bounded() {
    with("many", |m| {
        m.write("many.service", "[Service]\nExecStart=@P stay");
        for n in 0..10_000 {
            m.write(&format!("many.service.d/{n:05}.conf"), "[Unit]\nDescription=one of many");
        }
        let mut text = String::from("[Unit]\n");
        for block in 0..10_000 {
            text.push_str("Wants=");
            for n in 0..100 {
                text.push_str(&format!("w{}.service ", block * 100 + n));
            }
            text.push('\n');
        }
        text.push_str("[Service]\nExecStart=@P stay\n");
        m.write("wide.service", &text);
        reload(m);
        m.expect_job("start", "many.service", "done");
        let _ = m.job("start", "wide.service");
    });
}

#[test]
fn a_file_that_comes_and_goes_is_one_or_the_other() {
    with("flicker", |m| {
        let path = m.directory.join("units/flicker.service");
        let ends = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    m.write("flicker.service", "[Service]\nExecStart=@P stay");
                    let _ = std::fs::remove_file(&path);
                }
            });
            for _ in 0..100 {
                reload(m);
            }
            ends.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        reload(m);
        assert_eq!(m.call("List", &json!({"patterns": ["flicker.service"]}))["units"], json!([]));
    });
}

#[test]
fn services_that_cannot_be_fail_alone_and_say_why() {
    let units = [
        GOOD,
        ("prog.service", "[Service]\nType=exec\nExecStart=/nonexistent/program"),
        ("user.service", "[Service]\nType=exec\nUser=nosuchuser\nExecStart=@P stay"),
        ("dir.service", "[Service]\nType=exec\nWorkingDirectory=/nonexistent\nExecStart=@P stay"),
        ("env.service", "[Service]\nType=exec\nEnvironmentFile=/nonexistent\nExecStart=@P stay"),
        ("sock.socket", "[Socket]\nListenStream=/proc/nonexistent/socket"),
        ("sock.service", "[Service]\nExecStart=@P serve"),
        (
            "run-no.mount",
            "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=/nonexistent\nWhere=/run/no\nType=ext4",
        ),
    ];
    let Some(m) = Machine::start("impossible", &units) else { return };
    for unit in [
        "prog.service",
        "user.service",
        "dir.service",
        "env.service",
        "sock.socket",
        "run-no.mount",
    ] {
        m.expect_job("start", unit, "failed");
        // The job fails with the start; what has to be cleared away comes after it.
        m.wait_for(unit, "failed/failed");
        let status = m.status(unit);
        assert_ne!(status["reason"]["code"], "WR-0001", "{unit}: {status}");
    }
    check_alive(&m);
}

#[test]
fn a_full_run_fails_what_needs_it_and_nothing_else() {
    let units = [
        GOOD,
        ("pid.socket", "[Socket]\nListenFIFO=/run/dir/fifo"),
        ("pid.service", "[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("full", &units) else { return };
    assert_eq!(m.run(&["mount", "-o", "remount,size=256k", "/run"]), Ok(String::new()));
    let _ = std::fs::write(m.inside("/run/filler"), vec![1; 1 << 20]);
    let _ = m.job("start", "pid.socket");
    m.expect_job("start", "good.service", "done");
    assert!(m.kill_manager());
    assert_eq!(m.state("good.service"), "active/running");
    m.expect_job("stop", "good.service", "done");
    let _ = std::fs::remove_file(m.inside("/run/filler"));
    check_alive(&m);
}

#[test]
fn a_client_that_sends_rubbish_is_dropped() {
    with("rubbish", |m| {
        use std::io::{Read, Write};
        for bytes in
            [&b"\0"[..], b"{\0", b"[]\0", b"{\"method\":7}\0", &[0xff; 100], &[b'x'; 2 << 20]]
        {
            let path = m.inside("/run/warren/control");
            let mut stream = std::os::unix::net::UnixStream::connect(path).expect("connect");
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty() || answer.starts_with(b"{\"error\""), "{answer:?}");
        }
    });
}

/// What stock systemctl says of a unit that is not there, as with systemd 252.
#[test]
fn a_unit_that_is_not_there_is_not_found() {
    with("absent", |m| {
        if !lab::has_systemctl("a_unit_that_is_not_there_is_not_found") {
            return;
        }
        for (words, want) in [
            ("status absent", "Unit absent.service could not be found.\n4"),
            ("is-active absent", "inactive\n3"),
            ("is-failed absent", "inactive\n1"),
            (
                "is-enabled absent",
                "Failed to get unit file state for absent.service: No such file or directory\n1",
            ),
            ("cat absent", "No files found for absent.service.\n1"),
            ("show absent -p Id", "Id=absent.service\n0"),
            (
                "show -p LoadState absent other@x good",
                "LoadState=not-found\n\nLoadState=not-found\n\nLoadState=loaded\n0",
            ),
            (
                "kill absent",
                "Failed to kill unit absent.service: Unit absent.service not loaded.\n1",
            ),
            ("start absent", "Failed to start absent.service: Unit absent.service not found.\n5"),
            ("list-dependencies absent", "absent.service\n0"),
        ] {
            let script = format!("SYSTEMD_COLORS=0 SYSTEMD_PAGER= systemctl {words} 2>&1; echo $?");
            let said = m.run(&["sh", "-c", &script]).expect("sh(1) runs");
            assert_eq!(said.trim(), want, "systemctl {words}");
        }
        // Who asked is not kept for ever.
        assert!(m.call("List", &json!({}))["units"].as_array().is_some_and(|all| all.len() < 40));
    });
}

/// `systemctl status PID` of a process that is no unit's main one, and of process 1.
#[test]
fn processes_are_found_by_their_group() {
    let units = [("tree.service", "[Service]\nExecStart=/bin/sh -c 'sleep 1000 & wait'")];
    let Some(m) = Machine::start("by-group", &units) else { return };
    if !lab::has_systemctl("processes_are_found_by_their_group") {
        return;
    }
    m.expect_job("start", "tree.service", "done");
    let unit_of = |pid: u64| -> Option<String> {
        let said = m.run(&["systemctl", "status", "--lines=0", &pid.to_string()]).ok()?;
        said.split_whitespace().nth(1).map(str::to_owned)
    };
    let main = m.main_pid("tree.service").expect("it runs");
    let child = lab::until("it has a child", || {
        let processes = m.status("tree.service")["processes"].as_array()?.clone();
        processes.iter().filter_map(|p| p["pid"].as_u64()).find(|&pid| pid != main)
    });
    assert_eq!(unit_of(main).as_deref(), Some("tree.service"));
    assert_eq!(unit_of(child).as_deref(), Some("tree.service"));
    assert_eq!(unit_of(1).as_deref(), Some("init.scope"));
    assert_eq!(unit_of(4_000_000), None);
}

/// `systemctl status` of a slice and of the whole machine shows everybody below, each in his group.
#[test]
fn the_processes_of_slices_are_shown() {
    let units = [
        ("a.service", "[Service]\nSlice=s.slice\nExecStart=@P stay"),
        ("b.service", "[Service]\nSlice=s-t.slice\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("of-slices", &units) else { return };
    if !lab::has_systemctl("the_processes_of_slices_are_shown") {
        return;
    }
    m.expect_job("start", "a.service", "done");
    m.expect_job("start", "b.service", "done");
    if m.status("a.service")["cpu_ns"].is_null() {
        return lab::not_run("the_processes_of_slices_are_shown", "cgroups");
    }
    let tree = |unit: &[&str]| {
        let words = [&["systemctl", "status", "--no-pager", "--lines=0"], unit].concat();
        m.run(&words).unwrap_or_else(|error| panic!("systemctl status {unit:?}: {error}"))
    };
    let processes =
        ["a.service", "b.service"].map(|unit| format!("─{} ", m.main_pid(unit).expect("it runs")));
    for shown in [tree(&["s.slice"]), tree(&[])] {
        let is_there = |part: &str| shown.contains(part);
        assert!(processes.iter().all(|line| is_there(line)), "{shown}");
        assert!(is_there("s-t.slice") && is_there("b.service"), "{shown}");
    }
}

/// `systemd-analyze` has its times, and they outlive a manager.
#[test]
fn the_times_of_the_boot_are_kept() {
    let Some(m) = Machine::start("times", &[]) else { return };
    if !lab::has_systemctl("the_times_of_the_boot_are_kept") {
        return;
    }
    let times = || {
        let properties = ["Userspace", "GeneratorsStart", "GeneratorsFinish", "UnitsLoadStart"];
        let properties = [&properties[..], &["UnitsLoadFinish", "Finish"]].concat();
        let ask = |name: &str| {
            let name = format!("{name}TimestampMonotonic");
            let said = m.run(&["systemctl", "show", "--value", "-p", &name]).ok()?;
            said.trim().parse::<u64>().ok()
        };
        properties.into_iter().map(ask).collect::<Option<Vec<u64>>>()
    };
    let first = lab::until("the machine has started", || times().filter(|t| t[5] > 0));
    // Where there are no generators they took no time.
    let run: Vec<u64> = first.iter().copied().filter(|&at| at > 0).collect();
    assert!(run.is_sorted() && run.len() >= 4, "{first:?}");
    let old = m.manager_pid();
    assert!(m.kill_manager());
    lab::until("another manager", || (m.manager_pid() != old).then_some(()));
    assert_eq!(lab::until("it answers", times), first);
}

/// Who cannot start says why before init ends it, and starts when it can.
#[test]
fn a_manager_that_cannot_start_says_why() {
    let Some(m) = Machine::start("cannot", &[]) else { return };
    m.run(&["sh", "-c", "mv /run/log /run/aside && : >/run/log"]).expect("files can be moved");
    assert!(m.kill_manager());
    until("it says why", || m.console().contains("making the run-time directories").then_some(()));
    until("init says how it ended", || m.console().contains("Exited(1)").then_some(()));
    m.run(&["sh", "-c", "rm /run/log && mv /run/aside /run/log"]).expect("files can be moved");
    assert_eq!(m.totals()["stopping"], false);
}

#[test]
fn wrong_values_are_said_with_their_line_when_the_unit_is_first_used() {
    let service = "[Service]\nExecStart=@P stay\nRestart=alway\nTimeoutStopSec=5mn\n\
                   RemainAfterExit=perhaps\nMemoryMax=1GB\nUSBFunctionStrings=/x\n\
                   SetCredentialEncrypted=a:secret\nBindLogSockets=yes";
    let slice = "[Slice]\nNFTSet=cgroup:inet:a\nMemoryMax=lots";
    let units = [GOOD, ("typo.service", service), ("closed.slice", slice)];
    let Some(m) = Machine::start("values", &units) else { return };
    let times = |what: &str| m.console().lines().filter(|line| line.contains(what)).count();
    let wrong = ["typo.service:3:", "typo.service:4:", "typo.service:6:"];
    assert!(wrong.iter().all(|line| times(line) == 0), "{}", m.console());
    for _ in 0..2 {
        m.expect_job("start", "typo.service", "done");
        m.expect_job("stop", "typo.service", "done");
        m.expect_job("start", "closed.slice", "done");
        m.expect_job("stop", "closed.slice", "done");
    }
    // What was found wrong when the unit was loaded is not said again.
    let also = [
        "typo.service:5:",
        "closed.slice:2:",
        "closed.slice:3:",
        "USBFunctionStrings= has no effect yet",
    ];
    for line in wrong.iter().chain(&also) {
        assert_eq!(times(line), 1, "{line}: {}", m.console());
    }
    assert_eq!(times("typo.service: started WITHOUT the protection of BindLogSockets"), 2);
    assert_eq!(times("SetCredentialEncrypted=: 'a' is not acted on"), 1);
    assert_eq!(times("secret"), 0);
    check_alive(&m);
}

#[test]
fn a_mount_that_is_wished_for_and_fails_keeps_nobody_down() {
    let mount = "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=/nothing\nType=none";
    let service = "[Unit]\nWantsMountsFor=/opt/wished/below\n[Service]\nExecStart=@P stay";
    let units = [GOOD, ("opt-wished.mount", mount), ("wishes.service", service)];
    let Some(m) = Machine::start("wished", &units) else { return };
    m.expect_job("start", "wishes.service", "done");
    assert_eq!(m.state("opt-wished.mount"), "failed/failed");
    check_alive(&m);
}
