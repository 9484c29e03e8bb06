//! The daemon by hand, with Debian's senders where they are installed, and killed under load.

mod daemon_lab;
#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;
use reader::journalctl;

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use daemon_lab::{DONE, Lab, PERSISTENT, ask, not_run, numbers, send, shown, start_below_a_root};
use warren_log_store::Entry;
use warren_log_store::files::Disk;
use warren_log_store::query::{Direction, Expr, Journal, Query};

/// What must be taken from the socket by itself stands among what is taken in batches.
#[test]
fn datagrams_of_all_kinds_keep_their_order() {
    let mut lab = Lab::new("order");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let native = lab.native();
    let kinds = "pppppppfplppffppplllpppppfpppppppppppppppppppppppppppppppppppppl";
    let sent: Vec<String> =
        kinds.repeat(20).char_indices().map(|(at, c)| format!("{c}{at}")).collect();
    for message in &sent {
        let room = if message.starts_with('l') { 20_000 } else { 10 };
        let data = format!("MESSAGE={message}\nX={}\n", "x".repeat(room));
        if message.starts_with('f') {
            let file = warren_sys::memfd::sealed("message", data.as_bytes()).expect("a memfd");
            warren_sys::fdpass::send(native.as_fd(), b"", &[file.as_fd()]).expect("sent");
        } else {
            native.send(data.as_bytes()).expect("sent");
        }
    }
    lab.stop();
    let own = lab.read(Expr::field("_PID", std::process::id().to_string()));
    let came: Vec<String> = own.iter().map(|entry| shown(entry, "MESSAGE")).collect();
    assert_eq!(came, sent);
}

/// Nothing else wakes it: what it says by the manager's clock keeps it from being killed.
#[test]
fn a_daemon_that_has_nothing_to_do_says_that_it_is_well() {
    let mut lab = Lab::new("watchdog");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journald"));
    command.arg("--directory").arg(lab.path("store"));
    command.arg("--socket-directory").arg(lab.path("run")).env("WATCHDOG_USEC", "20000");
    let listener = lab.spawn_command(command);
    listener.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("setsockopt");
    let mut said = [0; 64];
    for expected in ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"] {
        let count = listener.recv(&mut said).expect("it says something");
        assert_eq!(&said[..count], expected.as_bytes());
    }
    lab.stop();
}

#[test]
fn every_protocol_arrives_with_its_sender() {
    let mut lab = Lab::new("protocols");
    lab.start(&[]);
    let native = lab.native();
    native.send(b"MESSAGE=native\nPRIORITY=3\nX=1\n\nMESSAGE=second\nX=1\n_PID=1\n").expect("sent");
    native.send(b"not a message").expect("sent");
    native.send(&[0; 100]).expect("sent");
    let big = [b"MESSAGE=".as_slice(), &vec![b'y'; 1 << 20], b"\nX=1\n"].concat();
    let file = warren_sys::memfd::sealed("message", &big).expect("a memfd");
    warren_sys::fdpass::send(native.as_fd(), b"", &[file.as_fd()]).expect("sent");
    let open = std::fs::File::open("/proc/self/status").expect("proc");
    warren_sys::fdpass::send(native.as_fd(), b"", &[open.as_fd()]).expect("sent");
    let syslog = UnixDatagram::unbound().expect("a socket");
    syslog.send_to(b"<30>daemon[7]: by syslog\n", lab.path("run/dev-log")).expect("sent");
    let mut stream = UnixStream::connect(lab.path("run/stdout")).expect("the daemon listens");
    stream
        .write_all(b"ident\nweb.service\n30\n1\n0\n0\n0\n<4>by stream\nunfinished")
        .expect("sent");
    let mut bad = UnixStream::connect(lab.path("run/stdout")).expect("the daemon listens");
    bad.write_all(b"no\nheader\nat all\n").expect("sent");
    lab.stop();

    let own = lab.read(Expr::field("_PID", std::process::id().to_string()));
    let shown: Vec<String> = own
        .iter()
        .map(|e| {
            let text =
                shown(e, "_TRANSPORT PRIORITY X SYSLOG_IDENTIFIER SYSLOG_PID _LINE_BREAK MESSAGE");
            text.chars().take(60).collect()
        })
        .collect();
    let mut expected = vec![
        "journal 3 1 - - - native".to_owned(),
        "journal - 1 - - - second".to_owned(),
        format!("journal - 1 - - - {}", "y".repeat(42)),
        "syslog 6 - daemon 7 - by syslog".to_owned(),
        "stdout 4 - ident - - by stream".to_owned(),
        "stdout 6 - ident - eof unfinished".to_owned(),
    ];
    let mut sorted = shown;
    // Sources are read in turns: order holds within a source only.
    expected.sort();
    sorted.sort();
    assert_eq!(sorted, expected);
    let unit = lab.read(Expr::field("_SYSTEMD_UNIT", "web.service"));
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|stat| {
        use std::os::unix::fs::MetadataExt;
        stat.uid() == 0
    });
    assert_eq!(unit.len(), if is_root { 2 } else { 0 }, "the unit counts from root only");
    for entry in own {
        assert_eq!(entry.get("_UID"), lab.read(Expr::default())[0].get("_UID"));
    }
}

