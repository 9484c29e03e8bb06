//! Processes seen from outside: waiting, pidfds, signals, subreaper, what `/proc` says.
//!
//! What a process does to itself before it execs is in the module `child`.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::{Context, Error, Result, check};
use crate::text;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// It exited with a status of 0 to 255.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// A signal ended it and it left a core dump.
    Dumped(i32),
}

impl ExitKind {
    /// From `si_code` and `si_status` of waitid(2); `None` for stops and continues.
    pub fn from_wait(code: i32, status: i32) -> Option<ExitKind> {
        match code {
            libc::CLD_EXITED => Some(ExitKind::Exited(status)),
            libc::CLD_KILLED => Some(ExitKind::Killed(status)),
            libc::CLD_DUMPED => Some(ExitKind::Dumped(status)),
            _ => None,
        }
    }

    /// `si_code` of waitid(2).
    pub fn code(self) -> i32 {
        match self {
            ExitKind::Exited(_) => libc::CLD_EXITED,
            ExitKind::Killed(_) => libc::CLD_KILLED,
            ExitKind::Dumped(_) => libc::CLD_DUMPED,
        }
    }

    /// The exit status or the signal's number.
    pub fn status(self) -> i32 {
        match self {
            ExitKind::Exited(n) | ExitKind::Killed(n) | ExitKind::Dumped(n) => n,
        }
    }
}

/// A reaped process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Process id; free for reuse from now on.
    pub pid: i32,
    /// Real user id at its end.
    pub uid: u32,
    /// How it ended.
    pub kind: ExitKind,
    /// User CPU time, microseconds, with that of its waited-for children.
    pub user_us: u64,
    /// System CPU time, microseconds, with that of its waited-for children.
    pub system_us: u64,
    /// Largest resident set, KiB.
    pub max_rss_kib: u64,
}

/// Whom to wait for.
#[derive(Debug, Clone, Copy)]
pub enum Wait<'a> {
    /// Any child.
    Any,
    /// The child with this pid.
    Pid(i32),
    /// The child behind this pidfd.
    PidFd(BorrowedFd<'a>),
}

/// Reaps one child that has ended, or says `None` when none has (`block` false).
///
/// Fails with `ECHILD` when there is no such child at all. Allocates nothing.
pub fn wait(whom: Wait<'_>, block: bool) -> Result<Option<Exit>> {
    let (idtype, id) = match whom {
        Wait::Any => (libc::P_ALL, 0),
        Wait::Pid(pid) => (libc::P_PID, pid),
        Wait::PidFd(fd) => (libc::P_PIDFD, fd.as_raw_fd()),
    };
    let options = libc::WEXITED | if block { 0 } else { libc::WNOHANG };
    // SAFETY: all-zero siginfo_t and rusage are valid; the kernel fills them.
    let (mut info, mut usage): (libc::siginfo_t, libc::rusage) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    loop {
        // SAFETY: the raw call takes idtype, id, siginfo*, options, rusage*; both pointers are to
        // live locals. The C library's waitid has no rusage.
        let ret = unsafe {
            libc::syscall(libc::SYS_waitid, idtype, id, &raw mut info, options, &raw mut usage)
        };
        match check("waitid", ret) {
            Err(e) if e.errno == libc::EINTR => continue,
            Err(e) => return Err(e),
            Ok(_) => break,
        }
    }
    Ok(exit_of(&info, &usage))
}

fn exit_of(info: &libc::siginfo_t, usage: &libc::rusage) -> Option<Exit> {
    // SAFETY: waitid filled the SIGCHLD fields, or left all of them zero (nobody has ended).
    let (pid, uid, status) = unsafe { (info.si_pid(), info.si_uid(), info.si_status()) };
    let kind = ExitKind::from_wait(info.si_code, status)?;
    (pid != 0).then_some(Exit {
        pid,
        uid,
        kind,
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        max_rss_kib: usage.ru_maxrss.max(0) as u64,
    })
}

