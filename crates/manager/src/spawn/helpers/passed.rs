//! What processes are handed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use crate::process::stored_fds::ReceivedFd;

/// A file descriptor for a process.
pub enum Passed {
    /// Of the manager's own making.
    Own(OwnedFd),
    /// One that the unit stored.
    Stored(Rc<ReceivedFd>),
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Passed::Own(fd) => fd.as_fd(),
            Passed::Stored(fd) => fd.as_fd(),
        }
    }
}
