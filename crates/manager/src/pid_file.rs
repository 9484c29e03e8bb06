//! `PIDFile=`: waits until the file names a process of the unit (systemd.service(5)).

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use warren_sys::cgroup::Tree;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::file;
use warren_sys::inotify::{Inotify, WatchFor};
use warren_sys::process;

/// How long a worker waits for a file before others have their turn. How long the start may take is the core's to
/// know: it is waited for again as long as the unit's start waits.
const TURN: Duration = Duration::from_secs(30);

/// Not every file system tells of changes, and watches may be wanting: what is waited for is looked at so
/// often.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Largest file that is read, in bytes.
const BYTES_MAX: usize = 4096;

/// What a worker has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The file names this process.
    Process(u32),
    /// Nobody is left who could write it.
    Nobody,
    /// It is not there yet, or names no process of the unit.
    NotYet,
}

/// The pid in the file, once it is there and is a process of the group; waits for 30 s at most. Where
/// processes are not `tracked` by groups, it depends on whose file it is.
pub fn wait_for(path: &Path, group: Option<&Path>, tracked: bool) -> Found {
    wait_so_long(path, group, tracked, TURN)
}

/// What the file says now: nobody, if it names no process of the group.
pub fn look(path: &Path, group: Option<&Path>, tracked: bool) -> Found {
    named(path, group, tracked).map_or(Found::Nobody, Found::Process)
}

/// The pid in the file, if it is a process of the group.
fn named(path: &Path, group: Option<&Path>, tracked: bool) -> Option<u32> {
    let (pid, owner) = read_pid(path)?;
    let is_its = match tracked {
        true => belongs(pid, group),
        false => may_name(path, owner, pid),
    };
    is_its.then_some(pid)
}

fn wait_so_long(path: &Path, group: Option<&Path>, tracked: bool, turn: Duration) -> Found {
    let read = || named(path, group, tracked);
    if let Some(pid) = read() {
        return Found::Process(pid);
    }
    let Ok(epoll) = Epoll::new() else { return Found::Nobody };
    let inotify = Inotify::new().and_then(|inotify| {
        epoll.add(&inotify, 0, Interest::READ)?;
        group.map(|group| inotify.add(group.join(EVENTS), WatchFor::Content));
        Ok(inotify)
    });
    let until = Instant::now() + turn;
    let mut events = Events::with_capacity(1);
    loop {
        inotify.iter().for_each(|inotify| watch_way(inotify, path));
        if let Some(pid) = read() {
            return Found::Process(pid);
        }
        if group.is_some_and(is_empty) {
            return Found::Nobody;
        }
        let Some(left) = until.checked_duration_since(Instant::now()) else {
            return Found::NotYet;
        };
        if epoll.wait(&mut events, Some(left.min(LOOKS_APART))).is_err() {
            return Found::Nobody;
        }
        inotify.iter().for_each(|inotify| drop(inotify.drain(&mut Vec::new())));
    }
}

/// Watches the directory of the file, or the one where the next on the way there is to be made.
fn watch_way(inotify: &Inotify, path: &Path) {
    let watch = |directory: &&Path| inotify.add(directory, WatchFor::Entries).is_ok();
    let deepest = || path.ancestors().skip(1).find(watch);
    // The next may have been made before the watch that would have told of it.
    while deepest() != deepest() {}
}

/// The pid in the file, and whose file it is.
fn read_pid(path: &Path) -> Option<(u32, u32)> {
    let (bytes, owner) = file::read_owned(path, BYTES_MAX).ok()?;
    Some((pid_in(&String::from_utf8(bytes).ok()?)?, owner))
}

/// systemd.service(5): a file of an unprivileged user names only a process of the service, here one of that user,
/// and no link leads to another user's file. Init and the manager are no service's.
fn may_name(path: &Path, owner: u32, pid: u32) -> bool {
    const ROOT: u32 = 0;
    let own = [std::process::id(), std::os::unix::process::parent_id()];
    let is_linked = std::fs::symlink_metadata(path).is_ok_and(|found| found.uid() != owner);
    !own.contains(&pid) && !is_linked && (owner == ROOT || process::runs_as(pid, owner))
}

