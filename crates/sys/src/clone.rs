//! Making a process: clone3(2) the way vfork(2) works, on a stack of its own.
//!
//! The new process borrows the caller's memory until it has exec'd or ended, and the calling
//! thread sleeps so long: no page table is copied, whatever the size of the caller. With
//! `CLONE_INTO_CGROUP` it is born in its cgroup, with `CLONE_PIDFD` its pidfd is there before
//! anything can go wrong, and with `CLONE_PARENT` it is its creator's sibling.
//!
//! What the closure may do is said at [`spawn`]. It decides nothing else.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use crate::error::{Error, Result, last_errno};

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_PARENT: u64 = 0x8000;
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// `struct clone_args` of clone3(2), version 2 (Linux 5.7).
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// What the process is made with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Directory fd of the cgroup it is born in.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Make it a child of the caller's parent. The caller's own exit signal is then its, too.
    /// `EINVAL` when the caller is the first process of a pid namespace.
    pub sibling: bool,
    /// Make it the first process of a pid namespace of its own.
    pub pid_namespace: bool,
}

/// A process just made.
#[derive(Debug)]
pub struct Child {
    /// Its pid in the caller's pid namespace.
    pub pid: i32,
    /// Its pidfd, close-on-exec.
    pub pidfd: OwnedFd,
}

/// Told to the closure in the new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newborn {
    /// False when the kernel could not make the process in [`Options::cgroup`]: it must move
    /// itself before it execs.
    pub in_cgroup: bool,
    /// Its pid in the caller's pid namespace.
    pub pid: i32,
}