#[test]
fn a_flood_is_cut_and_counted() {
    let mut lab = Lab::new("flood");
    // With a megabyte for the log a burst is what is set, with 16 it is twice that.
    lab.start(&[
        "--set",
        "RateLimitBurst=50",
        "--set",
        "RateLimitIntervalSec=1h",
        "--set",
        "SystemMaxUse=1M",
    ]);
    let native = lab.native();
    for number in 0..500 {
        native.send(format!("MESSAGE={number}\nFLOOD=1\n").as_bytes()).expect("sent");
    }
    let said = || lab.read(Expr::field("_TRANSPORT", "driver"));
    warren_testkit::wait_until("it is said at once", || {
        said().iter().any(|entry| shown(entry, "MESSAGE").starts_with("Too many messages from "))
    });
    lab.stop();
    assert_eq!(lab.read(Expr::field("FLOOD", "1")).len(), 50);
    lab.start(&[
        "--set",
        "RateLimitBurst=50",
        "--set",
        "RateLimitIntervalSec=1h",
        "--set",
        "SystemMaxUse=17M",
    ]);
    let native = lab.native();
    for number in 0..500 {
        native.send(format!("MESSAGE={number}\nFLOOD=2\n").as_bytes()).expect("sent");
    }
    lab.stop();
    assert_eq!(lab.read(Expr::field("FLOOD", "2")).len(), 100);
}

#[test]
fn a_torrent_of_lines_is_kept_whole_and_in_order() {
    const LINES: usize = 400_000;
    let mut lab = Lab::new("torrent");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let mut stream = UnixStream::connect(lab.path("run/stdout")).expect("the daemon listens");
    stream.write_all(b"torrent\n\n6\n0\n0\n0\n0\n").expect("sent");
    let text: String = (0..LINES).map(|number| format!("{number}\n")).collect();
    stream.write_all(text.as_bytes()).expect("sent");
    drop(stream);
    lab.stop();
    let entries = lab.read(Expr::field("SYSLOG_IDENTIFIER", "torrent"));
    assert_eq!(entries.len(), LINES);
    let number = |entry: &Entry| -> usize { shown(entry, "MESSAGE").parse().expect("a number") };
    assert!(entries.iter().map(number).eq(0..LINES));
}

/// A full /run is where standard error is a file on it too: what cannot be said ends nobody.
#[test]
fn a_standard_error_that_takes_nothing_does_not_end_it() {
    let mut lab = Lab::new("full");
    // What it complains of at its start.
    std::fs::write(lab.path("file"), "").expect("room");
    let full = std::fs::File::options().write(true).open("/dev/full").expect("the kernel has it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journald"));
    command.args(["--set", "NoSuch=1", "--set", "SystemKeepFree=0", "--directory"]);
    command.arg(lab.path("store")).arg("--socket-directory").arg(lab.path("run"));
    command.env("NOTIFY_SOCKET", lab.path("file")).stderr(full);
    lab.daemon = Some(command.spawn().expect("the daemon starts"));
    warren_testkit::wait_until("the daemon listens", || {
        assert!(lab.is_alive(), "it goes on");
        lab.path("run/socket").exists()
    });
    while lab.native().send(b"MESSAGE=x\nFULL=1\n").is_err() {
        assert!(lab.is_alive(), "it goes on");
    }
    lab.stop();
    assert_eq!(lab.read(Expr::field("FULL", "1")).len(), 1);
}

