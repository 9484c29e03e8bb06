//! Clients that mean no good: the daemon stays, keeps its bounds, and hears the others.

mod daemon_lab;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use daemon_lab::{Lab, not_run, shown};
use warren_log_store::query::Expr;
use warren_sys::{fdpass, memfd};

const HEADER: &[u8] = b"hostile\n\n6\n0\n0\n0\n0\n";

fn stream(lab: &Lab, text: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(lab.path("run/stdout")).expect("the daemon listens");
    // One that is refused is closed while it writes.
    let _ = stream.write_all(text);
    stream
}

/// Set when it goes, so that a test that fails ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends a message that is not hostile, and ends the daemon in order: it must be there.
fn assert_is_heard(lab: &mut Lab) {
    lab.native().send(b"MESSAGE=heard\nAFTER=1\n").expect("the daemon is there");
    lab.stop();
    assert_eq!(lab.read(Expr::field("AFTER", "1")).len(), 1);
}

#[test]
fn files_that_are_no_messages_are_refused() {
    let mut lab = Lab::new("hostile-files");
    lab.start(&[]);
    let native = lab.native();
    let send = |fd: &dyn AsFd| fdpass::send(native.as_fd(), b"", &[fd.as_fd()]).expect("sent");
    let (read, _write) = std::io::pipe().expect("a pipe");
    send(&read);
    for path in ["/", "/dev/zero", "/dev/null", "/proc/self/maps"] {
        send(&File::open(path).expect("it is there"));
    }
    // More than any message may have: no room is made for it.
    send(&memfd::fixed_size("big", 1 << 30).expect("a memfd"));
    let good = memfd::sealed("good", b"MESSAGE=mixed\nHOSTILE=1\n").expect("a memfd");
    fdpass::send(native.as_fd(), b"MESSAGE=mixed\nHOSTILE=1\n", &[good.as_fd()]).expect("sent");
    fdpass::send(native.as_fd(), b"", &[good.as_fd(), good.as_fd()]).expect("sent");
    assert_is_heard(&mut lab);
    assert_eq!(lab.read(Expr::field("HOSTILE", "1")).len(), 0, "neither mixed nor two");
    let told = told(&lab);
    let count = |what: &str| told.iter().filter(|text| text.contains(what)).count();
    assert_eq!(count("Lost a message sent as a file"), 1, "{told:?}");
    assert_eq!(count("5 more from "), 1, "each is counted: {told:?}");
    assert_eq!(count("Lost a datagram: it carried file descriptors"), 1, "{told:?}");
}

/// What the daemon says itself.
fn told(lab: &Lab) -> Vec<String> {
    let told = lab.read(Expr::field("_TRANSPORT", "driver"));
    told.iter().map(|entry| shown(entry, "MESSAGE")).collect()
}

/// Whatever is left out or cut is said once, with who sent it, and how much more there was.
#[test]
fn nothing_is_lost_without_a_word() {
    let mut lab = Lab::new("hostile-silent");
    lab.start(&[]);
    let native = lab.native();
    let file = |content: &[u8]| {
        let file = memfd::sealed("message", content).expect("a memfd");
        fdpass::send(native.as_fd(), b"", &[file.as_fd()]).expect("sent");
    };
    // One field is too large, the others are there.
    file(&[b"MESSAGE=kept\nBIG=", &*vec![b'x'; 33 << 20], b"\nLATER=1\n"].concat());
    file(b"MESSAGE=cut\nLATER=1\nBLOB\n\xff\0\0\0\0\0\0\0short");
    native.send(&[b"MESSAGE=many\nLATER=1\n", &*b"X=1\n".repeat(1030)].concat()).expect("sent");
    native.send(b"MESSAGE=names\nLATER=1\nlower=1\n_PID=1\n_UID=1\n").expect("sent");
    native.send(b"no message").expect("sent");
    drop(stream(&lab, b"no\nheader\nat all\n"));
    drop(stream(&lab, b"half\na\nheader"));
    lab.stop();
    let kept = lab.read(Expr::field("LATER", "1"));
    let kept: Vec<String> = kept.iter().map(|entry| shown(entry, "MESSAGE")).collect();
    assert_eq!(kept, ["kept", "cut", "many", "names"]);
    let told = told(&lab);
    let check = |text: &str| assert!(told.iter().any(|t| t.contains(text)), "{text}: {told:#?}");
    check("Dropped a field: the entry is too large: BIG, 34603008 bytes (");
    check("Lost the rest of a message: its framing is broken: ");
    check(&format!(", process {})", std::process::id()));
    check("1 more from ");
    check("messages with broken framing");
    check("Dropped a field: the entry has too many: X (");
    check("fields beyond the number allowed");
    check("Dropped a field that clients may not set: \"_PID\" (");
    check("fields that clients may not set");
    check("Closed a log stream: its header is invalid (");
    check("log streams without a valid header");
    let about = lab.read(Expr::field("OBJECT_PID", std::process::id().to_string()));
    assert!(about.len() >= 5, "readers find them: {}", about.len());
}

