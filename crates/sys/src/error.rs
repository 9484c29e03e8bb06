//! The one error type: which call, on which path, and the kernel's error number.

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of every fallible function in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Name of the system call, or of the step when several make one operation.
    pub call: &'static str,
    /// The file it was about, where there is one.
    pub path: Option<PathBuf>,
    /// Error number of errno(3), always positive.
    pub errno: i32,
}

impl Error {
    /// An error without a path. Allocates nothing, so it may be made in a vfork child.
    pub fn new(call: &'static str, errno: i32) -> Error {
        Error { call, path: None, errno }
    }

    /// An error about a path.
    pub fn at(call: &'static str, path: impl AsRef<Path>, errno: i32) -> Error {
        Error { call, path: Some(path.as_ref().to_path_buf()), errno }
    }

    /// The error number the C library left behind after a failed call.
    pub fn last(call: &'static str) -> Error {
        Error::new(call, last_errno())
    }

    /// The same error, naming the path it was about.
    pub fn on(mut self, path: impl AsRef<Path>) -> Error {
        self.path = Some(path.as_ref().to_path_buf());
        self
    }

    /// True when the file or process is not there (`ENOENT`, `ESRCH`, `ENODEV`).
    pub fn is_gone(&self) -> bool {
        matches!(self.errno, libc::ENOENT | libc::ESRCH | libc::ENODEV)
    }

    /// True where the way leads to another mount (`EXDEV`).
    pub fn is_other_mount(&self) -> bool {
        self.errno == libc::EXDEV
    }

    /// True where a symbolic link is in the way (`ELOOP`).
    pub fn is_link(&self) -> bool {
        self.errno == libc::ELOOP
    }

    /// Something still uses it (`EBUSY`).
    pub fn is_busy(&self) -> bool {
        self.errno == libc::EBUSY
    }

    /// There is no room, or as many things of a kind as there may be (`ENOSPC`).
    pub fn is_no_room(&self) -> bool {
        self.errno == libc::ENOSPC
    }

    /// True when the call would have had to wait (`EAGAIN`).
    pub fn is_would_block(&self) -> bool {
        self.errno == libc::EAGAIN
    }

    /// True when the other end of a connection has gone.
    pub fn is_closed(&self) -> bool {
        [libc::EPIPE, libc::ECONNRESET, libc::ENOTCONN, libc::ECONNREFUSED].contains(&self.errno)
    }

    /// The call and what it was about, without why it failed.
    pub fn what(&self) -> String {
        match &self.path {
            Some(path) => format!("{} {}", self.call, path.display()),
            None => self.call.to_owned(),
        }
    }

    /// The message of strerror(3), without the number.
    pub fn message(&self) -> String {
        errno_text(self.errno)
    }
}

/// Text of an error number, as strerror(3) gives it.
pub fn errno_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Text of an error of the standard library, without the number that it puts behind that of the kernel.
pub fn io_text(error: &std::io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), errno_text)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what(), self.message())
    }
}

impl std::error::Error for Error {}

/// errno of this thread.
pub(crate) fn last_errno() -> i32 {
    // SAFETY: __errno_location returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Turns the `-1 and errno` convention into a result.
pub(crate) fn check(call: &'static str, ret: libc::c_long) -> Result<libc::c_long> {
    if ret < 0 { Err(Error::last(call)) } else { Ok(ret) }
}

/// Names the call (and path) of a failed rustix or std call.
pub(crate) trait Context<T> {
    /// Names the call.
    fn call(self, call: &'static str) -> Result<T>;
    /// Names the call and the path.
    fn call_on(self, call: &'static str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T> Context<T> for std::result::Result<T, rustix::io::Errno> {
    fn call(self, call: &'static str) -> Result<T> {
        self.map_err(|e| Error::new(call, e.raw_os_error()))
    }

    fn call_on(self, call: &'static str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|e| Error::at(call, path, e.raw_os_error()))
    }
}

impl<T> Context<T> for std::io::Result<T> {
    fn call(self, call: &'static str) -> Result<T> {
        self.map_err(|e| Error::new(call, e.raw_os_error().unwrap_or(libc::EIO)))
    }

    fn call_on(self, call: &'static str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|e| Error::at(call, path, e.raw_os_error().unwrap_or(libc::EIO)))
    }
}
