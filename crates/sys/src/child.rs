//! What a process does to itself before it execs; systemd.exec(5).
//!
//! Every function is one or two raw system calls and allocates nothing, so all are fit for the
//! closure of [`crate::clone::spawn`]. Credentials are changed by raw calls on purpose: the C
//! library's wrappers would try to change those of every thread.

use std::ffi::{CStr, CString, c_char};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::error::{Error, Result, check, last_errno};

/// Highest capability number that a mask can hold.
const CAPABILITIES: u32 = 64;

fn done(call: &'static str, ret: libc::c_long) -> Result<()> {
    check(call, ret).map(|_| ())
}

/// Sets real, effective and saved user id.
pub fn set_uid(uid: u32) -> Result<()> {
    // SAFETY: plain integers.
    done("setresuid", unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })
}

/// Sets real, effective and saved group id.
pub fn set_gid(gid: u32) -> Result<()> {
    // SAFETY: plain integers.
    done("setresgid", unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })
}

/// Keeps others of this process's user from looking at its memory, which before the exec is also its maker's. A change
/// of the user may open it again (fs.suid_dumpable), the exec makes another.
pub fn close_memory() -> Result<()> {
    prctl("prctl PR_SET_DUMPABLE", libc::PR_SET_DUMPABLE, 0, 0)
}

/// Sets the supplementary groups.
pub fn set_groups(gids: &[u32]) -> Result<()> {
    // SAFETY: the kernel reads `len` ids from the slice.
    done("setgroups", unsafe { libc::syscall(libc::SYS_setgroups, gids.len(), gids.as_ptr()) })
}

/// Keeps the permitted capabilities when the user id changes from 0 (PR_SET_KEEPCAPS).
pub fn keep_capabilities(on: bool) -> Result<()> {
    prctl("prctl PR_SET_KEEPCAPS", libc::PR_SET_KEEPCAPS, on as u64, 0)
}

/// Drops every capability that is not in the mask from the bounding set. Who may not drop any may still
/// be without it.
pub fn limit_bounding_set(keep: u64) -> Result<()> {
    for cap in (0..CAPABILITIES).filter(|c| keep & (1 << c) == 0 && bounding(*c) != 0) {
        match prctl("prctl PR_CAPBSET_DROP", libc::PR_CAPBSET_DROP, cap as u64, 0) {
            Err(e) if e.errno == libc::EINVAL => break, // beyond the last one this kernel has
            other => other?,
        }
    }
    Ok(())
}

/// 1: the bounding set has a capability; 0: it does not; less: the kernel has no such one.
fn bounding(cap: u32) -> libc::c_long {
    // SAFETY: plain integers go in, and one comes out.
    unsafe {
        libc::syscall(libc::SYS_prctl, libc::PR_CAPBSET_READ, u64::from(cap), 0u64, 0u64, 0u64)
    }
}

/// The kernel's capability header and data, version 3.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The three capability sets of a thread, as bit masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// In force.
    pub effective: u64,
    /// Can be put in force.
    pub permitted: u64,
    /// Kept over exec together with those of the file.
    pub inheritable: u64,
}

const CAP_VERSION_3: u32 = 0x2008_0522;

/// Reads this thread's capabilities.
pub fn capabilities() -> Result<Capabilities> {
    let mut header = CapHeader { version: CAP_VERSION_3, pid: 0 };
    let mut data = [CapData::default(); 2];
    // SAFETY: version 3 reads one header and writes two data blocks.
    let ret = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    done("capget", ret)?;
    let [low, high] = data;
    let join = |l: u32, h: u32| (h as u64) << 32 | l as u64;
    Ok(Capabilities {
        effective: join(low.effective, high.effective),
        permitted: join(low.permitted, high.permitted),
        inheritable: join(low.inheritable, high.inheritable),
    })
}

