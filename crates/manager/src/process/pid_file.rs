//! `PIDFile=`: the file names a process of the unit, sooner or later (systemd.service(5)). Here is what a look at it
//! finds; [`searches`] has files looked at until they say something.

pub mod searches;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use warren_sys::cgroup::Tree;
use warren_sys::file;
use warren_sys::inotify::WatchFor;
use warren_sys::process;

/// Largest file that is read, in bytes.
const BYTES_MAX: usize = 4096;

/// What a look has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PidFileState {
    /// The file names this process.
    Process(u32),
    /// Nobody is left who could write it.
    Nobody,
    /// It is not there yet, or names no process of the unit.
    NotYet,
}

/// A file that is looked for.
#[derive(Debug)]
pub struct PidFileSearch {
    /// Where it is to be.
    pub path: PathBuf,
    /// The unit's group.
    pub group: Option<PathBuf>,
    /// Processes are tracked by groups; else it depends on whose file it is.
    pub tracked: bool,
    /// It may come yet.
    pub waits: bool,
}

/// Whose files name whom they like.
const ROOT: u32 = 0;

impl PidFileSearch {
    /// The pid in the file, if it is there and is a process of the group. Else `watch` is asked to tell of changes,
    /// and says whether it can; what is there by then is found.
    fn look(&self, watch: impl Fn(&Path, WatchFor) -> bool) -> PidFileState {
        if let Some(pid) = self.pid() {
            return PidFileState::Process(pid);
        }
        if !self.waits {
            return self.who_has_left().map_or(PidFileState::Nobody, PidFileState::Process);
        }
        if let Some(group) = &self.group {
            watch(&group.join(EVENTS), WatchFor::Content);
        }
        self.watch_way(&watch);
        // Who keeps it open and writes the number later makes no entry anew.
        watch(&self.path, WatchFor::Content);
        match self.pid() {
            Some(pid) => PidFileState::Process(pid),
            None if self.is_abandoned() => {
                self.who_has_left().map_or(PidFileState::Nobody, PidFileState::Process)
            }
            None => PidFileState::NotYet,
        }
    }

    fn pid(&self) -> Option<u32> {
        let (pid, owner) = read_pid(&self.path)?;
        let is_its = match self.tracked {
            true => belongs(pid, self.group.as_deref()),
            false => may_name(&self.path, owner, pid),
        };
        is_its.then_some(pid)
    }

    /// Whom root's file names though he is in another group, now that nobody of this one could write it. As long
    /// as somebody could, it may be an old file.
    fn who_has_left(&self) -> Option<u32> {
        let (pid, owner) = read_pid(&self.path).filter(|_| self.is_abandoned())?;
        (owner == ROOT && may_name(&self.path, owner, pid)).then_some(pid)
    }

    fn is_abandoned(&self) -> bool {
        self.group.as_deref().is_some_and(is_empty)
    }

    /// Watches the directory of the file, or the one where the next on the way there is to be made.
    fn watch_way(&self, watch: impl Fn(&Path, WatchFor) -> bool) {
        let is_watched = |directory: &&Path| watch(directory, WatchFor::Entries);
        let deepest = || self.path.ancestors().skip(1).find(is_watched);
        // The next may have been made before the watch that would have told of it.
        while deepest() != deepest() {}
    }

    /// Whether a change of this name on the way, or of the group if there is none, may be one of what is found.
    fn is_about(&self, name: &std::ffi::OsStr) -> bool {
        name.is_empty() || self.path.iter().any(|part| part == name)
    }
}

/// The pid in the file, and whose file it is.
fn read_pid(path: &Path) -> Option<(u32, u32)> {
    let (bytes, owner) = file::read_owned(path, BYTES_MAX).ok()?;
    Some((pid_in(&String::from_utf8(bytes).ok()?)?, owner))
}

/// systemd.service(5): a file of an unprivileged user names only a process of the service, here one of that user,
/// and no link leads to another user's file. Init and the manager are no service's.
fn may_name(path: &Path, owner: u32, pid: u32) -> bool {
    let own = [std::process::id(), std::os::unix::process::parent_id()];
    let is_linked = std::fs::symlink_metadata(path).is_ok_and(|found| found.uid() != owner);
    let may_be_its = |pid: u32| owner == ROOT || process::runs_as(pid, owner);
    !own.contains(&pid) && !is_linked && process::exists(pid.cast_signed()) && may_be_its(pid)
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
    use warren_sys::errno::ENODEV;
    match std::fs::read_to_string(group.join(EVENTS)) {
        Ok(text) => text.contains("populated 0"),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound || e.raw_os_error() == Some(ENODEV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("warren-pid-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a directory can be made");
        path
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
        assert!(!may_name(&path, owner, other.id()), "it has ended, and left its file behind");
        std::fs::remove_dir_all(&base).expect("it is there");
    }

    #[test]
    fn the_first_line_names_the_process() {
        assert_eq!(pid_in("4321\n/var/lib/data\n5432\n"), Some(4321));
        assert_eq!(pid_in(" 4321 \n"), Some(4321));
        assert_eq!([pid_in(""), pid_in("\n4321"), pid_in("1"), pid_in("no")], [None; 4]);
    }

    #[test]
    fn a_file_that_is_not_there_may_come_yet_unless_nobody_is_left_to_write_it() {
        let base = scratch("yet");
        let look = |group: Option<PathBuf>| {
            let wanted =
                PidFileSearch { path: base.join("pid"), group, tracked: false, waits: true };
            wanted.look(|_, _| false)
        };
        assert_eq!(look(None), PidFileState::NotYet);
        assert_eq!(look(Some(base.join("group"))), PidFileState::Nobody);
        if warren_sys::process::own_ids().0 != ROOT {
            warren_testkit::not_run("whom a file of root names needs root");
        } else {
            let named = std::process::Command::new("sleep").arg("60").spawn();
            let mut named = named.expect("sleep(1)");
            std::fs::write(base.join("pid"), named.id().to_string()).expect("it can be written");
            let wanted = |group| PidFileSearch {
                path: base.join("pid"),
                group,
                tracked: true,
                waits: false,
            };
            let own = base.join("own");
            std::fs::create_dir(&own).expect("a directory can be made");
            std::fs::write(own.join(EVENTS), "populated 1\n").expect("it can be written");
            assert_eq!(
                wanted(Some(base.join("group"))).look(|_, _| false),
                PidFileState::Process(named.id())
            );
            assert_eq!(
                wanted(Some(own)).look(|_, _| false),
                PidFileState::Nobody,
                "somebody is left"
            );
            named.kill().and_then(|()| named.wait()).expect("our child");
        }
        std::fs::remove_dir_all(&base).expect("it is there");
    }
}
