//! `PIDFile=`: waits until the file names a process of the unit (systemd.service(5)).

use std::path::Path;
use std::time::{Duration, Instant};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::inotify::{Inotify, WatchFor};

/// How long a worker waits for the file. The start timeout of the unit is usually shorter, and
/// ends the start; a worker that still waits then harms nobody.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// The pid in the file, once it is there and is a process of the group.
pub fn wait_for(path: &Path, group: Option<&Path>, tracked: bool) -> Option<u32> {
    let read = || read_pid(path).filter(|&pid| !tracked || belongs(pid, group));
    if let Some(pid) = read() {
        return Some(pid);
    }
    let directory = path.parent()?;
    let inotify = Inotify::new().ok()?;
    inotify.add(directory, WatchFor::Entries).ok()?;
    let epoll = Epoll::new().ok()?;
    epoll.add(&inotify, 0, Interest::READ).ok()?;
    let until = Instant::now() + WAIT_MAX;
    let mut events = Events::with_capacity(1);
    loop {
        if let Some(pid) = read() {
            return Some(pid);
        }
        let left = until.checked_duration_since(Instant::now())?;
        if group.is_some_and(is_empty) {
            return None;
        }
        epoll.wait(&mut events, Some(left.min(Duration::from_secs(1)))).ok()?;
        inotify.drain(&mut Vec::new()).ok()?;
    }
}

fn read_pid(path: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    text.trim().parse().ok().filter(|&pid| pid > 1)
}

fn belongs(pid: u32, group: Option<&Path>) -> bool {
    let Some(group) = group else { return true };
    let procs = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    procs.lines().any(|line| line.parse() == Ok(pid))
}

fn is_empty(group: &Path) -> bool {
    std::fs::read_to_string(group.join("cgroup.events")).is_ok_and(|t| t.contains("populated 0"))
}