/// Sets this thread's capabilities.
pub fn set_capabilities(caps: Capabilities) -> Result<()> {
    let half = |shift: u32| CapData {
        effective: (caps.effective >> shift) as u32,
        permitted: (caps.permitted >> shift) as u32,
        inheritable: (caps.inheritable >> shift) as u32,
    };
    let mut header = CapHeader { version: CAP_VERSION_3, pid: 0 };
    let data = [half(0), half(32)];
    // SAFETY: version 3 reads one header and two data blocks.
    let ret = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    done("capset", ret)
}

/// Gives up what would be kept over exec by those who started this program: root's programs have what is inheritable,
/// whatever the bounding set says, and those of others what is ambient (capabilities(7)).
pub fn drop_inherited() -> Result<()> {
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL as u64;
    match prctl("prctl PR_CAP_AMBIENT", libc::PR_CAP_AMBIENT, clear, 0) {
        // Before Linux 4.3 there are none.
        Err(error) if error.errno == libc::EINVAL => {}
        other => other?,
    }
    let capabilities = capabilities()?;
    if capabilities.inheritable == 0 {
        return Ok(());
    }
    set_capabilities(Capabilities { inheritable: 0, ..capabilities })
}

/// Makes the capabilities of the mask inheritable and ambient: the program has them without
/// being privileged. They must be permitted now; those that are not in the bounding set are left out.
pub fn raise_ambient(mask: u64) -> Result<()> {
    let had = |cap: &u32| mask & (1 << cap) != 0 && bounding(*cap) == 1;
    let mask = (0..CAPABILITIES).filter(had).fold(0, |mask, cap| mask | 1u64 << cap);
    let mut caps = capabilities()?;
    caps.inheritable |= mask;
    set_capabilities(caps)?;
    for cap in (0..CAPABILITIES).filter(|c| mask & (1 << c) != 0) {
        let raise = libc::PR_CAP_AMBIENT_RAISE as u64;
        prctl("prctl PR_CAP_AMBIENT", libc::PR_CAP_AMBIENT, raise, cap as u64)?;
    }
    Ok(())
}

/// Sets the secure bits of capabilities(7).
pub fn set_secure_bits(bits: u32) -> Result<()> {
    prctl("prctl PR_SET_SECUREBITS", libc::PR_SET_SECUREBITS, bits as u64, 0)
}

/// Gives up gaining privileges by exec, for ever.
pub fn set_no_new_privileges() -> Result<()> {
    prctl("prctl PR_SET_NO_NEW_PRIVS", libc::PR_SET_NO_NEW_PRIVS, 1, 0)
}

/// Sets the timer slack, nanoseconds.
pub fn set_timer_slack(ns: u64) -> Result<()> {
    prctl("prctl PR_SET_TIMERSLACK", libc::PR_SET_TIMERSLACK, ns, 0)
}

/// Which mappings a core dump has, as the bits of core(5). Who shares this memory has the same.
pub fn set_coredump_filter(bits: u32) -> Result<()> {
    let mut buffer = [0u8; 10];
    write_file(c"/proc/self/coredump_filter", decimal(i64::from(bits), &mut buffer))
}

/// Whether the kernel merges pages of this memory that are equal to others (PR_SET_MEMORY_MERGE). Who shares the memory
/// has the same, and so has the program that is executed next.
///
/// # Errors
/// `EINVAL`: a kernel before Linux 6.4, or without KSM.
pub fn set_page_merging(on: bool) -> Result<()> {
    const PR_SET_MEMORY_MERGE: libc::c_int = 67;
    prctl("prctl PR_SET_MEMORY_MERGE", PR_SET_MEMORY_MERGE, u64::from(on), 0)
}

/// Where memory comes from: `policy` is a number of set_mempolicy(2), `nodes` a bit for each node.
pub fn set_memory_policy(policy: u8, nodes: &[u64]) -> Result<()> {
    let mask = if nodes.is_empty() { std::ptr::null() } else { nodes.as_ptr() };
    // The kernel takes one bit less than it is told.
    let bits = if nodes.is_empty() { 0 } else { nodes.len() * 64 + 1 };
    // SAFETY: the mask is live and has that many bits.
    let ret = unsafe { libc::syscall(libc::SYS_set_mempolicy, i32::from(policy), mask, bits) };
    done("set_mempolicy", ret)
}

