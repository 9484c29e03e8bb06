//! A program is run once and looked at: which calls it makes, what it opens, whom it talks to.
//!
//! Calls come from [`warren_sys::ptrace`]; what they mean is gathered in [`Observed`]. Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use warren_sandbox::seccomp::Arch;
use warren_sys::process::ExitKind;
use warren_sys::ptrace::{self, Call, Followed, Seen};
use warren_unit::Signal;

use super::listening::{self, Listening};

/// How long the program has to end after SIGTERM.
const STOP_TIME: Duration = Duration::from_secs(5);

/// Paths of one kind that are kept; of more only that there were is.
const PATHS_MAX: usize = 10_000;

/// Longest message of a program that says that it is ready, in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Address families (linux/socket.h).
pub(super) const AF_UNIX: u64 = 1;
pub(super) const AF_INET: u64 = 2;
pub(super) const AF_INET6: u64 = 10;
pub(super) const AF_NETLINK: u64 = 16;
pub(super) const AF_PACKET: u64 = 17;

/// Flags of open(2).
const O_ACCMODE: u64 = 3;
const O_CREAT: u64 = 0o100;
const O_TRUNC: u64 = 0o1000;

/// The directory of the process, for calls that take one (fcntl.h).
const AT_FDCWD: i32 = -100;

/// The most that a program's memory held (proc_pid_status(5)).
const PEAK: &str = "VmHWM:";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum End {
    /// The first process was there to the end.
    #[default]
    Running,
    /// The first process had ended, and others that it started were there.
    Forked,
    /// Nothing was left.
    Ended(ExitKind),
}

/// What a program did.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// Names of system calls.
    pub calls: BTreeSet<&'static str>,
    /// Those that had their effect.
    pub succeeded: BTreeSet<&'static str>,
    /// Calls of another architecture than this program's.
    pub is_foreign: bool,
    /// Families of sockets that it made, by their numbers.
    pub families: BTreeSet<u64>,
    /// Raw sockets among them.
    pub has_raw_sockets: bool,
    /// Ports that it listens on or sends from.
    pub ports: BTreeSet<u16>,
    /// It named an address of another host, or listens for other hosts.
    pub is_on_network: bool,
    /// Files that it opened or ran.
    pub read: BTreeSet<PathBuf>,
    /// Files that it wrote to, directories that it made, and directories in which it made, moved and removed things.
    pub written: BTreeSet<PathBuf>,
    /// Of those that it wrote to or put there, files that were there when it was stopped.
    pub files: BTreeSet<PathBuf>,
    /// Files and directories that were not there before.
    pub made: BTreeSet<PathBuf>,
    /// Sockets in the file system that it connected to.
    pub connected: BTreeSet<PathBuf>,
    /// Where it listened when it was stopped.
    pub listening: BTreeSet<Listening>,
    /// Of those that it opened, files that not everybody may read, and whether root may by owning them.
    pub closed: BTreeMap<PathBuf, bool>,
    /// It ran programs that have more rights than who runs them.
    pub runs_setuid: bool,
    /// Kinds of namespaces that it made or joined: bits of clone(2).
    pub namespaces: u64,
    /// It made memory that can be written and executed, or made memory executable.
    pub makes_code: bool,
    /// It asked for real-time scheduling.
    pub is_realtime: bool,
    /// It made files with set-user or set-group bits.
    pub makes_setuid: bool,
    /// It looked at processes that are not its own.
    pub looks_at_others: bool,
    /// It said that it is ready.
    pub is_ready: bool,
    /// How the run ended.
    pub end: End,
    /// It did not end after SIGTERM in time.
    pub ignores_stop: bool,
    /// The most memory of one process, in KiB.
    pub peak_kib: u64,
}

/// The looker.
struct Observer {
    seen: Observed,
    native: Option<Arch>,
    main: i32,
    main_end: Option<ExitKind>,
    /// By task: what the call that it is in changes if it succeeds.
    changes: BTreeMap<i32, Changes>,
    /// Processes and threads that belong to the program.
    own: BTreeSet<String>,
}

