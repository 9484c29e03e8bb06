//! A service for the tests: plays the actions of its command line, one after the other.
//!
//! ```text
//! append:FILE:TEXT   append a line; TEXT may be $VARIABLE
//! ready  reloading  stopping  clean  status:TEXT  say so over the notify socket
//! main               the same: this is the main process
//! names:PID          the same: that is the main process
//! watchdog:TIMES:MS  feed the watchdog, this often and this far apart
//! store:NAME         keep an open file with the manager
//! pipe:NAME          the same with a pipe that nobody writes to any more
//! offer:FILE:GATE    open the file, then, at the second line of the fifo, ask the manager to keep it as `offered`
//! fds:FILE           append a line with LISTEN_FDNAMES
//! serve              answer each connection of the first socket handed over with the own pid
//! answer             the same for the connection that was handed over
//! wait:MS            do nothing
//! reloads            from here on: SIGHUP is a reload (of Type=notify-reload), SIGTERM the end
//! value:FILE         say READY=1; append the value that comes with the signal SIGRTMIN+1
//! stay               do nothing until SIGTERM
//! hold               from here on, SIGTERM waits for lingers
//! lingers:MS         do nothing until SIGTERM, and so long after it
//! fuse:DIRECTORY     mount a file system there and answer no question about it, until SIGTERM
//! files:DIRECTORY    mount one there with `file`, the directories `d0` to `d9`, and `never`, which is
//!                    never answered for, until SIGTERM
//! opens:FILE         have it open from here on
//! deaf  deaf:ready   do nothing, whatever signal comes; say READY=1 when that is so
//! log:TRANSPORT:TEXT one message to the log: by native, syslog or stdout
//! fork:FILE          go on in the background with the pid in FILE; the parent leaves
//! exit:CODE  die:SIGNAL
//! ```

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::Duration;
use warren_sys::signal::{SIGHUP, SIGRTMIN, SIGTERM};

use warren_sys::fdpass;
use warren_sys::signal::{self, SignalFd, SignalSet};

fn main() {
    let mut reloads = false;
    for action in std::env::args().skip(1) {
        let (word, rest) = action.split_once(':').unwrap_or((&action, ""));
        match word {
            "reloads" => reloads = hold_signals(&[SIGHUP, SIGTERM]),
            "stay" => stay(reloads),
            "fork" => background(rest),
            _ => play(word, rest),
        }
    }
}

fn play(word: &str, rest: &str) {
    let (first, second) = rest.split_once(':').unwrap_or((rest, ""));
    match word {
        "append" => append(first, second),
        "ready" => tell("READY=1"),
        "reloading" => tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us())),
        "stopping" => tell("STOPPING=1"),
        "clean" => tell("CLEAN=1"),
        "main" => tell(&format!("MAINPID={}", std::process::id())),
        "names" => tell(&format!("MAINPID={rest}")),
        "status" => tell(&format!("STATUS={rest}")),
        "watchdog" => feed(number(first), number(second)),
        "store" => store(rest, std::fs::File::open("/proc/self/exe").expect("open").as_fd()),
        "pipe" => store(rest, std::io::pipe().expect("a pipe").0.as_fd()),
        "offer" => offer(first, second),
        "fds" => append(rest, "$LISTEN_FDNAMES"),
        "log" => log(first, second),
        "serve" => serve(),
        "answer" => answer(UnixStream::from(inherited())),
        "wait" => pause(Duration::from_millis(number(rest))),
        "deaf" => {
            hold_signals(&[SIGHUP, SIGTERM, 2]);
            if rest == "ready" {
                tell("READY=1");
            }
            pause(Duration::from_secs(3600));
        }
        "hold" => {
            hold_signals(&[SIGTERM]);
        }
        "lingers" => {
            hold_signals(&[SIGTERM]);
            stay(true);
            pause(Duration::from_millis(number(rest)));
        }
        "fuse" => serve_nothing(rest),
        "files" => serve_files(rest),
        "value" => append_value(rest),
        "opens" => std::mem::forget(std::fs::File::open(rest).expect("it can be opened")),
        "exit" => std::process::exit(number(rest) as i32),
        "die" => {
            let _ = warren_sys::process::kill(std::process::id() as i32, number(rest) as i32);
        }
        other => panic!("unknown action {other}"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("the test gives a number")
}

fn monotonic_us() -> u64 {
    warren_sys::time::monotonic_ns() / 1000
}