/// Writes a label to a file of /proc/self/attr.
pub fn set_label(file: &CStr, label: &[u8]) -> Result<()> {
    write_file(file, label)
}

fn prctl(call: &'static str, option: i32, a: u64, b: u64) -> Result<()> {
    // SAFETY: only used with options whose arguments are plain integers.
    done(call, unsafe { libc::syscall(libc::SYS_prctl, option, a, b, 0u64, 0u64) })
}

/// Sets a resource limit of this process; `u64::MAX` is no limit. When raising the hard limit
/// is refused, the soft limit is set within the hard limit there is.
pub fn set_rlimit(resource: u8, soft: u64, hard: u64) -> Result<()> {
    let wanted = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
    match prlimit(resource, Some(&wanted)) {
        Err(e) if e.errno == libc::EPERM => {
            let now = prlimit(resource, None)?;
            let within = libc::rlimit64 {
                rlim_cur: soft.min(now.rlim_max),
                rlim_max: hard.min(now.rlim_max),
            };
            prlimit(resource, Some(&within)).map(|_| ())
        }
        other => other.map(|_| ()),
    }
}

const RLIMIT_NOFILE: u8 = 7;

/// What `RLIMIT_NOFILE` was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    soft: u64,
    hard: u64,
}

impl OpenFiles {
    /// Has this process use numbers of file descriptors below `end`, which its soft limit may forbid; what the limit was,
    /// if it was raised. [`OpenFiles::restore`] puts it back, which closes nothing.
    ///
    /// # Errors
    /// `EMFILE` when the hard limit forbids it too.
    pub fn allow_below(end: u64) -> Result<Option<OpenFiles>> {
        let limit = prlimit(RLIMIT_NOFILE, None)?;
        let (soft, hard) = (limit.rlim_cur, limit.rlim_max);
        if end <= soft {
            return Ok(None);
        }
        if end > hard {
            return Err(Error::new("prlimit64 RLIMIT_NOFILE", libc::EMFILE));
        }
        let raised = libc::rlimit64 { rlim_cur: hard, rlim_max: hard };
        prlimit(RLIMIT_NOFILE, Some(&raised))?;
        Ok(Some(OpenFiles { soft, hard }))
    }

    /// Puts it back.
    ///
    /// # Errors
    /// When the kernel refuses, as after the hard limit was lowered.
    pub fn restore(self) -> Result<()> {
        let before = libc::rlimit64 { rlim_cur: self.soft, rlim_max: self.hard };
        prlimit(RLIMIT_NOFILE, Some(&before)).map(|_| ())
    }
}

const RLIMIT_NICE: u8 = 13;

fn prlimit(resource: u8, new: Option<&libc::rlimit64>) -> Result<libc::rlimit64> {
    let mut old = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let new = new.map_or(std::ptr::null(), |n| n as *const _);
    // SAFETY: `new` is null or a live struct, `old` is a live local.
    let ret = unsafe {
        libc::syscall(libc::SYS_prlimit64, 0, resource as libc::c_long, new, &raw mut old)
    };
    done("prlimit64", ret).map(|_| old)
}

/// Sets the nice value, -20 to 19. Where the kernel refuses it, the nearest that it allows (setpriority(2):
/// without privileges not below the value there is, nor below 20 minus `RLIMIT_NICE`).
pub fn set_nice(nice: i8) -> Result<()> {
    let wanted = libc::c_long::from(nice);
    let set = |nice: libc::c_long| {
        // SAFETY: plain integers.
        done("setpriority", unsafe { libc::syscall(libc::SYS_setpriority, 0, 0, nice) })
    };
    match set(wanted) {
        Err(e) if matches!(e.errno, libc::EPERM | libc::EACCES) => {
            // SAFETY: plain integers. The raw call answers 20 minus the value.
            let now = 20 - unsafe { libc::syscall(libc::SYS_getpriority, 0, 0) };
            let limit = prlimit(RLIMIT_NICE, None)?.rlim_cur.min(40);
            let nearest = wanted.max(20 - limit as libc::c_long);
            if nearest < now { set(nearest) } else { Ok(()) }
        }
        other => other,
    }
}

