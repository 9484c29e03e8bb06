//! warren-init and warren-exec as programs: what a manager can rely on.

mod lab;

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lab::{Begun, Lab, not_run, script, wait_readable};
use warren_init::client::InitEvent;
use warren_init::protocol::control::{InitRequest, PowerAction, STORE_NAME_BYTES_MAX, StartReason};
use warren_init::protocol::exec::{
    CgroupPlace, Directories, DirectoryKind, DirectoryPlace, ExecSpec, FromHelper, HelperReply,
    Rlimit, SpawnRequest, StdInput, StdOutput, Sync, Synced, TtyMode,
};
use warren_init::protocol::{ExecStep, Packet};
use warren_sys::process::{ExitKind, pidfd_pid};
use warren_sys::{fdpass, memfd, process};

fn is_root() -> bool {
    process::own_ids().0 == 0
}

/// Runs a script as `spec` says and compares what it printed.
#[track_caller]
fn check_output(lab: &Lab, text: &str, expected: &str, change: impl Fn(&mut ExecSpec)) {
    let session = lab.hello();
    let output = lab.path("out");
    let mut exec = script(text, &output);
    change(&mut exec);
    let null: OwnedFd = std::fs::File::open("/dev/null").expect("/dev/null").into();
    let (reply, record) = session.run(exec, &[&null, &null]);
    assert_eq!(record.exit.kind, ExitKind::Exited(0), "{reply:?}");
    let printed = std::fs::read_to_string(output).expect("the script has printed");
    assert_eq!(printed.trim_end(), expected, "{text}");
}

/// Runs a spec that must fail and compares step, errno and the exit code of the process.
#[track_caller]
fn check_failure(lab: &Lab, step: ExecStep, errno: i32, exec: ExecSpec) {
    let session = lab.hello();
    session.request(0, 5, exec, &[]);
    let (reply, fd) = session.spawn_reply(0);
    let error = reply.result.expect_err("it cannot work");
    assert_eq!((reply.id, error.step, error.errno), (5, step, errno), "{}", error.message);
    assert!(fd.is_none());
    if let Some(pid) = error.pid {
        assert_eq!(session.exit_of(pid).exit.kind, ExitKind::Exited(step.exit_code()));
    }
}

/// They come from the kernel's command line, and the end of process 1 is that of the machine.
#[test]
fn words_that_are_not_utf_8_end_nobody() {
    use std::os::unix::ffi::OsStrExt;
    let word = std::ffi::OsStr::from_bytes(b"caf\xe9");
    for program in [env!("CARGO_BIN_EXE_warren-init"), env!("CARGO_BIN_EXE_warren-exec")] {
        let mut command = std::process::Command::new(program);
        let output = command.args([word, "--version".as_ref()]).output().expect("it runs");
        assert!(output.status.success(), "{program}: {}", output.status);
    }
}

#[test]
fn what_was_started_ends_with_a_test_that_fails_before_the_manager_calls() {
    let begun = Begun::by(&["sh", "-c", "exec sleep infinity"], "fails", &[], None);
    let pid = begun.init.id() as i32;
    let address = begun.listener.local_addr().expect("it listens");
    let path = address.as_pathname().expect("it has a path");
    let mut caller = UnixStream::connect(path).expect("it listens");
    caller.write_all(b"no manager").expect("it is written");
    let joined = catch_unwind(AssertUnwindSafe(|| Lab::joined(begun)));
    assert!(joined.is_err(), "a manager sends its id with a descriptor");
    assert!(process::kill(pid, 0).is_err(), "process {pid} stayed behind");
}

#[test]
fn a_service_is_spawned_and_its_exit_recorded() {
    let lab = Lab::start("spawn", &["--helpers=2"]);
    let session = lab.hello();
    assert_eq!((session.welcome.incarnation, session.welcome.helpers), (1, 2));
    assert_eq!(session.welcome.reason, StartReason::First);
    assert_eq!(session.welcome.init_pid, lab.init.id() as i32);
    for (helper, code) in [(0, 0), (1, 7), (0, 255)] {
        let text = format!("read x; exit {code}");
        let mut exec = script(&text, &lab.path("out"));
        let (ours, theirs) = fdpass::seqpacket_pair(false).expect("a socket pair");
        exec.stdin = StdInput::Fd(0);
        session.request(helper, 100 + helper as u64, exec, &[&theirs]);
        let (reply, fd) = session.spawn_reply(helper);
        let spawned = reply.result.expect("sh can be run");
        assert_eq!(reply.id, 100 + helper as u64);
        let pidfd = fd.expect("a process has a pidfd");
        assert_eq!(pidfd_pid(pidfd.as_fd()), Ok(spawned.pid));
        assert_eq!(process::parent(spawned.pid), Ok(lab.init.id() as i32), "init is its parent");
        fdpass::send(ours.as_fd(), b"\n", &[]).expect("the script reads");
        wait_readable(pidfd.as_fd());
        let record = session.exit_of(spawned.pid);
        assert_eq!(record.exit.kind, ExitKind::Exited(code));
        assert!(record.time_ns >= spawned.started_ns);
    }
}