/// Paths that a call changes.
#[derive(Default)]
struct Changes {
    /// Directories and files that it writes to.
    written: Vec<PathBuf>,
    /// What it puts at a path.
    files: Vec<PathBuf>,
    /// What is not there yet.
    made: Vec<PathBuf>,
}

/// What to run.
pub(super) struct Run<'a> {
    /// With its arguments, environment and directory.
    pub command: &'a mut Command,
    /// For how long.
    pub time: Duration,
    /// Where the program may say that it is ready; it does not block.
    pub notify: &'a UnixDatagram,
}

/// Runs a program for some time, asks it to end, and says what it did.
///
/// # Errors
/// It cannot be started or not be followed.
pub(super) fn observe(run: Run<'_>) -> Result<Observed> {
    let mut followed = Followed::start(run.command).context("cannot run the command")?;
    let mut observer = Observer {
        seen: Observed::default(),
        native: Arch::native(),
        main: followed.main(),
        main_end: None,
        changes: BTreeMap::new(),
        own: BTreeSet::from([followed.main().to_string()]),
    };
    let is_left = followed.follow(Instant::now() + run.time, &mut |seen| observer.take(seen))?;
    observer.seen.end = match (is_left, observer.main_end) {
        (false, Some(kind)) => End::Ended(kind),
        (true, Some(_)) => End::Forked,
        (_, None) => End::Running,
    };
    let processes = followed.processes();
    for process in &processes {
        observer.seen.peak_kib = observer.seen.peak_kib.max(peak(*process));
    }
    let seen = &mut observer.seen;
    seen.listening = listening::of(Path::new("/proc"), &processes, &seen.ports);
    seen.files.retain(|path| fs::metadata(path).is_ok_and(|found| found.is_file()));
    followed.signal(Signal::TERM.number());
    if followed.follow(Instant::now() + STOP_TIME, &mut |seen| observer.take(seen))? {
        observer.seen.ignores_stop = true;
        followed.signal(Signal::KILL.number());
        followed.follow(Instant::now() + STOP_TIME, &mut |seen| observer.take(seen))?;
    }
    observer.seen.is_ready = has_said_ready(run.notify);
    Ok(observer.seen)
}

/// Whether a program has sent `READY=1` (sd_notify(3)).
fn has_said_ready(notify: &UnixDatagram) -> bool {
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    while let Ok(length) = notify.recv(&mut bytes) {
        if String::from_utf8_lossy(&bytes[..length]).lines().any(|line| line == "READY=1") {
            return true;
        }
    }
    false
}

