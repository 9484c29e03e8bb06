//! statmount(2) and listmount(2), Linux 6.8: one mount by its id, without a table.

use std::os::fd::AsRawFd;

use crate::error::{Context, Error, Result, check};

use super::Mount;

const SYS_STATMOUNT: libc::c_long = 457;
const SYS_LISTMOUNT: libc::c_long = 458;

/// `struct mnt_id_req`, first version.
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    id: u64,
    param: u64,
}

fn request(id: u64, param: u64) -> Request {
    Request { size: size_of::<Request>() as u32, spare: 0, id, param }
}

/// Which parts are asked for and were given (STATMOUNT_*).
const BASIC: u64 = 0x2;
const POINT: u64 = 0x10;
const FS_TYPE: u64 = 0x20;
const FS_SUBTYPE: u64 = 0x100;
const SOURCE: u64 = 0x200;
const SUPER_BLOCK: u64 = 0x1;
const OPTIONS: u64 = 0x80;

/// The version of Linux that tells of [`OPTIONS`].
const OPTIONS_SINCE: (u32, u32) = (6, 11);

/// SB_* of the kernel.
const SUPER_FLAGS: &[(u64, &str)] =
    &[(0x1, "ro"), (0x10, "sync"), (0x80, "dirsync"), (0x200_0000, "lazytime")];

/// MOUNT_ATTR_* of linux/mount.h, in the order of mountinfo.
const ATTRIBUTES: &[(u64, &str)] = &[
    (0x1, "ro"),
    (0x2, "nosuid"),
    (0x4, "nodev"),
    (0x8, "noexec"),
    (0x80, "nodiratime"),
    (0x20_0000, "nosymfollow"),
];

/// Which of three ways to keep access times: the first is relatime.
const ATTRIBUTE_ATIME: u64 = 0x70;
const ATTRIBUTE_NOATIME: u64 = 0x10;

/// Offsets in `struct statmount` of linux/mount.h.
const AT_MASK: usize = 8;
const AT_OPTIONS: usize = 4;
const AT_SUPER_FLAGS: usize = 32;
const AT_FS_TYPE: usize = 36;
const AT_PARENT: usize = 48;
const AT_ATTRIBUTES: usize = 64;
const AT_POINT: usize = 108;
const AT_FS_SUBTYPE: usize = 120;
const AT_SOURCE: usize = 124;
const AT_STRINGS: usize = 512;

/// Room for the struct and its strings; asked again with the larger one when it is too small.
const ROOM: [usize; 2] = [4 << 10, 64 << 10];

/// A mount by its unique id. `ENOENT` when it is not in this namespace (any more), `ENOSYS`
/// before Linux 6.8. Never blocks on the file system.
pub fn stat(id: u64) -> Result<Mount> {
    let told = tell(id, BASIC | POINT | FS_TYPE | FS_SUBTYPE | SOURCE)?;
    parse(id, &told).ok_or(Error::new("statmount", libc::EPROTO))
}

/// What the kernel tells of these parts of a mount.
fn tell(id: u64, parts: u64) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    for room in ROOM {
        buffer.resize(room, 0u8);
        match fill(id, parts, &mut buffer) {
            Err(e) if e.errno == libc::EOVERFLOW => continue,
            told => return told.map(|()| buffer),
        }
    }
    Err(Error::new("statmount", libc::EOVERFLOW))
}

/// The options of a mount as mount(8) shows them; `None` where the kernel does not tell those of the file system
/// (before Linux 6.11).
pub fn options_of(id: u64) -> Result<Option<String>> {
    tell(id, SUPER_BLOCK | BASIC | OPTIONS).map(|told| parse_options(&told))
}