#[test]
fn the_environment_is_what_was_asked_for() {
    let lab = Lab::start("environment", &["--helpers=1"]);
    let pids = "[ $LISTEN_PID = $$ ] && [ $SYSTEMD_EXEC_PID = $$ ] && echo same";
    check_output(&lab, pids, "same", |e| (e.set_listen_pid, e.set_exec_pid) = (true, true));
    check_output(&lab, "umask; pwd; ulimit -n", "0077\n/tmp\n99", |e| {
        e.umask = Some(0o077);
        e.working_directory.place = DirectoryPlace::Path("/tmp".into());
        e.rlimits = vec![Rlimit { resource: 7, soft: 99, hard: 99 }];
    });
    for nowhere in ["/no/such/place", "/etc/passwd", "/etc/passwd/x"] {
        check_output(&lab, "pwd", "/", |e| {
            e.working_directory.place = DirectoryPlace::Path(nowhere.into());
            e.working_directory.ignore_missing = true;
        });
    }
    // UMask= counts for what is made for a service, and not for a log of ours.
    let made = ["append", "truncate", "log"].map(|name| lab.path(name));
    let modes = format!("stat -c %a {}", made.join(" "));
    let [append, truncate, log] = made;
    for (stdout, stderr) in [
        (StdOutput::Append(append), StdOutput::Truncate(truncate)),
        (StdOutput::Log(log), StdOutput::Null),
    ] {
        let spec = ExecSpec { stdout, stderr, umask: Some(0o077), ..script("true", "") };
        let (reply, record) = lab.hello().run(spec, &[]);
        assert_eq!(record.exit.kind, ExitKind::Exited(0), "{reply:?}");
    }
    check_output(&lab, &modes, "600\n600\n640", |_| {});
    check_output(&lab, "ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 4 5", |e| {
        e.listen_fds = vec![1, 0]; // 5 is ls's own
    });
    let base = lab.path("lib");
    let directories = format!("cd {base}; stat -c %a a/b; readlink d/e f");
    for _ in ["made", "there"] {
        check_output(&lab, &directories, "750\n../a/b\nc", |e| {
            let names = vec!["a/b".into(), "c".into()];
            let links = vec![("a/b".into(), "d/e".into()), ("c".into(), "f".into())];
            let (kind, base) = (DirectoryKind::State, base.clone());
            e.directories =
                vec![Directories { kind, base, names, mode: 0o750, links, private: false }];
        });
    }
    let socket = std::os::unix::net::UnixListener::bind(lab.path("talk")).expect("a socket");
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().expect("a connection");
        stream.write_all(b"question\n").expect("somebody reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("text");
        said
    });
    check_output(&lab, "read x; echo answer to $x", "", |e| {
        e.stdin = StdInput::File(lab.path("talk"));
        (e.stdout, e.stderr) =
            (StdOutput::File(lab.path("talk")), StdOutput::Truncate(lab.path("out")));
    });
    assert_eq!(heard.join().expect("it is heard"), "answer to question\n");
    check_failure(&lab, ExecStep::Stdout, 25, {
        let mut exec = script("true", &lab.path("out"));
        (exec.stdout, exec.tty_path) = (StdOutput::Tty, "/dev/null".into());
        exec
    });
    let ignored = "grep -c 'SigIgn:.*1...$' /proc/self/status; true";
    check_output(&lab, ignored, "1", |e| e.ignore_sigpipe = true);
    check_output(&lab, ignored, "0", |_| {});
    check_output(&lab, "echo $0", "name", |e| {
        e.path = "sh".into();
        e.search_path = "relative:/no/such:/bin".into();
        e.argv = ["name", "-c", "echo $0"].map(Into::into).to_vec();
    });
}

