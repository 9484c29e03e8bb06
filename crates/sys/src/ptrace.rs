//! Following a program and all that it starts, call by call (ptrace(2)).
//!
//! One thread starts and follows: the kernel tells no other. All that is followed is killed when this process ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::ExitKind;

/// Longest text that is read from a process, in bytes: that of a path.
const TEXT_BYTES_MAX: usize = 4096;

/// Longest sleep between two looks at what has changed: another thread may take the signal that says so.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// What a syscall stop is told apart by (`PTRACE_O_TRACESYSGOOD`).
const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// A system call of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The task's number: a process or a thread.
    pub task: i32,
    /// `AUDIT_ARCH_*` of linux/audit.h: whose numbers these are.
    pub arch: u32,
    /// The call's number.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What is seen of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// A task is about to make a call.
    Entered(Call),
    /// The call has returned; negative is an error number.
    Left(Call, i64),
    /// A process or thread has ended.
    Ended(i32, ExitKind),
}

/// A program that is followed.
#[derive(Debug)]
pub struct Followed {
    main: i32,
    /// Tasks that are there, and the call that each is in.
    tasks: BTreeMap<i32, Option<Call>>,
    /// Tasks that stopped for the first time before their parent's word of them came.
    early: BTreeSet<i32>,
    /// Tasks whose parent's word of them came before their first stop.
    awaited: BTreeSet<i32>,
}

fn trace(request: libc::c_uint, task: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests of this module read no memory of ours but by `call_info`, which passes a live buffer.
    match unsafe { libc::ptrace(request, task, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// What the kernel says of the call that a task has stopped at.
fn call_info(task: i32) -> io::Result<libc::ptrace_syscall_info> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of_val(&info);
    trace(libc::PTRACE_GET_SYSCALL_INFO, task, size, (&raw mut info).addr())?;
    Ok(info)
}

/// A signal set with SIGCHLD alone.
fn child_signal() -> libc::sigset_t {
    // SAFETY: all-zero is a valid set; both calls are given a live one.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        set
    }
}

/// Sleeps until a child changes, or this time has passed.
fn sleep(time: Duration) {
    let set = child_signal();
    let time = libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    // SAFETY: both are live; an interruption is as good as an end of the time.
    unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time) };
}

/// A change of a task that was waited for: its number and status, or nothing for now.
fn changed() -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    // SAFETY: `status` is live.
    match unsafe {
        libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG)
    } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        task => Ok(Some((task, status))),
    }
}

impl Followed {
    /// Starts a command in a process group of its own; it has not run an instruction of its program yet.
    ///
    /// SIGCHLD is blocked for this thread from now on, and its other children are waited for, too.
    ///
    /// # Errors
    /// It cannot be started, or not be followed.
    pub fn start(command: &mut Command) -> io::Result<Followed> {
        let set = child_signal();
        // SAFETY: `set` is live. The command resets the mask in the child.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        command.process_group(0);
        // The kernel kills what is followed only once it has been told to.
        crate::process::end_with_parent(command, crate::signal::SIGKILL);
        // SAFETY: the call allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| trace(libc::PTRACE_TRACEME as libc::c_uint, 0, 0, 0));
        }
        let child = command.spawn()?;
        let main = child.id() as i32;
        let mut followed = Followed {
            main,
            tasks: BTreeMap::from([(main, None)]),
            early: BTreeSet::new(),
            awaited: BTreeSet::new(),
        };
        while changed()?.is_none() {
            sleep(SLEEP_MAX);
        }
        let options = libc::PTRACE_O_TRACESYSGOOD
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_EXITKILL;
        trace(libc::PTRACE_SETOPTIONS as libc::c_uint, main, 0, options as usize)?;
        followed.go_on(main, 0)?;
        Ok(followed)
    }

    /// The process that was started.
    pub fn main(&self) -> i32 {
        self.main
    }

    /// Processes that are there, without their threads.
    pub fn processes(&self) -> Vec<i32> {
        self.tasks.keys().copied().filter(|task| process_of(*task) == Some(*task)).collect()
    }

    /// Sends a signal to all processes that are there.
    pub fn signal(&self, signal: i32) {
        for process in self.processes() {
            // SAFETY: a number and a signal; tasks are waited for here alone, so the number is still theirs.
            unsafe { libc::kill(process, signal) };
        }
    }

    /// Follows until the time has come, or all have ended. Whether some are left.
    ///
    /// # Errors
    /// A task cannot be followed any more.
    pub fn follow(&mut self, until: Instant, seen: &mut dyn FnMut(Seen)) -> io::Result<bool> {
        while !self.tasks.is_empty() {
            match changed() {
                Ok(Some((task, status))) => self.take(task, status, seen)?,
                Ok(None) => match until.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => sleep(left.min(SLEEP_MAX)),
                    _ => break,
                },
                Err(e) if e.raw_os_error() == Some(libc::ECHILD) => self.tasks.clear(),
                Err(e) => return Err(e),
            }
        }
        Ok(!self.tasks.is_empty())
    }

    fn take(&mut self, task: i32, status: i32, seen: &mut dyn FnMut(Seen)) -> io::Result<()> {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            let kind = match libc::WIFEXITED(status) {
                true => ExitKind::Exited(libc::WEXITSTATUS(status)),
                false if libc::WCOREDUMP(status) => ExitKind::Dumped(libc::WTERMSIG(status)),
                false => ExitKind::Killed(libc::WTERMSIG(status)),
            };
            self.tasks.remove(&task);
            self.early.remove(&task);
            self.awaited.remove(&task);
            seen(Seen::Ended(task, kind));
            return Ok(());
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let deliver = match (signal, event) {
            (SYSCALL_STOP, _) => {
                self.call(task, seen);
                0
            }
            (_, libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE) => {
                let mut new: libc::c_ulong = 0;
                trace(libc::PTRACE_GETEVENTMSG as libc::c_uint, task, 0, (&raw mut new).addr())?;
                let new = i32::try_from(new).unwrap_or(0);
                self.tasks.insert(new, None);
                match self.early.remove(&new) {
                    true => self.go_on(new, 0)?,
                    false => _ = self.awaited.insert(new),
                }
                0
            }
            // Of a thread that execs its leader's number is left; other threads end and are told of.
            (_, event) if event != 0 => 0,
            (libc::SIGSTOP, _) if !self.tasks.contains_key(&task) => {
                self.early.insert(task);
                return Ok(());
            }
            // The first stop of a new task, which the kernel makes.
            (libc::SIGSTOP, _) if self.awaited.remove(&task) => 0,
            (signal, _) => signal,
        };
        self.go_on(task, deliver)
    }

    fn go_on(&mut self, task: i32, signal: i32) -> io::Result<()> {
        match trace(libc::PTRACE_SYSCALL as libc::c_uint, task, 0, signal as usize) {
            // Killed meanwhile: its end is told of.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }

    /// A task has stopped at a call, before or after it.
    fn call(&mut self, task: i32, seen: &mut dyn FnMut(Seen)) {
        let Ok(info) = call_info(task) else { return };
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                // SAFETY: the kernel says that this is what it filled.
                let entry = unsafe { info.u.entry };
                let (number, arguments) = (entry.nr, entry.args);
                let call = Call { task, arch: info.arch, number, arguments };
                self.tasks.insert(task, Some(call));
                seen(Seen::Entered(call));
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => {
                // SAFETY: the kernel says that this is what it filled.
                let result = unsafe { info.u.exit.sval };
                if let Some(call) = self.tasks.insert(task, None).flatten() {
                    seen(Seen::Left(call, result));
                }
            }
            _ => {}
        }
    }
}

