//! The last moments of a process that has made a fault: a signal of the processor, or abort(3).
//!
//! What is called from there runs in a handler of a signal, amid whatever the process was at: each function here is a
//! few raw system calls, allocates nothing and takes no lock.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use crate::error::{Error, Result, check, last_errno};
use crate::process::{self, Wait};

/// The signals of a fault: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS.
const FAULTS: [i32; 6] =
    [libc::SIGILL, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];

/// The handler's own stack: that of the process may be used up.
const STACK_BYTES: usize = 64 << 10;

/// What is called, a `fn(i32) -> !`; 0 while nobody watches.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Who watches: what it makes is another process with the same handlers, until it executes its program.
static WATCHER: AtomicI32 = AtomicI32::new(0);

/// It was called: what it does has made a fault as well.
static IS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Has a fault of the calling thread end in `last`, with the signal's number. Signals that a process sends are not of
/// that kind and do nothing: to process 1, whose kernel would not deliver them, they did nothing before.
pub fn watch(last: fn(i32) -> !) -> Result<()> {
    LAST.store(last as usize, Ordering::SeqCst);
    // SAFETY: no arguments.
    WATCHER.store(unsafe { libc::getpid() }, Ordering::SeqCst);
    let stack = Box::leak(vec![0u8; STACK_BYTES].into_boxed_slice());
    let stack =
        libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack is leaked, so that it lives as long as the thread.
    let ret = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
    check("sigaltstack", ret.into())?;
    for signal in FAULTS {
        // SAFETY: an all-zero sigaction is valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction =
            on_fault as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for, and the action lives over the call.
        let ret = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        check("sigaction", ret.into())?;
    }
    Ok(())
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel hands over a live siginfo; of a signal that a process sends it has the sender.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    // SAFETY: no arguments.
    let own = unsafe { libc::getpid() };
    if code <= 0 && sender != own {
        return;
    }
    if own != WATCHER.load(Ordering::SeqCst) {
        die_of(signal);
    }
    if IS_BEGUN.swap(true, Ordering::SeqCst) {
        die_of(signal);
    }
    let last = LAST.load(Ordering::SeqCst);
    // SAFETY: what is stored came from a function of this type, before the handler was installed.
    let last: fn(i32) -> ! = unsafe { std::mem::transmute(last) };
    last(signal)
}

/// Another process that goes on from here, as fork(2) makes it, without what the C library does besides: 0 in the new
/// one, there its number.
pub fn fork() -> Result<i32> {
    // SAFETY: a plain fork: no memory is shared, and no pointer is passed.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0usize, 0usize, 0usize, 0usize) };
    check("clone", pid as _).map(|pid| pid as i32)
}

/// Is killed by this signal, whatever is set for it; process 1 exits.
pub fn die_of(signal: i32) -> ! {
    let _ = crate::signal::set_ignored(signal, false);
    let _ = crate::signal::set_blocked(crate::signal::SignalSet::EMPTY);
    // SAFETY: plain integers.
    unsafe {
        libc::kill(libc::getpid(), signal);
        libc::_exit(128 + signal)
    }
}

/// Waits for the end of a child, for so many milliseconds at most.
pub fn wait_for(pid: i32, ms: i32) {
    let Ok(pidfd) = process::pidfd_open(pid) else { return };
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&raw mut poll, 1, ms) };
    let _ = process::wait(Wait::PidFd(pidfd.as_fd()), false);
}

/// Writes on standard error; what is not taken within a second is not written.
pub fn say(line: &[u8]) {
    let mut poll = libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one live pollfd, and a live slice.
    unsafe {
        if libc::poll(&raw mut poll, 1, 1000) == 1 {
            libc::write(2, line.as_ptr().cast(), line.len());
        }
    }
}

/// Ends this process and nothing else.
pub fn exit() -> ! {
    // SAFETY: a plain integer.
    unsafe { libc::_exit(0) }
}

/// Does nothing for so many milliseconds.
pub fn rest(ms: i32) {
    // SAFETY: no descriptors.
    unsafe { libc::poll(std::ptr::null_mut(), 0, ms) };
}

/// Reaps children for ever.
pub fn reap_for_ever() -> ! {
    loop {
        // SAFETY: no status is asked for.
        if unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } < 0 && last_errno() != libc::EINTR
        {
            // A child may come yet, whose parent ends.
            rest(1000);
        }
    }
}

