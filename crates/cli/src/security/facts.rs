//! What the kernel says of a process (proc(5), namespaces(7)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use warren_sys::bpf::{self, Hook};
use warren_sys::cgroup;
use warren_sys::process;

/// Kinds of namespaces, as files in `/proc/PID/ns`.
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// What a process has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Effective user.
    pub uid: u32,
    /// The most capabilities it can have, as bits.
    pub capabilities: u64,
    /// no_new_privs
    pub no_new_privileges: bool,
    /// It has a filter of system calls.
    pub has_filter: bool,
    /// Bits that its files do not get.
    pub umask: u32,
    /// Namespaces that are not those of process 1.
    pub own: BTreeSet<&'static str>,
    /// Its root directory is not that of process 1.
    pub has_other_root: bool,
    /// Its mounts that process 1 has not: options by mount point, the topmost last.
    pub mounts: BTreeMap<String, String>,
    /// It finds nothing in home directories that process 1 finds there.
    pub hides_homes: bool,
    /// A program limits the devices of its group.
    pub devices_limited: bool,
    /// A program limits whom its group talks to.
    pub addresses_limited: bool,
    /// A program limits the file systems that its group opens files of.
    pub file_systems_limited: bool,
}

impl Facts {
    /// Of a process.
    ///
    /// # Errors
    /// It has ended, or is another user's.
    pub fn of(pid: u32) -> io::Result<Facts> {
        Facts::beside(pid, 1)
    }

    /// The same, with another process in the place of process 1.
    fn beside(pid: u32, host: u32) -> io::Result<Facts> {
        let (proc, host) = (format!("/proc/{pid}"), format!("/proc/{host}"));
        let mut facts = Facts::of_status(&fs::read_to_string(format!("{proc}/status"))?);
        let link = |of: &str, name: &str| fs::read_link(format!("{of}/ns/{name}"));
        for name in NAMESPACES {
            if link(&proc, name)? != link(&host, name)? {
                facts.own.insert(name);
            }
        }
        let root = format!("{proc}/root");
        let identity = |path: &str| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        facts.has_other_root =
            identity(&format!("{root}/"))? != identity(&format!("{host}/root/"))?;
        if facts.own.contains("mnt") {
            let host = fs::read_to_string(format!("{host}/mountinfo"))?;
            let own = fs::read_to_string(format!("{proc}/mountinfo"))?;
            facts.mounts = differing(&host, &own);
        }
        facts.hides_homes = ["home", "root"].iter().all(|home| {
            let path = format!("{root}/{home}");
            !Path::new(&path).exists() || is_hidden(&path)
        });
        if let Some(group) = process::cgroup_path(pid as i32).ok().and_then(|path| open(&path)) {
            facts.devices_limited = bpf::is_limited(group.as_fd(), Hook::Device);
            facts.addresses_limited = bpf::is_limited(group.as_fd(), Hook::Egress);
            facts.file_systems_limited = bpf::is_limited(group.as_fd(), Hook::FileOpen);
        }
        Ok(facts)
    }

    fn of_status(text: &str) -> Facts {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        let number = |name: &str, base: u32| {
            let text = field(name);
            let first = text.split_whitespace().next().unwrap_or_default();
            u64::from_str_radix(first, base).unwrap_or(0)
        };
        let uid = field("Uid").split_whitespace().nth(1).and_then(|uid| uid.parse().ok());
        Facts {
            uid: uid.unwrap_or(0),
            capabilities: number("CapBnd", 16),
            no_new_privileges: number("NoNewPrivs", 10) != 0,
            has_filter: number("Seccomp", 10) == 2,
            umask: number("Umask", 8) as u32,
            ..Facts::default()
        }
    }

    /// Whether something of its own is mounted there.
    pub fn is_mounted(&self, path: &str) -> bool {
        self.mounts.contains_key(path)
    }

