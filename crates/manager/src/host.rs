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

/// How many datagrams may wait in a Unix socket (unix(7), `max_dgram_qlen`).
const UNIX_QUEUE: &str = "/proc/sys/net/unix/max_dgram_qlen";

/// With the kernel's 10, whoever logs waits for the log daemon every few lines.
const UNIX_QUEUE_MIN: u32 = 512;

/// Has sockets that are made from now on take more datagrams. For the owner of the machine: it
/// counts for every process in its network.
///
/// # Errors
/// The kernel does not take it.
pub fn lengthen_unix_queues() -> std::io::Result<()> {
    let now = fs::read_to_string(UNIX_QUEUE)?.trim().parse::<u32>().unwrap_or(0);
    if now >= UNIX_QUEUE_MIN {
        return Ok(());
    }
    fs::write(UNIX_QUEUE, format!("{UNIX_QUEUE_MIN}\n"))
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

/// Whether a container ends with this manager: the process 1 in there is its init.
pub fn ends_container(scope: Scope) -> bool {
    scope == Scope::System
        && warren_sys::process::in_container()
        && std::os::unix::process::parent_id() == 1
}