/// Records that the kernel's log has now, which must begin with the first one of the boot to be
/// counted; `None` where it may not be read or has lost some.
fn kernel_records() -> Option<usize> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    /// O_NONBLOCK
    const NONBLOCK: i32 = 0o4000;
    let mut options = std::fs::File::options();
    let mut file = options.read(true).custom_flags(NONBLOCK).open("/dev/kmsg").ok()?;
    let (mut room, mut count) = ([0; 8192], 0);
    while file.read(&mut room).is_ok() {
        count += 1;
    }
    Some(count)
}

#[test]
fn the_kernel_s_records_come_once_whatever_the_number_of_daemons() {
    let mut lab = Lab::new("kmsg");
    let Some(before) = kernel_records() else {
        not_run("the_kernel_s_records_come_once: /dev/kmsg may not be read");
        return;
    };
    for _ in 0..3 {
        lab.start(&["--set", "ReadKMsg=yes"]);
        lab.stop();
    }
    let after = kernel_records().expect("it could be read before");
    let entries = lab.read(Expr::field("_TRANSPORT", "kernel"));
    assert!((before..=after).contains(&entries.len()), "{} of {before} to {after}", entries.len());
    let first = entries.first().expect("a kernel has something to say");
    assert!(first.get("_SOURCE_MONOTONIC_TIMESTAMP").is_some());
    assert!(first.get("_PID").is_none() && first.get("_HOSTNAME").is_some());
}

/// As in a container.
#[test]
fn without_the_kernel_s_log_it_is_said_once() {
    let works = Command::new("unshare").args(["--mount", "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        return not_run("mount namespaces cannot be made");
    }
    let mut lab = Lab::new("no-kmsg");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs tmpfs /dev && exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_warren-journald"));
    command.args(["--set", "ReadKMsg=yes", "--set", "SystemKeepFree=0", "--directory"]);
    command.arg(lab.path("store")).arg("--socket-directory").arg(lab.path("run"));
    let listener = lab.spawn_command(command);
    listener.recv(&mut [0; 64]).expect("it says that it is ready");
    lab.stop();
    let own = lab.read(Expr::field("_TRANSPORT", "driver"));
    let said: Vec<String> = own.iter().map(|entry| shown(entry, "MESSAGE")).collect();
    let of_kernel = said.iter().filter(|text| text.contains("/dev/kmsg")).count();
    assert_eq!(of_kernel, 1, "{said:?}");
}

#[test]
fn without_the_right_to_read_audit_records_it_is_said_once() {
    let mut lab = Lab::new("audit");
    // In a user namespace nobody may.
    let script = "exec unshare --user --map-root-user \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_warren-journald")]);
    command.args(["--set", "Audit=yes", "--set", "SystemKeepFree=0", "--directory"]);
    command.arg(lab.path("store")).arg("--socket-directory").arg(lab.path("run"));
    let notify = lab.path("notify");
    let listener = UnixDatagram::bind(&notify).expect("a socket");
    let unshare = Command::new("unshare").args(["--user", "--map-root-user", "true"]).output();
    if !unshare.is_ok_and(|output| output.status.success()) {
        return not_run("user namespaces cannot be made");
    }
    lab.daemon = Some(command.env("NOTIFY_SOCKET", &notify).spawn().expect("sh starts"));
    listener.recv(&mut [0; 64]).expect("it says that it is ready");
    lab.stop();
    let own = lab.read(Expr::field("_TRANSPORT", "driver"));
    let said: Vec<String> = own.iter().map(|entry| shown(entry, "MESSAGE")).collect();
    let of_audit: Vec<&String> = said.iter().filter(|text| text.contains("audit")).collect();
    assert_eq!(of_audit.len(), 1, "{said:?}");
    assert!(of_audit[0].contains("Cannot read audit records"), "{of_audit:?}");
}

