//! Sessions of PAM (`PAMName=`): opened before the program, closed after it, and nothing left behind by whoever is
//! killed meanwhile. The machine's configuration of PAM is its own, in its own mount namespace.

mod lab;

use std::path::Path;

use lab::{Ended, Machine, not_run, until_or};

/// Services of PAM. `log` and its like run a script that notes down what it sees.
const SERVICES: &[(&str, &str)] = &[
    (
        "log",
        "auth required pam_permit.so\naccount required pam_exec.so /run/pam/note\nsession required pam_exec.so /run/pam/note\n\
         session required pam_env.so readenv=1 envfile=/run/pam/env conffile=/dev/null\n\
         session required pam_umask.so umask=0007\n",
    ),
    ("no-account", "account required pam_deny.so\nsession required pam_permit.so\n"),
    ("no-session", "account required pam_permit.so\nsession required pam_deny.so\n"),
    ("no-module", "account required pam_permit.so\nsession required pam_there_is_none.so\n"),
    (
        "no-credentials",
        "auth required pam_deny.so\naccount required pam_permit.so\nsession required pam_permit.so\n",
    ),
    (
        "waits",
        "account required pam_permit.so\nauth required pam_permit.so\nsession required pam_exec.so /run/pam/note\n\
         session required pam_exec.so /run/pam/wait\n",
    ),
    (
        "forks",
        "account required pam_permit.so\nauth required pam_permit.so\nsession required pam_exec.so /run/pam/fork\n",
    ),
    ("other", "account required pam_deny.so\nsession required pam_deny.so\n"),
];

/// Scripts of modules.
const SCRIPTS: &[(&str, &str)] = &[
    ("note", "echo \"$PAM_TYPE $PAM_USER ${PAM_TTY:-none} $FROM_UNIT $(id -u)\" >>/run/pam/log"),
    // Until somebody opens the other end.
    (
        "wait",
        "[ $PAM_TYPE = close_session ] || { echo waits >>/run/pam/log; read line </run/pam/gate; }",
    ),
    ("fork", "[ $PAM_TYPE = close_session ] || { setsid sleep 1000 & echo $! >/run/pam/forked; }"),
];

fn start(name: &str, units: &[(&str, &str)]) -> Option<Machine> {
    let modules = Path::new("/usr/lib")
        .join(format!("{}-linux-gnu/security/pam_exec.so", std::env::consts::ARCH));
    if !modules.exists() {
        not_run(name, "the modules of PAM");
        return None;
    }
    let m = Machine::start(name, units)?;
    let shell = |script: String| m.run(&["/bin/sh", "-c", &script]).expect("prepared");
    shell(
        "mkdir -m 755 /run/pam && mkdir -m 777 /run/open && mkfifo /run/pam/gate && mount -t tmpfs none /etc/pam.d"
            .to_owned(),
    );
    for (service, text) in SERVICES {
        shell(format!("printf '{}' >/etc/pam.d/{service}", text.replace('\n', "\\n")));
    }
    for (script, text) in SCRIPTS {
        std::fs::write(m.inside(&format!("/run/pam/{script}")), format!("#!/bin/sh\n{text}\n"))
            .expect("written");
    }
    let variables = "FROM_PAM=pam\nBOTH=pam\nGONE=pam\n";
    std::fs::write(m.inside("/run/pam/env"), variables).expect("written");
    shell("chmod 755 /run/pam/note /run/pam/wait /run/pam/fork".to_owned());
    Some(m)
}

fn log(m: &Machine) -> String {
    std::fs::read_to_string(m.inside("/run/pam/log")).unwrap_or_default()
}

#[track_caller]
fn wait_for_log(m: &Machine, expected: &str) {
    until_or("the session says so", || (log(m) == expected).then_some(()), || log(m));
}

/// Commands of the processes in a unit's cgroup.
fn commands(m: &Machine, unit: &str) -> Vec<String> {
    let groups = m.groups();
    let pids = groups.iter().filter(|(group, _)| group.ends_with(unit)).flat_map(|(_, pids)| pids);
    let comm = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let mut all: Vec<String> = pids.filter_map(comm).map(|name| name.trim().to_owned()).collect();
    all.sort();
    all
}

#[track_caller]
fn wait_for_commands(m: &Machine, unit: &str, expected: &[&str]) {
    let all = || commands(m, unit);
    until_or(
        "the unit has these processes",
        || (all() == expected).then_some(()),
        || format!("{:?}", all()),
    );
}