/// A unit that floods and then says nothing: how much was left out is said all the same.
#[test]
fn what_a_rate_limit_left_out_is_said_when_nothing_comes_after_it() {
    let mut lab = Lab::new("hostile-flood");
    lab.start(&[
        "--set",
        "RateLimitBurst=5",
        "--set",
        "RateLimitIntervalSec=200ms",
        "--set",
        "SystemMaxUse=1M",
    ]);
    let flood = |lab: &Lab| {
        let native = lab.native();
        (0..50).for_each(|_| _ = native.send(b"MESSAGE=flood\nFLOOD=1\n").expect("sent"));
    };
    let dropped = |lab: &Lab| -> usize {
        let said = lab.read(Expr::field("MESSAGE_ID", "a596d6fe7bfa4994828e72309e95d61e"));
        let count = |entry| shown(entry, "N_DROPPED").parse::<usize>().expect("a number");
        said.iter().map(count).sum()
    };
    let kept = |lab: &Lab| lab.read(Expr::field("FLOOD", "1")).len();
    flood(&lab);
    warren_testkit::wait_until("the flood is kept or counted", || kept(&lab) + dropped(&lab) >= 50);
    // The same at the daemon's end, before the interval is over.
    lab.stop();
    lab.start(&[
        "--set",
        "RateLimitBurst=5",
        "--set",
        "RateLimitIntervalSec=1h",
        "--set",
        "SystemMaxUse=1M",
    ]);
    let before = kept(&lab);
    flood(&lab);
    lab.stop();
    assert_eq!((kept(&lab), kept(&lab) + dropped(&lab)), (before + 5, 100));
}

#[test]
fn a_file_may_shrink_and_grow_while_it_is_read() {
    const SENT: usize = 200;
    const BYTES: u64 = 4 << 20;
    let mut lab = Lab::new("hostile-shrink");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let file = File::from(memfd::create("shrinks").expect("a memfd"));
    let (native, over) = (lab.native(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                file.set_len(BYTES).and_then(|()| file.set_len(0)).expect("a memfd");
            }
        });
        let _ends = Ends(&over);
        for _ in 0..SENT {
            fdpass::send(native.as_fd(), b"", &[file.as_fd()]).expect("sent");
        }
        assert_is_heard(&mut lab);
    });
}

#[test]
fn streams_that_say_nonsense_end_alone() {
    const LINE_BYTES: usize = 1 << 20;
    let mut lab = Lab::new("hostile-streams");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let endless = stream(&lab, &[HEADER, &vec![b'L'; LINE_BYTES]].concat());
    let mut kept: Vec<UnixStream> = (0..300).map(|_| stream(&lab, b"begun\n")).collect();
    kept.extend((0..20).map(|_| stream(&lab, &[b'h'; 1 << 16])));
    kept.extend((0..20).map(|_| stream(&lab, &[0; 4096])));
    kept.extend((0..20).map(|_| stream(&lab, b"a\nb\n1000\n0\n0\n0\n0\ntext\n")));
    drop(endless);
    assert_is_heard(&mut lab);
    let lines = lab.read(Expr::field("_TRANSPORT", "stdout"));
    let of_endless = lines.iter().filter(|line| shown(line, "SYSLOG_IDENTIFIER") == "hostile");
    let lengths: Vec<usize> = of_endless.map(|l| l.get("MESSAGE").map_or(0, <[u8]>::len)).collect();
    assert_eq!(lengths.iter().sum::<usize>(), LINE_BYTES, "split, and nothing of it lost");
    assert!(lengths.iter().all(|length| *length <= 48 << 10), "{lengths:?}");
    assert_eq!(lines.len(), lengths.len(), "no line of the others");
}