fn micros(t: libc::timeval) -> u64 {
    (t.tv_sec.max(0) as u64) * 1_000_000 + t.tv_usec.max(0) as u64
}

/// Opens a pidfd: readable once the process has ended. `ESRCH` when there is none.
pub fn pidfd_open(pid: i32) -> Result<OwnedFd> {
    // SAFETY: plain integers; a successful call returns a new fd that nobody else owns.
    unsafe {
        let fd = check("pidfd_open", libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Sends a signal to exactly the process behind the pidfd.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<()> {
    let null: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: integers and a null siginfo, which means "as kill(2) would send it".
    let ret =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, null, 0) };
    check("pidfd_send_signal", ret).map(|_| ())
}

/// Sends a signal with a value to exactly the process behind the pidfd, as sigqueue(3) does.
pub fn pidfd_queue_signal(pidfd: BorrowedFd<'_>, signal: i32, value: i32) -> Result<()> {
    /// The fields of a siginfo_t that sigqueue(3) sets, in the kernel's layout (sigaction(2)).
    #[repr(C)]
    struct Queued {
        signal: i32,
        errno: i32,
        code: i32,
        _fill: i32,
        pid: i32,
        uid: u32,
        value: u64,
        _rest: [u64; 12],
    }
    const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());
    let (uid, _) = own_ids();
    // What a program reads as sival_int is in the first bytes of the union.
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&value.to_ne_bytes());
    let queued = Queued {
        signal,
        errno: 0,
        code: libc::SI_QUEUE,
        _fill: 0,
        pid: std::process::id().cast_signed(),
        uid,
        value: u64::from_ne_bytes(bytes),
        _rest: [0; 12],
    };
    // SAFETY: integers and a struct of the size of a siginfo_t, which the kernel only reads.
    let ret = unsafe {
        let (call, info) = (libc::SYS_pidfd_send_signal, &raw const queued);
        libc::syscall(call, pidfd.as_raw_fd(), signal, info, 0)
    };
    check("pidfd_send_signal", ret).map(|_| ())
}

/// `struct pidfd_info` of the kernel, first version.
#[repr(C)]
struct PidfdInfo {
    mask: u64,
    cgroup_id: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    rest: [u32; 9],
}

/// `PIDFD_INFO_PID`, `PIDFD_INFO_CGROUPID` and `PIDFD_INFO_EXIT`, bits of its mask.
const PIDFD_INFO_PID: u64 = 1 << 0;
const PIDFD_INFO_CGROUP_ID: u64 = 1 << 2;
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// What a kernel since Linux 6.13 says of the process behind a pidfd (pidfd_open(2), "ioctls").
fn pidfd_info(pidfd: BorrowedFd<'_>, mask: u64) -> Result<PidfdInfo> {
    const _: () = assert!(size_of::<PidfdInfo>() == 64);
    /// `_IOWR(0xff, 11, struct pidfd_info)`.
    const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;
    let mut info = PidfdInfo { mask, cgroup_id: 0, pid: 0, tgid: 0, ppid: 0, rest: [0; 9] };
    // SAFETY: the number names the size of the struct, so the kernel writes at most that.
    let done = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO as _, &raw mut info) };
    check("ioctl PIDFD_GET_INFO", done as _).map(|_| info)
}

/// The id of the cgroup that a process is in, or was in when it ended. `None` from a kernel that
/// does not know: before Linux 6.13, of a process that has ended before 6.15.
pub fn pidfd_cgroup_id(pidfd: BorrowedFd<'_>) -> Option<u64> {
    /// How often a process is asked for that is being reaped just now: the kernel has taken its
    /// pid away and not said yet how it ended.
    const TRIES_MAX: usize = 100;
    for _ in 0..TRIES_MAX {
        match pidfd_info(pidfd, PIDFD_INFO_CGROUP_ID | PIDFD_INFO_EXIT) {
            Ok(info) => {
                return (info.mask & PIDFD_INFO_CGROUP_ID != 0).then_some(info.cgroup_id);
            }
            Err(e) if e.errno == libc::ESRCH => {}
            Err(_) => return None,
        }
    }
    None
}

