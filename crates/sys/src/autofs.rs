//! Automount points: direct autofs mounts, protocol 5.
//!
//! The kernel holds back whoever first touches the mount point and writes a packet into a pipe;
//! the reader mounts something there and answers through `/dev/autofs`. Only processes in the
//! process group that made the mount pass while it waits. Sources:
//! Documentation/filesystems/autofs.rst and autofs-mount-control.rst, linux/auto_fs.h.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::error::{Context, Error, Result, check, last_errno};
use crate::mount::MountPoint;

/// Size of a version 5 packet, all of which is always written at once.
pub const PACKET_BYTES: usize = 304;

/// What the kernel asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// Somebody wants what should be mounted there.
    Missing {
        /// For the answer.
        token: u32,
        /// Who touched it first, in our pid namespace; 0 when it has no pid there.
        pid: u32,
        /// The same's user id.
        uid: u32,
    },
    /// It has not been used for the timeout and shall be unmounted.
    Expire {
        /// For the answer.
        token: u32,
    },
}

/// Understands a packet. `None`: too short, of another version or of another type.
pub fn parse_packet(bytes: &[u8]) -> Option<Packet> {
    let word = |at: usize| {
        let field = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(field.try_into().expect("four bytes")))
    };
    let (version, kind, token) = (word(0)?, word(4)?, word(8)?);
    if version != 5 || bytes.len() < 44 {
        return None;
    }
    match kind {
        3 | 5 => Some(Packet::Missing { token, uid: word(24)?, pid: word(32)? }),
        4 | 6 => Some(Packet::Expire { token }),
        _ => None,
    }
}

/// Reads the next packet, with the device number (as the kernel passes it, see [`kernel_device`])
/// of the mount that it is about; `None` when there is none. Non-blocking.
pub fn read_packet(pipe: BorrowedFd<'_>) -> Result<Option<(u32, Packet)>> {
    let mut buffer = [0u8; PACKET_BYTES];
    match rustix::io::read(pipe, &mut buffer) {
        // A packet that is not understood must not stop the others: nobody waits for version 4.
        Ok(n) if n > 0 => match parse_packet(buffer.get(..n).unwrap_or_default()) {
            Some(packet) => {
                let device = u32::from_ne_bytes([buffer[12], buffer[13], buffer[14], buffer[15]]);
                Ok(Some((device, packet)))
            }
            None => Err(Error::new("autofs packet", libc::EPROTO)),
        },
        Ok(_) => Err(Error::new("read autofs pipe", libc::EPIPE)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(e) => Err(e).call("read autofs pipe"),
    }
}

/// A pipe for the packets of any number of automount points: the end to read from, non-blocking,
/// and the end that the mounts are given. A mount dies when nobody has the reading end any more.
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    use rustix::pipe::{PipeFlags, pipe_with};
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).call("pipe2")?;
    // Each packet takes a slot of its own; a process that finds no slot waits for one.
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20);
    Ok((reader, writer))
}

/// What an automount point's [`Point::pipe`] is if it reports into this pipe.
pub fn pipe_inode(pipe: BorrowedFd<'_>) -> Result<u64> {
    Ok(rustix::fs::fstat(pipe).call("fstat autofs pipe")?.st_ino)
}

/// Duplicates what is in the pipe into another that is empty, without taking it; the bytes.
pub fn peek(reader: BorrowedFd<'_>, copy: BorrowedFd<'_>) -> Result<usize> {
    use rustix::pipe::{SpliceFlags, tee};
    match tee(reader, copy, 1 << 20, SpliceFlags::NONBLOCK) {
        Ok(bytes) => Ok(bytes),
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        Err(e) => Err(e).call("tee autofs pipe"),
    }
}

/// An automount point that is nowhere yet: whose packets are is known before there can be one.
#[derive(Debug)]
pub struct Detached {
    mount: OwnedFd,
    device: u64,
}

impl Detached {
    /// Makes one that will report into `writer`. `options` are further ones of autofs, e.g. empty. Needs
    /// CAP_SYS_ADMIN.
    pub fn make(source: &str, options: &str, writer: BorrowedFd<'_>) -> Result<Detached> {
        let group = rustix::process::getpgrp().as_raw_nonzero();
        let data = format!("fd={},pgrp={group},minproto=5,maxproto=5,direct", writer.as_raw_fd());
        let data = data.split(',').chain(options.split(',').filter(|option| !option.is_empty()));
        let mount = crate::mount::make(source, "autofs", data)?;
        let device = rustix::fs::fstat(&mount).call("fstat autofs")?.st_dev;
        Ok(Detached { mount, device })
    }

    /// The device number, as stat(2) reports it: the name by which packets speak of it.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Puts it at a directory. From then on it catches whoever comes there.
    pub fn attach(&self, at: &MountPoint) -> Result<()> {
        crate::mount::attach_to(self.mount.as_fd(), at.place())
    }
}