#[test]
fn the_user_is_switched() {
    if !is_root() {
        return not_run("the_user_is_switched", "root");
    }
    let lab = Lab::start("user", &["--helpers=1"]);
    // The directory must let the new user through to nothing but its open output.
    check_output(&lab, "id -u; id -g; id -G", "65534\n65534\n65534", |e| {
        e.user = Some("nobody".into());
    });
    let number = "id -u; id -G; echo $HOME $USER $SHELL";
    check_output(&lab, number, "12345\n12345 0\n12345 /bin/sh", |e| {
        e.user = Some("12345".into());
        e.supplementary_groups = vec!["root".into()];
        e.login_user = Some("12345".into());
    });
    // What stands for having no home and no shell is not told, nor what is to be left out.
    let variables = "echo $(id -u) ${HOME-none} ${SHELL-none} ${LOGNAME-none} ${USER-none} $1 $#";
    let words = |e: &mut ExecSpec, user: &str| {
        e.login_user = Some(user.into());
        e.argv.extend(["x", "\0USER\0-\0HOME\0-", "\0SHELL\0"].map(Into::into));
    };
    check_output(&lab, variables, "0 none none nobody nobody nobody-- 1", |e| words(e, "nobody"));
    // Then what the manager was told stands, unless it is to be left out.
    check_output(&lab, variables, "0 /h /s nobody nobody nobody-/h- 2", |e| {
        words(e, "nobody");
        e.login_defaults = ["HOME=/h", "SHELL=/s", "USER=x"].map(Into::into).to_vec();
    });
    check_output(&lab, variables, "0 none none nobody nobody nobody-- 1", |e| {
        words(e, "nobody");
        e.login_defaults = ["HOME=/h", "SHELL=/s"].map(Into::into).to_vec();
        e.unset_env = ["HOME=/h", "SHELL"].map(Into::into).to_vec();
    });
    check_output(&lab, variables, "0 none none root none -- 1", |e| {
        words(e, "root");
        e.unset_env = ["HOME=/root", "USER", "SHELL", "LOGNAME=no"].map(Into::into).to_vec();
    });
    check_output(&lab, "head -c 1 /proc/self/timerslack_ns; id -G", "70", |e| {
        (e.user, e.timer_slack_ns) = (Some("root".into()), Some(70_000));
    });
    let caps = "grep -E 'CapBnd|CapAmb|CapEff|NoNewPrivs' /proc/self/status | tr -s '\\t\\n' ' '";
    let bind =
        "CapEff: 0000000000000400 CapBnd: 0000000000000401 CapAmb: 0000000000000400 NoNewPrivs: 1";
    check_output(&lab, caps, bind, |e| {
        e.user = Some("nobody".into());
        e.capability_bounding_set = Some(0x401);
        e.ambient_capabilities = 0x400;
        e.no_new_privileges = true;
    });
    // What is not in the bounding set cannot be had, nor what no kernel has.
    check_output(&lab, caps, bind, |e| {
        e.user = Some("nobody".into());
        e.capability_bounding_set = Some(0x401);
        e.ambient_capabilities = !0x3ff & !(1 << 11);
        e.no_new_privileges = true;
    });
    check_output(&lab, "nice; cat /proc/self/oom_score_adj", "5\n300", |e| {
        (e.nice, e.oom_score_adjust) = (Some(5), Some(300));
        e.user = Some("nobody".into());
    });
}

#[test]
fn directories_are_taken_back_and_configuration_is_left_alone() {
    if !is_root() {
        return not_run("directories_are_taken_back_and_configuration_is_left_alone", "root");
    }
    let lab = Lab::start("owners", &["--helpers=1"]);
    let base = lab.path("lib");
    let check = |kind, user: Option<&str>, expected: &str| {
        check_output(&lab, &format!("stat -c '%u %a' {base}/a {base}/a/b"), expected, |e| {
            // Its output must stay open to it, and the directory is not for others.
            (e.user, e.keeps_ids) = (user.map(Into::into), true);
            let (names, base) = (vec!["a".into(), "a/b".into()], base.clone());
            e.directories = vec![Directories {
                kind,
                base,
                names,
                mode: 0o750,
                links: Vec::new(),
                private: false,
            }];
        });
    };
    check(DirectoryKind::State, Some("12345"), "12345 750\n12345 750");
    check(DirectoryKind::Configuration, None, "12345 750\n12345 750");
    check(DirectoryKind::State, None, "0 750\n0 750");
    check(DirectoryKind::Configuration, Some("12345"), "0 750\n0 750");
}

/// As with systemd 252: without that the user could not open its own terminal.
#[test]
fn a_terminal_is_given_to_the_user() {
    let test = "a_terminal_is_given_to_the_user";
    if !is_root() {
        return not_run(test, "root");
    }
    let lab = Lab::start("terminal", &["--helpers=1"]);
    let said = lab.path("tty");
    let text = format!("exec 3>{said}; tty >&3; echo >&3; exec cat");
    let mut command = std::process::Command::new("script");
    command.args(["-q", "-c", &text, "/dev/null"]);
    let null = std::process::Stdio::null;
    let Ok(mut holder) = command.stdin(std::process::Stdio::piped()).stdout(null()).spawn() else {
        return not_run(test, "script(1)");
    };
    let tty = loop {
        match std::fs::read_to_string(&said).unwrap_or_default().split_once("\n\n") {
            Some((tty, _)) => break tty.to_owned(),
            None => assert_eq!(holder.try_wait().expect("a child"), None, "it has a terminal"),
        }
    };
    let text = format!("stat -c '%u %a' {tty}; true <>{tty} && echo open");
    check_output(&lab, &text, "12345 620\nopen", |e| {
        (e.stdin, e.tty_path) = (StdInput::Tty(TtyMode::Force), tty.clone());
        e.user = Some("12345".into());
    });
    let _ = holder.kill();
    let _ = holder.wait();
}

