//! Where this process runs.

use warren_sys::cgroup::Tree;

/// Where we are.
#[derive(Debug)]
pub struct Place {
    /// Process 1 of its pid namespace.
    pub is_pid_1: bool,
    /// Process 1 of the host itself: leaving would be a kernel panic.
    pub is_host: bool,
    /// The cgroups to be managed.
    pub tree: Option<Tree>,
}