const OPENED: &str = "account daemon none unit 0\nopen_session daemon none unit 0\n";
const CLOSED: &str = "close_session daemon none unit 0\n";

#[test]
fn a_session_is_there_for_as_long_as_the_process() {
    let unit = "[Service]\nUser=daemon\nPAMName=log\nEnvironment=FROM_UNIT=unit BOTH=unit\nUnsetEnvironment=GONE\n\
                UMask=0077\nPrivateTmp=yes\nSystemCallFilter=~sendmsg sendto\nStandardOutput=file:/run/out\n\
                ExecStart=/bin/sh -c 'echo $$FROM_PAM $$BOTH $${GONE-none} $$USER; umask; id -un; \
                grep -c private-tmp /proc/self/mountinfo >/dev/null; exec sleep 1000'\n";
    let Some(m) = start("session", &[("a.service", unit)]) else { return };
    m.expect_job("start", "a.service", "done");
    wait_for_log(&m, OPENED);
    let out = || std::fs::read_to_string(m.inside("/run/out")).unwrap_or_default();
    let expected = "pam pam none daemon\n0007\ndaemon\n";
    until_or("it says what it has", || (out() == expected).then_some(()), out);
    wait_for_commands(&m, "a.service", &["(sd-pam)", "sleep"]);
    m.expect_job("stop", "a.service", "done");
    assert_eq!(log(&m), format!("{OPENED}{CLOSED}"));
    assert_eq!(commands(&m, "a.service"), [""; 0]);
}

#[test]
fn a_session_is_closed_however_the_process_ends() {
    let unit = |rest: &str| {
        format!("[Service]\nUser=daemon\nPAMName=log\nEnvironment=FROM_UNIT=unit\n{rest}\n")
    };
    let (ends, gone, killed) = (
        unit("Type=oneshot\nExecStart=/bin/true"),
        unit("ExecStart=/none"),
        unit("ExecStart=/bin/sleep 1000"),
    );
    let units = [("ends.service", &*ends), ("gone.service", &*gone), ("killed.service", &*killed)];
    let Some(m) = start("session-ends", &units) else { return };
    m.expect_job("start", "ends.service", "done");
    wait_for_log(&m, &format!("{OPENED}{CLOSED}"));
    std::fs::remove_file(m.inside("/run/pam/log")).expect("it is there");
    m.job("start", "gone.service");
    m.wait_for("gone.service", "failed/failed");
    wait_for_log(&m, &format!("{OPENED}{CLOSED}"));
    std::fs::remove_file(m.inside("/run/pam/log")).expect("it is there");
    m.expect_job("start", "killed.service", "done");
    m.run(&["/bin/sh", "-c", "kill -9 $(pidof sleep)"]).expect("it runs");
    m.wait_for("killed.service", "failed/failed");
    wait_for_log(&m, &format!("{OPENED}{CLOSED}"));
}

#[test]
fn what_pam_refuses_is_not_started() {
    let unit = |service: &str| {
        let name = format!("{service}.service");
        let text = format!(
            "[Service]\nUser=daemon\nPAMName={service}\nExecStart=/bin/sh -c 'echo started >>/run/open/started'\n\
             Type=oneshot\nRemainAfterExit=yes\n"
        );
        (name, text)
    };
    let names = ["no-account", "no-session", "no-module", "no-service", "no-credentials"];
    let units: Vec<(String, String)> = names.into_iter().map(unit).collect();
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (&**name, &**text)).collect();
    let Some(m) = start("session-refused", &units) else { return };
    for (name, why) in [
        ("no-account", "service no-account of PAM, user daemon: pam_acct_mgmt: "),
        ("no-session", "service no-session of PAM, user daemon: pam_open_session: "),
        ("no-module", "service no-module of PAM, user daemon: pam_open_session: "),
        // Which falls back to `other`.
        ("no-service", "service no-service of PAM, user daemon: pam_acct_mgmt: "),
    ] {
        let unit = format!("{name}.service");
        m.expect_job("start", &unit, "failed");
        let said = m.console();
        assert!(said.contains(&format!("step PAM failed: {why}")), "{said}");
        assert_eq!(m.status(&unit)["result"], "exit-code", "{}", m.status(&unit));
        assert_eq!(commands(&m, &unit), [""; 0]);
    }
    assert!(!m.inside("/run/open/started").exists());
    // Credentials that cannot be set are no reason.
    m.expect_job("start", "no-credentials.service", "done");
}