#[test]
fn a_failing_step_is_named() {
    let lab = Lab::start("failure", &["--helpers=1"]);
    let output = lab.path("out");
    let base = || script("true", &output);
    let program = |path: &str| ExecSpec { path: path.into(), ..base() };
    check_failure(&lab, ExecStep::Exec, 2, program("/no/such/program"));
    check_failure(&lab, ExecStep::Exec, 13, program("/etc/passwd"));
    check_failure(&lab, ExecStep::Exec, 2, program("no-such-program"));
    check_failure(&lab, ExecStep::Request, 22, program(""));
    let mut exec = base();
    exec.working_directory.place = DirectoryPlace::Path("/no/such".into());
    check_failure(&lab, ExecStep::Chdir, 2, exec);
    check_failure(&lab, ExecStep::Stdin, 0, ExecSpec { stdin: StdInput::Fd(0), ..base() });
    let stdout = StdOutput::File("/no/such/file".into());
    check_failure(&lab, ExecStep::Stdout, 2, ExecSpec { stdout, ..base() });
    check_failure(
        &lab,
        ExecStep::User,
        0,
        ExecSpec { user: Some("no-such-user".into()), ..base() },
    );
    let required_features = vec!["SystemCallFilter".into()];
    check_failure(&lab, ExecStep::Feature, 0, ExecSpec { required_features, ..base() });
    let cgroup = CgroupPlace::Path("x".into());
    check_failure(&lab, ExecStep::Cgroup, 0, ExecSpec { cgroup, ..base() });
}

#[test]
fn a_large_request_travels_in_a_memfd() {
    let lab = Lab::start("large", &["--helpers=1"]);
    let session = lab.hello();
    let mut exec = script("echo ${#BIG}", &lab.path("out"));
    exec.env.push(format!("BIG={}", "x".repeat(100_000)));
    exec.stdin = StdInput::Fd(0);
    let null: OwnedFd = std::fs::File::open("/dev/null").expect("/dev/null").into();
    session.request(0, 3, exec, &[&null]);
    let (reply, _) = session.spawn_reply(0);
    session.exit_of(reply.result.expect("it runs").pid);
    assert_eq!(std::fs::read_to_string(lab.path("out")).expect("printed"), "100000\n");
}

#[test]
fn a_service_is_born_in_its_cgroup() {
    let Some(lab) = Lab::start_with_cgroup("cgroup") else { return };
    let (top, group) = lab.tree.as_ref().expect("it was started with one");
    let own = format!("{group}/init.scope");
    assert!(top.procs(&own).expect("init made it").contains(&(lab.init.id() as i32)));
    top.make(format!("{group}/a.service")).expect("made");
    let path = format!("/{group}/a.service");
    check_output(&lab, "grep -o '^0::.*' /proc/self/cgroup", &format!("0::{path}"), |e| {
        e.cgroup = CgroupPlace::Path("a.service".into());
    });
    for bad in ["../..", "no.service"] {
        let session = lab.hello();
        let cgroup = CgroupPlace::Path(bad.into());
        session.request(0, 1, ExecSpec { cgroup, ..script("true", "/dev/null") }, &[]);
        let (reply, _) = session.spawn_reply(0);
        assert_eq!(reply.result.map_err(|e| e.step), Err(ExecStep::Cgroup), "{bad}");
    }
}

#[test]
fn a_killed_helper_is_replaced_and_services_go_on() {
    let lab = Lab::start("helper", &["--helpers=1"]);
    let mut session = lab.hello();
    let (ours, theirs) = fdpass::seqpacket_pair(false).expect("a socket pair");
    let mut exec = script("read x", "/dev/null");
    exec.stdin = StdInput::Fd(0);
    session.request(0, 1, exec, &[&theirs]);
    let (reply, _) = session.spawn_reply(0);
    let service = reply.result.expect("it runs").pid;
    for round in 0..2 {
        let helper = child_named(lab.init.id(), "warren-exec");
        process::kill(helper, 9).expect("the helper runs");
        session.handed.helpers[0] = lab.new_helper();
        let (reply, _) = session.run(script(&format!("exit {round}"), "/dev/null"), &[]);
        assert!(reply.result.is_ok());
    }
    drop(theirs);
    fdpass::send(ours.as_fd(), b"\n", &[]).expect("the service lives");
    assert_eq!(session.exit_of(service).exit.kind, ExitKind::Exited(0));
}

fn child_named(parent: u32, name: &str) -> i32 {
    let list = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(list).expect("init runs");
    let is_it = |pid: &&str| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.trim_end() == name
    };
    let pid = children.split_whitespace().find(is_it).expect("the helper is init's child");
    pid.parse().expect("the kernel lists numbers")
}