/// The most memory of a process so far, in KiB.
fn peak(process: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(PEAK));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A path without `.` and `..`, as far as its text says.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => _ = out.pop(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// Where a path of a task leads that is meant from a directory of its own.
fn resolved(task: i32, directory: i32, text: &[u8]) -> Option<PathBuf> {
    let path = PathBuf::from(String::from_utf8(text.to_vec()).ok()?);
    if path.is_absolute() {
        return Some(plain(&path));
    }
    let base = match directory {
        AT_FDCWD => fs::read_link(format!("/proc/{task}/cwd")),
        fd => fs::read_link(format!("/proc/{task}/fd/{fd}")),
    };
    Some(plain(&base.ok()?.join(path)))
}

fn keep(paths: &mut BTreeSet<PathBuf>, path: PathBuf) {
    if paths.len() < PATHS_MAX {
        paths.insert(path);
    }
}

impl Observer {
    fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Entered(call) => self.entered(call),
            Seen::Left(call, result) => self.left(call, result),
            Seen::Ended(task, kind) => {
                self.changes.remove(&task);
                if task == self.main {
                    self.main_end = Some(kind);
                }
            }
        }
    }

    /// The name of a call of this program's own architecture.
    fn name(&self, call: &Call) -> Option<&'static str> {
        let native = self.native.filter(|native| native.audit() == call.arch)?;
        native.name(call.number)
    }

    fn entered(&mut self, call: Call) {
        self.own.insert(call.task.to_string());
        let Some(name) = self.name(&call) else {
            self.seen.is_foreign = true;
            return;
        };
        self.seen.calls.insert(name);
        let [a, b, c, ..] = call.arguments;
        match name {
            "socket" | "socketpair" => {
                self.seen.families.insert(a);
                // Netlink's are raw by name alone.
                self.seen.has_raw_sockets |= b & 0xf == 3 && [AF_INET, AF_INET6].contains(&a);
            }
            "bind" => self.bound(call.task, b, c),
            "connect" => self.reached(call.task, b, c),
            "sendto" if call.arguments[4] != 0 => {
                self.reached(call.task, call.arguments[4], call.arguments[5]);
            }
            "clone" => self.seen.namespaces |= a & NAMESPACES,
            "clone3" => self.seen.namespaces |= number(call.task, a) & NAMESPACES,
            "unshare" => self.seen.namespaces |= a & NAMESPACES,
            "setns" => self.seen.namespaces |= b & NAMESPACES,
            "mmap" => {
                self.seen.makes_code |= c & (PROT_WRITE | PROT_EXEC) == PROT_WRITE | PROT_EXEC
            }
            "mprotect" | "pkey_mprotect" => self.seen.makes_code |= c & PROT_EXEC != 0,
            "sched_setscheduler" => self.seen.is_realtime |= REALTIME.contains(&(b & 0xffff)),
            "chmod" | "fchmod" | "mkdir" | "creat" => {
                self.seen.makes_setuid |= b & SETUID_BITS != 0
            }
            "fchmodat" | "mkdirat" | "mknodat" => self.seen.makes_setuid |= c & SETUID_BITS != 0,
            "execve" => self.runs(call.task, a),
            "execveat" => self.runs(call.task, b),
            "ptrace" | "process_vm_readv" | "process_vm_writev" | "kcmp" => {
                self.seen.looks_at_others = true;
            }
            _ => {}
        }
        let changes = Changes {
            written: self.changed_by(&call, name),
            files: replaced_by(&call, name).into_iter().collect(),
            made: made_by(&call, name).into_iter().collect(),
        };
        self.changes.insert(call.task, changes);
    }

    /// A program that a task is about to run.
    fn runs(&mut self, task: i32, path: u64) {
        let path = ptrace::text(task, path).and_then(|text| resolved(task, AT_FDCWD, &text));
        let Some(path) = path else { return };
        let mode = fs::metadata(&path).map_or(0, |metadata| metadata.mode());
        self.seen.runs_setuid |= u64::from(mode) & SETUID_BITS != 0;
        keep(&mut self.seen.read, path);
    }

    /// Directories and files that a call with paths changes.
    fn changed_by(&self, call: &Call, name: &str) -> Vec<PathBuf> {
        let a = call.arguments;
        let at = |directory: i32, text: u64| path_at(call.task, directory, text);
        let from = |directory: u64, text: u64| path_from(call.task, directory, text);
        let above =
            |path: Option<PathBuf>| path.and_then(|path| path.parent().map(Path::to_path_buf));
        let paths = match name {
            "mkdir" => vec![at(AT_FDCWD, a[0])],
            "mkdirat" => vec![from(a[0], a[1])],
            "rmdir" | "unlink" | "mknod" => vec![above(at(AT_FDCWD, a[0]))],
            "unlinkat" | "mknodat" => vec![above(from(a[0], a[1]))],
            "rename" | "link" => vec![above(at(AT_FDCWD, a[0])), above(at(AT_FDCWD, a[1]))],
            "renameat" | "renameat2" | "linkat" => {
                vec![above(from(a[0], a[1])), above(from(a[2], a[3]))]
            }
            "symlink" => vec![above(at(AT_FDCWD, a[1]))],
            "symlinkat" => vec![above(from(a[1], a[2]))],
            "truncate" | "chmod" | "chown" | "lchown" | "utime" | "utimes" | "setxattr" => {
                vec![at(AT_FDCWD, a[0])]
            }
            "fchmodat" | "fchownat" => vec![from(a[0], a[1])],
            "utimensat" if a[1] != 0 => vec![from(a[0], a[1])],
            _ => return Vec::new(),
        };
        paths.into_iter().flatten().collect()
    }

    fn left(&mut self, call: Call, result: i64) {
        let changes = self.changes.remove(&call.task).unwrap_or_default();
        let Some(name) = self.name(&call).filter(|_| result >= 0) else { return };
        self.seen.succeeded.insert(name);
        changes.written.into_iter().for_each(|path| keep(&mut self.seen.written, path));
        changes.files.into_iter().for_each(|path| keep(&mut self.seen.files, path));
        changes.made.into_iter().for_each(|path| keep(&mut self.seen.made, path));
        let Some(flags) = open_flags(&call, name) else { return };
        let Ok(path) = fs::read_link(format!("/proc/{}/fd/{result}", call.task)) else { return };
        if !path.is_absolute() {
            return;
        }
        self.looked_at(&path);
        self.owned(&path);
        if flags & (O_ACCMODE | O_TRUNC) != 0 {
            keep(&mut self.seen.files, path.clone());
        }
        let made_in =
            (flags & O_CREAT != 0).then(|| path.parent().map(Path::to_path_buf)).flatten();
        match made_in {
            Some(directory) => keep(&mut self.seen.written, directory),
            None if flags & (O_ACCMODE | O_TRUNC) != 0 => {
                keep(&mut self.seen.written, path.clone())
            }
            None => {}
        }
        keep(&mut self.seen.read, path);
    }

    /// Who may read a file.
    fn owned(&mut self, path: &Path) {
        let Ok(metadata) = fs::metadata(path) else { return };
        if metadata.is_file() && metadata.mode() & 0o004 == 0 && !path.starts_with("/proc") {
            self.seen.closed.insert(path.to_path_buf(), metadata.uid() == 0);
        }
    }

    /// Whether a path below `/proc` is about another process.
    fn looked_at(&mut self, path: &Path) {
        let below = path.strip_prefix("/proc").ok().and_then(|rest| rest.iter().next()?.to_str());
        if let Some(name) = below
            && name.bytes().all(|b| b.is_ascii_digit())
            && !self.own.contains(name)
        {
            self.seen.looks_at_others = true;
        }
    }

    /// An address that the program listens at or sends from.
    fn bound(&mut self, task: i32, address: u64, length: u64) {
        match address_of(task, address, length) {
            Some(Address::Internet(ip, port)) => {
                self.seen.ports.insert(port);
                self.seen.is_on_network |= !ip.is_loopback();
            }
            Some(Address::Path(path)) => {
                let parent = path.parent().map(Path::to_path_buf);
                parent.into_iter().for_each(|parent| keep(&mut self.seen.written, parent));
            }
            None => {}
        }
    }

    /// An address that the program sends to.
    fn reached(&mut self, task: i32, address: u64, length: u64) {
        match address_of(task, address, length) {
            Some(Address::Internet(ip, _)) => self.seen.is_on_network |= !ip.is_loopback(),
            Some(Address::Path(path)) => keep(&mut self.seen.connected, path),
            None => {}
        }
    }
}

