//! Descriptors that a process was started with, as sd_listen_fds(3) describes.
//! What must not be here: what they are for, which each program knows by itself.
//! Called once, before a program has threads of its own.

use std::os::fd::{AsFd, OwnedFd};

use crate::{fdpass, file};

/// The first file descriptor that is handed over.
const FIRST_FD: i32 = 3;

/// Most that are taken.
const FDS_MAX: i32 = 1 << 16;

/// Descriptors that this process was started with, not blocking, with their names; none if they are
/// another process's.
pub fn descriptors() -> Vec<(String, OwnedFd)> {
    let own = std::process::id().to_string();
    if std::env::var("LISTEN_PID").ok().as_deref() != Some(own.as_str()) {
        return Vec::new();
    }
    let count: i32 = std::env::var("LISTEN_FDS").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let last = FIRST_FD + count.clamp(0, FDS_MAX);
    let mut taken = Vec::new();
    for number in FIRST_FD..last {
        let name = names.next().unwrap_or_default();
        // Above all numbers that are still to come. Sockets come as `NonBlocking=` says.
        let fd = fdpass::take_inherited(number, last)
            .and_then(|fd| file::set_nonblocking(fd.as_fd(), true).map(|()| fd));
        taken.extend(fd.ok().map(|fd| (name.to_owned(), fd)));
    }
    taken
}