/// Sets the scheduling policy (`SCHED_*`) and its static priority.
pub fn set_scheduler(policy: u8, priority: u8, reset_on_fork: bool) -> Result<()> {
    let flag = if reset_on_fork { libc::SCHED_RESET_ON_FORK } else { 0 };
    let policy = (policy as i32 | flag) as libc::c_long;
    let priority = priority as libc::c_int;
    // SAFETY: sched_param is one int, which lives over the call.
    let ret =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    done("sched_setscheduler", ret)
}

/// A set of up to 8,192 CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// Largest CPU number plus one.
    pub const CPUS_MAX: u16 = 8192;

    /// The set of these CPUs; numbers out of range are left out.
    pub fn new(cpus: &[u16]) -> CpuSet {
        let top = cpus.iter().filter(|&&c| c < Self::CPUS_MAX).max().map_or(0, |&c| c as usize);
        let mut words = vec![0u64; top / 64 + 1];
        for &cpu in cpus {
            if let Some(word) = words.get_mut(cpu as usize / 64) {
                *word |= 1 << (cpu % 64);
            }
        }
        CpuSet(words)
    }
}

/// Restricts this process to a set of CPUs.
pub fn set_affinity(cpus: &CpuSet) -> Result<()> {
    let bytes = size_of_val(cpus.0.as_slice());
    // SAFETY: the kernel reads `bytes` bytes of the vector.
    let ret = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, cpus.0.as_ptr()) };
    done("sched_setaffinity", ret)
}

/// A program of seccomp(2).
pub struct SystemCallFilter(Vec<libc::sock_filter>);

impl SystemCallFilter {
    /// From the bytes of `struct sock_filter`. Fails with EINVAL if they are none, or too many.
    pub fn new(bytes: &[u8]) -> Result<SystemCallFilter> {
        const INSTRUCTION_BYTES: usize = 8;
        let (instructions, rest) = bytes.as_chunks::<INSTRUCTION_BYTES>();
        if !rest.is_empty() || u16::try_from(instructions.len()).is_err() {
            return Err(Error::new("seccomp", libc::EINVAL));
        }
        let instruction =
            |&[c0, c1, jt, jf, k0, k1, k2, k3]: &[u8; INSTRUCTION_BYTES]| libc::sock_filter {
                code: u16::from_ne_bytes([c0, c1]),
                jt,
                jf,
                k: u32::from_ne_bytes([k0, k1, k2, k3]),
            };
        Ok(SystemCallFilter(instructions.iter().map(instruction).collect()))
    }
}

/// Forbids this process, and those that it makes, what the filter says. There is no way back.
///
/// Fails with EACCES without no_new_privs and CAP_SYS_ADMIN.
pub fn attach_filter(filter: &SystemCallFilter) -> Result<()> {
    let program =
        libc::sock_fprog { len: filter.0.len() as u16, filter: filter.0.as_ptr().cast_mut() };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, 0);
    // SAFETY: the kernel reads `len` instructions behind the pointer, which the vector has, and checks them.
    done("seccomp", unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) })
}

/// Sets the I/O priority: class 0 to 3, level 0 to 7; ioprio_set(2).
pub fn set_io_priority(class: u8, level: u8) -> Result<()> {
    const WHO_PROCESS: libc::c_long = 1;
    let value = (class as libc::c_long) << 13 | (level as libc::c_long & 0x1fff);
    // SAFETY: plain integers.
    done("ioprio_set", unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) })
}

/// Sets the execution domain; personality(2).
pub fn set_personality(persona: u64) -> Result<()> {
    // SAFETY: plain integer.
    done("personality", unsafe { libc::syscall(libc::SYS_personality, persona) })
}

