//! What can go wrong with files, and what can be wrong in them.

use std::fmt;

/// Result of what touches files.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault in bytes that were read: which rule of the format they break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage(pub &'static str);

/// A failed operation on the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    Io {
        /// What was tried: `open`, `read`, `write`, `sync`, `rename`, `unlink`, `list`.
        op: &'static str,
        /// File name in the store's directory, or the directory.
        name: String,
        /// Error number of errno(3).
        errno: i32,
    },
    /// Bytes that break the format or fail their checksum.
    Damaged {
        /// File name in the store's directory.
        name: String,
        /// Where in the file, in bytes.
        offset: u64,
        /// The rule that is broken.
        what: &'static str,
    },
    /// Several such places of one file.
    DamagedParts {
        /// File name.
        name: String,
        /// How many.
        count: usize,
        /// Where in the file the first one is, in bytes.
        offset: u64,
        /// The rule that is broken there.
        what: &'static str,
    },
    /// Written by a later version, or with a feature this one does not know.
    Unsupported {
        /// File name in the store's directory.
        name: String,
        /// Incompatible feature flags that are not known here.
        flags: u32,
    },
    /// More than the store takes.
    TooLarge {
        /// What it is.
        what: &'static str,
        /// The bound, in bytes or pieces.
        max: usize,
    },
    /// A class name that is not 1 to 32 of `a-z0-9_`, or one class too many.
    BadClass(String),
    /// The directory belongs to another writer that is still running.
    Locked(String),
    /// The disk has refused writes for so long that the memory for them is full.
    Backlog,
    /// The disk has been asked to make something durable and says nothing.
    NoAnswer,
    /// Less is free in the file system than is to be left to others.
    NoRoom,
    /// Somebody has removed or replaced a file that is being written.
    Removed(String),
    /// The directory is in another file system than a moment ago.
    OtherDisk(String),
}

impl Error {
    /// An input/output error with the number of the operating system.
    pub fn io(op: &'static str, name: &str, error: &std::io::Error) -> Error {
        use warren_sys::errno::EIO;
        Error::Io { op, name: name.to_owned(), errno: error.raw_os_error().unwrap_or(EIO) }
    }

    /// The file of that name cannot be read: it is damaged, of a later version, or its device does not
    /// give it.
    pub fn is_about(&self, file: &str) -> bool {
        match self {
            Error::Damaged { name, .. }
            | Error::DamagedParts { name, .. }
            | Error::Unsupported { name, .. } => name == file,
            Error::Io { op: "open" | "stat" | "read", name, .. } => {
                name == file && self.is_of_device()
            }
            _ => false,
        }
    }

    /// What is wrong is a part of a file, and the rest is still worth to be read: damage, and what the
    /// device does not give.
    pub fn leaves_the_rest(&self) -> bool {
        matches!(self, Error::Damaged { .. }) || self.is_of_device()
    }

    /// The device does not give or take it, or its file system has given up; errno(3). Nothing that is
    /// written or read there is of use until somebody has mended it.
    pub fn is_of_device(&self) -> bool {
        /// EIO, ENXIO, ENODEV, EROFS, ENOTCONN (a server of FUSE is gone), ESHUTDOWN, ETIMEDOUT,
        /// ESTALE, EUCLEAN, EREMOTEIO.
        const OF_DEVICE: [i32; 10] = [5, 6, 19, 30, 107, 108, 110, 116, 117, 121];
        match self {
            Error::Io { errno, .. } => OF_DEVICE.contains(errno),
            other => *other == Error::NoAnswer,
        }
    }

    /// Who asks has no right to it.
    pub fn is_of_access(&self) -> bool {
        /// EPERM, EACCES.
        const OF_ACCESS: [i32; 2] = [1, 13];
        matches!(self, Error::Io { errno, .. } if OF_ACCESS.contains(errno))
    }

    /// Its file system, or the quota of its owner, has no room or no inode for it.
    pub fn is_of_room(&self) -> bool {
        /// ENOSPC, EDQUOT.
        const OF_ROOM: [i32; 2] = [28, 122];
        matches!(self, Error::Io { errno, .. } if OF_ROOM.contains(errno))
    }

    /// What is written has no name any more, or no directory: nobody can read it there.
    pub fn is_of_removal(&self) -> bool {
        use warren_sys::errno::ENOENT;
        matches!(self, Error::Removed(_) | Error::Io { op: "create", errno: ENOENT, .. })
    }

    /// The file is not there: vacuumed, sealed or merged since it was listed.
    pub fn is_gone(&self) -> bool {
        use warren_sys::errno::ENOENT;
        matches!(self, Error::Io { errno: ENOENT, .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { op, name, errno } => {
                write!(f, "{op} {name}: {}", std::io::Error::from_raw_os_error(*errno))
            }
            Error::Damaged { name, offset, what } => {
                write!(f, "{name}: damaged at byte {offset}: {what}")
            }
            Error::DamagedParts { name, count, offset, what } => {
                write!(f, "{name}: damaged in {count} places, the first at byte {offset}: {what}")
            }
            Error::Unsupported { name, flags } => {
                write!(f, "{name}: written by a newer version: unknown features {flags:#x}")
            }
            Error::TooLarge { what, max } => write!(f, "{what} is larger than the limit of {max}"),
            Error::BadClass(name) => write!(f, "not a log class: {name:?}"),
            Error::Backlog => f.write_str("too many messages are waiting to be written"),
            Error::NoAnswer => f.write_str("the disk does not respond"),
            Error::NoRoom => f.write_str("the file system has less free space than KeepFree="),
            Error::Removed(name) => write!(f, "{name} was removed while it was written"),
            Error::OtherDisk(name) => {
                write!(f, "{name}: another file system was mounted or unmounted there meanwhile")
            }
            Error::Locked(name) => write!(f, "{name}: another process is writing to it"),
        }
    }
}

impl std::error::Error for Error {}

/// A failed system call of the daemon, as an error of the store: named by its path, else by the call.
pub fn system(error: warren_sys::Error) -> Error {
    let name = error.path.as_ref().map_or(error.call.to_owned(), |path| path.display().to_string());
    Error::Io { op: error.call, name, errno: error.errno }
}