/// A path in a task's memory, from a directory of it.
fn path_at(task: i32, directory: i32, text: u64) -> Option<PathBuf> {
    resolved(task, directory, &ptrace::text(task, text)?)
}

/// The same by two arguments of a call: descriptors are the lower half of theirs.
fn path_from(task: i32, directory: u64, text: u64) -> Option<PathBuf> {
    path_at(task, directory as u32 as i32, text)
}

/// Flags of a call that opens a path.
fn open_flags(call: &Call, name: &str) -> Option<u64> {
    let a = call.arguments;
    Some(match name {
        "open" => a[1],
        "openat" => a[2],
        "creat" => O_CREAT | O_TRUNC,
        "openat2" => number(call.task, a[2]),
        _ => return None,
    })
}

/// A path at which a call puts something that may be a file.
fn replaced_by(call: &Call, name: &str) -> Option<PathBuf> {
    let a = call.arguments;
    match name {
        "rename" | "link" => path_at(call.task, AT_FDCWD, a[1]),
        "renameat" | "renameat2" | "linkat" => path_from(call.task, a[2], a[3]),
        _ => None,
    }
}

/// A path at which a call makes something and nothing is yet.
fn made_by(call: &Call, name: &str) -> Option<PathBuf> {
    let a = call.arguments;
    let path = match name {
        "open" | "creat" | "openat" | "openat2" if open_flags(call, name)? & O_CREAT == 0 => None,
        "open" | "creat" | "mkdir" | "mknod" => path_at(call.task, AT_FDCWD, a[0]),
        "openat" | "openat2" | "mkdirat" | "mknodat" => path_from(call.task, a[0], a[1]),
        "symlink" => path_at(call.task, AT_FDCWD, a[1]),
        "symlinkat" => path_from(call.task, a[1], a[2]),
        "bind" => match address_of(call.task, a[1], a[2])? {
            Address::Path(path) => Some(path),
            Address::Internet(..) => None,
        },
        name => replaced_by(call, name),
    };
    path.filter(|path| fs::symlink_metadata(path).is_err())
}