/// Starts a new, anonymous session keyring; `link_user` also links the user's keyring into it.
pub fn new_session_keyring(link_user: bool) -> Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    const LINK: libc::c_long = 8;
    const SESSION: libc::c_long = -3;
    const USER: libc::c_long = -4;
    let anonymous: *const c_char = std::ptr::null();
    // SAFETY: a null name means an anonymous keyring; the rest are plain integers.
    unsafe {
        done("keyctl", libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, anonymous, 0, 0, 0))?;
        if link_user {
            done("keyctl", libc::syscall(libc::SYS_keyctl, LINK, USER, SESSION, 0, 0))?;
        }
    }
    Ok(())
}

/// Gives the session keyring of this process to a user and a group; who possesses it keeps the right to it.
pub fn give_session_keyring(uid: u32, gid: u32) -> Result<()> {
    const CHOWN: libc::c_long = 4;
    const SESSION: libc::c_long = -3;
    // SAFETY: plain integers.
    done("keyctl", unsafe { libc::syscall(libc::SYS_keyctl, CHOWN, SESSION, uid, gid, 0) })
}

/// Links the user's keyring into the session keyring there is.
pub fn link_user_keyring() -> Result<()> {
    const LINK: libc::c_long = 8;
    const SESSION: libc::c_long = -3;
    const USER: libc::c_long = -4;
    // SAFETY: plain integers.
    done("keyctl", unsafe { libc::syscall(libc::SYS_keyctl, LINK, USER, SESSION, 0, 0) })
}

/// Sets the mask of mode bits that new files do not get.
pub fn set_umask(mask: u32) {
    // SAFETY: plain integer; cannot fail.
    unsafe { libc::umask(mask & 0o777) };
}

/// The mask of mode bits that new files of this process do not get.
pub fn own_umask() -> u32 {
    // SAFETY: plain integers; cannot fail.
    unsafe {
        let mask = libc::umask(0o777);
        libc::umask(mask);
        mask
    }
}

/// Starts a new session and process group.
pub fn new_session() -> Result<()> {
    // SAFETY: no arguments.
    done("setsid", unsafe { libc::syscall(libc::SYS_setsid) })
}

/// Makes a terminal the controlling terminal of the caller's session; `force` takes it from another.
pub fn take_terminal(fd: RawFd, force: bool) -> Result<()> {
    // SAFETY: TIOCSCTTY takes a plain integer.
    done("ioctl TIOCSCTTY", unsafe { libc::ioctl(fd, libc::TIOCSCTTY, force as libc::c_int) } as _)
}

/// Gives a terminal to a user, whose group stays: it can be read and written by the user, and written by the
/// group. One that cannot be given away stays as it is.
pub fn give_terminal(fd: RawFd, uid: u32) {
    const KEEP: libc::gid_t = libc::gid_t::MAX;
    // SAFETY: plain integers.
    unsafe {
        if libc::fchown(fd, uid, KEEP) == 0 {
            libc::fchmod(fd, 0o620);
        }
    }
}

/// Changes the root directory; the working directory stays where it was.
pub fn change_root(path: &CStr) -> Result<()> {
    // SAFETY: a live, terminated string.
    done("chroot", unsafe { libc::chroot(path.as_ptr()) } as _)
}

/// Changes the working directory.
pub fn change_directory(path: &CStr) -> Result<()> {
    // SAFETY: a live, terminated string.
    done("chdir", unsafe { libc::chdir(path.as_ptr()) } as _)
}

/// Opens a file without close-on-exec and returns its number. `flags` are those of open(2).
pub fn open_raw(path: &CStr, flags: i32, mode: u32) -> Result<RawFd> {
    // SAFETY: a live, terminated string.
    let fd = unsafe { libc::open(path.as_ptr(), flags, mode as libc::c_uint) };
    check("open", fd as _).map(|fd| fd as RawFd)
}

/// Opens a file as [`open_raw`] does; a socket that is there is connected to, for as much of reading and
/// writing as `flags` say (systemd.exec(5), "StandardInput=").
pub fn open_or_connect(path: &CStr, flags: i32, mode: u32) -> Result<RawFd> {
    match open_raw(path, flags, mode) {
        Err(e) if e.errno == libc::ENXIO => {
            connect_raw(path, flags & libc::O_ACCMODE).map_err(|c| {
                // Another thing that has nobody at its other end.
                if c.errno == libc::ENOTSOCK || c.errno == libc::EPROTOTYPE { e } else { c }
            })
        }
        other => other,
    }
}