/// Memory that new processes run on until they exec. Made once and reused.
#[derive(Debug)]
pub struct Stack {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping is this value's alone, whichever thread has it.
unsafe impl Send for Stack {}

/// Lowest page of every stack: not accessible, so that an overflow kills instead of corrupting.
const GUARD_BYTES: usize = 16 << 10;

impl Stack {
    /// A stack of 256 KiB plus a guard.
    pub fn new() -> Result<Stack> {
        let bytes = (256 << 10) + GUARD_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::new("mmap stack", last_errno()));
        }
        // SAFETY: the guard is the first part of the mapping just made.
        unsafe { libc::mprotect(base, GUARD_BYTES, libc::PROT_NONE) };
        let base = NonNull::new(base).ok_or(Error::new("mmap stack", libc::ENOMEM))?;
        Ok(Stack { base, bytes })
    }

    /// The usable part: lowest address and size.
    fn usable(&self) -> (u64, u64) {
        (self.base.as_ptr() as u64 + GUARD_BYTES as u64, (self.bytes - GUARD_BYTES) as u64)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; nobody runs on it, as `spawn` borrows it mutably
        // until the new process has left it.
        unsafe { libc::munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// The closure as the new process gets it: a thin pointer to a fat one.
struct Entry<'a> {
    body: &'a mut dyn FnMut(Newborn) -> i32,
    newborn: Newborn,
}

/// First code of the new process. Leaves by exec inside the closure or by `_exit`.
extern "C" fn enter(entry: *mut c_void) -> ! {
    // SAFETY: `spawn` passes a pointer to an Entry on its own frame, which stays as it is until
    // this process has exec'd or exited, because CLONE_VFORK suspends the calling thread.
    let entry = unsafe { &mut *entry.cast::<Entry<'_>>() };
    if entry.newborn.pid == 0 {
        // The old call tells it to its caller alone.
        entry.newborn.pid = crate::child::own_pid();
    }
    let code = (entry.body)(entry.newborn);
    // SAFETY: exit_group does not return. No destructors of the caller's may run here.
    unsafe { libc::syscall(libc::SYS_exit_group, code) };
    std::process::abort()
}

/// Makes a process that runs `body` and then exits with what it returned, unless it exec'd.
/// Returns when the process has exec'd or ended.
///
/// `body` runs in the caller's memory with the calling thread asleep: what it writes to captured
/// variables is seen by the caller. It must not take locks that another thread may hold (so
/// allocate only in single-threaded programs), and a panic in it aborts the new process. Fds are
/// its own copies; handlers of signals are reset, ignored signals stay ignored.
///
/// Where the kernel or a seccomp filter knows no clone3 or no `CLONE_INTO_CGROUP`, the process
/// is made without and [`Newborn::in_cgroup`] is false.
pub fn spawn(
    options: &Options<'_>,
    stack: &mut Stack,
    body: &mut dyn FnMut(Newborn) -> i32,
) -> Result<Child> {
    let newborn = Newborn { in_cgroup: options.cgroup.is_some(), pid: 0 };
    let mut entry = Entry { body, newborn };
    match clone3(options, stack, &mut entry) {
        Err(errno) if needs_fallback(errno) => {}
        result => return result.map_err(|errno| Error::new("clone3", errno)),
    }
    entry.newborn.in_cgroup = false;
    let plain = Options { cgroup: None, ..*options };
    if options.cgroup.is_some() {
        match clone3(&plain, stack, &mut entry) {
            Err(errno) if needs_fallback(errno) => {}
            result => return result.map_err(|errno| Error::new("clone3", errno)),
        }
    }
    if options.pid_namespace {
        // It could not learn its pid.
        return clone3(&plain, stack, &mut entry).map_err(|errno| Error::new("clone3", errno));
    }
    clone(&plain, stack, &mut entry).map_err(|errno| Error::new("clone", errno))
}

/// Errors that mean "this kernel or filter does not know that": old kernels answer E2BIG or
/// EINVAL to unknown arguments, filters ENOSYS or EPERM.
fn needs_fallback(errno: i32) -> bool {
    matches!(errno, libc::ENOSYS | libc::E2BIG | libc::EINVAL | libc::EPERM)
}

fn clone3(
    options: &Options<'_>,
    stack: &mut Stack,
    entry: &mut Entry<'_>,
) -> std::result::Result<Child, i32> {
    let mut pidfd: RawFd = -1;
    let (low, size) = stack.usable();
    let mut args = CloneArgs {
        flags: flags(options) | CLONE_CLEAR_SIGHAND | CLONE_PARENT_SETTID,
        pidfd: &raw mut pidfd as u64,
        // Written before the process runs.
        parent_tid: &raw mut entry.newborn.pid as u64,
        // With CLONE_PARENT the exit signal is the caller's and none may be given here.
        exit_signal: if options.sibling { 0 } else { libc::SIGCHLD as u64 },
        stack: low,
        stack_size: size,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = options.cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: args and entry live until the call returns here, which CLONE_VFORK delays until
    // the child has left this memory; the stack is exclusively borrowed and 16-byte aligned.
    let ret = unsafe { shim::clone3(&args, size_of::<CloneArgs>(), enter, entry_ptr(entry)) };
    made(ret, pidfd)
}

fn clone(
    options: &Options<'_>,
    stack: &mut Stack,
    entry: &mut Entry<'_>,
) -> std::result::Result<Child, i32> {
    let mut pidfd: RawFd = -1;
    let (low, size) = stack.usable();
    let flags = flags(options) | if options.sibling { 0 } else { libc::SIGCHLD as u64 };
    entry.newborn.pid = 0;
    // SAFETY: as in `clone3` above; the legacy call stores the pidfd where parent_tid points.
    let ret = unsafe { shim::clone(flags, low + size, &raw mut pidfd, enter, entry_ptr(entry)) };
    made(ret, pidfd)
}

fn flags(options: &Options<'_>) -> u64 {
    let sibling = if options.sibling { CLONE_PARENT } else { 0 };
    let own_pids = if options.pid_namespace { libc::CLONE_NEWPID as u64 } else { 0 };
    CLONE_VM | CLONE_VFORK | CLONE_PIDFD | sibling | own_pids
}

/// Makes a process that shares the caller's memory and runs beside it, on a stack of its own, with these flags of
/// clone(2) more. Returns its pid, or a negative error number.
///
/// # Safety
/// Stack and `entry` must stay as they are until the process has ended, whatever becomes of the caller's thread. `enter`
/// must not touch what is a thread's own, as `errno`: that is the caller's.
pub(crate) unsafe fn start_beside(
    flags: u64,
    stack: &Stack,
    pidfd: &mut RawFd,
    enter: extern "C" fn(*mut c_void) -> !,
    entry: *mut c_void,
) -> i64 {
    let (low, size) = stack.usable();
    let flags = CLONE_VM | CLONE_PIDFD | libc::SIGCHLD as u64 | flags;
    // SAFETY: promised by the caller; the pidfd is stored before the call returns.
    unsafe { shim::clone(flags, low + size, pidfd, enter, entry) }
}

fn entry_ptr(entry: &mut Entry<'_>) -> *mut c_void {
    (entry as *mut Entry<'_>).cast()
}

fn made(ret: i64, pidfd: RawFd) -> std::result::Result<Child, i32> {
    if ret < 0 {
        return Err(-ret as i32);
    }
    // SAFETY: on success the kernel stored a new fd that nobody else owns.
    Ok(Child { pid: ret as i32, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

#[cfg(target_arch = "x86_64")]
mod shim {
    use super::{CloneArgs, RawFd, c_void};
    use std::arch::asm;

    /// Raw clone3. In the child, which starts on the new stack, calls `enter(entry)`.
    ///
    /// # Safety
    /// `args` must name an exclusive stack and have CLONE_VFORK set; `entry` must stay valid
    /// until the call returns.
    pub unsafe fn clone3(
        args: *const CloneArgs,
        bytes: usize,
        enter: extern "C" fn(*mut c_void) -> !,
        entry: *mut c_void,
    ) -> i64 {
        let ret: i64;
        // SAFETY: promised by the caller; the child never comes back here.
        unsafe {
            asm!(
                "syscall", "test rax, rax", "jnz 2f",
                "xor ebp, ebp", "mov rdi, r9", "call r8", "ud2",
                "2:",
                inlateout("rax") libc::SYS_clone3 => ret,
                in("rdi") args, in("rsi") bytes, in("r8") enter, in("r9") entry,
                out("rcx") _, out("r11") _,
            );
        }
        ret
    }

    /// Raw clone.
    ///
    /// # Safety
    /// As for [`clone3`], or with no CLONE_VFORK if stack and `entry` outlive the process; `stack` is the address just
    /// above the stack.
    pub unsafe fn clone(
        flags: u64,
        stack: u64,
        pidfd: *mut RawFd,
        enter: extern "C" fn(*mut c_void) -> !,
        entry: *mut c_void,
    ) -> i64 {
        let ret: i64;
        // SAFETY: promised by the caller; the child never comes back here.
        unsafe {
            asm!(
                "syscall", "test rax, rax", "jnz 2f",
                "xor ebp, ebp", "mov rdi, r13", "call r12", "ud2",
                "2:",
                inlateout("rax") libc::SYS_clone => ret,
                in("rdi") flags, in("rsi") stack, in("rdx") pidfd, in("r10") 0u64,
                in("r8") 0u64, in("r12") enter, in("r13") entry,
                out("rcx") _, out("r11") _,
            );
        }
        ret
    }
}

#[cfg(target_arch = "aarch64")]
mod shim {
    use super::{CloneArgs, RawFd, c_void};
    use std::arch::asm;

    /// Raw clone3. In the child, which starts on the new stack, calls `enter(entry)`.
    ///
    /// # Safety
    /// `args` must name an exclusive stack and have CLONE_VFORK set; `entry` must stay valid
    /// until the call returns.
    pub unsafe fn clone3(
        args: *const CloneArgs,
        bytes: usize,
        enter: extern "C" fn(*mut c_void) -> !,
        entry: *mut c_void,
    ) -> i64 {
        let ret: i64;
        // SAFETY: promised by the caller; the child never comes back here.
        unsafe {
            asm!(
                "svc #0", "cbnz x0, 2f",
                "mov x29, xzr", "mov x0, x10", "blr x9", "brk #1",
                "2:",
                inlateout("x0") args => ret,
                in("x1") bytes, in("x8") libc::SYS_clone3, in("x9") enter, in("x10") entry,
            );
        }
        ret
    }

    /// Raw clone.
    ///
    /// # Safety
    /// As for [`clone3`], or with no CLONE_VFORK if stack and `entry` outlive the process; `stack` is the address just
    /// above the stack.
    pub unsafe fn clone(
        flags: u64,
        stack: u64,
        pidfd: *mut RawFd,
        enter: extern "C" fn(*mut c_void) -> !,
        entry: *mut c_void,
    ) -> i64 {
        let ret: i64;
        // SAFETY: promised by the caller; the child never comes back here.
        unsafe {
            asm!(
                "svc #0", "cbnz x0, 2f",
                "mov x29, xzr", "mov x0, x10", "blr x9", "brk #1",
                "2:",
                inlateout("x0") flags => ret,
                in("x1") stack, in("x2") pidfd, in("x3") 0u64, in("x4") 0u64,
                in("x8") libc::SYS_clone, in("x9") enter, in("x10") entry,
            );
        }
        ret
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{ExitKind, Wait, wait};
    use std::os::fd::AsFd;

    #[test]
    fn the_child_shares_memory_and_its_exit_is_seen() {
        let mut stack = Stack::new().expect("memory");
        for round in 0..3 {
            let mut seen = None;
            let mut body = |newborn: Newborn| {
                seen = Some(newborn);
                40 + round
            };
            let child = spawn(&Options::default(), &mut stack, &mut body).expect("clone");
            let exit = wait(Wait::PidFd(child.pidfd.as_fd()), true).expect("child").expect("end");
            assert_eq!((exit.pid, exit.kind), (child.pid, ExitKind::Exited(40 + round)));
            assert_eq!(seen, Some(Newborn { in_cgroup: false, pid: child.pid }));
        }
    }

    #[test]
    fn the_first_of_a_pid_namespace_knows_both_of_its_pids() {
        let mut stack = Stack::new().expect("memory");
        let mut seen = None;
        let mut body = |newborn: Newborn| {
            seen = Some((newborn.pid, crate::child::own_pid()));
            0
        };
        let options = Options { pid_namespace: true, ..Options::default() };
        let child = match spawn(&options, &mut stack, &mut body) {
            Err(e) if e.errno == libc::EPERM => {
                return crate::test_not_run(
                    "the_first_of_a_pid_namespace_knows_both_of_its_pids",
                    "CAP_SYS_ADMIN",
                );
            }
            made => made.expect("clone"),
        };
        wait(Wait::PidFd(child.pidfd.as_fd()), true).expect("child").expect("end");
        assert_eq!(seen, Some((child.pid, 1)));
    }

    #[test]
    fn the_old_call_does_the_same() {
        let mut stack = Stack::new().expect("memory");
        let mut ran = 0;
        let mut body = |newborn: Newborn| {
            ran = newborn.pid;
            7
        };
        let newborn = Newborn { in_cgroup: false, pid: 0 };
        let mut entry = Entry { body: &mut body, newborn };
        let child = clone(&Options::default(), &mut stack, &mut entry).expect("clone");
        let exit = wait(Wait::PidFd(child.pidfd.as_fd()), true).expect("child").expect("end");
        assert_eq!(exit.kind, ExitKind::Exited(7));
        assert_eq!(ran, child.pid);
    }

    #[test]
    fn a_bad_cgroup_is_an_error_and_no_process() {
        let mut stack = Stack::new().expect("memory");
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        let options = Options { cgroup: Some(null.as_fd()), ..Options::default() };
        let mut ran = false;
        let result = spawn(&options, &mut stack, &mut |_| {
            ran = true;
            0
        });
        assert_eq!(result.map(|c| c.pid).map_err(|e| e.errno), Err(libc::EBADF));
        assert!(!ran);
    }
}