/// An automount point that is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Where it is.
    pub path: String,
    /// Its device number, as stat(2) reports it.
    pub device: u64,
    /// The inode of the pipe that it reports into; `None` if it reports no more.
    pub pipe: Option<u64>,
    /// Nothing else is mounted at the same path.
    pub is_alone: bool,
}

/// All automount points, also those below what is mounted on them: from `/proc/self/mountinfo`, which has the device
/// number of every mount.
pub fn points() -> Result<Vec<Point>> {
    Ok(points_of(&crate::text::read("/proc/thread-self/mountinfo")?))
}

fn points_of(table: &str) -> Vec<Point> {
    let path = |line: &str| line.split(' ').nth(4).map(crate::text::unescape_octal);
    let mut points: Vec<Point> = table.lines().filter_map(point_in_line).collect();
    let mut mounts = std::collections::BTreeMap::<String, u32>::new();
    mounts.extend(points.iter().map(|point| (point.path.clone(), 0)));
    for path in table.lines().filter_map(path) {
        mounts.entry(path).and_modify(|count| *count += 1);
    }
    for point in &mut points {
        point.is_alone = mounts.get(&point.path) == Some(&1);
    }
    points
}

fn point_in_line(line: &str) -> Option<Point> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ');
    let (major, minor) = fields.nth(2)?.split_once(':')?;
    let path = crate::text::unescape_octal(fields.nth(1)?);
    let device = libc::makedev(major.parse().ok()?, minor.parse().ok()?);
    let mut right = right.split(' ');
    let is_autofs = right.next() == Some("autofs");
    let option = |word: &str, name: &str| {
        word.split(',').find_map(|option| option.strip_prefix(name)?.parse::<i64>().ok())
    };
    let options = right.nth(1).unwrap_or_default();
    // One that catches nobody any more has no descriptor.
    let reports = option(options, "fd=").is_some_and(|fd| fd >= 0);
    let pipe = option(options, "pipe_ino=").and_then(|inode| u64::try_from(inode).ok());
    let pipe = pipe.filter(|_| reports);
    is_autofs.then_some(Point { path, device, pipe, is_alone: false })
}

/// `/dev/autofs`, through which mount points are controlled.
#[derive(Debug)]
pub struct Device(OwnedFd);

/// `struct autofs_dev_ioctl` with the largest argument.
#[repr(C)]
struct Request {
    major: u32,
    minor: u32,
    size: u32,
    fd: i32,
    argument: [u32; 2],
}

/// The same with a path behind it.
#[repr(C)]
struct PathRequest {
    request: Request,
    path: [u8; libc::PATH_MAX as usize],
}

const REQUEST_BYTES: u32 = size_of::<Request>() as u32;

const OPEN_MOUNT: u32 = 0x74;
const READY: u32 = 0x76;
const FAIL: u32 = 0x77;
const CATATONIC: u32 = 0x79;
const TIMEOUT: u32 = 0x7a;
const EXPIRE: u32 = 0x7c;

/// `_IOWR(0x93, command, struct autofs_dev_ioctl)`.
const fn ioctl_number(command: u32) -> libc::c_ulong {
    (3 << 30 | REQUEST_BYTES << 16 | 0x93 << 8 | command) as libc::c_ulong
}

fn request(fd: RawFd, argument: [u32; 2]) -> Request {
    Request { major: 1, minor: 0, size: REQUEST_BYTES, fd, argument }
}

/// How hard to look for something to expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpireHow {
    /// Only what was not used for the timeout.
    Unused,
    /// Also what was used recently.
    Immediately,
}

impl Device {
    /// Opens it. `ENOENT` when the kernel has no autofs.
    pub fn open() -> Result<Device> {
        /// Of the kernel's list of devices.
        const MINOR: u32 = 235;
        crate::file::open_misc("/dev/autofs", MINOR).map(Device)
    }

    /// Opens the automount point at a path for control, also below what is mounted on it; the
    /// device number tells which.
    pub fn open_mount(&self, path: &str, device: u64) -> Result<OwnedFd> {
        let bytes = path.as_bytes();
        let mut full = PathRequest {
            request: request(-1, [kernel_device(device), 0]),
            path: [0; libc::PATH_MAX as usize],
        };
        let room = full.path.get_mut(..bytes.len()).filter(|r| r.len() < libc::PATH_MAX as usize);
        room.ok_or_else(|| Error::at("autofs openmount", path, libc::ENAMETOOLONG))?
            .copy_from_slice(bytes);
        full.request.size = REQUEST_BYTES + bytes.len() as u32 + 1;
        // SAFETY: `size` bytes of the struct are initialised, path terminated; on success the
        // kernel stores a new fd that is ours.
        unsafe {
            let number = ioctl_number(OPEN_MOUNT);
            let ret = libc::ioctl(self.0.as_raw_fd(), number, &raw mut full);
            if ret < 0 {
                return Err(Error::at("autofs openmount", path, last_errno()));
            }
            Ok(OwnedFd::from_raw_fd(full.request.fd))
        }
    }