/// The parent's pid of a process that was not reaped yet. `None` from a kernel that does not know:
/// before Linux 6.13.
pub fn pidfd_parent(pidfd: BorrowedFd<'_>) -> Option<i32> {
    pidfd_info(pidfd, PIDFD_INFO_PID).ok().map(|info| info.ppid as i32)
}

/// The pid behind a pidfd, from `/proc/thread-self/fdinfo`; `ESRCH` when the process has been reaped.
pub fn pidfd_pid(pidfd: BorrowedFd<'_>) -> Result<i32> {
    let path = format!("/proc/thread-self/fdinfo/{}", pidfd.as_raw_fd());
    let text = fs::read_to_string(&path).call_on("read", &path)?;
    let pid = text.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok());
    pid.filter(|&p| p > 0).ok_or(Error::new("fdinfo Pid", libc::ESRCH))
}

/// kill(2). A negative pid is a process group; `ESRCH` for 0, which is no process but the caller's own group, and
/// for -1, which is everybody. Prefer [`pidfd_signal`].
pub fn kill(pid: i32, signal: i32) -> Result<()> {
    if matches!(pid, 0 | -1) {
        return Err(Error::new("kill", libc::ESRCH));
    }
    // SAFETY: plain integers.
    check("kill", unsafe { libc::kill(pid, signal) } as _).map(|_| ())
}

/// Whether there is a process with this pid, which may have ended and not been reaped. Needs no descriptor.
pub fn exists(pid: i32) -> bool {
    !matches!(kill(pid, 0), Err(e) if e.errno == libc::ESRCH)
}

/// Becomes the process that orphaned descendants are re-parented to (prctl(2)).
pub fn set_child_subreaper(on: bool) -> Result<()> {
    // SAFETY: plain integers.
    let ret = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, on as libc::c_ulong, 0, 0, 0) };
    check("prctl PR_SET_CHILD_SUBREAPER", ret as _).map(|_| ())
}

/// The signal this process gets when its parent ends; 0 for none.
pub fn set_parent_death_signal(signal: i32) -> Result<()> {
    // SAFETY: plain integers.
    let ret = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0) };
    check("prctl PR_SET_PDEATHSIG", ret as _).map(|_| ())
}