/// Who writes without a pause takes turns with everybody else.
#[test]
fn a_torrent_keeps_nobody_waiting_for_its_end() {
    /// More than any machine logs while one message comes through.
    const LINES_MAX: usize = 20_000_000;
    let mut lab = Lab::new("hostile-torrent");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let heard = AtomicBool::new(false);
    let lines: String = "a line of the torrent\n".repeat(1000);
    std::thread::scope(|scope| {
        let torrent = scope.spawn(|| {
            let mut stream = stream(&lab, HEADER);
            for _ in 0..LINES_MAX / 1000 {
                if heard.load(Ordering::Relaxed) {
                    return true;
                }
                stream.write_all(lines.as_bytes()).expect("the daemon takes it");
            }
            false
        });
        let ends = Ends(&heard);
        lab.native().send(b"MESSAGE=quiet\nQUIET=1\n").expect("sent");
        let other = stream(&lab, b"quiet\n\n6\n0\n0\n0\n0\nquiet\n");
        let missing = |name, value| lab.read(Expr::field(name, value)).is_empty();
        warren_testkit::wait_until("both others are heard, or the torrent ends", || {
            torrent.is_finished()
                || !(missing("QUIET", "1") || missing("SYSLOG_IDENTIFIER", "quiet"))
        });
        drop((ends, other));
        assert!(torrent.join().expect("no panic"), "they were heard before its end");
    });
    assert_is_heard(&mut lab);
}

/// Whether the daemon has not closed it yet.
fn is_open(stream: &UnixStream) -> bool {
    use std::io::{ErrorKind, Read};
    stream.set_nonblocking(true).expect("a socket");
    let mut stream = stream;
    stream.read(&mut [0; 1]).is_err_and(|e| e.kind() == ErrorKind::WouldBlock)
}

/// What has a shell run a program that may open no more files, where not even root can raise that.
fn limited(descriptors: usize) -> String {
    format!("ulimit -n {descriptors} && exec setpriv --bounding-set=-sys_resource \"$@\"")
}

/// As many streams as there is room for and more; the store and everybody else go on. In the long form
/// the daemon has as many descriptors as its unit gives it, and the bound is 65,536.
#[test]
fn one_stream_too_many_is_closed_at_once() {
    use std::io::Read;
    use std::process::Command;
    const DESCRIPTORS: usize = 200;
    let long = std::env::var("WARREN_STREAM_DESCRIPTORS");
    let descriptors = long.map_or(DESCRIPTORS, |text| text.parse().expect("a number"));
    // A part of the descriptors is kept for files and senders, and half of the rest is the manager's.
    let room = ((descriptors - 512.min(descriptors / 2) - descriptors / 64) / 2).min(65_536);
    let own = (4 * room as u64).max(4096);
    warren_sys::process::raise_open_files(own).expect("the limit of this process");
    let mut lab = Lab::new("hostile-many");
    let script = limited(descriptors);
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_warren-journald")]);
    command.args(["--set", "SystemKeepFree=0", "--set", "RateLimitBurst=0", "--directory"]);
    command.arg(lab.path("store")).arg("--socket-directory").arg(lab.path("run"));
    let ready = lab.spawn_command(command);
    ready.recv(&mut [0; 64]).expect("it says that it is ready");
    let text = [HEADER, b"a line\n"].concat();
    let mut kept: Vec<UnixStream> = (0..room).map(|_| stream(&lab, &text)).collect();
    for _ in 0..400 {
        let end = stream(&lab, &text).read(&mut [0; 1]);
        assert!(matches!(end, Ok(0) | Err(_)), "closed, and nobody is kept waiting");
    }
    let count = |lab: &Lab| lab.read(Expr::field("SYSLOG_IDENTIFIER", "hostile")).len();
    warren_testkit::wait_until("the lines of all streams", || count(&lab) >= room);
    // Each that goes makes room for another one.
    kept.drain(..room / 2);
    lab.native().send(b"MESSAGE=between\n").expect("the daemon is there");
    let wanted = room + room / 2;
    loop {
        let missing = wanted.saturating_sub(count(&lab));
        if missing == 0 {
            break;
        }
        // Those that come before the daemon saw the others go are refused, when it gets to them.
        kept.retain(is_open);
        let more = missing.min(room.saturating_sub(kept.len()));
        kept.extend((0..more).map(|_| stream(&lab, &text)));
    }
    assert_eq!(count(&lab), wanted, "none is taken beyond the bound");
    assert_is_heard(&mut lab);
    let told = lab.read(Expr::field("_TRANSPORT", "driver"));
    let told = told.iter().map(|entry| shown(entry, "MESSAGE"));
    let told: Vec<String> =
        told.filter(|text| text.starts_with("Refusing new log streams")).collect();
    assert!(!told.is_empty() && told.len() <= 2 + wanted / room, "when it begins: {told:?}");
    assert_eq!(told[0], format!("Refusing new log streams: {room} are open"));
}

