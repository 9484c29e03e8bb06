//! Programs of bpf(2) for control groups.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{Error, Result, check};

/// What a program is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Each use of a device. Programs of outer groups are asked too.
    Device,
    /// Packets that come. The program of an inner group stands for those of outer ones.
    Ingress,
    /// Packets that go; likewise.
    Egress,
    /// bind(2) of a socket of IPv4. Programs of outer groups are asked too.
    Bind4,
    /// The same of IPv6.
    Bind6,
}

impl Hook {
    /// BPF_PROG_TYPE_*, BPF_CGROUP_*, and BPF_F_ALLOW_MULTI or BPF_F_ALLOW_OVERRIDE.
    fn numbers(self) -> (u32, u32, u32) {
        match self {
            Hook::Device => (15, 6, ALLOW_MULTI),
            Hook::Ingress => (8, 0, 1),
            Hook::Egress => (8, 1, 1),
            Hook::Bind4 => (18, 8, ALLOW_MULTI),
            Hook::Bind6 => (18, 9, ALLOW_MULTI),
        }
    }

    /// Whether a group can have several programs, which are all asked.
    fn has_several(self) -> bool {
        self.numbers().2 == ALLOW_MULTI
    }
}

const ALLOW_MULTI: u32 = 2;

const PROG_LOAD: libc::c_int = 5;
const PROG_ATTACH: libc::c_int = 8;
const PROG_DETACH: libc::c_int = 9;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const PROG_QUERY: libc::c_int = 16;

/// Most programs of one group and hook that the kernel takes.
const ATTACHED_MAX: usize = 64;

/// The beginning of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_kind: u32,
}

/// For BPF_PROG_ATTACH and BPF_PROG_DETACH.
#[repr(C)]
#[derive(Default)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

/// For BPF_PROG_QUERY.
#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    kind: u32,
    query_flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
}

/// For BPF_PROG_GET_FD_BY_ID.
#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next: u32,
    flags: u32,
}

fn bpf<T>(call: &'static str, command: libc::c_int, attributes: &mut T) -> Result<i64> {
    // SAFETY: a live struct of the size that is told; what it points to is live in every caller.
    let ret = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>())
    };
    check(call, ret as _)
}

/// Loads a program, in instructions of `struct bpf_insn`.
///
/// # Errors
/// `EPERM` where that is not allowed, as in most containers; `EINVAL` or `EACCES` for what is no program.
pub fn load(hook: Hook, code: &[u8]) -> Result<OwnedFd> {
    const INSTRUCTION_BYTES: usize = 8;
    let (kind, attach_kind, _) = hook.numbers();
    let mut attributes = Load {
        kind,
        attach_kind,
        instructions: (code.len() / INSTRUCTION_BYTES) as u32,
        code: code.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        name: *b"warrener\0\0\0\0\0\0\0\0",
        ..Load::default()
    };
    let fd = bpf("bpf PROG_LOAD", PROG_LOAD, &mut attributes)?;
    // SAFETY: a new descriptor, which is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Attaches a program to a group, in the place of what is attached to the group itself at this hook.
pub fn attach(group: BorrowedFd<'_>, hook: Hook, program: BorrowedFd<'_>) -> Result<()> {
    let before = attached(group, hook)?;
    let (_, kind, flags) = hook.numbers();
    let (target, program) = (group.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let mut attributes = Attach { target, program, kind, flags };
    match bpf("bpf PROG_ATTACH", PROG_ATTACH, &mut attributes) {
        // The same program is attached already.
        Err(e) if e.errno == libc::EINVAL && !before.is_empty() => return Ok(()),
        other => other?,
    };
    match hook.has_several() {
        true => before.into_iter().try_for_each(|id| detach_one(group, hook, Some(id))),
        // It took the place of the other.
        false => Ok(()),
    }
}

/// Takes away what is attached to the group itself at this hook.
pub fn detach(group: BorrowedFd<'_>, hook: Hook) -> Result<()> {
    let before = attached(group, hook)?;
    match hook.has_several() {
        true => before.into_iter().try_for_each(|id| detach_one(group, hook, Some(id))),
        false if before.is_empty() => Ok(()),
        false => detach_one(group, hook, None),
    }
}

fn detach_one(group: BorrowedFd<'_>, hook: Hook, id: Option<u32>) -> Result<()> {
    let program = match id {
        None => None,
        Some(id) => {
            let mut attributes = ById { id, ..ById::default() };
            match bpf("bpf PROG_GET_FD_BY_ID", PROG_GET_FD_BY_ID, &mut attributes) {
                // SAFETY: a new descriptor, which is ours alone.
                Ok(fd) => Some(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
                Err(e) if e.is_gone() => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    };
    let number = program.as_ref().map_or(0, |fd| fd.as_fd().as_raw_fd() as u32);
    let kind = hook.numbers().1;
    let target = group.as_raw_fd() as u32;
    let mut attributes = Attach { target, program: number, kind, flags: 0 };
    match bpf("bpf PROG_DETACH", PROG_DETACH, &mut attributes) {
        Err(e) if e.is_gone() => Ok(()),
        other => other.map(drop),
    }
}

/// Numbers of the programs that are attached to the group itself.
fn attached(group: BorrowedFd<'_>, hook: Hook) -> Result<Vec<u32>> {
    let mut ids = vec![0u32; ATTACHED_MAX];
    let mut attributes = Query {
        target: group.as_raw_fd() as u32,
        kind: hook.numbers().1,
        ids: ids.as_mut_ptr() as u64,
        count: ATTACHED_MAX as u32,
        ..Query::default()
    };
    bpf("bpf PROG_QUERY", PROG_QUERY, &mut attributes)?;
    ids.truncate(attributes.count as usize);
    Ok(ids)
}

/// Whether a program of the group, or of one above it, is asked at this hook.
pub fn is_limited(group: BorrowedFd<'_>, hook: Hook) -> bool {
    const EFFECTIVE: u32 = 1;
    let mut attributes = Query {
        target: group.as_raw_fd() as u32,
        kind: hook.numbers().1,
        query_flags: EFFECTIVE,
        ..Query::default()
    };
    bpf("bpf PROG_QUERY", PROG_QUERY, &mut attributes).is_ok() && attributes.count > 0
}

/// Whether an error says that this machine has no such programs for us.
pub fn is_refused(error: &Error) -> bool {
    matches!(error.errno, libc::EPERM | libc::ENOSYS | libc::EACCES)
}