/// Has a command's process get this signal when the thread that starts it ends, also if that is so before it has begun
/// with its program: it does not begin then.
pub fn end_with_parent(command: &mut Command, signal: i32) -> &mut Command {
    let parent = std::process::id();
    let begin = move || {
        set_parent_death_signal(signal).map_err(|e| std::io::Error::from_raw_os_error(e.errno))?;
        match std::os::unix::process::parent_id() == parent {
            true => Ok(()),
            false => Err(std::io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: it makes two system calls, and neither takes a lock nor memory.
    unsafe { command.pre_exec(begin) }
}

/// Gives the calling thread file descriptors of its own: the standard ones and those of `keep`, which have
/// the same numbers, and no other. What the process has open is then not held open by this thread.
///
/// Whatever else the thread uses from then on it must open itself.
pub fn keep_only_descriptors(keep: &[BorrowedFd<'_>]) -> Result<()> {
    const FIRST: u32 = 3;
    let mut keep: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    keep.sort_unstable();
    let close = |first: u32, last: u32| {
        // SAFETY: plain integers. The table that is changed is this thread's own, so that nobody else's
        // descriptors are closed.
        let ret = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        check("close_range", ret).map(|_| ())
    };
    // SAFETY: a plain integer.
    check("unshare", i64::from(unsafe { libc::unshare(libc::CLONE_FILES) }))?;
    let mut next = FIRST;
    for kept in keep {
        if kept > next {
            close(next, kept - 1)?;
        }
        next = next.max(kept + 1);
    }
    close(next, u32::MAX)
}

/// Whether a process runs as this user, both really and effectively (proc_pid_status(5)); `false` when it is gone.
pub fn runs_as(pid: u32, uid: u32) -> bool {
    let text = text::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut users = line.split_ascii_whitespace().take(2).map(str::parse);
    users.next() == Some(Ok(uid)) && users.next() == Some(Ok(uid))
}

/// The real user and group of a process (proc_pid_status(5)); `None` when it is gone.
pub fn real_ids(pid: u32) -> Option<(u32, u32)> {
    let text = text::read(format!("/proc/{pid}/status")).ok()?;
    let real = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Some((real("Uid:")?, real("Gid:")?))
}

/// Whether each thread of a process has been sent SIGKILL or is past its last instruction (proc_pid_status(5), `SigPnd`
/// and `ShdPnd`; proc_pid_stat(5), `flags`): it is just ending, or the kernel holds it. `false` when it is gone, and
/// while others go on whose first thread has ended (pthread_exit(3)).
pub fn is_ending(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let mut threads = threads.flatten().filter_map(|thread| is_thread_ending(&thread.path()));
    // Those that are gone by now say nothing.
    threads.next().is_some_and(|first| first && threads.all(|ending| ending))
}

/// The same of one thread; `None` when it is gone.
fn is_thread_ending(thread: &Path) -> Option<bool> {
    const SIGKILL: u32 = 9;
    /// linux/sched.h, `PF_EXITING`.
    const EXITING: u64 = 4;
    let text = text::read(thread.join("status")).ok()?;
    let pending = |line: &str| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    if text.lines().filter_map(pending).any(|mask| mask & (1 << (SIGKILL - 1)) != 0) {
        return Some(true);
    }
    let text = text::read(thread.join("stat")).ok()?;
    // Behind the name, which may have spaces, it is the seventh.
    let flags = text.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6));
    Some(
        flags.and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & EXITING != 0),
    )
}

/// Names this process as ps(1) shows it; cut to 15 bytes.
pub fn set_name(name: &str) -> Result<()> {
    let mut bytes = [0u8; 16];
    for (to, from) in bytes.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    // SAFETY: the kernel reads at most 16 bytes of this local.
    check("prctl PR_SET_NAME", unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr()) } as _)
        .map(|_| ())
}

/// The path of the program that a process runs (`/proc/PID/exe`), with ` (deleted)` behind it when it
/// is on the disk no more. `ENOENT` for kernel threads and when the process has ended.
pub fn program(pid: i32) -> Result<String> {
    let path = format!("/proc/{pid}/exe");
    let program = fs::read_link(&path).call_on("readlink", &path)?;
    Ok(program.to_string_lossy().into_owned())
}

/// The tracer's pid of a process, 0 when nobody traces it (`TracerPid` of `/proc/PID/status`).
pub fn tracer(pid: i32) -> Result<i32> {
    Ok(status_field(pid, "TracerPid:")?.unwrap_or(0))
}

/// The parent's pid of a process.
pub fn parent(pid: i32) -> Result<i32> {
    Ok(status_field(pid, "PPid:")?.unwrap_or(0))
}

fn status_field(pid: i32, key: &str) -> Result<Option<i32>> {
    let text = text::read(format!("/proc/{pid}/status"))?;
    Ok(text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok()))
}

/// The cgroup v2 path of a process, from `/proc/PID/cgroup`, starting with `/`.
pub fn cgroup_path(pid: i32) -> Result<String> {
    let path = format!("/proc/{pid}/cgroup");
    let text = text::read(&path)?;
    crate::cgroup::parse_own_path(&text).ok_or(Error::at("parse cgroup", &path, libc::ENOENT))
}

/// When a process was started, in clock ticks since boot: with the pid, the name of exactly one
/// process of this boot (field 22 of `/proc/PID/stat`).
pub fn start_ticks(pid: i32) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let text = text::read(&path)?;
    parse_start_ticks(&text).ok_or(Error::at("parse stat", &path, libc::EINVAL))
}

