//! `PIDFile=`: waits until the file names a process of the unit (systemd.service(5)).

use std::path::Path;
use std::time::{Duration, Instant};

use warren_sys::cgroup::Tree;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::file;
use warren_sys::inotify::{Inotify, WatchFor};

/// How long a worker waits for the file. The start timeout of the unit is usually shorter, and
/// ends the start; a worker that still waits then harms nobody.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// Not every file system tells of changes, and watches may be wanting: what is waited for is looked at so
/// often.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Largest file that is read, in bytes.
const BYTES_MAX: usize = 4096;

/// The pid in the file, once it is there and is a process of the group. Nothing when nobody is left in
/// the group who could write it.
pub fn wait_for(path: &Path, group: Option<&Path>, tracked: bool) -> Option<u32> {
    let read = || read_pid(path).filter(|&pid| !tracked || belongs(pid, group));
    if let Some(pid) = read() {
        return Some(pid);
    }
    let epoll = Epoll::new().ok()?;
    let inotify = Inotify::new().and_then(|inotify| {
        epoll.add(&inotify, 0, Interest::READ)?;
        group.map(|group| inotify.add(group.join(EVENTS), WatchFor::Content));
        Ok(inotify)
    });
    let until = Instant::now() + WAIT_MAX;
    let mut events = Events::with_capacity(1);
    loop {
        inotify.iter().for_each(|inotify| watch_way(inotify, path));
        if let Some(pid) = read() {
            return Some(pid);
        }
        let left = until.checked_duration_since(Instant::now())?;
        if group.is_some_and(is_empty) {
            return None;
        }
        epoll.wait(&mut events, Some(left.min(LOOKS_APART))).ok()?;
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

fn read_pid(path: &Path) -> Option<u32> {
    pid_in(&String::from_utf8(file::read_regular(path, BYTES_MAX).ok()?).ok()?)
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
        std::fs::write(&path, "4321\n").expect("a file can be written");
        assert_eq!(waiter.join().expect("no panic"), Some(4321));
        std::fs::remove_dir_all(&base).expect("it is there");
    }

    #[test]
    fn the_first_line_names_the_process() {
        assert_eq!(pid_in("4321\n/var/lib/data\n5432\n"), Some(4321));
        assert_eq!(pid_in(" 4321 \n"), Some(4321));
        assert_eq!([pid_in(""), pid_in("\n4321"), pid_in("1"), pid_in("no")], [None; 4]);
    }

    #[test]
    fn nobody_is_waited_for_in_a_group_that_is_gone() {
        let base = scratch("gone");
        assert_eq!(wait_for(&base.join("pid"), Some(&base.join("group")), true), None);
        std::fs::remove_dir_all(&base).expect("it is there");
    }
}
