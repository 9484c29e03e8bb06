//! A filter of system calls, seccomp(2), for a process that reads files and talks over descriptors
//! that it has already.
//!
//! The list is that of calls, not of programs: what allocates, starts threads, waits and reads. What
//! is not on it fails with `EPERM`, so that a C library of another version that tries a call for
//! speed goes on without it.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::error::{Error, Result};

/// Calls that change nothing beyond this process and its descriptors.
const HARMLESS: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    // Threads, which wait for each other, and the end.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_capget,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // Descriptors that it has.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    // What there is.
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fadvise64,
    // Of an instance that it has.
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
];

/// The older forms of some of them.
#[cfg(target_arch = "x86_64")]
const OLD_FORMS: &[libc::c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_access,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FORMS: &[libc::c_long] = &[];

/// Bits of open(2) by which something is changed or made.
const WRITING: u64 =
    (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_TMPFILE) as u64
        & !(libc::O_DIRECTORY as u64);

/// Holds this thread, and those that it starts from now on, to reading: files are opened for that
/// alone, no socket is made or connected, no program started, nothing mounted, nobody traced or
/// signalled. Also gives up gaining privileges by exec. There is no way back.
pub fn only_read() -> Result<()> {
    let fault = |_| Error::new("seccomp", libc::EINVAL);
    // clone3 hides its arguments behind a pointer: the C library is told that there is none.
    let hidden = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let no_such_call = SeccompAction::Errno(libc::ENOSYS as u32);
    install(hidden, SeccompAction::Allow, no_such_call)?;
    let rules = rules().map_err(fault)?;
    install(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// Has this thread, and every program that it starts, find a kernel that cannot refuse file descriptors
/// ([`crate::fdpass::refuse_fds`]): for tests of what is done before Linux 6.16. It may gain no privileges then.
///
/// # Errors
/// When the kernel has no filters.
pub fn without_refusal() -> Result<()> {
    let fault = |_| Error::new("seccomp", libc::EINVAL);
    let is = |argument, value: libc::c_int| {
        let equals = SeccompCmpOp::Eq;
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, equals, value as u64)
    };
    let both = [is(1, libc::SOL_SOCKET), is(2, crate::fdpass::SO_PASSRIGHTS)];
    let both = both.into_iter().collect::<std::result::Result<Vec<_>, _>>().map_err(fault)?;
    let rule = SeccompRule::new(both).map_err(fault)?;
    let rules = BTreeMap::from([(libc::SYS_setsockopt, vec![rule])]);
    install(rules, SeccompAction::Allow, SeccompAction::Errno(libc::ENOPROTOOPT as u32))
}

type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

fn rules() -> std::result::Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules =
        HARMLESS.iter().chain(OLD_FORMS).map(|&call| (call, Vec::new())).collect();
    // The other filter answers for it.
    rules.insert(libc::SYS_clone3, Vec::new());
    let when = |argument, mask: u64, value: u64| -> std::result::Result<_, _> {
        let holds = SeccompCmpOp::MaskedEq(mask);
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, holds, value)?;
        SeccompRule::new(vec![condition])
    };
    let is = |argument, value: libc::c_int| when(argument, u64::from(u32::MAX), value as u64);
    rules.insert(libc::SYS_openat, vec![when(2, WRITING, libc::O_RDONLY as u64)?]);
    let threads = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
    rules.insert(libc::SYS_clone, vec![when(0, threads, threads)?]);
    rules.insert(libc::SYS_prctl, vec![is(0, libc::PR_SET_NAME)?, is(0, libc::PR_GET_NAME)?]);
    Ok(rules)
}

fn install(rules: Rules, other: SeccompAction, listed: SeccompAction) -> Result<()> {
    let fault = |_| Error::new("seccomp", libc::EINVAL);
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| Error::new("seccomp: this architecture", libc::ENOSYS))?;
    let filter = SeccompFilter::new(rules, other, listed, arch).map_err(fault)?;
    let program: BpfProgram = filter.try_into().map_err(fault)?;
    seccompiler::apply_filter(&program).map_err(|error| match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
            Error::new("seccomp", error.raw_os_error().unwrap_or(libc::EINVAL))
        }
        _ => Error::new("seccomp", libc::EINVAL),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::ErrorKind::PermissionDenied;

    /// In a thread, which takes the filter with it to its end.
    fn held<T: Send + 'static>(body: fn() -> T) -> T {
        let run = move || {
            only_read().expect("the kernel takes the filter");
            body()
        };
        std::thread::spawn(run).join().expect("the thread ends well")
    }

    #[test]
    fn what_is_not_reading_fails() {
        let tries = held(|| {
            let path = std::env::temp_dir().join(format!("warren-held-{}", std::process::id()));
            let own = std::process::id() as i32;
            let kinds = |result: std::io::Result<()>| result.map_err(|error| error.kind());
            [
                ("make a file", kinds(fs::write(&path, "x"))),
                (
                    "open to write",
                    kinds(fs::File::options().write(true).open("/dev/null").map(drop)),
                ),
                ("append", kinds(fs::File::options().append(true).open("/dev/null").map(drop))),
                ("remove", kinds(fs::remove_file("/nowhere/x"))),
                ("connect", kinds(std::os::unix::net::UnixStream::connect("/x").map(drop))),
                ("run", kinds(std::process::Command::new("true").status().map(drop))),
                ("signal", crate::process::kill(own, 0).map_err(|e| kind(e.errno))),
                (
                    "mount",
                    crate::namespace::unshare(crate::namespace::Namespaces::MOUNT)
                        .map_err(|e| kind(e.errno)),
                ),
            ]
        });
        for (what, result) in tries {
            assert_eq!(result, Err(PermissionDenied), "{what}");
        }
    }

    fn kind(errno: i32) -> std::io::ErrorKind {
        std::io::Error::from_raw_os_error(errno).kind()
    }

    #[test]
    fn reading_and_threads_go_on() {
        let read = held(|| {
            let body = || fs::read("/proc/self/stat").map(|text| text.len() > 10);
            let names = fs::read_dir("/proc/self/fd").map(|names| names.count() > 0);
            let memory = crate::memfd::sealed("x", b"text").is_ok();
            (std::thread::spawn(body).join().expect("a thread"), names, memory)
        });
        assert!(matches!(read, (Ok(true), Ok(true), true)), "{read:?}");
    }
}