/// The first line has it; some programs write more behind it.
fn pid_in(text: &str) -> Option<u32> {
    text.lines().next()?.trim().parse().ok().filter(|&pid| pid > 1)
}

fn belongs(pid: u32, group: Option<&Path>) -> bool {
    let Some(group) = group else { return true };
    // With Delegate= it may have made groups of its own.
    let processes = Tree::open(group).and_then(|tree| tree.procs_below(""));
    processes.is_ok_and(|pids| pids.contains(&(pid as i32)))
}

/// File of a cgroup that says whether anybody is in it; the kernel tells who watches it of changes.
const EVENTS: &str = "cgroup.events";

/// Whether nobody is left in the group, or it is gone.
fn is_empty(group: &Path) -> bool {
    const ENODEV: i32 = 19;
    match std::fs::read_to_string(group.join(EVENTS)) {
        Ok(text) => text.contains("populated 0"),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound || e.raw_os_error() == Some(ENODEV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("warren-pid-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a directory can be made");
        path
    }

    #[test]
    fn the_file_is_waited_for_where_its_directories_are_made_later() {
        let base = scratch("later");
        let path = base.join("a/b/pid");
        let waiter = std::thread::spawn({
            let path = path.clone();
            move || wait_for(&path, None, false)
        });
        for directory in [base.join("a"), base.join("a/b")] {
            std::fs::create_dir(directory).expect("a directory can be made");
        }
        let mut other = std::process::Command::new("cat");
        let mut other = other.stdin(std::process::Stdio::piped()).spawn().expect("cat(1)");
        std::fs::write(&path, format!("{}\n", other.id())).expect("a file can be written");
        assert_eq!(waiter.join().expect("no panic"), Found::Process(other.id()));
        drop(other.stdin.take());
        other.wait().expect("it is a child");
        std::fs::remove_dir_all(&base).expect("it is there");
    }

    #[test]
    fn without_groups_a_file_names_only_processes_of_its_owner() {
        const NOBODY: u32 = 65534;
        let base = scratch("owner");
        let path = base.join("pid");
        std::fs::write(&path, "1").expect("a file can be written");
        let owner = path.metadata().expect("it is there").uid();
        let own = [std::process::id(), std::os::unix::process::parent_id()];
        assert!(own.iter().all(|&pid| !may_name(&path, owner, pid)), "the manager and init");
        let mut other = std::process::Command::new("cat");
        let mut other = other.stdin(std::process::Stdio::piped()).spawn().expect("cat(1)");
        assert!(may_name(&path, owner, other.id()));
        assert!(!process::runs_as(other.id(), NOBODY) && process::runs_as(other.id(), owner));
        if owner == 0 {
            std::os::unix::fs::chown(&path, Some(NOBODY), None).expect("root may");
            assert!(!may_name(&path, NOBODY, other.id()), "it is root's process");
            assert!(!may_name(&path, 0, other.id()), "a link that leads elsewhere");
        }
        drop(other.stdin.take());
        other.wait().expect("it is a child");
        std::fs::remove_dir_all(&base).expect("it is there");
    }

    #[test]
    fn the_first_line_names_the_process() {
        assert_eq!(pid_in("4321\n/var/lib/data\n5432\n"), Some(4321));
        assert_eq!(pid_in(" 4321 \n"), Some(4321));
        assert_eq!([pid_in(""), pid_in("\n4321"), pid_in("1"), pid_in("no")], [None; 4]);
    }

    #[test]
    fn a_file_that_is_not_there_when_the_turn_is_over_may_come_yet() {
        let base = scratch("turn");
        let wait = |group| wait_so_long(&base.join("pid"), group, false, Duration::ZERO);
        assert_eq!(wait(None), Found::NotYet);
        assert_eq!(wait(Some(&*base.join("group"))), Found::Nobody);
        std::fs::remove_dir_all(&base).expect("it is there");
    }

    #[test]
    fn nobody_is_waited_for_in_a_group_that_is_gone() {
        let base = scratch("gone");
        assert_eq!(wait_for(&base.join("pid"), Some(&base.join("group")), true), Found::Nobody);
        std::fs::remove_dir_all(&base).expect("it is there");
    }
}
