//! Hearing about `cgroup.events` of the active groups: one inotify instance for all.
//!
//! The kernel's queue holds 16,384 notifications (fs.inotify.max_queued_events) and then says
//! "overflow" once: the caller re-reads `cgroup.events` of the groups it watches, nothing else.
//!
//! Notifications come from a kernel work queue and at most once in 10 ms per file: right after a
//! change `cgroup.events` itself is already new while its notification is still under way.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::{Tree, checked};
use crate::error::{Context, Result};

/// Names one watched group. The kernel does not reuse a value before 2^31 others.
pub type WatchId = i32;

/// The inotify instance.
#[derive(Debug)]
pub struct Watch(OwnedFd);

/// Most notifications taken by one [`Watch::drain`].
const DRAIN_MAX: usize = 65_536;

impl Watch {
    /// A new, empty watch; non-blocking, close-on-exec.
    pub fn new() -> Result<Watch> {
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).call("inotify_init1").map(Watch)
    }

    /// Watches the group's `cgroup.events`. Read [`Tree::events`] once after this: a change
    /// before the watch is not reported. `ENOSPC` at fs.inotify.max_user_watches.
    pub fn add(&self, tree: &Tree, group: &str) -> Result<WatchId> {
        self.add_file(tree, group, "cgroup.events")
    }

    /// Watches the group's `memory.events`, likewise. `ENOENT` without the memory controller.
    pub fn add_memory(&self, tree: &Tree, group: &str) -> Result<WatchId> {
        self.add_file(tree, group, "memory.events")
    }

    fn add_file(&self, tree: &Tree, group: &str, file: &str) -> Result<WatchId> {
        let path = tree.path().join(checked(Path::new(group))?).join(file);
        inotify::add_watch(&self.0, &path, WatchFlags::MODIFY).call_on("inotify_add_watch", path)
    }

    /// Stops watching. Fine when the group is gone: the kernel then did so itself.
    pub fn remove(&self, id: WatchId) {
        // EINVAL is the only failure there is: the watch went away with its file.
        let _ = inotify::remove_watch(&self.0, id);
    }

    /// Appends the ids of the watches whose file changed, each at most once per run
    /// of equal notifications. Never blocks. True if notifications were lost: then every watched group is to be
    /// read again. Of very many some are left for the next drain.
    pub fn drain(&self, changed: &mut Vec<WatchId>) -> Result<bool> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut overflow = false;
        for _ in 0..DRAIN_MAX {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::AGAIN) => return Ok(overflow),
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e).call("read inotify"),
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                overflow = true;
            } else if !event.events().contains(ReadFlags::IGNORED)
                && changed.last() != Some(&event.wd())
            {
                changed.push(event.wd());
            }
        }
        Ok(overflow)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
