//! The manager of a user as a service: with a session of PAM, in a cgroup of its own, heard of by its readiness.

mod lab;

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use serde_json::json;

use lab::{Machine, others_reach_programs, program_of, until, until_or};

/// As Debian's `user@.service`, and the drop-in of ours for it.
fn user_unit() -> String {
    let init = program_of("warren-init", "warren-init");
    let manager = env!("CARGO_BIN_EXE_warrend");
    format!(
        "[Service]\nUser=%i\nPAMName=user\nType=notify\nNotifyAccess=all\nKillMode=mixed\nDelegate=yes\n\
         KeyringMode=inherit\nEnvironment=XDG_RUNTIME_DIR=/run/user/1\nTimeoutStartSec=20\n\
         StandardOutput=append:/run/said\nStandardError=append:/run/said\n\
         ExecStart={init} --manager={manager} --helpers=1 -- --user --no-bus --log-target=console \
         --unit-path=@D/units/of-user --record-path=/run/user/1/records\n"
    )
}

const ROOM: &str = "mount -t tmpfs none /etc/pam.d && install -d -o daemon -g daemon -m 700 /run/user/1 && \
                    printf 'account required pam_permit.so\\nauth required pam_permit.so\\nsession required \
                    pam_permit.so\\n' >/etc/pam.d/user";

fn start(name: &str, units: &[(&str, &str)]) -> Option<Machine> {
    let (bare, own) = ("[Unit]\nDefaultDependencies=no\n", user_unit());
    let wants = format!("{bare}Wants=a.service\nAfter=a.service\n");
    let stays = format!(
        "{bare}Conflicts=shutdown.target\nBefore=shutdown.target\n[Service]\nType=exec\nExecStart=/bin/sleep 1000\n"
    );
    let base = [
        ("user@.service", &*own),
        ("of-user/default.target", &*wants),
        ("of-user/shutdown.target", bare),
        ("of-user/a.service", &*stays),
    ];
    let m = Machine::start(name, &[&base, units].concat())?;
    m.run(&["/bin/sh", "-c", ROOM]).expect("prepared");
    Some(m)
}

/// What `warren --user` says to the user of the manager.
fn user(m: &Machine, words: &[&str]) -> Result<String, String> {
    let warren = program_of("warren-cli", "warren");
    let who = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups"];
    let what = ["env", "XDG_RUNTIME_DIR=/run/user/1", &warren, "--user"];
    m.run(&[&who[..], &what, words].concat())
}

/// The groups below a unit's that have processes, with the names of these.
fn groups_of(m: &Machine, unit: &str) -> Vec<(String, Vec<String>)> {
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let below = |group: &str| group.split_once(unit).map(|(_, below)| below.to_owned());
    let groups = m.groups();
    let groups = groups.iter().filter(|(_, pids)| !pids.is_empty());
    let groups = groups.filter_map(|(group, pids)| {
        let mut names: Vec<String> = pids.iter().map(|pid| name(pid).trim().to_owned()).collect();
        names.sort();
        Some((below(&group.to_string())?, names))
    });
    let mut groups: Vec<_> = groups.collect();
    groups.sort();
    groups
}

#[test]
fn the_manager_of_a_user_is_a_service_with_a_session() {
    let test = "users";
    if !others_reach_programs(test) {
        return;
    }
    let Some(m) = start(test, &[]) else { return };
    m.expect_job("start", "user@1.service", "done");
    // It was waited for what its own start had to do.
    assert_eq!(m.status("user@1.service")["status_text"], "Ready.");
    let all = || groups_of(&m, "user@1.service");
    let expected = |all: &Vec<(String, Vec<String>)>| {
        let own = ["(sd-pam)", "warren-exec", "warren-init", "warrend"].map(str::to_owned);
        // A group with processes of its own could hand no controllers on.
        *all == [
            ("/app.slice/a.service".to_owned(), vec!["sleep".to_owned()]),
            ("/init.scope".to_owned(), own.to_vec()),
        ]
    };
    until_or(
        "all are in their groups",
        || expected(&all()).then_some(()),
        || format!("{:?}", all()),
    );
    let status = user(&m, &["status", "--json", "a.service"]).expect("it answers its user");
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let group = status["cgroup"].as_str().expect("it has one");
    assert!(group.ends_with("/user@1.service/app.slice/a.service"), "{group}");
    let mount = warren_sys::cgroup::mount_point().expect("procfs").expect("it is mounted");
    assert!(mount.join(group.trim_start_matches('/')).is_dir(), "{group}");
    user(&m, &["stop", "a.service"]).expect("its user may");
    until("it is stopped", || (all().len() == 1).then_some(()));
    m.expect_job("stop", "user@1.service", "done");
    let status = m.status("user@1.service");
    assert_eq!(
        (&status["active"], &status["result"]),
        (&json!("inactive"), &json!("success")),
        "{status}"
    );
    assert_eq!(all(), []);
}

