//! Loop devices: a part of a file as a block device; loop(4).

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat};

use crate::error::{Context, Error, Result, check};

/// linux/loop.h
const LOOP_GET_STATUS64: libc::c_ulong = 0x4c05;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const READ_ONLY: u32 = 1;
const AUTOCLEAR: u32 = 4;

/// Numbers of the devices (Documentation/admin-guide/devices.txt).
const CONTROL: (u32, u32) = (10, 237);
const MAJOR: u32 = 7;

/// Another process may take the free device before us as often as this.
const TRIES_MAX: usize = 64;

/// Devices that are looked at.
const DEVICES_MAX: usize = 4096;

/// `struct loop_info64`
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    real_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl Info {
    fn new() -> Info {
        Info {
            device: 0,
            inode: 0,
            real_device: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// `struct loop_config`
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// What of a file is to be a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The first byte.
    pub offset: u64,
    /// How many bytes; 0 for all up to the end of the file.
    pub bytes: u64,
    /// It cannot be written to.
    pub read_only: bool,
}

/// A device, which the kernel gives up by itself when nobody has it open and nothing of it is mounted.
#[derive(Debug)]
pub struct LoopDevice {
    /// Its node.
    pub path: PathBuf,
    _open: File,
}

/// Finds the device that is a section of a file already: two of them that are written to damage what is in it.
pub fn find(file: &File, section: Section, nodes: &Path) -> Result<Option<LoopDevice>> {
    let found = file.metadata().map_err(|e| io_error("stat", nodes, &e))?;
    let entries = std::fs::read_dir("/sys/block").map_err(|e| io_error("read", nodes, &e))?;
    for entry in entries.flatten().take(DEVICES_MAX) {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop")?.parse().ok());
        let said = |file: &str| {
            let text = std::fs::read_to_string(entry.path().join("loop").join(file));
            text.ok().and_then(|text| text.trim().parse::<u64>().ok())
        };
        let is_alike =
            said("offset") == Some(section.offset) && said("sizelimit") == Some(section.bytes);
        let Some(number) = number.filter(|_| is_alike) else { continue };
        // Not for writing: who watches devices would take each that is closed for one that was written to.
        let Ok((path, open)) = open_node(number, true, nodes) else { continue };
        let mut info = Info::new();
        // SAFETY: the struct is as large as the kernel's.
        let ret = unsafe {
            libc::ioctl(open.as_raw_fd(), LOOP_GET_STATUS64 as _, std::ptr::from_mut(&mut info))
        };
        let is_it = ret == 0
            && (info.device, info.inode) == (found.dev(), found.ino())
            && (info.offset, info.size_limit) == (section.offset, section.bytes)
            && (info.flags & READ_ONLY != 0) == section.read_only;
        if is_it {
            return Ok(Some(LoopDevice { path, _open: open }));
        }
    }
    Ok(None)
}

/// Makes a section of a file a device. Nodes that are not in /dev are made in `nodes`.
pub fn attach(file: &File, section: Section, nodes: &Path) -> Result<LoopDevice> {
    let control = open_or_make(Path::new("/dev/loop-control"), CONTROL, true, nodes)?.1;
    let mut last = Error::new("LOOP_CONFIGURE", libc::EBUSY);
    for _ in 0..TRIES_MAX {
        let number = free(control.as_fd())?;
        let (path, open) = open_node(number, section.read_only, nodes)?;
        match configure(open.as_fd(), file.as_fd(), section) {
            Ok(()) => return Ok(LoopDevice { path, _open: open }),
            Err(e) if e.errno == libc::EBUSY => last = e,
            Err(e) => return Err(e.on(path)),
        }
    }
    Err(last)
}

fn free(control: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: it takes no argument.
    let ret = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
    check("LOOP_CTL_GET_FREE", ret as _).map(|number| number as u32)
}

fn configure(device: BorrowedFd<'_>, file: BorrowedFd<'_>, section: Section) -> Result<()> {
    let mut info = Info::new();
    info.offset = section.offset;
    info.size_limit = section.bytes;
    info.flags = AUTOCLEAR | if section.read_only { READ_ONLY } else { 0 };
    let config = Config { fd: file.as_raw_fd() as u32, block_size: 0, info, reserved: [0; 8] };
    // SAFETY: the struct is as large as the kernel's, which only reads it.
    let ret = unsafe {
        libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, std::ptr::from_ref(&config))
    };
    check("LOOP_CONFIGURE", ret as _).map(drop)
}

fn open_node(number: u32, read_only: bool, nodes: &Path) -> Result<(PathBuf, File)> {
    let path = PathBuf::from(format!("/dev/loop{number}"));
    open_or_make(&path, (MAJOR, number), !read_only, nodes)
}

/// The node in /dev, or one with this number that is made where it is not there.
fn open_or_make(
    path: &Path,
    (major, minor): (u32, u32),
    writes: bool,
    nodes: &Path,
) -> Result<(PathBuf, File)> {
    let open = |path: &Path| {
        let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)
    };
    match open(path) {
        Ok(fd) => Ok((path.to_owned(), File::from(fd))),
        Err(e) if e.errno == libc::ENOENT => {
            let own = nodes.join(path.file_name().unwrap_or_default());
            let kind =
                if major == MAJOR { FileType::BlockDevice } else { FileType::CharacterDevice };
            match mknodat(CWD, &own, kind, Mode::RUSR | Mode::WUSR, makedev(major, minor)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(e) => return Err(Error::at("mknod", own, e.raw_os_error())),
            }
            Ok((own.clone(), File::from(open(&own)?)))
        }
        Err(e) => Err(e),
    }
}

fn io_error(call: &'static str, path: &Path, error: &std::io::Error) -> Error {
    Error::at(call, path, error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;
    use warren_testkit::Scratch;

    #[test]
    fn a_part_of_a_file_is_a_device_as_long_as_somebody_has_it() {
        let scratch = Scratch::new("loop");
        let path = scratch.path("image");
        std::fs::write(&path, vec![1; 8192]).expect("a file");
        let file = File::options().read(true).write(true).open(&path).expect("it is there");
        file.write_at(b"here", 4096).expect("it can be written");
        let section = Section { offset: 4096, bytes: 4096, read_only: false };
        let device = match attach(&file, section, &scratch.0) {
            Ok(device) => device,
            Err(e) => return crate::test_not_run("loop", &format!("loop devices: {e}")),
        };
        let mut begin = [0; 4];
        device._open.read_exact_at(&mut begin, 0).expect("it can be read");
        assert_eq!(&begin, b"here");
        let again = find(&file, section, &scratch.0).expect("looked for").expect("it is there");
        assert_eq!(again.path, device.path);
        let other = Section { offset: 0, ..section };
        assert!(find(&file, other, &scratch.0).expect("looked for").is_none());
        drop((device, again));
        // The kernel clears it when the last one closes it, which it may do a moment later.
        warren_testkit::wait_until("it is cleared", || {
            find(&file, section, &scratch.0).expect("looked for").is_none()
        });
    }
}