/// Connects a stream socket that does not wait, writes what is to come first, and has it wait from then on. Nothing is
/// read from it.
pub fn connect_stream(socket: RawFd, path: &str, first: &[u8]) -> Result<()> {
    let address = address_of(path.as_bytes())?;
    let bytes = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: an address and bytes that live as long as the calls, and plain integers.
    unsafe {
        done("connect", libc::connect(socket, (&raw const address).cast(), bytes) as _)?;
        let sent = libc::send(socket, first.as_ptr().cast(), first.len(), libc::MSG_NOSIGNAL);
        if usize::try_from(sent) != Ok(first.len()) {
            return Err(Error::new("send", if sent < 0 { last_errno() } else { libc::EMSGSIZE }));
        }
        done("shutdown", libc::shutdown(socket, libc::SHUT_RD) as _)?;
        done("fcntl", libc::fcntl(socket, libc::F_SETFL, 0) as _)
    }
}

/// The address of a socket in the file system.
fn address_of(path: &[u8]) -> Result<libc::sockaddr_un> {
    // SAFETY: plain data, for which zeros are a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() >= address.sun_path.len() {
        return Err(Error::new("connect", libc::ENAMETOOLONG));
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    Ok(address)
}

fn connect_raw(path: &CStr, access: i32) -> Result<RawFd> {
    let address = address_of(path.to_bytes())?;
    // SAFETY: plain integers, and an address that lives as long as the call. The number belongs to a
    // process that is about to exec.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        let fd = check("socket", fd as _)? as RawFd;
        let bytes = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        done("connect", libc::connect(fd, (&raw const address).cast(), bytes) as _)?;
        let unused = match access {
            libc::O_RDONLY => libc::SHUT_WR,
            libc::O_WRONLY => libc::SHUT_RD,
            _ => return Ok(fd),
        };
        done("shutdown", libc::shutdown(fd, unused) as _)?;
        Ok(fd)
    }
}

/// `ENOTTY` if this is not a terminal.
pub fn must_be_terminal(fd: RawFd) -> Result<()> {
    let mut state = std::mem::MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the kernel writes one termios, which nobody reads.
    done("ioctl TCGETS", unsafe { libc::tcgetattr(fd, state.as_mut_ptr()) } as _)
}

/// Makes `to` a copy of `from` that survives exec, also when they are the same number.
pub fn install_fd(from: RawFd, to: RawFd) -> Result<()> {
    // SAFETY: plain integers. The numbers belong to a process that is about to exec.
    unsafe {
        if from == to {
            return done("fcntl F_SETFD", libc::fcntl(from, libc::F_SETFD, 0) as _);
        }
        done("dup3", libc::syscall(libc::SYS_dup3, from, to, 0))
    }
}

/// A copy of an fd at the first free number from `min` on, without close-on-exec.
pub fn copy_above(from: RawFd, min: RawFd) -> Result<RawFd> {
    // SAFETY: plain integers.
    check("fcntl F_DUPFD", unsafe { libc::fcntl(from, libc::F_DUPFD, min) } as _)
        .map(|fd| fd as RawFd)
}

/// Has exec close every fd from `first` on. Kernels before 5.11 close them at once, those before 5.9
/// leave it at those that are close-on-exec, as ours are.
pub fn close_on_exec_from(first: RawFd) {
    close_on_exec_between(first, RawFd::MAX);
}

/// The same of the fds from `first` to `last`.
pub fn close_on_exec_between(first: RawFd, last: RawFd) {
    let close = |flags: libc::c_uint| {
        // SAFETY: plain integers; only a process about to exec calls this.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }
    };
    if close(libc::CLOSE_RANGE_CLOEXEC) < 0 {
        close(0);
    }
}

