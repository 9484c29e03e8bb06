//! Hearing about mounts: fanotify on the mount namespace (Linux 6.15), one system call for each
//! mount that changed; where that is not to be had, the whole of mountinfo, compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Mount, list, mountinfo, stat};
use crate::epoll::Interest;
use crate::error::{Context, Error, Result, check};

/// What changed. Apply `removed` before `added`; an id in `added` that is known already was
/// moved or reused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountDelta {
    /// New or changed mounts, by id.
    pub added: Vec<Mount>,
    /// Ids that are gone. May name ids never reported, of mounts that came and went at once.
    pub removed: Vec<u64>,
}

/// The watch of this process's mount namespace.
#[derive(Debug)]
pub struct MountWatch {
    source: Source,
    known: BTreeMap<u64, Mount>,
    /// What is known is what there was at the last drain: not so at first, and after a drain that failed.
    is_whole: bool,
}

#[derive(Debug)]
enum Source {
    Fanotify(OwnedFd),
    MountInfo(File),
}

const FAN_CLOEXEC: u32 = 0x1;
const FAN_NONBLOCK: u32 = 0x2;
const FAN_REPORT_MNT: u32 = 0x4000;
const FAN_MARK_ADD: u32 = 0x1;
const FAN_MARK_MNTNS: u32 = 0x110;
const FAN_MNT_ATTACH: u64 = 0x0100_0000;
const FAN_MNT_DETACH: u64 = 0x0200_0000;
const FAN_Q_OVERFLOW: u64 = 0x4000;
const FAN_EVENT_INFO_TYPE_MNT: u8 = 7;

/// Largest mountinfo read: 100,000 mounts with long paths.
const MOUNTINFO_BYTES_MAX: usize = 256 << 20;

impl MountWatch {
    /// Starts watching; the first [`MountWatch::drain`] reports every mount there is.
    pub fn new() -> Result<MountWatch> {
        match fanotify() {
            Ok(fd) if list().is_ok() => Ok(MountWatch::over(Source::Fanotify(fd))),
            _ => MountWatch::by_mountinfo(),
        }
    }

    /// The slow way, for kernels before 6.15 and for users without CAP_SYS_ADMIN.
    pub fn by_mountinfo() -> Result<MountWatch> {
        let path = "/proc/thread-self/mountinfo";
        let file = File::open(path).call_on("open", path)?;
        Ok(MountWatch::over(Source::MountInfo(file)))
    }

    fn over(source: Source) -> MountWatch {
        MountWatch { source, known: BTreeMap::new(), is_whole: false }
    }

    /// What to register it for with epoll. Register before the first drain: mountinfo tells each
    /// change only to who is waiting by then.
    pub fn interest(&self) -> Interest {
        match self.source {
            Source::Fanotify(_) => Interest::READ,
            Source::MountInfo(_) => Interest::PRIORITY,
        }
    }

    /// True when a drain costs as much as there are mounts, so that its rate should be limited.
    pub fn is_slow(&self) -> bool {
        matches!(self.source, Source::MountInfo(_))
    }

    /// Everything known now.
    pub fn mounts(&self) -> &BTreeMap<u64, Mount> {
        &self.known
    }

    /// What changed since the last drain that did not fail.
    pub fn drain(&mut self) -> Result<MountDelta> {
        // What events told before an error is told by nobody again.
        let is_whole = std::mem::replace(&mut self.is_whole, false);
        let delta = match &self.source {
            Source::MountInfo(file) => mountinfo::diff(&self.known, &read_table(file)?),
            Source::Fanotify(fd) => match touched(fd.as_fd())? {
                Some(ids) if is_whole => self.with_what_was_moved(look_at(ids)?)?,
                _ => self.full()?,
            },
        };
        self.is_whole = true;
        for id in &delta.removed {
            self.known.remove(id);
        }
        self.known.extend(delta.added.iter().map(|m| (m.id, m.clone())));
        Ok(delta)
    }

    /// The whole table by ids: at the start, after an overflow and after an error.
    fn full(&self) -> Result<MountDelta> {
        let ids: BTreeSet<u64> = list()?.into_iter().collect();
        let mut now = BTreeMap::new();
        for mount in look_at(ids)?.added {
            now.insert(mount.id, mount);
        }
        Ok(mountinfo::diff(&self.known, &now))
    }
}

impl MountWatch {
    /// Events name a mount that was moved, and none of those below it, which come with it.
    fn with_what_was_moved(&self, delta: MountDelta) -> Result<MountDelta> {
        let before = |mount: &Mount| self.known.get(&mount.id).map(|known| &known.mount_point);
        let moved = delta.added.iter().filter(|mount| before(mount) != Some(&mount.mount_point));
        let from: Vec<String> = moved
            .filter_map(before)
            .map(|place| format!("{}/", place.trim_end_matches('/')))
            .collect();
        if from.is_empty() {
            return Ok(delta);
        }
        let told: BTreeSet<u64> =
            delta.added.iter().map(|mount| mount.id).chain(delta.removed.iter().copied()).collect();
        let below = self.known.values().filter(|known| {
            from.iter().any(|place| known.mount_point.starts_with(place))
                && !told.contains(&known.id)
        });
        let mut all = look_at(below.map(|known| known.id).collect())?;
        all.added.retain(|mount| self.known.get(&mount.id) != Some(mount));
        all.added.extend(delta.added);
        all.removed.extend(delta.removed);
        Ok(all)
    }
}

