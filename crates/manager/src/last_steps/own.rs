//! Which processes are Warrener's own, and are left running by the last steps.

use warren_sys::process;

/// Where Warrener's own processes live.
pub(super) const OWN_GROUP: &str = "init.scope";

/// What those of them are called that are neither process 1 nor this one.
const OWN_PROGRAMS: [&str; 2] = ["warrend", "warren-exec"];

/// How the name of a file ends that was removed (proc_pid_exe(5)).
pub(super) const REMOVED: &str = " (deleted)";

/// Whether this is the manager of this machine, one of its helpers, or a process that takes a step: a child
/// of process 1, and root's.
pub(super) fn is_own(pid: i32) -> bool {
    const ROOT: u32 = 0;
    let program = || process::program(pid).unwrap_or_default();
    let is_ours = |program: &str| {
        let name = program.rsplit('/').next().unwrap_or_default();
        OWN_PROGRAMS.contains(&name.strip_suffix(REMOVED).unwrap_or(name))
    };
    process::parent(pid).is_ok_and(|parent| parent == 1)
        && is_ours(&program())
        && process::runs_as(pid as u32, ROOT)
}
