//! Time as events carry it. The core reads no clock.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Microseconds of CLOCK_MONOTONIC: what deadlines and intervals are measured in.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Monotonic(pub u64);

/// One moment on both clocks, read once per batch by whoever feeds the core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// CLOCK_MONOTONIC.
    pub monotonic: Monotonic,
    /// CLOCK_REALTIME in microseconds since 1970. May jump; only shown, never compared.
    pub realtime_us: u64,
}

impl Monotonic {
    /// The moment `d` later; saturates, so 'for ever' stays for ever.
    pub fn after(self, d: Duration) -> Monotonic {
        Monotonic(self.0.saturating_add(u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
    }

    /// The moment `d` earlier; not before the clock began.
    pub fn before(self, d: Duration) -> Monotonic {
        Monotonic(self.0.saturating_sub(u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Time passed since `earlier`; zero if it lies in the future.
    pub fn since(self, earlier: Monotonic) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Moment {
    /// Neither clock was ever read: the moment has not happened.
    pub fn is_never(self) -> bool {
        self.monotonic.0 == 0
    }
}