#[test]
fn a_killed_manager_finds_everything_again() {
    let mut lab = Lab::start("manager", &["--helpers=1"]);
    let session = lab.hello();
    let state = memfd::sealed("state", b"remember").expect("memfd");
    lab.ask(&InitRequest::StoreFd { name: "state" }, &[&state]);
    session.request(0, 77, script("exit 3", "/dev/null"), &[]);
    wait_readable(session.helpers[0].as_fd());
    wait_readable(session.wake.as_fd());
    // Left in the socket by a manager that dies now, an answer unread: still counts.
    lab.ask(&InitRequest::ListFds, &[]);
    wait_readable(lab.control.as_fd());
    lab.ask(&InitRequest::StoreFd { name: "last words" }, &[&state]);
    lab.kill_manager();
    lab.next_manager();
    let next = lab.hello();
    assert_eq!(next.welcome.incarnation, 2);
    assert_eq!(next.welcome.reason, StartReason::Killed(9));
    assert_eq!(next.welcome.instance, session.welcome.instance);
    let names: Vec<_> = next.stored.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["last words", "state"]);
    let content = memfd::read_all(next.stored[1].1.as_fd(), 100).expect("readable");
    assert_eq!(content, b"remember");
    let question = Sync(1);
    fdpass::send(next.helpers[0].as_fd(), &question.packet(), &[]).expect("the helper listens");
    let (reply, fd) = next.spawn_reply(0);
    let pid = reply.result.expect("it ran").pid;
    assert_eq!((reply.id, fd.is_some()), (77, true));
    // Said again, in case the last manager had taken it.
    let (again, fd) = next.spawn_reply(0);
    assert_eq!((again.id, fd.is_some()), (77, false));
    assert_eq!(again.result.expect("it ran").pid, pid);
    assert_eq!(next.heard(0), FromHelper::Synced(Synced::to(question)));
    assert_eq!(next.exit_of(pid).exit.kind, ExitKind::Exited(3));
}

#[test]
fn a_planned_restart_is_no_crash() {
    let mut lab = Lab::start("restart", &["--helpers=1", "--on-exit=stop"]);
    lab.hello();
    for incarnation in 2..6 {
        lab.command(b'r');
        lab.next_manager();
        let session = lab.hello();
        assert_eq!(session.welcome.incarnation, incarnation);
        assert_eq!(session.welcome.reason, StartReason::Asked);
    }
    lab.command(b'x');
    assert_eq!(lab.init.wait().expect("init ends").code(), Some(0));
}

#[test]
fn a_crashing_manager_is_started_again_and_again() {
    let mut lab = Lab::start("crash", &["--helpers=1"]);
    for incarnation in 2..5 {
        lab.kill_manager();
        lab.next_manager();
        assert_eq!(lab.hello().welcome.incarnation, incarnation);
    }
    lab.command(b'x');
    lab.next_manager();
    assert_eq!(lab.hello().welcome.reason, StartReason::Exited(0));
}

#[test]
fn signals_are_forwarded_also_those_that_came_while_nobody_was_there() {
    let mut lab = Lab::start("signals", &["--helpers=1"]);
    process::kill(lab.init.id() as i32, 15).expect("init runs");
    process::kill(lab.init.id() as i32, 34 + 4).expect("init runs");
    let before = lab.hello();
    assert_eq!(before.welcome.incarnation, 1);
    assert_eq!((lab.told_text(), lab.told_text()), ("signal 15".into(), "signal 38".into()));
    process::kill(lab.init.id() as i32, 1).expect("init runs");
    assert_eq!(lab.told_text(), "signal 1");
    lab.kill_manager();
    lab.next_manager();
    process::kill(lab.init.id() as i32, 2).expect("init runs");
    lab.hello();
    // The one by which the machine is to end may not have been heeded.
    assert_eq!((lab.told_text(), lab.told_text()), ("signal 2".into(), "signal 38".into()));
    for n in [1, 2] {
        lab.ask(&InitRequest::Ping { n }, &[]);
        assert_eq!(lab.told_text(), format!("pong {n}"));
    }
    lab.kill_manager();
    lab.next_manager();
    process::kill(lab.init.id() as i32, 1).expect("init runs");
    lab.hello();
    assert_eq!(lab.told_text(), "signal 1");
}

/// Sockets of which closing each would take an hour, as long as the listener is there.
fn lingering_sockets(count: usize) -> (std::net::TcpListener, impl Iterator<Item = OwnedFd>) {
    const LINGER: Option<std::time::Duration> = Some(std::time::Duration::from_secs(3600));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = tcp.local_addr().expect("bound");
    let lingering = move |_| {
        let mut stream = std::net::TcpStream::connect(to).expect("it listens");
        rustix::net::sockopt::set_socket_linger(&stream, LINGER).expect("known");
        stream.set_nonblocking(true).expect("it can be set");
        while stream.write(&[0; 1 << 16]).is_ok() {}
        OwnedFd::from(stream)
    };
    (tcp, (0..count).map(lingering))
}

#[test]
fn sockets_that_linger_do_not_hold_init_up_nor_do_those_that_strangers_send() {
    let lab = Lab::start("linger", &["--helpers=1"]);
    lab.hello();
    let (_tcp, mut sockets) = lingering_sockets(43);
    let mut lingering = || sockets.next().expect("there are enough");
    let store = |name: &str, fd: OwnedFd| lab.ask(&InitRequest::StoreFd { name }, &[&fd]);
    let drop_fd = |name: &str| lab.ask(&InitRequest::DropFd { name }, &[]);
    let path = lab.path("stranger");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    store("listener", listener.into());
    // A stranger connects, sends and goes.
    let mut offer = || {
        let stranger = UnixStream::connect(&path).expect("it listens");
        fdpass::send(stranger.as_fd(), b"x", &[lingering().as_fd()]).expect("it is taken");
    };
    offer();
    lab.ask(&InitRequest::Accept { token: 1, listener: "listener", name: "connection" }, &[]);
    assert!(matches!(lab.told(), InitEvent::Accepted(1, Ok(_))));
    offer();
    store("own", lingering());
    // More than there are processes that close something at a time.
    for n in 0..40 {
        store("many", lingering());
        lab.ask(&InitRequest::Ping { n }, &[]);
        assert_eq!(lab.told_text(), format!("pong {n}"));
    }
    ["own", "connection", "listener", "many"].into_iter().for_each(drop_fd);
    lab.ask(&InitRequest::Ping { n: 99 }, &[]);
    assert_eq!(lab.told_text(), "pong 99");
}

