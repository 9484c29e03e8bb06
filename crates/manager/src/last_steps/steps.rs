//! Single steps: each in a child process, because each may hang.

use warren_sys::errno::EINVAL;
use warren_sys::error::{Error, Result};
use warren_sys::mount::{self, Mount, MountFlags, MountOptions, Unmount};
use warren_sys::storage;

use crate::base::say::say;
use crate::base::server_mounts::has_server;
use crate::last_steps::stack::swap_areas;

/// The argument with which it takes one of the last steps, in a child: `--last-step=VERB:PATH`.
pub const LAST_STEP: &str = "--last-step";

/// One step.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// Unmount what is on this path.
    Unmount(String),
    /// Make the file system on this path read-only, unless a server is behind it, and take it out of
    /// sight; it goes when nobody uses it any more.
    Detach(String),
    /// Make the file system on this path read-only.
    ReadOnly(String),
    /// Write out what the file system of this path holds in memory.
    Sync(String),
    /// Write out what all file systems hold in memory; the path says nothing.
    SyncAll(String),
    /// Give up a swap area.
    SwapOff(String),
    /// Detach a loop device from its file.
    Loop(String),
    /// Stop an MD array.
    Array(String),
    /// Remove a device of the device-mapper, by its name.
    Mapped(String),
    /// Run this program of others, when all else is over: it is a process of its own, and no verb of warrend's.
    Program(String),
}

type Make = fn(String) -> Step;

/// The verbs of the command line.
const VERBS: [(&str, Make); 9] = [
    ("unmount", Step::Unmount),
    ("detach", Step::Detach),
    ("read-only", Step::ReadOnly),
    ("sync", Step::Sync),
    ("sync-all", Step::SyncAll),
    ("swapoff", Step::SwapOff),
    ("loop", Step::Loop),
    ("array", Step::Array),
    ("mapped", Step::Mapped),
];

impl Step {
    /// Reads `VERB:PATH`.
    pub fn parse(text: &str) -> Option<Step> {
        let (verb, path) = text.split_once(':')?;
        VERBS.iter().find(|(word, _)| *word == verb).map(|(_, make)| make(path.to_owned()))
    }

    /// What [`Step::parse`] reads.
    pub fn to_argument(&self) -> String {
        let same = |make: &Make| make(self.path().to_owned()) == *self;
        let verb = VERBS.iter().find(|(_, make)| same(make)).map_or("program", |(word, _)| word);
        format!("{verb}:{}", self.path())
    }

    /// The argument with which warrend takes it.
    pub fn to_command(&self) -> String {
        format!("{}={}", LAST_STEP, self.to_argument())
    }

    /// The path or device that it is about.
    pub fn path(&self) -> &str {
        match self {
            Step::Unmount(path)
            | Step::Detach(path)
            | Step::ReadOnly(path)
            | Step::Sync(path)
            | Step::SyncAll(path)
            | Step::SwapOff(path)
            | Step::Loop(path)
            | Step::Array(path)
            | Step::Mapped(path)
            | Step::Program(path) => path,
        }
    }

    fn take(&self) -> Result<()> {
        match self {
            Step::Unmount(path) => {
                unless_over(mount::unmount(path, Unmount::Normal), || is_mounted(path))
            }
            Step::Detach(path) => {
                // Read-only first: what is still open for writing keeps it from that. A server that does
                // not answer would keep this process: it is not asked.
                if !is_of_server(&mount::table().unwrap_or_default(), path) {
                    let _ = read_only(path);
                }
                match mount::unmount(path, Unmount::ForceLazy) {
                    // It is not mounted any more: the unmount that took too long came to its end.
                    Err(e) if e.errno == EINVAL => Ok(()),
                    detached => detached,
                }
            }
            Step::ReadOnly(path) => read_only(path),
            Step::Sync(path) => storage::sync_file_system(path),
            Step::SyncAll(_) => {
                storage::sync();
                Ok(())
            }
            Step::SwapOff(path) => {
                unless_over(storage::swap_off(path), || swap_areas().contains(path))
            }
            Step::Loop(path) => storage::detach_loop(path),
            Step::Array(path) => storage::stop_array(path),
            Step::Mapped(name) => storage::remove_mapped(name),
            Step::Program(path) => Err(Error::at("a step of warrend's", path, EINVAL)),
        }
    }
}

/// What came of a step; it is done too if it is not there any more (EINVAL), as where somebody else took
/// the same step at the same time. What is out of reach is still there.
fn unless_over(result: Result<()>, is_there: impl FnOnce() -> bool) -> Result<()> {
    match result {
        Err(e) if e.errno == EINVAL && !is_there() => Ok(()),
        result => result,
    }
}

/// By the table: a mount that another covers is not where its path leads. One that cannot be read tells
/// nothing.
fn is_mounted(path: &str) -> bool {
    mount::table().map_or(true, |table| table.iter().any(|mount| mount.mount_point == path))
}

/// Whether a server is behind the file system on this path.
fn is_of_server(table: &[Mount], path: &str) -> bool {
    let topmost = table.iter().rfind(|mount| mount.mount_point == path);
    topmost.is_some_and(|mount| has_server(&mount.fstype))
}

fn read_only(path: &str) -> Result<()> {
    let mut options = MountOptions::parse("remount");
    options.flags |= MountFlags::RDONLY;
    mount::mount_fs("", path, "", &options)
}

/// Takes one step, named as on the command line; the exit status is 0, or 16 when somebody still
/// uses it, or 1.
pub fn run_step(text: &str) -> i32 {
    let Some(step) = Step::parse(text) else {
        say!("unknown step {text}");
        return 2;
    };
    match step.take() {
        Ok(()) => 0,
        Err(e) if e.is_busy() => EXIT_BUSY,
        Err(e) => {
            say!("{e}");
            1
        }
    }
}

/// Exit status of a step whose object is in use: EBUSY.
pub const EXIT_BUSY: i32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back() {
        for (verb, make) in &VERBS {
            let step = make("/a:b".to_owned());
            assert_eq!(step.to_argument(), format!("{verb}:/a:b"));
            assert_eq!(Step::parse(&step.to_argument()), Some(step));
        }
        assert_eq!(Step::parse("sweep:/"), None);
    }

    #[test]
    fn a_server_is_behind_what_was_mounted_last() {
        let mount = |(id, line): (usize, &str)| {
            let (point, fstype) = line.split_once(' ').expect("two words");
            let (mount_point, fstype, source) =
                (point.to_owned(), fstype.to_owned(), String::new());
            Mount { id: id as u64, parent: 0, mount_point, source, fstype }
        };
        let table = "/ ext4\n/a nfs4\n/b nfs\n/b tmpfs\n/c ext4\n/c fuse.sshfs";
        let table: Vec<Mount> = table.lines().enumerate().map(mount).collect();
        let are = ["/", "/a", "/a/b", "/b", "/c"].map(|path| is_of_server(&table, path));
        assert_eq!(are, [false, true, false, false, true]);
    }

    #[test]
    fn what_somebody_else_did_meanwhile_is_done() {
        let failed = |errno| Err(warren_sys::Error::new("umount2", errno));
        let over = |errno, is_there| unless_over(failed(errno), || is_there).is_ok();
        assert!(over(EINVAL, false));
        assert!(!over(EINVAL, true), "it is out of reach");
        assert!(!over(16, false));
    }
}