/// Has exec close an fd; nothing if there is none of this number.
pub fn close_on_exec(number: RawFd) {
    // SAFETY: plain integers.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Writes a short text to an existing file.
pub fn write_file(path: &CStr, text: &[u8]) -> Result<()> {
    let fd = open_raw(path, libc::O_WRONLY | libc::O_CLOEXEC, 0)?;
    let result = write_once(fd, text);
    // SAFETY: opened above.
    unsafe { libc::close(fd) };
    result
}

fn write_once(fd: RawFd, text: &[u8]) -> Result<()> {
    // SAFETY: the buffer is live and of that length.
    done("write", unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) } as _)
}

/// Moves this process into the cgroup behind a directory fd.
pub fn enter_cgroup(dir: BorrowedFd<'_>) -> Result<()> {
    let flags = libc::O_WRONLY | libc::O_CLOEXEC;
    // SAFETY: a live, terminated string; the fd is closed below.
    let fd = unsafe { libc::openat(dir.as_raw_fd(), c"cgroup.procs".as_ptr(), flags) };
    check("openat cgroup.procs", fd as _)?;
    let result = write_once(fd, b"0");
    // SAFETY: opened above.
    unsafe { libc::close(fd) };
    result
}

/// The flags of the open(2) by which a marked process says that it is done ([`seal`]); nothing else on the way to a
/// program opens with all of them.
pub const SEAL_FLAGS: i32 = libc::O_DIRECTORY | libc::O_DSYNC | libc::O_NONBLOCK;

/// Gives this process a mark in a map of [`crate::bpf::marks_map`].
pub fn mark(map: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the calling process, by its number where it is.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, own_pid(), 0) };
    check("pidfd_open", fd as _)?;
    let fd = fd as RawFd;
    // SAFETY: opened above and closed below.
    let result = crate::bpf::mark(map, unsafe { BorrowedFd::borrow_raw(fd) });
    // SAFETY: opened above.
    unsafe { libc::close(fd) };
    result
}

/// Opens a directory that everybody may read with [`SEAL_FLAGS`]: programs that look at marks find none that counts
/// from here on.
pub fn seal(directory: BorrowedFd<'_>) -> Result<()> {
    let flags = SEAL_FLAGS | libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a live, terminated string; the fd is closed below.
    let fd = unsafe { libc::openat(directory.as_raw_fd(), c".".as_ptr(), flags) };
    check("openat", fd as _)?;
    // SAFETY: opened above.
    unsafe { libc::close(fd) };
    Ok(())
}

/// Sets this process's OOM score adjustment, -1000 to 1000.
pub fn set_oom_score_adjust(value: i16) -> Result<()> {
    let mut buffer = [0u8; 8];
    let text = decimal(value as i64, &mut buffer);
    write_file(c"/proc/self/oom_score_adj", text)
}

/// This process's pid, not cached.
pub fn own_pid() -> i32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::syscall(libc::SYS_getpid) as i32 }
}