/// More sockets than there are processes that close some, and each takes as long as may be, as there is somebody at it who
/// has left a socket that lingers.
#[test]
fn an_address_is_free_when_a_ping_is_answered_after_its_socket_was_dropped() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let lab = Lab::start("addresses", &["--helpers=1"]);
    lab.hello();
    let (_tcp, lingering) = lingering_sockets(40);
    let address = |n: usize| {
        let name = format!("warren-init-{}-{n}", std::process::id());
        SocketAddr::from_abstract_name(name).expect("it is short")
    };
    for (n, lingering) in lingering.into_iter().enumerate() {
        let listener = UnixListener::bind_addr(&address(n)).expect("the name is ours");
        let stranger = UnixStream::connect_addr(&address(n)).expect("it listens");
        fdpass::send(stranger.as_fd(), b"x", &[lingering.as_fd()]).expect("it is taken");
        lab.ask(&InitRequest::StoreFd { name: &n.to_string() }, &[&listener.into()]);
    }
    (0..40).for_each(|n| lab.ask(&InitRequest::DropFd { name: &n.to_string() }, &[]));
    lab.ask(&InitRequest::Ping { n: 1 }, &[]);
    assert_eq!(lab.told_text(), "pong 1");
    for n in 0..40 {
        UnixListener::bind_addr(&address(n)).expect("the address is free");
    }
}

#[test]
fn the_end_comes_with_the_code_asked_for() {
    for (action, code) in [(PowerAction::Exit(42), 42), (PowerAction::PowerOff, 0)] {
        let mut lab = Lab::start("power", &["--helpers=1"]);
        let session = lab.hello();
        lab.ask(&InitRequest::Power(action), &[]);
        assert_eq!(lab.init.wait().expect("init ends").code(), Some(code));
        drop(session);
    }
}

#[test]
fn the_store_is_bounded_and_garbage_refused() {
    let lab = Lab::start("store", &["--helpers=1"]);
    let session = lab.hello();
    let fd = memfd::create("x").expect("memfd");
    let refused = |why: &str, name: &str| format!("refused {why} {name}");
    let long = "n".repeat(STORE_NAME_BYTES_MAX + 1);
    lab.ask(&InitRequest::StoreFd { name: &long }, &[&fd]);
    assert_eq!(lab.told_text(), refused("BadName", &long));
    lab.ask(&InitRequest::StoreFd { name: "a" }, &[]);
    assert_eq!(lab.told_text(), refused("NoFd", "a"));
    lab.ask(&InitRequest::StoreFd { name: "a" }, &[&fd, &fd]);
    assert_eq!(lab.told_text(), refused("NoFd", "a"));
    for garbage in [&b"\xff\xff\xff"[..], &[InitRequest::VERSION, 200], &[0]] {
        lab.ask_raw(garbage, &[&fd]);
        assert_eq!(lab.told_text(), refused("Malformed", ""));
    }
    lab.ask(&InitRequest::Ping { n: 9 }, &[]);
    assert_eq!(lab.told_text(), "pong 9");
    for garbage in [&b"\xff\xff"[..], &[SpawnRequest::VERSION], b"hello"] {
        fdpass::send(session.helpers[0].as_fd(), garbage, &[fd.as_fd()]).expect("sent");
        let heard = session.heard(0);
        assert!(matches!(heard, FromHelper::Reply(HelperReply::Refused { .. })), "{heard:?}");
    }
    let (reply, _) = session.run(script("true", "/dev/null"), &[]);
    assert!(reply.result.is_ok(), "the helper is unharmed");
}

#[test]
fn many_stored_fds_come_in_batches() {
    let lab = Lab::start("batches", &["--helpers=1"]);
    lab.hello();
    let fd = memfd::create("x").expect("memfd");
    let names: Vec<String> = (0..700).map(|n| format!("{}{n:04}", "n".repeat(100))).collect();
    for name in names.iter().rev() {
        lab.ask(&InitRequest::StoreFd { name }, &[&fd]);
    }
    lab.ask(&InitRequest::DropFd { name: &names[0] }, &[]);
    lab.ask(&InitRequest::ListFds, &[]);
    let listed: Vec<String> = lab.stored().into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed, names[1..]);
}

