//! Paths that settings stand for (systemd.exec(5), at each).

use super::model::{Access, Content, Entry, Processes, Tmpfs};

/// What ProtectSystem= makes read-only, from `yes` on.
pub(super) const SYSTEM: [&str; 3] = ["/usr", "/boot", "/efi"];

/// And with `full`.
pub(super) const CONFIGURATION: &str = "/etc";

/// What `strict` leaves as it is.
pub(super) const API: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What ProtectHome= is about; ProtectSystem=strict leaves it to that.
pub(super) const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];

/// What ProtectKernelTunables= makes read-only.
pub(super) const TUNABLES: [&str; 8] = [
    "/proc/acpi",
    "/proc/fs",
    "/proc/irq",
    "/proc/latency_stats",
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/timer_stats",
    "/sys",
];

/// And what it hides.
pub(super) const KERNEL_MEMORY: [&str; 2] = ["/proc/kallsyms", "/proc/kcore"];

/// What ProtectKernelModules= hides.
pub(super) const MODULES: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];

/// What ProtectKernelLogs= hides.
pub(super) const KERNEL_LOGS: [&str; 2] = ["/dev/kmsg", "/proc/kmsg"];

/// What ProtectControlGroups= makes read-only.
pub(super) const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Where files for a while are; PrivateTmp= gives others.
pub const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// What MountAPIVFS= mounts below a root directory where nothing is mounted yet (systemd.exec(5), there).
pub fn api_file_systems() -> Vec<Entry> {
    let bound =
        |path: &str| Content::Bind { source: path.to_owned(), recursive: true, read_only: false };
    let contents = [
        ("/proc", Content::Processes(Processes::default())),
        ("/sys", bound("/sys")),
        ("/dev", bound("/dev")),
        ("/run", Content::Tmpfs(Tmpfs::with_options(""))),
    ];
    contents.iter().flat_map(|(path, content)| all(&[*path], content).collect::<Vec<_>>()).collect()
}

/// Devices of a private /dev: name, major and minor number (Documentation/admin-guide/devices.txt).
pub const DEVICE_NODES: [(&str, u32, u32); 7] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
    ("ptmx", 5, 2),
];

/// Links of a private /dev.
pub const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("log", "/run/systemd/journal/dev-log"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

/// Directories of a private /dev over which the host's are mounted.
pub const DEVICE_DIRECTORIES: [&str; 4] = ["hugepages", "mqueue", "pts", "shm"];

/// Entries for paths that need not be there.
pub(super) fn all<'a>(
    paths: &'a [&'a str],
    content: &'a Content,
) -> impl Iterator<Item = Entry> + 'a {
    paths.iter().map(|path| Entry {
        path: (*path).to_owned(),
        in_root: true,
        optional: true,
        content: content.clone(),
    })
}

/// Cannot be written to.
pub(super) const READ_ONLY: Content = Content::Access(Access { write: Some(false), execute: None });

/// Is as the host has it.
pub(super) const AS_IT_IS: Content = Content::Access(Access { write: Some(true), execute: None });