/// What one user has is a quarter of the room for clients, which is half of that of all streams; all users but root have
/// three quarters.
#[test]
fn users_leave_streams_to_others_and_to_root() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    const DESCRIPTORS: usize = 200;
    const ROOM: usize = (DESCRIPTORS - DESCRIPTORS / 2 - DESCRIPTORS / 64) / 2 / 4;
    const USERS: [u32; 4] = [65_534, 65_533, 65_532, 65_531];
    const SCRIPT: &str = "import socket, sys\nkept = []\nfor _ in range(30):\n    s = socket.socket(socket.AF_UNIX)\n    \
        s.connect(sys.argv[1])\n    kept.append(s)\n    try: s.sendall(b'greedy\\n\\n6\\n0\\n0\\n0\\n0\\nline\\n')\n    \
        except OSError: pass\nprint(flush=True)\nsys.stdin.read()";
    let mut lab = Lab::new("hostile-user");
    let mut command = Command::new("sh");
    let script = limited(DESCRIPTORS);
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_warren-journald")]);
    command.args(["--set", "SystemKeepFree=0", "--directory"]).arg(lab.path("store"));
    command.arg("--socket-directory").arg(lab.path("run"));
    lab.spawn_command(command).recv(&mut [0; 64]).expect("it says that it is ready");
    let count = |lab: &Lab| lab.read(Expr::field("SYSLOG_IDENTIFIER", "greedy")).len();
    let mut greedy = Vec::new();
    for (at, user) in USERS.into_iter().enumerate() {
        let mut setpriv = Command::new("setpriv");
        setpriv.env("PATH", "/usr/bin:/bin").args(["--reuid", &user.to_string()]);
        setpriv.args(["--clear-groups", "python3", "-c", SCRIPT]).arg(lab.path("run/stdout"));
        setpriv.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut one) = setpriv.spawn() else { return not_run("needs setpriv(1)") };
        if one.stdout.as_mut().expect("piped").read(&mut [0; 1]).expect("a pipe") == 0 {
            let _ = one.wait();
            return not_run("needs root and python3");
        }
        greedy.push(one);
        let wanted = ROOM * (at + 1).min(3);
        warren_testkit::wait_until("the lines of the greedy user", || count(&lab) >= wanted);
        if at == 0 {
            let refused = format!("user 65534 has {ROOM} open, the most allowed");
            warren_testkit::wait_until("it is told", || {
                told(&lab).iter().any(|text| text.contains(&refused))
            });
        }
    }
    let other = stream(&lab, b"other\n\n6\n0\n0\n0\n0\nline\n");
    lab.stop();
    drop(other);
    for mut one in greedy {
        drop(one.stdin.take());
        one.wait().expect("our child");
    }
    assert_eq!(count(&lab), 3 * ROOM);
    assert_eq!(lab.read(Expr::field("SYSLOG_IDENTIFIER", "other")).len(), 1);
}

/// What many lines that have not ended took is given back when their streams are gone.
#[test]
fn memory_of_lines_that_did_not_end_is_given_back() {
    const STREAMS: usize = 200;
    const BYTES: u64 = 48_000 * STREAMS as u64;
    let mut lab = Lab::new("hostile-given-back");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let pid = lab.daemon.as_ref().expect("it runs").id();
    let held = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("a number") << 10
    };
    let before = held();
    let text = [HEADER, &vec![b'a'; 48_000]].concat();
    let streams: Vec<UnixStream> = (0..STREAMS).map(|_| stream(&lab, &text)).collect();
    warren_testkit::wait_until("all is read", || held() > before + BYTES / 2);
    drop(streams);
    warren_testkit::wait_until("it is given back", || held() < before + BYTES / 2);
}