    /// Mounted: whoever waits may go on.
    pub fn ready(&self, handle: BorrowedFd<'_>, token: u32) -> Result<()> {
        self.call("autofs ready", READY, handle, [token, 0]).map(|_| ())
    }

    /// It could not be mounted (or unmounted): whoever waits gets this error number.
    pub fn fail(&self, handle: BorrowedFd<'_>, token: u32, errno: i32) -> Result<()> {
        let status = (-errno.abs()) as u32;
        self.call("autofs fail", FAIL, handle, [token, status]).map(|_| ())
    }

    /// Stops triggering: accesses fail with ENOENT at once, those waiting, too.
    pub fn make_catatonic(&self, handle: BorrowedFd<'_>) -> Result<()> {
        self.call("autofs catatonic", CATATONIC, handle, [0, 0]).map(|_| ())
    }

    /// How long it must be unused before it expires, seconds; 0: never.
    pub fn set_timeout(&self, handle: BorrowedFd<'_>, seconds: u64) -> Result<()> {
        let argument = [seconds as u32, (seconds >> 32) as u32];
        self.call("autofs timeout", TIMEOUT, handle, argument).map(|_| ())
    }

    /// Looks for something to expire and, if there is, **waits** until the expire packet that
    /// this sends has been answered: call it from a worker. `Ok(false)`: nothing to expire.
    pub fn expire(&self, handle: BorrowedFd<'_>, how: ExpireHow) -> Result<bool> {
        let how = u32::from(how == ExpireHow::Immediately);
        match self.call("autofs expire", EXPIRE, handle, [how, 0]) {
            Ok(_) => Ok(true),
            Err(e) if e.errno == libc::EAGAIN => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn call(
        &self,
        name: &'static str,
        command: u32,
        handle: BorrowedFd<'_>,
        argument: [u32; 2],
    ) -> Result<[u32; 2]> {
        let mut request = request(handle.as_raw_fd(), argument);
        // SAFETY: the struct is initialised, of the size it says, and lives over the call.
        let ret =
            unsafe { libc::ioctl(self.0.as_raw_fd(), ioctl_number(command), &raw mut request) };
        check(name, ret as _).map(|_| request.argument)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The 32 bits in which the kernel passes device numbers: new_encode_dev of linux/kdev_t.h.
pub fn kernel_device(device: u64) -> u32 {
    let (major, minor) = (libc::major(device), libc::minor(device));
    (minor & 0xff) | major << 8 | (minor & !0xff) << 12
}

/// The inverse of [`kernel_device`].
pub fn user_device(device: u32) -> u64 {
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    libc::makedev(major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(version: u32, kind: u32) -> Vec<u8> {
        let mut bytes = vec![0u8; PACKET_BYTES];
        for (at, value) in [(0, version), (4, kind), (8, 77), (24, 1000), (32, 4242)] {
            bytes[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
        }
        bytes
    }

    #[test]
    fn packets_are_understood() {
        let missing = Packet::Missing { token: 77, pid: 4242, uid: 1000 };
        assert_eq!(parse_packet(&packet(5, 5)), Some(missing));
        assert_eq!(parse_packet(&packet(5, 6)), Some(Packet::Expire { token: 77 }));
        assert_eq!(parse_packet(&packet(4, 5)), None);
        assert_eq!(parse_packet(&packet(5, 9)), None);
        assert_eq!(parse_packet(&packet(5, 5)[..40]), None);
        assert_eq!(parse_packet(&[]), None);
    }

    #[test]
    fn mountinfo_tells_of_automount_points() {
        let table = "36 35 0:64 / /a\\040b rw - autofs warren rw,fd=5,pgrp=1,direct,pipe_ino=77\n\
                     37 35 0:65 / /c rw a:1 - autofs x rw,fd=-1,pgrp=0,direct,pipe_ino=77\n\
                     38 35 0:66 / /c rw - tmpfs x rw,fd=5\n";
        let point = |path: &str, device, pipe, is_alone| Point {
            path: path.to_owned(),
            device: libc::makedev(0, device),
            pipe,
            is_alone,
        };
        let expected = [point("/a b", 64, Some(77), true), point("/c", 65, None, false)];
        assert_eq!(points_of(table), expected);
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        assert_eq!(ioctl_number(READY), 0xc018_9376);
        assert_eq!(kernel_device(libc::makedev(8, 1)), 0x801);
        assert_eq!(kernel_device(libc::makedev(0, 0x123)), 0x0010_0023);
        for device in [libc::makedev(0, 0x123), libc::makedev(8, 1), libc::makedev(0, 0xf_ffff)] {
            assert_eq!(user_device(kernel_device(device)), device);
        }
    }
}
