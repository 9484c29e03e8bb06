//! Signals as a file: blocked masks and signalfd(2).

pub use libc::{
    SIGABRT, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGPWR, SIGQUIT, SIGSTOP, SIGTERM,
    SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Once;
use std::time::Duration;

use crate::error::{Error, Result, check};

/// A set of signals, bit `n - 1` for signal `n` (1 to 64): the kernel's own layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// No signal.
    pub const EMPTY: SignalSet = SignalSet(0);
    /// Every signal.
    pub const ALL: SignalSet = SignalSet(u64::MAX);

    /// The set with one more signal; others than 1 to 64 are left out.
    pub const fn with(self, signal: i32) -> SignalSet {
        match signal {
            1..=64 => SignalSet(self.0 | 1 << (signal - 1)),
            _ => self,
        }
    }

    /// The set without a signal.
    pub const fn without(self, signal: i32) -> SignalSet {
        SignalSet(self.0 & !SignalSet(0).with(signal).0)
    }

    /// The signals of both.
    pub const fn union(self, other: SignalSet) -> SignalSet {
        SignalSet(self.0 | other.0)
    }

    /// Is the signal in it?
    pub const fn contains(self, signal: i32) -> bool {
        matches!(signal, 1..=64) && self.0 & (1 << (signal - 1)) != 0
    }

    /// The signals in it, lowest first.
    pub fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |&n| self.contains(n))
    }
}

/// The first real-time signal as programs know it: the C library keeps two for itself.
pub const SIGRTMIN: i32 = 34;

/// As long as this lives, the thread that made it is interrupted again and again, by SIGURG: it comes back from a wait
/// that a signal ends (signal(7)), also while the kernel closes what was a socket that lingers (socket(7), `SO_LINGER`).
pub struct Interrupting(libc::timer_t);

impl Interrupting {
    /// Each time that `time` is over, timer_create(2).
    pub fn each(time: Duration) -> Result<Interrupting> {
        handle();
        // SAFETY: an all-zero sigevent is valid.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGURG;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both live over the call.
        let made =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        check("timer_create", made.into())?;
        let made = Interrupting(timer);
        let time =
            libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ };
        let times = libc::itimerspec { it_interval: time, it_value: time };
        // SAFETY: the timer was made, and the times live over the call.
        let set = unsafe { libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) };
        check("timer_settime", set.into()).map(|_| made)
    }
}

impl Drop for Interrupting {
    fn drop(&mut self) {
        // SAFETY: it was made, and nobody else has it.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Has SIGURG do nothing but interrupt.
fn handle() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: an all-zero sigaction is valid: no flags, so that nothing is begun again, and an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, and the action lives over the call.
        unsafe { libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()) };
    });
}

extern "C" fn do_nothing(_: libc::c_int) {}

/// Replaces the calling thread's mask of blocked signals and returns the old one. Raw call:
/// fit for a vfork child, and it can block the C library's internal signals too.
pub fn set_blocked(set: SignalSet) -> Result<SignalSet> {
    let mut old = SignalSet::EMPTY;
    // SAFETY: both pointers are to 8-byte masks that live over the call.
    let ret = unsafe {
        let how = libc::SIG_SETMASK;
        libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set.0, &raw mut old.0, 8)
    };
    check("rt_sigprocmask", ret).map(|_| old)
}

/// Has a command begin with these signals blocked, whatever is blocked here by then.
pub fn begin_with_blocked(command: &mut Command, set: SignalSet) -> &mut Command {
    let begin = move || match set_blocked(set) {
        Ok(_) => Ok(()),
        Err(error) => Err(std::io::Error::from_raw_os_error(error.errno)),
    };
    // SAFETY: it makes one system call, and neither takes a lock nor memory.
    unsafe { command.pre_exec(begin) }
}

/// Sets a signal's disposition to default or to ignored, for this process.
pub fn set_ignored(signal: i32, ignored: bool) -> Result<()> {
    let handler = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither SIG_IGN nor SIG_DFL runs code.
    let ret = unsafe { libc::signal(signal, handler) };
    if ret == libc::SIG_ERR { Err(Error::last("signal")) } else { Ok(()) }
}

