//! The one cgroup that a nested manager gets.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use warren_sys::cgroup::{self, Tree};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::process;

/// How often a group that is still busy is tried again, each time after a change or
/// [`BUSY_WAIT`].
const BUSY_TRIES_MAX: usize = 100;

/// Longest wait for the kernel to tell that a group emptied.
const BUSY_WAIT: Duration = Duration::from_millis(50);

/// A group below the hierarchy's root, or without privileges below our own.
#[derive(Debug)]
pub struct Group {
    parent: Tree,
    name: String,
}

impl Group {
    /// Makes the group for this machine. The error says in words what is missing.
    pub fn make(machine: &str) -> Result<Group, String> {
        let parent = open_parent()?;
        let name = format!("warren-{}", safe(machine));
        let group = Group { parent, name };
        group.make_anew()?;
        match group.is_enterable() {
            Ok(()) => Ok(group),
            Err(why) => {
                group.remove();
                Err(why)
            }
        }
    }

    /// One that is there is of a machine that was killed. So was the group as a whole: whoever would be born in it
    /// would be killed, too.
    fn make_anew(&self) -> Result<(), String> {
        let is_new = || self.parent.make(&self.name).map_err(|e| e.to_string());
        if is_new()? {
            return Ok(());
        }
        let busy = |e: warren_sys::Error| format!("{} is in use: {e}", self.path().display());
        self.parent.prune(&self.name).map_err(busy)?;
        is_new().map(|_| ())
    }

    /// The group that *run* made, for the other stages.
    pub fn open(path: &Path) -> Option<Group> {
        let parent = Tree::open(path.parent()?).ok()?;
        Some(Group { parent, name: path.file_name()?.to_str()?.to_owned() })
    }

    /// Where it is in the host's file system.
    pub fn path(&self) -> PathBuf {
        self.parent.path().join(&self.name)
    }

    /// A delegated subtree is one whose `cgroup.procs` is ours all the way to the common
    /// ancestor (cgroup-v2.rst, "Delegation Containment").
    fn is_enterable(&self) -> Result<(), String> {
        let procs = self.parent.path().join("cgroup.procs");
        let opened = std::fs::OpenOptions::new().write(true).open(&procs);
        opened.map(|_| ()).map_err(|e| format!("{} is not delegated: {e}", procs.display()))
    }

    /// Moves the calling process into it.
    pub fn enter(&self) -> warren_sys::Result<()> {
        self.parent.attach(&self.name, 0)
    }

    /// Kills what is left in it and removes it. Fine when somebody else already did.
    pub fn remove(&self) {
        let _ = self.parent.kill(&self.name);
        for _ in 0..BUSY_TRIES_MAX {
            match self.parent.prune(&self.name) {
                Err(e) if e.is_busy() => self.wait_for_change(),
                _ => return,
            }
        }
    }

    fn wait_for_change(&self) {
        let wait = || -> warren_sys::Result<()> {
            let file = std::fs::File::open(self.path().join("cgroup.events"));
            let epoll = Epoll::new()?;
            if let Ok(mut file) = file.as_ref() {
                epoll.add(file, 0, Interest::PRIORITY)?;
                // What was not read yet is news; and it may have emptied meanwhile.
                let mut events = String::new();
                let read = file.read_to_string(&mut events);
                if read.is_ok() && events.lines().any(|line| line == "populated 0") {
                    return Ok(());
                }
            }
            epoll.wait(&mut Events::with_capacity(1), Some(BUSY_WAIT))
        };
        // Without the wait it is only tried again sooner.
        let _ = wait();
    }
}

fn open_parent() -> Result<Tree, String> {
    let missing = "no cgroup2 file system is mounted";
    let opened = if process::own_ids().0 == 0 {
        let point = cgroup::mount_point().map_err(|e| e.to_string())?.ok_or(missing)?;
        Tree::open(point)
    } else {
        Tree::open_own().transpose().ok_or(missing)?
    };
    opened.map_err(|e| e.to_string())
}

/// The name as one path component.
fn safe(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_was_left_is_made_anew() {
        use std::os::unix::fs::MetadataExt;
        let machine = format!("left-{}", std::process::id());
        let group = match Group::make(&machine) {
            Ok(group) => group,
            Err(why) => return warren_testkit::not_run(&why.to_string()),
        };
        let made = |group: &Group| std::fs::metadata(group.path()).expect("it is there").ino();
        let before = made(&group);
        let inner = format!("{}/a.slice/b.service", group.name);
        group.parent.make(&inner).expect("groups can be made below");
        group.parent.kill(&group.name).expect("it can be killed");
        let again = Group::make(&machine).expect("the group is empty");
        assert_ne!(made(&again), before);
        // One that somebody is in is another machine's.
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep(1)");
        again.parent.attach(&again.name, child.id() as i32).expect("our child can be moved");
        let refused = Group::make(&machine).expect_err("it is in use");
        assert!(refused.contains("is in use"), "{refused}");
        assert!(child.try_wait().expect("our child").is_none());
        let began = std::time::Instant::now();
        again.remove();
        child.wait().expect("our child");
        assert!(!again.path().exists(), "after {:?}", began.elapsed());
    }

    #[test]
    fn names_become_one_component() {
        assert_eq!(safe("a/../b c"), "a_.._b_c");
    }
}
