//! Descriptors or memory are wanting for a while: what needs them fails and says so, what is there stays,
//! nobody burns the processor, and all is well when the want is over.

mod lab;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::Command;

use lab::bound::Bound;
use lab::{Machine, PATIENCE, ask, until};
use serde_json::{Value, json};

const STAYS: &str = "[Service]\nExecStart=@P stay";

/// No descriptor is below the first one that a program opens itself.
const NO_MORE_FILES: &str = "--nofile=3:";

const MANY_FILES: &str = "--nofile=4096:";

/// Changes a soft limit of a running process.
fn limit(pid: i32, limit: &str) {
    let status = Command::new("prlimit").args(["--pid", &pid.to_string(), limit]).status();
    assert!(status.expect("prlimit(1) runs").success(), "{limit}");
}

/// The manager, once it has what it needs of its helpers. Before, it would leave over the want: a helper
/// that it does not get is for the next one.
fn settled_manager(m: &Machine) -> i32 {
    let manager = m.manager_pid().expect("it runs");
    until("the helpers are known", || {
        let maps = std::fs::read_to_string(format!("/proc/{manager}/maps")).ok()?;
        let births = maps.lines().filter(|line| line.contains("warren-birth")).count();
        (births > 0 && births == m.helper_pids().len()).then_some(manager)
    })
}

fn control(m: &Machine) -> UnixStream {
    let client = m.connect().expect("it listens");
    ask(&client, "Totals", &json!({})).expect("it is served");
    client
}

fn said(client: &UnixStream, method: &str, parameters: &Value) -> Value {
    ask(client, method, parameters).expect("it goes on being served")
}

/// A file of the manager's thread of this name.
fn of_thread(manager: i32, name: &str, file: &str) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{manager}/task")).expect("it runs");
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = tasks.flatten().map(|task| task.path());
    let found = tasks.into_iter().find(|task| read(task.join("comm")).trim() == name);
    read(found.expect("there is such a thread").join(file))
}