/// Bits of clone(2) that make namespaces: time, mount, cgroup, UTS, IPC, user, PID and network.
const NAMESPACES: u64 = 0x7e02_0080;

/// Protection of memory (mmap(2)).
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;

/// Scheduling policies (sched(7)): fifo, rr and deadline.
const REALTIME: [u64; 3] = [1, 2, 6];

/// Bits of a mode (inode(7)).
const SETUID_BITS: u64 = 0o6000;

/// A number of 8 bytes in a task's memory; 0 where none can be read.
fn number(task: i32, address: u64) -> u64 {
    ptrace::bytes(task, address, 8).try_into().map_or(0, u64::from_ne_bytes)
}

enum Address {
    Internet(IpAddr, u16),
    Path(PathBuf),
}

/// An address in a task's memory; nothing for those of other families and of no name.
fn address_of(task: i32, at: u64, length: u64) -> Option<Address> {
    /// The longest address that is looked at (`sockaddr_un`), in bytes.
    const ADDRESS_BYTES_MAX: u64 = 110;
    parse_address(&ptrace::bytes(task, at, length.min(ADDRESS_BYTES_MAX) as usize))
}

fn parse_address(bytes: &[u8]) -> Option<Address> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let port = || rest.first_chunk::<2>().map(|port| u16::from_be_bytes(*port));
    match u64::from(u16::from_ne_bytes(*family)) {
        AF_UNIX => {
            let path = rest.split(|byte| *byte == 0).next()?;
            path.starts_with(b"/")
                .then(|| String::from_utf8(path.to_vec()).ok())
                .flatten()
                .map(|path| Address::Path(PathBuf::from(path)))
        }
        AF_INET => {
            let ip: [u8; 4] = rest.get(2..6)?.try_into().ok()?;
            Some(Address::Internet(Ipv4Addr::from(ip).into(), port()?))
        }
        AF_INET6 => {
            let ip: [u8; 16] = rest.get(6..22)?.try_into().ok()?;
            Some(Address::Internet(Ipv6Addr::from(ip).to_canonical(), port()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Option<&str>) {
        let shown = parse_address(bytes).map(|address| match address {
            Address::Internet(ip, port) => format!("{ip} {port}"),
            Address::Path(path) => path.display().to_string(),
        });
        assert_eq!(shown.as_deref(), expected, "{bytes:?}");
    }

    #[test]
    fn addresses_are_read() {
        check(b"\x02\0\x1f\x90\x7f\0\0\x01\0\0\0\0\0\0\0\0", Some("127.0.0.1 8080"));
        check(b"\x01\0/run/x.sock\0rest", Some("/run/x.sock"));
        check(b"\x01\0\0abstract", None);
        let mut six = vec![10, 0, 0, 80, 0, 0, 0, 0];
        six.extend([0; 15]);
        six.extend([1, 0, 0, 0, 0]);
        check(&six, Some("::1 80"));
        for length in 0..six.len() {
            let _ = parse_address(&six[..length]);
        }
    }

    #[test]
    fn paths_lose_their_dots() {
        assert_eq!(plain(Path::new("/a/./b/../c")), PathBuf::from("/a/c"));
        assert_eq!(plain(Path::new("/../..")), PathBuf::from("/"));
    }
}
