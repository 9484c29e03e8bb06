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
    /// open(2) of a file by a process of the group, also to execute it. Programs of outer groups are asked too.
    FileOpen,
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
            // BPF_PROG_TYPE_LSM, BPF_LSM_CGROUP
            Hook::FileOpen => (29, 43, ALLOW_MULTI),
        }
    }

    /// What the program says of its licence. Some hooks are only for those whose licence goes with that of the kernel,
    /// as the MIT licence does.
    fn license(self) -> &'static std::ffi::CStr {
        match self {
            Hook::FileOpen => c"Dual MIT/GPL",
            _ => c"MIT",
        }
    }

    /// Whether a group can have several programs, which are all asked.
    fn has_several(self) -> bool {
        self.numbers().2 == ALLOW_MULTI
    }
}

const ALLOW_MULTI: u32 = 2;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_GET_FD_BY_ID: libc::c_int = 14;
const INFO_BY_FD: libc::c_int = 15;
const PROG_LOAD: libc::c_int = 5;
const OBJ_GET: libc::c_int = 7;
const PROG_ATTACH: libc::c_int = 8;
const PROG_DETACH: libc::c_int = 9;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const PROG_QUERY: libc::c_int = 16;
const BTF_LOAD: libc::c_int = 18;

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
    name: [u8; NAME_BYTES],
    device: u32,
    attach_kind: u32,
    of_types: [u32; 9],
    function: u32,
}

/// For BPF_MAP_CREATE.
#[repr(C)]
#[derive(Default)]
struct NewMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; NAME_BYTES],
    device: u32,
    types: u32,
    key_type: u32,
    value_type: u32,
}

/// For BPF_BTF_LOAD.
#[repr(C)]
#[derive(Default)]
struct NewTypes {
    types: u64,
    log: u64,
    bytes: u32,
    log_bytes: u32,
    log_level: u32,
    unused: u32,
}

/// For BPF_MAP_LOOKUP_ELEM and BPF_MAP_UPDATE_ELEM.
#[repr(C)]
#[derive(Default)]
struct Lookup {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// For BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
#[derive(Default)]
struct InfoByFd {
    fd: u32,
    info_bytes: u32,
    info: u64,
}

/// The beginning of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    jited_bytes: u32,
    code_bytes: u32,
    jited: u64,
    code: u64,
    load_time: u64,
    user: u32,
    maps: u32,
    map_ids: u64,
    name: [u8; NAME_BYTES],
}

/// BPF_OBJ_NAME_LEN
const NAME_BYTES: usize = 16;

/// Names of our programs: of those that forbid something, and of those that only count.
const LIMITS: [u8; NAME_BYTES] = *b"warrener\0\0\0\0\0\0\0\0";
const ONLY_COUNTS: [u8; NAME_BYTES] = *b"warrener_counts\0";

/// `struct bpf_cgroup_storage_key`
#[repr(C)]
#[derive(Default)]
struct StorageKey {
    group: u64,
    attach_kind: u32,
    unused: u32,
}

