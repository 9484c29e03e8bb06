//! `RestrictFileSystems=`: services look for themselves what they may open. Where the kernel asks no BPF programs about
//! files, what is said of it is looked at instead.

mod lab;

use lab::Machine;
use serde_json::json;
use warren_sys::signal::{SIGKILL, SIGSTOP};

/// Settings of a service, what its shell looks at, and what it finds.
struct Look {
    name: &'static str,
    settings: &'static str,
    script: &'static str,
    finds: &'static str,
}

/// `o PATH...`: says of each whether it may be opened. `/run` is a tmpfs, and its number is that of /dev as well.
const SAY: &str =
    "o() { for p; do if (exec <$$p) 2>&-; then echo $$p; else echo no $$p; fi; done; };";

/// What the program and its libraries may lie on.
const OF_PROGRAMS: &str = "ext4 xfs btrfs overlay fuse squashfs erofs";

const LOOKS: &[Look] = &[
    Look {
        name: "denied",
        settings: "RestrictFileSystems=~proc sysfs",
        script: "o /proc/self/status /sys/kernel /run/data /etc/passwd; (o /proc/version)",
        finds: "no /proc/self/status\nno /sys/kernel\n/run/data\n/etc/passwd\nno /proc/version\n",
    },
    Look {
        name: "allowed",
        settings: "RestrictFileSystems=@PROGRAMS\nRestrictFileSystems=tmpfs @basic-api\nRestrictFileSystems=~sysfs",
        script: "o /proc/self/status /sys/kernel /run/data",
        finds: "/proc/self/status\nno /sys/kernel\n/run/data\n",
    },
    Look {
        name: "emptied",
        settings: "RestrictFileSystems=~proc\nRestrictFileSystems=",
        script: "o /proc/self/status",
        finds: "/proc/self/status\n",
    },
    // Its output, its standard input and its score are opened where it may open nothing itself.
    Look {
        name: "made-ready",
        settings: "RestrictFileSystems=@PROGRAMS\nOOMScoreAdjust=100\nExecStartPre=/bin/true\nUser=daemon",
        script: "o /dev/null /run/data /proc/self/oom_score_adj",
        finds: "no /dev/null\nno /run/data\nno /proc/self/oom_score_adj\n",
    },
    Look {
        name: "in-namespaces",
        settings: "RestrictFileSystems=@PROGRAMS\nPrivateUsers=yes\nPrivatePIDs=yes\nPrivateTmp=yes\nPrivateDevices=yes\n\
                   ProtectSystem=strict\nProtectControlGroups=yes\nSystemCallFilter=@system-service",
        script: "o /dev/null /run/data /etc/passwd",
        finds: "no /dev/null\nno /run/data\n/etc/passwd\n",
    },
    // The program lies on what is forbidden.
    Look {
        name: "program",
        settings: "RestrictFileSystems=~tmpfs\nExecStartPre=/run/program",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "executed",
        settings: "RestrictFileSystems=~tmpfs",
        script: "/run/program 2>&-; echo $$?",
        finds: "126\n",
    },
    // Whoever has the flags that its helper says it by.
    Look {
        name: "pretends",
        settings: "RestrictFileSystems=~proc",
        script: "perl -MFcntl -e '$$|=1; for (1, 2) { sysopen(F, q(/), O_RDONLY|O_DIRECTORY|O_NONBLOCK|O_DSYNC) or die; \
                 print sysopen(F, q(/proc/version), 0) ? q(opened ) : q(denied ); fork // die }'",
        finds: "denied denied denied ",
    },
];

fn unit(look: &Look) -> String {
    format!(
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nStandardOutput=file:/run/out-{0}\nStandardError=inherit\n{1}\n\
         ExecStart=/bin/sh -c \"{SAY} {2}\"\n",
        look.name,
        look.settings.replace("@PROGRAMS", OF_PROGRAMS),
        look.script.replace('"', "\\\""),
    )
}

const NOT_APPLIED: &str = "RestrictFileSystems= is not applied";

/// A machine with something to look at for a test; nothing where the kernel asks no programs about files.
fn machine(test: &str, name: &str, units: &[(&str, &str)]) -> Option<Machine> {
    let probe = "[Service]\nType=oneshot\nRestrictFileSystems=~proc\nExecStart=/bin/true\n";
    let units: Vec<(&str, &str)> =
        units.iter().copied().chain([("probe.service", probe)]).collect();
    let m = Machine::start(name, &units)?;
    let prepare = "echo data >/run/data; printf '#!/bin/sh\\necho ran\\n' >/run/program; chmod +x /run/program";
    m.run(&["/bin/sh", "-c", prepare]).expect("prepared");
    m.expect_job("start", "probe.service", "done");
    if m.console().contains(NOT_APPLIED) {
        lab::not_run(test, "a kernel that asks BPF programs about files: `cargo xtask vm tests`");
        return None;
    }
    Some(m)
}

fn read(m: &Machine, name: &str) -> String {
    std::fs::read_to_string(m.inside(&format!("/run/out-{name}"))).unwrap_or_default()
}