/// Number in decimal, without allocating. `buffer` must have room: 8 bytes hold any i16.
fn decimal(value: i64, buffer: &mut [u8]) -> &[u8] {
    let mut rest = value.unsigned_abs();
    let mut at = buffer.len();
    while at > 0 {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 && at > 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}

/// Room that a pid needs in decimal.
const PID_DIGITS: usize = 10;

/// A list of strings as execve(2) wants it, made before the process is. Entries can have a pid
/// at their end that is only known inside the new process.
#[derive(Debug, Default)]
pub struct ExecStrings {
    strings: Vec<Vec<u8>>,
    pid_slots: Vec<usize>,
    pointers: Vec<*const c_char>,
}

impl ExecStrings {
    /// An empty list with room for so many entries.
    pub fn with_capacity(entries: usize) -> ExecStrings {
        ExecStrings { strings: Vec::with_capacity(entries), ..ExecStrings::default() }
    }

    /// Appends a string. `EINVAL` when it has a NUL inside.
    pub fn push(&mut self, text: &str) -> Result<()> {
        let text = CString::new(text).map_err(|_| Error::new("NUL in string", libc::EINVAL))?;
        self.pointers.clear();
        self.strings.push(text.into_bytes_with_nul());
        Ok(())
    }

    /// Appends `prefix` followed by the new process's pid.
    pub fn push_with_pid(&mut self, prefix: &str) -> Result<()> {
        self.push(prefix)?;
        if let Some(string) = self.strings.last_mut() {
            string.extend([0; PID_DIGITS]);
            self.pid_slots.push(self.strings.len() - 1);
        }
        Ok(())
    }

    /// Ends the list; call once, in the creating process.
    pub fn finish(&mut self) {
        self.pointers = self.strings.iter().map(|s| s.as_ptr().cast()).collect();
        self.pointers.push(std::ptr::null());
    }

    /// Writes the pid into the entries that want it. Allocates nothing.
    pub fn set_pid(&mut self, pid: i32) {
        for &slot in &self.pid_slots {
            let Some(string) = self.strings.get_mut(slot) else { continue };
            let start = string.len() - PID_DIGITS - 1;
            let mut digits = [0u8; PID_DIGITS];
            let text = decimal(pid.max(0) as i64, &mut digits);
            for (to, from) in string[start..].iter_mut().zip(text.iter().chain(&[0])) {
                *to = *from;
            }
        }
    }
}

/// Ends this process at once, by the one call that no filter forbids.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: a plain integer; it does not return.
    unsafe { libc::syscall(libc::SYS_exit_group, code) };
    std::process::abort()
}

/// Replaces the program by the one behind an fd. Returns only on failure.
pub fn exec_fd(program: RawFd, argv: &ExecStrings, env: &ExecStrings) -> Error {
    for list in [argv, env] {
        if list.pointers.len() != list.strings.len() + 1 {
            return Error::new("execveat: list not finished", libc::EINVAL);
        }
    }
    let (argv, env) = (argv.pointers.as_ptr(), env.pointers.as_ptr());
    // SAFETY: as in `exec`; the empty path is that of the fd itself.
    unsafe {
        libc::syscall(libc::SYS_execveat, program, c"".as_ptr(), argv, env, libc::AT_EMPTY_PATH)
    };
    Error::new("execveat", last_errno())
}

/// Replaces the program. Returns only on failure.
pub fn exec(path: &CStr, argv: &ExecStrings, env: &ExecStrings) -> Error {
    for list in [argv, env] {
        if list.pointers.len() != list.strings.len() + 1 {
            return Error::new("execve: list not finished", libc::EINVAL);
        }
    }
    // SAFETY: both arrays are null-terminated and point into strings that the lists own, each
    // terminated by a NUL; `finish` was called after the last push, as checked.
    unsafe { libc::execve(path.as_ptr(), argv.pointers.as_ptr(), env.pointers.as_ptr()) };
    Error::new("execve", last_errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_decimal(value: i64, expected: &str) {
        assert_eq!(decimal(value, &mut [0; 8]), expected.as_bytes());
    }

    #[test]
    fn numbers_are_written_without_allocating() {
        check_decimal(0, "0");
        check_decimal(-1000, "-1000");
        check_decimal(32767, "32767");
        check_decimal(-32768, "-32768");
    }

    #[test]
    fn pids_are_patched_into_their_entries() {
        let mut list = ExecStrings::with_capacity(2);
        list.push("A=1").expect("no NUL");
        list.push_with_pid("LISTEN_PID=").expect("no NUL");
        assert_eq!(list.push("a\0b").map_err(|e| e.errno), Err(libc::EINVAL));
        list.finish();
        for pid in [i32::MAX, 42, 4_194_304] {
            list.set_pid(pid);
            // SAFETY: the list is finished, its second entry is a terminated string.
            let text = unsafe { CStr::from_ptr(list.pointers[1]) };
            assert_eq!(text.to_str(), Ok(format!("LISTEN_PID={pid}").as_str()));
        }
    }

    #[test]
    fn cpu_sets_have_the_bits_asked_for() {
        assert_eq!(CpuSet::new(&[0, 3, 65]).0, [0b1001, 0b10]);
        assert_eq!(CpuSet::new(&[u16::MAX]).0, [0]);
    }
}