/// How often a thread has gone to sleep.
fn rests(manager: i32, name: &str) -> u64 {
    let status = of_thread(manager, name, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("a count")
}

#[test]
fn without_descriptors_a_reload_changes_nothing_and_says_so() {
    let units = [("a.service", STAYS), ("b.service", STAYS), ("b.service.d/x.conf", "[Unit]")];
    let Some(m) = Machine::start("short-reload", &units) else { return };
    let client = control(&m);
    let manager = settled_manager(&m);
    let descriptions = || {
        let listed = said(&client, "List", &json!({"patterns": ["a.service", "b.service"]}));
        let units = listed["parameters"]["units"].as_array().cloned().unwrap_or_default();
        let of = |unit: &Value| format!("{} {}", unit["load"], unit["description"]);
        units.iter().map(of).collect::<Vec<_>>()
    };
    let before = descriptions();
    assert_eq!(before.len(), 2);
    limit(manager, NO_MORE_FILES);
    m.write("a.service", &format!("[Unit]\nDescription=other\n{STAYS}"));
    m.write("b.service.d/x.conf", "[Unit]\nDescription=other too");
    for full in [false, true] {
        let refused = said(&client, "ReloadConfiguration", &json!({"full": full})).to_string();
        assert!(refused.contains("Too many open files"), "{refused}");
        assert_eq!(descriptions(), before);
    }
    limit(manager, MANY_FILES);
    let report = said(&client, "ReloadConfiguration", &json!({}));
    assert!(report["error"].is_null(), "{report}");
    let after = descriptions();
    assert!(after[0].contains("other") && after[1].contains("other too"), "{after:?}");
}

#[test]
fn who_comes_while_there_are_no_descriptors_waits_and_is_served() {
    let Some(m) = Machine::start("short-clients", &[("a.service", STAYS)]) else { return };
    let manager = settled_manager(&m);
    if !lab::has_systemctl("who_comes_while_there_are_no_descriptors_waits_and_is_served") {
        return;
    }
    m.run(&["systemctl", "show", "a.service"]).expect("the bus is served");
    limit(manager, NO_MORE_FILES);
    let before = rests(manager, "bus");
    let mut on_bus = m.spawn(&["systemctl", "show", "a.service"]);
    until("the bus has seen it", || (rests(manager, "bus") > before).then_some(()));
    // The first may be taken: the descriptor for it was there before the limit.
    let waiting: Vec<UnixStream> = (0..3).map(|_| m.connect().expect("it waits")).collect();
    // 202 is futex(2): nobody is taken, and no call for it is repeated.
    until("the thread rests", || {
        of_thread(manager, "control", "syscall").starts_with("202 ").then_some(())
    });
    limit(manager, MANY_FILES);
    for client in &waiting {
        client.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
        ask(client, "Totals", &json!({})).expect("it is served");
    }
    let ended = until("it is served though nobody has left", || on_bus.try_wait().ok().flatten());
    assert!(ended.success(), "{ended}");
    m.expect_job("start", "a.service", "done");
}

/// It is the machine that lacks something: the unit is not to blame, and is told so.
#[test]
fn what_cannot_be_made_for_want_of_descriptors_says_so_and_can_be_made_later() {
    let units = [
        ("a.service", "[Service]\nType=exec\nExecStart=@P stay"),
        ("b.service", "[Service]\nType=exec\nExecStart=@P stay"),
        ("b.socket", "[Socket]\nListenStream=/run/b"),
    ];
    let Some(m) = Machine::start("short-helpers", &units) else { return };
    m.expect_job("start", "b.socket", "done");
    settled_manager(&m);
    m.all_helpers().into_iter().for_each(|helper| limit(helper, NO_MORE_FILES));
    for unit in ["a.service", "b.service"] {
        m.expect_job("start", unit, "failed");
        m.wait_for(unit, "failed/failed");
        let status = m.status(unit);
        assert_eq!(status["reason"]["code"], "WR-0052", "{status}");
        let text = status["status_text"].as_str().unwrap_or_default();
        assert_eq!(text.matches("Too many open files").count(), 1, "{text}");
    }
    m.all_helpers().into_iter().for_each(|helper| limit(helper, MANY_FILES));
    for unit in ["a.service", "b.service"] {
        m.expect_job("start", unit, "done");
    }
}

/// A connection that the manager has no room for ends, and it is told why; the manager goes on.
#[test]
fn a_connection_that_the_manager_cannot_take_is_no_end_of_it() {
    let units = [
        ("each.socket", "[Socket]\nListenStream=/run/each\nAccept=yes"),
        ("each@.service", "[Service]\nExecStart=@P answer"),
    ];
    let Some(m) = Machine::start("short-connections", &units) else { return };
    m.expect_job("start", "each.socket", "done");
    let manager = settled_manager(&m);
    let answer = || {
        let mut stream = UnixStream::connect(m.inside("/run/each")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer, or the end");
        text
    };
    limit(manager, NO_MORE_FILES);
    assert_eq!(answer(), "");
    let why = "each.socket: cannot accept a connection: Too many open files";
    until("it says so", || m.console().contains(why).then_some(()));
    limit(manager, MANY_FILES);
    assert!(answer().trim().parse::<u32>().is_ok(), "a pid");
    assert_eq!(m.manager_pid(), Some(manager));
}

/// The manager has no pidfd of a process that was made while it could have none, and cannot list the
/// processes of a group.
#[test]
fn a_service_is_stopped_without_descriptors() {
    let unit = format!("{STAYS}\nTimeoutStopSec=20");
    let Some(m) = Machine::start("short-stop", &[("a.service", &unit)]) else { return };
    let client = control(&m);
    limit(settled_manager(&m), NO_MORE_FILES);
    for (kind, state) in [("start", "active"), ("stop", "inactive")] {
        let job = said(&client, "Job", &json!({"type": kind, "unit": "a.service"}));
        assert_eq!(job["parameters"]["result"], "done", "{job}");
        let status = said(&client, "Status", &json!({"unit": "a.service"}));
        assert_eq!(status["parameters"]["active"], state, "{status}");
    }
}

/// Nor can it read whether somebody is left in a group: the kernel says so by not removing it.
#[test]
fn who_is_left_is_waited_for_without_descriptors() {
    let unit = "[Service]\nTimeoutStopSec=20\nExecStart=/bin/sh -c \"(trap '' TERM; \
                : > @D/out/deaf; sleep 1; : > @D/out/over) & exec sleep 999\"";
    let Some(m) = Machine::start("short-left", &[("a.service", unit)]) else { return };
    let client = control(&m);
    limit(settled_manager(&m), NO_MORE_FILES);
    for kind in ["start", "stop"] {
        let job = said(&client, "Job", &json!({"type": kind, "unit": "a.service"}));
        assert_eq!(job["parameters"]["result"], "done", "{job}");
        until("it is deaf", || m.out("deaf").exists().then_some(()));
    }
    assert!(m.out("over").exists(), "he was waited for");
    let job = said(&client, "Job", &json!({"type": "start", "unit": "a.service"}));
    assert_eq!(job["parameters"]["result"], "done", "its group is made again: {job}");
}

/// What cannot be kept is not kept; what is said with it counts.
#[test]
fn what_is_said_with_a_descriptor_that_there_is_no_room_for_is_heard() {
    let unit = "[Service]\nType=notify\nTimeoutStartSec=20\nFileDescriptorStoreMax=9\n\
                ExecStart=@P \"store:x\\nREADY=1\" stay";
    let Some(m) = Machine::start("short-notify", &[("a.service", unit)]) else { return };
    let client = control(&m);
    limit(settled_manager(&m), NO_MORE_FILES);
    let job = said(&client, "Job", &json!({"type": "start", "unit": "a.service"}));
    assert_eq!(job["parameters"]["result"], "done", "{job}");
}

/// A main process that is named then can be held only later; it has not ended.
#[test]
fn a_main_process_that_is_named_without_descriptors_is_followed_later() {
    let unit = "[Service]\nNotifyAccess=all\nExecStart=/bin/sh -c '\
                sleep 1000 & echo $$! > @D/out/child; read x < @D/out/go; \
                exec @P names:$$(cat @D/out/child) stay'";
    let Some(m) = Machine::start("named-late", &[("names.service", unit)]) else { return };
    let go = m.out("go");
    m.run(&["mkfifo", go.to_str().expect("the path is text")]).expect("mkfifo(1)");
    m.expect_job("start", "names.service", "done");
    let child: u64 = until("it has a child", || m.lines("child").first()?.parse().ok());
    let manager = settled_manager(&m);
    let client = control(&m);
    limit(manager, NO_MORE_FILES);
    std::fs::write(&go, "\n").expect("somebody reads it");
    let main = || said(&client, "Status", &json!({"unit": "names.service"}));
    until("it is known", || (main()["parameters"]["main_pid"] == child).then_some(()));
    limit(manager, MANY_FILES);
    assert_eq!(m.state("names.service"), "active/running");
    m.run(&["kill", "-KILL", &child.to_string()]).expect("it can be killed");
    m.wait_for("names.service", "inactive/dead");
}

/// Who comes would find nobody, at the latest when there is another manager.
#[test]
fn a_socket_that_init_cannot_keep_does_not_listen() {
    let units = [("a.socket", "[Socket]\nListenStream=/run/a"), ("a.service", STAYS)];
    let Some(m) = Machine::start("short-store", &units) else { return };
    settled_manager(&m);
    limit(m.init_pid, NO_MORE_FILES);
    m.job("start", "a.socket");
    m.wait_for("a.socket", "failed/failed");
    let said = m.status("a.socket").to_string();
    assert!(said.contains("init cannot keep its sockets"), "{said}");
    limit(m.init_pid, MANY_FILES);
    m.expect_job("start", "a.socket", "done");
    assert!(m.kill_manager());
    m.wait_for("a.socket", "active/listening");
}

/// A manager that may open no more than so many files, where not even root can raise it.
struct Limited(std::path::PathBuf);

impl Limited {
    fn new(name: &str, files: u32) -> Limited {
        let wrapper = std::env::temp_dir().join(format!("warren-{name}-{}", std::process::id()));
        let program = env!("CARGO_BIN_EXE_warrend");
        // It raises its limit as far as the kernel lets it: `fs.nr_open` is of all, so it is the right to that is taken.
        let script = format!(
            "ulimit -S -n {files} && ulimit -H -n {files} && \
             exec setpriv --bounding-set=-sys_resource {program} \"$@\""
        );
        lab::install_script(&wrapper, &script);
        Limited(wrapper)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// More sockets than the manager may have descriptors: some listen, the others say why not, and everything else goes
/// on: the boot, root's orders, what tells of itself, what is stopped, the next manager.
#[test]
fn sockets_beyond_the_limit_fail_with_a_reason_and_nothing_else_does() {
    const SOCKETS: usize = 300;
    let name = "short-sockets";
    let limited = Limited::new(name, 240);
    let manager = format!("--manager={}", limited.0.display());
    let sockets: Vec<String> = (0..SOCKETS).map(|n| format!("s{n}.socket")).collect();
    let listens: Vec<String> =
        (0..SOCKETS).map(|n| format!("[Socket]\nListenStream=/run/s{n}")).collect();
    let target = format!("[Unit]\nWants={}\nRequires=basic.target", sockets.join(" "));
    let services: Vec<String> = (0..SOCKETS).map(|n| format!("s{n}.service")).collect();
    let ready = "[Service]\nType=notify\nTimeoutStartSec=60\nExecStart=@P ready stay";
    let mut units = vec![("default.target", &*target), ("ready.service", ready)];
    units.extend(sockets.iter().zip(&listens).map(|(name, text)| (&**name, &**text)));
    units.extend(services.iter().map(|name| (&**name, STAYS)));
    let Some(m) = Machine::start_with(name, &units, &[&manager]) else { return };
    until("the boot is over", || m.console().contains("startup finished").then_some(()));
    let listed = m.call("List", &json!({"patterns": ["s*.socket"]}));
    let listed = listed["units"].as_array().cloned().unwrap_or_default();
    let count = |active: &str| listed.iter().filter(|unit| unit["active"] == active).count();
    let (up, failed) = (count("active"), count("failed"));
    assert_eq!(up + failed, SOCKETS, "{listed:?}");
    // A quarter of what it may open is kept, and its own work takes some.
    assert!((60..=180).contains(&up), "{up} listen");
    let console = m.console();
    let told: Vec<&str> = console
        .lines()
        .filter(|line| line.contains("more file descriptors than there are"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let needed = format!("wanted {failed} more");
    assert!(told[0].contains(&needed) && told[0].contains(&format!("At least {}", 240 + failed)));
    let lost = listed.iter().find(|unit| unit["active"] == "failed").expect("there are such");
    let lost = lost["name"].as_str().expect("a name").to_owned();
    let status = m.status(&lost);
    assert_eq!(status["reason"]["code"], "WR-0052", "{status}");
    assert!(status.to_string().contains("no file descriptor is left for it"), "{status}");
    assert!(!m.inside(&format!("/run/{}", lost.trim_end_matches(".socket"))).exists());
    // As many services as there are sockets: what each costs the manager is not taken from the reserve.
    let all: Vec<&str> = services.iter().map(String::as_str).collect();
    for unit in &all[..150] {
        m.expect_job("start", unit, "done");
    }
    m.expect_job("start", "ready.service", "done");
    assert!(m.kill_manager());
    m.expect_job("restart", "ready.service", "done");
    m.expect_job("stop", all[0], "done");
    assert_eq!(m.status(&lost)["active"], "failed");
    // Where others give some back it listens.
    let listening = listed.iter().filter(|unit| unit["active"] == "active");
    for unit in listening.filter_map(|unit| unit["name"].as_str()).take(60) {
        m.expect_job("stop", unit, "done");
    }
    all[1..150].iter().for_each(|unit| m.expect_job("stop", unit, "done"));
    m.expect_job("start", &lost, "done");
}

/// 10,000 services that were started at once had a copy made of each one's socket before the first was begun.
#[test]
fn services_that_are_started_at_once_need_no_file_descriptors_at_once() {
    const SERVICES: usize = 350;
    let name = "short-at-once";
    let limited = Limited::new(name, 600);
    let manager = format!("--manager={}", limited.0.display());
    let names: Vec<[String; 2]> =
        (0..SERVICES).map(|n| [format!("s{n}.socket"), format!("s{n}.service")]).collect();
    let listens: Vec<String> =
        (0..SERVICES).map(|n| format!("[Socket]\nListenStream=/run/s{n}")).collect();
    let target = |of: usize| {
        let wanted: Vec<&str> = names.iter().map(|pair| &*pair[of]).collect();
        format!("[Unit]\nRequires={0}\nAfter={0}", wanted.join(" "))
    };
    let (sockets, services) = (target(0), target(1));
    let mut units = vec![("default.target", &*sockets), ("all.target", &*services)];
    for ([socket, service], listen) in names.iter().zip(&listens) {
        units.extend([(&**socket, &**listen), (&**service, STAYS)]);
    }
    let Some(m) = Machine::start_with(name, &units, &[&manager]) else { return };
    m.wait_for("default.target", "active/active");
    m.expect_job("start", "all.target", "done");
    let listed = m.call("List", &json!({"patterns": ["s*.service"]}));
    let listed = listed["units"].as_array().cloned().unwrap_or_default();
    assert_eq!(listed.iter().filter(|unit| unit["active"] == "active").count(), SERVICES);
}

/// A helper keeps its own files above the numbers that services get, which here are more than there may be.
#[test]
fn helpers_work_where_few_files_may_be_open() {
    let Some(m) = Machine::start("short-helpers-few", &[("a.service", STAYS)]) else { return };
    settled_manager(&m);
    limit(m.init_pid, "--nofile=120:120");
    for helper in m.helper_pids() {
        warren_sys::process::kill(helper, 9).expect("it can be killed");
    }
    m.expect_job("start", "a.service", "done");
}

/// The kernel reports of no group that is not watched: whoever is left there is looked for as processes end.
#[test]
fn who_is_left_is_waited_for_without_watches() {
    let spawns = |how: &str| format!("ExecStart=/bin/sh -c 'sleep 1000 & echo $$! > @D/out/{how}'");
    let forks = format!("[Service]\nType=forking\nGuessMainPID=no\n{}", spawns("forks"));
    let deaf = "[Service]\nTimeoutStopSec=60\nExecStart=/bin/sh -c \"(trap '' TERM; \
                : > @D/out/deaf; sleep 1; : > @D/out/over) & exec sleep 999\"";
    let units = [("forks.service", &*forks), ("deaf.service", deaf)];
    for (kind, said) in [("watches", "No space left"), ("instances", "Too many open files")] {
        let name = format!("short-{kind}");
        let wrapper = std::env::temp_dir().join(format!("warren-{name}-{}", std::process::id()));
        let script = format!(
            "exec unshare --user --map-root-user sh -c \
             'echo 0 > /proc/sys/user/max_inotify_{kind} && exec {} \"$@\"' sh \"$@\"",
            env!("CARGO_BIN_EXE_warrend")
        );
        lab::install_script(&wrapper, &script);
        let manager = format!("--manager={}", wrapper.display());
        let Some(m) = Machine::start_with(&name, &units, &[&manager]) else { return };
        m.expect_job("start", "forks.service", "done");
        m.wait_for("forks.service", "active/running");
        let left = m.lines("forks").remove(0);
        m.run(&["kill", "-KILL", &left]).expect("it can be killed");
        m.wait_for("forks.service", "inactive/dead");
        m.expect_job("start", "deaf.service", "done");
        until("it is deaf", || m.out("deaf").exists().then_some(()));
        m.expect_job("stop", "deaf.service", "done");
        assert!(m.out("over").exists(), "he was waited for");
        let console = m.console();
        let told = console.lines().filter(|line| line.contains("cannot watch all cgroups"));
        let told: Vec<&str> = told.collect();
        assert!(told.len() == 1 && told[0].contains(said), "{told:?}");
        assert!(m.kill_manager());
        m.wait_for("deaf.service", "inactive/dead");
        drop(m);
        let _ = std::fs::remove_file(&wrapper);
    }
}

/// The tree may have no more groups: who needs one fails and says so, and who has one is stopped.
#[test]
fn a_service_for_which_there_is_no_cgroup_says_so() {
    let units = [("a.service", STAYS), ("b.service", STAYS)];
    let Some(m) = Machine::start("short-groups", &units) else { return };
    m.expect_job("start", "a.service", "done");
    let most = m.cgroup_directory().join("cgroup.max.descendants");
    std::fs::write(&most, "0").expect("the kernel takes it");
    m.expect_job("start", "b.service", "failed");
    let status = m.status("b.service");
    assert_eq!(status["reason"]["code"], "WR-0052", "{status}");
    m.expect_job("stop", "a.service", "done");
    assert!(m.kill_manager());
    assert_eq!(m.state("b.service"), "failed/failed");
    std::fs::write(&most, "max").expect("the kernel takes it");
    m.expect_job("start", "b.service", "done");
}

/// Nothing can be written to /run, for want of bytes or of files: what needs a file there fails, all else goes on.
#[test]
fn a_full_run_directory_fails_what_needs_it_and_nothing_else() {
    let directory = "[Service]\nRuntimeDirectory=d\nExecStart=@P stay";
    for (kind, fill) in [
        ("bytes", "mount -o remount,size=64k /run; cat /dev/zero > /run/full; true"),
        (
            "inodes",
            "mount -o remount,nr_inodes=$(($(find /run -xdev | wc -l) + 20)) /run; \
                    n=0; while touch /run/full$n; do n=$((n + 1)); done; true",
        ),
    ] {
        let units = [
            ("a.service", STAYS),
            ("b.service", STAYS),
            ("d.service", directory),
            ("s.socket", "[Socket]\nListenStream=/run/s"),
            ("s.service", STAYS),
        ];
        let Some(m) = Machine::start(&format!("short-run-{kind}"), &units) else { return };
        m.expect_job("start", "a.service", "done");
        m.run(&["sh", "-c", fill]).expect("it is filled");
        m.expect_job("start", "b.service", "done");
        m.expect_job("stop", "a.service", "done");
        let status = m.status("b.service");
        assert_eq!(status["active"], "active", "{kind}: {status}");
        if kind == "inodes" {
            m.job("start", "d.service");
            m.wait_for("d.service", "failed/failed");
            let said = m.status("d.service").to_string();
            assert!(said.contains("No space left on device"), "{said}");
            m.job("start", "s.socket");
            m.wait_for("s.socket", "failed/failed");
            let said = m.status("s.socket").to_string();
            assert!(said.contains("No space left on device"), "{said}");
        }
        assert!(m.kill_manager());
        m.expect_job("start", "a.service", "done");
        assert_eq!(m.state("b.service"), "active/running");
        m.run(&["sh", "-c", "rm /run/full*"]).expect("there is room again");
        m.expect_job("start", "d.service", "done");
        m.expect_job("start", "s.socket", "done");
    }
}

#[test]
fn without_threads_a_reload_of_many_files_ends_nobody() {
    let Some(bound) = Bound::of_processes("short-threads") else {
        return lab::not_run("without_threads...", "a cgroup with the pids controller");
    };
    let Some(m) = Machine::start("short-threads", &[("a.service", STAYS)]) else { return };
    let client = control(&m);
    let manager = settled_manager(&m);
    bound.take(manager);
    bound.limit("1");
    for number in 0..3000 {
        m.write(&format!("many{number}.service"), STAYS);
    }
    m.write("a.service", &format!("[Unit]\nDescription=other\n{STAYS}"));
    // Generators need a process.
    let refused = said(&client, "ReloadConfiguration", &json!({})).to_string();
    assert!(refused.contains("generators cannot run"), "{refused}");
    let one = said(&client, "ReloadConfiguration", &json!({"unit": "a.service"}));
    assert!(one["error"].is_null(), "{one}");
    let status = said(&client, "Status", &json!({"unit": "a.service"}));
    assert_eq!(status["parameters"]["description"], "other", "{status}");
    let dry = said(&client, "ReloadConfiguration", &json!({"dry_run": true})).to_string();
    assert!(dry.contains("many2999.service"), "all are looked at");
    // Who has a thread is served by it, services are processes of the helpers, root is served by threads that are kept
    // for that, and others are told why not.
    let job = said(&client, "Job", &json!({"type": "start", "unit": "a.service"}));
    assert_eq!(job["parameters"]["result"], "done", "{job}");
    for other in [(); 2].map(|()| m.connect().expect("it listens")) {
        let totals = ask(&other, "Totals", &json!({})).expect("it is answered");
        assert!(totals["error"].is_null(), "{totals}");
    }
    let other = m.connect_as_other();
    let refused = ask(&other, "Totals", &json!({})).expect("it is answered").to_string();
    assert!(refused.contains("no thread for it"), "{refused}");
    bound.limit("max");
    let all = said(&client, "ReloadConfiguration", &json!({}));
    assert!(all["error"].is_null(), "{all}");
    m.expect_job("start", "many2999.service", "done");
    assert_eq!(m.manager_pid(), Some(manager));
    drop(m);
}