/// Resets every signal to its default. The C library's own two, SIGKILL and SIGSTOP refuse,
/// which does not matter.
pub fn reset_all() {
    for signal in 1..=64 {
        let _ = set_ignored(signal, false);
    }
}

/// One signal taken from a [`SignalFd`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Its number.
    pub signal: i32,
    /// `si_code`: 0 kill(2), -1 sigqueue(3), 128 the kernel.
    pub code: i32,
    /// Sender's pid.
    pub pid: i32,
    /// Sender's user id.
    pub uid: u32,
    /// Value sent with it.
    pub value: i32,
}

/// A signalfd, non-blocking.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks the signals for this thread and makes them readable. Call before any thread is
    /// started: threads inherit the mask.
    pub fn new(set: SignalSet) -> Result<SignalFd> {
        set_blocked(set)?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the mask lives over the call; a successful call returns a new fd.
        unsafe {
            let mask = &raw const set.0;
            let fd = check("signalfd4", libc::syscall(libc::SYS_signalfd4, -1, mask, 8, flags))?;
            Ok(SignalFd(OwnedFd::from_raw_fd(fd as i32)))
        }
    }

    /// Takes one signal; `None` when there is none.
    pub fn read(&self) -> Result<Option<Info>> {
        // SAFETY: all-zero is a valid signalfd_siginfo.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of_val(&info);
        // SAFETY: reads at most the size of this local.
        let n = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
        match check("read signalfd", n as _) {
            Ok(n) if n as usize == size => Ok(Some(Info {
                signal: info.ssi_signo as i32,
                code: info.ssi_code,
                pid: info.ssi_pid as i32,
                uid: info.ssi_uid,
                value: info.ssi_int,
            })),
            Ok(_) => Ok(None),
            Err(e) if matches!(e.errno, libc::EAGAIN | libc::EINTR) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Names of the signals, as kill(1) and systemd.kill(5) write them.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// `SIGTERM`, `SIGRTMIN+3`; a number outside 1 to 64 as it is.
pub fn name(signal: i32) -> String {
    match usize::try_from(signal - 1).ok().and_then(|i| NAMES.get(i)) {
        Some(name) => format!("SIG{name}"),
        None if signal == SIGRTMIN => "SIGRTMIN".to_owned(),
        None if (SIGRTMIN..=64).contains(&signal) => format!("SIGRTMIN+{}", signal - SIGRTMIN),
        None => signal.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let set = SignalSet::EMPTY.with(1).with(64).with(15).with(65).with(0).without(15);
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 64]);
        assert!(SignalSet::ALL.contains(33));
    }

    #[test]
    fn names_are_those_of_the_manual() {
        for (signal, expected) in [
            (1, "SIGHUP"),
            (15, "SIGTERM"),
            (31, "SIGSYS"),
            (34, "SIGRTMIN"),
            (38, "SIGRTMIN+4"),
            (99, "99"),
        ] {
            assert_eq!(name(signal), expected);
        }
    }

    #[test]
    fn a_blocked_signal_is_read_from_the_fd() {
        let run = || {
            let fd = SignalFd::new(SignalSet::EMPTY.with(libc::SIGUSR1)).expect("signalfd");
            assert_eq!(fd.read(), Ok(None));
            // SAFETY: sends a blocked signal to this very thread.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
            let info = fd.read().expect("readable").expect("the signal is pending");
            assert_eq!((info.signal, info.pid), (libc::SIGUSR1, std::process::id() as i32));
        };
        std::thread::spawn(run).join().expect("the thread ends well");
    }

    #[test]
    fn a_thread_that_is_interrupted_comes_back_from_closing_sockets_that_linger() {
        let (listener, sockets) = crate::test_lingering::<2>();
        let interrupting = Interrupting::each(Duration::from_millis(5)).expect("a timer");
        drop(sockets);
        drop((interrupting, listener));
    }
}