/// What tells one program in a process from the next, before and after an exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// When the process was started, clock ticks since boot.
    pub started: u64,
    name: String,
    /// Where the program's code begins and its stack ended, which the kernel chooses at each exec; fixed
    /// numbers for who may not trace the process.
    places: [u64; 2],
}

/// The program in a process (proc_pid_stat(5)).
pub fn image(pid: i32) -> Result<Image> {
    let path = format!("/proc/{pid}/stat");
    let text = text::read(&path)?;
    parse_image(&text).ok_or(Error::at("parse stat", &path, libc::EINVAL))
}

fn parse_image(stat: &str) -> Option<Image> {
    let (before, rest) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let mut fields = rest.split_ascii_whitespace().skip(19);
    let mut next = |skipped: usize| fields.nth(skipped)?.parse().ok();
    Some(Image { started: next(0)?, name, places: [next(3)?, next(1)?] })
}

/// Whether a process is no older than a moment of CLOCK_MONOTONIC in nanoseconds, as exactly as
/// the kernel tells: to a clock tick, in favour of yes. `false` when it is gone.
pub fn is_younger(pid: i32, than_ns: u64) -> bool {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let asleep_ns = crate::time::boottime_ns().saturating_sub(crate::time::monotonic_ns());
    start_ticks(pid).is_ok_and(|ticks| (ticks + 1) * tick_ns >= than_ns.saturating_add(asleep_ns))
}

/// The command name may hold blanks and parentheses: fields are counted after the last `)`.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether a process runs or waits for a processor only (state `R`, proc_pid_stat(5)); `false` when
/// it is gone.
pub fn is_runnable(pid: i32) -> bool {
    let text = text::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rfind(')').and_then(|at| text.get(at + 1..)).unwrap_or_default();
    rest.trim_start().starts_with('R')
}

/// True while the pidfd's process has not ended.
pub fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let fd = pidfd.as_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(0))
}

/// Whether a pidfd's process ends in this time.
pub fn ends_within(pidfd: impl AsFd, within: std::time::Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let until = std::time::Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Which of these pidfds' processes have ended, in order; all when the system does not say.
pub fn have_ended<'a>(pidfds: impl Iterator<Item = BorrowedFd<'a>>) -> Vec<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let pidfds: Vec<BorrowedFd<'a>> = pidfds.collect();
    let mut fds: Vec<PollFd<'_>> = pidfds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(0) => vec![false; fds.len()],
        Ok(_) => fds.iter().map(|fd| !fd.revents().is_empty()).collect(),
        Err(_) => vec![true; fds.len()],
    }
}

/// The inode of a pidfd: since Linux 6.9 every process has one of its own, which no other process gets
/// before the next boot (on 64 bits). `None` from older kernels.
pub fn pidfd_inode(pidfd: BorrowedFd<'_>) -> Option<u64> {
    /// PID_FS_MAGIC of the kernel.
    const PID_FS_MAGIC: u64 = 0x5049_4446;
    let system = rustix::fs::fstatfs(pidfd).ok()?;
    if system.f_type as u64 != PID_FS_MAGIC {
        return None;
    }
    rustix::fs::fstat(pidfd).ok().map(|stat| stat.st_ino)
}

/// Effective user and group id of this process.
pub fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// The groups of this process: real, effective and auxiliary.
pub fn own_groups() -> Vec<u32> {
    let mut gids: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().iter().map(|gid| gid.as_raw()).collect();
    gids.extend([rustix::process::getgid().as_raw(), rustix::process::getegid().as_raw()]);
    gids
}

/// The home of whoever runs this: `$HOME`, or without that root's, and `/` for others.
pub fn own_home() -> String {
    home(std::env::var("HOME").ok(), own_ids().0)
}

fn home(said: Option<String>, uid: u32) -> String {
    said.unwrap_or_else(|| if uid == 0 { "/root".to_owned() } else { "/".to_owned() })
}