#[test]
fn services_open_files_where_their_units_allow_it() {
    const TEST: &str = "services_open_files_where_their_units_allow_it";
    let units: Vec<(String, String)> =
        LOOKS.iter().map(|look| (format!("{}.service", look.name), unit(look))).collect();
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (&**name, &**text)).collect();
    let Some(m) = machine(TEST, "file-systems", &units) else { return };
    let mut wrong = Vec::new();
    for look in LOOKS {
        m.job("start", &format!("{}.service", look.name));
        let found = read(&m, look.name);
        if found != look.finds {
            wrong.push(format!("--- {}\n{}\n--- not\n{}", look.name, found, look.finds));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), m.console());
}

/// What is forbidden stays so while there is no manager, and the next one makes processes ready in the same group.
#[test]
fn it_outlives_the_manager() {
    let look = "if (exec </proc/version) 2>&-; then echo open; else echo shut; fi";
    let unit = format!(
        "[Service]\nRestrictFileSystems=~proc tmpfs\nStandardOutput=append:/run/out-kept\n\
         ExecStart=/bin/sh -c '{look}; while sleep 0.05; do {look}; done'\n\
         ExecReload=/bin/sh -c '{look} >&2'\nStandardError=append:/run/out-again\n"
    );
    let Some(m) =
        machine("it_outlives_the_manager", "file-systems-kept", &[("kept.service", &unit)])
    else {
        return;
    };
    m.expect_job("start", "kept.service", "done");
    let is_shut = || {
        let before = read(&m, "kept").lines().count();
        let all = lab::until("it has looked twice", || {
            let all = read(&m, "kept");
            (all.lines().count() > before + 1).then_some(all)
        });
        assert!(all.lines().all(|line| line == "shut"), "{all}");
    };
    is_shut();
    let pid = m.manager_pid().expect("a manager");
    warren_sys::process::kill(pid, SIGSTOP).expect("it is held up");
    is_shut();
    warren_sys::process::kill(pid, SIGKILL).expect("it is killed");
    is_shut();
    m.expect_job("reload", "kept.service", "done");
    assert_eq!(read(&m, "again"), "shut\n");
    is_shut();
    // What is edited holds for the next run.
    m.write("kept.service", &unit.replace("~proc tmpfs", "~sysfs"));
    m.call("ReloadConfiguration", &json!({}));
    is_shut();
    m.expect_job("restart", "kept.service", "done");
    lab::until("it may", || read(&m, "kept").ends_with("open\n").then_some(()));
}

/// A process is held up before it is its program, and loses its helper, or the manager: it may open no more than others.
#[test]
fn who_goes_on_alone_is_restricted_all_the_same() {
    const TEST: &str = "who_goes_on_alone_is_restricted_all_the_same";
    let unit = |pipe: &str| {
        format!(
            "[Service]\nType=oneshot\nRestrictFileSystems=~proc\nOOMScoreAdjust=100\nStandardOutput=file:/run/{pipe}\n\
             ExecStart=/bin/sh -c \"{SAY} o /proc/version /run/data\"\n"
        )
    };
    let (helper, manager) = (unit("helper"), unit("manager"));
    let units = [("helper.service", &*helper), ("manager.service", &*manager)];
    let Some(m) = machine(TEST, "file-systems-alone", &units) else { return };
    for name in ["helper", "manager"] {
        // Whoever opens it to write waits for a reader.
        m.run(&["mkfifo", &format!("/run/{name}")]).expect("made");
        let stream = m.connect().expect("the manager listens");
        let unit = format!("{name}.service");
        lab::send_call(&stream, "Job", &json!({"type": "start", "unit": unit})).expect("sent");
        let held = lab::until("it is held up", || m.unborn_pids().first().copied());
        match name {
            "helper" => {
                for pid in m.all_helpers() {
                    warren_sys::process::kill(pid, SIGKILL).expect("it is killed");
                }
            }
            _ => assert!(m.kill_manager()),
        }
        let is_gone = warren_sys::process::pidfd_open(held).is_err();
        assert!(!is_gone, "{name}: it goes on");
        let said = m.run(&["timeout", "60", "cat", &format!("/run/{name}")]);
        assert_eq!(said.as_deref(), Ok("no /proc/version\n/run/data\n"), "{name}\n{}", m.console());
        m.wait_for(&unit, "inactive/dead");
    }
}

/// A protection that is not in force is told at each start, and is none.
#[test]
fn what_the_kernel_does_not_give_is_told() {
    let unit = "[Service]\nType=oneshot\nRestrictFileSystems=~proc\nExecStart=/bin/sh -c 'exec </proc/version'\n";
    let Some(m) = Machine::start("file-systems-told", &[("asks.service", unit)]) else { return };
    m.job("start", "asks.service");
    let console = m.console();
    let is_told = console.contains(&format!("asks.service: {NOT_APPLIED}"));
    let is_open = m.state("asks.service") == "inactive/dead";
    assert_eq!(is_told, is_open, "{}\n{console}", m.state("asks.service"));
}
