//! Taking storage apart at the end: swap, loop devices, MD arrays, and what is left mounted.
//!
//! Every call here can block for as long as a device or a server likes: each is for a process of
//! its own.

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::error::{Context, Error, Result};

/// `LOOP_CLR_FD`, linux/loop.h.
const LOOP_CLR_FD: libc::c_ulong = 0x4c01;

/// `STOP_ARRAY`, linux/raid/md_u.h: `_IO(MD_MAJOR, 0x32)`.
const STOP_ARRAY: libc::c_ulong = 0x0932;

/// swapoff(2): what lies in this swap area goes back to memory.
pub fn swap_off(path: &str) -> Result<()> {
    let name = CString::new(path).map_err(|_| Error::at("swapoff", path, libc::EINVAL))?;
    // SAFETY: the name is a C string that outlives the call.
    let ret = unsafe { libc::swapoff(name.as_ptr()) };
    done(ret, "swapoff", path)
}

/// Detaches a loop device from its file; at once, or when its last user is gone (loop(4)).
pub fn detach_loop(path: &str) -> Result<()> {
    match control(path, LOOP_CLR_FD, "LOOP_CLR_FD") {
        // It had no file any more: mount(8) asks for such devices, which go with their mount.
        Err(e) if e.errno == libc::ENXIO => Ok(()),
        done => done,
    }
}

/// Removes a loop device that has no file and no user; loop(4), `LOOP_CTL_REMOVE`.
pub fn remove_loop(number: u32) -> Result<()> {
    const LOOP_CTL_REMOVE: libc::c_ulong = 0x4c81;
    const CONTROL: &str = "/dev/loop-control";
    let control = std::fs::File::open(CONTROL)
        .map_err(|e| Error::at("LOOP_CTL_REMOVE", CONTROL, e.raw_os_error().unwrap_or(0)))?;
    // SAFETY: the descriptor is open, and the argument is a plain number.
    let ret = unsafe {
        libc::ioctl(control.as_raw_fd(), LOOP_CTL_REMOVE as _, libc::c_long::from(number))
    };
    done(ret, "LOOP_CTL_REMOVE", CONTROL)
}

/// Stops an MD array. `EBUSY` while it is in use.
pub fn stop_array(path: &str) -> Result<()> {
    control(path, STOP_ARRAY, "STOP_ARRAY")
}

/// Removes a device of the device-mapper by its name: `DM_DEV_REMOVE` of linux/dm-ioctl.h. `EBUSY`
/// while it is in use.
pub fn remove_mapped(name: &str) -> Result<()> {
    /// `_IOWR(DM_IOCTL, 4, struct dm_ioctl)`
    const DM_DEV_REMOVE: libc::c_ulong = 0xc138_fd04;
    const CONTROL: &str = "/dev/mapper/control";
    /// `struct dm_ioctl`
    #[repr(C)]
    struct Arguments {
        version: [u32; 3],
        data_size: u32,
        data_start: u32,
        target_count: u32,
        open_count: i32,
        flags: u32,
        event_nr: u32,
        padding: u32,
        dev: u64,
        name: [u8; 128],
        uuid: [u8; 129],
        data: [u8; 7],
    }
    const _: () = assert!(size_of::<Arguments>() == 312, "the request's number says so");
    let mut arguments = Arguments {
        version: [4, 0, 0],
        data_size: size_of::<Arguments>() as u32,
        data_start: 0,
        target_count: 0,
        open_count: 0,
        flags: 0,
        event_nr: 0,
        padding: 0,
        dev: 0,
        name: [0; 128],
        uuid: [0; 129],
        data: [0; 7],
    };
    // The name ends in NUL.
    let room = arguments.name.get_mut(..name.len()).filter(|_| name.len() < 128);
    room.ok_or_else(|| Error::at("DM_DEV_REMOVE", name, libc::ENAMETOOLONG))?
        .copy_from_slice(name.as_bytes());
    let control = std::fs::File::open(CONTROL)
        .map_err(|e| Error::at("DM_DEV_REMOVE", CONTROL, e.raw_os_error().unwrap_or(0)))?;
    // SAFETY: the descriptor is open, and the argument is of the layout and size that the request
    // names, may be written to and outlives the call.
    let ret = unsafe { libc::ioctl(control.as_raw_fd(), DM_DEV_REMOVE as _, &raw mut arguments) };
    match done(ret, "DM_DEV_REMOVE", name) {
        // It went with its last user.
        Err(e) if e.errno == libc::ENXIO => Ok(()),
        removed => removed,
    }
}