/// How many descriptors this process may have open.
pub fn open_files_max() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the soft limit on open files to `wanted` or to the hard limit, whichever is less, and
/// tries to raise the hard limit first. Returns the soft limit now in force.
pub fn raise_open_files(wanted: u64) -> Result<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let hard = now.maximum.unwrap_or(u64::MAX);
    let higher = Rlimit { current: Some(wanted), maximum: Some(hard.max(wanted)) };
    if setrlimit(Resource::Nofile, higher).is_ok() {
        return Ok(wanted);
    }
    let soft = wanted.min(hard);
    let limit = Rlimit { current: Some(soft), maximum: now.maximum };
    setrlimit(Resource::Nofile, limit).call("setrlimit RLIMIT_NOFILE")?;
    Ok(soft)
}

/// Raises the soft limit on open files to the hard one, which stays what the administrator said.
/// Returns it.
pub fn use_all_open_files() -> Result<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .call("setrlimit RLIMIT_NOFILE")?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Whether this process runs in a container: its PID 1 was told so in the environment
/// (`container=`, the convention of container managers), or it is not in the initial pid namespace.
pub fn in_container() -> bool {
    /// Inode of the initial pid namespace (linux/proc_ns.h, `PROC_PID_INIT_INO`).
    const INITIAL: &str = "pid:[4026531836]";
    let told = |env: &[u8]| env.split(|&b| b == 0).any(|v| v.starts_with(b"container="));
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    std::env::var_os("container").is_some()
        || std::fs::read("/proc/1/environ").is_ok_and(|env| told(&env))
        || !namespace.is_ok_and(|name| name.as_os_str() == INITIAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn who_runs_is_not_ending_and_a_zombie_is() {
        let mut child = Command::new("/bin/sleep").arg("1000").spawn().expect("sleep");
        assert!(!is_ending(child.id()) && !is_ending(std::process::id()));
        child.kill().expect("our child");
        let pidfd = pidfd_open(child.id() as i32).expect("it is there until it is waited for");
        warren_testkit::wait_until("the process ends", || !is_alive(pidfd.as_fd()));
        assert!(is_ending(child.id()));
        child.wait().expect("our child");
    }

    /// A process whose first thread ends at once, while another sleeps.
    fn without_first_thread() -> i32 {
        // SAFETY: the new process makes a thread, which the C library allows it, and then system calls alone.
        match unsafe { libc::fork() } {
            0 => {
                std::thread::spawn(|| {
                    loop {
                        std::thread::park();
                    }
                });
                // SAFETY: a plain integer; it ends this thread, which holds nothing that the other needs.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
                std::process::abort()
            }
            pid => pid,
        }
    }

    #[test]
    fn who_goes_on_without_its_first_thread_is_not_ending() {
        let pid = without_first_thread();
        let pidfd = pidfd_open(pid).expect("it is there until it is waited for");
        let first = format!("/proc/{pid}/task/{pid}");
        warren_testkit::wait_until("the first thread ends", || {
            is_thread_ending(Path::new(&first)) == Some(true)
        });
        assert!(is_alive(pidfd.as_fd()) && !is_ending(pid as u32));
        kill(pid, 9).expect("our child");
        warren_testkit::wait_until("the process ends", || !is_alive(pidfd.as_fd()));
        assert!(is_ending(pid as u32));
        wait(Wait::Pid(pid), true).expect("our child");
    }

    #[test]
    fn who_is_told_of_no_home_has_none_but_root() {
        assert_eq!(home(Some("/home/a".to_owned()), 0), "/home/a");
        assert_eq!((&*home(None, 0), &*home(None, 1000)), ("/root", "/"));
    }

    #[test]
    fn who_runs_is_runnable_and_who_waits_is_not() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        let busy = busy.as_mut().expect("sh is there");
        warren_testkit::wait_until("the shell runs", || is_runnable(busy.id() as i32));
        busy.kill().and_then(|()| busy.wait()).expect("it is our child");
        assert!(!is_runnable(busy.id() as i32));
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn();
        let child = child.as_mut().expect("cat is there");
        warren_testkit::wait_until("cat waits", || !is_runnable(child.id() as i32));
        drop(child.stdin.take());
        child.wait().expect("it is our child");
        assert!(!is_runnable(child.id() as i32));
    }

    #[track_caller]
    #[expect(clippy::zombie_processes, reason = "the function under test reaps it")]
    fn check_exit(script: &str, expected: ExitKind) {
        let child = Command::new("/bin/sh").args(["-c", script]).spawn().expect("sh is there");
        let pid = child.id() as i32;
        let exit = wait(Wait::Pid(pid), true).expect("it is our child").expect("it has ended");
        assert_eq!((exit.pid, exit.kind), (pid, expected));
    }

    #[test]
    fn exits_and_signals_are_told_apart() {
        check_exit("exit 7", ExitKind::Exited(7));
        check_exit("kill -9 $$", ExitKind::Killed(9));
        check_exit("kill -TERM $$", ExitKind::Killed(15));
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "the function under test reaps it")]
    fn a_pidfd_names_its_process_until_it_is_reaped() {
        let mut child = Command::new("/bin/cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat is there");
        let pid = child.id() as i32;
        let fd = pidfd_open(pid).expect("the child exists");
        assert!(is_alive(fd.as_fd()));
        assert_eq!(pidfd_pid(fd.as_fd()), Ok(pid));
        assert_eq!(wait(Wait::PidFd(fd.as_fd()), false), Ok(None));
        assert!(exists(pid));
        pidfd_signal(fd.as_fd(), libc::SIGKILL).expect("the child exists");
        let exit = wait(Wait::PidFd(fd.as_fd()), true).expect("our child").expect("ended");
        assert_eq!(exit.kind, ExitKind::Killed(9));
        assert!(!is_alive(fd.as_fd()) && !exists(pid));
        assert_eq!(pidfd_pid(fd.as_fd()).map_err(|e| e.errno), Err(libc::ESRCH));
        drop(child.stdin.take());
    }

    #[test]
    fn the_parent_is_the_one_of_proc() {
        let pidfd = pidfd_open(std::process::id() as i32).expect("this process");
        let told = pidfd_parent(pidfd.as_fd());
        // An older kernel does not know.
        assert!(told.is_none_or(|told| told == std::os::unix::process::parent_id() as i32));
    }

    #[test]
    fn age_is_told_to_a_tick() {
        let own = std::process::id() as i32;
        assert!(is_younger(own, 0));
        assert!(!is_younger(own, crate::time::monotonic_ns() + 1_000_000_000));
    }

    #[test]
    fn start_ticks_are_found_behind_any_name() {
        let tail = (3..=30).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["(cat)", "(a b)", "(a) b)", "()"] {
            let line = format!("12 {name} {tail}");
            assert_eq!(parse_start_ticks(&line), Some(22), "{line}");
        }
        assert_eq!(parse_start_ticks("12 (cat"), None);
    }

    /// prctl(2), `PR_SET_NAME`.
    #[test]
    fn parent_and_age_are_known_of_who_has_a_name_that_is_no_text() {
        let look = || {
            // SAFETY: a terminated string.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"\xff) 1 (".as_ptr()) };
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            (parent(own), start_ticks(own).is_ok(), super::image(own).is_ok())
        };
        let found = std::thread::spawn(look).join().expect("it does not panic");
        assert_eq!(found, (Ok(std::os::unix::process::parent_id() as i32), true, true));
    }

    #[test]
    fn a_program_is_told_from_the_next() {
        let rest = (3..=40).map(|field| format!(" {field}")).collect::<String>();
        let image = parse_image(&format!("12 (a) (b)){rest}"));
        let (started, name, places) = (22, "a) (b)".to_owned(), [26, 28]);
        assert_eq!(image, Some(Image { started, name, places }));
        assert_eq!(parse_image("12 (cat) S 1"), None);
        let own = std::process::id() as i32;
        assert_eq!(super::image(own).expect("it runs").started, start_ticks(own).expect("it runs"));
    }
}