#[test]
fn a_full_ring_loses_no_exit() {
    const RECORDS: u64 = 16;
    let lab = Lab::start("ring", &["--helpers=1", "--ring=16"]);
    let session = lab.hello();
    let mut started = Vec::new();
    for code in 0..40 {
        session.request(0, code, script(&format!("exit {code}"), "/dev/null"), &[]);
        let (reply, fd) = session.spawn_reply(0);
        wait_readable(fd.expect("a process has a pidfd").as_fd());
        started.push((reply.result.expect("it runs").pid, ExitKind::Exited(code as i32)));
    }
    while session.ring.pending() < RECORDS {
        wait_readable(session.wake.as_fd());
        session.wake.clear();
    }
    assert_eq!(session.ring.pending(), RECORDS);
    let zombies = started.iter().filter(|(pid, _)| process::kill(*pid, 0).is_ok()).count();
    assert_eq!(zombies, started.len() - RECORDS as usize, "the rest keep their status");
    let mut ended: Vec<(i32, ExitKind)> = Vec::new();
    while ended.len() < started.len() {
        let exit = session.next_exit().exit;
        ended.push((exit.pid, exit.kind));
    }
    // Which of them init finds first is its own affair.
    ended.sort_unstable_by_key(|(pid, _)| *pid);
    started.sort_unstable_by_key(|(pid, _)| *pid);
    assert_eq!(ended, started);
}

#[test]
fn a_silent_manager_is_killed_and_started_again() {
    let mut lab = Lab::start("heartbeat", &["--helpers=1", "--heartbeat=1"]);
    lab.hello();
    lab.ask(&InitRequest::Ping { n: 1 }, &[]);
    lab.next_manager();
    assert_eq!(lab.hello().welcome.reason, StartReason::Hung);
}

#[test]
fn process_1_of_a_namespace_ends_it_as_asked() {
    for (action, code) in [(PowerAction::Exit(42), Some(42)), (PowerAction::PowerOff, None)] {
        let Some(mut lab) = Lab::start_as_pid_1("pid-1") else { return };
        let session = lab.hello();
        assert_eq!(session.welcome.init_pid, 1);
        session.request(0, 1, script("sleep 1000 & exit 3", "/dev/null"), &[]);
        let (reply, _) = session.spawn_reply(0);
        let pid = reply.result.expect("it runs").pid;
        assert_eq!(session.exit_of(pid).exit.kind, ExitKind::Exited(3));
        lab.ask(&InitRequest::Power(action), &[]);
        let status = lab.init.wait().expect("the namespace ends");
        // reboot(2) ends the namespace by a signal, which unshare(1) passes on in its own way.
        assert_eq!(status.code().filter(|&c| c < 128), code, "{status:?}");
        assert!(!status.success());
    }
}

/// Container managers withhold the right to call reboot(2), and take another status for a failure.
#[test]
fn a_container_that_may_not_reboot_ends_well() {
    for action in [PowerAction::PowerOff, PowerAction::Reboot, PowerAction::Halt] {
        let privileges = ["--bounding-set=-sys_boot"];
        let Some(mut lab) = Lab::start_as_pid_1_by("no-boot", &privileges) else { return };
        lab.hello();
        lab.ask(&InitRequest::Power(action), &[]);
        let status = lab.init.wait().expect("the namespace ends");
        assert_eq!(status.code(), Some(0), "{action:?} {status:?}");
    }
}

/// What an init does whose file was replaced: it executes itself with this argument.
#[test]
fn process_1_that_only_finishes_ends_at_once() {
    let finish = |word: &str| {
        let mut init = std::process::Command::new("unshare");
        init.args(["--pid", "--mount", "--fork", "--kill-child"]);
        init.arg(env!("CARGO_BIN_EXE_warren-init")).arg(format!("--finish={word}"));
        init.arg("--manager=/no/such/manager").output().expect("unshare(1)")
    };
    let output = finish("poweroff");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare failed") {
        return lab::not_run("finish", "unshare(1) and the right to use it");
    }
    // By SIGINT of reboot(2), which unshare(1) passes on in its own way.
    assert!(!output.status.success() && said.is_empty(), "{output:?}");
}

/// The same process, with what it kept, its child and its exit ring, under another manager.
fn starts_over(mut lab: Lab) {
    let session = lab.hello();
    let kept = warren_sys::memfd::sealed("kept", b"kept").expect("memory");
    lab.ask(&InitRequest::StoreFd { name: "kept" }, &[&kept]);
    session.request(0, 1, script("read line; exit 3", "/dev/null"), &[]);
    let (reply, pidfd) = session.spawn_reply(0);
    let pid = reply.result.expect("it runs").pid;
    lab.ask(&InitRequest::Power(PowerAction::SoftReboot), &[]);
    lab.next_manager();
    let again = lab.hello();
    assert_eq!(again.welcome.reason, StartReason::SoftReboot);
    assert_eq!(again.welcome.init_pid, session.welcome.init_pid);
    assert_eq!(again.welcome.instance, session.welcome.instance);
    assert_eq!(again.welcome.incarnation, session.welcome.incarnation + 1);
    let [(name, fd)] = &again.stored[..] else { panic!("one was kept: {:?}", again.stored) };
    let content = warren_sys::memfd::read_all(fd.as_fd(), 100).expect("memory");
    assert_eq!((name.as_str(), &content[..]), ("kept", &b"kept"[..]));
    assert_eq!(again.exit_of(pid).exit.kind, ExitKind::Exited(3));
    drop(pidfd);
    // Its helpers are new, and so is what is asked of them.
    again.request(0, 2, script("exit 4", "/dev/null"), &[]);
    let (reply, _) = again.spawn_reply(0);
    let pid = reply.result.expect("it runs").pid;
    assert_eq!(again.exit_of(pid).exit.kind, ExitKind::Exited(4));
}