    /// Whether what is at a path cannot be written to, by a mount of its own there or above.
    pub fn is_read_only(&self, path: &str) -> bool {
        let nearest = Path::new(path).ancestors().find_map(|at| self.mounts.get(at.to_str()?));
        nearest.is_some_and(|options| options.split(',').any(|option| option == "ro"))
    }

    /// Whether a mount of its own there has an option that begins so.
    pub fn has_option(&self, path: &str, begin: &str) -> bool {
        let options = self.mounts.get(path);
        options.is_some_and(|all| all.split(',').any(|option| option.starts_with(begin)))
    }
}

/// Mounts of the second table that are not in the first, or with other options.
fn differing(host: &str, own: &str) -> BTreeMap<String, String> {
    let read = |text: &str| -> BTreeMap<String, (String, String)> {
        let lines = text.lines().filter_map(|line| {
            let mut fields = line.split(' ');
            let (root, point, options) = (fields.nth(3)?, fields.next()?, fields.next()?);
            let of_system = line.split(" - ").nth(1)?;
            let mut of_system = of_system.split(' ');
            let (kind, source) = (of_system.next()?, of_system.next()?);
            let more = of_system.next().unwrap_or_default();
            Some((
                point.to_owned(),
                (format!("{kind} {source} {root}"), format!("{options},{more}")),
            ))
        });
        lines.collect()
    };
    let host = read(host);
    let is_other = |(point, (what, options)): &(String, (String, String))| {
        host.get(point).is_none_or(|(of_host, before)| {
            let is_closed = |options: &str| options.split(',').any(|option| option == "ro");
            of_host != what || is_closed(options) != is_closed(before)
        })
    };
    read(own).into_iter().filter(is_other).map(|(point, (_, options))| (point, options)).collect()
}

/// Whether a directory has no mode for anybody, or nothing is in it.
fn is_hidden(path: &str) -> bool {
    let has_no_mode = fs::metadata(path).is_ok_and(|found| found.mode() & 0o777 == 0);
    has_no_mode || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn open(group: &str) -> Option<std::os::fd::OwnedFd> {
    let mount = cgroup::mount_point().ok()??;
    let tree = cgroup::Tree::open(mount).ok()?;
    tree.open_dir(group.trim_start_matches('/')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_a_process_may() {
        let text = "Name:\tx\nUmask:\t0077\nUid:\t0\t5\t0\t0\nCapBnd:\t0000000000000003\nNoNewPrivs:\t1\nSeccomp:\t2\n";
        let facts = Facts::of_status(text);
        assert_eq!((facts.uid, facts.capabilities, facts.umask), (5, 3, 0o077));
        assert!(facts.no_new_privileges && facts.has_filter);
    }

    #[test]
    fn mounts_of_its_own_are_those_that_the_host_has_not() {
        let host = "1 0 0:1 / / rw,relatime shared:1 - ext4 /dev/a rw\n2 1 0:2 / /proc rw - proc proc rw\n";
        let own = "9 0 0:1 / / ro,relatime - ext4 /dev/a rw\n8 9 0:1 /x /tmp rw - ext4 /dev/a rw\n\
                   7 9 0:2 / /proc rw - proc proc rw\n6 9 0:7 / /proc rw,nosuid - proc proc rw,hidepid=invisible\n\
                   5 9 0:2 /sys /proc/sys ro - proc proc rw\n";
        let mounts = differing(host, own);
        let facts = Facts { mounts, ..Facts::default() };
        assert!(facts.is_read_only("/usr") && facts.is_read_only("/proc/sys"));
        assert!(facts.is_mounted("/tmp") && !facts.is_read_only("/tmp/x"));
        assert!(!facts.is_mounted("/usr"));
    }

    #[test]
    fn a_process_has_nothing_of_its_own_beside_itself() {
        // Process 1 may be another user's, as in a container: what it has cannot be read then.
        let own = std::process::id();
        let facts = Facts::beside(own, own).expect("its own facts can be read");
        assert_eq!(facts.uid, warren_sys::process::own_ids().0);
        assert!(facts.own.is_empty() && !facts.has_other_root && facts.mounts.is_empty());
    }
}
