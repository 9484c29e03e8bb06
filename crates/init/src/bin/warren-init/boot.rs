//! Once, before the loop: the API file systems (as process 1, where missing), the standard fds,
//! the cgroup. Nothing here is fatal: what fails is said on the console.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use warren_sys::cgroup::{self, Tree};
use warren_sys::mount::{self, MountFlags};
use warren_sys::{Error, child, namespace, process, reboot, text, usage};

use crate::again::Before;
use crate::command_line::asked_for;
use crate::crash;
use crate::machine_id;
use crate::options::Options;
use crate::place::Place;
use crate::say::say;

/// Our own processes live here, so that their cost can be read.
const OWN_GROUP: &str = "init.scope";

/// Fds that init and its stored fds may need; more than any kernel allows is cut to that.
const OPEN_FILES: u64 = 1 << 20;

/// hostname(7)
const HOST_NAME_BYTES_MAX: usize = 64;

/// The pid namespace of the host has this inode number (PROC_PID_INIT_INO).
const HOST_PID_NAMESPACE: u64 = 0xefff_fffc;

/// Prepares the ground, on which there may have been one before us.
pub fn prepare(options: &Options, before: Option<&Before>) -> Place {
    let is_pid_1 = std::process::id() == 1;
    if is_pid_1 {
        mount_api_file_systems();
        // Whoever else sees to networks may come later, or not at all.
        warn("loopback interface", namespace::loopback_up());
        if before.is_none() {
            // The kernel starts process 1 in no process group; autofs needs to know ours.
            warn("session", child::new_session());
        }
    }
    let is_host = is_host();
    if is_host && before.is_none() {
        mount_host_file_systems();
    }
    if is_host {
        crash::watch(&text::read("/proc/cmdline").unwrap_or_default());
        warn("Ctrl-Alt-Del", reboot::catch_ctrl_alt_del());
    }
    if before.is_none() && (is_host || is_container(is_pid_1)) {
        let of_process = || usage::words().skip(1).collect::<Vec<String>>().join(" ");
        let of_kernel = || text::read("/proc/cmdline").unwrap_or_default();
        let command_line = if is_host { of_kernel() } else { of_process() };
        // Who made a container has given it a name, if its files have none.
        let usual = is_host.then_some("localhost");
        let written = text::read("/etc/hostname").unwrap_or_default();
        let now = text::read("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = host_name(&command_line, &written, usual);
        if let Some(name) = name.filter(|name| *name != now.trim()) {
            warn("host name", namespace::set_host_name(name));
        }
        machine_id::establish(is_host, &command_line);
    }
    if !is_pid_1 {
        warn("subreaper", process::set_child_subreaper(true));
    }
    warn("open files", process::raise_open_files(OPEN_FILES).map(|_| ()));
    let root = before.map(|before| before.cgroup_root.as_deref());
    Place { is_pid_1, is_host, tree: enter_tree(options, root) }
}

/// Whether this is a container with files of its own, whose maker has said so. A machine of `warren run` has those of its
/// host.
fn is_container(is_pid_1: bool) -> bool {
    is_pid_1 && std::env::var_os("container").is_some_and(|kind| kind != "warren")
}

/// Whether this is process 1 of the host itself.
pub fn is_host() -> bool {
    let pid_namespace = fs::metadata("/proc/self/ns/pid").map(|m| m.ino()).ok();
    std::process::id() == 1 && pid_namespace == Some(HOST_PID_NAMESPACE)
}

/// The name of the machine: `systemd.hostname=` of the kernel's command line, or that of
/// `/etc/hostname`, whose comments say nothing (hostname(5)).
fn host_name<'t>(command_line: &'t str, file: &'t str, usual: Option<&'t str>) -> Option<&'t str> {
    let is_name = |name: &&str| {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !name.is_empty() && name.len() <= HOST_NAME_BYTES_MAX && name.chars().all(is_fit)
    };
    let asked = asked_for(command_line, "systemd.hostname");
    let written =
        file.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    [asked, written, usual].into_iter().flatten().find(is_name)
}

fn warn(what: &str, result: Result<(), Error>) {
    if let Err(error) = result {
        say(&format!("{what}: {error}"));
    }
}

