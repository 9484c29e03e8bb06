//! The manager of a user as a service: with a session of PAM, in a cgroup of its own, heard of by its readiness.

mod lab;

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
