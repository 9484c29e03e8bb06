//! Objects of interprocess communication that outlive their processes: of System V (shared memory, semaphores, message
//! queues) and of POSIX (files in /dev/shm, queues in /dev/mqueue).

use std::ffi::CStr;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::error::{Context, Error, Result};
use crate::removal::{self, Removal};

/// Objects of one kind that are looked at: more than this kernel's limits allow by default.
const OBJECTS_MAX: usize = 1 << 17;

/// Entries of a directory of the user's in /dev/shm that are looked at.
const ENTRIES_MAX: u64 = 1 << 16;

/// A kind of System V.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    Semaphores,
    Queue,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Memory, Kind::Semaphores, Kind::Queue];

    fn list(self) -> &'static str {
        match self {
            Kind::Memory => "/proc/sysvipc/shm",
            Kind::Semaphores => "/proc/sysvipc/sem",
            Kind::Queue => "/proc/sysvipc/msg",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Memory => "shared memory",
            Kind::Semaphores => "semaphores",
            Kind::Queue => "message queue",
        }
    }

    /// The column of the owner, and of the number of processes that are attached.
    fn columns(self) -> (usize, Option<usize>) {
        match self {
            Kind::Memory => (7, Some(6)),
            Kind::Semaphores => (4, None),
            Kind::Queue => (7, None),
        }
    }

    fn remove(self, id: i32) -> Result<()> {
        // SAFETY: IPC_RMID takes no argument, and an id of nothing is an error.
        let done = unsafe {
            match self {
                Kind::Memory => libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()),
                Kind::Semaphores => libc::semctl(id, 0, libc::IPC_RMID),
                Kind::Queue => libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()),
            }
        };
        match done {
            -1 => Err(std::io::Error::last_os_error()).call("remove IPC object"),
            _ => Ok(()),
        }
    }
}

/// Removes all objects of a user, but memory that a process is attached to. Returns what could not be removed.
pub fn remove_all_of(uid: u32) -> Vec<(String, Error)> {
    let mut left = Vec::new();
    for kind in Kind::ALL {
        // A kernel without them has no list.
        let list = std::fs::read_to_string(kind.list()).unwrap_or_default();
        for id in owned(kind, &list, uid).take(OBJECTS_MAX) {
            match kind.remove(id) {
                Err(e) if ![libc::EINVAL, libc::EIDRM].contains(&e.errno) => {
                    left.push((format!("{} {id}", kind.words()), e));
                }
                _ => {}
            }
        }
    }
    for place in [c"/dev/shm", c"/dev/mqueue"] {
        if let Err(e) = remove_files(place, uid)
            && !e.is_gone()
        {
            left.push((place.to_string_lossy().into_owned(), e));
        }
    }
    left
}

/// Ids of the objects of a user in a list of /proc/sysvipc.
fn owned(kind: Kind, list: &str, uid: u32) -> impl Iterator<Item = i32> + '_ {
    let (owner, attached) = kind.columns();
    list.lines().skip(1).filter_map(move |line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_attached = attached.is_some_and(|at| columns.get(at) != Some(&"0"));
        let is_own = columns.get(owner)?.parse() == Ok(uid) && !is_attached;
        is_own.then(|| columns.get(1)?.parse().ok()).flatten()
    })
}

/// Removes what is the user's directly in a directory in which everybody may make files.
fn remove_files(place: &CStr, uid: u32) -> Result<()> {
    let path = Path::new(place.to_str().unwrap_or_default());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let dir = rustix::fs::open(place, flags, Mode::empty()).call_on("open", path)?;
    let mut first = Ok(());
    for entry in Dir::read_from(&dir).call_on("readdir", path)?.take(OBJECTS_MAX) {
        let entry = entry.call_on("readdir", path)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        // Who is not the owner can neither remove it nor put something else in its place (mode 1777).
        let Ok(stat) = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if stat.st_uid != uid {
            continue;
        }
        let removed = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                remove_directory(&path.join(name.to_string_lossy().into_owned()))
            }
            _ => rustix::fs::unlinkat(&dir, name, AtFlags::empty()).call_on("unlink", path),
        };
        first = first.and(removed);
    }
    first
}

fn remove_directory(path: &Path) -> Result<()> {
    match removal::remove_directory(path, ENTRIES_MAX)? {
        Removal::Done => Ok(()),
        Removal::TooMuch => Err(Error::at("remove", path, libc::EFBIG)),
        Removal::Left(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_apart_by_their_owner() {
        let memory = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid\n\
                      0          7  1600 4096 10 11      0  1001  1001  1001\n\
                      0          8  1600 4096 10 11      2  1001  1001  1001\n\
                      0          9  1600 4096 10 11      0     0     0  1001\n";
        assert_eq!(owned(Kind::Memory, memory, 1001).collect::<Vec<_>>(), [7]);
        let semaphores = "       key      semid perms      nsems   uid   gid  cuid  cgid\n\
                          5 3 600 1 1001 0 0 0\n6 4 600 1 0 1001 1001 1001\n";
        assert_eq!(owned(Kind::Semaphores, semaphores, 1001).collect::<Vec<_>>(), [3]);
        let queues = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid\n\
                      5 2 600 0 0 0 0 1001 0\nshort\n";
        assert_eq!(owned(Kind::Queue, queues, 1001).collect::<Vec<_>>(), [2]);
    }
}