#[test]
fn without_pam_nothing_is_started() {
    let unit = "[Service]\nUser=daemon\nPAMName=log\nExecStart=/bin/sh -c 'echo started >>/run/open/started'\n";
    let Some(m) = start("session-none", &[("a.service", unit)]) else { return };
    let hide = "for p in /usr/lib/*/libpam.so.0; do mount --bind /dev/null $p; done";
    m.run(&["/bin/sh", "-c", hide]).expect("mounted");
    m.job("start", "a.service");
    m.wait_for("a.service", "failed/failed");
    let said = m.console();
    assert!(said.contains("libpam.so.0 cannot be loaded"), "{said}");
    assert!(!m.inside("/run/open/started").exists());
}

#[test]
fn a_module_that_hangs_is_ended_in_time() {
    let unit = "[Service]\nUser=daemon\nPAMName=waits\nEnvironment=FROM_UNIT=unit\nTimeoutStartSec=1\n\
                ExecStart=/bin/sh -c 'echo started >>/run/open/started'\n";
    let other = "[Service]\nType=oneshot\nExecStart=/bin/true\n";
    let units = [("a.service", unit), ("b.service", other)];
    let Some(m) = start("session-hangs", &units) else { return };
    m.expect_job("start", "a.service", "failed");
    assert_eq!(m.status("a.service")["result"], "timeout", "{}", m.status("a.service"));
    m.expect_job("start", "b.service", "done");
    wait_for_commands(&m, "a.service", &[]);
    assert!(!m.inside("/run/open/started").exists());
}

#[test]
fn what_a_module_leaves_behind_holds_nothing_up() {
    let unit = "[Service]\nType=exec\nUser=daemon\nPAMName=forks\nExecStart=/bin/sleep 1000\n";
    let Some(m) = start("session-forks", &[("a.service", unit)]) else { return };
    m.expect_job("start", "a.service", "done");
    wait_for_commands(&m, "a.service", &["(sd-pam)", "sleep", "sleep"]);
    m.expect_job("stop", "a.service", "done");
    assert_eq!(commands(&m, "a.service"), [""; 0]);
}

/// Starts a unit whose module waits, kills by `kill`, lets the module go on, and looks whether the unit is started
/// once, in one session.
#[track_caller]
fn check_killed(name: &str, kill: impl Fn(&Machine)) {
    let unit = "[Service]\nType=exec\nUser=daemon\nPAMName=waits\nEnvironment=FROM_UNIT=unit\n\
                ExecStart=/bin/sh -c 'echo started >>/run/pam/log; exec sleep 1000'\n";
    let Some(m) = start(name, &[("a.service", unit)]) else { return };
    m.run(&["/bin/sh", "-c", ">/run/pam/log; chmod 666 /run/pam/log"]).expect("made");
    let opened = "open_session daemon none unit 0\nwaits\n";
    let job = std::thread::scope(|scope| {
        let job = scope.spawn(|| m.job("start", "a.service"));
        wait_for_log(&m, opened);
        kill(&m);
        m.run(&["/bin/sh", "-c", "echo >/run/pam/gate"]).expect("it waits");
        job.join().expect("no panic")
    });
    m.wait_for("a.service", "active/running");
    wait_for_log(&m, &format!("{opened}started\n"));
    wait_for_commands(&m, "a.service", &["(sd-pam)", "sleep"]);
    assert!(job != Ended::Said("failed".to_owned()), "{job:?}");
    m.expect_job("stop", "a.service", "done");
    wait_for_log(&m, &format!("{opened}started\nclose_session daemon none unit 0\n"));
    assert_eq!(commands(&m, "a.service"), [""; 0]);
}

#[test]
fn a_session_survives_the_manager() {
    check_killed("session-manager", |m| assert!(m.kill_manager()));
}

#[test]
fn a_session_survives_its_helper() {
    check_killed("session-helper", |m| {
        for pid in m.all_helpers() {
            warren_sys::process::kill(pid, 9).expect("it runs");
        }
    });
}

#[test]
fn a_session_survives_both() {
    check_killed("session-both", |m| {
        assert!(m.kill_manager());
        for pid in m.all_helpers() {
            let _ = warren_sys::process::kill(pid, 9);
        }
    });
}
