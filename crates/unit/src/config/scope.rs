//! \[Scope\] (systemd.scope(5)).

use std::time::Duration;

use super::{CgroupConfig, KillConfig, OomPolicy};

/// \[Scope\]: a group of processes that another program started.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeConfig {
    /// TimeoutStopSec=; `None` waits for ever.
    pub timeout_stop: Option<Duration>,
    /// RuntimeMaxSec=
    pub runtime_max: Option<Duration>,
    /// RuntimeRandomizedExtraSec=
    pub runtime_randomized_extra: Duration,
    /// OOMPolicy=
    pub oom_policy: OomPolicy,
    /// The name on the bus of the program that is asked to end its processes, in the place of a signal (Controller of
    /// org.freedesktop.systemd1(5)).
    pub controller: Option<Box<str>>,
    /// How it is ended.
    pub kill: KillConfig,
    /// Its limits.
    pub cgroup: Box<CgroupConfig>,
}