/// One message, as Debian's senders write it.
fn log(transport: &str, text: &str) {
    let to = |name: &str| format!("/run/systemd/journal/{name}");
    let datagram = |text: String, name: &str| {
        let socket = UnixDatagram::unbound().expect("a socket");
        socket.send_to(text.as_bytes(), to(name)).expect("the log daemon listens");
    };
    match transport {
        "native" => datagram(format!("MESSAGE={text}\nPRIORITY=6\n"), "socket"),
        "syslog" => datagram(format!("<14>player: {text}"), "dev-log"),
        _ => {
            let mut stream = UnixStream::connect(to("stdout")).expect("the log daemon listens");
            let text = format!("player\n\n6\n0\n0\n0\n0\n{text}\n");
            stream.write_all(text.as_bytes()).expect("it takes a line");
        }
    }
}

fn append(file: &str, text: &str) {
    let text = match text.strip_prefix('$') {
        Some(name) => std::env::var(name).unwrap_or_else(|_| "(unset)".to_owned()),
        None => text.to_owned(),
    };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).expect("open");
    file.write_all(format!("{text}\n").as_bytes()).expect("write");
}

fn notify_path() -> Option<String> {
    std::env::var("NOTIFY_SOCKET").ok()
}

fn tell(text: &str) {
    let Some(path) = notify_path() else { return };
    let socket = UnixDatagram::unbound().expect("socket");
    socket.send_to(text.as_bytes(), path).expect("the manager's socket takes it");
}

fn store(name: &str, file: BorrowedFd<'_>) {
    let Some(path) = notify_path() else { return };
    let socket = UnixDatagram::unbound().expect("socket");
    socket.connect(path).expect("the manager's socket is there");
    let text = format!("FDSTORE=1\nFDNAME={name}");
    fdpass::send(socket.as_fd(), text.as_bytes(), &[file]).expect("send");
}

/// Has the file open from here on.
fn offer(file: &str, gate: &str) {
    let file = std::fs::File::open(file).expect("it can be opened");
    wait_at(&format!("{gate}-1"));
    wait_at(&format!("{gate}-2"));
    store("offered", file.as_fd());
    std::mem::forget(file);
}

/// Waits until somebody writes to the fifo.
fn wait_at(gate: &str) {
    std::fs::read(gate).expect("somebody writes");
}

fn feed(times: u64, apart_ms: u64) {
    for _ in 0..times {
        tell("WATCHDOG=1");
        pause(Duration::from_millis(apart_ms));
    }
}

/// The first file descriptor that was handed over (sd_listen_fds(3)).
fn inherited() -> OwnedFd {
    fdpass::take_inherited(3, 4).expect("a file descriptor was handed over")
}

fn serve() {
    let listener = UnixListener::from(inherited());
    listener.set_nonblocking(false).expect("fcntl");
    for stream in listener.incoming() {
        answer(stream.expect("accept"));
    }
}

fn answer(mut stream: UnixStream) {
    let _ = writeln!(stream, "{}", std::process::id());
    let _ = stream.shutdown(Shutdown::Both);
}

/// Waits; nothing wakes it early.
fn pause(time: Duration) {
    let until = std::time::Instant::now() + time;
    while let Some(left) = until.checked_duration_since(std::time::Instant::now()) {
        std::thread::park_timeout(left);
    }
}

fn hold_signals(signals: &[i32]) -> bool {
    let set = signals.iter().fold(SignalSet::EMPTY, |set, &s| set.with(s));
    signal::set_blocked(set).expect("sigprocmask");
    true
}

/// Until SIGTERM; a SIGHUP is answered as Type=notify-reload wants it.
fn stay(reloads: bool) {
    if !reloads {
        pause(Duration::from_secs(3600));
    }
    let signals = SignalFd::new(SignalSet::EMPTY.with(SIGHUP).with(SIGTERM)).expect("signalfd");
    let epoll = warren_sys::epoll::Epoll::new().expect("epoll");
    epoll.add(&signals, 0, warren_sys::epoll::Interest::READ).expect("epoll");
    let mut ready = warren_sys::epoll::Events::with_capacity(1);
    loop {
        epoll.wait(&mut ready, None).expect("epoll");
        while let Ok(Some(info)) = signals.read() {
            if info.signal == SIGTERM {
                return;
            }
            tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
            tell("READY=1");
        }
    }
}

fn append_value(file: &str) {
    let signals = SignalFd::new(SignalSet::EMPTY.with(SIGRTMIN + 1)).expect("signalfd");
    let epoll = warren_sys::epoll::Epoll::new().expect("epoll");
    epoll.add(&signals, 0, warren_sys::epoll::Interest::READ).expect("epoll");
    tell("READY=1");
    epoll.wait(&mut warren_sys::epoll::Events::with_capacity(1), None).expect("epoll");
    let info = signals.read().expect("it is readable").expect("there is one");
    append(file, &format!("{} {}", info.value, info.code));
}

/// A file system whose server does not answer: who looks into it waits until this process is gone.
fn serve_nothing(directory: &str) {
    hold_signals(&[SIGTERM]);
    let _device = mount_fuse(directory, "silent");
    tell("READY=1");
    stay(true);
}