/// Tells the kernel of a device that has a part of a btrfs, so that it can be mounted by any of
/// them: `BTRFS_IOC_SCAN_DEV` of linux/btrfs.h. Nothing is done where there is no btrfs.
pub fn register_btrfs(path: &Path) -> Result<()> {
    /// `_IOW(0x94, 4, struct btrfs_ioctl_vol_args)`
    const BTRFS_IOC_SCAN_DEV: libc::c_ulong = 0x5000_9404;
    /// Of the kernel's list of devices.
    const BTRFS_MINOR: u32 = 234;
    /// `struct btrfs_ioctl_vol_args`: a descriptor, which is not used, and a path that ends in NUL.
    #[repr(C)]
    struct Arguments {
        fd: i64,
        name: [u8; 4088],
    }
    let mut arguments = Arguments { fd: 0, name: [0; 4088] };
    let bytes = path.as_os_str().as_encoded_bytes();
    let room = arguments.name.get_mut(..bytes.len()).filter(|_| bytes.len() < 4088);
    room.ok_or_else(|| Error::at("BTRFS_IOC_SCAN_DEV", path, libc::ENAMETOOLONG))?
        .copy_from_slice(bytes);
    let control = match crate::file::open_misc("/dev/btrfs-control", BTRFS_MINOR) {
        Err(e) if matches!(e.errno, libc::ENOENT | libc::ENODEV | libc::ENXIO) => return Ok(()),
        other => other?,
    };
    // SAFETY: the descriptor is open, and the argument is of the layout and size that the request
    // names and outlives the call.
    let ret =
        unsafe { libc::ioctl(control.as_raw_fd(), BTRFS_IOC_SCAN_DEV as _, &raw const arguments) };
    match ret {
        0.. => Ok(()),
        _ => Err(Error::last("BTRFS_IOC_SCAN_DEV").on(path)),
    }
}

/// An ioctl without an argument on a block device.
fn control(path: &str, request: libc::c_ulong, name: &'static str) -> Result<()> {
    let device = std::fs::File::open(path)
        .map_err(|e| Error::at(name, path, e.raw_os_error().unwrap_or(0)))?;
    // SAFETY: the descriptor is open, and the request takes no argument.
    let ret = unsafe { libc::ioctl(device.as_raw_fd(), request as _, 0) };
    done(ret, name, path)
}

/// Writes out what the file system of this path holds in memory, syncfs(2).
pub fn sync_file_system(path: &str) -> Result<()> {
    let directory = rustix::fs::open(
        path,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .call_on("open", path)?;
    rustix::fs::syncfs(directory).call_on("syncfs", path)
}

/// sync(2).
pub fn sync() {
    rustix::fs::sync();
}

/// Bytes that wait to be written to devices, of `/proc/meminfo`.
pub fn dirty_bytes() -> u64 {
    let text = std::fs::read_to_string(Path::new("/proc/meminfo")).unwrap_or_default();
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    (kib("Dirty:").unwrap_or(0) + kib("Writeback:").unwrap_or(0)) * 1024
}

fn done(ret: libc::c_int, call: &'static str, path: &str) -> Result<()> {
    match ret {
        0 => Ok(()),
        _ => Err(Error::last(call).on(path)),
    }
}
