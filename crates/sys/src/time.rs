//! The clocks, in nanoseconds. Only programs at the edge read them; the core is told the time.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC: for durations and deadlines.
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// CLOCK_BOOTTIME: as monotonic, counting sleep.
pub fn boottime_ns() -> u64 {
    read(ClockId::Boottime)
}

/// CLOCK_REALTIME: since 1970; can jump.
pub fn realtime_ns() -> u64 {
    read(ClockId::Realtime)
}

/// CLOCK_REALTIME_COARSE: what file systems take the times of changes from, a tick behind.
pub fn coarse_ns() -> u64 {
    read(ClockId::RealtimeCoarse)
}

/// CPU time of this process.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    (t.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64)
}
