//! All that one scrape knows. Pure.

use std::collections::BTreeMap;

use warren_wire::control::MetricsAnswer;

/// How much is shown of what there may be any number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Units that use the most CPU time, and as many that use the most memory.
    pub top: usize,
    /// Slices.
    pub slices: usize,
    /// Timers.
    pub timers: usize,
    /// Selected units.
    pub units: usize,
}

/// What the kernel counts of a cgroup; none where its controller is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, in µs.
    pub cpu_us: Option<u64>,
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Tasks.
    pub tasks: Option<u64>,
    /// Bytes read from devices.
    pub read_bytes: Option<u64>,
    /// Bytes written to devices.
    pub written_bytes: Option<u64>,
    /// For how long tasks waited, in µs, by the resource and by `some` or `full`.
    pub pressure_us: BTreeMap<(&'static str, &'static str), u64>,
}

/// What cgroups told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    /// Slices that are shown, by their names.
    pub slices: Vec<(String, Usage)>,
    /// How many there are.
    pub slices_total: u64,
    /// The units that use most, by their names.
    pub units: Vec<(String, Usage)>,
    /// How old that choice is, in µs.
    pub age_us: u64,
    /// How long it took, in µs.
    pub took_us: u64,
}

/// All that one scrape knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// What the manager told; none if it does not answer.
    pub manager: Option<MetricsAnswer>,
    /// What the kernel told of its cgroups; none if they cannot be read, or were not looked at yet.
    pub groups: Option<Groups>,
    /// How long the last shutdown took, in µs.
    pub shutdown_us: Option<u64>,
    /// How long it took to collect all this, in µs.
    pub took_us: u64,
}