#[test]
fn segments_are_proved_by_a_key_that_is_elsewhere() {
    let mut lab = Lab::new("proof");
    std::fs::create_dir(lab.path("store")).expect("a directory");
    let store = lab.path("store");
    let run = |options: &[&str]| {
        let mut command = Command::new(journalctl());
        command.arg("-D").arg(&store).args(options).output().expect("it runs")
    };
    let made = run(&["--setup-keys", "--interval=1s"]);
    let key = String::from_utf8(made.stdout).expect("ASCII").trim().to_owned();
    assert!(!run(&["--setup-keys"]).status.success(), "there is one");
    let ledger = lab.path("store/ledger");
    let lines = || std::fs::read_to_string(&ledger).unwrap_or_default();
    let verify = |key: &str| {
        let output = run(&["--verify", "--verify-key", key]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for round in 1..=5 {
        lab.start(&[]);
        lab.native().send(format!("MESSAGE={round}").as_bytes()).expect("sent");
        lab.stop();
        assert_eq!(lines().matches("have ").count(), round, "nothing is merged");
    }
    let (proved, said) = verify(&key);
    assert!(proved && said.contains("5 segments as they were"), "{said}");
    // Time goes on without messages, and is told.
    lab.start(&[]);
    let marks = lines().matches("mark ").count();
    warren_testkit::wait_until("two more marks", || lines().matches("mark ").count() >= marks + 2);
    lab.stop();
    let (proved, said) = verify(&key);
    assert!(proved, "{said}");
    let other = if key.starts_with('f') { "e" } else { "f" };
    assert!(!verify(&format!("{other}{}", &key[1..])).0, "another key");
    let names = std::fs::read_dir(&store).expect("listed").flatten();
    let mut paths = names.map(|entry| entry.path());
    let segment = paths.find(|path| path.extension().is_some_and(|e| e == "seg"));
    let segment = segment.expect("a segment");
    let mut bytes = std::fs::read(&segment).expect("readable");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&segment, bytes).expect("writable");
    let (proved, said) = verify(&key);
    assert!(!proved && said.contains("changed since it was recorded"), "{said}");
}

#[test]
fn a_second_daemon_is_refused() {
    let mut lab = Lab::new("second");
    lab.start(&[]);
    let second = Command::new(env!("CARGO_BIN_EXE_warren-journald"))
        .arg("--directory")
        .arg(lab.path("store"))
        .arg("--socket-directory")
        .arg(lab.path("other"))
        .output()
        .expect("it runs");
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("another process is writing to it"));
    lab.stop();
}

/// Waits until an entry can be read, without sleeping; each look reads the store anew.
fn wait_for(lab: &Lab, number: usize) {
    let expr = || Expr::field("NUMBER", number.to_string());
    warren_testkit::wait_until("the entry can be read", || !lab.read(expr()).is_empty());
}

#[test]
fn killed_under_load_nothing_that_was_written_is_lost_or_doubled() {
    const ROUNDS: usize = 8;
    const PER_ROUND: usize = 400;
    let mut lab = Lab::new("kill");
    for round in 0..ROUNDS {
        lab.start(&["--set", "RateLimitBurst=0"]);
        let native = lab.native();
        for at in 0..PER_ROUND {
            let number = round * PER_ROUND + at;
            // The barrier has a priority that is synced at once.
            let priority = if at == PER_ROUND / 2 { 2 } else { 6 };
            let text = format!("MESSAGE=text {number}\nNUMBER={number}\nPRIORITY={priority}\n");
            native.send(text.as_bytes()).expect("sent");
            if at == PER_ROUND / 2 {
                wait_for(&lab, number);
            }
            if at == PER_ROUND / 2 + round * 20 {
                break;
            }
        }
        lab.kill();
    }
    lab.start(&[]);
    lab.stop();
    let entries = lab.read(Expr::field("_TRANSPORT", "journal"));
    let number = |entry: &Entry| -> usize { shown(entry, "NUMBER").parse().expect("a number") };
    let numbers: Vec<usize> = entries.iter().map(number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "in order, none twice");
    for round in 0..ROUNDS {
        let begin = round * PER_ROUND;
        let found = numbers.iter().filter(|n| (begin..=begin + PER_ROUND / 2).contains(n)).count();
        assert_eq!(found, PER_ROUND / 2 + 1, "round {round}: all up to the barrier");
    }
}

#[test]
fn senders_of_debian() {
    let mut lab = Lab::new("debian");
    lab.start(&[]);
    let logger = Command::new("logger")
        .args(["-t", "tag", "-p", "daemon.warning", "-u"])
        .arg(lab.path("run/dev-log"))
        .arg("by logger")
        .status();
    let namespaced = in_namespace(&lab.path("run"), "systemd-cat -t cat -p err echo by cat");
    lab.stop();
    match logger {
        Ok(status) if status.success() => {
            let found = lab.read(Expr::field("SYSLOG_IDENTIFIER", "tag"));
            assert_eq!(shown(&found[0], "PRIORITY SYSLOG_FACILITY MESSAGE"), "4 3 by logger");
        }
        _ => not_run("logger(1) is not installed"),
    }
    if namespaced {
        let found = lab.read(Expr::field("SYSLOG_IDENTIFIER", "cat"));
        assert_eq!(shown(&found[0], "_TRANSPORT PRIORITY MESSAGE"), "stdout 3 by cat");
    } else {
        not_run("systemd-cat needs root, a mount namespace and /run/systemd/journal");
    }
}

