//! What this host is to its manager.

use std::fs;
use std::sync::OnceLock;

use warren_unit::Scope;

/// More do not read faster: the kernel's work is shared by all.
const THREADS_MAX: usize = 4;

/// Threads among which the loader's work is divided. Asked once: where cgroups of version 1 are
/// mounted, the answer costs the standard library reading the whole mount table.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    let ask = || std::thread::available_parallelism().map_or(1, |n| n.get()).min(THREADS_MAX);
    *THREADS.get_or_init(ask)
}

/// Whether the machine is this manager's to take apart. Everything must say so: in a container or
/// beside another process 1, swap areas and loop devices are somebody else's.
pub fn owns_machine(scope: Scope) -> bool {
    let init = fs::read_link("/proc/1/exe").unwrap_or_default();
    scope == Scope::System
        && !warren_sys::process::in_container()
        && std::os::unix::process::parent_id() == 1
        && init.file_name().is_some_and(|name| name == "warren-init")
}