/// systemd says so in its NEWS of version 236.
#[test]
fn a_login_does_not_wait_for_all_that_the_user_wants_started() {
    let test = "users-slow";
    if !others_reach_programs(test) {
        return;
    }
    let bare = "[Unit]\nDefaultDependencies=no\n";
    let wants = format!("{bare}Requires=basic.target\nWants=slow.service\nAfter=slow.service\n");
    let slow =
        format!("{bare}After=basic.target\n[Service]\nType=oneshot\nExecStart=/bin/sleep 1000\n");
    let units = [
        ("of-user/default.target", &*wants),
        ("of-user/basic.target", bare),
        ("of-user/slow.service", &*slow),
    ];
    let Some(m) = start(test, &units) else { return };
    // Its unit gives up before the service is there.
    m.expect_job("start", "user@1.service", "done");
    let shown = user(&m, &["show", "slow.service"]).expect("it answers its user");
    assert!(shown.lines().any(|line| line == "ActiveState=activating"), "{shown}");
}

/// The log daemon knows who says something by the process that connects: each does so itself.
#[test]
fn what_a_users_service_says_comes_from_its_own_process() {
    let test = "users-log";
    if !others_reach_programs(test) {
        return;
    }
    let says = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
                ExecStart=/bin/sh -c 'echo out; echo err >&2'\n";
    let units = [("of-user/says.service", says), ("of-user/files.service", says)];
    let Some(m) = start(test, &units) else { return };
    m.expect_job("start", "user@1.service", "done");
    user(&m, &["start", "files.service"]).expect("without a log daemon there are files");
    let file = m.inside("/run/user/1/log/warren/units/files.service.log");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "out\nerr\n");
    m.run(&["mkdir", "-p", "/run/systemd/journal"]).expect("made");
    let listener = UnixListener::bind(m.inside("/run/systemd/journal/stdout")).expect("bound");
    m.run(&["chmod", "666", "/run/systemd/journal/stdout"]).expect("done");
    user(&m, &["start", "--no-block", "says.service"]).expect("it is asked for");
    listener.set_nonblocking(true).expect("it does");
    let (mut stream, _) = until("it connects", || listener.accept().ok());
    stream.set_nonblocking(false).expect("it does");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it does");
    let peer = rustix::net::sockopt::socket_peercred(&stream).expect("of a process");
    assert_eq!(peer.uid.as_raw(), 1);
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("text");
    assert_eq!(said, "sh\nsays.service\n30\n1\n0\n0\n0\nout\nerr\n");
    assert!(!m.inside("/run/user/1/log/warren/units/says.service.log").exists());
    // A daemon that is gone leaves its socket behind.
    drop(listener);
    user(&m, &["restart", "files.service"]).expect("there are files again");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "out\nerr\nout\nerr\n");
}

#[test]
fn a_killed_manager_of_a_user_goes_on_and_a_killed_root_of_it_ends() {
    let test = "users-killed";
    if !others_reach_programs(test) {
        return;
    }
    let Some(m) = start(test, &[]) else { return };
    m.expect_job("start", "user@1.service", "done");
    let pid_of = |name: &str| {
        m.run(&["pgrep", "-u", "daemon", "-x", name]).ok().map(|out| out.trim().to_owned())
    };
    let first = pid_of("warrend").expect("it runs");
    m.run(&["kill", "-9", &first]).expect("it runs");
    until("there is another", || pid_of("warrend").filter(|pid| *pid != first && !pid.is_empty()));
    let row = until("it answers", || user(&m, &["status", "--json", "a.service"]).ok());
    assert!(row.contains("\"running\""), "{row}");
    assert_eq!(m.status("user@1.service")["active"], "active");
    m.run(&["kill", "-9", &pid_of("warren-init").expect("it runs")]).expect("it runs");
    m.wait_for("user@1.service", "failed/failed");
    until("nothing is left", || groups_of(&m, "user@1.service").is_empty().then_some(()));
}