/// Each id that an event named, as it is now: order and number of events do not matter.
fn look_at(ids: BTreeSet<u64>) -> Result<MountDelta> {
    let mut delta = MountDelta::default();
    for id in ids {
        match stat(id) {
            Ok(mount) => delta.added.push(mount),
            Err(e) if e.is_gone() => delta.removed.push(id),
            // A path too long to be told, or one outside our root.
            Err(e) if matches!(e.errno, libc::EOVERFLOW | libc::EPROTO) => delta.removed.push(id),
            Err(e) => return Err(e),
        }
    }
    Ok(delta)
}

fn read_table(file: &File) -> Result<BTreeMap<u64, Mount>> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0u8; 64 << 10];
    // Read by position: the file keeps its poll state, and a read from 0 acknowledges it.
    loop {
        match file.read_at(&mut chunk, bytes.len() as u64).call("read mountinfo")? {
            0 => break,
            n => bytes.extend_from_slice(&chunk[..n]),
        }
        if bytes.len() > MOUNTINFO_BYTES_MAX {
            return Err(Error::new("read mountinfo", libc::EFBIG));
        }
    }
    let mounts = mountinfo::parse(&String::from_utf8_lossy(&bytes));
    Ok(mounts.into_iter().map(|m| (m.id, m)).collect())
}

fn fanotify() -> Result<OwnedFd> {
    let namespace =
        File::open("/proc/thread-self/ns/mnt").call_on("open", "/proc/thread-self/ns/mnt")?;
    let flags = FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_MNT;
    // SAFETY: plain integers; a successful call returns a new fd.
    let fd = unsafe {
        let fd = check("fanotify_init", libc::syscall(libc::SYS_fanotify_init, flags, 0))?;
        OwnedFd::from_raw_fd(fd as i32)
    };
    let mask = FAN_MNT_ATTACH | FAN_MNT_DETACH;
    let no_path: *const libc::c_char = std::ptr::null();
    // SAFETY: a null path means the object behind the directory fd.
    let ret = unsafe {
        let how = FAN_MARK_ADD | FAN_MARK_MNTNS;
        let (fd, at) = (fd.as_raw_fd(), namespace.as_raw_fd());
        libc::syscall(libc::SYS_fanotify_mark, fd, how, mask, at, no_path)
    };
    check("fanotify_mark", ret).map(|_| fd)
}

/// Ids of the mounts that events are waiting for; `None` when some were lost.
fn touched(fd: BorrowedFd<'_>) -> Result<Option<BTreeSet<u64>>> {
    let mut ids = BTreeSet::new();
    let mut complete = true;
    let mut buffer = [0u8; 16 << 10];
    loop {
        match rustix::io::read(fd, &mut buffer) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(complete.then_some(ids)),
            Ok(n) => complete &= parse_events(buffer.get(..n).unwrap_or_default(), &mut ids),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).call("read fanotify"),
        }
    }
}

/// Events one after another, each a header and information records; fanotify(7). False when
/// the queue had overflowed.
fn parse_events(mut bytes: &[u8], ids: &mut BTreeSet<u64>) -> bool {
    let mut complete = true;
    while let Some((length, header, mask)) = event_header(bytes) {
        complete &= mask & FAN_Q_OVERFLOW == 0;
        let event = &bytes[..length];
        ids.extend(mount_id(event.get(header..).unwrap_or_default()));
        bytes = &bytes[length..];
    }
    complete
}

/// Length of the event and of its header, and the mask; `None` at the end.
fn event_header(bytes: &[u8]) -> Option<(usize, usize, u64)> {
    let length = u32::from_ne_bytes(bytes.get(0..4)?.try_into().ok()?) as usize;
    let header = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?) as usize;
    let mask = u64::from_ne_bytes(bytes.get(8..16)?.try_into().ok()?);
    (length >= header && header >= 24 && length <= bytes.len()).then_some((length, header, mask))
}

/// The id in the first mount record: header of 4 bytes, padding to 8, then the id.
fn mount_id(mut records: &[u8]) -> Option<u64> {
    loop {
        let kind = *records.first()?;
        let length = u16::from_ne_bytes(records.get(2..4)?.try_into().ok()?) as usize;
        if kind == FAN_EVENT_INFO_TYPE_MNT {
            return Some(u64::from_ne_bytes(records.get(8..16)?.try_into().ok()?));
        }
        records = records.get(length.max(4)..)?;
    }
}