fn parse_options(buffer: &[u8]) -> Option<String> {
    let long = |at: usize| Some(u64::from_ne_bytes(buffer.get(at..at + 8)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_ne_bytes(buffer.get(at..at + 4)?.try_into().ok()?));
    let given = long(AT_MASK)?;
    if given & (BASIC | SUPER_BLOCK) != BASIC | SUPER_BLOCK {
        return None;
    }
    let is_told = given & OPTIONS != 0;
    let of_file_system = if is_told { string_at(buffer, AT_OPTIONS)? } else { String::new() };
    // Without any the kernel leaves it out: so it does before it knew of them.
    if !is_told && !knows_options() {
        return None;
    }
    let super_flags = words(SUPER_FLAGS, u64::from(word(AT_SUPER_FLAGS)?));
    let attributes = long(AT_ATTRIBUTES)?;
    let times = match attributes & ATTRIBUTE_ATIME {
        0 => Some("relatime"),
        ATTRIBUTE_NOATIME => Some("noatime"),
        _ => None,
    };
    let own = words(ATTRIBUTES, attributes).into_iter().chain(times);
    let of_file_system = of_file_system.trim_start_matches(',');
    let all: Vec<&str> = super_flags.into_iter().chain([of_file_system]).collect();
    Some(super::mountinfo::joined(own, &all.join(",")))
}

fn fill(id: u64, parts: u64, buffer: &mut [u8]) -> Result<()> {
    let request = request(id, parts);
    // SAFETY: the request lives over the call; the kernel writes at most `len` bytes.
    let ret = unsafe {
        libc::syscall(SYS_STATMOUNT, &raw const request, buffer.as_mut_ptr(), buffer.len(), 0)
    };
    check("statmount", ret).map(|_| ())
}

fn parse(id: u64, buffer: &[u8]) -> Option<Mount> {
    let long = |at: usize| Some(u64::from_ne_bytes(buffer.get(at..at + 8)?.try_into().ok()?));
    let given = long(AT_MASK)?;
    let string = |part: u64, at: usize| {
        let present = given & part != 0;
        present.then(|| string_at(buffer, at)).flatten().filter(|s| !s.is_empty())
    };
    let mut fstype = string(FS_TYPE, AT_FS_TYPE)?;
    if let Some(subtype) = string(FS_SUBTYPE, AT_FS_SUBTYPE) {
        fstype = format!("{fstype}.{subtype}");
    }
    Some(Mount {
        id,
        parent: long(AT_PARENT)?,
        mount_point: string(POINT, AT_POINT)?,
        source: string(SOURCE, AT_SOURCE).unwrap_or_else(|| "none".to_owned()),
        fstype,
    })
}

/// Whether the kernel tells of options: it leaves them out where a file system has none, too.
fn knows_options() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(std::result::Result::ok).unwrap_or(0);
    (next(), next()) >= OPTIONS_SINCE
}

/// The names of the flags that are set.
fn words(names: &[(u64, &'static str)], flags: u64) -> Vec<&'static str> {
    names.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name).collect()
}

/// The string whose offset is in the struct.
fn string_at(buffer: &[u8], at: usize) -> Option<String> {
    let offset = u32::from_ne_bytes(buffer.get(at..at + 4)?.try_into().ok()?) as usize;
    let tail = buffer.get(AT_STRINGS + offset..)?;
    let end = tail.iter().position(|&b| b == 0)?;
    Some(String::from_utf8_lossy(&tail[..end]).into_owned())
}

/// How often a path is looked at.
const LOOKS_MAX: usize = 16;

/// The unique id of the mount whose root is at `path`; `Ok(None)` when the path is inside a mount.
/// Triggers no automount, and asks nobody's server: `EAGAIN` where the kernel does not know the way by
/// itself, `EINVAL` or `ENOSYS` where it cannot be asked (before Linux 5.12 or 6.8).
pub fn mount_root_id(path: &str) -> Result<Option<u64>> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
    const MNT_ID_UNIQUE: u32 = 0x4000;
    const ATTRIBUTE_MOUNT_ROOT: u64 = 0x2000;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let look = || rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
    // Whoever mounts or unmounts anything just then makes the kernel say so, too.
    let again = |found: &rustix::io::Result<_>| matches!(found, Err(rustix::io::Errno::AGAIN));
    let mut looks = std::iter::repeat_with(look).take(LOOKS_MAX);
    let found = looks.find(|found| !again(found)).unwrap_or(Err(rustix::io::Errno::AGAIN));
    let found = found.call_on("openat2", path)?;
    // SAFETY: an all-zero statx is valid.
    let mut out: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the path is terminated and `out` lives over the call.
    let ret =
        unsafe { libc::statx(found.as_raw_fd(), c"".as_ptr(), flags, MNT_ID_UNIQUE, &raw mut out) };
    check("statx", ret as _).map_err(|e| e.on(path))?;
    if out.stx_mask & MNT_ID_UNIQUE == 0 {
        return Err(Error::at("statx", path, libc::ENOSYS));
    }
    let is_root = out.stx_attributes & ATTRIBUTE_MOUNT_ROOT != 0;
    Ok(is_root.then_some(out.stx_mnt_id))
}

/// Unique ids of all mounts that this process can see. `ENOSYS` before Linux 6.8.
pub fn list() -> Result<Vec<u64>> {
    const ROOT: u64 = u64::MAX;
    const BATCH: usize = 1024;
    let mut ids = Vec::new();
    loop {
        let start = ids.len();
        let request = request(ROOT, ids.last().copied().unwrap_or(0));
        ids.resize(start + BATCH, 0u64);
        // SAFETY: the request lives over the call; the kernel writes at most BATCH ids behind
        // the pointer, where the vector has just been given room for them.
        let ret = unsafe {
            let room = ids.as_mut_ptr().add(start);
            libc::syscall(SYS_LISTMOUNT, &raw const request, room, BATCH, 0)
        };
        let got = check("listmount", ret)? as usize;
        ids.truncate(start + got.min(BATCH));
        if got < BATCH {
            return Ok(ids);
        }
    }
}
