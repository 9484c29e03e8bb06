//! The clocks that the daemon stamps entries with.
//! Must not: keep a deadline; whatever waits for one keeps its own.
//! Runs on any thread.

use warren_sys::time;

/// The monotonic clock, µs.
pub fn now_us() -> u64 {
    time::monotonic_ns() / 1000
}

/// When something came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic clock, µs.
    pub monotonic_us: u64,
    /// Wall clock, µs since 1970.
    pub realtime_us: u64,
}

impl Moment {
    /// Reads both clocks.
    pub fn now() -> Moment {
        Moment { monotonic_us: now_us(), realtime_us: time::realtime_ns() / 1000 }
    }
}