/// Type, place, flags, options.
type ApiFileSystem = (&'static str, &'static str, MountFlags, &'static str);

/// Those that a host has besides, as with systemd on Debian 12: where the kernel has them it has made the place.
/// `/run/lock` is for everybody, who is not to fill up `/run`.
fn host_file_systems() -> [ApiFileSystem; 5] {
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    [
        ("securityfs", "/sys/kernel/security", strict, ""),
        ("pstore", "/sys/fs/pstore", strict, ""),
        ("bpf", "/sys/fs/bpf", strict, "mode=0700"),
        ("efivarfs", "/sys/firmware/efi/efivars", strict, ""),
        ("tmpfs", "/run/lock", strict, "mode=1777,size=5120k"),
    ]
}

/// Those without which nothing works. Order matters: `/dev` before what is in it.
fn api_file_systems() -> [ApiFileSystem; 7] {
    let strict = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let data = MountFlags::NOSUID | MountFlags::NODEV;
    let pts = MountFlags::NOSUID | MountFlags::NOEXEC;
    [
        ("proc", "/proc", strict, ""),
        ("sysfs", "/sys", strict, ""),
        ("devtmpfs", "/dev", MountFlags::NOSUID, "mode=0755"),
        ("tmpfs", "/run", data, "mode=0755,size=20%,nr_inodes=800k"),
        ("devpts", "/dev/pts", pts, "mode=0620,gid=5,ptmxmode=0666"),
        ("tmpfs", "/dev/shm", data, "mode=1777"),
        ("cgroup2", "/sys/fs/cgroup", strict, "nsdelegate,memory_recursiveprot"),
    ]
}

fn mount_api_file_systems() {
    for (fstype, target, flags, data) in api_file_systems() {
        let elsewhere = fstype == "cgroup2" && matches!(cgroup::mount_point(), Ok(Some(_)));
        if elsewhere || mount::is_mount_point(Path::new(target)) {
            continue;
        }
        let _ = fs::create_dir_all(target);
        // Older kernels refuse options they do not know: better mounted without than not.
        let result = mount::mount(fstype, target, fstype, flags, data)
            .or_else(|_| mount::mount(fstype, target, fstype, flags, ""));
        warn("early mount", result);
    }
}

fn mount_host_file_systems() {
    // In /run nobody has made a place yet.
    let _ = fs::create_dir_all("/run/lock");
    for (fstype, target, flags, data) in host_file_systems() {
        let place = Path::new(target);
        if place.is_dir() && !mount::is_mount_point(place) {
            warn("early mount", mount::mount(fstype, target, fstype, flags, data));
        }
    }
}

/// Opens the tree and moves this process below it: a group with processes of its own could not
/// hand controllers to its children (cgroup-v2.rst, "No Internal Process Constraint").
///
/// Of one that starts over the group is known, if there is one: it is in a group of its own already.
fn enter_tree(options: &Options, known: Option<Option<&Path>>) -> Option<Tree> {
    if options.no_cgroup || known == Some(None) {
        return None;
    }
    match open_tree(known.flatten().or(options.cgroup_root.as_deref())) {
        Ok(Some(tree)) => Some(tree),
        Ok(None) => {
            say("no cgroup2 file system is mounted: running services without cgroups");
            None
        }
        Err(error) => {
            say(&format!("running services without cgroups: {error}"));
            None
        }
    }
}

fn open_tree(root: Option<&Path>) -> Result<Option<Tree>, Error> {
    let tree = match root {
        Some(path) => Tree::open(path)?,
        None => match Tree::open_own()? {
            Some(tree) => tree,
            None => return Ok(None),
        },
    };
    // One of a machine before this was killed as a whole, with all that is to be born there. If it is ours
    // already, or somebody is there, it stays.
    let _ = tree.remove(OWN_GROUP);
    tree.make(OWN_GROUP)?;
    tree.attach(OWN_GROUP, 0)?;
    // What was left with this process before it was this program: the keeper of its session of PAM.
    let own = child::own_pid();
    for pid in tree.procs("").unwrap_or_default() {
        if process::parent(pid).is_ok_and(|parent| parent == own) {
            tree.attach(OWN_GROUP, pid)?;
        }
    }
    Ok(Some(tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_the_name_that_was_written_for_it() {
        for (command_line, file, name) in [
            ("quiet", "box\n", "box"),
            ("quiet", "# a comment\n\n  box.example.org \n", "box.example.org"),
            ("systemd.hostname=a quiet systemd.hostname=b\n", "box\n", "b"),
            ("systemd.hostname=no/name", "box", "box"),
            ("", "", "localhost"),
            ("", "two words\n", "localhost"),
            ("", &"x".repeat(65), "localhost"),
        ] {
            let found = host_name(command_line, file, Some("localhost"));
            assert_eq!(found, Some(name), "{command_line:?} {file:?}");
        }
        assert_eq!(host_name("", "# none\n", None), None);
    }
}