/// Lines that never end are cut when a user has 8 MiB of them: no byte is lost, and no more is held.
#[test]
fn lines_of_one_user_that_never_end_have_a_bound() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    const HELD_BYTES_MAX: usize = 8 << 20;
    const STREAMS: usize = 400;
    const BYTES: usize = 40_000;
    const SCRIPT: &str = "import socket, sys\nkept = []\nfor _ in range(int(sys.argv[2])):\n    \
        s = socket.socket(socket.AF_UNIX)\n    s.connect(sys.argv[1])\n    kept.append(s)\n    \
        s.sendall(b'endless\\n\\n6\\n0\\n0\\n0\\n0\\n' + b'x' * int(sys.argv[3]))\n\
        print(flush=True)\nsys.stdin.read()";
    warren_sys::process::raise_open_files(8192).expect("the limit of this process");
    let mut lab = Lab::new("hostile-endless");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let user = ["--reuid", "65534", "--clear-groups", "python3", "-c", SCRIPT];
    let mut setpriv = Command::new("setpriv");
    setpriv.env("PATH", "/usr/bin:/bin").args(user).arg(lab.path("run/stdout"));
    setpriv.args([STREAMS, BYTES].map(|number| number.to_string()));
    let Ok(mut endless) = setpriv.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        return not_run("needs setpriv(1)");
    };
    if endless.stdout.as_mut().expect("piped").read(&mut [0; 1]).expect("a pipe") == 0 {
        endless.wait().expect("our child");
        return not_run("needs root and python3");
    }
    let bytes = |lab: &Lab| -> usize {
        let lines = lab.read(Expr::field("SYSLOG_IDENTIFIER", "endless"));
        lines.iter().map(|line| line.get("MESSAGE").map_or(0, <[u8]>::len)).sum()
    };
    warren_testkit::wait_until("all but what may be held is in the log", || {
        bytes(&lab) >= STREAMS * BYTES - HELD_BYTES_MAX
    });
    let cut = lab.read(Expr::field("_LINE_BREAK", "line-max"));
    assert!(!cut.is_empty() && cut.len() < STREAMS, "those that were there first are whole");
    drop(endless.stdin.take());
    endless.wait().expect("our child");
    assert_is_heard(&mut lab);
    assert_eq!(bytes(&lab), STREAMS * BYTES);
    assert!(told(&lab).iter().any(|text| text.starts_with("Cut a line")), "{:?}", told(&lab));
}

/// How many sources the daemon waits for, streams among them; proc_pid_fdinfo(5).
fn watched(lab: &Lab) -> usize {
    let pid = lab.daemon.as_ref().expect("it runs").id();
    let listing = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("its descriptors");
    let texts = listing.flatten().filter_map(|fd| std::fs::read_to_string(fd.path()).ok());
    texts.map(|text| text.matches("tfd:").count()).sum()
}

fn limit_descriptors(lab: &Lab, soft: usize) {
    let pid = lab.daemon.as_ref().expect("it runs").id().to_string();
    let set = std::process::Command::new("prlimit")
        .args(["--pid", &pid, &format!("--nofile={soft}:")])
        .status();
    assert!(set.expect("prlimit(1)").success());
}

/// Without descriptors nobody is taken and the loop sleeps; what is there goes on; and when there are
/// some again, who waited is taken.
#[test]
fn connections_wait_while_there_are_no_descriptors() {
    /// Looks, far more than the daemon needs for a turn.
    const LOOKS_MAX: usize = 100_000;
    /// The sockets of streams, of our questions and of systemd's.
    const LISTENERS: usize = 3;
    let mut lab = Lab::new("hostile-shortage");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let count = |lab: &Lab| lab.read(Expr::field("SYSLOG_IDENTIFIER", "hostile")).len();
    let mut early = stream(&lab, &[HEADER, b"early\n"].concat());
    warren_testkit::wait_until("the early line", || count(&lab) >= 1);
    let before = watched(&lab);
    limit_descriptors(&lab, 3);
    let text = [HEADER, b"late\n"].concat();
    let waiting: Vec<UnixStream> = (0..5).map(|_| stream(&lab, &text)).collect();
    let is_resting = (0..LOOKS_MAX).any(|_| watched(&lab) == before - LISTENERS);
    assert!(is_resting, "{} of {before} sources are watched", watched(&lab));
    early.write_all(b"meanwhile\n").expect("it is read");
    lab.native().send(b"MESSAGE=meanwhile\nMEANWHILE=1\n").expect("the daemon is there");
    warren_testkit::wait_until("what is sent meanwhile", || {
        count(&lab) >= 2 && !lab.read(Expr::field("MEANWHILE", "1")).is_empty()
    });
    assert_eq!(count(&lab), 2, "nobody is taken");
    limit_descriptors(&lab, 1024);
    warren_testkit::wait_until("the lines of those that waited", || {
        count(&lab) >= 2 + waiting.len()
    });
    assert_eq!(watched(&lab), before + waiting.len());
    assert_is_heard(&mut lab);
    let told = lab.read(Expr::field("_TRANSPORT", "driver"));
    let told = told
        .iter()
        .filter(|entry| shown(entry, "MESSAGE").starts_with("Cannot accept connections for now"));
    assert_eq!(told.count(), 1, "told once");
}