/// Runs a command with our sockets where the system's would be, seen by that command only.
fn in_namespace(sockets: &Path, command: &str) -> bool {
    let script = format!(
        "mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/systemd/journal && \
         mount --bind {} /run/systemd/journal && {command}",
        sockets.display()
    );
    let run =
        Command::new("unshare").args(["-m", "sh", "-c", &script]).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

#[test]
fn settings_have_their_effect_and_faults_are_said() {
    let mut lab = Lab::new("settings");
    let conf = lab.path("etc/warren");
    std::fs::create_dir_all(&conf).expect("a directory");
    let text = "[Journal]\nStorage=persistent\nMaxLevelStore=notice\nForwardToSyslog=yes\nBogus=1\n\
                MaxLevelSyslog=info\n";
    std::fs::write(conf.join("journald.conf"), text).expect("a file");
    std::fs::create_dir_all(lab.path("run")).expect("a directory");
    let syslog = UnixDatagram::bind(lab.path("run/syslog")).expect("a socket");
    start_below_a_root(&mut lab, &[]);
    let native = lab.native();
    for level in [3, 5, 6, 7] {
        let text =
            format!("MESSAGE=level {level}\nPRIORITY={level}\nSYSLOG_IDENTIFIER=me\nN={level}\n");
        native.send(text.as_bytes()).expect("sent");
    }
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    lab.stop();
    assert_eq!(numbers(&lab, PERSISTENT), [3, 5]);
    let mut forwarded = Vec::new();
    for _ in 0..3 {
        let mut room = [0; 1024];
        let count = syslog.recv(&mut room).expect("it was forwarded");
        let line = String::from_utf8_lossy(&room[..count]).into_owned();
        forwarded.push(format!("{} {}", &line[..4], line.rsplit("]: ").next().unwrap_or("")));
    }
    assert_eq!(forwarded, ["<11> level 3", "<13> level 5", "<14> level 6"]);
    let journal = Journal::open(Arc::new(Disk::new(lab.path(PERSISTENT)))).expect("readable");
    let query = Query::default();
    let entries = journal.entries(&query, Direction::Forward, None);
    let texts: Vec<String> =
        entries.map(|entry| shown(&entry.expect("no read fails"), "MESSAGE")).collect();
    let expected = format!("{}:5: unknown setting Bogus=", conf.join("journald.conf").display());
    assert!(texts.contains(&expected), "{texts:?}");
}

/// A syslog daemon knows more forms of lines than this one, and whom the kernel names as their sender.
#[test]
fn a_syslog_daemon_gets_lines_as_they_came_from_who_sent_them() {
    let mut lab = Lab::new("to-syslog");
    std::fs::create_dir_all(lab.path("run")).expect("a directory");
    let syslog = UnixDatagram::bind(lab.path("run/syslog")).expect("a socket");
    warren_sys::fdpass::pass_credentials(syslog.as_fd()).expect("allowed");
    lab.start(&["--set", "ForwardToSyslog=yes"]);
    let lines = [
        "<29>Jan  1 00:00:00 raw[5]: text  ",
        "<13>1 2023-01-01T00:00:00Z host app 12 ID [a b=\"c\"] RFC 5424",
        "  bare",
        "<13>with\0zero",
    ];
    let client = UnixDatagram::unbound().expect("a socket");
    for line in lines {
        client.send_to(line.as_bytes(), lab.path("run/dev-log")).expect("sent");
    }
    lab.stop();
    let mut room = [0; 1024];
    let mut next = || {
        let got = warren_sys::fdpass::recv(syslog.as_fd(), &mut room, &mut Vec::new(), true);
        let got = got.expect("it was forwarded");
        let line = String::from_utf8_lossy(&room[..got.bytes]).into_owned();
        (line, got.credentials.map(|sender| sender.pid))
    };
    let got: Vec<(String, Option<i32>)> = lines.iter().map(|_| next()).collect();
    let texts: Vec<&str> = got.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(texts, lines);
    let own = Some(std::process::id() as i32);
    match warren_sys::process::own_ids().0 {
        0 => assert!(got.iter().all(|(_, pid)| *pid == own), "{got:?}"),
        _ => not_run("needs root to send in another's name"),
    }
}

/// One that does not read for a while loses what its socket has no room for, and the log says so.
#[test]
fn what_a_syslog_daemon_has_no_room_for_is_said() {
    const SENT: usize = 5000;
    let mut lab = Lab::new("to-slow-syslog");
    std::fs::create_dir_all(lab.path("run")).expect("a directory");
    let syslog = UnixDatagram::bind(lab.path("run/syslog")).expect("a socket");
    lab.start(&["--set", "ForwardToSyslog=yes", "--set", "RateLimitBurst=0"]);
    let client = UnixDatagram::unbound().expect("a socket");
    for number in 0..SENT {
        let line = format!("<13>test: {number}");
        client.send_to(line.as_bytes(), lab.path("run/dev-log")).expect("sent");
    }
    lab.stop();
    syslog.set_nonblocking(true).expect("a socket");
    let got = (0..SENT).take_while(|_| syslog.recv(&mut [0; 64]).is_ok()).count();
    let told = lab.read(Expr::field("_TRANSPORT", "driver"));
    let told: Vec<String> = told.iter().map(|entry| shown(entry, "MESSAGE")).collect();
    let more = format!("{} more from processes of no unit: messages for syslog", SENT - got - 1);
    assert!(got < SENT, "its queue is bounded");
    assert!(told.contains(&"Could not forward a message to syslog".to_owned()), "{told:?}");
    assert!(told.contains(&more), "{got} came: {told:?}");
}

#[test]
fn who_follows_sees_each_line_once_when_messages_go_to_the_disk() {
    use std::io::{BufRead, BufReader};
    let mut lab = Lab::new("follow-flush");
    start_below_a_root(&mut lab, &["Storage=persistent"]);
    send(&lab, 0..5);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    let mut reader = Command::new(journalctl())
        .arg("--root")
        .arg(&lab.root)
        .args(["-f", "-n", "all", "-o", "cat", "--output-fields=N"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the reader starts");
    let mut lines = BufReader::new(reader.stdout.take().expect("a pipe")).lines();
    // A line that does not come is a missing one, not a test without an end.
    let (sender, inbox) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let numbers = lines.by_ref().map_while(Result::ok).filter_map(|line| line.parse().ok());
        numbers.into_iter().try_for_each(|number: u32| sender.send(number))
    });
    let next = |count: usize| -> Vec<u32> {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
        (0..count).map_while(|_| inbox.recv_timeout(PATIENCE).ok()).collect()
    };
    assert_eq!(next(5), [0, 1, 2, 3, 4]);
    send(&lab, 5..8);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    send(&lab, 8..10);
    assert_eq!(ask(&lab, "RelinquishVar").ok().as_deref(), Some(DONE));
    send(&lab, 10..12);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    send(&lab, 12..14);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    assert_eq!(next(9), [5, 6, 7, 8, 9, 10, 11, 12, 13]);
    reader.kill().expect("our child");
    reader.wait().expect("our child");
}

/// However much there was, and on connections that the daemon had not seen yet.
#[test]
fn an_order_comes_after_what_was_sent_before_it() {
    use std::io::Read;
    const STREAMS: usize = 300;
    let mut lab = Lab::new("before");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let pid = lab.daemon.as_ref().expect("it runs").id().to_string();
    let signal = |name: &str| Command::new("kill").args([name, &pid]).status().expect("kill(1)");
    assert!(signal("-STOP").success());
    let connect = |name| UnixStream::connect(lab.path(name)).expect("the daemon listens");
    let mut order = connect("run/io.warrener.journal");
    let question = "{\"method\":\"io.warrener.Journal.Write\",\"parameters\":{}}\0";
    let lines: String = "a line of many\n".repeat(100);
    let text = format!("before\n\n6\n0\n0\n0\n0\n{lines}");
    let mut streams: Vec<UnixStream> = (0..STREAMS).map(|_| connect("run/stdout")).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(text.as_bytes()).expect("sent"));
    order.write_all(question.as_bytes()).expect("sent");
    assert!(signal("-CONT").success());
    let mut answer = String::new();
    order.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, DONE);
    let there = lab.read(Expr::field("SYSLOG_IDENTIFIER", "before")).len();
    assert_eq!(there, 100 * STREAMS);
    drop(streams);
}
