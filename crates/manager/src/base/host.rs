//! What this host is to its manager.

use std::fs;
use std::path::Path;
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
        && is_init(&init)
}

/// Whether this is the file of our init, which runs on when a package has put another in its place.
fn is_init(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_suffix(REPLACED).unwrap_or(name) == "warren-init"
}

/// How the link to the file of a running program ends when that was removed (proc(5), `/proc/pid/exe`).
const REPLACED: &str = " (deleted)";

/// The file of this program, for another process to run. A package may have put another in its place, or
/// have taken it away: the kernel has it for as long as this process lives.
pub fn own_program() -> String {
    let path = std::env::current_exe().ok().filter(|path| path.exists());
    let kept = || format!("/proc/{}/exe", std::process::id());
    path.map_or_else(kept, |path| path.to_string_lossy().into_owned())
}

/// Whether a container ends with this manager: the process 1 in there is its init.
pub fn ends_container(scope: Scope) -> bool {
    scope == Scope::System
        && warren_sys::process::in_container()
        && std::os::unix::process::parent_id() == 1
}

/// Whether this is a machine of `warren run`, which ends where others boot again.
pub fn is_nested() -> bool {
    std::env::var_os("container").is_some_and(|name| name == "warren")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_is_ours_also_when_its_file_was_replaced() {
        assert!(is_init(Path::new("/usr/lib/warren/warren-init")));
        assert!(is_init(Path::new("/usr/lib/warren/warren-init (deleted)")));
        assert!(!is_init(Path::new("/usr/lib/systemd/systemd")) && !is_init(Path::new("")));
    }
}