/// A message waits, its sender ends, and another process gets that one's id: what /proc says of it is not
/// said of the message. The same if the sender is known, and the other one says something at once.
#[test]
fn the_heir_of_a_process_id_is_not_the_sender() {
    /// What the script ends with then.
    const NOT_POSSIBLE: i32 = 77;
    let lab = Lab::new("hostile-heir");
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reuse.py");
    let inside = |words: &[&std::ffi::OsStr]| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "-p", "-f", "--mount-proc", "--propagation", "private", "python3"]);
        let status = command.args(words).stdout(std::process::Stdio::null()).status();
        status.ok().and_then(|status| status.code())
    };
    let own = warren_sys::process::pidfd_open(std::process::id() as i32).expect("own pidfd");
    if warren_sys::process::pidfd_inode(own.as_fd()).is_none() {
        return not_run("needs pidfds with inodes of their own (Linux 6.9)");
    }
    let is_possible = inside(&["--version".as_ref()]) == Some(0);
    let daemon = env!("CARGO_BIN_EXE_warren-journald");
    let ended = match is_possible {
        true => inside(&[script.as_ref(), daemon.as_ref(), lab.root.as_ref()]),
        false => Some(NOT_POSSIBLE),
    };
    if ended == Some(NOT_POSSIBLE) {
        return not_run("needs root, a pid namespace and python3");
    }
    assert_eq!(ended, Some(0));
    let found = |identifier, fields| -> Vec<String> {
        let found = lab.read(Expr::field("SYSLOG_IDENTIFIER", identifier));
        found.iter().map(|entry| shown(entry, fields)).collect()
    };
    let gone = found("GONE", "MESSAGE _PID _UID _COMM _CMDLINE");
    assert_eq!(gone, ["native 4000 0 - -", "syslog 4000 0 - -", "stdout 4000 0 - -"]);
    let of = |name| ["1 first", "2 first", "3 heir"].map(|told| format!("{name} {told}"));
    assert_eq!(
        found("KNOWN", "MESSAGE _COMM"),
        [of("native"), of("syslog"), of("stdout")].concat()
    );
}

/// Whoever floods the log in root's own session, or as the user of a job that a service of root's runs.
#[test]
fn a_flood_of_a_user_leaves_root_what_it_may_log() {
    let mut lab = Lab::new("hostile-flood");
    lab.start(&[
        "--set",
        "RateLimitBurst=50",
        "--set",
        "RateLimitIntervalSec=1h",
        "--set",
        "SystemMaxUse=1M",
    ]);
    let theirs = lab.native();
    let flood = || {
        // Of this thread alone.
        if warren_sys::child::set_uid(65534).is_err() {
            return false;
        }
        for number in 0..500 {
            theirs.send(format!("MESSAGE={number}\nFLOOD=theirs\n").as_bytes()).expect("sent");
        }
        true
    };
    if !std::thread::scope(|scope| scope.spawn(flood).join().expect("it is sent")) {
        return not_run("needs root");
    }
    let native = lab.native();
    for number in 0..20 {
        native.send(format!("MESSAGE={number}\nFLOOD=ours\n").as_bytes()).expect("sent");
    }
    lab.stop();
    assert_eq!(lab.read(Expr::field("FLOOD", "theirs")).len(), 50);
    assert_eq!(lab.read(Expr::field("FLOOD", "ours")).len(), 20);
}
