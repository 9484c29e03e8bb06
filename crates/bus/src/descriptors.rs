//! File descriptors that come with calls of those who may change things.
//!
//! To close one may take as long as whoever serves its file likes, so another process closes what may wait
//! (`warren_sys::waits`).
//!
//! Must not: have any of a client who may change nothing. Those are never received.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use warren_sys::waits;

/// One file descriptor.
pub struct Descriptor(Option<OwnedFd>);

impl Descriptor {
    /// Takes it.
    pub fn new(fd: OwnedFd) -> Descriptor {
        Descriptor(Some(fd))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("it goes with the value").as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if let Some(fd) = self.0.take() {
            // Without a process it stays open: to close it is to wait.
            let _ = waits::close(fd, true);
        }
    }
}

/// Those of one call. Copies share them.
#[derive(Clone, Default)]
pub struct Descriptors(Option<Arc<[Descriptor]>>);

impl Descriptors {
    /// The one that a value of type `h` names.
    pub fn get(&self, index: u32) -> Option<BorrowedFd<'_>> {
        let all = self.0.as_deref()?;
        all.get(usize::try_from(index).ok()?).map(Descriptor::as_fd)
    }
}

impl FromIterator<Descriptor> for Descriptors {
    fn from_iter<I: IntoIterator<Item = Descriptor>>(fds: I) -> Descriptors {
        let all: Vec<Descriptor> = fds.into_iter().collect();
        Descriptors((!all.is_empty()).then(|| all.into()))
    }
}

/// The same ones, not others of the same files.
impl PartialEq for Descriptors {
    fn eq(&self, other: &Descriptors) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} descriptors", self.0.as_deref().map_or(0, <[Descriptor]>::len))
    }
}