#[test]
fn init_starts_over_with_what_it_kept() {
    starts_over(Lab::start("again", &["--helpers=1"]));
}

#[test]
fn process_1_starts_over_with_what_it_kept() {
    let Some(lab) = Lab::start_as_pid_1("again-1") else { return };
    starts_over(lab);
}

#[test]
fn requests_of_a_helper_killed_under_load_are_answered_or_known_to_be_lost() {
    const REQUESTS: u64 = 100;
    let lab = Lab::start("load", &["--helpers=1"]);
    let mut session = lab.hello();
    for id in 0..REQUESTS {
        session.request(0, id, script("exit 0", "/dev/null"), &[]);
    }
    let (first, _) = session.spawn_reply(0);
    assert!(first.result.is_ok());
    process::kill(child_named(lab.init.id(), "warren-exec"), 9).expect("the helper runs");
    // Everything it did answer is there, in order, then the end.
    let mut next = 1;
    while let Some((reply, fd)) = session.spawn_reply_or_end(0) {
        assert_eq!((reply.id, fd.is_some(), reply.result.is_ok()), (next, true, true));
        next += 1;
    }
    assert!(next < REQUESTS, "it was killed before the last");
    session.handed.helpers[0] = lab.new_helper();
    for id in next..REQUESTS {
        session.request(0, id, script("exit 0", "/dev/null"), &[]);
        assert_eq!(session.spawn_reply(0).0.id, id);
    }
}

#[test]
fn an_init_that_never_had_a_manager_can_be_ended() {
    let mut init = std::process::Command::new(env!("CARGO_BIN_EXE_warren-init"))
        .args(["--no-cgroup", "--manager=/no/such/manager"])
        .arg(format!("--exec={}", env!("CARGO_BIN_EXE_warren-exec")))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("init starts");
    let mut said = std::io::BufReader::new(init.stderr.take().expect("it was piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).expect("it complains");
    let expected = "warren-init: manager: execve /no/such/manager: No such file or directory\n";
    assert_eq!(line, expected);
    process::kill(init.id() as i32, 15).expect("it runs");
    assert_eq!(init.wait().expect("it ends").code(), Some(128 + 15));
}

#[test]
fn an_init_whose_manager_never_calls_ends_by_a_usage_error_or_the_first_signal() {
    let start = |script: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_warren-init"))
            .args(["--no-cgroup", "--manager=/bin/sh"])
            .arg(format!("--exec={}", env!("CARGO_BIN_EXE_warren-exec")))
            .args(["--", "-c", script])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("init starts")
    };
    assert_eq!(start("exit 2").wait().expect("it ends").code(), Some(2));
    for (signal, status) in [(2, 128 + 2), (34 + 4, 1)] {
        let mut init = start("exit 1");
        let mut said = std::io::BufReader::new(init.stderr.take().expect("it was piped"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).expect("it tells");
        assert!(line.starts_with("warren-init: manager exited (Exited(1))"), "{line}");
        process::kill(init.id() as i32, signal).expect("it runs");
        assert_eq!(init.wait().expect("it ends").code(), Some(status));
    }
}

#[test]
fn init_takes_connections_into_its_store() {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    let lab = Lab::start("accept", &["--helpers=1"]);
    lab.hello();
    let path = lab.path("listener");
    // It waits, which must not make init wait.
    let listener = OwnedFd::from(UnixListener::bind(&path).expect("bind"));
    lab.ask(&InitRequest::StoreFd { name: "socket/a/0" }, &[&listener]);
    let accept = |token, listener: &str, name: &str| {
        lab.ask(&InitRequest::Accept { token, listener, name }, &[]);
        match lab.told() {
            InitEvent::Accepted(back, answer) if back == token => answer,
            other => panic!("{other:?}"),
        }
    };
    use warren_sys::errno::EAGAIN;
    assert_eq!(accept(1, "socket/a/0", "connection/a/0").expect_err("nobody waits"), EAGAIN);
    assert_eq!(accept(2, "socket/b/0", "x").expect_err("no such socket"), 2);
    let mut client = UnixStream::connect(&path).expect("connect");
    let connection = accept(3, "socket/a/0", "connection/a/0").expect("one waits");
    UnixStream::from(connection).write_all(b"hello").expect("write");
    let mut text = [0; 5];
    client.read_exact(&mut text).expect("the connection is this one");
    let _second = UnixStream::connect(&path).expect("connect");
    assert_eq!(accept(4, "socket/a/0", "").expect_err("no name"), 22);

    lab.ask(&InitRequest::ListFds, &[]);
    let stored: Vec<String> = lab.stored().into_iter().map(|(name, _)| name).collect();
    assert_eq!(stored, ["connection/a/0", "socket/a/0"]);
}
