//! inotify(7): which names changed in which directories.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::error::{Context, Result};

/// Names one watch.
pub type WatchId = i32;

/// A change that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The watch.
    pub watch: WatchId,
    /// The entry of the watched directory, empty when it is about the watched file itself.
    pub name: OsString,
    /// It is a directory.
    pub is_directory: bool,
    /// Content was written, and who wrote it has not closed it.
    pub is_write: bool,
    /// The watch has ended: its directory is gone or unmounted, or it was removed.
    pub ended: bool,
}

/// What is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFor {
    /// Entries of a directory that appear, vanish, are renamed, or whose content or attributes
    /// changed: what a reload must look at.
    Entries,
    /// The same, and each time that content changes, not only when who wrote it is done: for who looks only when
    /// asked, and is not woken.
    Edits,
    /// Only entries of a directory that appear.
    Names,
    /// Everything that PathChanged= and PathModified= mean for a file or directory.
    Content,
    /// Only that the thing itself is renamed or removed, or its attributes change.
    Existence,
    /// Only that it is closed by somebody who had opened it for writing.
    Written,
    /// Entries of a directory that appear, vanish, are renamed or whose attributes change: what is on the way to
    /// something. In addition to what else the same thing is watched for.
    Way,
    /// The same, and that somebody closes what he had opened for writing. In addition to what else it is watched for.
    Changes,
    /// The same, and each write. In addition to what else it is watched for.
    Writes,
}

/// An inotify instance, non-blocking.
#[derive(Debug)]
pub struct Inotify(OwnedFd);

/// Whether a watch of this directory tells of all that is done to it: not where others than this kernel do it,
/// on a network file system, or the server of a FUSE one. What cannot be looked at tells of itself.
pub fn tells_all(path: &Path) -> bool {
    /// Of linux/magic.h, and of file systems outside of the kernel: AFS (two), Ceph, CIFS, Coda, FUSE (virtiofs
    /// too), GFS2, Lustre, NFS, OCFS2, 9p, SMB2, vboxsf, VMware's.
    const REMOTE: [u32; 14] = [
        0x5346_414f,
        0x6b41_4653,
        0x00c3_6400,
        0xff53_4d42,
        0x7375_7245,
        0x6573_5546,
        0x0116_1970,
        0x0bd0_0bd0,
        0x0000_6969,
        0x7461_636f,
        0x0102_1997,
        0xfe53_4d42,
        0x786f_4256,
        0xbacb_acbc,
    ];
    rustix::fs::statfs(path).map_or(true, |found| !REMOTE.contains(&(found.f_type as u32)))
}

/// Most changes taken by one drain.
const DRAIN_MAX: usize = 65_536;

impl Inotify {
    /// A new one.
    pub fn new() -> Result<Inotify> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        inotify::init(flags).call("inotify_init1").map(Inotify)
    }

    /// Watches a path. The same path again gives the same id. `ENOSPC` at
    /// fs.inotify.max_user_watches.
    pub fn add(&self, path: impl AsRef<Path>, what: WatchFor) -> Result<WatchId> {
        use WatchFlags as W;
        let itself = W::DELETE_SELF | W::MOVE_SELF;
        let entries = W::CREATE | W::DELETE | W::MOVED_FROM | W::MOVED_TO;
        let flags = match what {
            WatchFor::Entries => itself | entries | W::CLOSE_WRITE | W::ATTRIB | W::ONLYDIR,
            WatchFor::Edits => {
                itself | entries | W::CLOSE_WRITE | W::MODIFY | W::ATTRIB | W::ONLYDIR
            }
            WatchFor::Names => itself | W::CREATE | W::MOVED_TO | W::ONLYDIR,
            WatchFor::Content => itself | entries | W::CLOSE_WRITE | W::MODIFY | W::ATTRIB,
            WatchFor::Existence => itself | W::ATTRIB,
            WatchFor::Written => W::CLOSE_WRITE,
            WatchFor::Way => W::MASK_ADD | itself | entries | W::ATTRIB,
            WatchFor::Changes => W::MASK_ADD | itself | entries | W::ATTRIB | W::CLOSE_WRITE,
            WatchFor::Writes => {
                W::MASK_ADD | itself | entries | W::ATTRIB | W::CLOSE_WRITE | W::MODIFY
            }
        };
        let path = path.as_ref();
        inotify::add_watch(&self.0, path, flags).call_on("inotify_add_watch", path)
    }

    /// Stops a watch. Fine when it has ended already.
    pub fn remove(&self, watch: WatchId) {
        // EINVAL is the only failure: the watch is gone.
        let _ = inotify::remove_watch(&self.0, watch);
    }

    /// Whether changes are waiting.
    pub fn has_news(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Appends the changes that are waiting. True: some were lost, look at everything.
    pub fn drain(&self, changes: &mut Vec<Change>) -> Result<bool> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut overflow = false;
        for _ in 0..DRAIN_MAX {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e).call("read inotify"),
            };
            let flags = event.events();
            overflow |= flags.contains(ReadFlags::QUEUE_OVERFLOW);
            if event.wd() >= 0 {
                let name = event.file_name().map(|n| n.to_bytes().to_vec()).unwrap_or_default();
                changes.push(Change {
                    watch: event.wd(),
                    name: OsString::from_vec(name),
                    is_directory: flags.contains(ReadFlags::ISDIR),
                    is_write: flags.contains(ReadFlags::MODIFY),
                    ended: flags.contains(ReadFlags::IGNORED),
                });
            }
        }
        Ok(overflow)
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Epoll, Events, Interest};
    use std::time::Duration;

    #[test]
    fn changes_of_a_directory_are_named() {
        let dir = std::env::temp_dir().join(format!("warren-inotify-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a scratch directory can be made");
        let inotify = Inotify::new().expect("inotify");
        let id = inotify.add(&dir, WatchFor::Entries).expect("watched");
        std::fs::write(dir.join("a.service"), "x").expect("written");
        std::fs::create_dir(dir.join("a.d")).expect("made");
        std::fs::remove_dir_all(&dir).expect("removed");
        let mut changes: Vec<Change> = Vec::new();
        let epoll = Epoll::new().expect("epoll");
        epoll.add(&inotify, 1, Interest::READ).expect("epoll");
        let mut events = Events::with_capacity(1);
        // A process that another test is just starting may hold the directory a little longer.
        while !changes.last().is_some_and(|c| c.ended) {
            epoll.wait(&mut events, Some(Duration::from_secs(30))).expect("epoll");
            assert!(!events.is_empty(), "the end of the watch is reported: {changes:?}");
            assert_eq!(inotify.drain(&mut changes), Ok(false));
        }
        assert!(changes.iter().all(|c| c.watch == id));
        let named = |name: &str| changes.iter().filter(|c| c.name == name).count();
        assert!(named("a.service") >= 2 && named("a.d") >= 2, "{changes:?}");
    }
}
