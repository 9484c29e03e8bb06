//! Mounting and unmounting. What the kernel does by itself without waiting for anybody is done by
//! a worker; everything else (devices, network file systems, `mount.TYPE` helpers) by mount(8)
//! and umount(8) as child processes, which may hang without hurting anybody. Swap areas are told in
//! the words of mounts, and are swapon(8)'s and swapoff(8)'s.

use crate::base::host::own_program;
use crate::last_steps::Step;
use crate::last_steps::holders::holders;
use crate::mount::kind::{is_swap, no_place};
use crate::mount::swaps::{areas, lead};
use std::path::Path;
use warren_core::protocol::event::Done;
use warren_sys::mount::{self, MountPoint, Now, Unmount};
use warren_sys::tree;
use warren_unit::UnitName;
use warren_unit::config::MountConfig;

/// File systems without a device or a server behind them.
const IN_KERNEL: &[&str] = &[
    "autofs",
    "bpf",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "proc",
    "pstore",
    "ramfs",
    "securityfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];

/// Where helpers of mount(8) and umount(8) are.
const HELPERS: [&str; 2] = ["/sbin", "/usr/sbin"];

/// Mounts stacked on one path that are unmounted one after the other at most.
pub const STACKED_MAX: usize = 32;

/// Options that mount(8) acts on, without their `X-mount.`.
const ACTED_ON: [&str; 5] = ["idmap", "subdir", "owner", "group", "mode"];

/// Whether mount(8) does something about an option that the kernel cannot: looks up a name, or goes on after the mount.
fn is_for_tool(option: &str) -> bool {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let is_name = |value: &str| value.parse::<u32>().is_err();
    match name.strip_prefix("X-mount.") {
        Some(name) => ACTED_ON.contains(&name),
        None => matches!(name, "uid" | "gid") && is_name(value),
    }
}

/// Whether a worker can do it.
pub fn is_quick(config: &MountConfig) -> bool {
    let options = options(config);
    if options.data.iter().chain(&options.userspace).any(|option| is_for_tool(option)) {
        return false;
    }
    let kernel = config.fs_type.as_deref().is_some_and(|t| IN_KERNEL.contains(&t));
    let bind = options.flags.contains(mount::MountFlags::BIND);
    (kernel || bind) && !config.sloppy_options
}

fn options(config: &MountConfig) -> mount::MountOptions {
    mount::MountOptions::parse(config.options.as_deref().unwrap_or(""))
}

/// Mounts or remounts.
pub fn mount(config: &MountConfig, remount: bool) -> Done {
    let mut options = options(config);
    options.remount |= remount;
    let target = &*config.where_;
    let binds = options.flags.contains(mount::MountFlags::BIND);
    let fs_type = config.fs_type.as_deref().unwrap_or("none");
    let done = |result: warren_sys::Result<()>| match result {
        Ok(()) => Done::Ok,
        Err(e) => Done::Failed { error: e.to_string() },
    };
    if remount {
        return done(mount::mount_fs(&config.what, target, fs_type, &options));
    }
    let on_file = binds && is_file(&config.what);
    let at = match prepare_mount_point(target, config.directory_mode, on_file) {
        Ok(at) => at,
        Err(error) => return Done::Failed { error },
    };
    if binds
        && !Path::new(&*config.what).exists()
        && let Err(e) = tree::make_directories(&config.what, config.directory_mode)
    {
        return Done::Failed { error: e.to_string() };
    }
    done(mount::mount_fs_at(&config.what, &at, fs_type, &options))
}

/// Does what is left to do of a mount that is there.
pub fn finish(config: &MountConfig) -> Done {
    match mount::finish_at(&config.where_, &options(config)) {
        Ok(()) => Done::Ok,
        Err(e) => Done::Failed { error: e.to_string() },
    }
}

/// Whether it is there and no directory: where it is bound to a path, that is a file (systemd.mount(5)).
fn is_file(what: &str) -> bool {
    std::fs::metadata(what).is_ok_and(|found| !found.is_dir())
}

/// Makes what to mount on, if there is nothing: a directory with this mode (systemd.mount(5), `DirectoryMode=`), or
/// an empty file. Whoever may write in a directory on the way cannot have anything mounted elsewhere, or made.
fn prepare_mount_point(target: &str, mode: u32, on_file: bool) -> Result<MountPoint, String> {
    let made = match on_file {
        true => MountPoint::make_file(target),
        false => MountPoint::make_directory(target, mode),
    };
    made.map_err(|e| no_place(target, &e))
}

/// What mount(8) is told begins with this, where warrend is to prepare the mount point before:
/// `--mount-at=MODE:PATH COMMAND...`, in the process that may wait for a path that does not answer; for a bind mount
/// `--mount-at=MODE,bind:PATH COMMAND...`.
pub const MOUNT_AT: &str = "--mount-at";

/// Behind the mode.
const BINDS: &str = ",bind";

/// Which program speaks in the log when this command does: mount(8), though warrend prepares it.
pub fn tool_name(command: &[String]) -> &str {
    let program = match command {
        [_, place, program, ..] if place.starts_with(MOUNT_AT) => program,
        [program, ..] => program,
        [] => return "",
    };
    program.rsplit('/').next().unwrap_or_default()
}

/// Prepares the mount point and becomes mount(8). Returns the exit status where that fails.
pub fn mount_at(place: &str, command: &[String]) -> i32 {
    /// As mount(8) has it.
    const MOUNT_FAILED: i32 = 32;
    let error = match parse_place(place) {
        Some((mode, binds, path)) => {
            prepare_mount_point(path, mode, binds && what_of(command).is_some_and(is_file)).err()
        }
        None => Some(format!("{place}: not MODE:PATH")),
    };
    let error = error.unwrap_or_else(|| match command.split_first() {
        Some((program, arguments)) => {
            use std::os::unix::process::CommandExt;
            let error = std::process::Command::new(program).args(arguments).exec();
            format!("{program}: {error}")
        }
        None => "no command".to_owned(),
    });
    eprintln!("{error}");
    MOUNT_FAILED
}

/// The mode, whether something is bound there, and the path.
fn parse_place(place: &str) -> Option<(u32, bool, &str)> {
    let (mode, path) = place.split_once(':')?;
    let plain = mode.strip_suffix(BINDS);
    let number = u32::from_str_radix(plain.unwrap_or(mode), 8).ok()?;
    Some((number, plain.is_some(), path))
}

/// What a command line of mount(8) mounts: the word before the last.
fn what_of(command: &[String]) -> Option<&str> {
    command.iter().rev().nth(1).map(String::as_str)
}

/// Unmounts everything of this unit at its path. A trap below it stays.
pub fn unmount(config: &MountConfig) -> Done {
    let target = &*config.where_;
    let how = match (config.force_unmount, config.lazy_unmount) {
        (true, true) => Unmount::ForceLazy,
        (true, false) => Unmount::Force,
        (false, true) => Unmount::Lazy,
        (false, false) => Unmount::Normal,
    };
    for _ in 0..STACKED_MAX {
        if !is_at(target) {
            return Done::Ok;
        }
        if let Err(e) = mount::unmount(target, how) {
            return match e.errno {
                22 | 2 => Done::Ok,
                _ if e.is_busy() => in_use(target, &e.to_string()),
                _ => Done::Failed { error: e.to_string() },
            };
        }
    }
    match is_at(target) {
        true => Done::Failed { error: too_many(target) },
        false => Done::Ok,
    }
}

/// The failure to unmount so many.
pub fn too_many(target: &str) -> String {
    format!("{target}: more than {STACKED_MAX} mounts on one another, of which some are left")
}

/// The failure of an unmount, with who uses what is mounted there. Looks at every process.
pub fn in_use(mount_point: &str, error: &str) -> Done {
    let who = holders(mount_point);
    let who =
        if who.is_empty() { String::new() } else { format!(": in use by {}", who.join(", ")) };
    Done::Failed { error: format!("{error}{who}") }
}

/// What came of a mount(8) that succeeded by its own word.
pub fn was_mounted(unit: &UnitName) -> Done {
    let path = warren_unit::escape::path_unescape(unit.prefix()).ok();
    match path.is_some_and(|path| mount::is_covered(Path::new(&path))) {
        true => Done::Ok,
        false => Done::Failed { error: "mount(8) ended, and nothing is mounted there".to_owned() },
    }
}

/// Whether the kernel has something other than a trap mounted at a mount unit's path, now; whether
/// it swaps to a swap unit's area.
pub fn is_mounted(unit: &UnitName) -> bool {
    is_mounted_now(unit, &mut Now::default())
}

/// The same of units that are looked at together.
pub fn is_mounted_now(unit: &UnitName, now: &mut Now) -> bool {
    let path = warren_unit::escape::path_unescape(unit.prefix()).ok();
    if is_swap(unit) {
        return path.is_some_and(|path| is_swapped_to(&path));
    }
    path.is_some_and(|path| is_topped(now, &path))
}

/// Whether a process is mount(8), or is to become it: no server of what it has mounted.
pub fn is_mount_tool(pid: i32) -> bool {
    let program = warren_sys::process::program(pid).unwrap_or_default();
    let program = program.trim_end_matches(" (deleted)");
    Path::new(program).file_name().is_some_and(|name| name == "mount") || program == own_program()
}

/// Whether something other than a trap is mounted at exactly this path.
fn is_at(path: &str) -> bool {
    is_topped(&mut Now::default(), path)
}

fn is_topped(now: &mut Now, path: &str) -> bool {
    now.at(path).ok().flatten().is_some_and(|mount| mount.fstype != "autofs")
}

/// Whether the kernel swaps to this file, or to this device, whatever it is called there.
pub fn is_swapped_to(what: &str) -> bool {
    let table = warren_sys::text::read("/proc/swaps").unwrap_or_default();
    let wanted = lead(what);
    areas(&table).any(|area| area == wanted)
}

/// The command line of swapon(8) for this unit.
pub fn swap_on_command(config: &MountConfig) -> Vec<String> {
    let mut argv = vec!["swapon".to_owned(), "--fixpgsz".to_owned()];
    if let Some(options) = &config.options {
        argv.extend(["-o".to_owned(), options.to_string()]);
    }
    argv.push(config.what.to_string());
    argv
}

/// The same of swapoff(8).
pub fn swap_off_command(config: &MountConfig) -> Vec<String> {
    vec!["swapoff".to_owned(), config.what.to_string()]
}

/// The command line of mount(8) for this unit.
pub fn mount_command(config: &MountConfig, remount: bool) -> Vec<String> {
    let mut argv = Vec::new();
    if !remount {
        let binds = options(config).flags.contains(mount::MountFlags::BIND);
        let binds = if binds { BINDS } else { "" };
        let place = format!("{MOUNT_AT}={:o}{binds}:{}", config.directory_mode, config.where_);
        argv.extend([own_program(), place]);
    }
    argv.push("mount".to_owned());
    let mut options: Vec<&str> = config.options.iter().map(|o| &**o).collect();
    if remount {
        options.push("remount");
    }
    if config.sloppy_options {
        argv.push("-s".to_owned());
    }
    if config.read_write_only {
        argv.push("-w".to_owned());
    }
    if !options.is_empty() {
        argv.extend(["-o".to_owned(), options.join(",")]);
    }
    if let Some(fs_type) = &config.fs_type {
        argv.extend(["-t".to_owned(), fs_type.to_string()]);
    }
    argv.extend([config.what.to_string(), config.where_.to_string()]);
    argv
}

/// What unmounts a mount that is in no file, unless umount(8) has to. Where its file system has no
/// `umount.TYPE`, the system call is all there is to it, and looks at nothing: umount(8) asks the mount's
/// server first.
pub fn unmount_step(config: &MountConfig) -> Option<Vec<String>> {
    let fs_type = config.fs_type.as_deref().unwrap_or_default();
    let helper = |directory: &&str| Path::new(directory).join(format!("umount.{fs_type}")).exists();
    let step = || vec![own_program(), Step::Unmount(config.where_.to_string()).to_command()];
    (!HELPERS.iter().any(helper)).then(step)
}

/// The command line of umount(8) for this unit.
pub fn unmount_command(config: &MountConfig) -> Vec<String> {
    let mut argv = vec!["umount".to_owned()];
    argv.extend(config.lazy_unmount.then(|| "-l".to_owned()));
    argv.extend(config.force_unmount.then(|| "-f".to_owned()));
    argv.push(config.where_.to_string());
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_mount_acts_on_are_told_from_those_of_the_kernel() {
        let for_tool = [
            "uid=daemon",
            "gid=",
            "X-mount.idmap=b:0:1:2",
            "X-mount.mode=0700",
            "X-mount.subdir=x",
        ];
        assert!(for_tool.into_iter().all(is_for_tool));
        let others = ["uid=1", "gid=0", "mode=0755", "X-mount.mkdir", "xuid=a", "uid_map=a", "ro"];
        assert!(!others.into_iter().any(is_for_tool));
    }
}