fn mount_fuse(directory: &str, what: &str) -> std::fs::File {
    std::fs::create_dir_all(directory).expect("directories can be made");
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse").expect("fuse");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&device);
    let text = format!("fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other");
    let options = warren_sys::mount::MountOptions::parse(&text);
    warren_sys::mount::mount_fs(what, directory, "fuse", &options).expect("it can be mounted");
    device
}

/// A file system with an empty `file` and ten directories, in which sockets can be made. Names are good for
/// no time, so that the server is asked at every look at a path, as with a network file system that others
/// change.
fn serve_files(directory: &str) {
    hold_signals(&[SIGTERM]);
    let device = mount_fuse(directory, "files");
    let mut made = Vec::new();
    std::thread::spawn(move || while answer_fuse(&device, &mut made).is_some() {});
    tell("READY=1");
    stay(true);
}

/// Answers one question of the kernel's (linux/fuse.h, version 7.31); nothing when the mount is gone.
/// `made` are the names of sockets.
fn answer_fuse(mut device: &std::fs::File, made: &mut Vec<Vec<u8>>) -> Option<()> {
    use std::io::Read;
    const ROOT: u64 = 1;
    const FILE: u64 = 2;
    const DIRECTORIES: u64 = 10;
    const SOCKETS: u64 = 20;
    use warren_sys::errno::{ENOENT, ENOSYS};
    let mut question = vec![0; 1 << 18];
    let length = device.read(&mut question).ok()?;
    let word = |at: usize| u32::from_ne_bytes(question[at..at + 4].try_into().expect("four"));
    let long = |at: usize| u64::from_ne_bytes(question[at..at + 8].try_into().expect("eight"));
    let (operation, unique, node) = (word(4), long(8), long(16));
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
    let attributes = |node: u64| {
        let mode = match node {
            FILE => 0o100_644,
            SOCKETS.. => 0o140_666,
            _ => 0o040_755,
        };
        let number = node as u32;
        let mut all = [0; 22];
        (all[0], all[15], all[16]) = (number, mode, 1);
        words(&all)
    };
    // What is to be made is named behind 16 bytes that say what it is to be.
    let names = if operation == 8 { 56 } else { 40 };
    let name = question.get(names..length).unwrap_or_default();
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    match operation {
        8 => made.push(name.to_vec()),
        10 => made.iter_mut().filter(|made| *made == name).for_each(Vec::clear),
        _ => {}
    }
    let socket = made.iter().position(|made| made == name && !name.is_empty());
    let child = match (operation, name) {
        (1 | 8, _) if socket.is_some() => socket.map(|number| SOCKETS + number as u64),
        (1, b"file") => Some(FILE),
        (1, [b'd', digit @ b'0'..=b'9']) => Some(DIRECTORIES + u64::from(digit - b'0')),
        _ => None,
    };
    let body = match (operation, child) {
        (1 | 8, Some(child)) => {
            Ok([words(&[child as u32, 0, 0, 0, 0, 0, 0, 0, 0, 0]), attributes(child)].concat())
        }
        // Not even SIGKILL ends who asks for it, once it was asked for.
        (1, None) if name == b"never" => return Some(()),
        (1, None) => Err(ENOENT),
        // Forgotten, interrupted: no answer.
        (2 | 36 | 42, _) => return Some(()),
        (3 | 4, _) => Ok([words(&[0; 4]), attributes(node.max(ROOT))].concat()),
        (14 | 27, _) => Ok(words(&[0; 4])),
        // Removed, read, released, flushed, nothing in the directory.
        (10 | 15 | 18 | 25 | 28 | 29, _) => Ok(Vec::new()),
        (17, _) => Ok(words(&[0; 20])),
        (26, _) => {
            let mut all = [0; 16];
            (all[0], all[1], all[5]) = (7, 31, 1 << 12);
            Ok(words(&all))
        }
        _ => Err(ENOSYS),
    };
    let (error, body) = body.map_or_else(|errno| (-errno, Vec::new()), |body| (0, body));
    let mut answer = words(&[16 + body.len() as u32, error as u32]);
    answer.extend(unique.to_ne_bytes());
    answer.extend(body);
    // One that was given up meanwhile takes no answer.
    let _ = device.write(&answer);
    Some(())
}

/// Runs the rest of the command line in the background, as a forking daemon does.
fn background(file: &str) {
    let own: Vec<String> = std::env::args().collect();
    let at = own.iter().position(|a| a.starts_with("fork:")).expect("this action");
    let program = std::env::current_exe().expect("a program knows its path");
    let child = std::process::Command::new(program).args(&own[at + 1..]).spawn().expect("spawn");
    if !file.is_empty() {
        std::fs::write(file, format!("{}\n", child.id())).expect("write");
    }
    std::process::exit(0);
}