/// Tells whether the mount table has changed, at the cost of one system call, however large it is.
#[derive(Debug)]
pub struct MountNews {
    table: File,
    /// It has, and was not read since.
    is_due: bool,
}

impl MountNews {
    /// The table as it is now is news.
    pub fn new() -> Result<MountNews> {
        let path = "/proc/thread-self/mountinfo";
        let table = File::open(path).call_on("open", path)?;
        Ok(MountNews { table, is_due: true })
    }

    /// Whether something has changed since the table was last read.
    pub fn are_there(&mut self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.table, PollFlags::PRI)];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        self.is_due |= polled.is_ok() && fds[0].revents().contains(PollFlags::PRI);
        self.is_due
    }

    /// The table is news again: who reads it asks for other directories.
    pub fn tell_again(&mut self) {
        self.is_due = true;
    }

    /// Reads the table: the mount points at and below these directories. After an error it is news still.
    pub fn points_below(&mut self, directories: &[&Path]) -> Result<Vec<String>> {
        let text = crate::text::read("/proc/thread-self/mountinfo")?;
        self.is_due = false;
        Ok(mountinfo::points_below(&text, directories))
    }
}

impl AsFd for MountWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.source {
            Source::Fanotify(fd) => fd.as_fd(),
            Source::MountInfo(file) => file.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One event as the kernel lays it out.
    fn event(mask: u64, id: Option<u64>) -> Vec<u8> {
        let mut bytes = vec![0u8; 24];
        bytes[6] = 24;
        bytes[8..16].copy_from_slice(&mask.to_ne_bytes());
        if let Some(id) = id {
            bytes.extend([FAN_EVENT_INFO_TYPE_MNT, 0, 16, 0, 0, 0, 0, 0]);
            bytes.extend(id.to_ne_bytes());
        }
        let length = bytes.len() as u32;
        bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    #[test]
    fn events_name_their_mounts() {
        let mut bytes = event(FAN_MNT_ATTACH, Some(7));
        bytes.extend(event(FAN_MNT_DETACH, Some(9)));
        let mut ids = BTreeSet::new();
        assert!(parse_events(&bytes, &mut ids));
        assert_eq!(ids.iter().copied().collect::<Vec<_>>(), [7, 9]);
        bytes.extend(event(FAN_Q_OVERFLOW, None));
        assert!(!parse_events(&bytes, &mut ids));
    }

    #[test]
    fn after_an_error_everything_is_looked_at_and_what_is_gone_is_told() {
        crate::mount::tests::in_namespace("error", |dir| {
            let [old, new] = ["old", "new"].map(|name| format!("{dir}/{name}"));
            for path in [&old, &new] {
                std::fs::create_dir(path).expect("made");
            }
            let tmpfs = |path: &str| {
                let none = super::super::MountFlags::empty();
                super::super::mount("none", path, "tmpfs", none, "").expect("mounted");
            };
            tmpfs(&old);
            let mut watch = MountWatch::new().expect("some way works");
            let first = watch.drain().expect("drain").added;
            let gone = first.iter().find(|m| m.mount_point == old).expect("it is mounted").id;
            super::super::unmount(&old, super::super::Unmount::Normal).expect("not in use");
            tmpfs(&new);
            // A drain takes the events and fails.
            if let Source::Fanotify(fd) = &watch.source {
                touched(fd.as_fd()).expect("events");
            }
            watch.is_whole = false;
            let delta = watch.drain().expect("drain");
            assert_eq!(delta.removed, [gone]);
            assert_eq!(delta.added.iter().map(|m| &m.mount_point).collect::<Vec<_>>(), [&new]);
        });
    }

    #[test]
    fn a_change_of_the_table_is_news_until_it_is_read() {
        crate::mount::tests::in_namespace("news", |dir| {
            let below = format!("{dir}/below");
            std::fs::create_dir(&below).expect("made");
            let mut news = MountNews::new().expect("procfs");
            let points = |news: &mut MountNews| news.points_below(&[Path::new(dir)]).expect("read");
            assert!(news.are_there());
            assert_eq!(points(&mut news), [dir]);
            assert!(!news.are_there());
            let none = super::super::MountFlags::empty();
            super::super::mount("none", &below, "tmpfs", none, "").expect("mounted");
            assert_eq!((news.are_there(), news.are_there()), (true, true));
            assert_eq!(points(&mut news), [dir, &below]);
            assert!(!news.are_there());
            super::super::unmount(&below, super::super::Unmount::Normal).expect("not in use");
            assert!(news.are_there());
        });
    }

    #[test]
    fn damaged_events_end_the_parse() {
        let whole = event(FAN_MNT_ATTACH, Some(7));
        for end in 0..whole.len() {
            let mut ids = BTreeSet::new();
            parse_events(&whole[..end], &mut ids);
            assert!(ids.is_empty(), "cut at {end}");
        }
    }
}