/// The process of a task, as `/proc` says.
fn process_of(task: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{task}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Bytes of a stopped task's memory, as many as can be read of these.
pub fn bytes(task: i32, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let read = File::open(format!("/proc/{task}/mem"))
        .and_then(|memory| memory.read_at(&mut bytes, address));
    bytes.truncate(read.unwrap_or(0));
    bytes
}

/// A text of a stopped task's memory up to its NUL: a path, most often.
pub fn text(task: i32, address: u64) -> Option<Vec<u8>> {
    const PAGE_BYTES: u64 = 4096;
    let mut text = Vec::new();
    // What is behind the end of a page may not be there.
    while text.len() < TEXT_BYTES_MAX {
        let at = address + text.len() as u64;
        let part = bytes(task, at, (PAGE_BYTES - at % PAGE_BYTES) as usize);
        match part.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&part[..end]);
                return Some(text);
            }
            None if part.is_empty() => return None,
            None => text.extend(part),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_children_are_seen_and_signals_are_delivered() {
        let script = "cat /proc/version > /dev/null; sleep 1000 & (kill -TERM $$); sleep 1000";
        let mut followed =
            Followed::start(Command::new("/bin/sh").args(["-c", script])).expect("it starts");
        let (main, mut calls, mut opened, mut end) =
            (followed.main(), Vec::new(), Vec::new(), None);
        let mut look = |seen| match seen {
            Seen::Entered(call) => {
                calls.push(call.number);
                if call.number == libc::SYS_openat as u64 {
                    let path = text(call.task, call.arguments[1]).expect("a path");
                    opened.push(String::from_utf8(path).expect("text"));
                }
            }
            Seen::Ended(task, kind) if task == main => end = Some(kind),
            Seen::Left(..) | Seen::Ended(..) => {}
        };
        let soon = || Instant::now() + Duration::from_millis(50);
        warren_testkit::wait_until("the first process ends", || {
            followed.follow(soon(), &mut look).expect("it can be followed");
            !followed.processes().contains(&main)
        });
        // The one in the background is left.
        assert_eq!(followed.processes().len(), 1);
        followed.signal(libc::SIGKILL);
        warren_testkit::wait_until("all are gone", || {
            !followed.follow(soon(), &mut look).expect("it can be followed")
        });
        assert_eq!(end, Some(ExitKind::Killed(libc::SIGTERM)));
        assert!(opened.contains(&"/proc/version".to_owned()), "{opened:?}");
        assert!(calls.contains(&(libc::SYS_kill as u64)), "{calls:?}");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let started = Followed::start(&mut Command::new("/nonexistent"));
        assert_eq!(started.err().and_then(|e| e.raw_os_error()), Some(libc::ENOENT));
    }
}