/// What a group has let through at one hook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// A map in which each group that a program is attached to has counters of its own ([`Counters`]).
pub fn counters_map() -> Result<OwnedFd> {
    const CGROUP_STORAGE: u32 = 19;
    let mut attributes = NewMap {
        kind: CGROUP_STORAGE,
        key_bytes: size_of::<StorageKey>() as u32,
        value_bytes: size_of::<Counters>() as u32,
        ..NewMap::default()
    };
    let fd = bpf("bpf MAP_CREATE", MAP_CREATE, &mut attributes)?;
    // SAFETY: a new descriptor, which is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// A map in which a process can have a number, 0 to begin with, which goes with the process.
pub fn marks_map() -> Result<OwnedFd> {
    const TASK_STORAGE: u32 = 29;
    /// BPF_F_NO_PREALLOC
    const AS_NEEDED: u32 = 1;
    const TYPE: u32 = 1;
    let types = marks_types()?;
    let mut attributes = NewMap {
        kind: TASK_STORAGE,
        key_bytes: size_of::<u32>() as u32,
        value_bytes: size_of::<u32>() as u32,
        flags: AS_NEEDED,
        types: types.as_raw_fd() as u32,
        key_type: TYPE,
        value_type: TYPE,
        name: LIMITS,
        ..NewMap::default()
    };
    let fd = bpf("bpf MAP_CREATE", MAP_CREATE, &mut attributes)?;
    // SAFETY: a new descriptor, which is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The types of such a map, which the kernel wants to know: `int` (Documentation/bpf/btf.rst).
fn marks_types() -> Result<OwnedFd> {
    const NAME: &[u8; 5] = b"\0int\0";
    const HEADER_BYTES: u32 = 24;
    /// BTF_KIND_INT, and of what it has: BTF_INT_SIGNED and 32 bits.
    const INT: u32 = 1 << 24;
    const SIGNED_32: u32 = 1 << 24 | 32;
    let types: [u32; 4] = [1, INT, 4, SIGNED_32];
    let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let (bytes, name_bytes) = (types.len() as u32, NAME.len() as u32);
    let mut all = 0xeb9fu16.to_ne_bytes().to_vec();
    all.extend([1, 0]);
    let sections = [HEADER_BYTES, 0, bytes, bytes, name_bytes];
    all.extend(sections.iter().flat_map(|word| word.to_ne_bytes()));
    all.extend(types);
    all.extend(NAME);
    let mut attributes =
        NewTypes { types: all.as_ptr() as u64, bytes: all.len() as u32, ..NewTypes::default() };
    let fd = bpf("bpf BTF_LOAD", BTF_LOAD, &mut attributes)?;
    // SAFETY: a new descriptor, which is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Gives the process behind a pidfd the number 0 in a map of [`marks_map`]. Allocates nothing.
pub(crate) fn mark(map: BorrowedFd<'_>, pidfd: BorrowedFd<'_>) -> Result<()> {
    let (key, value) = (pidfd.as_raw_fd() as u32, 0u32);
    let mut attributes = Lookup {
        map: map.as_raw_fd() as u32,
        key: std::ptr::from_ref(&key) as u64,
        value: std::ptr::from_ref(&value) as u64,
        ..Lookup::default()
    };
    bpf("bpf MAP_UPDATE_ELEM", MAP_UPDATE, &mut attributes).map(drop)
}

/// Whether the kernel asks programs of [`Hook::FileOpen`]: it takes them all the same where its list of security modules
/// is without `bpf`. None if it does not say.
pub fn are_asked_of_files() -> Option<bool> {
    const LISTED: &str = "/sys/kernel/security/lsm";
    const LIST_MODULES: libc::c_long = 461;
    const LSM_ID_BPF: u64 = 110;
    const MODULES_MAX: usize = 64;
    if let Ok(listed) = std::fs::read_to_string(LISTED) {
        return Some(listed.trim().split(',').any(|name| name == "bpf"));
    }
    let mut ids = [0u64; MODULES_MAX];
    let mut bytes = size_of_val(&ids) as u32;
    // SAFETY: an array of so many bytes, and where the kernel says how many it used.
    let count = unsafe { libc::syscall(LIST_MODULES, ids.as_mut_ptr(), &raw mut bytes, 0) };
    let ids = ids.get(..usize::try_from(count).ok()?)?;
    Some(ids.contains(&LSM_ID_BPF))
}

/// The counters of a group at a hook; none if its program does not count. `id`: of the group.
pub fn counters(group: BorrowedFd<'_>, id: u64, hook: Hook) -> Result<Option<Counters>> {
    let (ours, _) = own_attached(group, hook)?;
    let Some(&program) = ours.first() else { return Ok(None) };
    let Some(program) = by_id("bpf PROG_GET_FD_BY_ID", PROG_GET_FD_BY_ID, program)? else {
        return Ok(None);
    };
    let (info, map) = information(program.as_fd())?;
    if info.maps != 1 {
        return Ok(None);
    }
    let Some(map) = by_id("bpf MAP_GET_FD_BY_ID", MAP_GET_FD_BY_ID, map)? else { return Ok(None) };
    let key = StorageKey { group: id, attach_kind: hook.numbers().1, unused: 0 };
    let mut found = Counters::default();
    let mut attributes = Lookup {
        map: map.as_raw_fd() as u32,
        key: std::ptr::from_ref(&key) as u64,
        value: std::ptr::from_mut(&mut found) as u64,
        ..Lookup::default()
    };
    match bpf("bpf MAP_LOOKUP_ELEM", MAP_LOOKUP, &mut attributes) {
        Err(e) if e.is_gone() => Ok(None),
        other => other.map(|_| Some(found)),
    }
}

/// What the kernel says of a program, and the number of its map if it has one.
fn information(program: BorrowedFd<'_>) -> Result<(ProgramInfo, u32)> {
    let mut map = 0u32;
    let map_ids = std::ptr::from_mut(&mut map) as u64;
    let mut info = ProgramInfo { maps: 1, map_ids, ..ProgramInfo::default() };
    let mut attributes = InfoByFd {
        fd: program.as_raw_fd() as u32,
        info_bytes: size_of::<ProgramInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    bpf("bpf OBJ_GET_INFO_BY_FD", INFO_BY_FD, &mut attributes)?;
    Ok((info, map))
}

/// Opens a program or a map by its number; none if it is gone.
fn by_id(call: &'static str, command: libc::c_int, id: u32) -> Result<Option<OwnedFd>> {
    let mut attributes = ById { id, ..ById::default() };
    match bpf(call, command, &mut attributes) {
        // SAFETY: a new descriptor, which is ours alone.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) })),
        Err(e) if e.is_gone() => Ok(None),
        Err(e) => Err(e),
    }
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
    unused: u32,
    /// Of each program; the kernel wants room for them at [`Hook::FileOpen`] alone.
    each_flags: u64,
}

/// For BPF_OBJ_GET.
#[repr(C)]
#[derive(Default)]
struct OfPath {
    path: u64,
    fd: u32,
    flags: u32,
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

/// A program to load.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Instructions of `struct bpf_insn`.
    pub code: &'a [u8],
    /// The map whose address it loads.
    pub map: Option<BorrowedFd<'a>>,
    /// It forbids nothing.
    pub only_counts: bool,
    /// The kernel's number of the function that it is attached to, with [`Hook::FileOpen`]; else 0.
    pub function: u32,
}

/// Loads a program.
///
/// # Errors
/// `EPERM` where that is not allowed, as in most containers; `EINVAL` or `EACCES` for what is no program.
pub fn load(hook: Hook, program: Program<'_>) -> Result<OwnedFd> {
    const INSTRUCTION_BYTES: usize = 8;
    /// The code of the load of an address, and BPF_PSEUDO_MAP_FD among its registers.
    const LOAD_ADDRESS: u8 = 0x18;
    const OF_MAP: u8 = 1;
    let mut code = program.code.to_vec();
    if let Some(map) = program.map {
        for one in code.chunks_exact_mut(INSTRUCTION_BYTES) {
            if one[0] == LOAD_ADDRESS && one[1] >> 4 == OF_MAP {
                one[4..].copy_from_slice(&map.as_raw_fd().to_ne_bytes());
            }
        }
    }
    let (kind, attach_kind, _) = hook.numbers();
    let mut attributes = Load {
        kind,
        attach_kind,
        instructions: (code.len() / INSTRUCTION_BYTES) as u32,
        code: code.as_ptr() as u64,
        license: hook.license().as_ptr() as u64,
        name: if program.only_counts { ONLY_COUNTS } else { LIMITS },
        function: program.function,
        ..Load::default()
    };
    let fd = bpf("bpf PROG_LOAD", PROG_LOAD, &mut attributes)?;
    // SAFETY: a new descriptor, which is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Attaches a program to a group, in the place of ours that is attached to the group itself at this hook.
pub fn attach(group: BorrowedFd<'_>, hook: Hook, program: BorrowedFd<'_>) -> Result<()> {
    let (before, has_several) = own_attached(group, hook)?;
    let (_, kind, flags) = hook.numbers();
    let flags = if has_several { ALLOW_MULTI } else { flags };
    let (target, program) = (group.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let mut attributes = Attach { target, program, kind, flags };
    match bpf("bpf PROG_ATTACH", PROG_ATTACH, &mut attributes) {
        // The same program is attached already.
        Err(e) if e.errno == libc::EINVAL && !before.is_empty() => return Ok(()),
        other => other?,
    };
    match has_several {
        true => before.into_iter().try_for_each(|id| detach_one(group, hook, Some(id))),
        // It took the place of the other.
        false => Ok(()),
    }
}

/// Takes away what is ours and attached to the group itself at this hook.
pub fn detach(group: BorrowedFd<'_>, hook: Hook) -> Result<()> {
    let (before, has_several) = own_attached(group, hook)?;
    match has_several {
        true => before.into_iter().try_for_each(|id| detach_one(group, hook, Some(id))),
        false if before.is_empty() => Ok(()),
        false => detach_one(group, hook, None),
    }
}

fn detach_one(group: BorrowedFd<'_>, hook: Hook, id: Option<u32>) -> Result<()> {
    let program = match id {
        None => None,
        Some(id) => match by_id("bpf PROG_GET_FD_BY_ID", PROG_GET_FD_BY_ID, id)? {
            None => return Ok(()),
            program => program,
        },
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

/// Opens a program that somebody pinned in a file system of BPF.
pub fn open_pinned(path: &str) -> Result<OwnedFd> {
    let text = std::ffi::CString::new(path).map_err(|_| Error::at("open", path, libc::EINVAL))?;
    let mut attributes = OfPath { path: text.as_ptr() as u64, ..OfPath::default() };
    let fd = bpf("bpf OBJ_GET", OBJ_GET, &mut attributes)?;
    // SAFETY: a new descriptor, which is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Attaches somebody's program to a group beside all others, at a place of `enum bpf_attach_type`.
///
/// # Errors
/// `EINVAL`: it is no program for that place. `EPERM`: one is attached there that allows no others.
pub fn attach_other(group: BorrowedFd<'_>, place: u32, program: BorrowedFd<'_>) -> Result<()> {
    let (target, program) = (group.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let mut attributes = Attach { target, program, kind: place, flags: ALLOW_MULTI };
    bpf("bpf PROG_ATTACH", PROG_ATTACH, &mut attributes).map(drop)
}

/// Takes such a program away; nothing is amiss if it is not there.
pub fn detach_other(group: BorrowedFd<'_>, place: u32, program: BorrowedFd<'_>) -> Result<()> {
    let (target, program) = (group.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let mut attributes = Attach { target, program, kind: place, flags: 0 };
    match bpf("bpf PROG_DETACH", PROG_DETACH, &mut attributes) {
        Err(e) if e.is_gone() => Ok(()),
        other => other.map(drop),
    }
}

/// Numbers of our programs that are attached to the group itself, and whether it takes several.
fn own_attached(group: BorrowedFd<'_>, hook: Hook) -> Result<(Vec<u32>, bool)> {
    let (ids, flags) = attached(group, hook)?;
    let has_several = hook.has_several() || !ids.is_empty() && flags & ALLOW_MULTI != 0;
    let is_ours = |id: &u32| {
        let program = by_id("bpf PROG_GET_FD_BY_ID", PROG_GET_FD_BY_ID, *id);
        let program = program.ok().flatten();
        let name = program.and_then(|program| Some(information(program.as_fd()).ok()?.0.name));
        matches!(name, Some(LIMITS | ONLY_COUNTS))
    };
    let ours = ids.into_iter().filter(is_ours).collect();
    Ok((ours, has_several))
}

/// Numbers of the programs that are attached to the group itself, and with which flags.
fn attached(group: BorrowedFd<'_>, hook: Hook) -> Result<(Vec<u32>, u32)> {
    let mut ids = vec![0u32; ATTACHED_MAX];
    let mut each_flags = vec![0u32; ATTACHED_MAX];
    let mut attributes = Query {
        target: group.as_raw_fd() as u32,
        kind: hook.numbers().1,
        ids: ids.as_mut_ptr() as u64,
        count: ATTACHED_MAX as u32,
        each_flags: if hook == Hook::FileOpen { each_flags.as_mut_ptr() as u64 } else { 0 },
        ..Query::default()
    };
    bpf("bpf PROG_QUERY", PROG_QUERY, &mut attributes)?;
    ids.truncate(attributes.count as usize);
    Ok((ids, attributes.attach_flags))
}

/// Whether a program of the group, or of one above it, is asked at this hook that may forbid something.
pub fn is_limited(group: BorrowedFd<'_>, hook: Hook) -> bool {
    const EFFECTIVE: u32 = 1;
    let mut ids = vec![0u32; ATTACHED_MAX];
    let mut attributes = Query {
        target: group.as_raw_fd() as u32,
        kind: hook.numbers().1,
        query_flags: EFFECTIVE,
        ids: ids.as_mut_ptr() as u64,
        count: ATTACHED_MAX as u32,
        ..Query::default()
    };
    if bpf("bpf PROG_QUERY", PROG_QUERY, &mut attributes).is_err() {
        return false;
    }
    ids.truncate(attributes.count as usize);
    ids.into_iter().any(|id| {
        let program = by_id("bpf PROG_GET_FD_BY_ID", PROG_GET_FD_BY_ID, id);
        let found =
            program.and_then(|program| program.map(|fd| information(fd.as_fd())).transpose());
        match (hook, found) {
            // Others may be for other functions of the kernel.
            (Hook::FileOpen, found) => {
                matches!(found, Ok(Some((info, _))) if info.name == LIMITS)
            }
            (_, Ok(None)) => false,
            // What cannot be asked counts: it is nobody's that only counts.
            (_, found) => !matches!(found, Ok(Some((info, _))) if info.name == ONLY_COUNTS),
        }
    })
}

/// Whether an error says that this machine has no such programs for us.
pub fn is_refused(error: &Error) -> bool {
    matches!(error.errno, libc::EPERM | libc::ENOSYS | libc::EACCES)
}
