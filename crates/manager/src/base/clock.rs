//! The time, on both clocks.

use warren_core::model::time::{Moment, Monotonic};

/// The current moment on both clocks.
pub fn now() -> Moment {
    Moment {
        monotonic: Monotonic(warren_sys::time::monotonic_ns() / 1000),
        realtime_us: warren_sys::time::realtime_ns() / 1000,
    }
}
