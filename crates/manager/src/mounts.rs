//! Mounting and unmounting. What the kernel does by itself without waiting for anybody is done by
//! a worker; everything else (devices, network file systems, `mount.TYPE` helpers) by mount(8)
//! and umount(8) as child processes, which may hang without hurting anybody. Swap areas are told in
//! the words of mounts, and are swapon(8)'s and swapoff(8)'s.

use std::path::Path;

use crate::host::own_program;
use crate::last::Step;
use crate::last::holders::holders;
use crate::swap_table::{areas, lead};

use warren_core::event::Done;
use warren_sys::mount::{self, Unmount};
use warren_unit::config::MountConfig;
use warren_unit::{UnitName, UnitType};

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
const STACKED_MAX: usize = 32;

/// Whether a worker can do it.
pub fn is_quick(config: &MountConfig) -> bool {
    let options = options(config);
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
    if !remount && let Err(error) = prepare_mount_point(target, config.directory_mode) {
        return Done::Failed { error };
    }
    if options.flags.contains(mount::MountFlags::BIND)
        && !remount
        && !Path::new(&*config.what).exists()
        && let Err(e) = crate::traps::make_directories(&config.what, config.directory_mode)
    {
        return Done::Failed { error: format!("{}: {e}", config.what) };
    }
    let fs_type = config.fs_type.as_deref().unwrap_or("none");
    match mount::mount_fs(&config.what, target, fs_type, &options) {
        Ok(()) => Done::Ok,
        Err(e) => Done::Failed { error: e.to_string() },
    }
}

/// Makes the directory to mount on, if there is nothing, with this mode (systemd.mount(5),
/// `DirectoryMode=`).
fn prepare_mount_point(target: &str, mode: u32) -> Result<(), String> {
    let path = Path::new(target);
    if !path.exists() {
        crate::traps::make_directories(target, mode).map_err(|e| format!("{target}: {e}"))?;
    }
    // Whoever may write there could have anything mounted over.
    match std::fs::canonicalize(path).is_ok_and(|real| real != path) {
        true => Err(format!("{target}: there is a symbolic link in the path")),
        false => Ok(()),
    }
}

/// What mount(8) is told begins with this, where warrend is to prepare the mount point before:
/// `--mount-at=MODE:PATH COMMAND...`, in the process that may wait for a path that does not answer.
pub const MOUNT_AT: &str = "--mount-at";

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
    let error = match place.split_once(':').map(|(mode, path)| (u32::from_str_radix(mode, 8), path))
    {
        Some((Ok(mode), path)) => prepare_mount_point(path, mode).err(),
        _ => Some(format!("{place}: not MODE:PATH")),
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
        match top_type(target) {
            None => return Done::Ok,
            Some(fs_type) if fs_type == "autofs" => return Done::Ok,
            Some(_) => {}
        }
        if let Err(e) = mount::unmount(target, how) {
            return match e.errno {
                22 | 2 => Done::Ok,
                _ if e.is_busy() => in_use(target, &e.to_string()),
                _ => Done::Failed { error: e.to_string() },
            };
        }
    }
    Done::Ok
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
    match is_mounted(unit) {
        true => Done::Ok,
        false => Done::Failed { error: "mount(8) ended, and nothing is mounted there".to_owned() },
    }
}

/// Whether the kernel has something other than a trap mounted at a mount unit's path, now; whether
/// it swaps to a swap unit's area.
pub fn is_mounted(unit: &UnitName) -> bool {
    let path = warren_unit::escape::path_unescape(unit.prefix()).ok();
    if is_swap(unit) {
        return path.is_some_and(|path| is_swapped_to(&path));
    }
    path.and_then(|path| top_type(&path)).is_some_and(|fs_type| fs_type != "autofs")
}

/// The type of the topmost mount at exactly this path, if there is one.
fn top_type(path: &str) -> Option<String> {
    mount::at(path).ok().flatten().map(|m| m.fstype)
}

/// Whether the unit is a swap area's.
pub fn is_swap(unit: &UnitName) -> bool {
    unit.unit_type() == UnitType::Swap
}

/// Whether the kernel swaps to this file, or to this device, whatever it is called there.
pub fn is_swapped_to(what: &str) -> bool {
    let table = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
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
        let place = format!("{MOUNT_AT}={:o}:{}", config.directory_mode, config.where_);
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

/// The same for a mount that is in no file. Where its file system has no `umount.TYPE`, the system
/// call is all there is to it, and looks at nothing: umount(8) asks the mount's server first.
pub fn plain_unmount_command(config: &MountConfig) -> Vec<String> {
    let fs_type = config.fs_type.as_deref().unwrap_or_default();
    let helper = |directory: &&str| Path::new(directory).join(format!("umount.{fs_type}")).exists();
    match HELPERS.iter().any(helper) {
        false => vec![own_program(), Step::Unmount(config.where_.to_string()).to_command()],
        true => unmount_command(config),
    }
}

/// The command line of umount(8) for this unit.
pub fn unmount_command(config: &MountConfig) -> Vec<String> {
    let mut argv = vec!["umount".to_owned()];
    argv.extend(config.lazy_unmount.then(|| "-l".to_owned()));
    argv.extend(config.force_unmount.then(|| "-f".to_owned()));
    argv.push(config.where_.to_string());
    argv
}