/// Becomes sh(1) on a terminal, in a session of its own. Returns only on failure.
pub fn shell_on(terminal: &std::ffi::CStr) -> Error {
    let argv = [c"sh".as_ptr(), std::ptr::null()];
    let env = [
        c"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".as_ptr(),
        c"TERM=linux".as_ptr(),
        c"HOME=/".as_ptr(),
        std::ptr::null(),
    ];
    crate::signal::reset_all();
    let _ = crate::signal::set_blocked(crate::signal::SignalSet::EMPTY);
    // SAFETY: plain integers and strings that are static; the lists end with null.
    unsafe {
        libc::setsid();
        let fd = libc::open(terminal.as_ptr(), libc::O_RDWR);
        if fd < 0 {
            return Error::new("open", last_errno());
        }
        libc::ioctl(fd, libc::TIOCSCTTY, 1);
        for number in 0..3 {
            libc::dup2(fd, number);
        }
        libc::execve(c"/bin/sh".as_ptr(), argv.as_ptr(), env.as_ptr());
    }
    Error::new("execve", last_errno())
}

/// Shows a virtual terminal; 0 is the one that the kernel writes to (ioctl_console(2)).
pub fn show_terminal(number: u8) -> Result<()> {
    const VT_ACTIVATE: libc::c_ulong = 0x5606;
    const TIOCLINUX: libc::c_ulong = 0x541c;
    const GET_KMSG_REDIRECT: u8 = 17;
    // SAFETY: a static path; a byte that the kernel reads; a plain integer.
    unsafe {
        let fd = libc::open(c"/dev/tty0".as_ptr(), libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        check("open", fd.into())?;
        let number = match number {
            0 => {
                let mut ask = [GET_KMSG_REDIRECT, 0];
                libc::ioctl(fd, TIOCLINUX as _, ask.as_mut_ptr()).max(1)
            }
            number => number.into(),
        };
        let done = libc::ioctl(fd, VT_ACTIVATE as _, libc::c_ulong::try_from(number).unwrap_or(1));
        check("ioctl VT_ACTIVATE", done.into()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ExitKind;

    fn last(_: i32) -> ! {
        // SAFETY: a plain integer.
        unsafe { libc::_exit(77) }
    }

    /// A child that watches itself and does this.
    fn child(act: impl FnOnce()) -> i32 {
        let pid = fork().expect("it forks");
        if pid == 0 {
            if watch(last).is_ok() {
                act();
            }
            exit();
        }
        pid
    }

    fn end(pid: i32) -> ExitKind {
        let pidfd = process::pidfd_open(pid).expect("it is our child");
        let end = process::wait(Wait::PidFd(pidfd.as_fd()), true).expect("it is waited for");
        end.expect("it has ended").kind
    }

    #[test]
    fn a_fault_is_not_the_end_of_the_process() {
        let reads_nothing = || {
            let nowhere = std::hint::black_box(std::ptr::without_provenance::<u8>(8));
            // SAFETY: it is not: nothing is there, so that the processor makes a fault.
            std::hint::black_box(unsafe { nowhere.read_volatile() });
        };
        assert_eq!(end(child(reads_nothing)), ExitKind::Exited(77));
        // SAFETY: no arguments.
        assert_eq!(end(child(|| unsafe { libc::abort() })), ExitKind::Exited(77));
        let overflows = || {
            #[expect(unconditional_recursion, reason = "until there is no stack")]
            fn deeper(n: u64) -> u64 {
                std::hint::black_box([n; 64])[0] + deeper(n + 1)
            }
            std::hint::black_box(deeper(1));
        };
        assert_eq!(end(child(overflows)), ExitKind::Exited(77));
    }

    /// It has the handlers of its maker until it executes a program.
    #[test]
    fn what_a_watcher_makes_does_not_act_for_it() {
        let makes = || match fork() {
            // SAFETY: no arguments.
            Ok(0) => unsafe { libc::abort() },
            Ok(pid) => match end(pid) {
                ExitKind::Killed(libc::SIGABRT) | ExitKind::Dumped(libc::SIGABRT) => exit(),
                _ => last(0),
            },
            Err(_) => last(0),
        };
        assert_eq!(end(child(makes)), ExitKind::Exited(0));
    }

    #[test]
    fn a_signal_that_somebody_sends_is_no_fault() {
        use std::io::{Read, Write};
        let (mut said, mut says) = std::io::pipe().expect("a pipe");
        let (mut heard, mut hears) = std::io::pipe().expect("a pipe");
        let waits = || {
            // It watches by now. What it hears comes after the signals.
            let is_told = says.write_all(b"!").and_then(|()| heard.read_exact(&mut [0]));
            if is_told.is_err() {
                last(0);
            }
        };
        let pid = child(waits);
        said.read_exact(&mut [0]).expect("it is there");
        for signal in FAULTS {
            process::kill(pid, signal).expect("it is our child");
        }
        hears.write_all(b"!").expect("it reads");
        assert_eq!(end(pid), ExitKind::Exited(0));
    }
}
